"""DC sets: Student's and Hotelling's formulas, their coverage, and a reason where a set does not exist."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldp_stream.errors import NoConfidenceSet
from ldp_stream.inference.averages import TOO_EARLY
from ldp_stream.inference.divide_and_conquer import DivideAndConquerAverage

Array = NDArray[np.float64]
STUDIES = 2500
ROOT = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 0.2, 2.0]])  # of the chains' covariance
TRUTH = np.array([1.0, -2.0, 0.5])


def centres(chains: int, seed: int = 1) -> Array:
    """Return normal averages of chains about TRUTH."""
    return TRUTH + np.random.default_rng(seed).standard_normal((chains, 3)) @ ROOT.T


def test_a_contrast_is_students_interval() -> None:
    """The half-width is that of the one-sample t interval of the chains' contrasts."""
    rows = centres(7)
    average = DivideAndConquerAverage(rows)
    a = np.array([1.0, 0.0, -2.0])
    for level in (0.5, 0.95, 0.999):
        lower, upper = stats.t.interval(level, 6, (rows @ a).mean(), stats.sem(rows @ a))
        assert average.half_width(a.tolist(), level) == pytest.approx((upper - lower) / 2, rel=1e-10)
        assert average.mean @ a == pytest.approx((upper + lower) / 2, rel=1e-12)
    assert average.reason is None


def test_the_ellipsoid_is_hotellings() -> None:
    """M is q(K-1)/(K-q) F_{q,K-q} A S A'/K, and with one contrast the square of the half-width."""
    rows = centres(9)
    average = DivideAndConquerAverage(rows)
    A = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]])
    factor = 2 * 8 / 7 * stats.f.ppf(0.9, 2, 7)
    np.testing.assert_allclose(average.region(A, 0.9), factor * A @ np.cov(rows.T) @ A.T / 9, rtol=1e-10)
    one = average.region(A[1:], 0.9)
    assert one[0, 0] == pytest.approx(average.half_width(A[1].tolist(), 0.9) ** 2, rel=1e-10)


def covered(chains: int, seed: int, widen: float = 1.0) -> tuple[float, float]:
    """Return how often contrast and ellipsoid of two, made ``widen`` times as wide, hold the truth."""
    hits = np.zeros(2)
    A = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    for study in range(STUDIES):
        average = DivideAndConquerAverage(centres(chains, seed + study))
        gap = A @ (average.mean - TRUTH) / widen
        hits += (
            abs(gap[1]) <= average.half_width(A[1].tolist(), 0.95),
            gap @ np.linalg.solve(average.region(A, 0.95), gap) <= 1,
        )
    return hits[0] / STUDIES, hits[1] / STUDIES


def test_coverage_is_exact_for_normal_averages_and_not_with_normal_quantiles() -> None:
    """With four chains both sets cover at 95%; with z and chi-squared in place of t and T^2 they do not."""
    margin = 3.5 * math.sqrt(0.95 * 0.05 / STUDIES)
    assert covered(4, seed=10_000) == pytest.approx((0.95, 0.95), abs=margin)
    z = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 3)
    chi = math.sqrt(stats.chi2.ppf(0.95, 2) / (2 * 3 / 2 * stats.f.ppf(0.95, 2, 2)))
    assert covered(4, seed=10_000, widen=z)[0] < 0.95 - margin
    assert covered(4, seed=10_000, widen=chi)[1] < 0.95 - margin


def test_with_as_many_coefficients_as_chains_there_is_a_reason() -> None:
    """K <= q gives no ellipsoid but a sentence with both numbers; contrasts and smaller sets remain."""
    average = DivideAndConquerAverage(centres(3))
    with pytest.raises(NoConfidenceSet, match="of 3 coefficients needs more than 3 chains: there are 3"):
        average.region(np.eye(3), 0.95)
    assert average.region(np.eye(3)[:2], 0.95).shape == (2, 2)
    assert math.isfinite(average.half_width([1.0, 0.0, 0.0], 0.95))


@pytest.mark.parametrize(("chains", "reason"), [(0, TOO_EARLY), (1, "1 chain has an average")])
def test_with_fewer_than_two_chains_there_is_a_mean_and_a_reason(chains: int, reason: str) -> None:
    """One chain has a mean and nothing around it; none has zeros."""
    rows = centres(chains)
    average = DivideAndConquerAverage(rows)
    assert average.reason is not None
    assert reason in average.reason
    assert average.mean.tolist() == (rows[0].tolist() if chains else [0.0, 0.0, 0.0])
    assert average.half_width([1.0, 0.0, 0.0], 0.95) == math.inf
    with pytest.raises(NoConfidenceSet, match=reason):
        average.region(np.eye(3)[:1], 0.95)


def test_a_reason_that_is_given_is_kept() -> None:
    """Chains that have not left their start behind give no set, however many they are."""
    average = DivideAndConquerAverage(centres(8), TOO_EARLY)
    assert average.half_width([1.0, 0.0, 0.0], 0.95) == math.inf
    with pytest.raises(NoConfidenceSet, match=TOO_EARLY):
        average.region(np.eye(3), 0.95)


def test_a_direction_without_spread_is_singular() -> None:
    """Where the chains agree in a direction nothing is known about it: a sentence, not a flat set."""
    rows = centres(8)
    rows[:, 2] = rows[:, 0] - rows[:, 1]
    average = DivideAndConquerAverage(rows)
    with pytest.raises(NoConfidenceSet, match="singular"):
        average.region(np.eye(3), 0.95)
    rows[:, 2] = 1.0
    with pytest.raises(NoConfidenceSet, match="singular"):
        DivideAndConquerAverage(rows).region(np.eye(3)[2:], 0.95)
