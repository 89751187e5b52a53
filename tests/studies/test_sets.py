"""Vectorised confidence formulas against the plain ones."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import t as student

from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.studies.sets import SNWindow, divided, spread_over_threads, thread_weights, tree_threads


def test_random_scaling_is_its_definition() -> None:
    """V of each chain is L^-2 sum t^2 (m_t - m)^2 over its own window, also after a restart."""
    paths = np.random.default_rng(1).normal(0, 1, (90, 3, 2)).cumsum(axis=0) + 5
    window = SNWindow(3, 2)
    window.add(paths[:20])
    window.restart(np.array([False, True, False]))
    window.add(paths[20:33])
    window.add(paths[33:])
    for chain, start in enumerate((0, 20, 0)):
        path = paths[start:, chain]
        L = len(path)
        t = np.arange(1, L + 1)[:, None]
        means = path.cumsum(axis=0) / t
        V = (t**2 * (means - means[-1]) ** 2).sum(axis=0) / L**2
        np.testing.assert_allclose(window.mean()[chain], means[-1], rtol=1e-12)
        np.testing.assert_allclose(window.random_scaling()[chain], V, rtol=1e-9)
        half = self_normalized(0.9) * np.sqrt(V / L)
        np.testing.assert_allclose(window.half_width(0.9)[chain], half, rtol=1e-9)


def test_divide_and_conquer_is_students_interval() -> None:
    """The half-width is t_{K-1} s/sqrt(K) of the K averages."""
    centres = np.random.default_rng(2).normal(0, 1, (4, 10, 3))
    mean, half = divided(centres, 0.95)
    for r in range(4):
        for j in range(3):
            low, high = student.interval(
                0.95, 9, centres[r, :, j].mean(), centres[r, :, j].std(ddof=1) / math.sqrt(10)
            )
            np.testing.assert_allclose([mean[r, j] - half[r, j], mean[r, j] + half[r, j]], [low, high])


def test_the_tree_of_equal_segments_has_the_known_weights() -> None:
    """Sigma sums w_l^2/n_l over the shared segments: root for all, the middle segment for sisters."""
    w, Sigma = thread_weights([2, 2], [50, 100, 200])
    np.testing.assert_allclose(w, np.array([50, 200, 800]) / 1050)
    root, middle, leaf = w**2 / np.array([50, 100, 200])
    expected = np.full((4, 4), root)
    expected[:2, :2] += middle
    expected[2:, 2:] += middle
    expected += leaf * np.eye(4)
    np.testing.assert_allclose(Sigma, expected)


def test_higrad_intervals_cover_normal_threads() -> None:
    """Threads with exactly the assumed dependence are covered as often as the level says."""
    _, Sigma = thread_weights([2, 2], [50, 100, 200])
    threads = np.random.default_rng(3).multivariate_normal(np.zeros(4), Sigma, (20_000, 1))
    threads = np.moveaxis(threads, 1, 2)
    for level in (0.95, 0.8):
        mean, half = tree_threads(threads, Sigma, level)
        error = 4 * math.sqrt(level * (1 - level) / 20_000)
        assert abs((np.abs(mean) <= half).mean() - level) < error
        assert abs((np.abs(mean) <= 0.9 * half).mean() - level) > error


def test_threads_are_weighted_sums_over_their_path() -> None:
    """Thread t of replication r averages root r, middle 2 r + t // 2 and leaf 4 r + t."""
    levels = [np.arange(size, dtype=float)[:, None] for size in (2, 4, 8)]
    threads = spread_over_threads(levels, np.array([100.0, 10.0, 1.0]), 2)
    expected = [[100 * r + 10 * (2 * r + t // 2) + 4 * r + t for t in range(4)] for r in range(2)]
    assert threads[:, :, 0].tolist() == expected
