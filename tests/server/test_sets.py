"""Joint confidence sets of an estimate, for every kind of inference: in the user's units, or a reason."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp_stream import Aggregator
from ldp_stream.errors import InvalidInput, NoConfidenceSet
from ldp_stream.inference.averages import TOO_EARLY, Average
from ldp_stream.inference.divide_and_conquer import DivideAndConquerAverage
from ldp_stream.inference.higrad import HiGradAverage
from ldp_stream.inference.self_normalized import PooledAverage
from ldp_stream.server.estimate import Estimate
from ldp_stream.server.estimates import Estimates
from ldp_stream.server.published import estimates_from_json, estimates_to_json
from tests.server.streams import campaign

OF = campaign(radius=1e4)
NAMES = OF.scale.names
RNG = np.random.default_rng(2)
MEANS = RNG.standard_normal((6, 3)) @ RNG.standard_normal((3, 3))
TREE = [[0, 1, 3], [0, 1, 4], [0, 2, 5], [0, 2, 6]]
SEGMENTS = np.concatenate([MEANS, [[1.0, 0.5, 0.0]]])
KINDS: dict[str, Average] = {
    "sn": PooledAverage(MEANS[0], np.cov(MEANS.T), (1.0,)),
    "dc": DivideAndConquerAverage(MEANS),
    "higrad": HiGradAverage.of(TREE, [500, 300, 200, 150, 100, 400, 120], SEGMENTS),
}


def answer(average: Average, level: float = 0.95) -> Estimate:
    """Return the estimate of an average."""
    return Estimate(OF, 10_000, average, level, OF.levels[0])


def to_json(estimate: Estimate) -> bytes:
    """Return the message that holds one estimate."""
    return estimates_to_json(Estimates([estimate]))


def from_json(message: bytes) -> Estimate:
    """Return the one estimate of a message."""
    (found,) = estimates_from_json(OF, message)[0].values()
    return found


@pytest.fixture(params=KINDS)
def average(request: pytest.FixtureRequest) -> Average:
    """Return an average of each kind."""
    return KINDS[request.param]


def around(average: Average, spread: float) -> NDArray[np.float64]:
    """Return points around the mean, working scale, (400, 3)."""
    root = np.linalg.cholesky(average.region(np.eye(3), 0.95))
    return np.asarray(average.mean + spread * np.random.default_rng(3).standard_normal((400, 3)) @ root.T)


def test_the_ellipsoid_holds_exactly_the_transformed_points(average: Average) -> None:
    """A point is in the user's ellipsoid exactly when its working coefficients are in the working one."""
    ellipsoid = answer(average).ellipsoid()
    inverse = np.linalg.inv(average.region(np.eye(3), 0.95))
    found = []
    for b in around(average, 0.6):
        gap = b - average.mean
        found.append(ellipsoid.contains(OF.scale.coefficients(b.tolist())))
        assert found[-1] == (gap @ inverse @ gap <= 1)
    assert 40 < sum(found) < 360
    assert ellipsoid.names == NAMES
    assert ellipsoid.level == 0.95


def test_its_centre_is_the_estimate_and_its_bounds_are_wider_than_the_intervals(average: Average) -> None:
    """The centre is every coefficient's value; the box around a joint set holds the single intervals."""
    estimate = answer(average)
    for name, bound in estimate.ellipsoid().bounds.items():
        assert bound.value == pytest.approx(estimate[name].value, rel=1e-12)
        assert bound.lower < estimate[name].lower < estimate[name].upper < bound.upper


def test_a_subset_in_any_order(average: Average) -> None:
    """Named coefficients come in the order asked for; one alone is its interval, at any level."""
    estimate = answer(average)
    pair = estimate.ellipsoid(["size", "intercept"])
    assert pair.names == ("size", "intercept")
    swapped = estimate.ellipsoid(["intercept", "size"])
    np.testing.assert_allclose(pair.matrix, swapped.matrix[::-1, ::-1], rtol=1e-12)
    for level in (0.5, 0.9, 0.9999):
        alone = estimate.ellipsoid("size", level).bounds["size"]
        single = estimate.contrast({"size": 1.0}, level)
        assert (alone.lower, alone.upper) == pytest.approx((single.lower, single.upper), rel=1e-9)
    assert pair.volume < estimate.ellipsoid(["size", "intercept"], level=0.99).volume


