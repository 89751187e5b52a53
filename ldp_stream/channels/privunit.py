"""PrivUnitG: a Gaussian vector that leans towards the contribution's direction (Asi, Feldman, Talwar 2022).

The contribution lies in the ball of the public radius R = M sqrt(1 + sum_j max(-l_j, u_j)^2). It is taken to
the unit sphere without bias: v = g/||g|| with probability (1 + ||g||/R)/2, else -g/||g||, so E[v] = g/R. Then

    V = A v + W,    W normal in the p - 1 directions across v,
    A a standard normal given A >= gamma with probability q, given A < gamma else,

and the server takes g~ = R V/m, m = E[A] = phi(gamma) (q/(1 - Phi(gamma)) - (1 - q)/Phi(gamma)); E[g~] = g.
Against a standard normal vector V has the density q/(1 - Phi(gamma)) where <V, v> >= gamma, else
(1 - q)/Phi(gamma), whatever v, so with

    q = e^e0/(1 + e^e0),    Phi(gamma) = e^e1/(1 + e^e1),    e0 + e1 = eps

two inputs' densities differ by a factor of at most e^eps; a mixture of both signs keeps this. Of 64 splits
e0 = i eps/64 the one with the least mean square

    E||g~||^2 = (R/m)^2 (p - 1 + E[A^2])

is taken, with E[A^2] = 1 + gamma m. It does not depend on g.

**What is exact and what is not.** The sign and the choice of the cap are drawn with integers, 62 bits each.
The normal variables are floats, by the inverse distribution function of 52 uniform bits, so the law above,
the density's ratio and the mean hold up to floating point only: there is no proof about the last digits, in
which floats may tell more than the law does (Mironov 2012). As a precaution a report is rounded to multiples
of 2^-20 of its scale R/m, some 30 bits coarser than those digits. Where a guarantee without this reservation
is wanted, CQX, Direct Laplace and the piecewise channels have one. An epsilon above 64 is replaced by 64,
which protects more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

from .._validate import positive
from ..errors import InvalidInput
from .base import Decoded, RandomBits, VectorPayload
from .randomized_response import RESOLUTION_BITS
from .support import Support

__all__ = ["PrivUnitG"]

_NORMAL = NormalDist()
_SPLITS = 64
_BITS = 52  # (b + 1/2)/2^52 is a float in (0, 1), never rounded
_UNIT = 1 << 20  # multiples of a report's scale to which it is rounded: its inverse
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 64.0
_DIGITS = 12  # of moments, so that machines whose exponentials differ in the last digit agree on step sizes


@dataclass(frozen=True)
class _Cap:
    """The law of A: q = e^e0/(1 + e^e0), and gamma with the upper tail 1/(1 + e^e1)."""

    e0: float
    e1: float

    @cached_property
    def q(self) -> float:
        return 1 / (1 + math.exp(-self.e0))

    @cached_property
    def tail(self) -> float:
        return 1 / (1 + math.exp(self.e1))

    @cached_property
    def gamma(self) -> float:
        return -_NORMAL.inv_cdf(self.tail)

    @cached_property
    def inside(self) -> float:
        """The density against the normal one in the cap."""
        return self.q / self.tail

    @cached_property
    def outside(self) -> float:
        """The same outside the cap: 1 - q and 1 - tail without cancellation."""
        return (1 + math.exp(-self.e1)) / (1 + math.exp(self.e0))

    @cached_property
    def mean(self) -> float:
        """The mean m of A."""
        return _NORMAL.pdf(self.gamma) * (self.inside - self.outside)

    @cached_property
    def square(self) -> float:
        """E[A^2]: 1 + gamma m."""
        return 1 + self.gamma * self.mean


@dataclass(frozen=True)
class PrivUnitG:
    """The PrivUnitG channel of quantile regression.

    Parameters
    ----------
    epsilon
        Privacy of one report, finite and at least 1e-6.
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
    >>> channel = PrivUnitG(epsilon=1.0, tau=0.5, intervals=((-1.0, 1.0),) * 3)
    >>> round(channel.second_moment, 3), round(channel.worst_second_moment, 3)
    (6.565, 26.259)

    Notes
    -----
    Formal guarantee: the law of the module's description is epsilon-LDP; the sampler follows it up to
    floating point, see there.
    """

    epsilon: float
    tau: float
    intervals: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if positive(epsilon=self.epsilon) < _SMALLEST_EPSILON:
            raise InvalidInput(f"epsilon = {self.epsilon!r}: must be at least {_SMALLEST_EPSILON:g}")
        _ = self._geometry  # refuses a level or an interval that is out of range

    @cached_property
    def _geometry(self) -> Support:
        return Support(self.tau, self.intervals)

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    @cached_property
    def radius(self) -> float:
        """R, the public bound of ||g||."""
        return math.sqrt(self._geometry.worst_second_moment)

    @cached_property
    def cap(self) -> _Cap:
        """The split (q, gamma) of the least mean square, of 64."""
        epsilon = min(self.epsilon, _LARGEST_EPSILON)
        caps = [_Cap(epsilon * i / _SPLITS, epsilon - epsilon * i / _SPLITS) for i in range(_SPLITS + 1)]
        return min(caps, key=lambda cap: (self.p - 1 + cap.square) / cap.mean**2)

    @cached_property
    def scale(self) -> float:
        """R/m."""
        return self.radius / self.cap.mean

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """The largest absolute value of each coordinate of a report: |A| + ||W|| at most."""
        farthest = -_NORMAL.inv_cdf(self.cap.tail * 2.0 ** -(_BITS + 2))
        across = -_NORMAL.inv_cdf(2.0 ** -(_BITS + 2)) * math.sqrt(self.p)
        return (self.scale * (farthest + across + 1),) * self.p

    # ------------------------------------------------------------------ device and server

    def privatize(self, g: Sequence[float], random: RandomBits) -> VectorPayload:
        """Return the unbiased estimate g~ of the contribution."""
        length = math.hypot(*g)
        ahead = round((1 + min(length / self.radius, 1.0)) / 2 * (1 << RESOLUTION_BITS))
        sign = 1.0 if random.bits(RESOLUTION_BITS) < ahead else -1.0
        v = [sign * x / length for x in g]
        in_cap = random.bits(RESOLUTION_BITS) < round(self.cap.q * (1 << RESOLUTION_BITS))
        share = _uniform(random)
        tail = self.cap.tail
        a = -_NORMAL.inv_cdf(share * tail) if in_cap else _NORMAL.inv_cdf(share * (1 - tail))
        z = [_NORMAL.inv_cdf(_uniform(random)) for _ in v]
        along = a - math.fsum(x * y for x, y in zip(v, z, strict=True))
        step = self.scale / _UNIT
        return VectorPayload(tuple(round((x + along * y) * _UNIT) * step for x, y in zip(z, v, strict=True)))

    def decode(self, payload: VectorPayload) -> Decoded:
        """Return the unbiased estimate g~: the payload itself."""
        return Decoded(tuple(range(self.p)), payload.values)

    # ------------------------------------------------------------------ law and size

    def density(self, g: Sequence[float], payload: VectorPayload) -> float:
        """Return the density of a payload given g against that of R/m times a normal vector."""
        length = math.hypot(*g)
        along = math.fsum(x * y for x, y in zip(g, payload.values, strict=True)) / (length * self.scale)
        ahead = (1 + min(length / self.radius, 1.0)) / 2
        cap = self.cap
        parts = [cap.inside if side >= cap.gamma else cap.outside for side in (along, -along)]
        return ahead * parts[0] + (1 - ahead) * parts[1]

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g~_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j].

        It is (R/m)^2 (1 + (E[A^2] - 1) E[v_j^2]), and v_j^2 = x_j^2/(1 + sum x^2), x_0 = 1, on either face.
        """
        shares = _mean_shares(self.intervals)
        gain = self.cap.square - 1
        return tuple(_rounded(self.scale**2 * (1 + gain * share)) for share in shares)

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return math.fsum(self.second_moments) / self.p

    @cached_property
    def worst_second_moment(self) -> float:
        """E||g~||^2, the same for every contribution."""
        return _rounded(self.scale**2 * (self.p - 1 + self.cap.square))


