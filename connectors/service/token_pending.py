"""Counted tokens that no checkpoint holds yet: of one partition and epoch, in memory, and exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["WIDTH", "PendingTokens", "sort_tokens"]

WIDTH = 16
"""Bytes of a token."""

_LEAST = 256
_TRADE = 200  # tokens that are compared with one in the time in which one is put into a set


def sort_tokens(tokens: NDArray[np.bytes_]) -> NDArray[np.bytes_]:
    """Return tokens (n,) of dtype S16 in the order of their bytes.

    Examples
    --------
    >>> sort_tokens(np.array([b"b" * 16, b"a" * 16])).tolist()
    [b'aaaaaaaaaaaaaaaa', b'bbbbbbbbbbbbbbbb']
    """
    halves = tokens.view(">u8").reshape(len(tokens), 2)
    heads = halves[:, 0].astype(np.uint64)
    order = np.argsort(heads)
    sorted_heads = heads[order]
    if (sorted_heads[1:] == sorted_heads[:-1]).any():
        order = np.lexsort((halves[:, 1].astype(np.uint64), heads))
    return tokens[order]


class PendingTokens:
    """A growing set of distinct tokens.

    A few tokens are looked up by comparing them with all others; many, by a Python set of all, which is made
    when it is cheaper. So that set, at about 100 bytes a token, is there only in a flood of duplicates.

    Examples
    --------
    >>> pending = PendingTokens()
    >>> tokens = np.frombuffer(bytes(range(32)), "S16")
    >>> pending.add(tokens[:1])
    >>> pending.contains(tokens).tolist(), len(pending)
    ([True, False], 1)
    """

    def __init__(self) -> None:
        self._halves = np.empty((_LEAST, 2), np.uint64)  # copied faster than S16
        self._count = 0
        self._known: set[bytes] = set()

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> NDArray[np.bytes_]:
        """All tokens (n,) of dtype S16, in the order in which they came."""
        return self._halves[: self._count].view(f"S{WIDTH}")[:, 0]

    def add(self, tokens: NDArray[np.bytes_]) -> None:
        """Take tokens (n,) of dtype S16, none of them taken before."""
        stop = self._count + len(tokens)
        if stop > len(self._halves):
            larger = np.empty((max(stop, 2 * len(self._halves)), 2), np.uint64)
            larger[: self._count] = self._halves[: self._count]
            self._halves = larger
        self._halves[self._count : stop] = tokens.view(np.uint64).reshape(len(tokens), 2)
        self._count = stop

    def contains(self, tokens: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        """Return which of the tokens (n,) of dtype S16 are there."""
        unknown = self._count - len(self._known)
        if len(tokens) * self._count <= _TRADE * unknown:
            return self._compared(tokens)
        self._known.update(_as_bytes(self.tokens[len(self._known) :]))
        return np.fromiter((token in self._known for token in _as_bytes(tokens)), np.bool_, len(tokens))

    def _compared(self, tokens: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        halves = self._halves[: self._count]
        found = np.empty(len(tokens), np.bool_)
        for at, (head, tail) in enumerate(tokens.view(np.uint64).reshape(len(tokens), 2)):
            found[at] = bool((halves[halves[:, 0] == head, 1] == tail).any())
        return found


def _as_bytes(tokens: NDArray[np.bytes_]) -> list[bytes]:
    """Return the tokens with all their bytes: S16 by itself leaves out zeros at the end."""
    found: list[bytes] = tokens.view(f"V{WIDTH}").tolist()
    return found
