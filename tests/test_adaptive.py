"""Adaptive steps: sums that combine exactly, the retune against its formulas, and where the pilot ends."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice, pairwise
from statistics import NormalDist

import numpy as np
import pytest

from ldp_stream.adaptive import (
    CONSTANTS,
    PublicScale,
    Tuning,
    checkpoints,
    divided_steps,
    pilot_ends,
    restarts,
    retune,
    to_come,
)
from ldp_stream.epoch_sums import EpochSums

PUBLIC = PublicScale(0.75, (4.0, 5.0, 6.0))
FIELDS = ("point", "gradient", "squares", "moves", "bb", "gb")


def stretch(n: int, seed: int = 1, level: float = 0.0, leading: tuple[int, ...] = ()) -> EpochSums:
    """Return the sums of a walk of n reports at the height ``level``."""
    points, gradients, steps = walk(n, seed, leading)
    return EpochSums.of(points + level, gradients, steps)


def walk(n: int, seed: int, leading: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, gradients with curvature 2, and steps of a walk."""
    rng = np.random.default_rng(seed)
    steps = rng.uniform(0.01, 0.02, (*leading, 3))
    points, gradients = np.empty((2, n, *leading, 3))
    b = np.full((*leading, 3), 0.3)
    for i in range(n):
        points[i], gradients[i] = b, 2 * b + rng.normal(0, 2, b.shape)
        b = b - steps * gradients[i]
    return points, gradients, steps


def tuned(curvature: float, error: float, significant: float = math.inf) -> Tuning:
    """Return a state with the given curvature."""
    ones = np.ones(3)
    return Tuning(0.01 * ones, ones, ones, np.array(curvature), np.array(error), np.array(significant))


@pytest.mark.parametrize("cuts", [(1,), (3, 50), (10, 20, 99)])
@pytest.mark.parametrize("level", [0.0, 1e3])
def test_sums_of_parts_are_the_sums_of_the_whole(cuts: tuple[int, ...], level: float) -> None:
    """Stretches in a row combine to the sums over all of their reports, also far from 0."""
    points, gradients, steps = walk(100, 3, ())
    points = points + level
    whole = EpochSums.of(points, gradients, steps)
    ends = [0, *cuts, 100]
    parts = [EpochSums.of(points[a:b], gradients[a:b], steps) for a, b in pairwise(ends)]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.then(part)
    assert joined.count == 100
    for name in FIELDS:
        np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-9, atol=1e-11)


def plain_retune(tuning: Tuning, sums: EpochSums, public: PublicScale, n: float, fall: float) -> list[float]:
    """Return the next steps of one chain, written out with plain numbers."""
    p, N, tau = 3, sums.count, public.tau
    z = NormalDist().inv_cdf(tau)
    phi, G = NormalDist().pdf(z), math.sqrt(sum(public.second_moments))
    eta = tuning.steps.tolist()
    A = [sums.gb[j] - 4 * sums.bb[j] / (eta[j] * N) + tuning.A[j] / 2 for j in range(p)]
    B = [sums.bb[j] + tuning.B[j] / 2 for j in range(p)]
    h = [a / b for a, b in zip(A, B, strict=True)]
    mean_squares = [sums.squares[j] / N for j in range(p)]
    se = math.sqrt(mean_squares[0] / B[0])
    f = h[0] if h[0] > 3 * se else h[0] - se
    r = []
    for j in range(p):
        c = max(eta[j] * h[j] * N, 0.0)
        ratio = min(max(h[j] / h[0], 0.03), 1.0) if h[0] > 0 else 1.0
        r.append(ratio ** (c / (c + 6)))
    size = sum(m / s for m, s in zip(mean_squares, r, strict=True))
    psi = min(0.25, math.sqrt(public.second_moments[0] / n) / (phi * max(abs(z), 0.3)))
    c = min(120.0, 2 * psi * n * phi**2 / size)
    steps = []
    for j in range(p):
        wanted = c / (f * r[j] * n) if f > 0 else math.inf
        highest = min(2 * eta[j], 0.7 / (G * math.sqrt(n * r[j])))
        steps.append(min(max(wanted, eta[j] / fall), highest))
    return steps


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [3e3, 1e5])
def test_the_retune_is_its_formulas(seed: int, n: float) -> None:
    """Two retunes in a row give the steps of the formulas, written out coordinate by coordinate."""
    first = stretch(400, seed)
    start = Tuning(walk(1, seed, ())[2], *(np.zeros(3),) * 2, np.array(0.0), np.array(1.0), np.array(np.inf))
    once = retune(start, first, PUBLIC, n, 4.0)
    np.testing.assert_allclose(once.steps, plain_retune(start, first, PUBLIC, n, 4.0), rtol=1e-12)
    second = stretch(900, seed + 50)
    twice = retune(once, second, PUBLIC, n, 8.0)
    np.testing.assert_allclose(twice.steps, plain_retune(once, second, PUBLIC, n, 8.0), rtol=1e-12)


