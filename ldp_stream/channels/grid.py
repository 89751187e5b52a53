"""A grid of q equidistant points on [lower, upper] with unbiased stochastic rounding.

A value between the points k and k + 1, at fraction t of their distance, goes to k + 1 with probability t, so
its mean is the value itself. The probability is an integer over 2^62, with which the sampler compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from .randomized_response import RESOLUTION_BITS

__all__ = ["UniformGrid"]

_ONE = 1 << RESOLUTION_BITS


@dataclass(frozen=True)
class UniformGrid:
    """q >= 2 equidistant points on [lower, upper], both ends included."""

    lower: float
    upper: float
    q: int

    @cached_property
    def points(self) -> tuple[float, ...]:
        """The grid values in increasing order."""
        step = (self.upper - self.lower) / (self.q - 1)
        return (*(self.lower + k * step for k in range(self.q - 1)), self.upper)

    @cached_property
    def _width(self) -> float:
        return self.upper - self.lower

    def neighbours(self, value: float) -> tuple[int, int]:
        """Return (k, m): the value goes to point k + 1 with probability m/2^62, else to k.

        At the last point m = 0. A value outside the grid is taken to its nearer end.
        """
        place = (value - self.lower) / self._width * (self.q - 1)  # finite for the narrowest grid, too
        if place <= 0:
            return 0, 0
        if place >= self.q - 1:
            return self.q - 1, 0
        index = int(place)
        return index, round((place - index) * _ONE)

    def weights(self, value: float) -> list[float]:
        """Return the probability of each point after rounding a value.

        Examples
        --------
        >>> UniformGrid(0.0, 1.0, 3).weights(0.75)
        [0.0, 0.5, 0.5]
        """
        index, up = self.neighbours(value)
        weights = [0.0] * self.q
        weights[index] = 1 - up / _ONE
        if up:
            weights[index + 1] = up / _ONE
        return weights

    def mean_weights(self, lower: float, upper: float) -> list[float]:
        """Return the probability of each point after rounding a value that is uniform on [lower, upper].

        The interval lies inside the grid; the weights are integrals of the piecewise linear rounding law.
        """
        weights = [0.0] * self.q
        points = self.points
        for k in range(self.q - 1):
            left, right = points[k], points[k + 1]
            a, b = max(lower, left), min(upper, right)
            if b <= a:
                continue
            mass = (b - a) / (upper - lower)
            up = ((a + b) / 2 - left) / (right - left)
            weights[k] += mass * (1 - up)
            weights[k + 1] += mass * up
        return weights
