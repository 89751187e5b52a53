"""The format of a checkpoint file: a SQLite database with two slots, each in a table of its own.

A slot holds generation, campaign, state, position and the SHA-256 over them,

    SHA-256(generation, campaign, state, position),    each preceded by its length in 8 bytes,

and the sound slot with the highest generation is the checkpoint. Generation g is in slot (g - 1) mod 2, and
two sound slots are one generation apart. The functions work on a connection and leave transactions to the
caller, so that whatever belongs to the same checkpoint can be written in the same one: a :class:`Companion`
has tables of its own in the file.
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
from typing import Protocol

from ..errors import InvalidInput, InvalidSnapshot, LdpStreamError
from .base import Checkpoint

__all__ = [
    "COMPANION",
    "SLOTS",
    "Companion",
    "Slot",
    "check_kind",
    "connect",
    "explained",
    "has_companion",
    "is_whole",
    "make",
    "newest",
    "newest_generation",
    "put_in_place",
    "read_transaction",
    "sync_folder",
    "transaction",
    "write",
]

_APPLICATION_ID = 0x6C647073  # "ldps", in the file's header
_FORMAT = 1
_WAIT_SECONDS = 5.0
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_TABLE = "CREATE TABLE {} (generation INTEGER, campaign TEXT, state BLOB, position TEXT, sha256 BLOB)"

SLOTS = ("slot_0", "slot_1")
"""The tables, filled in turn."""

COMPANION = "token_"
"""What the names of a companion's tables begin with."""


@dataclass(frozen=True, slots=True)
class Slot:
    """What one slot holds.

    Parameters
    ----------
    generation
        How many saves there were, this one included.
    checkpoint
        The checkpoint.
    """

    generation: int
    checkpoint: Checkpoint

    @property
    def table(self) -> str:
        """The table it belongs in."""
        return SLOTS[(self.generation - 1) % len(SLOTS)]


class Companion(Protocol):
    """Something that is kept in a checkpoint's file, in tables of its own, and saved in the same transaction.

    A save may turn out to be damaged, and then the one before it is loaded: both must be there.
    """

    def start(self) -> None:
        """Begin empty: there is no file."""

    def load(self, connection: sqlite3.Connection, generation: int) -> None:
        """Read what belongs to a save, and go on reading through this connection.

        Raises ValueError or sqlite3.Error if it is damaged, and InvalidInput if it does not fit.
        """

    def save(self, connection: sqlite3.Connection, generation: int) -> None:
        """Write what is new since the last save, in the transaction that is open."""

    def copy(self, connection: sqlite3.Connection, generation: int) -> None:
        """Make tables in a new file and write everything, for this save and for the one before."""

    def saved(self) -> None:
        """Take note that the last save or copy is committed; without this call it never was."""

    def use(self, connection: sqlite3.Connection) -> None:
        """Go on reading through this connection: the file was opened again."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a file that exists; the first reading undoes what a crash left half done."""
    uri = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the file's write lock; commit at the end, roll back if an exception passes."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Hold the file's read lock; damage passes as InvalidSnapshot, other complaints of SQLite as OSError."""
    try:
        connection.execute("BEGIN")
        try:
            yield
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except LdpStreamError:
        raise
    except sqlite3.OperationalError as error:
        raise OSError(f"{_path_of(connection)}: cannot be read: {error}") from None
    except (ValueError, sqlite3.Error) as error:
        raise explained(_path_of(connection), error) from None


def _path_of(connection: sqlite3.Connection) -> Path:
    return Path(connection.execute("PRAGMA database_list").fetchone()[2])


def explained(path: Path, error: ValueError | sqlite3.Error) -> InvalidInput | InvalidSnapshot:
    """Return what to raise when a file cannot be read: what is wrong with it, and what to do."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    if code in _LOCKED:
        return InvalidInput(f"{path}: is locked by another process")
    if code == sqlite3.SQLITE_CANTOPEN:
        return InvalidInput(f"{path}: cannot be opened")
    return InvalidSnapshot(
        f"{path}: is not a sound checkpoint ({error}); put a sound copy in its place, "
        "or move it away to start again from the beginning"
    )


