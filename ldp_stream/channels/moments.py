"""Second moments of the decoded CQX vector, in closed form.

Let D_0(f) be the intercept's value before division by w_0, D_j(k) that of slope j at grid point k. Inside a
block the category has probability rho + (pi - rho) t(c), t its true law, so that of coordinate j alone

    own   = E D_j^2,  cross = E D_j D_0   (blocks with the intercept, own grids),
    hull  = E D_j^2                       (blocks without it),       start = E D_0^2.

With P_1 = P(0 in S, j in S), P_2 = P(0 not in S, j in S), w = P_1 + P_2 and the anchor r_j (0 unless sheared)

    E g~_0^2 = start/w_0,
    E g~_j^2 = (P_1 own + P_2 hull)/w^2 + 2 r_j P_1 cross/(w w_0) + r_j^2 start/w_0.

The expected moments take P(f = 1) = tau and slopes uniform on [l_j, u_j]. The largest E ||g~||^2 over the
support is found exactly: given the face, coordinates add up, and the moment of one is, as a function of g_j,
the piecewise linear interpolation of a convex function at the grid points, so its maximum is at an end of
the face's interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .block_design import BlockDesign
from .grid import UniformGrid
from .randomized_response import RandomizedResponse

__all__ = [
    "Raw",
    "SlopeGrids",
    "Tables",
    "combined",
    "expected_raw",
    "second_moments",
    "worst_raw",
    "worst_second_moment",
]

SlopeGrids = tuple[UniformGrid, UniformGrid, UniformGrid]


@dataclass(frozen=True)
class Raw:
    """Moments of one slope before the block design enters; ``start`` is the intercept's."""

    start: float
    own: float
    cross: float
    hull: float


@dataclass(frozen=True)
class Tables:
    """What the moments of a channel are made of.

    Parameters
    ----------
    tau
        Quantile level.
    s
        Coordinates in a block.
    responses
        Randomized response of a block without, and with, the intercept.
    grids
        By slope: its grid on face 0, on face 1, and on the hull of both.
    """

    tau: float
    s: int
    responses: tuple[RandomizedResponse, RandomizedResponse]
    grids: tuple[SlopeGrids, ...]

    @cached_property
    def chances(self) -> tuple[tuple[int, float, float], tuple[int, float, float]]:
        """(K, rho, pi - rho) of a block without, and with, the intercept."""
        without, with_intercept = (
            (response.categories, float(response.rho), float(response.pi - response.rho))
            for response in self.responses
        )
        return without, with_intercept

    def _decoded(self, with_intercept: bool, values: Sequence[float], total: float) -> list[float]:
        """Return (v - rho V)/(pi - rho) of each value."""
        _, rho, gain = self.chances[with_intercept]
        return [(value - rho * total) / gain for value in values]

    @cached_property
    def start(self) -> list[float]:
        """D_0 on face 0 and on face 1."""
        faces = -self.tau, 1 - self.tau
        return self._decoded(True, faces, sum(faces) * self.chances[True][0] / 2)

    @cached_property
    def values(self) -> tuple[tuple[list[float], list[float], list[float]], ...]:
        """D_j on each of slope j's grids; empty where no block uses it."""
        return tuple(map(self._values, range(len(self.grids))))

    def _values(self, j: int) -> tuple[list[float], list[float], list[float]]:
        zero, one, hull = (grid.points for grid in self.grids[j])
        own: list[list[float]] = [[], []]
        if self.s > 1:
            total = math.fsum((*zero, *one)) * self.chances[True][0] / (2 * len(zero))
            own = [self._decoded(True, points, total) for points in (zero, one)]
        outside: list[float] = []
        if self.s <= len(self.grids):
            total = math.fsum(hull) * self.chances[False][0] / len(hull)
            outside = self._decoded(False, hull, total)
        return own[0], own[1], outside

    def intercept(self, chance: Sequence[float]) -> float:
        """Return E D_0^2 when face f has probability ``chance[f]``."""
        size, rho, gain = self.chances[True]
        floor = rho * size / 2
        return sum((floor + gain * chance[f]) * self.start[f] ** 2 for f in (0, 1))

    def slope(self, j: int, chance: Sequence[float], weights: Sequence[Sequence[float]]) -> Raw:
        """Return the moments of slope j; ``weights`` are its laws on the grids 0, 1 (own) and 2 (hull)."""
        values = self.values[j]
        q = self.grids[j][0].q
        own = cross = hull = 0.0
        size, rho, gain = self.chances[True]
        floor = rho * size / (2 * q)
        for f in (0, 1):
            for weight, value in zip(weights[f], values[f], strict=False):
                share = (floor + gain * chance[f] * weight) * value
                own += share * value
                cross += share * self.start[f]
        size, rho, gain = self.chances[False]
        floor = rho * size / q
        for weight, value in zip(weights[2], values[2], strict=False):
            hull += (floor + gain * weight) * value * value
        return Raw(self.intercept(chance), own, cross, hull)


def expected_raw(tables: Tables, j: int) -> Raw:
    """Return the moments of slope j with P(f = 1) = tau and a slope that is uniform on [l_j, u_j]."""
    chance = 1 - tables.tau, tables.tau
    grids = tables.grids[j]
    step = 1 / (grids[0].q - 1)
    own = [[step / 2, *(grids[0].q - 2) * [step], step / 2]] * 2
    by_face = [grids[2].mean_weights(grid.lower, grid.upper) for grid in grids[:2]]
    hull = [chance[0] * a + chance[1] * b for a, b in zip(*by_face, strict=True)]
    return tables.slope(j, chance, (*own, hull))


def worst_raw(tables: Tables, j: int, face: int) -> tuple[Raw, Raw]:
    """Return the moments of slope j on a face at the two ends of its interval."""
    chance = 1.0 - face, float(face)
    grids = tables.grids[j]
    last = grids[face].q - 1
    found = []
    for index, end in ((0, grids[face].lower), (last, grids[face].upper)):
        point = [float(k == index) for k in range(last + 1)]
        found.append(tables.slope(j, chance, (point, point, grids[2].weights(end))))
    return found[0], found[1]


def combined(raw: Raw, design: BlockDesign, anchor: float) -> float:
    """Return E g~_j^2 of a slope under a block design, r_j = ``anchor``."""
    omega, first, second = design.weights
    w = first + second
    return (
        (first * raw.own + second * raw.hull) / (w * w)
        + 2 * anchor * first * raw.cross / (w * omega)
        + anchor * anchor * raw.start / omega
    )


def second_moments(tables: Tables, design: BlockDesign, anchors: Sequence[float]) -> tuple[float, ...]:
    """Return E g~_j^2 of each of the p coordinates, by convention."""
    start = tables.intercept((1 - tables.tau, tables.tau)) / design.weights[0]
    return (start, *(combined(expected_raw(tables, j), design, r) for j, r in enumerate(anchors)))


def worst_second_moment(tables: Tables, design: BlockDesign, anchors: Sequence[float]) -> float:
    """Return the largest E ||g~||^2 over the support."""
    totals = []
    for face in (0, 1):
        parts = [tables.intercept((1.0 - face, float(face))) / design.weights[0]]
        for j, anchor in enumerate(anchors):
            parts.append(max(combined(raw, design, anchor) for raw in worst_raw(tables, j, face)))
        totals.append(math.fsum(parts))
    return max(totals)
