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
    intercept: float | None = None
    shear: bool = False

    @property
    def blocks(self) -> list[tuple[int, ...]]:
        """The s-subsets of 0..d in lexicographic order."""
        return list(itertools.combinations(range(len(self.intervals) + 1), self.s))

    def grid(self, j: int, face: int | None) -> POINT:
        """Return the q points of slope j on a face, or on the hull of both (None)."""
        low, high = (Fraction(end) - self.anchor(j) for end in self.intervals[j - 1])
        ends = [
            a * end for f in ((0, 1) if face is None else (face,)) for a in [self.a(f)] for end in (low, high)
        ]
        step = (max(ends) - min(ends)) / (self.q - 1)
        return tuple(min(ends) + k * step for k in range(self.q))

    def anchor(self, j: int) -> Fraction:
        """Return r_j, the middle of slope j's interval when sheared."""
        low, high = map(Fraction, self.intervals[j - 1])
        return (low + high) / 2 if self.shear else Fraction(0)

    def inclusion(self, j: int) -> Fraction:
        """Return w_j, by counting blocks."""
        classes = {own: [block for block in self.blocks if (0 in block) == own] for own in (True, False)}
        if self.intercept is None:
            omega = Fraction(len(classes[True]), len(self.blocks))
        else:
            omega = Fraction(round(Fraction(self.intercept) * RESOLUTION), RESOLUTION)
        return sum(
            (
                chance * Fraction(sum(j in block for block in classes[own]), len(classes[own]))
                for own, chance in ((True, omega), (False, 1 - omega))
                if chance
            ),
            Fraction(0),
        )

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
                    truth *= self._rounds_to(
                        Fraction(g[j]) - self.anchor(j) * Fraction(g[0]), self.grid(j, face), value
                    )
            law.append(rho + (pi - rho) * truth)
        return law

    def _rounds_to(self, value: Fraction, grid: POINT, point: Fraction) -> Fraction:
        """Return the chance that the value is rounded to this point: the hat function of the grid."""
        clipped = min(max(value, grid[0]), grid[-1])
        return max(Fraction(0), 1 - abs(clipped - point) / (grid[1] - grid[0]))

    def decode(
        self,
        block: tuple[int, ...],
        category: int,
        *,
        forget_total: bool = False,
        factor: Fraction = Fraction(1),
        forget_anchor: bool = False,
    ) -> list[Fraction]:
        """Return g~, p values: (v(c) - rho V)/((pi - rho) w) on the block; the switches make it wrong."""
        alphabet = self.alphabet(block)
        pi, rho = self.chances(len(alphabet))
        totals = [sum(values) for values in zip(*(point for _, point in alphabet), strict=True)]
        if forget_total:
            totals = [Fraction(0)] * len(totals)
        found = [Fraction(0)] * (len(self.intervals) + 1)
        for j, value, total in zip(block, alphabet[category][1], totals, strict=True):
            found[j] = (value - rho * total) / ((pi - rho) * self.inclusion(j) * factor)
        if not forget_anchor:
            for j in range(1, len(found)):
                found[j] += self.anchor(j) * found[0]
        return found
