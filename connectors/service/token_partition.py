"""What is in memory of one partition's counted tokens: a filter over 16 epochs, and what is pending."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from .token_filter import SLOTS, TokenFilter
from .token_pending import PendingTokens

__all__ = ["PartitionTokens"]

_LEAST = 1024  # tokens of an epoch that a new filter has room for
_GROWTH = 4
_ALL = (1 << SLOTS) - 1


class PartitionTokens:
    """The newest 16 epochs of one partition.

    Parameters
    ----------
    epoch_length
        Offsets of an epoch, and so the most tokens that it can have.
    expected
        Tokens of an epoch to begin with; the filter grows with what comes.
    """

    def __init__(self, epoch_length: int, expected: int = 0) -> None:
        self._length = epoch_length
        self._filter = TokenFilter(min(max(_LEAST, _GROWTH * expected), epoch_length))
        self._counts: dict[int, int] = {}
        self.newest = -1
        self.pending: dict[int, PendingTokens] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the filter."""
        return self._filter.nbytes

    @property
    def oldest(self) -> int:
        """The oldest epoch that is remembered."""
        return self.newest - SLOTS + 1

    @property
    def waiting(self) -> int:
        """Tokens that are pending."""
        return sum(map(len, self.pending.values()))

    def has_room(self, more: int) -> bool:
        """Say whether the filter is large enough for more tokens in an epoch."""
        need = min(self._counts.get(self.newest, 0) + more, self._length)
        return need <= self._filter.capacity

    def grow(self, stored: Iterable[tuple[int, NDArray[np.bytes_]]]) -> None:
        """Make the filter larger, given all stored tokens again by epoch; if that fails it stays as it is."""
        larger = TokenFilter(min(_GROWTH * self._filter.capacity, self._length))
        for epoch, tokens in stored:
            larger.insert(tokens, epoch % SLOTS)
        for epoch, pending in self.pending.items():
            larger.insert(pending.tokens, epoch % SLOTS)
        self._filter = larger

    def put(self, epoch: int, tokens: NDArray[np.bytes_]) -> None:
        """Put stored tokens into the filter, if their epoch is remembered."""
        if self.oldest <= epoch <= self.newest:
            self._filter.insert(tokens, epoch % SLOTS)
            self._counts[epoch] = self._counts.get(epoch, 0) + len(tokens)

    def advance(self, epoch: int) -> None:
        """Make an epoch the newest, and forget what is too old then."""
        if epoch < self.newest:
            raise InvalidInput(f"offsets: epoch {epoch} comes after epoch {self.newest}; they must increase")
        if epoch > self.newest:
            self._filter.clear(_slots(range(self.newest + 1, epoch + 1)))
            self.newest = epoch
            for kept in (self._counts, self.pending):
                for old in [old for old in kept if old < self.oldest]:
                    del kept[old]

    def add(self, epoch: int, tokens: NDArray[np.bytes_]) -> None:
        """Count tokens (n,) of dtype S16 in an epoch, the newest or a later one."""
        self.advance(epoch)
        self.put(epoch, tokens)
        self.pending.setdefault(epoch, PendingTokens()).add(tokens)

    def epochs_of(self, slots: int) -> list[int]:
        """Return the epochs that slots, given as bits, stand for; the newest first."""
        return [epoch for epoch in range(self.newest, self.oldest - 1, -1) if slots >> epoch % SLOTS & 1]

    def candidates(self, offsets: NDArray[np.int64], tokens: NDArray[np.bytes_]) -> NDArray[np.uint16]:
        """Return for tokens (n,) met at offsets (n,) the slots (n,) that may hold them, one bit a slot."""
        found = self._filter.slots_of(tokens)
        if int(offsets.max()) // self._length > self.newest:
            ahead = np.clip(offsets // self._length - self.newest, 0, SLOTS)
            remembered = [_slots(range(self.oldest + step, self.newest + 1)) for step in range(SLOTS + 1)]
            found &= np.array(remembered, np.uint16)[ahead]
        return found


def _slots(epochs: Iterable[int]) -> int:
    """Return the slots of epochs, as bits."""
    found = 0
    for epoch in epochs:
        found |= 1 << epoch % SLOTS
        if found == _ALL:
            break
    return found
