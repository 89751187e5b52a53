"""HiGrad sets: the published formulas, any lengths, empty segments, and coverage under the threads' law."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldp_stream.errors import InvalidInput, NoConfidenceSet
from ldp_stream.inference.averages import TOO_EARLY
from ldp_stream.inference.divide_and_conquer import DivideAndConquerAverage
from ldp_stream.inference.higrad import HiGradAverage

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
ROOT = np.array([[1.0, 0.0], [0.8, 0.5]])
TRUTH = np.array([3.0, -1.0])
STUDIES = 2500


def tree(*branching: int) -> Ints:
    """Return the paths of a tree whose nodes are numbered level by level, (B, L + 1)."""
    leaves = math.prod(branching)
    columns, first, width = [], 0, 1
    for level in range(len(branching) + 1):
        width = math.prod(branching[:level])
        columns.append(first + np.arange(leaves) // (leaves // width))
        first += width
    return np.stack(columns, axis=1)


def averages(lengths: Array, seed: int) -> Array:
    """Return independent normal averages N(TRUTH, ROOT ROOT'/length) of segments, (nodes, 2)."""
    noise = np.random.default_rng(seed).standard_normal((len(lengths), 2)) @ ROOT.T
    return np.asarray(TRUTH + noise / np.sqrt(np.maximum(lengths, 1))[:, np.newaxis])


def by_level(paths: Ints, per_level: list[int]) -> Array:
    """Return lengths that depend on the level alone, (nodes,)."""
    lengths = np.zeros(paths.max() + 1)
    for level, nodes in enumerate(paths.T):
        lengths[nodes] = per_level[level]
    return lengths


@pytest.mark.parametrize(
    ("branching", "per_level"), [((2, 2), [400, 200, 100]), ((3, 2), [100, 300, 150]), ((5,), [0, 200])]
)
def test_equal_lengths_are_the_published_formulas(branching: tuple[int, ...], per_level: list[int]) -> None:
    """With one length a level, mean, standard error and T^2 matrix are those of Su and Zhu, term by term."""
    paths = tree(*branching)
    lengths = by_level(paths, per_level)
    means = averages(lengths, seed=1)
    B, products = len(paths), np.cumprod([1, *branching])
    w = np.array(per_level) * products / (np.array(per_level) @ products)
    theta = sum(w[level] * means[paths[:, level]] for level in range(len(w)))
    Sigma = np.zeros((B, B))
    for level, n in enumerate(per_level):
        if n:
            Sigma += w[level] ** 2 / n * (paths[:, level, None] == paths[None, :, level])
    thetabar = theta.mean(axis=0)
    found = HiGradAverage.of(paths, lengths, means)
    np.testing.assert_allclose(found.threads, theta, rtol=1e-12)
    np.testing.assert_allclose(found.dependence, Sigma, rtol=1e-12)
    np.testing.assert_allclose(found.mean, thetabar, rtol=1e-12)
    a = np.array([1.0, -2.0])
    gaps = theta @ a - thetabar @ a
    se = math.sqrt(Sigma.sum() * gaps @ np.linalg.solve(Sigma, gaps) / (B**2 * (B - 1)))
    expected = stats.t.ppf(0.95, B - 1) * se
    assert found.half_width(a.tolist(), 0.9) == pytest.approx(expected, rel=1e-10)
    S = (theta - thetabar).T @ np.linalg.solve(Sigma, theta - thetabar) / (B - 1)
    factor = 2 * (B - 1) / (B - 2) * stats.f.ppf(0.9, 2, B - 2)
    np.testing.assert_allclose(found.region(np.eye(2), 0.9), factor * Sigma.sum() / B**2 * S, rtol=1e-10)


def test_single_chains_are_divide_and_conquer() -> None:
    """Threads of one segment each, all of one length, have the sets of DC."""
    means = averages(np.full(6, 500.0), seed=2)
    found = HiGradAverage.of(np.arange(6)[:, np.newaxis], np.full(6, 500), means)
    dc = DivideAndConquerAverage(means)
    np.testing.assert_allclose(found.mean, dc.mean, rtol=1e-12)
    assert found.half_width([1.0, 1.0], 0.95) == pytest.approx(dc.half_width([1.0, 1.0], 0.95), rel=1e-10)
    np.testing.assert_allclose(found.region(np.eye(2), 0.9), dc.region(np.eye(2), 0.9), rtol=1e-10)


def test_unequal_lengths_are_generalised_least_squares() -> None:
    """Threads, weights and variance are those of the formulas written out with explicit inverses."""
    paths = tree(2, 2)
    lengths = np.array([900, 300, 500, 150, 250, 400, 120])
    means = averages(lengths, seed=3)
    totals = [900, 800, 920]
    w = np.array(totals) / sum(totals)
    theta = np.array([sum(w[k] * means[path[k]] for k in range(3)) for path in paths])
    R = np.array(
        [
            [sum(w[k] ** 2 / lengths[one[k]] for k in range(3) if one[k] == other[k]) for other in paths]
            for one in paths
        ]
    )
    inverse = np.linalg.inv(R)
    information = inverse.sum()
    mean = inverse.sum(axis=0) @ theta / information
    V = (theta - mean).T @ inverse @ (theta - mean) / 3 / information
    found = HiGradAverage.of(paths, lengths, means)
    np.testing.assert_allclose(found.threads, theta, rtol=1e-12)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    assert found.half_width([0.5, 2.0], 0.95) == pytest.approx(
        stats.t.ppf(0.975, 3) * math.sqrt(np.array([0.5, 2.0]) @ V @ [0.5, 2.0]), rel=1e-9
    )
    assert found.information == pytest.approx(information, rel=1e-10)
    assert not np.allclose(found.mean, theta.mean(axis=0), rtol=1e-4)


UNEQUAL = [500, 300, 420, 110, 900, 250, 400]
LONG_ROOT = [2000, 300, 420, 110, 900, 250, 400]
EMPTY_LEAF = [500, 300, 420, 110, 0, 250, 400]
TWO_TREES = [300, 300, 150, 500, 0, 120, 200, 300]


def covered(paths: Ints, lengths: list[int], widen: float = 1.0, wrong: bool = False) -> tuple[float, float]:
    """Return how often contrast and ellipsoid of two, ``widen`` times as wide, hold the truth.

    ``wrong`` takes the threads for independent, as DC would.
    """
    n = np.array(lengths, np.float64)
    hits = np.zeros(2)
    for study in range(STUDIES):
        average: Any = HiGradAverage.of(paths, n, averages(n, 50_000 + study))
        if wrong:
            average = DivideAndConquerAverage(average.threads)
        gap = (average.mean - TRUTH) / widen
        hits += (
            abs(gap[1]) <= average.half_width([0.0, 1.0], 0.95),
            gap @ np.linalg.solve(average.region(np.eye(2), 0.95), gap) <= 1,
        )
    return hits[0] / STUDIES, hits[1] / STUDIES


MARGIN = 3.5 * math.sqrt(0.95 * 0.05 / STUDIES)


@pytest.mark.parametrize(
    ("paths", "lengths"),
    [
        (tree(2, 2), [400, 200, 200, 100, 100, 100, 100]),
        (tree(2, 2), UNEQUAL),
        (tree(2, 2), EMPTY_LEAF),
        (np.array([[0, 1], [0, 2], [3, 4], [3, 5], [6, 7]]), TWO_TREES),
    ],
    ids=["equal", "unequal", "empty leaf", "several trees"],
)
def test_coverage_is_exact_for_normal_averages(paths: Ints, lengths: list[int]) -> None:
    """Whatever the lengths, with empty segments or several trees, both sets cover 95% within error."""
    assert covered(paths, lengths) == pytest.approx((0.95, 0.95), abs=MARGIN)


def test_the_coverage_check_sees_wrong_sets() -> None:
    """Normal quantiles, and threads taken for independent, cover visibly less."""
    z = stats.norm.ppf(0.975) / stats.t.ppf(0.975, 3)
    chi = math.sqrt(stats.chi2.ppf(0.95, 2) / (2 * 3 / 2 * stats.f.ppf(0.95, 2, 2)))
    assert covered(tree(2, 2), UNEQUAL, widen=z)[0] < 0.95 - MARGIN
    assert covered(tree(2, 2), UNEQUAL, widen=chi)[1] < 0.95 - MARGIN
    assert max(covered(tree(2, 2), LONG_ROOT, wrong=True)) < 0.95 - MARGIN


def test_empty_segments_move_no_weight_astray() -> None:
    """A thread with an empty leaf is its upper segments; what stands there for a mean is ignored."""
    paths = tree(2)
    found = HiGradAverage.of(paths, [300, 0, 600], [[1.0], [math.nan], [4.0]])
    assert found.threads.tolist() == [[1.0], [(300 * 1 + 600 * 4) / 900]]
    assert found.dependence[0, 0] == pytest.approx(1 / 300, rel=1e-14)
    # the root counts in both threads, yet no iterate counts twice in the mean
    assert found.mean[0] == pytest.approx((300 * 1 + 600 * 4) / 900, rel=1e-12)
    assert found.information == pytest.approx(900, rel=1e-10)


def test_segments_below_the_fewest_count_as_empty() -> None:
    """A segment of 99 iterates is left out by default, and counts where fewer are allowed."""
    paths, means = tree(2), [[1.0], [2.0], [4.0]]
    short = HiGradAverage.of(paths, [300, 99, 200], means)
    empty = HiGradAverage.of(paths, [300, 0, 200], means)
    assert short.threads.tolist() == empty.threads.tolist()
    allowed = HiGradAverage.of(paths, [300, 99, 200], means, fewest=1)
    assert allowed.threads.tolist() != empty.threads.tolist()


@pytest.mark.parametrize(
    ("lengths", "mean", "reason"),
    [
        ([0, 0, 0], 0.0, TOO_EARLY),
        ([300, 0, 0], 1.0, "share all their segments so far"),
        ([0, 300, 0], 2.0, "share all their segments so far"),
    ],
)
def test_before_the_tree_divides_there_is_a_mean_and_a_reason(
    lengths: list[int], mean: float, reason: str
) -> None:
    """Where threads do not differ yet, or only one has data, there is a mean and no set."""
    found = HiGradAverage.of(tree(2), lengths, [[1.0], [2.0], [4.0]])
    assert found.mean.tolist() == [mean]
    assert found.reason is not None
    assert reason in found.reason
    assert found.half_width([1.0], 0.95) == math.inf
    with pytest.raises(NoConfidenceSet, match=reason):
        found.region(np.eye(1), 0.95)


def test_with_as_many_coefficients_as_threads_there_is_a_reason() -> None:
    """B <= q gives no ellipsoid but a sentence with both numbers, while each coefficient has its interval."""
    lengths = np.full(3, 200.0)
    found = HiGradAverage.of(tree(2), lengths, averages(lengths, seed=4))
    with pytest.raises(NoConfidenceSet, match="of 2 coefficients needs more than 2 threads: there are 2"):
        found.region(np.eye(2), 0.95)
    assert math.isfinite(found.half_width([1.0, 0.0], 0.95))


def test_a_direction_without_spread_is_singular() -> None:
    """Where the threads agree there is a sentence, not a flat set."""
    lengths = np.full(7, 200.0)
    means = averages(lengths, seed=5)
    means[:, 1] = means[:, 0]
    with pytest.raises(NoConfidenceSet, match="singular"):
        HiGradAverage.of(tree(2, 2), lengths, means).region(np.eye(2), 0.95)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"paths": [0, 1]}, "paths: must be whole numbers"),
        ({"paths": [[0.0, 1.0]]}, "paths: must be whole numbers"),
        ({"paths": [[0, 1], [0, 3]]}, "paths: names segment 3: must be from 0 to 2"),
        ({"paths": [[0, -1], [0, 2]]}, "paths: names segment -1"),
        ({"paths": [[0, 1], [2, 1]]}, "paths: segment 1 is reached in two ways"),
        ({"paths": [[0, 1], [1, 2]]}, "paths: segment 1 is reached in two ways"),
        ({"paths": [[0, 1], [0, 1]]}, "paths: two threads end in one leaf"),
        ({"lengths": [300, 200]}, "lengths, means: must have shapes"),
        ({"lengths": [300, -1, 200]}, "lengths = .*at least 0"),
        ({"means": [1.0, 2.0, 3.0]}, "lengths, means: must have shapes"),
        ({"means": [[1.0], [math.nan], [3.0]]}, "means: must be finite"),
    ],
)
def test_refuses_what_is_no_tree(changed: dict[str, Any], message: str) -> None:
    """Shapes, segments that do not exist, and paths that are no tree are refused by name."""
    right = {"paths": [[0, 1], [0, 2]], "lengths": [300, 200, 200], "means": [[1.0], [2.0], [3.0]]}
    with pytest.raises(InvalidInput, match=message):
        HiGradAverage.of(**(right | changed))
