"""The record of counted tokens: a report's token counts once within a horizon of offsets.

Offsets are cut into epochs of E = ceil(horizon / 15), and a token at offset o is known if it was counted at
an offset o' of the same partition with

    floor(o / E) - floor(o' / E) <= 15,

a function of the log alone. So the last ``horizon`` offsets are remembered at least, and whole epochs are
forgotten. The answer is exact: a filter in memory says that nearly every new token is new, and what it does
not clear is looked up among the tokens themselves. These are in the checkpoint's file, where they are saved
in the transaction of state and offsets; those since the last save are in memory.

The filter takes 3.8 bytes an offset of the horizon, for each partition with so many tokens; less before.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..._validate import integer_in
from ...errors import InvalidInput
from ..checkpoint_format import read_transaction
from .token_filter import SLOTS
from .token_partition import PartitionTokens
from .token_pending import WIDTH
from .token_runs import TABLES, Manifest, Run, blocks, held, read_manifest, read_runs, read_whole
from .token_saving import RunsByEpoch, Stored, TokenSave

__all__ = ["CountedTokens"]

_MOST = 10**9


class CountedTokens:
    """The tokens that counted, of all partitions; the companion of a checkpoint file.

    Parameters
    ----------
    horizon
        Offsets back to which every token is remembered. A checkpoint keeps the one it was made with.

    Raises
    ------
    InvalidInput
        If the horizon is not a whole number from 1 to 10^9.

    Examples
    --------
    >>> counted = CountedTokens(horizon=30)  # epochs of two offsets
    >>> token = np.frombuffer(b"0123456789abcdef", np.uint8).reshape(1, 16)
    >>> counted.add(0, np.array([7]), token)
    >>> [bool(counted.seen(0, np.array([offset]), token)[0]) for offset in (8, 37, 38)]
    [True, True, False]
    """

    def __init__(self, horizon: int = 10_000_000) -> None:
        self.horizon = integer_in(1, _MOST, horizon=horizon)
        self._length = -(-self.horizon // (SLOTS - 1))
        self._start({}, Stored(), None)

    def _start(
        self,
        partitions: dict[int, PartitionTokens],
        stored: Stored,
        connection: sqlite3.Connection | None,
    ) -> None:
        self._partitions = partitions
        self._stored = stored
        self._connection = connection
        self._touched = set(partitions)  # with something pending, or runs to look through at the next save
        self._staged: Stored | None = None

    @property
    def pending(self) -> int:
        """Tokens that no checkpoint holds yet."""
        return sum(self._partitions[number].waiting for number in self._touched)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the filters, by far the most that is held."""
        return sum(record.nbytes for record in self._partitions.values())

    def seen(
        self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Return which tokens were counted within the horizon of their offsets.

        Parameters
        ----------
        partition
            The partition.
        offsets
            Where the tokens are met, (n,); not before what was counted last.
        tokens
            The tokens, (n, 16).

        Raises
        ------
        InvalidSnapshot
            If stored tokens that must be looked at are damaged.
        OSError
            If the file cannot be read for another reason.
        """
        record = self._partitions.get(partition)
        keys = _keys(offsets, tokens)
        found = np.zeros(len(keys), np.bool_)
        if record is None or not len(keys):
            return found
        while not record.has_room(len(keys)):
            with self._reading():
                record.grow(self._all_stored(partition, record))
        slots = record.candidates(offsets, keys)
        suspects = np.flatnonzero(slots)
        if len(suspects):
            found[suspects] = self._looked_up(partition, record, keys[suspects], slots[suspects])
        return found

    def add(self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]) -> None:
        """Count tokens.

        Parameters
        ----------
        partition
            The partition.
        offsets
            Their offsets, (n,), increasing and after all that were counted before.
        tokens
            The tokens, (n, 16), distinct and not seen.

        Raises
        ------
        InvalidInput
            If offsets go back to an earlier epoch.
        """
        keys = _keys(offsets, tokens)
        if not len(keys):
            return
        record = self._partitions.get(partition)
        if record is None:
            record = self._partitions[partition] = PartitionTokens(self._length)
        self._touched.add(partition)
        epochs = offsets // self._length
        starts = [0, *(np.flatnonzero(np.diff(epochs)) + 1).tolist(), len(keys)]
        for start, stop in pairwise(starts):
            record.add(int(epochs[start]), keys[start:stop])

    def _all_stored(
        self, partition: int, record: PartitionTokens
    ) -> Iterator[tuple[int, NDArray[np.bytes_]]]:
        """Yield what the file holds of a partition and is remembered."""
        for epoch, runs in self._stored.runs.get(partition, {}).items():
            if self._connection is not None and epoch >= record.oldest:
                for run in runs:
                    for block in blocks(self._connection, run):
                        yield epoch, block

    def _looked_up(
        self,
        partition: int,
        record: PartitionTokens,
        tokens: NDArray[np.bytes_],
        slots: NDArray[np.uint16],
    ) -> NDArray[np.bool_]:
        """Return which tokens were counted in one of the slots in which they may have been."""
        found = np.zeros(len(tokens), np.bool_)
        asked = int(np.bitwise_or.reduce(slots))
        with self._reading():
            for epoch in record.epochs_of(asked):
                places = np.flatnonzero(slots & np.uint16(1 << epoch % SLOTS))
                places = places[~found[places]]
                found[places] = self._counted_in(partition, record, epoch, tokens[places])
        return found

    def _counted_in(
        self, partition: int, record: PartitionTokens, epoch: int, tokens: NDArray[np.bytes_]
    ) -> NDArray[np.bool_]:
        pending = record.pending.get(epoch)
        found = np.zeros(len(tokens), np.bool_) if pending is None else pending.contains(tokens)
        for run in self._stored.runs.get(partition, {}).get(epoch, ()):
            rest = np.flatnonzero(~found)
            if self._connection is not None and len(rest):
                found[rest] = held(self._connection, run, tokens[rest])
        return found

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read from the file, if there is one; what goes wrong is said with its name."""
        if self._connection is None:
            yield
            return
        with read_transaction(self._connection):
            yield

    # ------------------------------------------------------------------ the companion of a checkpoint file

    def start(self) -> None:
        """Forget everything: there is no file yet."""
        self._start({}, Stored(), None)

    def load(self, connection: sqlite3.Connection, generation: int) -> None:
        """Take what belongs to a save from a file, all of it checked, and drop what is pending.

        Raises
        ------
        InvalidInput
            If the file was made with another horizon.
        ValueError, sqlite3.Error
            If something is missing or damaged.
        """
        horizon, manifest = read_manifest(connection, generation)
        if horizon != self.horizon:
            raise InvalidInput(
                f"--horizon = {self.horizon}: the checkpoint was made with {horizon}; "
                "give that, or start a new checkpoint"
            )
        listed = read_runs(connection, generation)
        if Manifest().changed((), listed) != manifest:
            raise ValueError("its counted tokens do not fit their manifest")
        partitions = self._empty_records(listed)
        runs: defaultdict[int, RunsByEpoch] = defaultdict(dict)
        for run in sorted(listed, key=lambda run: -run.tokens):
            whole = read_whole(connection, run, partial(partitions[run.partition].put, run.epoch))
            same = runs[run.partition]
            same[run.epoch] = (*same.get(run.epoch, ()), whole)
        following = 1 + max((run.number for run in listed), default=0)
        self._start(partitions, Stored(manifest, following, dict(runs)), connection)

    def _empty_records(self, runs: list[Run]) -> dict[int, PartitionTokens]:
        """Return a record for each partition, at its newest epoch, with room for what its runs hold."""
        counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for run in runs:
            counts[run.partition][run.epoch] += run.tokens
        records = {}
        for number, epochs in counts.items():
            records[number] = PartitionTokens(self._length, max(epochs.values()))
            records[number].advance(max(epochs))
        return records

    def save(self, connection: sqlite3.Connection, generation: int) -> None:
        """Write what is pending, in the transaction that is open."""
        under_way = TokenSave(connection, generation, self._stored)
        runs = {
            number: under_way.add(number, self._stored.runs.get(number, {}), self._partitions[number])
            for number in sorted(self._touched)
        }
        self._staged = Stored(*under_way.finish(self.horizon), {**self._stored.runs, **runs})

    def copy(self, connection: sqlite3.Connection, generation: int) -> None:
        """Write everything into a new file, in the transaction that is open.

        It belongs to the save before as well: a new file holds the same checkpoint twice.
        """
        for statement in TABLES:
            connection.execute(statement)
        under_way = TokenSave(connection, generation, Stored())
        runs = {
            number: under_way.copy(number, self._stored.runs.get(number, {}), record, self._connection)
            for number, record in sorted(self._partitions.items())
        }
        self._staged = Stored(*under_way.finish(self.horizon), runs)

    def saved(self) -> None:
        """Take note that the last save or copy is committed: nothing is pending any more."""
        if self._staged is not None:
            self._stored, self._staged = self._staged, None
        self._touched = {number for number in self._touched if self._partitions[number].pending}
        for number in self._touched:
            self._partitions[number].pending.clear()

    def use(self, connection: sqlite3.Connection) -> None:
        """Read stored tokens through this connection from now on."""
        self._connection = connection


def _keys(offsets: NDArray[np.int64], tokens: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return tokens (n, 16) as an array (n,) of dtype S16."""
    if tokens.shape != (len(offsets), WIDTH) or tokens.dtype != np.uint8:
        raise InvalidInput(
            f"tokens: shape {tokens.shape} of {tokens.dtype}: must be ({len(offsets)}, {WIDTH}) of uint8"
        )
    return np.ascontiguousarray(tokens).view(f"S{WIDTH}")[:, 0]
