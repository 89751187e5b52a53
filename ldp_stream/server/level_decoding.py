"""Decoding of a campaign's reports: each by the channel of the quantile level that its chain serves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..campaign import Campaign
from ..errors import InvalidReport
from ..report_batch import ReportBatch
from ..reports import Report
from .decoding import BatchDecoder
from .level_chains import by_number

__all__ = ["LevelDecoder"]

Array = NDArray[np.float64]


class LevelDecoder:
    """Checks and decodes reports whose chains exist.

    Parameters
    ----------
    campaign
        The campaign.
    """

    def __init__(self, campaign: Campaign) -> None:
        self._p = campaign.p
        self._leaves = campaign.tree.leaves
        self._decoders = [BatchDecoder(level.mechanism) for level in campaign.levels]
        self._only = self._decoders[0] if len(self._decoders) == 1 else None

    def admits(self, report: Report) -> bool:
        """Return whether the report's payload is of its channel's kind and in its range."""
        return self._of(report.chain).admits(report)

    def refusal(self, report: Report) -> str:
        """Return why a report's payload is not admitted."""
        return self._of(report.chain).refusal(report)

    def _of(self, chain: int) -> BatchDecoder:
        return self._only or self._decoders[chain // self._leaves]

    def decode_reports(self, reports: Sequence[Report]) -> Array:
        """Return the decoded gradients of admitted reports, shape (n, p)."""
        if self._only is not None:
            return self._only.decode_reports(reports)
        return self.decode(ReportBatch.from_reports(reports))

    def check(self, batch: ReportBatch) -> None:
        """Refuse a batch that the channels cannot have made.

        Raises
        ------
        InvalidReport
            If a payload is of the wrong kind or out of its channel's range; the message names the first one's
            place.
        """
        if self._only is not None:
            self._only.check(batch)
            return
        self._decoders[0].check(batch[:0])  # the kind is the same at all levels
        wrong = self.outside(batch)
        if wrong.any():
            place = int(np.argmax(wrong))
            (report,) = batch[place : place + 1]
            raise InvalidReport(f"reports[{place}]: {self.refusal(report)}")

    def outside(self, batch: ReportBatch) -> NDArray[np.bool_]:
        """Return which payloads of a batch of the channels' kind and width are out of their range, (n,)."""
        if self._only is not None:
            return self._only.outside(batch)
        found = np.ones(len(batch), np.bool_)
        for level, rows in self._by_level(batch):
            found[rows] = self._decoders[level].outside(batch[rows])
        return found

    def decode(self, batch: ReportBatch) -> Array:
        """Return the decoded gradients of a batch that passes :meth:`check`, shape (n, p)."""
        if self._only is not None:
            return self._only.decode(batch)
        found = np.empty((len(batch), self._p))
        for level, rows in self._by_level(batch):
            found[rows] = self._decoders[level].decode(batch[rows])
        return found

    def _by_level(self, batch: ReportBatch) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the rows of each level; those of chains that do not exist are left out."""
        parts = by_number(batch.chain // self._leaves, np.arange(len(batch)))
        return [(level, rows) for level, rows in parts if level < len(self._decoders)]
