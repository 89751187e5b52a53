"""The scalar mechanisms by exact enumeration of cells, and against the published variances."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from ldp_stream.channels.piecewise import Piecewise
from ldp_stream.channels.scalar import ScalarHybrid, ScalarPiecewise
from ldp_stream.client.entropy import SimulatedEntropy
from ldp_stream.errors import InvalidInput
from tests.channels.enumeration import exp_bounds

TIMES = [-1.0, -0.97, -0.5, -1 / 3, 0.0, 0.123, 0.75, 1.0]
EPSILONS = [0.01, 0.5, 1.0, 2.5, 7.0]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shifts", [2, 10, 64])
def test_cells_are_private_and_unbiased(epsilon: float, shifts: int) -> None:
    """Every law sums to 1, no two differ by more than e^epsilon, and the mean of y is t: in rationals."""
    mechanism = ScalarPiecewise(epsilon, shifts)
    laws = [mechanism.law(t) for t in TIMES]
    assert all(sum(law) == 1 for law in laws)
    ratio = max(max(column) / min(column) for column in zip(*laws, strict=True))
    assert ratio == mechanism.inside / mechanism.outside <= exp_bounds(epsilon)[0]
    gain = (mechanism.inside - mechanism.outside) * mechanism.window * mechanism.shifts
    for t, law in zip(TIMES, laws, strict=True):
        mean = sum(chance * (2 * cell - mechanism.cells + 1) for cell, chance in enumerate(law)) / gain
        assert abs(mean - Fraction(t)) < Fraction(1, 1 << 50)
        square = sum(float(chance) * mechanism.value(cell) ** 2 for cell, chance in enumerate(law))
        place = mechanism.place(t) - math.floor(mechanism.place(t))
        assert square == pytest.approx(mechanism.second_moment(t * t, place * (1 - place)), rel=1e-12)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 0.1234567, 30.0])
def test_the_finest_cells_are_private(epsilon: float) -> None:
    """With 2^20 places the ratio of a cell's probabilities is at most e^epsilon, and close to it."""
    mechanism = ScalarPiecewise(epsilon)
    ratio = mechanism.inside / mechanism.outside
    assert ratio <= exp_bounds(epsilon)[0]
    assert math.log(ratio) == pytest.approx(epsilon, rel=1e-6)
    assert mechanism.inside * mechanism.window + mechanism.outside * mechanism.shifts == 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("t", [0.0, 0.4, -1.0])
def test_variances_are_the_published_ones(epsilon: float, t: float) -> None:
    """Wang et al. 2019, lemma 1 (piecewise) and corollary 1 (hybrid), to 1e-5."""
    root = math.exp(epsilon / 2)
    piecewise = t * t / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
    assert ScalarPiecewise(epsilon).second_moment(t * t) - t * t == pytest.approx(piecewise, rel=1e-5)
    duchi = ((root**2 + 1) / (root**2 - 1)) ** 2 - t * t
    mixed = (root + 3) / (3 * root * (root - 1)) + (root**2 + 1) ** 2 / (root * (root**2 - 1) ** 2)
    hybrid = mixed if epsilon > 0.61 else duchi
    assert ScalarHybrid(epsilon).second_moment(t * t) - t * t == pytest.approx(hybrid, rel=1e-5)


def _distance(t: float, assumed: float, seed: int) -> tuple[float, int]:
    mechanism, n = ScalarPiecewise(1.0, 10), 30_000
    entropy = SimulatedEntropy(seed)
    counts = Counter(round(mechanism.draw(t, entropy), 9) for _ in range(n))
    means = {round(mechanism.value(c), 9): float(x) * n for c, x in enumerate(mechanism.law(assumed))}
    assert set(counts) <= set(means)
    return sum((counts[y] - mean) ** 2 / mean for y, mean in means.items()), len(means) - 1


def test_the_sampler_follows_the_law_and_no_other() -> None:
    """Chi-square accepts the law given t and rejects that given another t."""
    for seed, t in enumerate((0.3, -1.0, 1.0)):
        distance, freedom = _distance(t, t, seed)
        assert distance < chi2.ppf(0.999, freedom)
    distance, freedom = _distance(0.3, 0.5, 0)
    assert distance > chi2.ppf(0.999, freedom)


def test_the_hybrid_is_the_mixture() -> None:
    """Two-valued answers come with probability 1 - alpha, and always up to epsilon .61."""
    mechanism, entropy, n = ScalarHybrid(2.0), SimulatedEntropy(4), 20_000
    drawn = np.array([mechanism.draw(0.2, entropy) for _ in range(n)])
    share = float(np.mean(np.abs(drawn) == mechanism.two_values))
    assert abs(share - math.exp(-1.0)) < 4.5 * math.sqrt(share * (1 - share) / n)
    assert abs(drawn.mean() - 0.2) < 4.5 * drawn.std() / math.sqrt(n)
    small = ScalarHybrid(0.61)
    assert {abs(small.draw(0.2, entropy)) for _ in range(200)} == {small.two_values} == {small.largest}


def test_a_number_outside_the_range_is_taken_to_its_end() -> None:
    """Whatever the float, the law is one of those of [-1, 1]."""
    mechanism = ScalarPiecewise(1.0, 10)
    assert mechanism.law(5.0) == mechanism.law(1.0)
    assert mechanism.law(-math.inf) == mechanism.law(-1.0)


@pytest.mark.parametrize(
    ("epsilon", "p", "k"), [(0.1, 4, 1), (4.9, 4, 1), (5.0, 4, 2), (7.5, 2, 2), (1e300, 6, 6)]
)
def test_the_sampled_coordinates_follow_the_source(epsilon: float, p: int, k: int) -> None:
    """It is max(1, min(p, floor(eps/2.5))), and k shares of the budget are within it, exactly."""
    channel = Piecewise(epsilon, 0.5, ((-1.0, 1.0),) * (p - 1))
    assert channel.sampled == k
    assert Fraction(channel.scalar.epsilon) * k <= Fraction(epsilon)


@pytest.mark.parametrize("k", range(1, 8))
def test_shares_of_the_budget_are_rounded_down(k: int) -> None:
    """For every k the shares add up to at most epsilon, as rationals."""
    for epsilon in (0.1, 0.7, 1.0, 2.3, 3.3):
        channel = Piecewise(epsilon, 0.5, ((-1.0, 1.0),) * 6, k=k)
        assert Fraction(channel.scalar.epsilon) * k <= Fraction(epsilon)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Piecewise(0.0, 0.5, ()), "epsilon"),
        (lambda: Piecewise(1.0, 2.0, ()), "tau"),
        (lambda: Piecewise(1.0, 0.5, ((0.5, 1.0),)), "intervals"),
        (lambda: Piecewise(1.0, 0.5, (), k=2), "k = 2"),
        (lambda: Piecewise(1e-30, 0.5, ()), "too small"),
        (lambda: ScalarPiecewise(1.0, 3), "shifts = 3"),
    ],
)
def test_nonsense_is_refused(make: object, message: str) -> None:
    """The message names the parameter."""
    assert callable(make)
    with pytest.raises(InvalidInput, match=message):
        make()
