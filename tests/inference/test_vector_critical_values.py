"""Vector critical values: another simulation's figures, the exact value at q = 1, plain chains, limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import chdtrc

from ldp_stream.errors import InvalidInput
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.inference.vector_critical_values import HIGHEST, LARGEST, LOWEST, self_normalized_vector
from ldp_stream.inference.vector_table import LEVELS, PERCENT_ERRORS, QUANTILES
from tests.statistical import vector_critical_values as simulation

# Rows of an independently simulated table at 90, 95, 97.5 and 99%; s.e. <= 0.2.
SIMULATED = {
    2: (35.6143, 51.7283, 70.1307, 97.8672),
    4: (48.7143, 64.9851, 82.4867, 107.5033),
    10: (83.8214, 102.1401, 120.5784, 145.3499),
    30: (187.1599, 211.3153, 234.3032, 263.5919),
}
SIMULATED_ERROR = 0.2


@pytest.mark.parametrize("q", SIMULATED)
def test_another_simulation(q: int) -> None:
    """Values agree with another simulation within its error; values 2% off do not."""
    for level, figure in zip((0.9, 0.95, 0.975, 0.99), SIMULATED[q], strict=True):
        value = self_normalized_vector(level, q)
        assert abs(value - figure) < 2 * SIMULATED_ERROR
        for wrong in (0.98 * value, 1.02 * value):
            assert abs(wrong - figure) > 2 * SIMULATED_ERROR


def test_the_first_row_is_the_exact_value() -> None:
    """The table's row q = 1 is the square of the exact value of one contrast within 3.5 standard errors."""
    for level, value, percent in zip(LEVELS, QUANTILES[0], PERCENT_ERRORS[0], strict=True):
        exact = self_normalized(level) ** 2
        assert value == pytest.approx(exact, rel=3.5 * percent / 100)
        assert self_normalized_vector(level, 1) == exact


def test_standard_errors_are_below_a_thousandth() -> None:
    """Every figure of the table is known to .1%, and rows and levels are complete."""
    assert len(QUANTILES) == len(PERCENT_ERRORS) == LARGEST == 30
    for row, errors in zip(QUANTILES, PERCENT_ERRORS, strict=True):
        assert len(row) == len(errors) == len(LEVELS)
        assert max(errors) < 0.1


@cache
def draws() -> simulation.Draws:
    """Return a small run of the simulation that made the table, from another seed."""
    return simulation.draw(n=20_000, piece=500, seed=3)


@pytest.mark.parametrize("q", [1, 2, 3, 8, 20, 30])
def test_the_table_comes_from_its_simulation(q: int) -> None:
    """A hundredth of the run gives the same figures, at knots and between, within error; not 2% off."""
    for level in (0.8, 0.88, 0.95, 0.965, 0.99, 0.997, 0.999):
        found, error = simulation.quantile(draws(), level, q)
        assert error < 0.006 * found
        value = self_normalized_vector(level, q)
        assert abs(value - found) < 4 * error
        if level == 0.95:
            assert abs(1.02 * value - found) > 4 * error


@pytest.mark.parametrize(("q", "shares"), [(1, (1.0,)), (2, (1.0,)), (4, (1.0,)), (7, (1.0,))])
def test_plain_chains_are_covered(q: int, shares: Sequence[float]) -> None:
    """Chains of independent normal vectors: the right value covers at its level, one a fifth off does not."""
    statistics = statistic(q, shares, repeats=6000, seed=11)
    for level in (0.8, 0.95):
        margin = 3.5 * math.sqrt(level * (1 - level) / len(statistics))
        value = self_normalized_vector(level, q)
        assert abs(np.mean(statistics <= value) - level) < margin
        for wrong in (0.8 * value, 1.25 * value):
            assert abs(np.mean(statistics <= wrong) - level) > margin


def statistic(q: int, shares: Sequence[float], repeats: int, seed: int) -> NDArray[np.float64]:
    """Return the F statistic of pooled chains of 240 normal vectors in all, (repeats,)."""
    rng = np.random.default_rng(seed)
    mean, scale = np.zeros((repeats, q)), np.zeros((repeats, q, q))
    for share in shares:
        n = round(240 * share)
        s = np.arange(1, n + 1)[:, np.newaxis]
        running = np.cumsum(rng.standard_normal((repeats, n, q)), axis=1) / s
        gaps = s * (running - running[:, -1:])
        mean += share * running[:, -1]
        scale += share**2 * gaps.transpose(0, 2, 1) @ gaps / n**3
    solved = np.linalg.solve(scale, mean[:, :, np.newaxis])[:, :, 0]
    return np.asarray((mean * solved).sum(axis=1) / q)


POOLS = [(0.5, 0.5), (0.9, 0.1), (0.25, 0.25, 0.25, 0.25), (0.6, 0.3, 0.1)]


@pytest.mark.parametrize("q", [2, 3, 5, 10, 20, 30])
def test_one_chains_value_covers_pooled_chains_too_often(q: int) -> None:
    """For pooled chains the value of one chain is never too small: the miss rate is below 1 - level.

    Pooled matrices are averages of the simulation's, so P(F > f) is a mean of chi-squared tails.
    """
    parts = [simulation.matrices(np.random.default_rng(seed), 2000, largest=q) for seed in range(4)]
    for shares in POOLS:
        pooled = sum(share * part for share, part in zip(shares, parts, strict=False))
        S = simulation.pivots(np.asarray(pooled))[:, q - 1]
        for level in (0.8, 0.9, 0.95, 0.999):
            tail = chdtrc(q, q * self_normalized_vector(level, q) * S)
            assert tail.mean() + 3 * tail.std() / math.sqrt(2000) < 1 - level


def test_values_grow_with_the_level() -> None:
    """A higher level never has a smaller value, on a fine grid for every q."""
    levels = np.linspace(LOWEST, HIGHEST, 120).tolist()
    for q in range(2, LARGEST + 1):
        values = [self_normalized_vector(level, q) for level in levels]
        assert all(after > before for before, after in pairwise(values))


def test_one_contrast_is_exact_at_any_level() -> None:
    """With q = 1 the value is exact also beyond the table's levels."""
    assert self_normalized_vector(0.5, 1) == self_normalized(0.5) ** 2
    assert self_normalized_vector(1 - 1e-9, 1) == self_normalized(1 - 1e-9) ** 2


@pytest.mark.parametrize("level", [0.0, 0.5, 0.7999, 0.9991, 1.0, math.nan, "0.95"])
def test_refuses_a_level_beyond_the_table(level: Any) -> None:
    """A level outside .8 to .999 is refused by name and value."""
    with pytest.raises(InvalidInput, match=f"level = {level!r}: must be "):
        self_normalized_vector(level, 2)


@pytest.mark.parametrize("q", [0, 31, -1, 1.5, True, "2"])
def test_refuses_a_number_of_contrasts_beyond_the_table(q: Any) -> None:
    """Fewer than one or more than thirty contrasts, or no whole number of them, are refused."""
    with pytest.raises(InvalidInput, match=r"q = .*must be a whole number from 1 to 30"):
        self_normalized_vector(0.95, q)
