"""Confidence sets as values.

An interval holds a point estimate and the ends lower <= value <= upper of the set that covers the true value
with probability ``level``. An end is infinite where no finite one can be vouched for: (-inf, inf) is the
honest interval when no set can be given yet, for instance after too few reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._validate import finite, probability
from ..errors import InvalidInput

__all__ = ["Interval"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A point estimate with a confidence interval around it; both ends belong to the interval.

    Parameters
    ----------
    value : float
        The point estimate, finite, in the units of the estimated quantity.
    lower : float
        Lower end in the same units, at most ``value``; ``-inf`` where there is none.
    upper : float
        Upper end in the same units, at least ``value``; ``inf`` where there is none.
    level : float
        Coverage probability in (0, 1) that the ends are made for.

    Raises
    ------
    InvalidInput
        If the value is not finite, an end is not a number, the order lower <= value <= upper does not hold,
        or the level is outside (0, 1).

    Examples
    --------
    >>> slope = Interval(value=0.5, lower=0.25, upper=1.0, level=0.95)
    >>> slope.width, slope.bounded, 0.0 in slope
    (0.75, True, False)
    """

    value: float
    lower: float
    upper: float
    level: float

    def __post_init__(self) -> None:
        """Check the numbers and keep them as plain floats."""
        object.__setattr__(self, "value", finite(value=self.value))
        object.__setattr__(self, "lower", _end("lower", self.lower))
        object.__setattr__(self, "upper", _end("upper", self.upper))
        object.__setattr__(self, "level", probability(level=self.level))
        if not self.lower <= self.value:
            raise InvalidInput(f"lower = {self.lower!r}: must be at most value = {self.value!r}")
        if not self.value <= self.upper:
            raise InvalidInput(f"upper = {self.upper!r}: must be at least value = {self.value!r}")

    @property
    def width(self) -> float:
        """Distance between the ends, ``inf`` if one of them is infinite."""
        return self.upper - self.lower

    @property
    def bounded(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    def __contains__(self, number: float) -> bool:
        """Tell whether the number lies between the ends or on one of them; NaN never does."""
        return self.lower <= number <= self.upper

    def as_dict(self) -> dict[str, float | None]:
        """Return value and ends for JSON, which knows no infinity: an infinite end becomes ``None``.

        Returns
        -------
        dict
            The keys ``value``, ``lower`` and ``upper``.

        Examples
        --------
        >>> Interval(value=0.5, lower=float("-inf"), upper=1.0, level=0.95).as_dict()
        {'value': 0.5, 'lower': None, 'upper': 1.0}
        """
        return {
            "value": self.value,
            "lower": self.lower if math.isfinite(self.lower) else None,
            "upper": self.upper if math.isfinite(self.upper) else None,
        }


def _end(name: str, number: float) -> float:
    """Return an end as a float: any number but NaN."""
    return float(number) if number in (-math.inf, math.inf) else finite(**{name: number})
