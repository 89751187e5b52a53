"""A smaller version of the coverage study: regular cells of each method with adaptive steps.

150 replications; bands allow 3.5 Monte Carlo standard errors below 92%.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from ldp_stream.studies.coverage import Cell, simulate
from ldp_stream.studies.plan import Found, Method, Steps

R = 150
N = 20_000
METHODS: list[tuple[Method, Steps]] = [
    ("sn", "adaptive"),
    ("sn", "adaptive-open"),
    ("sn", "corrected"),
    ("higrad", "corrected"),
    ("dc10", "adaptive"),
    ("higrad", "adaptive"),
]


def cell(method: Method, steps: Steps, tau: float) -> Cell:
    """Return a regular cell: rel is .041 at the median and .074 at .75."""
    return Cell(method, tau, 4.0, 2, "gauss", 0.2, N, steps)


@cache
def study(method: Method, steps: Steps, tau: float) -> tuple[Cell, Found]:
    """Return a cell and its replications; each is simulated once."""
    chosen = cell(method, steps, tau)
    return chosen, simulate(chosen, R, seed=11)


def covered(method: Method, steps: Steps, tau: float, width: float = 1.0) -> np.ndarray:
    """Return each coefficient's coverage by intervals made ``width`` times as wide."""
    chosen, found = study(method, steps, tau)
    return np.asarray((np.abs(found.mean - chosen.model.theta) <= width * found.half_width).mean(axis=0))


@pytest.mark.parametrize(("method", "steps"), METHODS)
@pytest.mark.parametrize("tau", [0.5, 0.75])
def test_intervals_cover_in_regular_cells(method: Method, steps: Steps, tau: float) -> None:
    """Every coefficient's interval covers at least as often as 92% allows."""
    lowest = 0.92 - 3.5 * math.sqrt(0.92 * 0.08 / R)
    assert covered(method, steps, tau).min() >= lowest


@pytest.mark.parametrize(("method", "steps"), METHODS)
def test_intervals_a_third_as_wide_are_rejected(method: Method, steps: Steps) -> None:
    """The same check with intervals a third as wide fails, so it can."""
    lowest = 0.92 - 3.5 * math.sqrt(0.92 * 0.08 / R)
    assert covered(method, steps, 0.5, 1 / 3).max() < lowest


@pytest.mark.parametrize(("method", "steps"), METHODS)
def test_the_error_is_near_the_bound(method: Method, steps: Steps) -> None:
    """At the median the median distance is below 1.8 times the bound, and above .6 times."""
    chosen, found = study(method, steps, 0.5)
    distance = np.linalg.norm(found.mean - chosen.model.theta, axis=1)
    ratio = float(np.median(distance) / np.sqrt(np.trace(chosen.covariance)))
    assert 0.6 < ratio < 1.8


def test_cold_chains_fail_where_a_common_pilot_does_not() -> None:
    """At .75 DC without a pilot, with power steps, covers in less than 70%, with the pilot in over 85%."""
    assert covered("dc10", "power", 0.75).max() < 0.7
    assert covered("dc10", "adaptive", 0.75).min() > 0.85


def test_the_corrections_mend_power_steps() -> None:
    """At .75 SN with power steps covers the intercept in less than 88%, corrected in over 94%."""
    assert covered("sn", "power", 0.75)[0] < 0.88
    assert covered("sn", "corrected", 0.75)[0] > 0.94


def test_the_curvature_shift_is_what_the_intercept_needs() -> None:
    """At .75 the intercept of DC is off by less than .6 of its deviation, as the slopes are."""
    chosen, found = study("dc10", "adaptive", 0.75)
    error = found.mean - chosen.model.theta
    assert (np.abs(error.mean(axis=0)) < 0.6 * error.std(axis=0)).all()
