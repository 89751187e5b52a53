"""The working scale, in which devices and server compute, and the way back to the user's units.

With public bounds [lo_j, hi_j], centre c_j and half-width h_j = max(hi_j - c_j, c_j - lo_j),

    x~_j = (x_j - c_j)/h_j in [l_j, u_j] inside [-1, 1],    y~ = (y - mid)/half,    X = (1, x~_1, .., x~_d).

A fit X'b in the working scale is, in the user's units, mid + half X'b: slope_j = half b_j/h_j and
intercept = mid + half b_0 - sum_j slope_j c_j. Contrasts transform linearly.

A missing feature takes its centre, one out of range is clipped, an unknown one is ignored, a missing target
is the middle of its range: whatever the user's record holds, no exception depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ._validate import finite
from .errors import InvalidInput

__all__ = ["INTERCEPT", "Axis", "WorkingScale"]

INTERCEPT = "intercept"


def _usable(value: Any) -> float | None:
    """Return the value as a float that is not NaN, or None for anything that is no number."""
    try:
        try:
            number = float(value)
        except OverflowError:  # an integer or a fraction beyond all floats: out of range, not missing
            number = math.inf if value > 0 else -math.inf
    except Exception:  # whatever an object in a user's record raises
        return None
    return None if math.isnan(number) else number


@dataclass(frozen=True)
class Axis:
    """One feature's name, public bounds and public centre, in the user's units."""

    name: str
    lower: float
    upper: float
    centre: float

    @cached_property
    def half_width(self) -> float:
        """The unit of the working scale, h = max(upper - centre, centre - lower)."""
        return max(self.upper - self.centre, self.centre - self.lower)

    @cached_property
    def interval(self) -> tuple[float, float]:
        """(l, u): the bounds in the working scale."""
        return (self.lower - self.centre) / self.half_width, (self.upper - self.centre) / self.half_width


@dataclass(frozen=True)
class WorkingScale:
    """The map between a user's record and the coordinates of the estimation.

    Parameters
    ----------
    axes
        The d features, in the order of coordinates 1..d; coordinate 0 is the intercept.
    target_lower, target_upper
        Public range of the target, in the user's units.

    Examples
    --------
    >>> scale = WorkingScale((Axis("miles", 0.0, 10.0, 5.0),), 0.0, 60.0)
    >>> scale.row({"miles": 7.5}), scale.target(45.0)
    ([1.0, 0.5], 0.5)
    >>> scale.coefficients([0.5, 0.2])
    {'intercept': 39.0, 'miles': 1.2}
    """

    axes: tuple[Axis, ...]
    target_lower: float
    target_upper: float

    @cached_property
    def middle(self) -> float:
        """The middle of the target's range, in the user's units."""
        return (self.target_lower + self.target_upper) / 2

    @cached_property
    def half(self) -> float:
        """Half of the target's range, the unit of y~."""
        return (self.target_upper - self.target_lower) / 2

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the p coordinates, "intercept" first."""
        return (INTERCEPT, *(axis.name for axis in self.axes))

    @cached_property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """(l_j, u_j) of the d slopes."""
        return tuple(axis.interval for axis in self.axes)

    @cached_property
    def _readers(self) -> tuple[tuple[str, float, float, float, float], ...]:
        return tuple((a.name, a.lower, a.upper, a.centre, a.half_width) for a in self.axes)

    def row(self, x: Mapping[str, object]) -> list[float]:
        """Return X = (1, x~_1, .., x~_d) of a record; never raises on account of a value."""
        row = [1.0]
        for name, lower, upper, centre, half_width in self._readers:
            value = x.get(name)
            number = value if type(value) is float else _usable(value)
            if number is None or number != number:  # NaN differs from itself
                row.append(0.0)
            elif number <= lower:
                row.append((lower - centre) / half_width)
            elif number >= upper:
                row.append((upper - centre) / half_width)
            else:
                row.append((number - centre) / half_width)
        return row

    def target(self, y: object) -> float:
        """Return y~; a missing target is the middle of its range (0), one out of range is not clipped."""
        number = _usable(y)
        return 0.0 if number is None else (number - self.middle) / self.half

    def fitted(self, row: Sequence[float], b: Sequence[float]) -> float:
        """Return mid + half X'b, the fitted quantile in the user's units."""
        return self.middle + self.half * sum(map(float.__mul__, row, b))

    def coefficients(self, b: Sequence[float]) -> dict[str, float]:
        """Return the intercept and slopes in the user's units, by name, of p working coefficients."""
        slopes = {
            axis.name: self.half * value / axis.half_width
            for axis, value in zip(self.axes, b[1:], strict=True)
        }
        shift = math.fsum(slopes[axis.name] * axis.centre for axis in self.axes)
        return {INTERCEPT: self.middle + self.half * b[0] - shift, **slopes}

    def contrast(self, weights: Mapping[str, float]) -> tuple[float, list[float]]:
        """Return (k, a) such that the contrast of the user's coefficients is k + a'b.

        Parameters
        ----------
        weights
            Weight of each coefficient by name, "intercept" included; absent names weigh 0.

        Raises
        ------
        InvalidInput
            If a name is neither "intercept" nor a feature, or a weight is not a finite number.
        """
        for name in weights:
            if name not in self.names:
                raise InvalidInput(
                    f"contrast: unknown coefficient {name!r}: must be one of {', '.join(self.names)}"
                )
        given = {name: finite(**{f"contrast[{name!r}]": weight}) for name, weight in weights.items()}
        base = given.get(INTERCEPT, 0.0)
        a = [self.half * base]
        a += [
            self.half * (given.get(axis.name, 0.0) - base * axis.centre) / axis.half_width
            for axis in self.axes
        ]
        return base * self.middle, a