def test_simultaneous_intervals_share_the_risk(average: Average) -> None:
    """Each of q intervals is the one at 1 - (1 - level)/q, carries the joint level, and is within the box."""
    estimate = answer(average)
    joint = estimate.simultaneous(level=0.9)
    assert list(joint) == list(NAMES)
    for name, interval in joint.items():
        single = estimate.contrast({name: 1.0}, 1 - 0.1 / 3)
        assert (interval.lower, interval.upper, interval.level) == (single.lower, single.upper, 0.9)
        box = estimate.ellipsoid(level=0.9).bounds[name]
        assert box.lower < interval.lower < interval.upper < box.upper
    assert estimate.simultaneous(["size"])["size"] == estimate["size"]
    assert list(estimate.simultaneous(["size", "flag"])) == ["size", "flag"]


def test_simultaneous_intervals_cover_together() -> None:
    """Intervals of six normal chains cover all three coefficients at 90%; single intervals do not."""
    rng = np.random.default_rng(5)
    root = np.array([[1.0, 0.0, 0.0], [0.2, 1.0, 0.0], [-0.1, 0.3, 1.0]])
    truth = OF.scale.coefficients([0.0, 0.0, 0.0])
    hits, studies = np.zeros(2), 800
    for _ in range(studies):
        estimate = answer(DivideAndConquerAverage(rng.standard_normal((6, 3)) @ root.T), 0.9)
        hits += (
            all(truth[name] in interval for name, interval in estimate.simultaneous().items()),
            all(truth[name] in interval for name, interval in estimate.items()),
        )
    margin = 3.5 * math.sqrt(0.9 * 0.1 / studies)
    assert 0.9 - margin < hits[0] / studies < 0.96
    assert hits[1] / studies < 0.9 - margin


def test_a_published_estimate_has_the_same_sets(average: Average) -> None:
    """Every kind of average survives the message: intervals, contrasts, quantiles and ellipsoids."""
    sent = answer(average, 0.9)
    found = from_json(to_json(sent))
    assert found.average.kind == average.kind
    assert found.as_dict() == sent.as_dict()
    assert found.ellipsoid().as_dict() == sent.ellipsoid().as_dict()
    assert found.simultaneous() == sent.simultaneous()
    assert found.quantile({"size": 1}, level=0.8) == sent.quantile({"size": 1}, level=0.8)


def test_a_message_from_before_there_were_kinds_is_read() -> None:
    """An average without a kind is self-normalized."""
    sent = answer(KINDS["sn"])
    message = json.loads(to_json(sent))
    assert message["average"].pop("kind") == "sn"
    found = from_json(json.dumps(message).encode())
    assert found.as_dict() == sent.as_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_an_average_that_is_none_is_refused(kind: str) -> None:
    """Unknown kinds, fields of another kind and wrong sizes are refused with a reason."""
    message = json.loads(to_json(answer(KINDS[kind])))

    def refused(average: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="message: "):
            from_json(json.dumps(message | {"average": average}).encode())

    right = message["average"]
    refused(right | {"kind": "mean"})
    refused(right | {"more": 1})
    refused({"kind": kind})
    for name, part in right.items():
        if isinstance(part, list):
            refused(right | {name: part[:-1]} if name != "shares" and kind != "dc" else right | {name: 1})
            refused(right | {name: [[1.0, 2.0], [3.0]]})
    from_json(json.dumps(message).encode())


