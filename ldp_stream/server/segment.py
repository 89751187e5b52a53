"""Running sums of a stretch of iterates, from which the average and the random-scaling matrix follow exactly.

For iterates b_1, .., b_L of one stretch let m be their mean and R_t = sum_{i <= t} (b_i - m) = t (m_t - m).
The stretch keeps its length, its mean (as a first iterate c plus an offset o, so that large coefficients cost
no digits) and

    M = sum_t z_t z_t',   z_t = (R_t, t, 1),

whose upper left block is sum_t t^2 (m_t - m)(m_t - m)', so V = M_RR/L^2 (random scaling; Lee, Liao, Seo and
Shin, 2022). Two stretches in a row combine exactly: with gap = m_2 - m_1, d_1 = -(L_2/L) gap and
d_2 = (L_1/L) gap,

    z_t = A_1 z_t^(1)            (R_t = R_t^(1) + t d_1)                        in the first,
    z_t = A_2 z_{t - L_1}^(2)    (R_t = L_1 d_1 + R_u^(2) + u d_2, u = t - L_1)  in the second,

hence M = A_1 M_1 A_1' + A_2 M_2 A_2'. Every sum is centred at its own mean, so nothing cancels: this is the
moving-centre recursion, a stretch at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

__all__ = ["Segment", "combine", "combine_all", "from_walk", "joint_offset"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Segment:
    """Sums over consecutive iterates.

    Parameters
    ----------
    length
        L, at least 1.
    start
        c, shape (p,): a value near the iterates, working scale.
    offset
        o = mean - c, shape (p,).
    moments
        M, shape (p + 2, p + 2).
    """

    length: int
    start: Array
    offset: Array
    moments: Array

    @property
    def mean(self) -> Array:
        """The average of the iterates, shape (p,)."""
        return self.start + self.offset

    @property
    def random_scaling(self) -> Array:
        """V = L^-2 sum_t t^2 (m_t - m)(m_t - m)', shape (p, p)."""
        p = self.start.shape[0]
        return np.asarray(self.moments[:p, :p] / float(self.length) ** 2)

    def leading(self, p: int) -> Segment:
        """Return the sums of the first p coordinates."""
        width = self.start.shape[0]
        kept = [*range(p), width, width + 1]
        return Segment(self.length, self.start[:p], self.offset[:p], self.moments[np.ix_(kept, kept)])


@lru_cache(maxsize=64)
def _identity(size: int) -> Array:
    return np.eye(size)


def from_walk(start: Array, walk: Array) -> Segment:
    """Return the sums of L iterates from their walk.

    Parameters
    ----------
    start
        c, shape (p,).
    walk
        Shape (L, p + 2): row t = 1..L has D_t = sum_{i <= t} (b_i - c), then t, then 1.
    """
    p, length = start.shape[0], walk.shape[0]
    offset = walk[-1, :p] / length
    shift = _identity(p + 2).copy()
    shift[:p, p] = -offset
    return Segment(length, start, offset, shift @ (walk.T @ walk) @ shift.T)


def joint_offset(first: Segment, length: int, start: Array, offset: Array) -> Array:
    """Return the offset from ``first.start`` of the joint mean; the second stretch is given by its parts."""
    gap = (start - first.start) + (offset - first.offset)
    return np.asarray(first.offset + (length / (first.length + length)) * gap)


def combine(first: Segment, second: Segment) -> Segment:
    """Return the sums over two stretches in a row."""
    p = first.start.shape[0]
    length = first.length + second.length
    gap = (second.start - first.start) + (second.offset - first.offset)
    before, after = _identity(p + 2).copy(), _identity(p + 2).copy()
    before[:p, p] = (-second.length / length) * gap
    after[:p, p] = (first.length / length) * gap
    after[:p, p + 1] = first.length * before[:p, p]
    after[p, p + 1] = first.length
    offset = joint_offset(first, second.length, second.start, second.offset)
    moments = before @ first.moments @ before.T + after @ second.moments @ after.T
    return Segment(length, first.start, offset, moments)


def combine_all(segments: list[Segment]) -> Segment | None:
    """Return the sums over all stretches in order, or None when there is none."""
    return reduce(combine, segments) if segments else None
