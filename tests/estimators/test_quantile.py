"""The river estimator: river's own checks, river's own company, and one state however it learns."""

from __future__ import annotations

import copy
import importlib.util
import math
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from river import base, checks, compose, conf, evaluate, metrics, stream

from ldp_stream import Aggregator, Campaign, PrivateQuantileRegressor, Reporter
from ldp_stream.datasets.taxi import FEATURES, TARGET, TaxiTrips
from ldp_stream.errors import InvalidCampaign, InvalidInput, InvalidReport, NoConfidenceSet
from ldp_stream.report_batch import ReportBatch

Record = dict[Any, Any]

CHANNELS: dict[str, dict[str, Any]] = {
    "default": {"epsilon": 2.0},
    "dict": {"epsilon": 4.0, "channel": {"kind": "cqx", "q": 3, "s": 2}},
    "none": {"channel": "none"},
}


def regressor(**changes: Any) -> PrivateQuantileRegressor:
    """Return a model of taxi trips, epsilon 2 and seeded unless changed."""
    given = {"features": FEATURES, "target": TARGET, "tau": 0.4, "epsilon": 2.0, "seed": 5}
    return PrivateQuantileRegressor(**{**given, **changes})


def of_channel(name: str, **changes: Any) -> PrivateQuantileRegressor:
    """Return a model with one of CHANNELS."""
    return regressor(**{"epsilon": None, **CHANNELS[name], **changes})


def trips(n: int, seed: int = 3) -> list[tuple[Record, Any]]:
    """Return the first n trips of a seed."""
    return list(TaxiTrips(n, seed))


def learnt(model: Any, rows: Iterable[tuple[Record, Any]]) -> Any:
    """Return the model after it learnt the rows one by one."""
    for x, y in rows:
        model.learn_one(x, y)
    return model


def says(model: Any) -> list[float]:
    """Return the model's predictions for some trips."""
    return [model.predict_one(x) for x, _ in trips(20, seed=9)]


def state(model: PrivateQuantileRegressor) -> bytes:
    """Return everything that the model has learnt."""
    return model._server.snapshot()


# ---------------------------------------------------------------------- river's own checks


def test_nothing_that_the_checks_need_is_missing() -> None:
    """Pandas and scikit-learn, without which river leaves out checks, are there, and none is skipped."""
    assert importlib.util.find_spec("pandas")
    assert importlib.util.find_spec("sklearn")
    for parameters in PrivateQuantileRegressor._unit_test_params():
        assert PrivateQuantileRegressor(**parameters)._unit_test_skips() == set()


def river_checks() -> list[tuple[dict[str, Any], Callable[[base.Estimator], None]]]:
    """Return (parameters, check) for every check that river has for the estimator."""
    found = []
    for parameters in PrivateQuantileRegressor._unit_test_params():
        found += [
            (parameters, check) for check in checks.yield_checks(PrivateQuantileRegressor(**parameters))
        ]
    return found


def test_the_checks_do_not_vanish() -> None:
    """River has at least 25 checks for each set of parameters, those for mini-batches among them."""
    names = [check.__name__ for _, check in river_checks()]
    assert len(names) >= 2 * 25
    assert {"check_learn_many_matches_learn_one", "check_predict_many_matches_predict_one"} <= set(names)
    assert {"check_bounded_memory_growth", "check_pickling", "check_clone_is_independent"} <= set(names)


@pytest.mark.parametrize(
    ("parameters", "check"), river_checks(), ids=lambda value: getattr(value, "__name__", "cqx")
)
def test_river_check(parameters: dict[str, Any], check: Callable[[base.Estimator], None]) -> None:
    """Each of river's checks passes."""
    check(PrivateQuantileRegressor(**parameters))


def test_river_checks_the_seed_of_an_unseeded_model() -> None:
    """Without a seed river sees that the model is random, and that giving it one makes it repeatable."""
    unseeded = regressor(features={"gallup": (0, 100)}, target=(0, 100), seed=None)
    seeding = [check for check in checks.yield_checks(unseeded) if "seeding" in check.__name__]
    assert len(seeding) == 1
    seeding[0](unseeded.clone())


def test_it_is_a_mini_batch_regressor() -> None:
    """The estimator is what river calls a mini-batch regressor, learns in place and returns nothing."""
    model = regressor()
    learn_one: Callable[[Record, float], object] = model.learn_one
    assert isinstance(model, base.MiniBatchRegressor)
    assert learn_one(*trips(1)[0]) is None
    assert model.n_reports == 1


