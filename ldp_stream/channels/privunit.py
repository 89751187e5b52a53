"""PrivUnitG: a Gaussian vector that leans towards the contribution (Asi, Feldman, Talwar 2022).

A contribution g lies in the ball of the public radius R = M sqrt(1 + sum_j max(-l_j, u_j)^2). With one more
coordinate it is on the unit sphere without any randomization,

    v = (w, sqrt(1 - |w|^2)),    w = g/R,

and PrivUnitG draws a standard normal vector of R^(p+1) given that its part along v is at least gamma, with
probability pi, or that it is below, else. The report is its first p coordinates U, which have a closed law:
against the density of a standard normal vector of R^p they have the density

    b + (a - b) P(Z >= (gamma - <u, w>)/sqrt(1 - |w|^2)),    Z standard normal,
    a = pi/(1 - Phi(gamma)),    b = (1 - pi)/Phi(gamma).

It lies in [b, a], so two inputs' densities differ by a factor of at most a/b; and

    E[U] = m w,    E[U_j^2] = 1 + gamma m w_j^2,    m = (a - b) phi(gamma),

so g~ = R U/m has mean g and E g~_j^2 = (R/m)^2 + (gamma/m) g_j^2. The usual way to the sphere, +-g/|g| with
mean g/R, has the same mean square where |g| = R and a larger one elsewhere. Drawn is U = Y + (A - T) w with Y
standard normal in R^p, T = <Y, w> + sqrt(1 - |w|^2) Z, itself standard normal, and A from its truncated law.

gamma is the multiple of 1/64 with the least worst mean square p (R/m)^2 + (gamma/m) R^2, and pi the largest
multiple of 2^-62 with a/b <= e^eps: the optimal split of epsilon.

**What is exact and what is not.** pi is certified: the floor is taken of a value that is smaller by 2^-40,
more than the error of Phi(gamma), so the law above is eps-LDP without reservation. The choice of the side and
the rounding to multiples of 2^-12 are drawn with integers. The normal variables are floats, by the inverse
distribution function of 62 uniform bits, accurate to some 1e-15, so the law of the device's rounded vector
differs from the one above by some 1e-11 in total variation: privacy and mean hold up to that. The last digits
of floats, which could tell more (Mironov 2012), are not sent. Values are cut at :attr:`PrivUnitG.limits`,
beyond which less than 1e-18 of the law lies. An epsilon above 64 is replaced by 64, which protects more.
Where a guarantee without these reservations is wanted, CQX, Direct Laplace and Piecewise have one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

from .._validate import positive
from ..errors import InvalidInput
from .base import Decoded, RandomBits, VectorPayload
from .randomized_response import RESOLUTION_BITS, floor_of_share
from .rounding import round_at_random
from .support import Support

__all__ = ["PrivUnitG"]

_NORMAL = NormalDist()
_ONE = 1 << RESOLUTION_BITS
_UNIT = 1 << 12  # lattice steps in a standard deviation
_ROUNDING = 0.25 / _UNIT**2  # the most that rounding adds to a mean square, in standard deviations
_FINENESS, _MOST = 64, 12 * 64  # gamma is one of 0, 1/64, .., 12
_REACH = 10.0  # standard deviations beyond gamma where reports are cut
_MARGIN = 1 + Fraction(1, 1 << 40)  # of the odds of Phi(gamma), whose floats are right to some gamma^2 2^-53
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-6, 64.0


@dataclass(frozen=True)
class _Cap:
    """The law of the part along v: at least gamma with probability pi, else below."""

    epsilon: float
    gamma: float

    @cached_property
    def above(self) -> float:
        """1 - Phi(gamma)."""
        return math.erfc(self.gamma / math.sqrt(2)) / 2

    @cached_property
    def below(self) -> float:
        """Phi(gamma)."""
        return math.erfc(-self.gamma / math.sqrt(2)) / 2

    @cached_property
    def kept(self) -> int:
        """2^62 pi."""
        return floor_of_share(self.epsilon, _MARGIN * Fraction(self.below) / Fraction(self.above))

    @cached_property
    def inside(self) -> float:
        """The density a."""
        return self.kept / _ONE / self.above

    @cached_property
    def outside(self) -> float:
        """The density b."""
        return (_ONE - self.kept) / _ONE / self.below

    @cached_property
    def mean(self) -> float:
        """The mean m of the part along v."""
        return (self.inside - self.outside) * _NORMAL.pdf(self.gamma)

    def worst(self, p: int) -> float:
        """Return the largest E||g~||^2/R^2 of p coordinates, with the pi of the reals."""
        power = math.exp(self.epsilon)
        share = power * self.above + self.below
        mean = math.expm1(self.epsilon) / share * _NORMAL.pdf(self.gamma)
        return p / mean**2 + self.gamma / mean

    def draw(self, random: RandomBits) -> float:
        """Return the part along v."""
        in_cap = random.bits(RESOLUTION_BITS) < self.kept
        low, high = _shares(random)
        if in_cap:
            return -_NORMAL.inv_cdf(self.above * low)
        return _quantile(self.below * low, self.above + self.below * high)


def _shares(random: RandomBits) -> tuple[float, float]:
    """Return the middle x of one of 2^62 equal cells of (0, 1), and 1 - x, each rounded once."""
    odd = 2 * random.bits(RESOLUTION_BITS) + 1
    return odd / (2 * _ONE), (2 * _ONE - odd) / (2 * _ONE)


def _quantile(below: float, above: float) -> float:
    """Return the point with these shares of the standard normal law on its sides, from the smaller one."""
    return _NORMAL.inv_cdf(below) if below < above else -_NORMAL.inv_cdf(above)


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
    (6.456, 26.259)

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
        """R, the public bound of the length of a contribution."""
        return math.sqrt(self._geometry.worst_second_moment)

    @cached_property
    def cap(self) -> _Cap:
        """The split of epsilon between pi and gamma with the least worst mean square."""
        epsilon = min(self.epsilon, _LARGEST_EPSILON)
        caps = [_Cap(epsilon, i / _FINENESS) for i in range(_MOST + 1)]
        return min(caps, key=lambda cap: cap.worst(self.p))

    @cached_property
    def _step(self) -> float:
        """A lattice step of a report."""
        return self.radius / (self.cap.mean * _UNIT)

    @cached_property
    def _last(self) -> int:
        """The largest number of lattice steps in a report."""
        return math.ceil((self.cap.gamma + _REACH) * _UNIT)

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """The largest absolute value of each coordinate of a report."""
        return (self._last * self._step,) * self.p

    def _direction(self, g: Sequence[float]) -> tuple[list[float], float]:
        """Return w, taken into the unit ball, and the last coordinate of v."""
        length = max(math.hypot(*g), self.radius)
        w = [x / length for x in g]
        return w, math.sqrt(max(0.0, 1 - math.fsum(x * x for x in w)))

    # ------------------------------------------------------------------ device and server

    def privatize(self, g: Sequence[float], random: RandomBits) -> VectorPayload:
        """Return the unbiased estimate g~ of the contribution; the same draws, whatever it is."""
        w, rest = self._direction(g)
        a = self.cap.draw(random)
        y = [_quantile(*_shares(random)) for _ in range(self.p + 1)]
        shift = a - math.fsum(map(float.__mul__, [*w, rest], y))
        values = []
        for own, lean in zip(y, w, strict=False):
            point = round_at_random((own + shift * lean) * _UNIT, random)
            values.append(min(max(point, -self._last), self._last) * self._step)
        return VectorPayload(tuple(values))

    def decode(self, payload: VectorPayload) -> Decoded:
        """Return the unbiased estimate g~: the payload itself."""
        return Decoded(tuple(range(self.p)), payload.values)

    # ------------------------------------------------------------------ law and size

    def density(self, g: Sequence[float], payload: VectorPayload) -> float:
        """Return the density of a payload given g against that of R/m times a standard normal vector."""
        w, rest = self._direction(g)
        scale = self._step * _UNIT
        gap = self.cap.gamma - math.fsum(
            x * value / scale for x, value in zip(w, payload.values, strict=True)
        )
        if rest == 0:
            return self.cap.outside if gap > 0 else self.cap.inside
        share = math.erfc(gap / (rest * math.sqrt(2))) / 2
        return self.cap.outside + (self.cap.inside - self.cap.outside) * share

    def _moments(self, squares: Sequence[float]) -> tuple[float, ...]:
        """Return E g~_j^2 where E g_j^2 is given, and 2^-26 of the noise for rounding, which adds less."""
        noise = (self.radius / self.cap.mean) ** 2 * (1 + _ROUNDING)
        return tuple(noise + self.cap.gamma / self.cap.mean * square for square in squares)

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g~_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j]."""
        return self._moments(self._geometry.second_moments)

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return math.fsum(self.second_moments) / self.p

    @cached_property
    def worst_second_moment(self) -> float:
        """The largest E||g~||^2 over the support, where ||g|| = R; an upper bound that is exact to 2^-26."""
        return math.fsum(self._moments((self.radius**2, *(0.0,) * (self.p - 1))))
