"""Critical values of the random-scaling t statistic against tables, another quadrature and simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from ldp_stream.errors import InvalidInput
from ldp_stream.inference.critical_values import self_normalized, self_normalized_tail

# Two-sided values, exact integral; those at 80, 90, 95 and 98% are tabulated one-sided (90, 95, 97.5, 99%)
# by Abadir and Paruolo (1997) as 3.875, 5.323, 6.747 and 8.613.
PUBLISHED = {0.80: 3.8749, 0.90: 5.3227, 0.95: 6.7473, 0.975: 8.1600, 0.98: 8.6132, 0.99: 10.0173}

# Row q = 1 of a simulated table of quantiles of W(1)'[int BB']^-1 W(1)/q, which is T^2; s.e. <= 0.2.
SIMULATED_SQUARES = {0.90: 28.2876, 0.95: 45.4452, 0.975: 66.4537, 0.99: 100.1260}
SIMULATED_ERROR = 0.2

UNEQUAL = (0.5, 0.3, 0.2)


def tail_by_angle(t: float, shares: Sequence[float]) -> mpmath.mpf:
    """Integrate over theta as the formula is printed, with 30 digits: the slow oracle of the rule in y."""
    with mpmath.workdps(30):

        def integrand(theta: mpmath.mpf) -> mpmath.mpf:
            scales = [t * mpmath.sqrt(share) / mpmath.sin(theta) for share in shares]
            return mpmath.fprod(mpmath.sqrt(a / mpmath.sinh(a)) for a in scales)

        cuts = [0, *(mpmath.pi / 2 * mpmath.mpf(2) ** -k for k in range(20, 0, -1))]
        cuts += [mpmath.pi / 2 * (1 - mpmath.mpf(2) ** -k) for k in range(2, 6)] + [mpmath.pi / 2]
        return 2 / mpmath.pi * mpmath.quad(integrand, cuts)


def simulated_statistics(sizes: Sequence[int], repeats: int, seed: int) -> NDArray[np.float64]:
    """|T| of chains of independent normal values, pooled by the formula of the module, shape (repeats,)."""
    rng = np.random.default_rng(seed)
    total = sum(sizes)
    pooled = np.zeros(repeats)
    scale = np.zeros(repeats)
    for size in sizes:
        step = np.arange(1, size + 1)
        running = np.cumsum(rng.standard_normal((repeats, size)), axis=1) / step
        mean = running[:, -1]
        v = ((step * (running - mean[:, np.newaxis])) ** 2).sum(axis=1) / size**2
        pooled += size / total * mean
        scale += (size / total) ** 2 * v / size
    return np.abs(pooled) / np.sqrt(scale)


@pytest.mark.parametrize(("level", "published"), PUBLISHED.items())
def test_published_values(level: float, published: float) -> None:
    """One chain's value agrees with the published one to all its digits."""
    assert self_normalized(level) == pytest.approx(published, abs=5.1e-5)


@pytest.mark.parametrize(("level", "square"), SIMULATED_SQUARES.items())
def test_simulated_table_of_squares(level: float, square: float) -> None:
    """The squared value is a quantile of the simulated table, and a value 5% off is not."""
    value = self_normalized(level)
    assert abs(value**2 - square) < 3 * SIMULATED_ERROR
    for wrong in (0.95 * value, 1.05 * value):
        assert abs(wrong**2 - square) > 3 * SIMULATED_ERROR


@pytest.mark.parametrize("shares", [(1.0,), UNEQUAL, (0.25,) * 4])
@pytest.mark.parametrize("t", [0.01, 0.5, 3.0, 6.7473, 20.0, 40.0])
def test_tail_against_quadrature_over_the_angle(t: float, shares: tuple[float, ...]) -> None:
    """The tail agrees with a 30-digit quadrature of the other form of the integral to a relative 1e-12."""
    assert self_normalized_tail(t, shares) == pytest.approx(float(tail_by_angle(t, shares)), rel=1e-12)


@pytest.mark.parametrize("shares", [(1.0,), UNEQUAL])
@pytest.mark.parametrize("level", [1e-3, 0.5, 0.95, 0.999, 1 - 1e-6, 1 - 1e-9])
def test_value_leaves_the_right_tail(level: float, shares: tuple[float, ...]) -> None:
    """The probability beyond the value, by the independent quadrature, is 1 - level."""
    beyond = float(tail_by_angle(self_normalized(level, shares), shares))
    assert beyond == pytest.approx(1 - level, rel=1e-11)


