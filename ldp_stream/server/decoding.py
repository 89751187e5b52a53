"""Columns of payloads to decoded gradients: the channel's own ``decode``, tabulated.

A finite channel has few distinct payloads, so a table with one decoded row for each (block, category) serves a whole batch by
indexing. Where the table would be large, it is made for the payloads that occur in the batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..channels.base import CategoryPayload
from ..channels.cqx import CQX
from ..channels.no_privacy import NoPrivacy
from ..errors import InvalidReport
from ..report_batch import ReportBatch

__all__ = ["BatchDecoder"]

Array = NDArray[np.float64]
_MOST_ENTRIES = 1 << 20  # floats in a table: 8 MiB


class BatchDecoder:
    """Checks and decodes the payload columns of a batch.

    Parameters
    ----------
    channel
        The campaign's channel.
    """

    def __init__(self, channel: CQX | NoPrivacy) -> None:
        self._channel = channel
        self._stride = 0
        self._table: Array | None = None
        if isinstance(channel, CQX):
            self._sizes = channel.categories(0), channel.categories(channel.n_blocks - 1)
            self._stride = max(self._sizes)
            if channel.n_blocks * self._stride * channel.p <= _MOST_ENTRIES:
                payloads = np.arange(channel.n_blocks * self._stride)
                self._table = self._rows(payloads, channel)

    def decode(self, batch: ReportBatch) -> Array:
        """Return the decoded gradients, shape (n, p).

        Raises
        ------
        InvalidReport
            If a payload is of the wrong kind or out of the channel's range; the message names the first one's place.
        """
        channel = self._channel
        if isinstance(channel, NoPrivacy):
            if batch.values is None or batch.values.shape[1] != channel.p:
                raise InvalidReport(f"reports: must be vectors of {channel.p} values, as the campaign's channel makes")
            return batch.values
        if batch.block is None or batch.category is None:
            raise InvalidReport("reports: must be categories, as the campaign's channel makes")
        return self._decode_categories(batch.block, batch.category, channel)

    def _decode_categories(self, block: NDArray[np.uint32], category: NDArray[np.uint16], channel: CQX) -> Array:
        if len(block) == 0:
            return np.empty((0, channel.p))
        first, last = self._sizes  # of the blocks with the intercept, which come first, and of the others
        size = first if first == last else np.where(block < channel.intercept_blocks, first, last)
        wrong = (block >= channel.n_blocks) | (category >= size)
        if wrong.any():
            place = int(np.argmax(wrong))
            raise InvalidReport(
                f"reports[{place}]: block = {block[place]}, category = {category[place]}: outside the channel's alphabet"
            )
        payloads = block.astype(np.int64) * self._stride + category
        if self._table is not None:
            return np.take(self._table, payloads, axis=0)
        distinct, places = np.unique(payloads, return_inverse=True)
        return np.take(self._rows(distinct, channel), places, axis=0)

    def _rows(self, payloads: NDArray[np.int64], channel: CQX) -> Array:
        rows = np.zeros((len(payloads), channel.p))
        for row, payload in zip(rows, payloads.tolist(), strict=True):
            block, category = divmod(payload, self._stride)
            if category < channel.categories(block):
                coordinates, values = channel.decode(CategoryPayload(block, category))
                row[list(coordinates)] = values
        return rows
