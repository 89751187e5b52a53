"""Grids: equidistant points, unbiased rounding, and the mean law of a uniform value."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.channels.grid import UniformGrid
from ldp_stream.channels.randomized_response import RESOLUTION_BITS

ONE = 1 << RESOLUTION_BITS
ends = st.tuples(st.floats(-1, 1), st.floats(-1, 1)).filter(lambda pair: pair[1] - pair[0] > 1e-3)


@given(ends, st.integers(2, 200))
def test_points_are_equidistant_and_end_at_the_ends(interval: tuple[float, float], q: int) -> None:
    """Both ends are points, exactly, and the others lie where the definition says, to rounding."""
    lower, upper = interval
    points = UniformGrid(lower, upper, q).points
    assert len(points) == q
    assert (points[0], points[-1]) == (lower, upper)
    for k, point in enumerate(points):
        exact = Fraction(lower) + k * (Fraction(upper) - Fraction(lower)) / (q - 1)
        assert abs(float(point - exact)) < 1e-15 * max(1, q / 4)


@given(ends, st.integers(2, 200), st.floats(0, 1))
def test_rounding_is_unbiased(interval: tuple[float, float], q: int, share: float) -> None:
    """The mean of the two neighbours, weighted with the integer chance, is the value."""
    lower, upper = interval
    grid = UniformGrid(lower, upper, q)
    value = min(max(lower + share * (upper - lower), lower), upper)
    index, up = grid.neighbours(value)
    assert 0 <= index < q
    assert 0 <= up <= ONE
    chance = Fraction(up, ONE)
    mean = (1 - chance) * Fraction(grid.points[index])
    if up:
        mean += chance * Fraction(grid.points[index + 1])
    assert abs(float(mean - Fraction(value))) < 1e-15 * max(1, q / 4)


@given(ends, st.integers(2, 200))
def test_values_outside_go_to_the_nearer_end(interval: tuple[float, float], q: int) -> None:
    """What lies on or beyond an end is taken to it, with certainty."""
    grid = UniformGrid(*interval, q)
    assert {grid.neighbours(value) for value in (-5.0, -math.inf, interval[0])} == {(0, 0)}
    assert {grid.neighbours(value) for value in (5.0, math.inf, interval[1])} == {(q - 1, 0)}


@pytest.mark.parametrize("width", [5e-324, 1e-320, 1e-308, 1e-16])
def test_the_narrowest_grid_rounds_without_an_exception(width: float) -> None:
    """An extreme tau makes a face's interval as narrow as floats allow; rounding still works."""
    grid = UniformGrid(-width, 0.0, 2)
    assert grid.neighbours(-width) == (0, 0)
    assert grid.neighbours(0.0) == (1, 0)
    assert grid.neighbours(-width / 2) in [(0, ONE // 2), (0, 0), (1, 0)]


@given(ends, st.integers(2, 30), st.floats(0, 1), st.floats(0, 1))
def test_mean_weights_are_the_integral_of_the_rounding_law(
    interval: tuple[float, float], q: int, left: float, right: float
) -> None:
    """They are the trapezoid sums over the kinks, which integrate a piecewise linear law exactly."""
    lower, upper = interval
    grid = UniformGrid(lower, upper, q)
    a, b = sorted((lower + left * (upper - lower), lower + right * (upper - lower)))
    a, b = max(a, lower), min(b, upper)
    if b - a < 1e-3:
        a, b = lower, upper
    kinks = [a, *(point for point in grid.points if a < point < b), b]
    expected = [0.0] * q
    for low, high in itertools.pairwise(kinks):
        for value in (low, high):
            index, up = grid.neighbours(value)
            share = (high - low) / (b - a) / 2
            expected[index] += share * (1 - up / ONE)
            if up:
                expected[index + 1] += share * up / ONE
    weights = grid.mean_weights(a, b)
    assert weights == pytest.approx(expected, abs=1e-11)
    assert sum(weights) == pytest.approx(1, abs=1e-12)
