"""A filter that says which tokens cannot have been counted, and in which epochs the others may have been.

Each token has six hashed places among the filter's words. A word has one bit for each of 16 slots; a token
that is counted in a slot sets the slot's bit at its six places, and a token can only have been counted in
the slots whose bit is set at all six:

    slots(token) = AND_k word[place_k(token)],    place_k = floor(((h_1 + k h_2) mod 2^32) W / 2^32).

With c tokens in a slot and W >= 28 c words, a token that was not counted has a slot's bit with probability at
most (1 - e^(-6/28))^6 < 0.00006.

The hashes are multilinear, h = floor(((a_0 + sum_i a_i w_i) mod 2^64) / 2^32) over the four 32-bit words of
a token (Dietzfelbinger 1996, "Universal hashing and k-wise independent random variables via integer
arithmetic without primes"), with multipliers that the operating system draws: whoever chooses tokens without
knowing them cannot make them collide. A bijection of h_1 and h_2 then hides that they are linear.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLOTS", "TokenFilter"]

SLOTS = 16
"""Slots, one bit of a word each."""

_WORDS = 28  # words for each token of a slot
_LEAST = 64
_STEPS = np.arange(6, dtype=np.uint64)[:, None]  # one row a place
_HALF = np.uint64(32)
_SHIFT, _ODD = np.uint64(15), np.uint64(0x9E3779B1)
_LOW = np.uint64(0xFFFFFFFF)


class TokenFilter:
    """Sixteen sets of tokens in one array, without false negatives.

    Parameters
    ----------
    capacity
        Tokens of a slot up to which false positives are as rare as said above. More are taken, too.

    Examples
    --------
    >>> tokens = np.frombuffer(bytes(range(32)), "S16")
    >>> kept = TokenFilter(100)
    >>> kept.insert(tokens[:1], slot=3)
    >>> kept.slots_of(tokens).tolist()
    [8, 0]
    >>> kept.clear(1 << 3)
    >>> kept.slots_of(tokens).tolist()
    [0, 0]
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._words = np.zeros(max(_WORDS * capacity, _LEAST), np.uint16)
        self._multipliers = np.frombuffer(secrets.token_bytes(5 * 2 * 8), np.uint64).reshape(5, 2, 1)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._words.nbytes

    def _places(self, tokens: NDArray[np.bytes_]) -> NDArray[np.int64]:
        """Return the places (6, n) of tokens (n,)."""
        parts = tokens.view("<u4").reshape(len(tokens), 4).T.astype(np.uint64)
        a = self._multipliers
        sums: NDArray[np.uint64] = np.add.reduce(a[1:] * parts[:, None, :], axis=0)
        sums += a[0]
        sums >>= _HALF
        sums ^= sums >> _SHIFT
        sums *= _ODD
        sums &= _LOW
        places: NDArray[np.uint64] = sums[0] + _STEPS * sums[1]
        places &= _LOW
        places *= np.uint64(len(self._words))
        places >>= _HALF
        return places.view(np.int64)

    def slots_of(self, tokens: NDArray[np.bytes_]) -> NDArray[np.uint16]:
        """Return for tokens (n,) of dtype S16 the slots (n,) that may hold them, one bit a slot."""
        words: NDArray[np.uint16] = self._words.take(self._places(tokens), mode="clip")
        found: NDArray[np.uint16] = np.bitwise_and.reduce(words, axis=0)
        return found

    def insert(self, tokens: NDArray[np.bytes_], slot: int) -> None:
        """Put tokens (n,) of dtype S16 into a slot."""
        self._words[self._places(tokens).ravel()] |= np.uint16(1 << slot)

    def clear(self, slots: int) -> None:
        """Empty slots, given as bits."""
        self._words &= np.uint16(~slots & 0xFFFF)
