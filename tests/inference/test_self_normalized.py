"""Self-normalized intervals: the formula for one chain and for several, and the coverage that it promises."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp_stream.errors import NoConfidenceSet
from ldp_stream.inference.averages import TOO_EARLY
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.inference.self_normalized import FEWEST, ChainAverage, PooledAverage, pool
from tests.server import naive

Array = NDArray[np.float64]


def chain(length: int, seed: int, p: int = 2) -> ChainAverage:
    """Return the average of a chain of correlated noise about (1, 2, ..)."""
    rng = np.random.default_rng(seed)
    iterates = np.arange(1, p + 1) + rng.standard_normal((length, p)) @ rng.standard_normal((p, p))
    return ChainAverage(length, *naive.average(iterates))


def test_one_chain_is_the_published_interval() -> None:
    """The half-width of a contrast is cv sqrt(a'V a/n), with 6.7473 at 95%."""
    one = chain(5000, seed=1)
    pooled = pool([one])
    a = np.array([1.0, -3.0])
    assert pooled.mean.tolist() == one.mean.tolist()
    assert pooled.shares == (1.0,)
    for level, cv in ((0.8, 3.8749), (0.9, 5.3227), (0.95, 6.7473), (0.99, 10.0173)):
        expected = cv * math.sqrt(a @ one.V @ a / 5000)
        assert pooled.half_width([1.0, -3.0], level) == pytest.approx(expected, rel=2e-5)


def test_several_chains_are_the_pooled_formula() -> None:
    """Means weigh by length, W = sum lambda_k^2 V_k/n_k, and the critical value is that of the shares."""
    chains = [chain(n, seed=n) for n in (5000, 100, 1700)]
    pooled = pool(chains)
    shares = [n / 6800 for n in (5000, 100, 1700)]
    mean = sum(share * one.mean for share, one in zip(shares, chains, strict=True))
    W = sum(share**2 * one.V / one.length for share, one in zip(shares, chains, strict=True))
    assert pooled.shares == pytest.approx(shares, rel=1e-15)
    assert pooled.W is not None
    np.testing.assert_allclose(pooled.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(pooled.W, W, rtol=1e-13)
    a = np.array([2.0, 1.0])
    expected = self_normalized(0.95, shares) * math.sqrt(a @ pooled.W @ a)
    assert pooled.half_width(a.tolist(), 0.95) == pytest.approx(expected, rel=1e-12)
    assert self_normalized(0.95, shares) < self_normalized(0.95)


def test_short_chains_are_left_out_while_others_are_long_enough() -> None:
    """A chain below FEWEST iterates neither moves the mean nor the interval beside a longer one."""
    long, short = chain(FEWEST, seed=1), chain(FEWEST - 1, seed=2)
    pooled, alone = pool([long, short]), pool([long])
    assert pooled.mean.tolist() == alone.mean.tolist()
    assert pooled.shares == alone.shares
    assert pooled.half_width([1.0, 0.0], 0.9) == alone.half_width([1.0, 0.0], 0.9)


def test_where_all_are_short_there_is_a_mean_and_no_interval() -> None:
    """Below FEWEST iterates everywhere the mean is pooled and every half-width is infinite."""
    chains = [chain(FEWEST - 1, seed=1), chain(33, seed=2)]
    pooled = pool(chains)
    weighted = (chains[0].mean * (FEWEST - 1) + chains[1].mean * 33) / (FEWEST + 32)
    np.testing.assert_allclose(pooled.mean, weighted, rtol=1e-14)
    assert pooled.W is None
    assert pooled.half_width([0.0, 0.0], 0.5) == math.inf


def test_a_contrast_without_variance_has_width_zero_not_nan() -> None:
    """Rounding below zero under the root gives a width of 0."""
    tiny = PooledAverage(np.zeros(2), np.array([[1.0, 1.0], [1.0, 1.0 - 1e-16]]), (1.0,))
    assert tiny.half_width([1.0, -1.0], 0.95) == pytest.approx(0.0, abs=1e-6)
    negative = PooledAverage(np.zeros(1), np.array([[-1e-300]]), (1.0,))
    assert negative.half_width([1.0], 0.95) == 0.0


# ---------------------------------------------------------------------- coverage on Brownian-like sums

N_STUDIES = 1500


def studies(lengths: list[int], seed: int) -> list[list[ChainAverage]]:
    """Return N_STUDIES studies of independent chains about 0 whose partial sums are nearly Brownian motion.

    Iterates are autoregressive, x_t = x_{t-1}/2 + e_t: dependent, as those of a stochastic approximation are.
    """
    rng = np.random.default_rng(seed)
    found: list[list[ChainAverage]] = [[] for _ in range(N_STUDIES)]
    for length in lengths:
        x = rng.standard_normal((N_STUDIES, length + 30))
        for t in range(1, length + 30):
            x[:, t] += x[:, t - 1] / 2
        x = x[:, 30:]
        s = np.arange(1, length + 1)
        mean = x.mean(axis=1)
        gaps = np.cumsum(x, axis=1) - s * mean[:, None]
        V = (gaps**2).sum(axis=1) / length**2
        for study, m, v in zip(found, mean, V, strict=True):
            study.append(ChainAverage(length, np.array([m]), np.array([[v]])))
    return found


def coverage(lengths: list[int], level: float, widen: float = 1.0, shift: float = 0.0) -> float:
    """Return the share of studies whose interval, ``widen`` times as wide, holds ``shift`` errors."""
    sigma = 2.0 / math.sqrt(sum(lengths))  # of the mean: the long-run standard deviation is 1/(1 - 1/2)
    hits = 0
    for study in studies(lengths, seed=7):
        pooled = pool(study)
        hits += abs(pooled.mean[0] - shift * sigma) <= widen * pooled.half_width([1.0], level)
    return hits / N_STUDIES


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("lengths", [[600], [300, 300, 300], [150, 900], [200] * 8], ids=str)
def test_intervals_cover_at_their_level(lengths: list[int], level: float) -> None:
    """One chain, and chains of equal or unequal length pooled, cover the truth as often as the level says."""
    margin = 3.5 * math.sqrt(level * (1 - level) / N_STUDIES)
    assert coverage(lengths, level) == pytest.approx(level, abs=margin)


@pytest.mark.parametrize("lengths", [[600], [150, 900]], ids=str)
def test_the_coverage_check_sees_wrong_intervals(lengths: list[int]) -> None:
    """The same check rejects intervals half or 4/5 as wide, and a mean that is off by one standard error."""
    margin = 3.5 * math.sqrt(0.95 * 0.05 / N_STUDIES)
    for wrong in ({"widen": 0.5}, {"widen": 0.8}, {"shift": 1.0}):
        assert coverage(lengths, 0.95, **wrong) < 0.95 - margin


def test_the_coverage_check_sees_the_critical_value_of_one_chain_for_many() -> None:
    """Eight chains pooled with the wider critical value of one chain cover visibly too often at 80%."""
    lengths = [200] * 8
    wrong = self_normalized(0.8) / self_normalized(0.8, [1 / 8] * 8)
    assert coverage(lengths, 0.8, widen=wrong) > 0.8 + 3.5 * math.sqrt(0.8 * 0.2 / N_STUDIES)


def test_a_chain_that_has_not_settled_is_left_out() -> None:
    """However long its window, a chain before its public count neither moves the mean nor makes a set."""
    settled, young = chain(150, seed=1), replace(chain(400, seed=2), settled=False)
    together, alone = pool([young, settled]), pool([settled])
    assert together.shares == alone.shares == (1.0,)
    assert together.mean.tolist() == alone.mean.tolist()
    assert together.half_width([1.0, 0.0], 0.95) == alone.half_width([1.0, 0.0], 0.95) < np.inf
    assert pool([young]).W is None


# ---------------------------------------------------------------------- several coefficients at once


def test_the_ellipsoid_is_the_published_set() -> None:
    """M is q F_q A V A'/n for one chain, with 51.7 for two coefficients at 95%."""
    one = chain(5000, seed=1, p=3)
    A = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    expected = 2 * 51.7283 * A @ one.V @ A.T / 5000
    np.testing.assert_allclose(pool([one]).region(A, 0.95), expected, rtol=2e-3)


def test_one_contrast_of_pooled_chains_keeps_their_own_critical_value() -> None:
    """The region of one contrast is the square of its half-width, for several chains too."""
    pooled = pool([chain(n, seed=n) for n in (5000, 1000)])
    half = pooled.half_width([1.0, -1.0], 0.9)
    assert pooled.region(np.array([[1.0, -1.0]]), 0.9)[0, 0] == pytest.approx(half**2, rel=1e-12)


def joint_coverage(lengths: list[int], studies: int, widen: float = 1.0) -> float:
    """Return how often the ellipsoid of three coefficients of normal chains holds the truth at 90%."""
    rng = np.random.default_rng(4)
    root = np.array([[1.0, 0.0, 0.0], [0.9, 0.2, 0.0], [-0.3, 0.1, 3.0]])
    hits = 0
    for _ in range(studies):
        chains = []
        for length in lengths:
            x = rng.standard_normal((length, 3)) @ root.T
            gaps = np.cumsum(x, axis=0) - np.arange(1, length + 1)[:, None] * x.mean(axis=0)
            chains.append(ChainAverage(length, x.mean(axis=0), gaps.T @ gaps / length**2))
        pooled = pool(chains)
        gap = pooled.mean / widen
        hits += gap @ np.linalg.solve(pooled.region(np.eye(3), 0.9), gap) <= 1
    return hits / studies


def test_ellipsoids_cover_at_their_level() -> None:
    """One chain's ellipsoid covers at 90% within error, pooled chains' more often; a smaller one less."""
    margin = 3.5 * math.sqrt(0.9 * 0.1 / 2000)
    assert joint_coverage([300], 2000) == pytest.approx(0.9, abs=margin)
    assert joint_coverage([200, 100], 2000) > 0.9
    wrong = math.sqrt(self_normalized(0.9) ** 2 / (3 * 42.35))  # the value of one contrast
    assert joint_coverage([300], 2000, widen=wrong) < 0.9 - margin


def test_where_there_is_no_ellipsoid_there_is_a_reason() -> None:
    """Too early, more coefficients than the table has, and a singular W: each a sentence, not a number."""
    early = pool([chain(FEWEST - 1, seed=1)])
    assert early.reason == TOO_EARLY
    with pytest.raises(NoConfidenceSet, match=TOO_EARLY):
        early.region(np.eye(2), 0.95)
    many = PooledAverage(np.zeros(31), np.eye(31), (1.0,))
    assert many.reason is None
    with pytest.raises(NoConfidenceSet, match="of 31 coefficients has no critical value: must be at most 30"):
        many.region(np.eye(31), 0.95)
    with pytest.raises(NoConfidenceSet, match="singular"):
        PooledAverage(np.zeros(2), np.ones((2, 2)), (1.0,)).region(np.eye(2), 0.95)
