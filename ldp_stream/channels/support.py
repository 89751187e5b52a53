"""The support of a contribution: two faces, and what its geometry says about any channel.

The contribution g = X (f - tau), f = 1{Y <= X'b}, has the intercept coordinate a_f = f - tau, and on face f
slope j lies in a_f [l_j, u_j]. With M = max(tau, 1 - tau) and B_j = max(-l_j, u_j):

- the largest square length is M^2 (1 + sum_j B_j^2), at a corner of the larger face;
- by convention (P(f = 1) = tau, slopes uniform on [l_j, u_j]) E g = 0, since E a_f = 0, and
  E g_j^2 = tau (1 - tau) (l_j^2 + l_j u_j + u_j^2)/3;
- two contributions differ in the L1 norm by at most Delta_1 = max(1 + sum_j B_j, M sum_j (u_j - l_j)).

Proof of the last. On one face the intercepts agree and slope j differs by at most |a_f| (u_j - l_j), attained
at corners. Between the faces the intercepts differ by 1, and slope j by (1 - tau) x + tau x' with x, x' in
[l_j, u_j], of size at most B_j, attained at x = x' = the end of size B_j; all at once at a corner of each.
In the working scale B_j = 1, which gives max(1 + d, M sum_j (u_j - l_j)).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from .._validate import probability
from ..errors import InvalidInput

__all__ = ["Support"]


@dataclass(frozen=True)
class Support:
    """Both faces of the contributions of a quantile level.

    Parameters
    ----------
    tau
        Quantile level in (0, 1).
    intervals
        (l_j, u_j) of each of the d slopes in the working scale, -1 <= l_j <= 0 <= u_j <= 1, l_j < u_j.

    Raises
    ------
    InvalidInput
        If a parameter is out of range.

    Examples
    --------
    >>> support = Support(0.75, ((-1.0, 1.0), (0.0, 1.0)))
    >>> support.sensitivity, support.interval(0, 1), support.interval(1, 0)
    (3.0, (-0.75, 0.75), (0.25, 0.25))
    """

    tau: float
    intervals: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        probability(tau=self.tau)
        for index, (lower, upper) in enumerate(self.intervals):
            if not (-1 <= lower <= 0 <= upper <= 1 and lower < upper):
                raise InvalidInput(
                    f"intervals[{index}] = {(lower, upper)!r}: must be inside [-1, 1] and contain 0"
                )

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    @property
    def faces(self) -> tuple[float, float]:
        """(a_0, a_1), the intercept coordinate on each face, as a device computes it."""
        return -self.tau, 1.0 - self.tau

    @property
    def largest(self) -> float:
        """M, the largest coordinate that a contribution can have."""
        return max(self.tau, 1.0 - self.tau)

    def interval(self, face: int, j: int) -> tuple[float, float]:
        """Return the ends of coordinate j's interval on a face; coordinate 0 is one point.

        Products of floats round monotonically, so a device's own products lie between these ends, exactly.
        """
        a = self.faces[face]
        if j == 0:
            return a, a
        lower, upper = self.intervals[j - 1]
        return (a * lower, a * upper) if a > 0 else (a * upper + 0.0, a * lower + 0.0)

    def hull(self, j: int) -> tuple[float, float]:
        """Return the ends of the smallest interval with coordinate j's intervals on both faces."""
        zero, one = self.interval(0, j), self.interval(1, j)
        return min(zero[0], one[0]), max(zero[1], one[1])

    @cached_property
    def sensitivity(self) -> float:
        """Delta_1, the largest L1 distance of two contributions."""
        across = 1 + math.fsum(max(-lower, upper) for lower, upper in self.intervals)
        return max(across, self.largest * math.fsum(upper - lower for lower, upper in self.intervals))

    @cached_property
    def worst_second_moment(self) -> float:
        """The largest square length of a contribution."""
        squares = (max(-lower, upper) ** 2 for lower, upper in self.intervals)
        return self.largest**2 * (1 + math.fsum(squares))

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g_j^2 of each coordinate, by the convention above."""
        face = self.tau * (1 - self.tau)
        return (face, *(face * (low * low + low * high + high * high) / 3 for low, high in self.intervals))

    def corners(self) -> Iterator[tuple[float, ...]]:
        """Yield the 2^(d + 1) corners of both faces: every convex function is largest at one of them."""
        for a in self.faces:
            for row in product(*self.intervals):
                yield (a, *(a * x for x in row))