@pytest.mark.parametrize(
    ("none", "reason"),
    [
        (PooledAverage(np.zeros(3), None, ()), "too early: a chain needs"),
        (DivideAndConquerAverage(np.empty((0, 3))), "too early: a chain needs"),
        (DivideAndConquerAverage(MEANS[:1]), "1 chain has an average, and intervals need two"),
        (DivideAndConquerAverage(MEANS, TOO_EARLY), "too early: a chain needs"),
        (HiGradAverage.of(TREE, [500, 0, 0, 0, 0, 0, 0], SEGMENTS), "share all their segments so far"),
        (HiGradAverage.of(TREE, [0] * 7, SEGMENTS), "too early: a chain needs"),
    ],
)
def test_without_any_set_every_answer_gives_the_reason(none: Average, reason: str) -> None:
    """Intervals are infinite and the estimate says why; an ellipsoid is refused in the same words."""
    estimate = answer(none)
    assert estimate.reason is not None
    assert reason in estimate.reason
    assert not any(interval.bounded for interval in (*estimate.values(), *estimate.simultaneous().values()))
    assert not estimate.quantile({"size": 1}).bounded
    with pytest.raises(NoConfidenceSet) as caught:
        estimate.ellipsoid()
    assert str(caught.value) == estimate.reason
    found = from_json(to_json(estimate))
    assert found.reason == estimate.reason
    assert found.as_dict() == estimate.as_dict()


@pytest.mark.parametrize(
    ("few", "reason"),
    [
        (DivideAndConquerAverage(MEANS[:3]), "needs more than 3 chains: there are 3"),
        (HiGradAverage.of(TREE, [500, 300, 200, 150, 100, 400, 0], SEGMENTS), None),
        (HiGradAverage.of(TREE[:3], [500, 300, 200, 150, 100, 400, 0], SEGMENTS), "more than 3 threads"),
        (PooledAverage(np.zeros(3), np.ones((3, 3)), (1.0,)), "singular"),
    ],
)
def test_where_only_the_ellipsoid_does_not_exist_intervals_remain(few: Average, reason: str | None) -> None:
    """Too few chains or threads for q, or a singular matrix: a sentence, while intervals stay finite."""
    estimate = answer(few)
    assert estimate.reason is None
    assert all(interval.bounded for interval in (*estimate.values(), *estimate.simultaneous().values()))
    if reason is None:
        assert estimate.ellipsoid().volume > 0
    else:
        with pytest.raises(NoConfidenceSet, match=reason):
            estimate.ellipsoid()


def test_an_average_at_the_edge_of_the_box_has_no_ellipsoid() -> None:
    """The reason that withholds the intervals withholds the ellipsoid."""
    of = campaign(radius=0.5)
    held = Estimate(of, 10_000, KINDS["dc"], 0.95, of.levels[0])
    assert held.reason is not None
    with pytest.raises(NoConfidenceSet, match="reaches the edge of the box"):
        held.ellipsoid(["size"])


@pytest.mark.parametrize("names", [[], ["size", "size"], ["weight"], ["size", 3], "weight"])
def test_names_that_choose_nothing_are_refused(names: Any) -> None:
    """Unknown, repeated or no names are refused by name."""
    estimate = answer(KINDS["dc"])
    for method in (estimate.ellipsoid, estimate.simultaneous):
        with pytest.raises(InvalidInput, match="names"):
            method(names)


def test_levels_without_a_set_are_refused() -> None:
    """A level outside (0, 1) is refused by every kind, one outside the table by "sn"."""
    for kind, average in KINDS.items():
        for wrong in (0.0, 1.0, math.nan, "high"):
            with pytest.raises(InvalidInput, match="level = "):
                answer(average).ellipsoid(level=wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidInput, match="level = "):
                answer(average).simultaneous(level=wrong)  # type: ignore[arg-type]
        if kind == "sn":
            with pytest.raises(InvalidInput, match=r"level = 0.5: must be from 0.8 to 0.999"):
                answer(average).ellipsoid(level=0.5)
        else:
            assert answer(average).ellipsoid(level=0.5).volume > 0


def test_an_aggregator_gives_them() -> None:
    """An aggregator's estimate before any report has the reason and no ellipsoid."""
    with pytest.raises(NoConfidenceSet, match="too early"):
        Aggregator(OF).estimate().ellipsoid()
