"""Counted tokens on disk: sorted runs in a checkpoint's file, and the manifest that says they are all there.

A run holds tokens of one partition and one epoch, in the order of their bytes, cut into chunks of 124: with
their SHA-256 two of these fill a page of 4,096 bytes, and one chunk is all that is read to look a token up. A
run is never changed. ``token_runs`` has a row for each, ``token_chunks`` the tokens, and each row has the
SHA-256 of what it says. ``token_saves`` has the manifests of the newest save and of the one before: how many
runs and tokens belong to it, and the exclusive or of the runs' SHA-256.

The functions leave transactions to the caller. They raise ValueError if what they read is damaged.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .token_pending import WIDTH

__all__ = [
    "TABLES",
    "Manifest",
    "Run",
    "blocks",
    "held",
    "read_manifest",
    "read_runs",
    "read_whole",
    "remove",
    "write_manifest",
    "write_run",
]

TABLES = (
    "CREATE TABLE token_saves (generation INTEGER PRIMARY KEY, horizon INTEGER, runs INTEGER, "
    "tokens INTEGER, runs_sha256 BLOB, sha256 BLOB)",
    "CREATE TABLE token_runs (run INTEGER PRIMARY KEY, partition INTEGER, epoch INTEGER, "
    "generation INTEGER, tokens INTEGER, sha256 BLOB)",
    "CREATE TABLE token_chunks (place INTEGER PRIMARY KEY, tokens BLOB, sha256 BLOB)",
)
"""The statements that make the tables."""

_CHUNK = 124  # tokens; two rows of 124 * 16 + 32 bytes and what is around them fill a page of 4,096 bytes
_PLACES = 1 << 24  # chunks of a run that its places have room for
_BLOCK = 128  # chunks that are read together
_FEW = 4  # chunks that are read one by one, by a statement that is already prepared
_READ_MANY = "SELECT tokens, sha256 FROM token_chunks WHERE place"
_READ = f"{_READ_MANY} = ?"
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def _digest(*values: object) -> bytes:
    return hashlib.sha256(repr(values).encode()).digest()


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run, without its tokens.

    Parameters
    ----------
    number
        Its number in the file.
    partition, epoch
        Where its tokens were counted.
    generation
        The save since which all its tokens are in the file.
    tokens
        How many it holds.
    firsts
        The first token of each chunk, of dtype S16.
    """

    number: int
    partition: int
    epoch: int
    generation: int
    tokens: int
    firsts: NDArray[np.bytes_]

    @property
    def sha256(self) -> bytes:
        """The SHA-256 of its row."""
        return _digest(self.number, self.partition, self.epoch, self.generation, self.tokens)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What belongs to a save: numbers of runs and of tokens, and the exclusive or of the runs' SHA-256."""

    runs: int = 0
    tokens: int = 0
    combined: int = 0

    def changed(self, gone: Iterable[Run], new: Iterable[Run]) -> Manifest:
        """Return the manifest without some runs and with others."""
        runs, tokens, combined = self.runs, self.tokens, self.combined
        for sign, several in ((-1, gone), (1, new)):
            for run in several:
                runs += sign
                tokens += sign * run.tokens
                combined ^= int.from_bytes(run.sha256)
        return Manifest(runs, tokens, combined)


