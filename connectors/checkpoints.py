"""A checkpoint in one file: state, position and campaign, saved in one transaction.

The file has two slots (see :mod:`ldp_stream.connectors.checkpoint_format`). A save fills the older slot and
commits, so that after a crash at any moment the file holds the new checkpoint or the one before, whole. If
one slot is damaged, the other is used and the checkpoint says so (``recovered``).

A rollback journal is used rather than a write-ahead log: between saves everything is in the one file, so a
copy of it is a copy of the checkpoint. ``synchronous = EXTRA`` makes a save survive a loss of power.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

from ..errors import CampaignMismatch, InvalidInput, InvalidSnapshot, LdpStreamError
from .base import Checkpoint, CheckpointStore
from .checkpoint_format import (
    Companion,
    Slot,
    check_kind,
    connect,
    explained,
    has_companion,
    is_whole,
    make,
    newest,
    newest_generation,
    put_in_place,
    sync_folder,
    transaction,
    write,
)

__all__ = ["FileCheckpoint"]

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY}


class FileCheckpoint(CheckpointStore):
    """A checkpoint file, which also keeps the save before the newest.

    The first :meth:`save` makes the file. A damaged file is replaced as a whole by the first save after it
    was loaded. It holds a state and no raw data.

    Not guaranteed: anything on a network file system without locks.

    Parameters
    ----------
    path
        The file.
    companion
        What else is kept in the file and saved in the same transaction. With one, what the file holds must be
        loaded before the first save; without one, a file that has one can be read and not saved to.

    Raises
    ------
    InvalidInput
        If it is a folder, or in a folder that is not there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with FileCheckpoint(pathlib.Path(folder) / "state.ckpt") as store:
    ...         before = store.load()
    ...         store.save(Checkpoint("{}", b"state", {"line": 10, "byte": 240}))
    ...         after = store.load()
    >>> before, after
    (None, Checkpoint(campaign='{}', state=b'state', position={'byte': 240, 'line': 10}, recovered=False))
    """

    def __init__(self, path: str | os.PathLike[str], companion: Companion | None = None) -> None:
        self._path = Path(path)
        self._companion = companion
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            raise InvalidInput(f"path = {str(path)!r}: must be a file in a folder that exists")
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._last: Slot | None = None
        self._damaged = False
        self._kept_by_another = False

    def load(self) -> Checkpoint | None:
        """Return the newest sound checkpoint, or None if there is no file.

        A companion goes to the same save, and drops what it has not saved.

        Raises
        ------
        InvalidSnapshot
            If the file is no checkpoint, is damaged beyond its two slots, or is of another format; or if what
            the companion keeps in it is damaged.
        InvalidInput
            If it cannot be opened, another process keeps it locked, or it does not fit the companion.
        """
        self.close()
        if not self._path.exists():
            if self._companion is not None:
                self._companion.start()
            return None
        try:
            slot, recovered = self._open()
        except BaseException as error:
            self.close()
            if isinstance(error, ValueError | sqlite3.Error) and not isinstance(error, LdpStreamError):
                raise explained(self._path, error) from None
            raise
        self._remember(slot)
        return replace(slot.checkpoint, recovered=recovered)

    def _open(self) -> tuple[Slot, bool]:
        """Connect and read both slots."""
        if self._path.stat().st_size == 0:
            raise ValueError("it is empty")
        self._identity = self._identify()
        self._connection = connect(self._path)
        check_kind(self._connection, self._path)
        slot, recovered = newest(self._connection)
        accompanied = has_companion(self._connection)
        self._kept_by_another = accompanied and self._companion is None
        if self._companion is not None:
            if not accompanied:
                raise InvalidInput(
                    f"{self._path}: is a checkpoint of 'replay' or 'ingest', which keep no tokens; "
                    "choose another file"
                )
            self._companion.load(self._connection, slot.generation)
        # of a file that is only read the structure does not matter, and it may be large
        self._damaged = not self._kept_by_another and (recovered or not is_whole(self._connection))
        return slot, recovered

    def _identify(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_dev, status.st_ino

    def _remember(self, slot: Slot) -> None:
        """Keep what the next save needs to know; the state is not part of it."""
        self._last = replace(slot, checkpoint=replace(slot.checkpoint, state=b""))

    def save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint; when this returns it survives a crash and a loss of power.

        Raises
        ------
        CampaignMismatch
            If the file holds another campaign's checkpoint.
        InvalidInput
            If the file has a companion that is not given here, or was not loaded into the one that is.
        InvalidSnapshot
            If there is a file that is not a sound checkpoint, or another process has saved to it or moved it
            since this one last did.
        OSError
            If it could not be written (a full disk, say); what was saved before is unchanged.
        """
        if self._last is None:
            self._look_first()
        last = self._last
        if last is not None and last.checkpoint.campaign != checkpoint.campaign:
            raise CampaignMismatch(f"{self._path}: holds another campaign's checkpoint; choose another file")
        if self._kept_by_another:
            raise InvalidInput(f"{self._path}: is a checkpoint of 'serve'; only 'serve' can go on with it")
        following = Slot(1 if last is None else last.generation + 1, checkpoint)
        try:
            if last is None or self._damaged or self._connection is None:
                self._rebuild(following)
            else:
                self._add_or_rebuild(self._connection, last, following)
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: not saved: {error}; what was saved before is kept") from None
        except ValueError as error:
            raise error if isinstance(error, LdpStreamError) else explained(self._path, error) from None

    def _look_first(self) -> None:
        """Find out what the file holds, if there is one."""
        if self._companion is None:
            self.load()
        elif self._path.exists():
            raise InvalidInput(f"{self._path}: is there already, and was not loaded; choose another file")

    def _add_or_rebuild(self, connection: sqlite3.Connection, last: Slot, following: Slot) -> None:
        """Fill the older slot, or make the file anew if damage shows only now."""
        try:
            self._add(connection, last, following)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
            if code not in _DAMAGE or not os.access(self._path, os.W_OK):
                raise
            self._rebuild(following)

    def _add(self, connection: sqlite3.Connection, last: Slot, following: Slot) -> None:
        """Fill the older slot of the file."""
        if not self._path.exists() or self._identify() != self._identity:
            raise InvalidSnapshot(f"{self._path}: was moved or replaced while it was in use")
        with transaction(connection):
            if newest_generation(connection) != last.generation:
                raise InvalidSnapshot(f"{self._path}: another process has saved to it; choose another file")
            write(connection, following)
            if self._companion is not None:
                self._companion.save(connection, following.generation)
        self._take_note(following)

    def _rebuild(self, following: Slot) -> None:
        """Make the file anew, beside the old one, and put it in its place."""
        part = make(self._path, following, self._companion)
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        try:
            put_in_place(part, self._path)
        finally:
            if self._path.exists():
                self._reopen()
        self._damaged = False
        self._take_note(following)
        sync_folder(self._path.absolute().parent)

    def _take_note(self, slot: Slot) -> None:
        """Remember that a save is in the file."""
        self._remember(slot)
        if self._companion is not None:
            self._companion.saved()

    def _reopen(self) -> None:
        """Open what is at the path now."""
        self._identity = self._identify()
        self._connection = connect(self._path)
        if self._companion is not None:
            self._companion.use(self._connection)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._last = None
        self._damaged = False
        self._kept_by_another = False