def test_without_curvature_the_steps_go_up_to_their_limits() -> None:
    """A falling expected gradient, which no curvature explains, doubles the steps where the cap allows it."""
    points, gradients, steps = walk(300, 1, ())
    state = replace(Tuning.start(PUBLIC), steps=steps)
    found = retune(state, EpochSums.of(points, gradients - 9 * points, steps), PUBLIC, 1e3, 4.0)
    assert float(found.curvature) < 0
    np.testing.assert_allclose(found.steps, np.minimum(2 * steps, 0.7 / (PUBLIC.G * math.sqrt(1e3))))


def test_a_coordinate_that_never_moved_is_no_fault() -> None:
    """Zeros in all sums give finite steps within their limits and no warning."""
    zeros = np.zeros((5, 3))
    start = Tuning.start(PUBLIC)
    found = retune(start, EpochSums.of(zeros, zeros, start.steps), PUBLIC, 1e4, 4.0)
    np.testing.assert_allclose(found.steps, np.minimum(2 * start.steps, 0.7 / (PUBLIC.G * 100)))


def test_many_replications_are_each_their_own() -> None:
    """With a leading dimension every replication is retuned as it would be alone."""
    points, gradients, steps = walk(200, 5, (4,))
    together = retune(
        replace(Tuning.start(PUBLIC, (4,)), steps=steps),
        EpochSums.of(points, gradients, steps),
        PUBLIC,
        1e4,
        4.0,
    )
    for r in range(4):
        alone = retune(
            replace(Tuning.start(PUBLIC), steps=steps[r]),
            EpochSums.of(points[:, r], gradients[:, r], steps[r]),
            PUBLIC,
            1e4,
            4.0,
        )
        np.testing.assert_allclose(together.select(np.array([r])).steps[0], alone.steps, rtol=1e-12)
        np.testing.assert_allclose(together.curvature[r], alone.curvature, rtol=1e-12)


@pytest.mark.parametrize(
    ("tuning", "count", "following", "ends"),
    [
        (tuned(3.0, 1.0), 999, 1500, False),
        (tuned(3.0, 1.0), 1000, 1500, True),
        (tuned(3.0, 1.0, 1.5), 1000, 1500, False),
        (tuned(3.0, 1.0, 1.8), 1000, 1500, True),
        (tuned(1.9, 1.0), 1000, 1500, False),
        (tuned(1.9, 1.0), 2000, 3000, True),
        (tuned(3.0, 1.0, 1.5), 2000, 3000, False),
        (tuned(3.0, 1.0, 1.5), 2000, 3501, True),
    ],
)
def test_the_pilot_of_a_known_horizon_ends(tuning: Tuning, count: int, following: int, ends: bool) -> None:
    """Of 10,000 reports it ends past 10% if settled, past 20% if not significant, and before 35%."""
    assert bool(pilot_ends(tuning, count, following, 10_000, PUBLIC)) is ends


@pytest.mark.parametrize(
    ("tuning", "count", "ends"),
    [
        (tuned(4.0, 1.0, 3.0), 2500, True),
        (tuned(4.0, 1.0, 3.0), 2499, False),
        (tuned(4.0, 1.0), 2500, False),
        (tuned(4.0, 1.0, 2.0), 2500, False),
        (tuned(2.9, 1.0, 2.5), 2500, False),
    ],
)
def test_the_pilot_without_a_horizon_ends(tuning: Tuning, count: int, ends: bool) -> None:
    """It ends past 500 v reports where f^ exceeds three standard errors and has settled."""
    assert bool(pilot_ends(tuning, count, 2 * count, None, PUBLIC)) is ends


def test_checkpoints_are_counts_of_ratio_three_halves() -> None:
    """Epochs grow by half: 100, 150, 225, .. reports each."""
    found = list(islice(checkpoints(), 12))
    assert found == [math.floor(200 * (1.5**k - 1)) for k in range(1, 13)]


def test_what_is_to_come_without_a_horizon_is_a_multiple_of_the_count() -> None:
    """With a horizon it is what is left of it, at least 1."""
    assert (to_come(300, 1000), to_come(1000, 1000), to_come(300, None)) == (700, 1, 600.0)


def test_the_average_restarts_where_the_first_step_falls_far() -> None:
    """1.7 times is the limit."""
    before, after = tuned(1.0, 0.1), tuned(1.0, 0.1)
    assert not restarts(before, replace(after, steps=before.steps / 1.69))
    assert restarts(before, replace(after, steps=before.steps / 1.71))


def test_divided_steps_fall_as_the_power_of_the_count() -> None:
    """s_i = 10 (1 + i/(.05 n))^-.6."""
    found = divided_steps(9, 12, 1000.0)
    np.testing.assert_allclose(found, [10 * (1 + i / 50) ** -0.6 for i in (10, 11, 12)], rtol=1e-14)


def test_the_constants_are_the_calibrated_ones() -> None:
    """A change of a constant moves every campaign's steps, so it is made on purpose."""
    assert CONSTANTS.first_step == 0.05
    assert CONSTANTS.pilot == (0.1, 0.2, 0.35)
    assert CONSTANTS.fall == (4.0, 32.0, 8.0)
