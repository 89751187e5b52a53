"""Where a device's randomness comes from: whole numbers that are exactly uniform.

Every draw is built from fair bits. ``below(n)`` draws ``k = ceil(log2 n)`` bits and draws again while the
value is ``n`` or more: each of the ``n`` accepted values then has the same probability ``2^-k`` a try, so
the result is exactly uniform, with fewer than two tries on average. No floating point is involved.

Formal guarantees: privacy rests on ``SystemEntropy``. ``SimulatedEntropy`` gives none, since whoever knows or
guesses the seed can undo the randomization.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Protocol

from .._validate import integer_in
from ..errors import InvalidInput

__all__ = ["Entropy", "SimulatedEntropy", "SystemEntropy", "uniform_below"]

_LARGEST_SEED = 2**53 - 1


class Entropy(Protocol):
    """A source of fair bits; the contract that every sampler on a device draws from."""

    def bits(self, k: int) -> int:
        """Return a whole number uniform in ``[0, 2^k)``; ``k`` is at least 0."""

    def below(self, n: int) -> int:
        """Return a whole number exactly uniform in ``[0, n)``; ``n`` is at least 1."""

    def token_bytes(self, n: int) -> bytes:
        """Return ``n`` independent uniform bytes; ``n`` is at least 0."""


def uniform_below(bits: Callable[[int], int], n: int) -> int:
    """Return a whole number exactly uniform in ``[0, n)``, by rejection.

    Parameters
    ----------
    bits : callable
        ``bits(k)`` is uniform in ``[0, 2^k)``.
    n : int
        Number of possible results, at least 1.

    Raises
    ------
    InvalidInput
        If ``n`` is below 1.

    Examples
    --------
    >>> tries = iter([7, 6, 2])
    >>> uniform_below(lambda k: next(tries), 5)
    2
    """
    if n < 1:
        raise InvalidInput(f"n = {n!r}: must be a whole number >= 1")
    if n == 1:
        return 0
    k = (n - 1).bit_length()
    value = bits(k)
    while value >= n:
        value = bits(k)
    return value


class SystemEntropy:
    """The operating system's cryptographic generator: the one to use on a device.

    Each draw asks the system again. Nothing is kept in between, so a forked process cannot repeat a draw of
    its parent, and no copy of unused randomness lies in memory.

    Examples
    --------
    >>> entropy = SystemEntropy()
    >>> 0 <= entropy.below(10) < 10
    True
    >>> len(entropy.token_bytes(16))
    16
    """

    __slots__ = ()

    def bits(self, k: int) -> int:
        """Return a whole number uniform in ``[0, 2^k)``."""
        if k < 0:
            raise InvalidInput(f"k = {k!r}: must be a whole number >= 0")
        return int.from_bytes(os.urandom((k + 7) >> 3), "big") >> (-k & 7)

    def below(self, n: int) -> int:
        """Return a whole number exactly uniform in ``[0, n)``."""
        return uniform_below(self.bits, n)

    def token_bytes(self, n: int) -> bytes:
        """Return ``n`` independent uniform bytes."""
        if n < 0:
            raise InvalidInput(f"n = {n!r}: must be a whole number >= 0")
        return os.urandom(n)


class SimulatedEntropy:
    """A seeded generator (Mersenne Twister), for studies that must be repeatable. Never on a device.

    It protects nobody: its outputs follow from the seed, and a forked process repeats them.

    Parameters
    ----------
    seed : int
        From 0 to 2^53 - 1. Equal seeds give equal draws.

    Raises
    ------
    InvalidInput
        If the seed is not such a number.

    Examples
    --------
    >>> SimulatedEntropy(7).below(1000) == SimulatedEntropy(7).below(1000)
    True
    """

    __slots__ = ("_random",)

    def __init__(self, seed: int) -> None:
        self._random = Random(integer_in(0, _LARGEST_SEED, seed=seed))

    def bits(self, k: int) -> int:
        """Return a whole number uniform in ``[0, 2^k)``."""
        if k < 0:
            raise InvalidInput(f"k = {k!r}: must be a whole number >= 0")
        return self._random.getrandbits(k)

    def below(self, n: int) -> int:
        """Return a whole number exactly uniform in ``[0, n)``."""
        return uniform_below(self.bits, n)

    def token_bytes(self, n: int) -> bytes:
        """Return ``n`` uniform bytes."""
        if n < 0:
            raise InvalidInput(f"n = {n!r}: must be a whole number >= 0")
        return self._random.randbytes(n)
