"""Synthetic taxi trips: repeatable, inside their bounds, and with the quantiles they claim."""

from __future__ import annotations

import itertools
from statistics import NormalDist

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import chi2

from ldp_stream.datasets.taxi import FEATURES, TARGET, TaxiTrips
from ldp_stream.errors import InvalidInput

Array = NDArray[np.float64]
LEVELS = [0.1, 0.5, 0.9]


def _arrays(n: int, seed: int) -> tuple[Array, Array]:
    """Return the design with an intercept, shape (n, 5), and the targets."""
    features, targets = zip(*TaxiTrips(n, seed).blocks(), strict=True)
    return np.insert(np.concatenate(features), 0, 1.0, axis=1), np.concatenate(targets)


def _truth(tau: float) -> Array:
    return np.array(list(TaxiTrips.true_coefficients(tau).values()))


def test_iterating_twice_gives_the_same_trips() -> None:
    """A stream can be read again from its start, and another seed is another stream."""
    trips = TaxiTrips(500, seed=3)
    assert list(trips) == list(trips)
    assert list(trips) != list(TaxiTrips(500, seed=4))
    assert len(trips) == len(list(trips)) == 500


@pytest.mark.parametrize("n", [0, 1, 16_384, 16_385, 20_000])
def test_a_shorter_stream_is_the_beginning_of_a_longer_one(n: int) -> None:
    """Trip i depends on the seed and i only, across the blocks in which trips are made."""
    longer = list(itertools.islice(TaxiTrips(40_000, seed=3), n))
    assert list(TaxiTrips(n, seed=3)) == longer


def test_arrays_hold_the_same_trips() -> None:
    """The columns of the blocks are the features by name, in the order of FEATURES."""
    design, targets = _arrays(20_000, 3)
    for row, target, (x, y) in zip(design, targets, TaxiTrips(20_000, 3), strict=True):
        assert list(x) == list(FEATURES)
        assert (list(x.values()), y) == (row[1:].tolist(), target)


def test_features_stay_inside_their_bounds() -> None:
    """Every feature lies inside FEATURES; indicators are 0 or 1, and it is never rush hour at night."""
    design, _ = _arrays(200_000, 5)
    for column, (lower, upper, *_) in zip(design[:, 1:].T, FEATURES.values(), strict=True):
        assert lower <= column.min() <= column.max() <= upper
    rush, night, airport = design[:, 2:].T
    assert set(np.unique(design[:, 2:])) == {0.0, 1.0}
    assert not np.any(rush * night)
    assert 0.5 < rush.mean() < 0.52
    assert 0.07 < night.mean() < 0.09
    assert 0.015 < airport.mean() < 0.025


def test_no_trip_can_leave_the_target_range() -> None:
    """At the ends of each kind of trip, even the extreme quantiles lie in TARGET and keep their order."""
    design, _ = _arrays(200_000, 5)
    indicators = [(0, 0), (1, 0), (0, 1)]
    for airport in (0, 1):
        log_miles = design[design[:, 4] == airport, 1]
        for distance, (rush, night) in itertools.product((log_miles.min(), log_miles.max()), indicators):
            x = np.array([1.0, distance, rush, night, airport])
            quantiles = [float(x @ _truth(tau)) for tau in (1e-12, 0.1, 0.5, 0.9, 1 - 1e-12)]
            assert quantiles == sorted(set(quantiles))
            assert TARGET[0] < quantiles[0] < quantiles[-1] < TARGET[1]


def _chi_square(design: Array, targets: Array, beta: Array, tau: float) -> tuple[float, int]:
    """Return the distance of the hit rates of all feature cells from tau, and the number of cells."""
    hits = targets <= design @ beta
    distance = np.digitize(design[:, 1], [-0.4, 0.2, 0.8, 1.6, 2.85])
    cell = 8 * distance + (design[:, 2:] @ [1, 2, 4]).astype(int)
    count = np.bincount(cell)
    met = np.bincount(cell, weights=hits)[count > 0]
    count = count[count > 0]
    return float(np.sum((met - count * tau) ** 2 / (count * tau * (1 - tau)))), count.size


@pytest.mark.parametrize("tau", LEVELS)
def test_hit_rates_equal_tau_in_every_cell_of_the_features(tau: float) -> None:
    """P(Y <= X'beta(tau)) is tau whatever the features, and is not when any one coefficient is off."""
    design, targets = _arrays(300_000, 17)
    value, cells = _chi_square(design, targets, _truth(tau), tau)
    assert cells > 20
    assert value < chi2.ppf(0.999, cells)
    for j, shift in enumerate([0.02, 0.02, 0.02, 0.03, 0.05]):
        wrong = _truth(tau)
        wrong[j] += shift
        assert _chi_square(design, targets, wrong, tau)[0] > chi2.ppf(1 - 1e-6, cells)


@pytest.mark.parametrize("tau", LEVELS)
def test_quantile_regression_finds_the_true_coefficients(tau: float) -> None:
    """The linear program of quantile regression lands within 4 standard errors of the truth."""
    n = 20_000
    design, targets = _arrays(n, 23)
    fit = linprog(-targets, A_eq=design.T, b_eq=(1 - tau) * design.sum(axis=0), bounds=(0, 1))
    found = -fit.eqlin.marginals
    spread = design @ (_truth(0.9) - _truth(0.1))
    level = _level(tau)
    density = (
        NormalDist().pdf(level) / (1 - 2 * NormalDist().cdf(-2.5)) * (_level(0.9) - _level(0.1)) / spread
    )
    bread = np.linalg.inv((design * density[:, None]).T @ design)
    errors = np.sqrt(tau * (1 - tau) * np.diag(bread @ (design.T @ design) @ bread))
    assert np.all(np.abs(found - _truth(tau)) < 4 * errors)
    assert np.all(errors < [0.02, 0.02, 0.02, 0.02, 0.05])


def _level(tau: float) -> float:
    """Return the tau-quantile of the normal law cut at 2.5, from its definition."""
    outside = NormalDist().cdf(-2.5)
    return NormalDist().inv_cdf(outside + tau * (1 - 2 * outside))


def test_coefficients_are_named_as_the_features() -> None:
    """The intercept comes first, then every feature; tau outside (0, 1) is refused."""
    assert list(TaxiTrips.true_coefficients(0.3)) == ["intercept", *FEATURES]
    with pytest.raises(InvalidInput, match="tau"):
        TaxiTrips.true_coefficients(1.0)


@pytest.mark.parametrize(("n", "seed"), [(-1, 0), (1.5, 0), (1, -1), (1, None)])
def test_nonsense_is_refused(n: object, seed: object) -> None:
    """Sizes and seeds must be whole numbers >= 0."""
    with pytest.raises(InvalidInput):
        TaxiTrips(n, seed)  # type: ignore[arg-type]
