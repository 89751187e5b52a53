"""Ellipsoids: membership, volume and bounds against direct formulas, and the same set in every unit."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp_stream.errors import InvalidInput
from ldp_stream.inference.ellipsoid import Ellipsoid

NAMES = ("a", "b", "c")


def made(seed: int = 1, q: int = 3) -> Ellipsoid:
    """Return an ellipsoid of random centre and matrix."""
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((q, q))
    return Ellipsoid(NAMES[:q], rng.standard_normal(q), root @ root.T + 0.1 * np.eye(q), 0.9)


def form(of: Ellipsoid, point: NDArray[np.float64]) -> float:
    """Return (b - c)'M^-1 (b - c) with an explicit inverse."""
    gap = point - of.centre
    return float(gap @ np.linalg.inv(of.matrix) @ gap)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_contains_is_the_quadratic_form(q: int) -> None:
    """A point belongs to the set exactly when its quadratic form is at most 1, by place or by name."""
    rng = np.random.default_rng(3)
    of = made(q=q)
    found = []
    for point in of.centre + 2 * rng.standard_normal((300, q)):
        value = form(of, point)
        found.append(of.contains(point.tolist()))
        assert found[-1] == (value <= 1)
        assert of.contains(dict(zip(NAMES, point.tolist(), strict=False)) | {"other": 9.0}) == found[-1]
        assert (point.tolist() in of) == found[-1]
        assert of.distance(point.tolist()) == pytest.approx(math.sqrt(value), rel=1e-9)
    assert any(found)
    assert not all(found)


def test_the_surface_belongs_to_it() -> None:
    """The ends of a half-axis are at distance 1; a disc holds its rim."""
    disc = Ellipsoid(("a", "b"), np.zeros(2), 4 * np.eye(2), 0.9)
    assert disc.contains([2.0, 0.0])
    assert not disc.contains([math.nextafter(2.0, 3.0), 0.0])


def test_volume_against_points_in_the_box() -> None:
    """The volume is the box's times the share of uniform points inside, within Monte Carlo error."""
    of = made()
    box = [(interval.lower, interval.upper) for interval in of.bounds.values()]
    rng = np.random.default_rng(5)
    n = 20_000
    points = rng.uniform(*np.array(box).T, (n, 3))
    share = np.mean([of.contains(point) for point in points.tolist()])
    volume = math.prod(upper - lower for lower, upper in box)
    error = 3.5 * math.sqrt(share * (1 - share) / n) * volume
    assert of.volume == pytest.approx(share * volume, abs=error)
    assert abs(1.1 * of.volume - share * volume) > error
    assert made(q=1).volume == pytest.approx(made(q=1).bounds["a"].width, rel=1e-14)


def test_bounds_are_the_smallest_box() -> None:
    """No point of the set leaves the box, and each face is touched, by c + M u/sqrt(u'M u)."""
    of = made()
    for j, (name, interval) in enumerate(of.bounds.items()):
        touching = of.centre + of.matrix[j] / math.sqrt(of.matrix[j, j])
        assert of.distance(touching.tolist()) == pytest.approx(1.0, rel=1e-12)
        assert interval.upper == pytest.approx(touching[j], rel=1e-12)
        assert (interval.value, interval.level) == (of.centre[j], 0.9)
        assert interval.value - interval.lower == pytest.approx(interval.upper - interval.value, rel=1e-12)
        assert name == NAMES[j]


def test_half_axes_are_orthogonal_and_end_on_the_surface() -> None:
    """The half-axes make M again, are orthogonal, end on the surface, and come longest first."""
    of = made()
    axes = of.half_axes
    np.testing.assert_allclose(axes.T @ axes, of.matrix, rtol=1e-12)
    products = axes @ axes.T
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)
    assert (np.diff(np.diag(products)) < 0).all()
    for axis in axes:
        assert of.distance((of.centre + axis).tolist()) == pytest.approx(1.0, rel=1e-12)


@given(st.lists(st.floats(-8, 8), min_size=3, max_size=3), st.integers(0, 50))
def test_a_change_of_units_changes_nothing(exponents: list[float], seed: int) -> None:
    """In units up to 10^8 away the set holds the transformed points, and its volume scales with det A."""
    of = made()
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    units = 10.0 ** np.array(exponents)
    A = units[:, np.newaxis] * (rotation if seed % 2 else np.eye(3))
    shift = units * rng.standard_normal(3)
    image = of.transformed(["x", "y", "z"], A, shift)
    for point in of.centre + rng.standard_normal((10, 3)):
        moved = (A @ point + shift).tolist()
        assert image.distance(moved) == pytest.approx(of.distance(point.tolist()), rel=1e-6, abs=1e-6)
    assert image.volume == pytest.approx(of.volume * math.prod(units), rel=1e-9)
    assert image.level == of.level


