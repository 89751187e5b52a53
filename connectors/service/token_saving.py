"""How counted tokens get into a checkpoint's file: what a save adds, joins and deletes.

A save may turn out to be damaged, and then the one before it is used. So a save with generation g

- adds what is pending as runs of generation g: who goes back to g - 1 leaves them out;
- joins only runs that are in the file already, which are of g - 1 or before and so belong to both saves;
- deletes only epochs that were forgotten at the save before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .token_filter import SLOTS
from .token_merges import merged, to_merge
from .token_partition import PartitionTokens
from .token_pending import sort_tokens
from .token_runs import Manifest, Run, blocks, remove, write_manifest, write_run

__all__ = ["RunsByEpoch", "Stored", "TokenSave"]

RunsByEpoch: TypeAlias = dict[int, tuple[Run, ...]]
"""The runs of a partition; those of one epoch stand with the largest first."""


@dataclass(slots=True)
class Stored:
    """What a file holds: the manifest, the number of the next run, and the runs of each partition."""

    manifest: Manifest = field(default_factory=Manifest)
    next_run: int = 1
    runs: dict[int, RunsByEpoch] = field(default_factory=dict)


class TokenSave:
    """One save under way, inside a transaction.

    Parameters
    ----------
    connection
        The file that is written to.
    generation
        The save's number.
    stored
        What the file holds so far; it stays as it is.
    """

    def __init__(self, connection: sqlite3.Connection, generation: int, stored: Stored) -> None:
        self._connection = connection
        self._generation = generation
        self._manifest = stored.manifest
        self._next_run = stored.next_run
        self._gone: list[Run] = []
        self._joined: list[Run] = []
        self._new: list[Run] = []

    def add(self, partition: int, runs: RunsByEpoch, record: PartitionTokens) -> RunsByEpoch:
        """Save what is pending of a partition, and return its runs from now on."""
        result: RunsByEpoch = {}
        newest = max(runs, default=-1)  # as of the save before
        for epoch, several in runs.items():
            if epoch <= newest - SLOTS:
                self._remove(several)
            else:
                result[epoch] = self._joined_up(partition, epoch, several, over=epoch < newest)
        for epoch, pending in record.pending.items():
            run = self._write(partition, epoch, self._generation, iter([sort_tokens(pending.tokens)]))
            self._new.append(run)
            result[epoch] = _largest_first((*result.get(epoch, ()), run))
        return result

    def copy(
        self, partition: int, runs: RunsByEpoch, record: PartitionTokens, source: sqlite3.Connection | None
    ) -> RunsByEpoch:
        """Write all that is remembered of a partition into a new file, as of the save before."""
        result: RunsByEpoch = {}
        for epoch in sorted({*runs, *record.pending}):
            if epoch >= record.oldest:
                sources = [] if source is None else [blocks(source, run) for run in runs.get(epoch, ())]
                if epoch in record.pending:
                    sources.append(iter([sort_tokens(record.pending[epoch].tokens)]))
                run = self._write(partition, epoch, self._generation - 1, merged(sources))
                self._joined.append(run)
                result[epoch] = (run,)
        return result

    def finish(self, horizon: int) -> tuple[Manifest, int]:
        """Write the manifests of this save and of the one before; return this one's and the next run."""
        before = self._manifest.changed(self._gone, self._joined)
        after = before.changed((), self._new)
        write_manifest(self._connection, self._generation - 1, horizon, before)
        write_manifest(self._connection, self._generation, horizon, after)
        return after, self._next_run

    def _joined_up(
        self, partition: int, epoch: int, several: tuple[Run, ...], *, over: bool
    ) -> tuple[Run, ...]:
        """Join some of an epoch's runs, if that is due."""
        chosen = [several[index] for index in to_merge([run.tokens for run in several], over)]
        if not chosen:
            return several
        generation = max(run.generation for run in chosen)
        tokens = merged([blocks(self._connection, run) for run in chosen])
        joined = self._write(partition, epoch, generation, tokens)
        self._joined.append(joined)
        self._remove(chosen)
        return _largest_first((*(run for run in several if run not in chosen), joined))

    def _write(
        self, partition: int, epoch: int, generation: int, tokens: Iterator[NDArray[np.bytes_]]
    ) -> Run:
        run = write_run(self._connection, self._next_run, partition, epoch, generation, tokens)
        self._next_run += 1
        return run

    def _remove(self, runs: Sequence[Run]) -> None:
        for run in runs:
            remove(self._connection, run)
        self._gone.extend(runs)


def _largest_first(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    return tuple(sorted(runs, key=lambda run: -run.tokens))
