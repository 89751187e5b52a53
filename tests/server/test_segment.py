"""Sums of stretches: any way of putting stretches together gives the average and V of the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp_stream.server.segment import Segment, combine, combine_all, from_walk, joint_offset
from tests.server import naive

Array = NDArray[np.float64]


def segment(iterates: Array, start: Array | None = None) -> Segment:
    """Return the sums of a stretch, about its first iterate unless another start is given."""
    c = iterates[0] if start is None else start
    t = np.arange(1.0, len(iterates) + 1)
    return from_walk(c, np.column_stack([np.cumsum(iterates - c, axis=0), t, np.ones_like(t)]))


def iterates(n: int, p: int = 3, around: float = 0.0) -> Array:
    """Return a random walk with noise, as the iterates of a chain are."""
    rng = np.random.default_rng(n)
    return np.asarray(
        around + np.cumsum(rng.standard_normal((n, p)), axis=0) / n**0.5 + rng.standard_normal((n, p))
    )


def assert_sums(found: Segment, stretch: Array, digits: float = 1e-11) -> None:
    """Assert that length, mean and V are those of the stretch."""
    mean, V = naive.average(stretch - stretch[0])
    assert found.length == len(stretch)
    np.testing.assert_allclose(found.mean, stretch[0] + mean, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found.random_scaling, V, rtol=digits, atol=digits * np.abs(V).max())


@given(cuts=st.sets(st.integers(1, 199), max_size=6))
def test_stretches_in_a_row_are_the_whole(cuts: set[int]) -> None:
    """However a stretch is cut, its parts combine to the mean and V of the whole."""
    whole = iterates(200)
    parts = [segment(whole[a:b]) for a, b in pairwise([0, *sorted(cuts), 200])]
    combined = combine_all(parts)
    assert combined is not None
    assert_sums(combined, whole)


@settings(max_examples=20)
@given(first=st.integers(1, 60), second=st.integers(1, 60), third=st.integers(1, 60))
def test_the_order_of_combining_does_not_matter(first: int, second: int, third: int) -> None:
    """(a b) c and a (b c) are the same sums, up to rounding."""
    whole = iterates(first + second + third)
    a, b, c = (segment(part) for part in np.split(whole, [first, first + second]))
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    np.testing.assert_allclose(left.mean, right.mean, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        left.moments, right.moments, rtol=1e-10, atol=1e-10 * np.abs(left.moments).max()
    )


@pytest.mark.parametrize("around", [0.0, 1e3, 1e6])
def test_large_coefficients_cost_no_digits(around: float) -> None:
    """A constant added to every iterate, however large, moves the mean alone."""
    whole = np.round(iterates(300) * 2**20) / 2**20 + around
    combined = combine_all([segment(part) for part in np.split(whole, [10, 150])])
    assert combined is not None
    assert_sums(combined, whole, digits=1e-10)


def test_the_start_is_only_a_place_to_count_from() -> None:
    """Sums counted from another value near the iterates have the same mean and V."""
    whole = iterates(100)
    assert_sums(segment(whole, start=np.array([0.5, -0.5, 2.0])), whole)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_leading_coordinates(p: int) -> None:
    """The sums of the first coordinates are those of a stretch that has no others."""
    whole = iterates(80)
    assert_sums(segment(whole).leading(p), whole[:, :p])


def test_the_joint_mean_needs_no_moments() -> None:
    """The mean of two stretches from their lengths and means is the combined one, to the last bit."""
    whole = iterates(90)
    first, second = segment(whole[:33]), segment(whole[33:])
    offset = joint_offset(first, second.length, second.start, second.offset)
    assert (first.start + offset).tobytes() == combine(first, second).mean.tobytes()


def test_combining_changes_no_part() -> None:
    """Parts stay as they are: they can be combined again."""
    first, second = segment(iterates(40)), segment(iterates(41))
    kept = [array.copy() for part in (first, second) for array in (part.start, part.offset, part.moments)]
    combine(first, second)
    now = [array for part in (first, second) for array in (part.start, part.offset, part.moments)]
    assert all((a == b).all() for a, b in zip(kept, now, strict=True))


def test_one_iterate_and_none() -> None:
    """One iterate is its own mean and has V = 0; no stretches have no sums."""
    one = segment(np.array([[2.0, -3.0]]))
    assert (one.length, one.mean.tolist(), one.random_scaling.tolist()) == (1, [2.0, -3.0], [[0.0] * 2] * 2)
    assert combine_all([]) is None
