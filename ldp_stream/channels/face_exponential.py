"""Face-exponential: a grid point of the support, likelier the nearer it is to the contribution. It is biased.

A face f and a grid index of each slope, q equidistant points on a_f [l_j, u_j], make a point u of the
support. It is drawn with probability proportional to

    exp(-t ||u - g||_1) = exp(-t |a_f - g_0|) prod_j exp(-t |u_j - g_j|),    t = eps/(2 Delta_1),

the exponential mechanism (McSherry and Talwar 2007), and the server takes u itself: E[u] is not g. Its law
factorises over the slopes once the face is known, so its mean, and with it the bias, is found exactly for any
number of points: :meth:`FaceExponential.mean_shift`.

Whole numbers. Distances are measured between the nearest multiples of h = 2^-10, so each is a whole number n
of steps, and the weight of a distance is the whole number

    T(n) = floor(2^B exp(-c n)),    c = (1 - 2^-40) eps/(2 D),    B = 128 + eps (rounded up),

with D the largest L1 distance of two contributions so measured; exp is a correctly rounded decimal. A point's
weight is the product of its d + 1 numbers T(n_j), and it is drawn with integers below the sum of all weights.
Between two inputs sum_j |n_j - n_j'| <= D, so a point's weights differ by a factor of at most
e^((1 - 2^-40) eps/2) but for the floors, whose relative errors are below 2^-126 each, since no T is below
2^(B - eps); for d < 100 and eps >= 1e-9, the least that is allowed, 2^-40 eps/2 is more than all of them. A
weight and the sum of weights change by at most e^(eps/2) each: the report is eps-LDP, exactly. An epsilon
above 256 is replaced by 256, which protects more.

How many random bits a draw takes, and so how long, depends on the record: who can time the device may learn
of it. It is a channel for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TypeVar

from .._validate import integer_in, positive
from ..errors import InvalidInput
from .base import CategoryPayload, Decoded, RandomBits
from .grid import UniformGrid
from .support import Support

__all__ = ["FaceExponential"]

_UNIT = 1 << 10  # 1/h
_MOST_CATEGORIES = 1 << 16
_MOST_COORDINATES = 100
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-9, 256.0
_SHORTER = 1 - Fraction(1, 1 << 40)
_SAMPLES = 1024  # contributions in the average behind second_moments
_ROUGH = Context(prec=20)  # digits of the weights of that average, more than a float has

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class FaceExponential:
    """The Face-exponential channel of quantile regression, biased.

    Parameters
    ----------
    epsilon
        Privacy of one report, finite and at least 1e-9.
    tau
        Quantile level in (0, 1).
    intervals
        (l_j, u_j) of each of the d < 100 slopes in the working scale, -1 <= l_j <= 0 <= u_j <= 1,
        l_j < u_j.
    q
        Points of each grid, from 2 to 2^16.

    Raises
    ------
    InvalidInput
        If a parameter is out of range.

    Examples
    --------
    >>> channel = FaceExponential(epsilon=1.0, tau=0.75, intervals=((-1.0, 1.0),) * 20)
    >>> shift = channel.mean_shift([0.25] + [0.25] * 20)
    >>> round(shift[0], 4), round(shift[1], 4), channel.categories(0)
    (-0.4543, -0.248, 2097152)

    Notes
    -----
    Formal guarantee: the report is epsilon-LDP, exactly, for whatever floats the contribution holds. Decoded
    reports are biased: a campaign's estimates and their intervals are of another point than the quantile
    regression's. A channel of more than 2^16 points states its mean, but makes no reports.
    """

    epsilon: float
    tau: float
    intervals: tuple[tuple[float, float], ...]
    q: int = 2

    def __post_init__(self) -> None:
        if positive(epsilon=self.epsilon) < _SMALLEST_EPSILON:
            raise InvalidInput(f"epsilon = {self.epsilon!r}: must be at least {_SMALLEST_EPSILON:g}")
        integer_in(2, _MOST_CATEGORIES, q=self.q)
        if self.p > _MOST_COORDINATES:
            raise InvalidInput(f"intervals: {self.p - 1} slopes, must be fewer than {_MOST_COORDINATES}")
        _ = self._geometry  # refuses a level or an interval that is out of range

    @cached_property
    def _geometry(self) -> Support:
        return Support(self.tau, self.intervals)

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    @property
    def n_blocks(self) -> int:
        """Number of blocks: 1, of all coordinates."""
        return 1

    @property
    def intercept_blocks(self) -> int:
        """Number of blocks with the intercept."""
        return 1

    def categories(self, block: int) -> int:
        """Return the alphabet's size 2 q^d, whatever the block."""
        del block
        return int(2 * self.q ** (self.p - 1))

    def check_alphabet(self) -> None:
        """Refuse more points than a report can name.

        Raises
        ------
        InvalidInput
            If there are more than 2^16.
        """
        if self.categories(0) > _MOST_CATEGORIES:
            raise InvalidInput(
                f"q = {self.q}: {self.categories(0)} grid points of {self.p - 1} slopes and two faces, more "
                "than 2^16, the most that is allowed"
            )

    # ------------------------------------------------------------------ weights

    @cached_property
    def _points(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Grid values by face and slope."""
        return tuple(
            tuple(UniformGrid(*self._geometry.interval(f, j), self.q).points for j in range(1, self.p))
            for f in (0, 1)
        )

    @cached_property
    def _places(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The same as multiples of h."""
        return tuple(
            tuple(tuple(_place(u) for u in points) for points in by_slope) for by_slope in self._points
        )

    @cached_property
    def _ends(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """First and last multiple of h of each coordinate, by face."""
        return tuple(
            tuple(
                (_place(low), _place(high))
                for low, high in map(self._geometry.interval, [f] * self.p, range(self.p))
            )
            for f in (0, 1)
        )

    @cached_property
    def lattice_sensitivity(self) -> int:
        """D, the largest L1 distance of two contributions in steps of h."""
        zero, one = self._ends
        within = [sum(high - low for low, high in ends) for ends in (zero, one)]
        across = sum(max(b[1] - a[0], a[1] - b[0]) for a, b in zip(zero, one, strict=True))
        return max(*within, across)

    @cached_property
    def _weights(self) -> dict[int, int]:
        return {}

    @cached_property
    def _rate(self) -> tuple[int, Fraction]:
        """B and c."""
        epsilon = min(self.epsilon, _LARGEST_EPSILON)
        return 128 + math.ceil(epsilon), _SHORTER * Fraction(epsilon) / (2 * self.lattice_sensitivity)

    def _weight(self, n: int) -> int:
        """Return T(n)."""
        weight = self._weights.get(n)
        if weight is None:
            bits, rate = self._rate
            context = Context(prec=40 + bits // 3)
            exponent = context.divide(Decimal(-n * rate.numerator), Decimal(rate.denominator))
            scaled = context.multiply(Decimal(1 << bits), context.exp(exponent))
            weight = self._weights[n] = math.floor(scaled)
        return weight

    @cached_property
    def _rough_weights(self) -> dict[int, float]:
        return {}

    def _rough_weight(self, n: int) -> float:
        """Return exp(-c n) as a float, the same on every machine."""
        weight = self._rough_weights.get(n)
        if weight is None:
            rate = self._rate[1]
            exponent = _ROUGH.divide(Decimal(-n * rate.numerator), Decimal(rate.denominator))
            weight = self._rough_weights[n] = float(_ROUGH.exp(exponent))
        return weight

    def _tables(
        self, g: Sequence[float], weight: Callable[[int], _Number]
    ) -> tuple[list[_Number], list[list[list[_Number]]]]:
        """Return each face's total weight, and by face and slope the weights of the grid's points."""
        ends = self._ends[g[0] > 0]
        own = [min(max(_place(x), low), high) for x, (low, high) in zip(g, ends, strict=True)]
        tables = [
            [[weight(abs(u - x)) for u in places] for places, x in zip(by_slope, own[1:], strict=True)]
            for by_slope in self._places
        ]
        across = [weight(abs(self._ends[f][0][0] - own[0])) for f in (0, 1)]
        totals = [across[f] * math.prod(map(sum, tables[f])) for f in (0, 1)]
        return totals, tables

    # ------------------------------------------------------------------ device and server

    def privatize(self, g: Sequence[float], random: RandomBits) -> CategoryPayload:
        """Return a category drawn by the exponential mechanism: the face, then each slope's index."""
        self.check_alphabet()
        totals, tables = self._tables(g, self._weight)
        category = face = _choose(totals, random)
        for weights in tables[face]:
            category = category * self.q + _choose(weights, random)
        return CategoryPayload(0, category)

    def decode(self, payload: CategoryPayload) -> Decoded:
        """Return the grid point u: a biased estimate of the contribution."""
        face, category = divmod(payload.category, self.q ** (self.p - 1))
        digits = []
        for _ in self.intervals:
            category, digit = divmod(category, self.q)
            digits.append(digit)
        slopes = zip(self._points[face], reversed(digits), strict=True)
        values = (self._geometry.faces[face], *(points[digit] for points, digit in slopes))
        return Decoded(tuple(range(self.p)), values)

    # ------------------------------------------------------------------ the exact law

    def law(self, g: Sequence[float], block: int = 0) -> tuple[Fraction, ...]:
        """Return the exact probabilities of all categories given g: rationals that sum to 1."""
        del block
        self.check_alphabet()
        totals, tables = self._tables(g, self._weight)
        whole = sum(totals)
        found = []
        for face in (0, 1):
            rest = math.prod(map(sum, tables[face]))
            found += [
                Fraction(totals[face] * math.prod(weights), whole * rest)
                for weights in product(*tables[face])
            ]
        return tuple(found)

    def _moment(self, g: Sequence[float], power: int, weight: Callable[[int], _Number]) -> tuple[float, ...]:
        """Return E u_j^power given g of each coordinate; sums of weights, divided once."""
        totals, tables = self._tables(g, weight)
        chance = [totals[f] / sum(totals) for f in (0, 1)]
        moments = [math.fsum(chance[f] * self._geometry.faces[f] ** power for f in (0, 1))]
        for j in range(self.p - 1):
            parts = []
            for f in (0, 1):
                whole = sum(tables[f][j])
                points = zip(tables[f][j], self._points[f][j], strict=True)
                parts += [chance[f] * (share / whole) * u**power for share, u in points]
            moments.append(math.fsum(parts))
        return tuple(moments)

    def mean_shift(self, g: Sequence[float]) -> tuple[float, ...]:
        """Return the bias E[u | g] - g of each coordinate, exact but for the last rounding to floats."""
        return tuple(mean - x for mean, x in zip(self._moment(g, 1, self._weight), g, strict=True))

    # ------------------------------------------------------------------ its size

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E u_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j].

        The average of the exact second moments at 1,024 contributions of each face, whose slopes are spread
        evenly (a Kronecker sequence of the square roots of primes); to about 1 part in 1,000.
        """
        roots = [math.sqrt(prime) for prime in _primes(self.p - 1)]
        sums: list[list[float]] = [[] for _ in range(self.p)]
        for face, chance in ((0, 1 - self.tau), (1, self.tau)):
            a = self._geometry.faces[face]
            for i in range(_SAMPLES if self.intervals else 1):
                shares = (math.fmod(0.5 + i * root, 1.0) for root in roots)
                slopes = (
                    low + (high - low) * t for (low, high), t in zip(self.intervals, shares, strict=True)
                )
                moments = self._moment([a, *(a * x for x in slopes)], 2, self._rough_weight)
                for found, value in zip(sums, moments, strict=True):
                    found.append(chance * value)
        return tuple(math.fsum(found) / (_SAMPLES if self.intervals else 1) for found in sums)

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return math.fsum(self.second_moments) / self.p

    @cached_property
    def worst_second_moment(self) -> float:
        """A bound of E||u||^2 over the support: the largest ||u||^2, since u lies on the support itself.

        The error of the estimate is not bounded by it: the bias has to be added.
        """
        return self._geometry.worst_second_moment


def _place(x: float) -> int:
    """Return the nearest multiple of h."""
    return math.floor(x * _UNIT + 0.5)


def _choose(weights: Sequence[int], random: RandomBits) -> int:
    """Return an index with probability exactly proportional to its weight."""
    drawn = random.below(sum(weights))
    for index, weight in enumerate(weights):
        if drawn < weight:
            return index
        drawn -= weight
    raise AssertionError("a draw below the sum of the weights is below a partial sum")


def _primes(count: int) -> list[int]:
    """Return the first primes."""
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return found