# ---------------------------------------------------------------------- in river's company


def in_miles(x: Record) -> Record:
    """Return public arithmetic on a record: its log distance and its indicators."""
    return {"log_miles": math.log(x["miles"]), **{name: x[name] for name in ("rush", "night", "airport")}}


def raw(rows: Iterable[tuple[Record, Any]]) -> list[tuple[Record, Any]]:
    """Return trips with their distance in miles and a column that no model wants."""
    return [
        ({**x, "miles": math.exp(x["log_miles"]), "log_miles": None, "driver": "Ann"}, y) for x, y in rows
    ]


def pipelines() -> dict[str, Any]:
    """Return pipelines that end in the estimator; none of their steps looks at more than one record."""
    names = list(FEATURES)
    return {
        "select": compose.Select(*names) | regressor(),
        "discard": compose.Discard("driver") | regressor(),
        "two selections": (compose.Select("log_miles") + compose.Select("rush", "night", "airport"))
        | regressor(),
        "union by name": compose.TransformerUnion(
            ("distance", compose.Select("log_miles")), ("rest", compose.Discard("log_miles"))
        )
        | regressor(),
    }


@pytest.mark.parametrize("name", pipelines())
def test_a_pipeline_learns_what_the_model_alone_learns(name: str) -> None:
    """Behind selections and unions the model makes the same reports as by itself."""
    rows = trips(300)
    pipeline, alone = learnt(pipelines()[name], rows), learnt(regressor(), rows)
    assert says(pipeline) == says(alone)
    last = pipeline["PrivateQuantileRegressor"]
    assert state(last) == state(alone)
    x = trips(1, seed=9)[0][0]
    interval = last.predict_one(pipeline.transform_one(x), with_interval=True)
    assert isinstance(interval, conf.Interval)
    assert pipeline.predict_one(x) in interval


def test_a_function_before_the_model() -> None:
    """Public arithmetic on each record goes before the model in a pipeline."""
    pipeline = compose.FuncTransformer(in_miles) | regressor()
    rows = trips(200)
    learnt(pipeline, raw(rows))
    alone = learnt(regressor(), ((in_miles(x), y) for x, y in raw(rows)))
    assert [pipeline.predict_one(x) for x, _ in raw(rows)] == [
        alone.predict_one(in_miles(x)) for x, _ in raw(rows)
    ]


def test_a_pipeline_learns_frames() -> None:
    """A pipeline with the model learns and predicts frames as it does rows."""
    rows = trips(150)
    pipeline = compose.Select(*FEATURES) | regressor()
    pipeline.learn_many(*frame(rows))
    alone = learnt(regressor(), rows)
    assert pipeline.predict_many(frame(rows)[0]).tolist() == [alone.predict_one(x) for x, _ in rows]


def test_progressive_validation() -> None:
    """River's progressive validation runs, and its error falls below that of the range's middle."""
    rows = trips(4000)
    error = evaluate.progressive_val_score(iter(rows), regressor(tau=0.5, epsilon=4.0), metrics.MAE())
    middle = np.mean([abs(y - 2.4) for _, y in rows])
    assert error.get() < 0.8 * middle


def test_a_river_stream_is_learnt() -> None:
    """What ``river.stream`` yields is learnt as it comes."""
    rows = trips(60)
    X, y = frame(rows)
    model = learnt(regressor(), stream.iter_frame(X, y))
    assert state(model) == state(learnt(regressor(), rows))


# ---------------------------------------------------------------------- copies


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("before", [0, 1, 333])
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"]
)
def test_a_copy_predicts_the_same_and_goes_on_alike(
    channel: str, before: int, copied: Callable[[Any], PrivateQuantileRegressor]
) -> None:
    """A copy and its original say the same, learn the same from the same records, and are independent."""
    rows = trips(before + 200)
    model = learnt(of_channel(channel), rows[:before])
    other = copied(model)
    assert says(other) == says(model)
    kept = says(model)
    learnt(other, rows[before:])
    assert says(model) == kept
    learnt(model, rows[before:])
    assert state(other) == state(model)
    assert other.confidence_interval("rush") == model.confidence_interval("rush")


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_clone_starts_over(channel: str) -> None:
    """A clone has the parameters and nothing of what was learnt, and learns the same again."""
    rows = trips(200)
    model = learnt(of_channel(channel), rows)
    clone = model.clone()
    assert clone.n_reports == 0
    assert clone.campaign == model.campaign
    assert says(clone) == says(of_channel(channel))
    assert state(learnt(clone, rows)) == state(model)
    assert model.clone({"tau": 0.9}).campaign.tau == 0.9