def has_companion(connection: sqlite3.Connection) -> bool:
    """Say whether the file has a companion's tables."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return any(str(name).startswith(COMPANION) for (name,) in names)


def check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that is no checkpoint, or one of another format, with InvalidSnapshot."""
    ((application,),) = connection.execute("PRAGMA application_id").fetchall()
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    if application != _APPLICATION_ID:
        raise InvalidSnapshot(f"{path}: is a database, but no checkpoint of ldp-stream; choose another file")
    if version != _FORMAT:
        raise InvalidSnapshot(
            f"{path}: is a checkpoint of format {version}, and this ldp-stream reads format {_FORMAT}; "
            "use the release that wrote it"
        )


def is_whole(connection: sqlite3.Connection) -> bool:
    """Say whether the file's structure is sound, so that it can be written to."""
    try:
        return connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False


def _digest(generation: int, campaign: bytes, state: bytes, position: bytes) -> bytes:
    content = hashlib.sha256()
    for part in (str(generation).encode(), campaign, state, position):
        content.update(len(part).to_bytes(8, "big") + part)
    return content.digest()


def _read(connection: sqlite3.Connection, table: str) -> Slot:
    """Return a slot; raise ValueError or sqlite3.Error if it is damaged."""
    rows = connection.execute(
        f"SELECT generation, CAST(campaign AS BLOB), state, CAST(position AS BLOB), sha256 FROM {table}"
    ).fetchall()
    if len(rows) != 1:
        raise ValueError(f"a slot holds {len(rows)} rows")
    ((generation, campaign, state, position, sha256),) = rows
    texts = (campaign, state, position)
    if not all(isinstance(text, bytes) for text in texts) or _digest(generation, *texts) != sha256:
        raise ValueError("its content does not fit its SHA-256")
    return Slot(generation, Checkpoint(campaign.decode(), state, json.loads(position)))


def newest(connection: sqlite3.Connection) -> tuple[Slot, bool]:
    """Return the sound slot with the highest generation, and whether the other slot is not the one before.

    Raises
    ------
    ValueError, sqlite3.Error
        If no slot is sound.
    """
    sound: list[Slot] = []
    faults: list[Exception] = []
    for table in SLOTS:
        try:
            sound.append(_read(connection, table))
        except (ValueError, sqlite3.Error) as error:
            faults.append(error)
    if not sound:
        raise faults[0]
    sound.sort(key=lambda slot: slot.generation)
    return sound[-1], len(sound) < len(SLOTS) or sound[-1].generation != sound[0].generation + 1


def newest_generation(connection: sqlite3.Connection) -> int:
    """Return the highest generation, without looking at the content."""
    both = " UNION ALL ".join(f"SELECT generation FROM {name}" for name in SLOTS)
    ((generation,),) = connection.execute(f"SELECT coalesce(max(generation), 0) FROM ({both})").fetchall()
    return int(generation)


def write(connection: sqlite3.Connection, slot: Slot) -> None:
    """Fill a slot, in the transaction that is open."""
    position = json.dumps(dict(slot.checkpoint.position), sort_keys=True)
    campaign, state = slot.checkpoint.campaign, slot.checkpoint.state
    sha256 = _digest(slot.generation, campaign.encode(), state, position.encode())
    connection.execute(f"DELETE FROM {slot.table}")
    connection.execute(
        f"INSERT INTO {slot.table} VALUES (?, ?, ?, ?, ?)",
        (slot.generation, campaign, state, position, sha256),
    )


def make(path: Path, slot: Slot, companion: Companion | None) -> Path:
    """Make a whole file beside the path, and return where it is.

    Both slots get the checkpoint, one as the generation before, so that an empty slot is always damage.
    """
    part = path.with_name(path.name + ".new")
    part.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = MEMORY")
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_FORMAT}")
            with transaction(connection):
                for name in SLOTS:
                    connection.execute(_TABLE.format(name))
                write(connection, slot)
                write(connection, Slot(slot.generation - 1, slot.checkpoint))
                if companion is not None:
                    companion.copy(connection, slot.generation)
    except BaseException:
        part.unlink(missing_ok=True)  # it may be large, and the disk full
        raise
    return part


def put_in_place(part: Path, path: Path) -> None:
    """Move a file that :func:`make` made to its place."""
    journal = path.with_name(path.name + "-journal")
    journal.unlink(missing_ok=True)  # a removed file's; SQLite would play it back into the new one
    part.replace(path)


def sync_folder(folder: Path) -> None:
    """Make a rename in a folder survive a loss of power, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
