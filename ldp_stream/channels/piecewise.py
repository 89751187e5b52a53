"""Coordinate sampling with a scalar mechanism: Piecewise and Hybrid (Wang et al. 2019, algorithm 4).

Coordinate j of a contribution lies in the hull [m_j - h_j, m_j + h_j] of both faces' intervals, so it is
g_j = m_j + h_j t_j with t_j in [-1, 1]; m_j and h_j are public (m_0 = 1/2 - tau, h_0 = 1/2, and t_0 = +-1 is
the face). The device draws k of the p coordinates uniformly, independently of the data, and sends

    g~_j = m_j + (p/k) h_j y_j    on the k coordinates,    g~_j = m_j    on the others,

where y_j is a mechanism's unbiased answer to t_j at eps/k (:mod:`~ldp_stream.channels.scalar`). Then
E[g~] = g, and the report is eps-LDP by composition: both exactly, but for the last rounding of g~ to floats.
k = max(1, min(p, floor(eps/2.5))) unless given, which the source recommends.

Only the part that varies is divided by the sampling probability; scaling to [-1, 1] about 0, as the source
does with data that lie there, would do so with the public m_j as well, and costs more where intervals are
one-sided or tau is not 1/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .._validate import integer_in, positive
from .base import Decoded, RandomBits, VectorPayload
from .blocks import block_coordinates
from .rounding import added_variance
from .scalar import ScalarHybrid, ScalarPiecewise
from .support import Support

__all__ = ["Piecewise"]

_PER_COORDINATE = 2.5


@dataclass(frozen=True)
class Piecewise:
    """The Piecewise or the Hybrid mechanism with coordinate sampling.

    Parameters
    ----------
    epsilon
        Privacy of one report, finite and > 0.
    tau
        Quantile level in (0, 1).
    intervals
        (l_j, u_j) of each of the d slopes in the working scale, -1 <= l_j <= 0 <= u_j <= 1, l_j < u_j.
    k
        Coordinates that a report tells of, from 1 to p; None is max(1, min(p, floor(epsilon/2.5))).
    hybrid
        The mixture with the two-valued mechanism instead of the piecewise one alone.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, or epsilon too small for the integer sampler.

    Examples
    --------
    >>> intervals = ((-1.0, 1.0),) * 3
    >>> [round(Piecewise(1.0, 0.5, intervals, hybrid=hybrid).second_moment, 3) for hybrid in (False, True)]
    [4.953, 4.789]

    Notes
    -----
    Formal guarantee: the report is epsilon-LDP, exactly, for whatever floats the contribution holds.
    """

    epsilon: float
    tau: float
    intervals: tuple[tuple[float, float], ...]
    k: int | None = None
    hybrid: bool = False

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        if self.k is not None:
            integer_in(1, self.p, k=self.k)
        _ = self._geometry, self.scalar  # refuse what is out of range

    @cached_property
    def _geometry(self) -> Support:
        return Support(self.tau, self.intervals)

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    @property
    def sampled(self) -> int:
        """k, the number of coordinates that a report tells of."""
        if self.k is not None:
            return self.k
        return max(1, int(min(float(self.p), self.epsilon / _PER_COORDINATE)))

    @cached_property
    def scalar(self) -> ScalarPiecewise | ScalarHybrid:
        """The mechanism of one coordinate, at epsilon/k rounded down."""
        share = self.epsilon / self.sampled
        if Fraction(share) * self.sampled > Fraction(self.epsilon):
            share = math.nextafter(share, 0.0)
        return ScalarHybrid(share) if self.hybrid else ScalarPiecewise(share)

    @cached_property
    def _hulls(self) -> tuple[tuple[float, float], ...]:
        """(m_j, h_j)."""
        hulls = [self._geometry.hull(j) for j in range(self.p)]
        return tuple(((low + high) / 2, (high - low) / 2) for low, high in hulls)

    @property
    def _scale(self) -> float:
        return self.p / self.sampled

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """The largest absolute value of each coordinate of a report."""
        largest = self._scale * self.scalar.largest
        return tuple((abs(m) + largest * h) * (1 + 2.0**-50) for m, h in self._hulls)

    # ------------------------------------------------------------------ device and server

    def privatize(self, g: Sequence[float], random: RandomBits) -> VectorPayload:
        """Return the unbiased estimate g~ of the contribution."""
        block = random.below(math.comb(self.p, self.sampled))
        values = [m for m, _ in self._hulls]
        for j in block_coordinates(block, self.p, self.sampled):
            m, h = self._hulls[j]
            values[j] += self._scale * h * self.scalar.draw((g[j] - m) / h, random)
        return VectorPayload(tuple(values))

    def decode(self, payload: VectorPayload) -> Decoded:
        """Return the unbiased estimate g~: the payload itself."""
        return Decoded(tuple(range(self.p)), payload.values)

    # ------------------------------------------------------------------ its size

    def _moment(self, j: int, mean: float, square: float, rounding: float) -> float:
        """Return E g~_j^2 where E t_j, E t_j^2 and the mean variance of rounding s are given."""
        m, h = self._hulls[j]
        moment = self.scalar.second_moment(square, rounding)
        return m * m + 2 * m * h * mean + self._scale * h * h * moment

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g~_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j]."""
        found = []
        for j, ((m, h), own) in enumerate(zip(self._hulls, self._geometry.second_moments, strict=True)):
            rounding = 0.0
            for face, chance in ((0, 1 - self.tau), (1, self.tau)):
                ends = [(x - m + h) / (2 * h) * self.scalar.shifts for x in self._geometry.interval(face, j)]
                rounding += chance * added_variance(*ends)
            found.append(self._moment(j, -m / h, (own + m * m) / (h * h), rounding))  # E g = 0
        return tuple(found)

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return math.fsum(self.second_moments) / self.p

    @cached_property
    def worst_second_moment(self) -> float:
        """The largest E||g~||^2 over the support: a convex function of g, so at a corner of a face.

        It is a sum over coordinates, so each is taken to its worse end.
        """
        totals = []
        for face in (0, 1):
            total = 0.0
            for j, (m, h) in enumerate(self._hulls):
                places = [(x - m) / h for x in self._geometry.interval(face, j)]
                total += max(self._moment(j, t, t * t, 0.0) for t in places)
            totals.append(total)
        return max(totals)
