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

from ..errors import CampaignMismatch, InvalidInput, InvalidSnapshot
from .base import Checkpoint, CheckpointStore
from .checkpoint_format import (
    Slot,
    check_kind,
    connect,
    create,
    is_whole,
    newest,
    newest_generation,
    transaction,
    write,
)

__all__ = ["FileCheckpoint"]

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        if self._path.is_dir() or not self._path.absolute().parent.is_dir():
            raise InvalidInput(f"path = {str(path)!r}: must be a file in a folder that exists")
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._last: Slot | None = None
        self._damaged = False

    def load(self) -> Checkpoint | None:
        """Return the newest sound checkpoint, or None if there is no file.

        Raises
        ------
        InvalidSnapshot
            If the file is no checkpoint, is damaged beyond its two slots, or is of another format.
        InvalidInput
            If it cannot be opened, or another process keeps it locked.
        """
        self.close()
        if not self._path.exists():
            return None
        try:
            slot, recovered = self._open()
        except BaseException as error:
            self.close()
            if isinstance(error, ValueError | sqlite3.Error) and not isinstance(error, InvalidSnapshot):
                raise self._explained(error) from None
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
        self._damaged = recovered or not is_whole(self._connection)
        return slot, recovered

    def _explained(self, error: ValueError | sqlite3.Error) -> InvalidInput | InvalidSnapshot:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        if code in _LOCKED:
            return InvalidInput(f"{self._path}: is locked by another process")
        if code == sqlite3.SQLITE_CANTOPEN:
            return InvalidInput(f"{self._path}: cannot be opened")
        return InvalidSnapshot(
            f"{self._path}: is not a sound checkpoint ({error}); put a sound copy in its place, "
            "or move it away to start again from the beginning"
        )

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
        InvalidSnapshot
            If there is a file that is not a sound checkpoint, or another process has saved to it or moved it
            since this one last did.
        OSError
            If it could not be written (a full disk, say); what was saved before is unchanged.
        """
        if self._last is None:
            self.load()
        last = self._last
        if last is not None and last.checkpoint.campaign != checkpoint.campaign:
            raise CampaignMismatch(f"{self._path}: holds another campaign's checkpoint; choose another file")
        following = Slot(1 if last is None else last.generation + 1, checkpoint)
        try:
            if last is None or self._damaged or self._connection is None:
                self._rebuild(following)
            else:
                self._add_or_rebuild(self._connection, last, following)
        except sqlite3.Error as error:
            raise OSError(f"{self._path}: not saved: {error}; what was saved before is kept") from None
        self._remember(following)

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

    def _rebuild(self, following: Slot) -> None:
        """Make the file anew, beside the old one, and put it in its place."""
        self.close()
        create(self._path, following)
        self._identity = self._identify()
        self._connection = connect(self._path)

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._last = None
        self._damaged = False