def test_a_seed_repeats_and_no_seed_does_not() -> None:
    """Equal seeds give equal studies; without a seed the randomness is the operating system's."""
    rows = trips(100)
    assert says(learnt(regressor(), rows)) == says(learnt(regressor(), rows))
    assert says(learnt(regressor(seed=6), rows)) != says(learnt(regressor(), rows))
    assert says(learnt(regressor(seed=None), rows)) != says(learnt(regressor(seed=None), rows))


# ---------------------------------------------------------------------- one state however it learns


def frame(rows: list[tuple[Record, Any]]) -> tuple[pd.DataFrame, pd.Series]:
    """Return rows as a frame and a series, with an index that is no range."""
    index = [f"trip {i}" for i in range(len(rows))]
    return pd.DataFrame([x for x, _ in rows], index=index), pd.Series([y for _, y in rows], index=index)


@pytest.mark.parametrize("channel", CHANNELS)
def test_learn_many_is_the_loop(channel: str) -> None:
    """A frame leaves the state of learning its rows one by one; columns may come in any order."""
    rows = trips(400)
    X, y = frame(rows)
    model = of_channel(channel)
    model.learn_many(X[:1], y[:1])
    model.learn_many(X[1:300], y[1:300])
    model.learn_many(X[300:][sorted(X.columns)], y[300:])
    model.learn_many(X[:0], y[:0])
    assert state(model) == state(learnt(of_channel(channel), rows))


@pytest.mark.parametrize("channel", CHANNELS)
def test_predict_many_is_predict_one(channel: str) -> None:
    """A frame's predictions are those of its rows, as floats under the frame's index."""
    rows = trips(300)
    model = learnt(of_channel(channel), rows)
    X, _ = frame(rows[:50])
    predicted = model.predict_many(X)
    assert predicted.index.equals(X.index)
    assert predicted.dtype == np.float64
    assert predicted.tolist() == [model.predict_one(x) for x, _ in rows[:50]]
    assert model.predict_many(X[:0]).empty


def test_columns_that_are_no_names_are_ignored_alike() -> None:
    """A frame with numbered columns counts as records without the features, as its rows do."""
    X = pd.DataFrame(np.ones((30, 2)))
    model, loop = regressor(), regressor()
    model.learn_many(X, pd.Series(np.ones(30)))
    learnt(loop, [({0: 1.0, 1: 1.0}, 1.0)] * 30)
    assert state(model) == state(loop)


@pytest.mark.parametrize("channel", CHANNELS)
def test_learn_reports_is_the_loop_of_learn_report(channel: str) -> None:
    """Reports one by one, as a list, as a generator and as columns leave one state."""
    campaign = of_channel(channel).campaign
    device = Reporter.simulated(campaign, seed=1)
    parameters = Aggregator(campaign).parameters()
    reports = [device.report(x, y, parameters) for x, y in trips(300)]
    models = [of_channel(channel) for _ in range(4)]
    for report in reports:
        models[0].learn_report(report)
    models[1].learn_reports(reports)
    models[2].learn_reports(report for report in reports)
    models[3].learn_reports(ReportBatch.from_reports(reports))
    assert {state(model) for model in models} == {state(models[0])}
    assert models[0].n_reports == 300


def test_learn_one_is_report_and_learn_report() -> None:
    """Learning a record is making its report at the latest coefficients and folding it, nothing more."""
    rows = trips(200)
    model, server = regressor(), regressor()
    device = Reporter.simulated(server.campaign, seed=5)
    for x, y in rows:
        model.learn_one(x, y)
        server._server.fold(device.privatize(x, y, server.parameters().chains[0].beta))
    assert state(model) == state(server)


def test_a_foreign_report_is_refused_and_nothing_changes() -> None:
    """Reports of another campaign leave the model as it is."""
    model = learnt(regressor(), trips(50))
    kept = state(model)
    other = regressor(tau=0.7)
    foreign = Reporter.simulated(other.campaign, seed=1).report(*trips(1)[0], other.parameters())
    with pytest.raises(InvalidReport, match="digest"):
        model.learn_report(foreign)
    with pytest.raises(InvalidReport, match="digest"):
        model.learn_reports([foreign])
    assert state(model) == kept


