"""Direct Laplace: Laplace noise on every coordinate, on a lattice of whole numbers.

g + Laplace(Delta_1/eps) per coordinate is eps-LDP for exact real numbers only. Here g is rounded without bias
to the lattice of the multiples of h = 2^-24, and a discrete Laplace variable is added:

    g~ = h (z + Z),    z_j = floor or ceiling of g_j/h,    P(Z_j = k) proportional to exp(-|k| eps/D),

with D the largest L1 distance of two rounded contributions, a whole number. Given z and z' the probabilities
of a report differ by a factor of at most exp(||z - z'||_1 eps/D) <= e^eps, and the law given g is a mixture
of those given its roundings z, so the report is eps-LDP: exactly, since D is found in whole numbers and Z is
drawn with integers (:mod:`~ldp_stream.channels.discrete_laplace`).

D is Delta_1/h but for the rounding, which moves each end of an interval outwards to the lattice:

- support "aware": Delta_1 = max(1 + d, M sum_j (u_j - l_j)) in the working scale, the L1 diameter of the two
  faces (:mod:`~ldp_stream.channels.support` has the proof); the device takes z into the face's own intervals,
  so the guarantee holds for any floats;
- support "blind": Delta_1 = 2 M p, the diameter of the cube [-M, M]^p that holds the support.

Rounding costs next to nothing: D h <= Delta_1 + 2 p h, and h^2/4 or less in a coordinate's variance. What is
not exact: values are cut at :attr:`DirectLaplace.limits` (so that a server can refuse what no device sends),
which happens with probability e^-70 and moves the mean by less than 1e-29 of the noise's scale; it does not
touch privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from .._validate import positive
from ..errors import InvalidInput
from .base import Decoded, RandomBits, VectorPayload
from .discrete_laplace import DiscreteLaplace
from .rounding import added_variance, round_at_random
from .support import Support

__all__ = ["DirectLaplace"]

_BITS = 24  # h = 2^-24
_UNIT = 1 << _BITS
_CUT = 70  # scales of the noise
_SMALLEST_EPSILON = 1e-9


@dataclass(frozen=True)
class DirectLaplace:
    """The Direct Laplace channel of quantile regression.

    Parameters
    ----------
    epsilon
        Privacy of one report, finite and at least 1e-9.
    tau
        Quantile level in (0, 1).
    intervals
        (l_j, u_j) of each of the d slopes in the working scale, -1 <= l_j <= 0 <= u_j <= 1, l_j < u_j.
    support
        "aware" of the two faces, or "blind".

    Raises
    ------
    InvalidInput
        If a parameter is out of range.

    Examples
    --------
    >>> channel = DirectLaplace(epsilon=1.0, tau=0.5, intervals=((-1.0, 1.0),) * 3)
    >>> channel.lattice_sensitivity / 2**24, round(channel.second_moment, 3)
    (4.0, 32.125)

    Notes
    -----
    Formal guarantee: the report is epsilon-LDP, exactly, for whatever floats the contribution holds.
    """

    epsilon: float
    tau: float
    intervals: tuple[tuple[float, float], ...]
    support: Literal["aware", "blind"] = "aware"

    def __post_init__(self) -> None:
        if positive(epsilon=self.epsilon) < _SMALLEST_EPSILON:
            raise InvalidInput(f"epsilon = {self.epsilon!r}: must be at least {_SMALLEST_EPSILON:g}")
        if self.support not in ("aware", "blind"):
            raise InvalidInput(f'support = {self.support!r}: must be "aware" or "blind"')
        _ = self._geometry  # refuses a level or an interval that is out of range

    @cached_property
    def _geometry(self) -> Support:
        return Support(self.tau, self.intervals)

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    @cached_property
    def _own_cells(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The lattice points, first and last, to which a coordinate of the support is rounded, by face."""
        found = []
        for face in (0, 1):
            ends = [self._geometry.interval(face, j) for j in range(self.p)]
            found.append(tuple((math.floor(low * _UNIT), math.ceil(high * _UNIT)) for low, high in ends))
        return tuple(found)

    @cached_property
    def _cells(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The lattice points, first and last, to which a coordinate is taken, by face."""
        if self.support == "aware":
            return self._own_cells
        reach = math.ceil(self._geometry.largest * _UNIT)
        return (((-reach, reach),) * self.p,) * 2

    @cached_property
    def lattice_sensitivity(self) -> int:
        """D, the largest L1 distance of two rounded contributions, in lattice steps: a whole number."""
        zero, one = self._cells
        within = [sum(high - low for low, high in cells) for cells in (zero, one)]
        across = sum(max(b[1] - a[0], a[1] - b[0]) for a, b in zip(zero, one, strict=True))
        return max(*within, across)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The law of the noise of a coordinate, in lattice steps."""
        return DiscreteLaplace(Fraction(self.epsilon) / self.lattice_sensitivity)

    @cached_property
    def _cuts(self) -> tuple[tuple[int, int], ...]:
        """First and last lattice point of each coordinate of a report."""
        reach = math.ceil(_CUT / self.noise.rate)
        zero, one = self._cells
        return tuple(
            (min(a[0], b[0]) - reach, max(a[1], b[1]) + reach) for a, b in zip(zero, one, strict=True)
        )

    @cached_property
    def limits(self) -> tuple[float, ...]:
        """The largest absolute value of each coordinate of a report."""
        return tuple(max(-low, high) / _UNIT for low, high in self._cuts)

    # ------------------------------------------------------------------ device and server

    def privatize(self, g: Sequence[float], random: RandomBits) -> VectorPayload:
        """Return the rounded contribution with noise on each coordinate."""
        values = []
        for x, (low, high), (first, last) in zip(g, self._cells[g[0] > 0], self._cuts, strict=True):
            point = min(max(round_at_random(x * _UNIT, random), low), high)
            point = min(max(point + self.noise.draw(random), first), last)
            values.append(point / _UNIT)
        return VectorPayload(tuple(values))

    def decode(self, payload: VectorPayload) -> Decoded:
        """Return the unbiased estimate g~: the payload itself."""
        return Decoded(tuple(range(self.p)), payload.values)

    # ------------------------------------------------------------------ law and size

    def log_density(self, g: Sequence[float], payload: VectorPayload) -> float:
        """Return the logarithm of the probability of a payload inside the limits given g, in floats."""
        total = 0.0
        for x, value in zip(g, payload.values, strict=True):
            place, point = x * _UNIT, round(value * _UNIT)
            index = math.floor(place)
            below, above = (self.noise.log_probability(point - z) for z in (index, index + 1))
            up = place - index
            total += below + math.log1p(up * math.expm1(above - below))
        return total

    def _rounded(self, face: int, j: int) -> float:
        """Return the mean of the variance that rounding adds to coordinate j on a face, in lattice steps."""
        low, high = self._geometry.interval(face, j)
        return added_variance(low * _UNIT, high * _UNIT)

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g~_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j]."""
        own = self._geometry.second_moments
        chance = 1 - self.tau, self.tau
        rounded = [sum(chance[face] * self._rounded(face, j) for face in (0, 1)) for j in range(self.p)]
        return tuple(
            square + (extra + self.noise.variance) / _UNIT**2
            for square, extra in zip(own, rounded, strict=True)
        )

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return math.fsum(self.second_moments) / self.p

    @cached_property
    def worst_second_moment(self) -> float:
        """The largest E||g~||^2 over the support.

        The mean square of a rounded coordinate is convex between the ends of its interval where these are
        lattice points, and never above the one of the ends rounded outwards, from which this is computed: an
        upper bound that is exact but for h.
        """
        largest = max(sum(max(-low, high) ** 2 for low, high in cells) for cells in self._own_cells)
        return (largest + self.p * self.noise.variance) / _UNIT**2
