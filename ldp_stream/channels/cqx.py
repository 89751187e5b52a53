"""The CQX(q, s) channel: public block, face-aware grid, randomized response, affine decoder.

The contribution ``g = X (f - tau)``, f = 1{Y <= X'b}, lies on two faces: the intercept coordinate is
a_f = f - tau and slope j lies in a_f [l_j, u_j]. A report of p = d + 1 coordinates is made so:

1. a block S of s coordinates is drawn from a public design, independently of the data: uniform, so that
   w_j = P(j in S) = s/p, or with the intercept at a chosen probability (:mod:`.block_design`);
2. if 0 in S the category is (f, grid index of each slope in S) on face f's own grid of q equidistant points
   on a_f [l_j, u_j], K = 2 q^(s-1); otherwise each slope has q points on the hull of both faces' intervals,
   K = q^s; stochastic rounding to the two neighbouring points is unbiased, independent per coordinate;
3. the category goes through k-ary randomized response (pi, rho).

With v(c) the grid values of category c and V their sum over all categories, the server decodes

    g~_j = (v_j(c) - rho V_j) / ((pi - rho) w_j) on S, 0 elsewhere,        E[g~ | X, Y, b] = g exactly,

without knowing b.

Sheared, slope j goes through the channel as g_j - r_j g_0, r_j the middle of [l_j, u_j], so that its grids
span a_f [l_j - r_j, u_j - r_j]: for a one-sided interval and tau = 1/2 half as wide a hull. The decoder adds
r_j g~_0 back, in every block with the intercept; the sum is unbiased for g_j as both parts are.

Source: "Locally Private Online Quantile Regression: Estimation and Inference".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .._validate import integer_in, positive, probability
from ..errors import InvalidInput
from . import moments
from .base import CategoryPayload, Decoded, RandomBits
from .block_design import BlockDesign
from .grid import UniformGrid
from .randomized_response import RESOLUTION_BITS, RandomizedResponse

__all__ = ["CQX", "MOST_CATEGORIES"]

_ONE = 1 << RESOLUTION_BITS
_HULL = 2  # the third grid of a slope, after those of the faces 0 and 1
MOST_CATEGORIES = 1 << 16
_MOST_REMEMBERED = 1 << 16


@dataclass(frozen=True)
class CQX:
    """The CQX(q, s) channel of private quantile regression.

    Parameters
    ----------
    epsilon
        Privacy of one report, finite and > 0.
    tau
        Quantile level in (0, 1).
    intervals
        (l_j, u_j) of each of the d slopes in the working scale, -1 <= l_j <= 0 <= u_j <= 1, l_j < u_j.
    q
        Points of each grid, at least 2.
    s
        Coordinates in a block, from 1 to p = d + 1.
    intercept
        Probability omega that a block contains the intercept, in (0, 1]; None: uniform blocks, omega = s/p.
    shear
        Whether slopes go through the channel about the middle of their intervals.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, the alphabet has over 2^16 categories, there are over 2^32 blocks, or
        epsilon is too small for the integer sampler.

    Examples
    --------
    >>> channel = CQX(epsilon=1.0, tau=0.5, intervals=((-1.0, 1.0),) * 3, q=2, s=1)
    >>> channel.n_blocks, channel.categories(0), round(channel.second_moment, 3)
    (4, 2, 4.683)
    >>> channel.decode(CategoryPayload(block=0, category=1)).coordinates
    (0,)

    Notes
    -----
    Formal guarantee: the whole report (block and category) is epsilon-LDP, exactly, for every g of the
    support and for every block; blocks are independent of the data.
    """

    epsilon: float
    tau: float
    intervals: tuple[tuple[float, float], ...]
    q: int = 2
    s: int = 1
    intercept: float | None = None
    shear: bool = False

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        probability(tau=self.tau)
        for index, (lower, upper) in enumerate(self.intervals):
            if not (-1 <= lower <= 0 <= upper <= 1 and lower < upper):
                raise InvalidInput(
                    f"intervals[{index}] = {(lower, upper)!r}: must be inside [-1, 1] and contain 0"
                )
        integer_in(2, MOST_CATEGORIES, q=self.q)
        integer_in(1, self.p, s=self.s)
        if max(self._alphabet(True), self._alphabet(False)) > MOST_CATEGORIES:
            raise InvalidInput(
                f"q = {self.q}, s = {self.s}: more than 2^16 categories, the most that is allowed"
            )
        _ = self.design
        _ = self._responses  # refuses an epsilon that is too small

    # ------------------------------------------------------------------ the public design

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    @cached_property
    def design(self) -> BlockDesign:
        """The public design of the blocks."""
        return BlockDesign(self.p, self.s, self.intercept)

    @property
    def n_blocks(self) -> int:
        """Number of blocks, C(p, s)."""
        return self.design.n_blocks

    @property
    def intercept_blocks(self) -> int:
        """Number of blocks with the intercept, C(p - 1, s - 1); they are the first ones."""
        return self.design.intercept_blocks

    def coordinates(self, block: int) -> tuple[int, ...]:
        """Return the increasing coordinates of block number ``block``."""
        return self.design.coordinates(block)

    def categories(self, block: int) -> int:
        """Return the alphabet's size K in block number ``block``."""
        return self._responses[block < self.intercept_blocks].categories

    @cached_property
    def anchors(self) -> tuple[float, ...]:
        """r_j of each slope: the middle of [l_j, u_j] when sheared, else 0."""
        return tuple((lower + upper) / 2 if self.shear else 0.0 for lower, upper in self.intervals)

    def _alphabet(self, with_intercept: bool) -> int:
        if with_intercept:
            return int(2 * self.q ** (self.s - 1))
        return int(self.q**self.s) if self.s < self.p else 0  # the block of all coordinates has the intercept

    @cached_property
    def _responses(self) -> tuple[RandomizedResponse, RandomizedResponse]:
        """Randomized response of a block without, and of a block with, the intercept."""
        with_intercept = RandomizedResponse(self.epsilon, self._alphabet(True))
        size = self._alphabet(False)
        return (RandomizedResponse(self.epsilon, size) if size else with_intercept, with_intercept)

    @cached_property
    def _grids(self) -> tuple[moments.SlopeGrids, ...]:
        """Per slope: the grid on face 0, on face 1, and on the hull of both."""
        grids = []
        for (low, high), anchor in zip(self.intervals, self.anchors, strict=True):
            lower, upper = low - anchor, high - anchor
            zero = UniformGrid(-self.tau * upper, -self.tau * lower, self.q)
            one = UniformGrid((1 - self.tau) * lower, (1 - self.tau) * upper, self.q)
            hull = UniformGrid(min(zero.lower, one.lower), max(zero.upper, one.upper), self.q)
            grids.append((zero, one, hull))
        return tuple(grids)

    # ------------------------------------------------------------------ the device

    def privatize(self, g: Sequence[float], random: RandomBits) -> CategoryPayload:
        """Return one private report payload for the contribution ``g`` (p floats of the support)."""
        block = self.design.draw(random)
        coordinates = self.coordinates(block)
        with_intercept = coordinates[0] == 0
        face = int(g[0] > 0)
        category = face if with_intercept else 0
        kind = face if with_intercept else _HULL
        for j in coordinates[1:] if with_intercept else coordinates:
            index, up = self._grids[j - 1][kind].neighbours(g[j] - self.anchors[j - 1] * g[0])
            category = category * self.q + index + (random.bits(RESOLUTION_BITS) < up)
        return CategoryPayload(block, self._responses[with_intercept].draw(category, random))

    # ------------------------------------------------------------------ the server

    def decode(self, payload: CategoryPayload) -> Decoded:
        """Return the unbiased estimate g~ of the contribution; the payload must be in range."""
        decoded = self._remembered.get(payload)
        if decoded is None:
            decoded = self._decode(*payload)
            if len(self._remembered) < _MOST_REMEMBERED:
                self._remembered[payload] = decoded
        return decoded

    @cached_property
    def _remembered(self) -> dict[tuple[int, int], Decoded]:
        return {}

    def _decode(self, block: int, category: int) -> Decoded:
        coordinates = self.coordinates(block)
        values: list[float] = []
        face = _HULL
        slopes = coordinates
        if coordinates[0] == 0:
            face, category = divmod(category, self.q ** (self.s - 1))
            values.append(self._intercept_values[face])
            slopes = coordinates[1:]
        digits = []
        for _ in slopes:
            category, digit = divmod(category, self.q)
            digits.append(digit)
        values += [
            self._slope_values[j - 1][face][digit] for j, digit in zip(slopes, reversed(digits), strict=True)
        ]
        if self.shear and face != _HULL:
            return self._anchored(dict(zip(coordinates, values, strict=True)))
        return Decoded(coordinates, tuple(values))

    def _anchored(self, values: dict[int, float]) -> Decoded:
        """Return the block's values with r_j g~_0 added to every slope."""
        for j, anchor in enumerate(self.anchors, start=1):
            if anchor:
                values[j] = values.get(j, 0.0) + anchor * values[0]
        coordinates = tuple(sorted(values))
        return Decoded(coordinates, tuple(values[j] for j in coordinates))

    def _affine(self, with_intercept: bool, value: Fraction, total: Fraction, w: Fraction) -> float:
        """Return (v - rho V)/((pi - rho) w), rounded once."""
        response = self._responses[with_intercept]
        return float((value - response.rho * total) / ((response.pi - response.rho) * w))

    @cached_property
    def _intercept_values(self) -> tuple[float, float]:
        low, high = Fraction(-self.tau), Fraction(1 - self.tau)
        total = (low + high) * self.q ** (self.s - 1)
        w = self.design.inclusion[0]
        return self._affine(True, low, total, w), self._affine(True, high, total, w)

    @cached_property
    def _slope_values(self) -> tuple[tuple[tuple[float, ...], ...], ...]:
        """Decoded value by slope, grid (face 0, face 1, hull) and grid index."""
        table = []
        for grids in self._grids:
            points = [[Fraction(value) for value in grid.points] for grid in grids]
            repeats = Fraction(self.q) ** (self.s - 2)
            faces = repeats * (sum(points[0]) + sum(points[1]))
            hull = repeats * self.q * sum(points[_HULL])
            table.append(
                tuple(
                    tuple(
                        self._affine(
                            kind != _HULL,
                            value,
                            hull if kind == _HULL else faces,
                            self.design.inclusion[1],
                        )
                        for value in points[kind]
                    )
                    for kind in range(3)
                )
            )
        return tuple(table)

    # ------------------------------------------------------------------ the exact law

    def law(self, g: Sequence[float], block: int) -> tuple[Fraction, ...]:
        """Return the exact probabilities of all categories of ``block`` given g: rationals that sum to 1."""
        coordinates = self.coordinates(block)
        with_intercept = coordinates[0] == 0
        face = int(g[0] > 0)
        truth = [Fraction(int(f == face)) for f in (0, 1)] if with_intercept else [Fraction(1)]
        for j in coordinates[1:] if with_intercept else coordinates:
            grid = self._grids[j - 1][face if with_intercept else _HULL]
            index, up = grid.neighbours(g[j] - self.anchors[j - 1] * g[0])
            chances = [Fraction(0)] * self.q
            chances[index] = Fraction(_ONE - up, _ONE)
            if up:
                chances[index + 1] = Fraction(up, _ONE)
            truth = [weight * chance for weight in truth for chance in chances]
        return self._responses[with_intercept].law(truth)

    # ------------------------------------------------------------------ its size

    @cached_property
    def tables(self) -> moments.Tables:
        """What the second moments are made of; they do not depend on the block design."""
        return moments.Tables(self.tau, self.s, self._responses, self._grids)

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g~_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j]."""
        return moments.second_moments(self.tables, self.design, self.anchors)

    @cached_property
    def worst_second_moment(self) -> float:
        """Largest E ||g~||^2 over the support."""
        return moments.worst_second_moment(self.tables, self.design, self.anchors)

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return math.fsum(self.second_moments) / self.p