@contextmanager
def _reading() -> Iterator[None]:
    """Turn SQLite's complaint about damage into ValueError; a lock, say, stays what it is."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code not in _DAMAGE:
            raise
        raise ValueError(f"its counted tokens cannot be read: {error}") from None


def write_manifest(connection: sqlite3.Connection, generation: int, horizon: int, manifest: Manifest) -> None:
    """Write the manifest of a save; those of later saves and of all but the one before it go."""
    values = (generation, horizon, manifest.runs, manifest.tokens, manifest.combined.to_bytes(32))
    connection.execute(
        "DELETE FROM token_saves WHERE generation >= ? OR generation < ?", (generation, generation - 1)
    )
    connection.execute("INSERT INTO token_saves VALUES (?, ?, ?, ?, ?, ?)", (*values, _digest(*values)))


def read_manifest(connection: sqlite3.Connection, generation: int) -> tuple[int, Manifest]:
    """Return the horizon and the manifest of a save."""
    with _reading():
        rows = connection.execute("SELECT * FROM token_saves WHERE generation = ?", (generation,)).fetchall()
    if len(rows) != 1 or _digest(*rows[0][:-1]) != rows[0][-1]:
        raise ValueError("the manifest of its counted tokens is missing or damaged")
    _, horizon, runs, tokens, combined, _ = rows[0]
    return horizon, Manifest(runs, tokens, int.from_bytes(combined))


def read_runs(connection: sqlite3.Connection, generation: int) -> list[Run]:
    """Return the runs of a save and of those before it, still without their first tokens."""
    with _reading():
        rows = connection.execute("SELECT * FROM token_runs").fetchall()
    found = []
    for number, partition, epoch, since, tokens, sha256 in rows:
        run = Run(number, partition, epoch, since, tokens, np.empty(0, f"S{WIDTH}"))
        if run.sha256 != sha256:
            raise ValueError("the list of its counted tokens does not fit its SHA-256")
        if since <= generation:
            found.append(run)
    return found


def write_run(
    connection: sqlite3.Connection,
    number: int,
    partition: int,
    epoch: int,
    generation: int,
    sorted_blocks: Iterable[NDArray[np.bytes_]],
) -> Run:
    """Write a run of the tokens of the blocks, each of dtype S16, which are in order as a whole."""
    firsts: list[NDArray[np.bytes_]] = []
    count = 0

    def rows() -> Iterator[tuple[int, bytes, bytes]]:
        nonlocal count
        for chunk in _rechunked(sorted_blocks):
            place, data = number * _PLACES + len(firsts), chunk.tobytes()
            firsts.append(chunk[:1].copy())
            count += len(chunk)
            yield place, data, _chunk_digest(place, data)

    connection.executemany("INSERT INTO token_chunks VALUES (?, ?, ?)", rows())
    run = Run(number, partition, epoch, generation, count, np.concatenate(firsts))
    connection.execute(
        "INSERT INTO token_runs VALUES (?, ?, ?, ?, ?, ?)",
        (number, partition, epoch, generation, count, run.sha256),
    )
    return run


def _rechunked(sorted_blocks: Iterable[NDArray[np.bytes_]]) -> Iterator[NDArray[np.bytes_]]:
    rest = np.empty(0, f"S{WIDTH}")
    for block in sorted_blocks:
        joined = np.concatenate((rest, block))
        whole = len(joined) // _CHUNK * _CHUNK
        for start in range(0, whole, _CHUNK):
            yield joined[start : start + _CHUNK]
        rest = joined[whole:]
    if len(rest):
        yield rest


def remove(connection: sqlite3.Connection, run: Run) -> None:
    """Delete a run."""
    first = run.number * _PLACES
    connection.execute("DELETE FROM token_chunks WHERE place BETWEEN ? AND ?", (first, first + _PLACES - 1))
    connection.execute("DELETE FROM token_runs WHERE run = ?", (run.number,))


def _chunk_digest(place: int, data: bytes) -> bytes:
    return hashlib.sha256(place.to_bytes(8, "big") + data).digest()


def _checked(run: Run, chunk: int, row: tuple[bytes, bytes] | None) -> bytes:
    """Return a chunk's tokens, or raise ValueError if they are not what was written."""
    if row is None:
        raise ValueError("some of its counted tokens are missing")
    data, sha256 = row
    expected = WIDTH * min(_CHUNK, run.tokens - _CHUNK * chunk)
    place = run.number * _PLACES + chunk
    if not isinstance(data, bytes) or len(data) != expected or _chunk_digest(place, data) != sha256:
        raise ValueError("some of its counted tokens do not fit their SHA-256")
    return data


def blocks(connection: sqlite3.Connection, run: Run) -> Iterator[NDArray[np.bytes_]]:
    """Yield the tokens of a run in order, some thousands at a time, all of them checked."""
    count = -(-run.tokens // _CHUNK)
    for start in range(0, count, _BLOCK):
        yield _chunks(connection, run, range(start, min(start + _BLOCK, count)))


def read_whole(connection: sqlite3.Connection, run: Run, take: Callable[[NDArray[np.bytes_]], None]) -> Run:
    """Hand all tokens of a run to ``take``, some thousands at a time, and return the run with its firsts."""
    firsts = []
    for block in blocks(connection, run):
        firsts.append(block[::_CHUNK].copy())
        take(block)
    return replace(run, firsts=np.concatenate(firsts))


def held(connection: sqlite3.Connection, run: Run, tokens: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Return which tokens (n,) of dtype S16 a run holds; each chunk that may hold one is read once."""
    found = np.zeros(len(tokens), np.bool_)
    chunks = np.searchsorted(run.firsts, tokens, side="right") - 1
    asked = sorted(set(chunks.tolist()) - {-1})
    for start in range(0, len(asked), _BLOCK):
        numbers = asked[start : start + _BLOCK]
        inside = _chunks(connection, run, numbers)
        here = np.flatnonzero((chunks >= numbers[0]) & (chunks <= numbers[-1]))
        places = np.searchsorted(inside, tokens[here])
        found[here] = inside.take(places, mode="clip") == tokens[here]
    return found


def _chunks(connection: sqlite3.Connection, run: Run, numbers: Sequence[int]) -> NDArray[np.bytes_]:
    """Return the tokens of some chunks of a run, all of them checked; both in order."""
    first = run.number * _PLACES
    with _reading():
        if len(numbers) <= _FEW:
            rows = [connection.execute(_READ, (first + number,)).fetchone() for number in numbers]
        else:
            places = ",".join(str(first + number) for number in numbers)
            rows = connection.execute(f"{_READ_MANY} IN ({places}) ORDER BY place").fetchall()
    if len(rows) < len(numbers):
        raise ValueError("some of its counted tokens are missing")
    data = [_checked(run, number, row) for number, row in zip(numbers, rows, strict=True)]
    return np.frombuffer(b"".join(data), f"S{WIDTH}")