def test_fewer_coefficients_are_the_projection() -> None:
    """Left-out coefficients project: the image holds a point if a point of the set lies above it."""
    of = made()
    shadow = of.transformed(["a", "b"], np.eye(3)[:2], [0.0, 0.0])
    np.testing.assert_array_equal(shadow.matrix, of.matrix[:2, :2])
    assert shadow.bounds["a"] == of.bounds["a"]
    inverse = np.linalg.inv(of.matrix)
    rng = np.random.default_rng(6)
    for point in of.centre[:2] + rng.standard_normal((200, 2)):
        gap = point - of.centre[:2]
        lift = -inverse[2, :2] @ gap / inverse[2, 2]  # of the smallest quadratic form above the point
        nearest = form(of, np.array([*point, of.centre[2] + lift]))
        assert shadow.contains(point.tolist()) == (nearest <= 1)


def test_as_dict_is_json() -> None:
    """The dictionary is JSON and says centre, matrix, level, volume and bounds."""
    of = made()
    said = json.loads(json.dumps(of.as_dict(), allow_nan=False))
    assert said == {
        "names": ["a", "b", "c"],
        "level": 0.9,
        "centre": of.centre.tolist(),
        "matrix": of.matrix.tolist(),
        "volume": of.volume,
        "bounds": {name: interval.as_dict() for name, interval in of.bounds.items()},
    }
    again = Ellipsoid(said["names"], said["centre"], said["matrix"], said["level"])
    assert again.as_dict() == of.as_dict()


def test_it_is_frozen_down_to_its_numbers() -> None:
    """Neither the fields nor the arrays can be changed, nor do the caller's arrays reach in."""
    centre = np.zeros(2)
    of = Ellipsoid(("a", "b"), centre, np.eye(2), 0.9)
    centre[0] = 5.0
    assert of.contains([0.0, 0.0])
    with pytest.raises(ValueError, match="read-only"):
        of.centre[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        of.matrix[0, 0] = 9.0
    with pytest.raises(FrozenInstanceError):
        of.level = 0.5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"names": ()}, "names = "),
        ({"names": ("a", "a")}, r"names = \('a', 'a'\): must be at least one name, each once"),
        ({"names": ("a",)}, r"centre: has shape \(2,\): must have shape \(1,\)"),
        ({"centre": [0.0, math.nan]}, "centre = .*must be finite"),
        ({"centre": ["x", 0.0]}, "centre = .*must be numbers of shape"),
        ({"matrix": np.eye(3)}, r"matrix: has shape \(3, 3\)"),
        ({"matrix": [[1.0, math.inf], [math.inf, 1.0]]}, "matrix = .*finite"),
        ({"matrix": [[1.0, 0.5], [0.4, 1.0]]}, "matrix: must be symmetric"),
        ({"matrix": [[1.0, 2.0], [2.0, 1.0]]}, "matrix: must be positive definite"),
        ({"matrix": [[0.0, 0.0], [0.0, 1.0]]}, "matrix: must be positive definite"),
        ({"matrix": [[-1.0, 0.0], [0.0, 1.0]]}, "matrix: must be positive definite"),
        ({"level": 1.0}, "level = 1.0"),
    ],
)
def test_refuses_what_is_no_ellipsoid(changed: dict[str, Any], message: str) -> None:
    """Wrong names, shapes, numbers, matrices and levels are refused by name."""
    right = {"names": ("a", "b"), "centre": np.zeros(2), "matrix": np.eye(2), "level": 0.9}
    with pytest.raises(InvalidInput, match=message):
        Ellipsoid(**(right | changed))


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ({"a": 1.0}, "point: has no 'b'"),
        ({"a": 1.0, "b": math.nan}, r"point\['b'\] = nan"),
        ([1.0], r"point: has shape \(1,\)"),
        ([1.0, math.inf], "point = .*finite"),
        ("ab", "point = 'ab'"),
    ],
)
def test_refuses_what_is_no_point(point: Any, message: str) -> None:
    """A point needs a finite number for each coefficient."""
    with pytest.raises(InvalidInput, match=message):
        made(q=2).contains(point)


def test_refuses_a_flat_image() -> None:
    """A transformation of lower rank has no ellipsoid as its image."""
    with pytest.raises(InvalidInput, match="matrix: must be positive definite"):
        made().transformed(["x", "y"], [[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]], [0.0, 0.0])
