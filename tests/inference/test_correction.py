"""The free corrections and the width: their formulas, and that they do what they are for."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from ldp_stream.adaptive import PublicScale
from ldp_stream.epoch_sums import EpochSums
from ldp_stream.inference.correction import correct, curvature_bias, doubts, widening

PUBLIC = PublicScale(0.9, (1.0,))


def linear_chain(n: int, eta: float, start: float, chains: int, seed: int) -> EpochSums:
    """Return the sums of chains on g~ = 2 b + noise of deviation 1."""
    rng = np.random.default_rng(seed)
    points, gradients = np.empty((2, n, chains, 1))
    b = np.full((chains, 1), start)
    for i in range(n):
        points[i], gradients[i] = b, 2 * b + rng.standard_normal((chains, 1))
        b = b - eta * gradients[i]
    return EpochSums.of(points, gradients, np.array([eta]))


def test_the_newton_step_takes_away_the_start() -> None:
    """After 8 relaxation times from 1 the average is off by 1/8, the corrected one by less than 1/40."""
    sums = linear_chain(2000, 0.002, 1.0, 400, 1)
    median = PublicScale(0.5, (1.0,))
    corrected = correct(sums, median).apply(sums.point)
    assert abs(sums.point.mean() - 0.125) < 0.01
    assert abs(corrected.mean()) < 0.025


def test_relaxation_times_are_counted() -> None:
    """At rest the estimate of eta h N = 40 is within a quarter in the median."""
    sums = linear_chain(4000, 0.005, 0.0, 200, 2)
    found = np.median(correct(sums, PUBLIC).relaxations)
    assert 30 < found < 50


@pytest.mark.parametrize("tau", [0.25, 0.9])
def test_the_shift_is_that_of_normal_errors(tau: float) -> None:
    """Chains with large steps rest off the quantile; the correction takes away three quarters or more."""
    rng = np.random.default_rng(3)
    z = NormalDist().inv_cdf(tau)
    n, chains, eta = 3000, 400, 0.4
    points, gradients = np.empty((2, n, chains, 1))
    b = np.full((chains, 1), z)
    for i in range(n):
        points[i] = b
        gradients[i] = (rng.standard_normal((chains, 1)) <= b) - tau
        b = b - eta * gradients[i]
    sums = EpochSums.of(points, gradients, np.array([eta]))
    public = PublicScale(tau, (tau * (1 - tau),))
    found = correct(sums, public)
    before = sums.point.mean() - z
    after = found.apply(sums.point).mean() - z
    assert abs(before) > 0.04
    assert abs(after) < abs(before) / 4
    assert np.sign(found.shift.mean()) == np.sign(z)


def test_slopes_count_by_their_share_of_the_curvature() -> None:
    """The formulas of both corrections and of the relaxation times, with numbers."""
    arrays = ([0.0, 0.0], [0.01, 0.2], [9.0, 9.0], [1.0, 50.0], [8.0, 6.0], [2.0, 2.0])
    sums = EpochSums(100, *(np.array(part) for part in arrays))
    found = correct(sums, PUBLIC)
    P = [8 / 2, 6 / 10]
    z = NormalDist().inv_cdf(0.9)
    T, spread = NormalDist().pdf(z) * P[0], (8 + 6) / 100
    shift = z * (T - math.sqrt(T * T - spread))
    np.testing.assert_allclose(found.shift, shift)
    np.testing.assert_allclose(found.newton, [P[0] * 0.01, P[1] * 0.2])
    np.testing.assert_allclose(found.relaxations, [100 * (1 / 9) / P[0], 100 * (50 / 9) / P[1]])
    np.testing.assert_allclose(found.apply(np.zeros(2)), [-P[0] * 0.01 - shift, -P[1] * 0.2])


def test_corrections_are_bounded() -> None:
    """The Newton step is at most three deviations of the points, the shift at most z phi P_0."""
    sums = EpochSums(100, *(np.array([value]) for value in (0.0, 5.0, 9.0, 1.0, 8.0, 4.0)))
    found = correct(sums, PUBLIC)
    np.testing.assert_allclose(found.newton, [3 * math.sqrt(0.08)])
    tight = EpochSums(100, *(np.array([value]) for value in (0.0, 5.0, 9.0, 1.0, 8.0, 400.0)))
    np.testing.assert_allclose(correct(tight, PUBLIC).shift, PUBLIC.z * PUBLIC.phi * 8 / 400)


def test_a_stretch_that_did_not_move_is_not_corrected() -> None:
    """Zeros give zeros and the widest intervals."""
    zeros = np.zeros((4, 2))
    found = correct(EpochSums.of(zeros, zeros, np.array([0.1, 0.1])), PUBLIC)
    assert found.newton.tolist() == [0, 0]
    assert float(found.shift) == 0
    assert widening(found.relaxations).tolist() == [3, 3]


def test_widening_of_chains() -> None:
    """K chains are widened by 1 + .4 K/max(c - 4, .2 K)."""
    np.testing.assert_allclose(widening(np.array([3.0, 44.0, 404.0]), 10), [3.0, 1.1, 1.01])


def test_the_predicted_bias_grows_with_the_step() -> None:
    """|z| p eta sqrt(v n) f/(4 phi)."""
    public = PublicScale(0.9, (4.0, 6.0))
    z = NormalDist().inv_cdf(0.9)
    expected = z * 2 * 0.001 * math.sqrt(5 * 10_000) * 3 / (4 * NormalDist().pdf(z))
    found = curvature_bias(np.array([0.001, 0.002]), np.array(3.0), public, 10_000)
    np.testing.assert_allclose(found, expected)
    assert float(curvature_bias(np.array([0.001, 0.002]), np.array(-3.0), public, 10_000)) == 0


def test_each_reason_to_doubt_is_named() -> None:
    """Few relaxation times, a large shift, a drift and a small spread far from the median: four sentences."""
    found = doubts(np.array([10.0, 30.0]), 0.6, 4.0, 10.0, PUBLIC)
    assert [
        ("relaxation" in s, "spread of the iterates" in s, "last half" in s, "residuals" in s) for s in found
    ] == [
        (True, False, False, False),
        (False, True, False, False),
        (False, False, True, False),
        (False, False, False, True),
    ]
    assert doubts(np.array([20.0, 30.0]), 0.5, 3.0, 1.0, PUBLIC) == ()
