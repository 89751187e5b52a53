"""A checkpoint in one file: state, position and campaign, saved in one transaction.

The file is a SQLite database with two slots. A save writes the older slot and commits, so that after a crash at any
moment the file holds the new checkpoint or the one before, whole. Each slot carries a SHA-256 over

    generation, campaign, state, position    (each preceded by its length),

and the sound slot with the highest generation counts. If one slot is damaged, the other is used and the
checkpoint says so (``recovered``).

A rollback journal is used rather than a write-ahead log: between saves everything is in the one file, so that a
copy of it is a copy of the checkpoint. ``synchronous = EXTRA`` makes a save survive a loss of power.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import CampaignMismatch, InvalidInput, InvalidSnapshot
from .base import Checkpoint, CheckpointStore

__all__ = ["FileCheckpoint"]

_APPLICATION_ID = 0x6C647073  # "ldps", in the file's header
_VERSION = 1
_SLOTS = ("slot_0", "slot_1")
_TABLE = "CREATE TABLE {} (generation INTEGER, campaign TEXT, state BLOB, position TEXT, sha256 BLOB)"
_WAIT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Slot:
    """A sound slot: which one, and what it holds."""

    index: int
    generation: int
    checkpoint: Checkpoint


def _digest(generation: int, campaign: bytes, state: bytes, position: bytes) -> bytes:
    content = hashlib.sha256()
    for part in (str(generation).encode(), campaign, state, position):
        content.update(len(part).to_bytes(8, "big") + part)
    return content.digest()


def _read_slot(connection: sqlite3.Connection, index: int) -> _Slot | None:
    """Return what a slot holds, or None if it is empty; raise ValueError or sqlite3.Error if it is damaged."""
    rows = connection.execute(
        "SELECT generation, CAST(campaign AS BLOB), state, CAST(position AS BLOB), sha256 "
        f"FROM {_SLOTS[index]}"
    ).fetchall()
    if not rows:
        return None
    ((generation, campaign, state, position, sha256),) = rows
    if not isinstance(generation, int) or not all(isinstance(part, bytes) for part in (campaign, state, position)):
        raise ValueError("a field is missing")
    if _digest(generation, campaign, state, position) != sha256:
        raise ValueError("the SHA-256 does not fit")
    return _Slot(index, generation, Checkpoint(campaign.decode(), state, json.loads(position)))


def _newest(connection: sqlite3.Connection) -> tuple[_Slot, bool]:
    """Return the sound slot with the highest generation, and whether the other one is damaged."""
    sound: list[_Slot] = []
    faults: list[str] = []
    for index in range(len(_SLOTS)):
        try:
            slot = _read_slot(connection, index)
        except (ValueError, sqlite3.Error) as error:
            if _is_busy(error):
                raise
            faults.append(str(error))
        else:
            sound += [slot] if slot is not None else []
    if not sound:
        raise ValueError("; ".join(faults) or "both slots are empty")
    return max(sound, key=lambda slot: slot.generation), bool(faults)


def _is_busy(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _write(connection: sqlite3.Connection, index: int, generation: int, checkpoint: Checkpoint) -> None:
    """Put a checkpoint into a slot, within the transaction that is open."""
    position = json.dumps(dict(checkpoint.position), sort_keys=True)
    sha256 = _digest(generation, checkpoint.campaign.encode(), checkpoint.state, position.encode())
    connection.execute(f"DELETE FROM {_SLOTS[index]}")
    connection.execute(
        f"INSERT INTO {_SLOTS[index]} VALUES (?, ?, ?, ?, ?)",
        (generation, checkpoint.campaign, checkpoint.state, position, sha256),
    )


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Hold the file's write lock; commit at the end, or roll back if an exception passes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_WAIT_SECONDS, isolation_level=None
    )


class FileCheckpoint(CheckpointStore):
    """A checkpoint file, which also keeps the save before the newest.

    The file is made by the first :meth:`save`. It holds the state of a campaign, no raw data.

    Not guaranteed: that a file on a network file system without locks survives two writers.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from ldp_stream.connectors.base import Checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> with FileCheckpoint(pathlib.Path(folder.name) / "state.ckpt") as store:
    ...     store.load() is None
    ...     store.save(Checkpoint("{}", b"state", {"line": 10, "byte": 240}))
    ...     store.load().position
    True
    {'byte': 240, 'line': 10}
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._last: tuple[int, int, str] | None = None

    def load(self) -> Checkpoint | None:
        """Return the newest sound checkpoint, or None if there is no file.

        Raises
        ------
        InvalidSnapshot
            If the file is not a checkpoint, is damaged beyond its two slots, or of a newer version.
        InvalidInput
            If another process holds the file locked.
        """
        if self._connection is None and not self._path.exists():
            return None
        slot, damaged = self._newest(self._open())
        self._last = (slot.index, slot.generation, slot.checkpoint.campaign)
        found = slot.checkpoint
        return Checkpoint(found.campaign, found.state, found.position, recovered=damaged)
