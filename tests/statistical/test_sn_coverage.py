"""Whole studies, many times over: estimates come to the truth, intervals cover it as often as they say.

Self-normalized intervals are asymptotic. With c = sum eta lambda relaxation times in the window they cover
.91 at c = 20, .934 at c = 50 and .95 in the limit when .95 is asked for, so the bands below start at .93 less
Monte Carlo error.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from ldp_stream import Aggregator, PrivateQuantileRegressor
from ldp_stream.datasets.taxi import FEATURES, TARGET, TaxiTrips
from ldp_stream.inference.vector_critical_values import self_normalized_vector
from tests.statistical.studies import Study, run

TRUTH = (0.3, 0.5, -0.4)
NAMES = ("intercept", "x1", "x2")
PRIVATE = Study(TRUTH, sigma=0.15, tau=0.5, epsilon=4.0, n=30_000, replications=400, partitions=2)
OPEN = Study(TRUTH, sigma=0.15, tau=0.5, epsilon=None, n=12_000, replications=250)
LYING = Study(TRUTH, sigma=0.15, tau=0.5, epsilon=4.0, n=12_000, replications=150, lie=0.05)
SKEWED = Study(TRUTH, sigma=0.15, tau=0.3, epsilon=4.0, n=8_000, replications=100)

studies = cache(run)  # each study is simulated once


def coverage(servers: list[Aggregator], name: str, truth: float, width: float = 1.0) -> float:
    """Return how often the interval at 95%, made ``width`` times as wide, holds the truth."""
    hits = 0
    for server in servers:
        found = server.estimate(0.95)[name]
        hits += abs(truth - found.value) <= width * (found.upper - found.value)
    return hits / len(servers)


def band(replications: int) -> tuple[float, float]:
    """Return the coverages that agree with .93 to .95, allowing 3.3 Monte Carlo standard errors."""
    return 0.93 - 3.3 * math.sqrt(0.93 * 0.07 / replications), 0.95 + 3.3 * math.sqrt(
        0.95 * 0.05 / replications
    )


@pytest.mark.parametrize("study", [PRIVATE, OPEN], ids=["private", "open"])
@pytest.mark.parametrize(("name", "truth"), [*zip(NAMES, TRUTH, strict=True)])
def test_intervals_cover_the_truth(study: Study, name: str, truth: float) -> None:
    """In a regular study at 95% each coefficient's interval covers in 93 to 95 of 100 replications."""
    lowest, highest = band(study.replications)
    assert lowest <= coverage(studies(study, seed=1), name, truth) <= highest


@pytest.mark.parametrize("study", [PRIVATE, OPEN], ids=["private", "open"])
def test_the_same_check_rejects_intervals_half_as_wide(study: Study) -> None:
    """Intervals cut in half fall below the band for every coefficient, so the band is narrow enough."""
    for name, truth in zip(NAMES, TRUTH, strict=True):
        assert coverage(studies(study, seed=1), name, truth, width=0.5) < band(study.replications)[0]


@pytest.mark.parametrize("study", [PRIVATE, OPEN], ids=["private", "open"])
def test_joint_sets_cover_all_coefficients(study: Study) -> None:
    """Ellipsoid and joint intervals at 95% cover all three in 90 to 95 of 100; single ones in fewer."""
    truth = dict(zip(NAMES, TRUTH, strict=True))
    hits = {"ellipsoid": 0, "simultaneous": 0, "single": 0, "ellipsoid of one's value": 0}
    one = math.sqrt(self_normalized_vector(0.95, 1) / (3 * self_normalized_vector(0.95, 3)))
    for server in studies(study, seed=1):
        estimate = server.estimate(0.95)
        distance = estimate.ellipsoid().distance(truth)
        hits["ellipsoid"] += distance <= 1
        hits["ellipsoid of one's value"] += distance <= one
        joint = estimate.simultaneous()
        hits["simultaneous"] += all(value in joint[name] for name, value in truth.items())
        hits["single"] += all(value in estimate[name] for name, value in truth.items())
    n = study.replications
    lowest, highest = (
        0.9 - 3.3 * math.sqrt(0.9 * 0.1 / n),
        0.95 + 3.3 * math.sqrt(0.95 * 0.05 / n),
    )
    for right in ("ellipsoid", "simultaneous"):
        assert lowest <= hits[right] / n <= highest
    assert hits["single"] < hits["simultaneous"]
    assert hits["ellipsoid of one's value"] / n < lowest