def _uniform(random: RandomBits) -> float:
    """Return one of 2^52 equidistant floats in (0, 1), the middles of as many cells."""
    return (random.bits(_BITS) + 0.5) / (1 << _BITS)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _mean_shares(intervals: tuple[tuple[float, float], ...]) -> list[float]:
    """Return E[x_j^2/(1 + sum x^2)] for j = 0..d, x_0 = 1 and x_j uniform on [l_j, u_j], independent.

    1/S = int_0^inf e^(-t S) dt makes it an integral over t of a product of one-dimensional means, which are
    error functions; with t = r^2 the trapezoidal rule on a smooth integrand that vanishes at r = 9.
    """
    steps, reach = 1440, 9.0
    sums = [0.0] * (len(intervals) + 1)
    kinds = sorted(set(intervals))
    for i in range(1, steps + 1):
        r = reach * i / steps
        means = {kind: _damped(kind, r) for kind in kinds}
        density = 2 * r * math.exp(-r * r) * math.prod(means[kind][0] for kind in intervals)
        sums[0] += density
        for j, kind in enumerate(intervals, start=1):
            sums[j] += density * means[kind][1] / means[kind][0]
    whole = math.fsum(sums)
    return [value / whole for value in sums]


def _damped(interval: tuple[float, float], r: float) -> tuple[float, float]:
    """Return E[e^(-r^2 x^2)] and E[x^2 e^(-r^2 x^2)] for x uniform on the interval."""
    low, high = interval
    plain = math.sqrt(math.pi) / 2 * (math.erf(r * high) - math.erf(r * low)) / (r * (high - low))
    ends = (high * math.exp(-((r * high) ** 2)) - low * math.exp(-((r * low) ** 2))) / (high - low)
    square = (plain - ends) / (2 * r * r)
    if r * max(-low, high) < 1e-2:  # where the difference cancels: the series
        square = (low * low + low * high + high * high) / 3
        square -= r * r * (high**5 - low**5) / (5 * (high - low))
    return plain, square