@pytest.mark.parametrize("rounds", [{"stability": 0}, {"stability": 0.3, "curvature": 10.0}])
def test_a_campaigns_estimator_takes_its_devices_reports(tmp_path: Any, rounds: dict[str, float]) -> None:
    """From a campaign comes an estimator of the same digest, which real devices with ledgers report to."""
    campaign = Campaign.model_validate(
        {
            "kind": "quantile",
            "name": "trips-2019",
            "tau": 0.5,
            "epsilon": 2.0,
            "target": {"lower": 0.0, "upper": 4.8},
            "features": {
                "log_miles": {"lower": -2.4, "upper": 3.5},
                "rush": {"lower": 0, "upper": 1, "centre": 0},
            },
            "channel": {"kind": "cqx", "q": 2, "s": 2},
            "steps": {"gain": 2.0},
            "radius": 2.0,
            "burn_in": 0.2,
            "rounds": rounds,
        }
    )
    model, server = PrivateQuantileRegressor.from_campaign(campaign), Aggregator(campaign)
    assert model.campaign.digest == campaign.digest
    assert model.clone().campaign.digest == campaign.digest
    for i, (x, y) in enumerate(trips(5)):
        device = Reporter(campaign, ledger=tmp_path / f"{i}.sqlite")
        report = device.report(x, y, parameters=model.parameters())
        model.learn_report(report)
        server.ingest(report)
    assert state(model) == server.snapshot()


@pytest.mark.parametrize("channel", CHANNELS)
def test_a_model_is_what_its_campaign_makes(channel: str) -> None:
    """Going to the campaign and back keeps the digest, for every channel."""
    campaign = of_channel(channel).campaign
    assert PrivateQuantileRegressor.from_campaign(campaign).campaign.digest == campaign.digest


def test_several_partitions_are_for_aggregators() -> None:
    """A campaign with several partitions has no single estimator."""
    campaign = regressor().campaign.model_copy(update={"partitions": 2})
    with pytest.raises(InvalidInput, match=r"partitions = 2: must be 1"):
        PrivateQuantileRegressor.from_campaign(campaign)


# ---------------------------------------------------------------------- answers


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_interval_contains_the_prediction(channel: str) -> None:
    """With an interval the model returns river's own kind, around its prediction, wider at higher levels."""
    model = learnt(of_channel(channel), trips(6000))
    for x, _ in trips(20, seed=8):
        predicted = model.predict_one(x)
        wide = model.predict_one(x, with_interval=True, level=0.99)
        narrow = model.predict_one(x, with_interval=True, level=0.5)
        usual = model.predict_one(x, with_interval=True)
        assert isinstance(usual, conf.Interval)
        assert wide.lower < usual.lower < narrow.lower < predicted < narrow.upper < usual.upper < wide.upper
        assert (narrow.lower + narrow.upper) / 2 == pytest.approx(predicted)


def test_coefficients_and_intervals_are_in_the_users_units() -> None:
    """Coefficients predict by themselves, and their intervals are those of the server's estimate."""
    model = learnt(regressor(), trips(1500))
    coefficients = model.coefficients
    assert sorted(coefficients) == ["airport", "intercept", "log_miles", "night", "rush"]
    for x, _ in trips(20, seed=8):
        fit = coefficients["intercept"] + sum(coefficients[name] * x[name] for name in FEATURES)
        assert model.predict_one(x) == pytest.approx(fit, rel=1e-12)
    estimate = model._server.estimate(0.9)
    assert model.confidence_interval("rush", level=0.9) == estimate["rush"]
    assert model.confidence_interval("intercept", 0.9) == estimate["intercept"]
    contrast = {"rush": 1.0, "night": -1.0}
    assert model.confidence_interval(contrast, level=0.9) == estimate.contrast(contrast)
    assert model.confidence_interval("rush").value == coefficients["rush"]
    assert model.confidence_interval("rush").level == 0.95


