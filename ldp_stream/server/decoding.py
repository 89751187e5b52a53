"""Columns of payloads to decoded gradients: the channel's own ``decode``, tabulated.

A finite channel has few distinct payloads, so a table with one decoded row for each (block, category) serves
a whole batch by indexing. Where the table would be large, it is made for the payloads that occur in the
batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..channels.base import CategoryPayload, Decoded
from ..channels.kinds import FiniteChannel, Mechanism
from ..errors import InvalidReport
from ..report_batch import ReportBatch
from ..reports import CategoryReport, Report, VectorReport

__all__ = ["BatchDecoder", "Decodes"]

Array = NDArray[np.float64]
_MOST_ENTRIES = 1 << 20  # floats in a table: 8 MiB


class Decodes(Protocol):
    """What the server asks of any channel, for one of its own payloads."""

    def decode(self, payload: Any, /) -> Decoded:
        """Return the unbiased estimate of the contribution."""


class BatchDecoder:
    """Checks and decodes payloads, one report's or columns of many.

    Parameters
    ----------
    channel
        The campaign's channel.
    """

    def __init__(self, channel: Mechanism) -> None:
        self._channel = channel
        self._limits: tuple[float, ...] = ()  # of a channel that makes vectors: more would be nobody's
        self._blocks = self._intercept_blocks = 0  # of a channel that makes vectors
        self._sizes = 0, 0  # categories of a block with the intercept (these come first) and of one without
        self._table: Array | None = None
        if not isinstance(channel, FiniteChannel):
            self._limits = channel.limits
        else:
            self._blocks, self._intercept_blocks = channel.n_blocks, channel.intercept_blocks
            self._sizes = channel.categories(0), channel.categories(channel.n_blocks - 1)
        self._fewest, self._stride = min(self._sizes), max(self._sizes)
        if 0 < self._blocks * self._stride * channel.p <= _MOST_ENTRIES:
            self._table = self._rows(np.arange(self._blocks * self._stride))

    def admits(self, report: Report) -> bool:
        """Return whether the report's payload is of the channel's kind and in its range."""
        if type(report) is CategoryReport:
            block, category = report.block, report.category
            return block < self._blocks and (
                category < self._fewest or category < self._sizes[block >= self._intercept_blocks]
            )
        return (
            type(report) is VectorReport
            and self._blocks == 0
            and len(report.values) == self._channel.p
            and all(abs(x) <= limit for x, limit in zip(report.values, self._limits, strict=True))
        )

    def refusal(self, report: Report) -> str:
        """Return why a report's payload is not admitted."""
        if self._blocks == 0:
            if not isinstance(report, VectorReport) or len(report.values) != self._channel.p:
                return f"must be a vector of {self._channel.p} values, as the campaign's channel makes"
            return f"values = {report.values}: {self._in_range}"
        if not isinstance(report, CategoryReport):
            return "must be a category, as the campaign's channel makes"
        return f"block = {report.block}, category = {report.category}: outside the channel's alphabet"

    @property
    def _in_range(self) -> str:
        """Say where values may lie."""
        same = len(set(self._limits)) == 1
        ends = f"[-{self._limits[0]:g}, {self._limits[0]:g}]"
        allowed = f"in {ends}" if same else f"at most {tuple(self._limits)} in size"
        return f"must be {allowed}, as the campaign's channel makes"

    def decode_reports(self, reports: Sequence[Report]) -> Array:
        """Return the decoded gradients of admitted reports, shape (n, p)."""
        if self._blocks == 0:
            return np.array([report.values for report in reports if type(report) is VectorReport])
        stride = self._stride
        payloads = [r.block * stride + r.category for r in reports if type(r) is CategoryReport]
        return self._lookup(np.array(payloads))

    def check(self, batch: ReportBatch) -> None:
        """Refuse a batch that the channel cannot have made.

        Raises
        ------
        InvalidReport
            If a payload is of the wrong kind or out of the channel's range; the message names the first one's
            place.
        """
        if self._blocks == 0 and (batch.values is None or batch.values.shape[1] != self._channel.p):
            raise InvalidReport(
                f"reports: must be vectors of {self._channel.p} values, as the campaign's channel makes"
            )
        if self._blocks > 0 and batch.values is not None:
            raise InvalidReport("reports: must be categories, as the campaign's channel makes")
        wrong = self.outside(batch)
        if not wrong.any():
            return
        place = int(np.argmax(wrong))
        if batch.block is None or batch.category is None:
            values = () if batch.values is None else batch.values[place].tolist()
            raise InvalidReport(f"reports[{place}]: values = {values}: {self._in_range}")
        raise InvalidReport(
            f"reports[{place}]: block = {batch.block[place]}, category = {batch.category[place]}: "
            "outside the channel's alphabet"
        )

    def outside(self, batch: ReportBatch) -> NDArray[np.bool_]:
        """Return which payloads of a batch of the channel's kind and width are out of its range, (n,)."""
        if batch.block is None or batch.category is None:
            assert batch.values is not None
            return np.asarray((~(np.abs(batch.values) <= self._limits)).any(axis=1))
        first, last = self._sizes
        size = first if first == last else np.where(batch.block < self._intercept_blocks, first, last)
        return np.asarray((batch.block >= self._blocks) | (batch.category >= size))

    def decode(self, batch: ReportBatch) -> Array:
        """Return the decoded gradients of a batch that passes :meth:`check`, shape (n, p)."""
        if batch.block is None or batch.category is None:
            assert batch.values is not None
            return batch.values
        return self._lookup(batch.block.astype(np.int64) * self._stride + batch.category)

    def _lookup(self, payloads: NDArray[np.int64]) -> Array:
        if self._table is not None:
            return np.take(self._table, payloads, axis=0)
        distinct, places = np.unique(payloads, return_inverse=True)
        return np.take(self._rows(distinct), places, axis=0)

    def _rows(self, payloads: NDArray[np.int64]) -> Array:
        channel = self._channel
        assert isinstance(channel, FiniteChannel)
        rows = np.zeros((len(payloads), channel.p))
        for row, payload in zip(rows, payloads.tolist(), strict=True):
            block, category = divmod(payload, self._stride)
            if category < channel.categories(block):
                coordinates, values = channel.decode(CategoryPayload(block, category))
                row[list(coordinates)] = values
        return rows