def test_the_same_check_rejects_another_channel() -> None:
    """When devices send one category of the intercept 5% too often, its interval no longer covers."""
    servers = studies(LYING, seed=2)
    assert coverage(servers, "intercept", TRUTH[0]) < 0.6
    assert coverage(servers, "x1", TRUTH[1]) > band(LYING.replications)[0]


def test_pooled_partitions_cover_with_shorter_intervals() -> None:
    """Two partitions joined cover as one does, with intervals shorter than twice the reports explain."""
    singles = studies(PRIVATE, seed=1)
    pairs = []
    for first, second in zip(singles[::2], singles[1::2], strict=True):
        joint = Aggregator.restore(first.campaign, first.snapshot())
        joint.merge(second)
        pairs.append(joint)
    lowest, highest = band(len(pairs))
    for name, truth in zip(NAMES, TRUTH, strict=True):
        assert lowest <= coverage(pairs, name, truth) <= highest
        widths = [np.mean([server.estimate()[name].width for server in group]) for group in (pairs, singles)]
        assert widths[0] < 0.95 * widths[1] / math.sqrt(
            2
        )  # 5.83 instead of 6.75 standard errors of twice the reports


@pytest.mark.parametrize("study", [PRIVATE, OPEN, SKEWED], ids=["private", "open", "skewed"])
def test_estimates_come_to_the_truth(study: Study) -> None:
    """The mean of many replications is the truth within its error, and each replication is close."""
    found = np.array(
        [[interval.value for interval in server.estimate().values()] for server in studies(study, seed=1)]
    )
    spread = found.std(axis=0)
    bias = found.mean(axis=0) - TRUTH
    allowed = 4 / math.sqrt(study.replications) + (
        2.5 if study.tau != 0.5 else 0.0
    )  # curvature moves the intercept
    assert (np.abs(bias) < allowed * spread).all()
    assert (spread < 0.05).all()


def error(model: PrivateQuantileRegressor, tau: float) -> float:
    """Return the root mean square of the fitted minus the true quantile over trips that were not learnt."""
    features, _ = next(TaxiTrips(2000, seed=99).blocks())
    truth, found = TaxiTrips.true_coefficients(tau), model.coefficients
    gaps = features @ np.array([found[name] - truth[name] for name in FEATURES])
    return float(np.sqrt(np.mean((gaps + found["intercept"] - truth["intercept"]) ** 2)))


@pytest.mark.parametrize(
    ("tau", "epsilon", "channel", "largest"),
    [
        (0.5, None, "none", 0.02),
        (0.9, None, "none", 0.03),
        (0.5, 4.0, {"kind": "cqx", "q": 2, "s": 3}, 0.05),
        (0.5, 2.0, "cqx", 0.06),
    ],
)
def test_taxi_quantiles_are_learnt(tau: float, epsilon: float | None, channel: str, largest: float) -> None:
    """On taxi trips the fit comes to the true quantile, from an error three times as large or more."""
    model = PrivateQuantileRegressor(FEATURES, TARGET, tau=tau, epsilon=epsilon, channel=channel, seed=1)
    errors = {}
    for i, (x, y) in enumerate(TaxiTrips(40_000, seed=1), 1):
        record: dict[Any, Any] = {**x}
        model.learn_one(record, y)
        if i in (1000, 40_000):
            errors[i] = error(model, tau)
    assert errors[40_000] < largest
    assert errors[40_000] < errors[1000] / 3
