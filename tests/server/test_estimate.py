"""Estimates: the formulas on all iterates, in the user's units, and no interval that nobody can vouch for."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from ldp_stream.campaign import Campaign
from ldp_stream.errors import InvalidInput
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.inference.regions import Interval
from ldp_stream.inference.self_normalized import FEWEST, PooledAverage
from ldp_stream.server.aggregator import Aggregator
from ldp_stream.server.estimate import Estimate
from tests.server import naive
from tests.server.streams import LONG_ROUNDS, campaign, fed, reports

OF = campaign(rounds=LONG_ROUNDS, steps={"delay": 30}, radius=1e4)  # settles after 140 reports
N = 3000


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    """Return the estimate after N reports."""
    return fed(OF, reports(OF, N)).estimate()


def by_hand(of: Campaign, n: int, a: list[float], level: float) -> tuple[float, float]:
    """Return a'm and cv sqrt(a'V a/n) of a contrast in the working scale, from all iterates."""
    window = naive.NaiveServer(of, reports(of, n)).window(n)
    mean, V = naive.average(window)
    vector = np.array(a)
    half = self_normalized(level) * math.sqrt(float(vector @ V @ vector) / len(window))
    return float(vector @ mean), half


def assert_interval(found: Interval, value: float, half: float, level: float) -> None:
    """Assert that an interval is value +- half."""
    assert found.value == pytest.approx(value, rel=1e-12)
    assert (found.lower, found.upper) == pytest.approx((value - half, value + half), rel=1e-10)
    assert found.level == level


# size in [-2, 6]: centre 2, half-width 4; flag in [0, 1]: centre 0, half-width 1;
# target in [-10, 30]: 10 + 20 y~
@pytest.mark.parametrize(
    ("weights", "constant", "a"),
    [
        ({"size": 1.0}, 0.0, [0, 0, 20 / 4]),
        ({"flag": 1.0}, 0.0, [0, 20, 0]),
        ({"intercept": 1.0}, 10.0, [20, 0, -20 * 2 / 4]),
        ({"size": 3.0, "flag": -2.0}, 0.0, [0, -40, 15]),
        ({"intercept": 1.0, "size": 6.0, "flag": 1.0}, 10.0, [20, 20, 20]),
        ({"intercept": -0.5, "flag": 0.0}, -5.0, [-10, 0, 5]),
        ({}, 0.0, [0, 0, 0]),
    ],
)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_a_contrast_is_the_formula_in_the_users_units(
    estimate: Estimate, weights: dict[str, float], constant: float, a: list[float], level: float
) -> None:
    """A contrast is k + a'm +- cv sqrt(a'V a/n) with a worked out by hand from bounds and centres."""
    value, half = by_hand(OF, N, a, level)
    assert_interval(estimate.contrast(weights, level=level), constant + value, half, level)


@pytest.mark.parametrize(
    ("x", "row"),
    [
        ({"size": 2.0, "flag": 0}, [1, 0, 0]),
        ({"size": 6.0, "flag": 1}, [1, 1, 1]),
        ({"size": 0.0}, [1, 0, -0.5]),
        ({"flag": 1, "other": 9}, [1, 1, 0]),
        ({"size": 1e9, "flag": -7}, [1, 0, 1]),
        ({"size": math.nan, "flag": "?"}, [1, 0, 0]),
    ],
)
def test_a_prediction_is_the_contrast_at_the_record_as_a_device_reads_it(
    estimate: Estimate, x: dict[str, object], row: list[float]
) -> None:
    """The fitted quantile is 10 + 20 X'm +- its interval; missing features at the centre, others clipped."""
    value, half = by_hand(OF, N, [20 * entry for entry in row], 0.95)
    assert_interval(estimate.quantile(x), 10 + value, half, 0.95)
    assert estimate.quantile(x, level=0.5).width < estimate.quantile(x).width
    assert fed(OF, reports(OF, N)).fitted(x) == estimate.quantile(x).value


def test_a_mapping_of_coefficients(estimate: Estimate) -> None:
    """An estimate is a mapping: the intercept first, then the features, each the contrast of itself."""
    assert list(estimate) == ["intercept", "flag", "size"]
    assert len(estimate) == 3
    assert "size" in estimate
    assert "weight" not in estimate
    for name, interval in estimate.items():
        assert interval == estimate.contrast({name: 1.0})
    with pytest.raises(KeyError, match=r"weight.*must be one of intercept, flag, size"):
        estimate["weight"]


def test_intercept_and_slopes_make_the_prediction(estimate: Estimate) -> None:
    """In the user's units, intercept + slopes'x is the fitted quantile."""
    x = {"size": 3.3, "flag": 1}
    total = estimate["intercept"].value + 3.3 * estimate["size"].value + estimate["flag"].value
    assert total == pytest.approx(estimate.quantile(x).value, rel=1e-12)


