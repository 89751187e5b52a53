"""The geometry of the support, against the enumeration of its corners."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from ldp_stream.channels.support import Support
from ldp_stream.errors import InvalidInput

SUPPORTS = [
    Support(0.5, ()),
    Support(0.5, ((-1.0, 1.0),) * 4),
    Support(0.9, ((-1.0, 1.0),) * 5),
    Support(0.02, ((-1.0, 1.0),) * 2),
    Support(0.75, ((0.0, 1.0), (-1.0, 0.3), (-0.2, 0.1))),
    Support(0.95, ((-1.0, 0.0), (0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))),
]
every_support = pytest.mark.parametrize("support", SUPPORTS)


@every_support
def test_the_sensitivity_is_the_largest_distance_of_two_corners(support: Support) -> None:
    """A convex function of a pair is largest at corners, so their enumeration gives Delta_1."""
    corners = list(support.corners())
    assert len(corners) == 2**support.p
    largest = (
        max(math.fsum(abs(x - y) for x, y in zip(a, b, strict=True)) for a, b in combinations(corners, 2))
        if support.p > 1
        else 1.0
    )
    assert support.sensitivity == pytest.approx(largest, rel=1e-15)


@every_support
def test_the_largest_square_length_is_at_a_corner(support: Support) -> None:
    """No corner is longer, and one is as long."""
    longest = max(math.fsum(x * x for x in corner) for corner in support.corners())
    assert support.worst_second_moment == pytest.approx(longest, rel=1e-15)


@every_support
def test_intervals_hold_what_a_device_computes(support: Support) -> None:
    """Products of floats lie between the ends, with no tolerance, and inside the hull."""
    drawn = np.random.default_rng(3)
    for j, (lower, upper) in enumerate(support.intervals, start=1):
        for x in [lower, upper, *drawn.uniform(lower, upper, 50).tolist()]:
            for face in (0, 1):
                low, high = support.interval(face, j)
                assert low <= support.faces[face] * x <= high
                assert support.hull(j)[0] <= low <= high <= support.hull(j)[1]


def test_in_the_working_scale_the_sensitivity_is_the_formula() -> None:
    """Where every interval reaches -1 or 1 it is max(1 + d, M sum(u - l))."""
    for support in SUPPORTS[:4]:
        d = support.p - 1
        assert support.sensitivity == pytest.approx(max(1 + d, support.largest * 2 * d), rel=1e-15)


@pytest.mark.parametrize("interval", [(0.1, 1.0), (-1.0, -0.1), (-1.5, 1.0), (0.0, 0.0), (float("nan"), 1.0)])
def test_intervals_must_hold_zero_and_lie_in_the_working_scale(interval: tuple[float, float]) -> None:
    """The message names the first bad interval."""
    with pytest.raises(InvalidInput, match=r"intervals\[1\]"):
        Support(0.5, ((-1.0, 1.0), interval))