def test_a_confidence_region_is_the_servers_ellipsoid() -> None:
    """The joint set of all or of named coefficients is the server's; before learning there is a reason."""
    model = learnt(regressor(epsilon=8.0), trips(3000))
    estimate = model._server.estimate(0.9)
    assert model.confidence_region(level=0.9).as_dict() == estimate.ellipsoid().as_dict()
    pair = model.confidence_region(["rush", "night"])
    assert pair.names == ("rush", "night")
    assert pair.level == 0.95
    assert pair.contains(model.coefficients)
    with pytest.raises(NoConfidenceSet, match="too early"):
        regressor().confidence_region()
    with pytest.raises(InvalidInput, match="unknown coefficient 'tip'"):
        model.confidence_region(["tip"])


def test_units_only_change_units() -> None:
    """The same records in other units give the same study, coefficients and predictions converted."""
    rows = trips(500)
    in_hours = regressor(target=(0.0, 4.8 / 60), features={**FEATURES, "log_miles": (-24, 35)})
    model = learnt(regressor(), rows)
    learnt(in_hours, (({**x, "log_miles": 10 * x["log_miles"]}, y / 60) for x, y in rows))
    one, other = model.coefficients, in_hours.coefficients
    assert other["intercept"] == pytest.approx(one["intercept"] / 60, rel=1e-9)
    assert other["log_miles"] == pytest.approx(one["log_miles"] / 600, rel=1e-9)
    a, b = model.confidence_interval("log_miles"), in_hours.confidence_interval("log_miles")
    assert b.width == pytest.approx(a.width / 600, rel=1e-9)


def test_before_learning() -> None:
    """Nothing is NaN before the first record: the middle of the range, coefficients 0, infinite intervals."""
    model = regressor()
    x = trips(1)[0][0]
    assert model.predict_one(x) == 2.4
    assert model.predict_one({}) == 2.4
    assert model.predict_many(pd.DataFrame([x])).tolist() == [2.4]
    assert model.coefficients == {"intercept": 2.4, "log_miles": 0, "rush": 0, "night": 0, "airport": 0}
    interval = model.predict_one(x, with_interval=True)
    assert (interval.lower, interval.upper) == (-math.inf, math.inf)
    assert not model.confidence_interval("rush").bounded
    assert model.n_reports == 0


@pytest.mark.parametrize(
    ("x", "same"),
    [
        ({}, {"log_miles": 0.55, "rush": 0, "night": 0, "airport": 0}),
        ({"log_miles": 1.0}, {"log_miles": 1.0, "rush": 0, "night": 0, "airport": 0}),
        ({"log_miles": 99, "rush": -3}, {"log_miles": 3.5, "rush": 0, "night": 0, "airport": 0}),
        ({"log_miles": math.nan, "rush": "yes", "night": None}, {"log_miles": 0.55}),
        ({"driver": 7, 3: 4, "rush": True}, {"rush": 1}),
    ],
)
def test_missing_and_unknown_features(x: dict[Any, Any], same: dict[Any, Any]) -> None:
    """A missing feature counts as its centre, one out of range is clipped, an unknown one is ignored."""
    model = learnt(regressor(), trips(300))
    assert model.predict_one(x) == pytest.approx(model.predict_one(same), rel=1e-14)
    one, other = copy.deepcopy(model), copy.deepcopy(model)
    learnt(one, [(x, 2.0)] * 40)
    learnt(other, [(same, 2.0)] * 40)
    assert says(one) == pytest.approx(says(other), rel=1e-12)


@pytest.mark.parametrize("y", [None, math.nan, "fast", 1e300, -math.inf, np.float32(2.0), True])
def test_any_target_is_learnt(y: Any) -> None:
    """Whatever the target holds, a record is learnt and every answer stays a number."""
    model = regressor(epsilon=None, channel="none")
    learnt(model, [(x, y) for x, _ in trips(150)])
    assert model.n_reports == 150
    assert all(math.isfinite(value) for value in says(model))
    assert model.coefficients["rush"] in model.confidence_interval("rush")


def test_a_missing_target_is_the_middle() -> None:
    """A missing target counts as the middle of its range."""
    rows = trips(100)
    missing = learnt(regressor(), [(x, None) for x, _ in rows])
    assert state(missing) == state(learnt(regressor(), [(x, 2.4) for x, _ in rows]))


def test_the_record_is_not_kept_or_changed() -> None:
    """Learning changes no record, and a mutated record does not reach the model."""
    rows = trips(50)
    model = regressor()
    for x, y in rows:
        given = dict(x)
        model.learn_one(given, y)
        assert given == x
        given.clear()
    assert state(model) == state(learnt(regressor(), rows))