@pytest.mark.parametrize("sizes", [(200,), (100, 60, 40), (160, 40)])
def test_pooled_chains_against_simulation(sizes: tuple[int, ...]) -> None:
    """Simulated chains are covered at the level by the right value, and visibly not by one 5% off."""
    repeats = 60_000
    statistics = simulated_statistics(sizes, repeats, seed=20)
    for level in (0.8, 0.95):
        value = self_normalized(level, [size / sum(sizes) for size in sizes])
        allowed = 4 * math.sqrt(level * (1 - level) / repeats)
        assert abs(np.mean(statistics <= value) - level) < allowed
        assert np.mean(statistics <= 0.95 * value) < level - allowed
        assert np.mean(statistics <= 1.05 * value) > level + allowed


def test_many_equal_chains_reach_the_normal_limit() -> None:
    """As equal chains multiply, the value falls towards z sqrt(6), where the scaling is its mean 1/6."""
    limit = norm.ppf(0.975) * math.sqrt(6)
    values = [self_normalized(0.95, (1 / k,) * k) for k in (1, 2, 4, 16, 256, 4096)]
    assert all(after < before for before, after in pairwise(values))
    assert limit < values[-1] < 1.001 * limit


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 1 - 1e-9])
def test_pooling_lies_between_one_chain_and_the_normal_limit(level: float) -> None:
    """Whatever the shares, pooling never widens the interval, nor passes the normal limit."""
    pooled = self_normalized(level, UNEQUAL)
    assert norm.isf((1 - level) / 2) * math.sqrt(6) < pooled < self_normalized(level)


def test_a_vanishing_chain_changes_nothing() -> None:
    """A chain with next to no reports leaves the value of the other chain."""
    assert self_normalized(0.95, (1 - 1e-14, 1e-14)) == pytest.approx(self_normalized(0.95), rel=1e-12)


def test_order_and_container_of_shares_do_not_matter() -> None:
    """Chains may come in any order and any sequence, and the value is the same bit for bit."""
    value = self_normalized(0.9, (0.2, 0.3, 0.5))
    assert self_normalized(0.9, [0.5, 0.2, 0.3]) == value
    assert self_normalized(0.9, list(np.array([0.3, 0.5, 0.2]))) == value


def test_values_grow_with_the_level() -> None:
    """A higher level has a larger value, from next to 0 up to the last float below 1."""
    levels = (1e-300, 1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9, math.nextafter(1, 0))
    values = [self_normalized(level) for level in levels]
    assert all(math.isfinite(value) and value >= 0 for value in values)
    assert all(before < after for before, after in pairwise(values))


def test_tail_at_its_ends() -> None:
    """The tail is 1 at 0, falls without rising, and reaches 0 without overflow for any finite t."""
    statistics = (0.0, 5e-324, 1e-17, 1e-3, 1.0, 50.0, 1519.0, 1521.0, 1e308)
    tails = [self_normalized_tail(t, UNEQUAL) for t in statistics]
    assert tails[0] == 1.0
    assert tails[-1] == 0.0
    assert all(after <= before for before, after in pairwise(tails))


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, math.nan, "0.95", True, None])
def test_refuses_a_level_outside_the_unit_interval(level: float) -> None:
    """A level that is not strictly between 0 and 1 is refused by name."""
    with pytest.raises(InvalidInput, match=r"level = .*must be a number in \(0, 1\)"):
        self_normalized(level)


@pytest.mark.parametrize("t", [-1.0, math.nan, math.inf])
def test_refuses_a_statistic_that_is_no_absolute_value(t: float) -> None:
    """A negative or infinite t is refused by name."""
    with pytest.raises(InvalidInput, match=r"t = .*must be a finite number >= 0"):
        self_normalized_tail(t)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0.5, 0.4), r"shares = \(0.5, 0.4\): must sum to 1, but sum to 0.9"),
        ((), r"shares = \(\): must sum to 1, but sum to 0.0"),
        ((1.5, -0.5), r"shares\[1\] = -0.5: must be a finite number > 0"),
        ((1.0, 0.0), r"shares\[1\] = 0.0: must be a finite number > 0"),
        ((math.nan,), r"shares\[0\] = nan: must be a finite number > 0"),
        (1.0, r"shares = 1.0: must be a sequence of numbers > 0 with sum 1"),
    ],
)
def test_refuses_shares_that_are_no_partition(shares: tuple[float, ...], message: str) -> None:
    """Shares that are not positive with sum 1 are refused, by the one that is wrong where it can be told."""
    with pytest.raises(InvalidInput, match=message):
        self_normalized(0.95, shares)
    with pytest.raises(InvalidInput, match=message):
        self_normalized_tail(1.0, shares)
