"""The ledger's SQLite file: its layout, how it comes into being, and when it is refused.

A new file is laid out under another name and then given its own, if no file has that name by then. So a
ledger is there as a whole or not at all, and an empty or short file can only be damage: it is refused.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from ..privacy import PrivacyBudget, compose

__all__ = [
    "DIGEST_BYTES",
    "connect",
    "create",
    "lay_out",
    "read_limits",
    "read_spent",
    "read_stored",
    "refuse_unsound",
    "set_limits",
    "transaction",
]

DIGEST_BYTES = 32
_SECRET_BYTES = 32
_APPLICATION_ID = 0x6C64706C  # "ldpl", in the file's header
_VERSION = 1
_SECONDS_TO_WAIT = 30.0
_LARGEST = sys.float_info.max
_LAYOUT = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
CREATE TABLE device (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    secret BLOB NOT NULL CHECK (typeof(secret) = 'blob' AND length(secret) = {_SECRET_BYTES}),
    largest_epsilon REAL NOT NULL
        CHECK (typeof(largest_epsilon) = 'real' AND largest_epsilon BETWEEN 0 AND {_LARGEST}),
    lifetime_epsilon REAL NOT NULL
        CHECK (typeof(lifetime_epsilon) = 'real' AND lifetime_epsilon BETWEEN 0 AND {_LARGEST}),
    lifetime_delta REAL NOT NULL
        CHECK (typeof(lifetime_delta) = 'real' AND lifetime_delta BETWEEN 0 AND 1)
);
CREATE TABLE reports (
    digest BLOB PRIMARY KEY NOT NULL CHECK (typeof(digest) = 'blob' AND length(digest) = {DIGEST_BYTES}),
    name TEXT NOT NULL,
    epsilon REAL NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon BETWEEN 0 AND {_LARGEST}),
    delta REAL NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
    report BLOB NOT NULL CHECK (typeof(report) = 'blob'),
    time INTEGER NOT NULL
);
"""


def lay_out(db: sqlite3.Connection, limits: tuple[float, float, float]) -> None:
    """Make the tables and the device's secret in an empty database.

    Parameters
    ----------
    db : sqlite3.Connection
        In autocommit mode.
    limits : tuple[float, float, float]
        Largest epsilon of one campaign, lifetime epsilon, lifetime delta.
    """
    db.executescript(_LAYOUT)
    db.execute("INSERT INTO device VALUES (1, ?, ?, ?, ?)", (os.urandom(_SECRET_BYTES), *limits))
    db.execute("COMMIT")


def connect(path: Path) -> sqlite3.Connection:
    """Open a file that is there; commits are on the disk when they return.

    EXTRA and not FULL: a commit removes the rollback journal, and with FULL a power cut soon after may
    bring the journal back, which undoes the commit (SQLite's documentation of ``PRAGMA synchronous``).
    """
    db = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=_SECONDS_TO_WAIT)
    db.execute("PRAGMA synchronous = EXTRA")
    db.execute("PRAGMA fullfsync = 1")
    return db


def create(path: Path, limits: tuple[float, float, float]) -> None:
    """Put a new ledger at ``path``, mode 0600; if another process was faster, leave its file."""
    draft = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")
    _write_new(draft, b"")
    try:
        with contextlib.closing(connect(draft)) as db:
            lay_out(db, limits)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
        except OSError:  # no hard links here
            with contextlib.suppress(FileExistsError):
                _write_new(path, draft.read_bytes())
    finally:
        draft.unlink()


def refuse_unsound(db: sqlite3.Connection) -> None:
    """Raise ``sqlite3.DatabaseError`` unless this is a whole ledger of a version that is understood."""
    (application_id,) = db.execute("PRAGMA application_id").fetchone()
    if application_id != _APPLICATION_ID:
        raise sqlite3.DatabaseError("it is not a ledger")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != _VERSION:
        raise sqlite3.DatabaseError(f"ledger format version = {version}: must be {_VERSION}")
    (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"it is damaged: {verdict}")
    if db.execute("SELECT count(*) FROM device").fetchone() != (1,):
        raise sqlite3.DatabaseError("it is damaged: the device's own row is missing")
    db.execute("SELECT 1 FROM reports LIMIT 1")


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Hold the only right to write from here to the commit; any exception undoes everything."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def read_limits(db: sqlite3.Connection) -> tuple[float, PrivacyBudget]:
    """Return the owner's limits: largest epsilon of one campaign, and the lifetime budget."""
    row = db.execute("SELECT largest_epsilon, lifetime_epsilon, lifetime_delta FROM device").fetchone()
    return row[0], PrivacyBudget(row[1], row[2])


def set_limits(db: sqlite3.Connection, largest_epsilon: float | None, lifetime: PrivacyBudget | None) -> None:
    """Write down the limits that are given; ``None`` keeps the old one."""
    with transaction(db):
        if largest_epsilon is not None:
            db.execute("UPDATE device SET largest_epsilon = ?", (largest_epsilon,))
        if lifetime is not None:
            row = (lifetime.epsilon, lifetime.delta)
            db.execute("UPDATE device SET lifetime_epsilon = ?, lifetime_delta = ?", row)


def read_spent(db: sqlite3.Connection) -> PrivacyBudget:
    """Return what all stored reports cost together."""
    return compose(*(PrivacyBudget(*row) for row in db.execute("SELECT epsilon, delta FROM reports")))


def read_stored(db: sqlite3.Connection, digest: bytes) -> bytes | None:
    """Return the report of this campaign, or ``None``."""
    row = db.execute("SELECT report FROM reports WHERE digest = ?", (digest,)).fetchone()
    return None if row is None else row[0]


def _write_new(path: Path, content: bytes) -> None:
    """Write a file that is not there yet, mode 0600, down to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