# ---------------------------------------------------------------------- parameters

BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "epsilon": ({"epsilon": -1.0}, ["epsilon = -1.0"]),
    "no epsilon": ({"epsilon": None}, ["epsilon: missing"]),
    "epsilon with none": ({"channel": "none"}, ["epsilon = 2.0"]),
    "tau": ({"tau": 1.0}, ["tau = 1.0"]),
    "many": ({"tau": 2, "epsilon": 0, "radius": -1}, ["tau = 2", "epsilon = 0", "radius = -1"]),
    "channel": ({"channel": "gauss"}, ["channel"]),
    "channel's keys": ({"channel": {"kind": "cqx", "r": 3}}, ["channel.r: unknown key"]),
    "s": ({"channel": {"kind": "cqx", "s": 9}}, ["channel", "s = 9: must be a whole number from 1 to 5"]),
    "inference": ({"inference": "bootstrap"}, ["inference: Input tag 'bootstrap'"]),
    "bounds": ({"features": {"a": (1, 0)}}, ["features.a", "lower = 1"]),
    "centre": ({"features": {"a": (0, 1, 2)}}, ["features.a", "centre = 2"]),
    "one bound": ({"features": {"a": (1,)}}, ["features['a'] = (1,): must be (lower, upper)"]),
    "a number": (
        {"features": {"a": 3, "b": (0, 1), "c": "xy"}},
        ["features['a'] = 3", "features['c'] = 'xy'"],
    ),
    "a list": ({"features": ["a"]}, ["features = ['a']"]),
    "a reserved name": ({"features": {"intercept": (0, 1)}}, ["features", "intercept"]),
    "target": ({"target": (5, 5)}, ["target", "lower = 5"]),
    "target's shape": (
        {"target": (1, 2, 3), "features": {"a": 1}},
        ["target = (1, 2, 3)", "features['a'] = 1"],
    ),
    "target's kind": ({"target": 3}, ["target = 3: must be (lower, upper)"]),
    "name": ({"name": "a b"}, ["name = 'a b'"]),
    "steps": ({"steps": {"gain": 0}}, ["steps.gain = 0"]),
    "burn-in": ({"burn_in": 1}, ["burn_in = 1"]),
    "rounds": ({"rounds": {"stability": 5}}, ["rounds.stability = 5"]),
}


@pytest.mark.parametrize(("changes", "messages"), BAD.values(), ids=BAD)
def test_bad_parameters_are_refused_in_one_message(changes: dict[str, Any], messages: list[str]) -> None:
    """Parameters that make no campaign are all named, with their values, at the first use of the model."""
    model = regressor(**changes)
    uses: list[Callable[[], object]] = [
        lambda: model.campaign,
        lambda: model.learn_one({}, 1.0),
        lambda: model.predict_one({}),
    ]
    for use in uses:
        with pytest.raises(InvalidCampaign) as caught:
            use()
        assert all(message in str(caught.value) for message in messages), str(caught.value)
        assert "\n" not in str(caught.value)


def test_parameters_keep_their_names_and_values() -> None:
    """Parameters are attributes, unchanged, so that river can show and clone a model."""
    given = {
        "features": {"a": (0, 1), "b": (0, 2, 1)},
        "target": (0, 9),
        "tau": 0.2,
        "epsilon": 3,
        "channel": {"kind": "cqx", "q": 4},
        "inference": "sn",
        "steps": {"gain": 2},
        "radius": 4,
        "burn_in": 0.3,
        "rounds": {"stability": 0.1},
        "name": "x",
        "seed": 8,
    }
    model = PrivateQuantileRegressor(**given)  # type: ignore[arg-type]
    assert {name: getattr(model, name) for name in given} == given
    assert model._get_params() == given


@pytest.mark.parametrize("of", ["weight", {"weight": 1.0}, {"rush": math.nan}])
def test_an_interval_of_nothing_known_is_refused(of: Any) -> None:
    """Unknown names, weights that are no numbers and levels that are none are refused by name."""
    model = learnt(regressor(), trips(5))
    with pytest.raises(InvalidInput, match="contrast"):
        model.confidence_interval(of)
    with pytest.raises(InvalidInput, match="level"):
        model.confidence_interval("rush", level=1.5)
