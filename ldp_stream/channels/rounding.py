"""Unbiased rounding of a float to a whole number, with integers, and what it adds to a second moment.

x goes to floor(x) + 1 with probability x - floor(x), to 2^-62, else to floor(x); the mean is x, and the
variance t (1 - t), t = x - floor(x). So the mean square of the rounded value is a function of x that is
linear between whole numbers and convex: over an interval whose ends are whole it is largest at an end.
"""

from __future__ import annotations

import math

from .base import RandomBits
from .randomized_response import RESOLUTION_BITS

__all__ = ["added_variance", "round_at_random"]

_ONE = 1 << RESOLUTION_BITS


def round_at_random(x: float, random: RandomBits) -> int:
    """Return floor(x) or the next whole number, with mean x; the same draw, whatever x is."""
    index = math.floor(x)
    return index + (random.bits(RESOLUTION_BITS) < round((x - index) * _ONE))


def added_variance(lower: float, upper: float) -> float:
    """Return the mean of t (1 - t) for x uniform on [lower, upper], at a point if both are equal.

    Examples
    --------
    >>> added_variance(0.0, 3.0) == 1 / 6, added_variance(0.25, 0.25)
    (True, 0.1875)
    """
    if upper - lower < 1e-6:  # where the difference of the integrals below would be nothing but rounding
        t = lower - math.floor(lower)
        return t * (1 - t)

    def integral(x: float) -> float:
        whole = math.floor(x)
        t = x - whole
        return whole / 6 + t * t / 2 - t * t * t / 3

    return (integral(upper) - integral(lower)) / (upper - lower)
