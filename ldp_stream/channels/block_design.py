"""The public design of the blocks: which s of the p = d + 1 coordinates a report is about.

A block S contains the intercept with probability omega, and is uniform inside each of the two classes:

    w_0 = P(0 in S) = omega,      w_j = P(j in S) = (omega (s - 1) + (1 - omega) s)/d,  j = 1..d.

Without a given omega all C(p, s) blocks are equally likely, omega = s/p. A given omega is the rational
T/2^62 next to the number, so that a device draws it from 62 bits and the decoder divides by exactly what was
drawn. Blocks are numbered in lexicographic order: the C(d, s - 1) with the intercept come first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .._validate import finite, integer_in
from ..errors import InvalidInput
from .base import RandomBits
from .blocks import block_coordinates
from .randomized_response import RESOLUTION_BITS

__all__ = ["BlockDesign"]

_ONE = 1 << RESOLUTION_BITS
_MOST_BLOCKS = 1 << 32


@dataclass(frozen=True)
class BlockDesign:
    """Blocks of s of p coordinates, with the intercept at probability ``intercept``.

    Parameters
    ----------
    p
        Coordinates, the intercept included.
    s
        Coordinates in a block, from 1 to p.
    intercept
        omega in (0, 1]; below 1 where s = 1 < p, and 1 where s = p. None: uniform blocks, omega = s/p.

    Raises
    ------
    InvalidInput
        If a number is out of range, or there are over 2^32 blocks.

    Examples
    --------
    >>> design = BlockDesign(p=4, s=2, intercept=1.0)
    >>> design.inclusion, design.probability(0), design.probability(5)
    ((Fraction(1, 1), Fraction(1, 3)), Fraction(1, 3), Fraction(0, 1))
    """

    p: int
    s: int
    intercept: float | None = None

    def __post_init__(self) -> None:
        integer_in(1, self.p, s=self.s)
        if self.n_blocks > _MOST_BLOCKS:
            raise InvalidInput(
                f"s = {self.s}: {self.n_blocks} blocks of {self.p} coordinates, at most 2^32 are allowed"
            )
        if self.intercept is None:
            return
        number = finite(intercept=self.intercept)
        if not 0 < self.omega <= 1 or number > 1:
            raise InvalidInput(f"intercept = {self.intercept!r}: must be a number in (0, 1], at least 2^-62")
        if self.s == self.p and self.omega < 1:
            raise InvalidInput(
                f"intercept = {self.intercept!r}: must be 1, as blocks of s = {self.s} coordinates contain it"
            )
        if self.s == 1 < self.p and self.omega == 1:
            raise InvalidInput(
                f"intercept = {self.intercept!r}: must be below 1 with s = 1, or no slope is ever reported"
            )

    @cached_property
    def n_blocks(self) -> int:
        """Number of blocks, C(p, s)."""
        return math.comb(self.p, self.s)

    @cached_property
    def intercept_blocks(self) -> int:
        """Number of blocks with the intercept, C(p - 1, s - 1); they are the first ones."""
        return math.comb(self.p - 1, self.s - 1)

    def coordinates(self, block: int) -> tuple[int, ...]:
        """Return the increasing coordinates of block number ``block``."""
        return block_coordinates(block, self.p, self.s)

    @cached_property
    def omega(self) -> Fraction:
        """P(0 in S), the rational with which the device draws and the decoder divides."""
        if self.intercept is None:
            return Fraction(self.s, self.p)
        return Fraction(round(Fraction(self.intercept) * _ONE), _ONE)

    @cached_property
    def inclusion(self) -> tuple[Fraction, Fraction]:
        """(w_0, w_j): probabilities that the intercept, and that any one slope, is in the block."""
        with_both, without = self.shares
        return self.omega, with_both + without

    @cached_property
    def shares(self) -> tuple[Fraction, Fraction]:
        """(P(0 in S, j in S), P(0 not in S, j in S)) of any one slope j; zeros without slopes."""
        d = self.p - 1
        if d == 0:
            return Fraction(0), Fraction(0)
        return self.omega * (self.s - 1) / d, (1 - self.omega) * self.s / d

    @cached_property
    def weights(self) -> tuple[float, float, float]:
        """(omega, P(0 in S, j in S), P(0 not in S, j in S)) as floats."""
        return float(self.omega), float(self.shares[0]), float(self.shares[1])

    def probability(self, block: int) -> Fraction:
        """Return the probability of a block, which does not depend on the data."""
        if block < self.intercept_blocks:
            return self.omega / self.intercept_blocks
        return (1 - self.omega) / (self.n_blocks - self.intercept_blocks)

    def draw(self, random: RandomBits) -> int:
        """Return the number of a random block."""
        if self.intercept is None:
            return random.below(self.n_blocks)
        with_intercept = random.bits(RESOLUTION_BITS) < self.omega.numerator * (
            _ONE // self.omega.denominator
        )
        if with_intercept:
            return random.below(self.intercept_blocks)
        return self.intercept_blocks + random.below(self.n_blocks - self.intercept_blocks)
