"""What the kinds of averages have in common: the contract, Student's values, and shapes that are none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ldp_stream.errors import NoConfidenceSet
from ldp_stream.inference.averages import Average, half_width, shape, t_squared, t_value
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.inference.divide_and_conquer import DivideAndConquerAverage
from ldp_stream.inference.higrad import HiGradAverage
from ldp_stream.inference.self_normalized import PooledAverage
from ldp_stream.inference.vector_critical_values import self_normalized_vector

RNG = np.random.default_rng(1)
MEANS = RNG.standard_normal((6, 3))
EVERY_KIND: dict[str, Average] = {
    "sn": PooledAverage(MEANS[0], np.cov(MEANS.T), (1.0,)),
    "dc": DivideAndConquerAverage(MEANS),
    "higrad": HiGradAverage.of(np.arange(6)[:, np.newaxis], [100, 200, 150, 300, 100, 120], MEANS),
}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_every_kind_keeps_the_contract(kind: str) -> None:
    """Each names its kind, has a mean, and an ellipsoid of one contrast that is its interval."""
    average = EVERY_KIND[kind]
    assert average.kind == kind
    assert average.reason is None
    assert average.mean.shape == (3,)
    a = np.array([[1.0, -2.0, 0.5]])
    for level in (0.5, 0.9, 0.99):
        half = average.half_width(a[0].tolist(), level)
        assert average.region(a, level)[0, 0] == pytest.approx(half**2, rel=1e-9)
    wide = average.region(np.eye(3), 0.99) - average.region(np.eye(3), 0.9)
    assert np.linalg.eigvalsh(wide)[0] > 0


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_regions_follow_their_contrasts(kind: str) -> None:
    """The region of B A b is that of A b, transformed: the choice of units and contrasts does not matter."""
    average = EVERY_KIND[kind]
    A = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, -1.0]])
    B = np.array([[1e6, 1.0], [0.0, 1e-6]])
    np.testing.assert_allclose(
        average.region(B @ A, 0.9), B @ average.region(A, 0.9) @ B.T, rtol=1e-9, atol=1e-25
    )


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99, 0.999])
def test_bonferroni_is_narrower_than_the_projected_ellipsoid(level: float) -> None:
    """For every kind, q and number of chains, the joint intervals that are used are the narrower ones."""
    for q in range(2, 31):
        single = 1 - (1 - level) / q
        assert self_normalized(single) ** 2 < q * self_normalized_vector(level, q)
        for samples in (q + 1, q + 2, 2 * q, 1000):
            assert t_value(single, samples - 1) ** 2 < t_squared(level, q, samples, "chains")


def test_students_and_hotellings_values() -> None:
    """The quantiles are those of scipy's distributions, and T^2 of one contrast is t^2."""
    for level in (0.5, 0.95, 0.999):
        for m in (2, 5, 40):
            assert t_value(level, m - 1) == pytest.approx(stats.t.ppf((1 + level) / 2, m - 1), rel=1e-9)
            assert t_squared(level, 1, m, "") == pytest.approx(t_value(level, m - 1) ** 2, rel=1e-8)
        expected = 3 * 9 / 7 * stats.f.ppf(level, 3, 7)
        assert t_squared(level, 3, 10, "chains") == pytest.approx(expected, rel=1e-9)


def test_a_half_width_is_never_nan() -> None:
    """Rounding below zero under the root gives 0."""
    assert half_width(2.0, [1.0], np.array([[-1e-300]])) == 0.0
    assert half_width(2.0, [2.0], np.array([[9.0]])) == 12.0


@pytest.mark.parametrize(
    "V", [np.zeros((2, 2)), np.diag([1.0, 0.0]), np.ones((2, 2)), np.outer([1e-8, 1e8], [1e-8, 1e8])], ids=str
)
def test_a_singular_shape_is_refused(V: np.ndarray) -> None:
    """A scaling matrix without full rank makes a sentence, in whatever units."""
    with pytest.raises(NoConfidenceSet, match="singular"):
        shape(1.0, np.eye(2), V)


def test_very_different_units_are_not_singular() -> None:
    """A matrix that is only badly scaled has its shape."""
    V = np.diag([1e-20, 1e20])
    assert (shape(2.0, np.eye(2), V) == 2 * V).all()
    assert math.isfinite(float(np.linalg.slogdet(shape(1.0, np.eye(2), V))[1]))
