"""The CQX channel again, slow and in rationals, from its definition alone: the oracle of the fast one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import mpmath

from tests.channels.enumeration import Vector

RESOLUTION = 1 << 62
POINT = tuple[Fraction, ...]


@cache
def floor_of_pi(epsilon: float, categories: int) -> int:
    """Return floor(2^62 e^eps/(e^eps + K - 1)) from 200 digits; the fraction left shows that they suffice."""
    with mpmath.workdps(200):
        power = mpmath.exp(mpmath.mpf(epsilon))
        scaled = RESOLUTION * power / (power + categories - 1)
        floor = int(mpmath.floor(scaled))
        if not mpmath.mpf(10) ** -100 < scaled - floor < 1 - mpmath.mpf(10) ** -100:
            raise ArithmeticError(f"200 digits do not settle epsilon = {epsilon!r}, K = {categories}")
        return floor


@dataclass(frozen=True)
class Reference:
    """The definition: block, grid, randomized response, affine decoder."""

    epsilon: float
    tau: float
    intervals: tuple[tuple[float, float], ...]
    q: int
    s: int

    @property
    def blocks(self) -> list[tuple[int, ...]]:
        """The s-subsets of 0..d in lexicographic order."""
        return list(itertools.combinations(range(len(self.intervals) + 1), self.s))

    def grid(self, j: int, face: int | None) -> POINT:
        """Return the q points of slope j on a face, or on the hull of both (None)."""
        low, high = map(Fraction, self.intervals[j - 1])
        ends = [
            a * end for f in ((0, 1) if face is None else (face,)) for a in [self.a(f)] for end in (low, high)
        ]
        step = (max(ends) - min(ends)) / (self.q - 1)
        return tuple(min(ends) + k * step for k in range(self.q))

    def a(self, face: int) -> Fraction:
        """Return f - tau."""
        return Fraction(1.0 - self.tau) if face else -Fraction(self.tau)

    def alphabet(self, block: tuple[int, ...]) -> list[tuple[int | None, POINT]]:
        """Return the face (None without the intercept) and the value v(c) on the block of each category."""
        if block[0] == 0:
            return [
                (face, (self.a(face), *slopes))
                for face in (0, 1)
                for slopes in itertools.product(*(self.grid(j, face) for j in block[1:]))
            ]
        return [(None, slopes) for slopes in itertools.product(*(self.grid(j, None) for j in block))]

    def chances(self, categories: int) -> tuple[Fraction, Fraction]:
        """Return (pi, rho)."""
        pi = Fraction(floor_of_pi(self.epsilon, categories), RESOLUTION)
        return pi, (1 - pi) / (categories - 1)

    def law(self, g: Vector, block: tuple[int, ...]) -> list[Fraction]:
        """Return the law of the category, with exact stochastic rounding."""
        alphabet = self.alphabet(block)
        pi, rho = self.chances(len(alphabet))
        own = 1 if g[0] > 0 else 0
        slopes = [j for j in block if j > 0]
        law = []
        for face, point in alphabet:
            truth = Fraction(int(face in (None, own)))
            if truth:
                for j, value in zip(slopes, point[len(point) - len(slopes) :], strict=True):
                    truth *= self._rounds_to(g[j], self.grid(j, face), value)
            law.append(rho + (pi - rho) * truth)
        return law

    def _rounds_to(self, value: float, grid: POINT, point: Fraction) -> Fraction:
        """Return the chance that the value is rounded to this point: the hat function of the grid."""
        clipped = min(max(Fraction(value), grid[0]), grid[-1])
        return max(Fraction(0), 1 - abs(clipped - point) / (grid[1] - grid[0]))

    def decode(
        self,
        block: tuple[int, ...],
        category: int,
        *,
        forget_total: bool = False,
        inclusion: Fraction | None = None,
    ) -> list[Fraction]:
        """Return (v(c) - rho V)/((pi - rho) w) on the block; the two switches make it wrong."""
        alphabet = self.alphabet(block)
        pi, rho = self.chances(len(alphabet))
        w = Fraction(self.s, len(self.intervals) + 1) if inclusion is None else inclusion
        totals = [sum(values) for values in zip(*(point for _, point in alphabet), strict=True)]
        if forget_total:
            totals = [Fraction(0)] * len(totals)
        return [
            (value - rho * total) / ((pi - rho) * w)
            for value, total in zip(alphabet[category][1], totals, strict=True)
        ]