def test_the_level_is_the_estimates_own_unless_another_is_asked_for(estimate: Estimate) -> None:
    """Wider levels give wider intervals about the same value; a level that is none is refused."""
    server = fed(OF, reports(OF, N))
    for level in (0.5, 0.8, 0.99):
        other = server.estimate(level)
        assert other["size"] == estimate.contrast({"size": 1.0}, level=level)
        assert other.level == other["size"].level == level
    assert server.estimate(0.5)["size"].width < estimate["size"].width < server.estimate(0.99)["size"].width
    for wrong in (0, 1, -0.5, 95, math.nan, "high"):
        with pytest.raises(InvalidInput, match="level = "):
            server.estimate(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="level = "):
            estimate.contrast({"size": 1.0}, level=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="level = "):
            estimate.quantile({}, level=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [{"weight": 1.0}, {"size": math.nan}, {"size": math.inf}, {"size": "x"}])
def test_a_contrast_of_nothing_known_is_refused(estimate: Estimate, weights: dict[str, Any]) -> None:
    """Unknown names and weights that are no finite numbers are refused by name."""
    with pytest.raises(InvalidInput, match="contrast"):
        estimate.contrast(weights)


def test_before_the_first_report() -> None:
    """Without reports the fit is the middle of the range, no interval is finite, and the reason is said."""
    estimate = Aggregator(OF).estimate()
    assert estimate.n_reports == 0
    assert {name: interval.value for name, interval in estimate.items()} == {
        "intercept": 10,
        "flag": 0,
        "size": 0,
    }
    assert all(interval.lower == -math.inf and interval.upper == math.inf for interval in estimate.values())
    assert estimate.quantile({"size": 5}).value == Aggregator(OF).fitted({"size": 5}) == 10
    assert estimate.reason is not None
    assert "no interval yet" in repr(estimate)


@pytest.mark.parametrize(("delay", "first"), [(1, 110), (30, 140)])
def test_no_interval_before_a_chain_has_settled(delay: float, first: int) -> None:
    """Until the steps add up to 10 and the window holds FEWEST iterates, there is a reason, no interval."""
    of = campaign(rounds=LONG_ROUNDS, steps={"delay": delay}, radius=1e4)
    server = Aggregator(of)
    for n, report in enumerate(reports(of, 150), 1):
        server.ingest(report)
        estimate = server.estimate()
        enough = n >= first
        assert estimate["size"].bounded == (estimate.reason is None) == enough
        assert estimate["size"].value == pytest.approx(by_hand(of, n, [0, 0, 5], 0.95)[0], rel=1e-11)
        assert math.isfinite(estimate.quantile({"size": 1}).value)
    travelled = sum(of.levels[0].steps.at(i) for i in range(1, first + 1))
    averaged = first - naive.window_start(first, 0.1)
    assert (averaged == FEWEST and travelled > 10) or (averaged > FEWEST and abs(travelled - 10) < 0.1)


def test_as_dict_is_json() -> None:
    """The dictionary has the promised keys, is JSON without NaN or Infinity, and infinite ends are null."""
    server = fed(OF, reports(OF, N))
    said = json.loads(json.dumps(server.estimate(0.9).as_dict(), allow_nan=False))
    assert said == {
        "campaign": "server-tests",
        "digest": OF.digest,
        "tau": 0.3,
        "n_reports": N,
        "level": 0.9,
        "private": True,
        "reason": None,
        "coefficients": {name: interval.as_dict() for name, interval in server.estimate(0.9).items()},
    }
    empty = json.loads(json.dumps(Aggregator(OF).estimate().as_dict(), allow_nan=False))
    assert empty["coefficients"]["size"] == {"value": 0.0, "lower": None, "upper": None}
    assert empty["reason"]


def test_what_is_not_private_says_so() -> None:
    """An estimate of channel "none" is labelled wherever it shows."""
    of = campaign(channel={"kind": "none"}, epsilon=None)
    estimate = fed(of, reports(of, 200)).estimate()
    assert "NOT PRIVATE" in repr(estimate)
    assert estimate.as_dict()["private"] is False
    assert "NOT PRIVATE" not in repr(fed(OF, reports(OF, 200)).estimate())


def test_an_estimate_is_of_one_moment() -> None:
    """Reports that come later do not change an estimate that was given."""
    server = fed(OF, reports(OF, 500))
    estimate = server.estimate()
    before = estimate.as_dict(), estimate.quantile({"size": 1})
    server.ingest_many(reports(OF, 900, seed=4))
    assert (estimate.as_dict(), estimate.quantile({"size": 1})) == before


def test_an_interval_that_reaches_the_edge_of_the_box_is_withheld_with_all_others() -> None:
    """Where the projection decides, no coefficient is right: none has an interval, the reason names who."""
    contract = campaign(radius=0.05)
    first, second, third = contract.scale.names

    def answer(mean: list[float], sd: float) -> Estimate:
        average = PooledAverage(np.array(mean), np.eye(3) * sd**2, (1.0,))
        return Estimate(contract, 10_000, average, 0.95, contract.levels[0])

    held = answer([0.045, 0.0, 0.01], 0.001)  # 6.75 of those reach beyond .05
    assert not any(interval.bounded for interval in held.values())
    assert not held.quantile({}).bounded
    assert held.reason is not None
    assert first in held.reason
    assert second not in held.reason
    assert third not in held.reason
    assert "no interval yet" in repr(held)
    free = answer([0.045, 0.0, 0.01], 0.0007)
    assert free.reason is None
    assert all(interval.bounded for interval in free.values())
