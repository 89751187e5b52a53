"""The campaign: what it refuses and how it says so, its digest, its frozenness, and what it is read from."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
import random
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ldp_stream.campaign import Campaign
from ldp_stream.campaign_parts import CQXChannel, Feature, HiGrad, NoChannel, Target
from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.no_privacy import NoPrivacy
from ldp_stream.errors import InvalidCampaign, InvalidInput, LdpStreamError
from ldp_stream.plan import StepRule, Window
from ldp_stream.privacy import PrivacyBudget
from ldp_stream.tree import ChainTree

TOML = """
kind = "quantile"
name = "trips-2019"
tau = 0.5
epsilon = 2.0
target = { lower = 0.0, upper = 4.8 }
channel = { kind = "cqx", q = 2, s = 1 }
inference = { kind = "sn" }
[features]
log_miles = { lower = -2.4, upper = 3.5 }
rush = { lower = 0, upper = 1, centre = 0 }
"""
BASE: dict[str, Any] = {
    "kind": "quantile",
    "name": "trips-2019",
    "tau": 0.5,
    "epsilon": 2.0,
    "target": {"lower": 0.0, "upper": 4.8},
    "features": {
        "log_miles": {"lower": -2.4, "upper": 3.5},
        "rush": {"lower": 0, "upper": 1, "centre": 0},
    },
}
DEFAULTS: dict[str, Any] = {
    "channel": {"kind": "cqx", "q": 2, "s": 1},
    "inference": {"kind": "sn"},
    "steps": {"kind": "power", "gain": 3.0, "exponent": 0.75, "delay": 1000.0},
    "radius": 3.0,
    "burn_in": 0.1,
    "rounds": {"stability": 0.3, "curvature": 10.0},
    "partitions": 1,
}


def _campaign(**changes: Any) -> Campaign:
    return Campaign.model_validate({**BASE, **changes})


def _refusal(**changes: Any) -> str:
    """Return the message with which the changed campaign is refused."""
    with pytest.raises(InvalidCampaign) as caught:
        _campaign(**changes)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---------------------------------------------------------------------- the digest


def test_the_digest_of_an_example_is_pinned() -> None:
    """This contract is what it was: another default or spelling would change every digest."""
    campaign = _campaign()
    assert campaign.canonical == (
        '{"burn_in":0.1,"channel":{"kind":"cqx","q":2,"s":1},"epsilon":2.0,"features":{"log_miles":{"centre":'
        '0.55,"lower":-2.4,"upper":3.5},"rush":{"centre":0.0,"lower":0.0,"upper":1.0}},"inference":{"kind":"sn"},'
        '"kind":"quantile","name":"trips-2019","partitions":1,"radius":3.0,"rounds":{"curvature":10.0,"stability":'
        '0.3},"steps":{"delay":1000.0,"exponent":0.75,"gain":3.0,"kind":"power"},"target":{"lower":0.0,"upper":4.8},'
        '"tau":0.5}'
    )
    assert campaign.digest == "4066c0534d89b30ae7cb5779e3df9c35da1f75736d499728f5c7649e952e680d"
    assert campaign.digest == hashlib.sha256(campaign.canonical.encode()).hexdigest()
    assert campaign.digest_prefix == campaign.digest[:16]


def test_defaults_written_out_are_the_same_campaign() -> None:
    """Every field left out means its default, and saying it changes nothing."""
    assert _campaign(**DEFAULTS) == _campaign()
    assert _campaign(**DEFAULTS).digest == _campaign().digest
    for key in ("channel", "inference", "steps", "rounds"):
        parts = DEFAULTS[key]
        for part in parts:
            if part != "kind":
                partial = {name: value for name, value in parts.items() if name in ("kind", part)}
                assert _campaign(**{key: partial}) == _campaign()


def test_a_midpoint_written_out_is_the_same_campaign() -> None:
    """A centre that is the midpoint says what no centre says; another one is another campaign."""
    features = {**BASE["features"], "log_miles": {"lower": -2.4, "upper": 3.5, "centre": 0.55}}
    assert _campaign(features=features) == _campaign()
    features["log_miles"]["centre"] = 0.5
    assert _campaign(features=features) != _campaign()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "trips-2020"},
        {"tau": 0.5000000000000001},
        {"epsilon": 2.0000000000000004},
        {"target": {"lower": 0.0, "upper": 4.9}},
        {"features": {"log_miles": BASE["features"]["log_miles"]}},
        {"channel": {"kind": "cqx", "q": 3}},
        {"channel": {"kind": "cqx", "s": 2}},
        {"channel": {"kind": "none"}, "epsilon": None},
        {"steps": {"gain": 2.0}},
        {"steps": {"exponent": 0.7}},
        {"steps": {"delay": 0}},
        {"radius": 4},
        {"burn_in": 0},
        {"rounds": {"stability": 0}},
        {"rounds": {"curvature": 9}},
        {"partitions": 2},
    ],
)
def test_every_field_counts_in_the_digest(change: dict[str, Any]) -> None:
    """A campaign that differs in one field, even in the last bit of a number, has another digest."""
    assert _campaign(**change).digest != _campaign().digest
    assert _campaign(**change) != _campaign()


def test_zero_has_one_sign() -> None:
    """-0.0 and 0 spell the same number."""
    signed = _campaign(target={"lower": -0.0, "upper": 4.8}, burn_in=-0.0, steps={"delay": -0.0})
    assert signed.digest == _campaign(target={"lower": 0, "upper": 4.8}, burn_in=0, steps={"delay": 0}).digest


numbers = st.integers(-50, 50) | st.floats(-1e6, 1e6)


@st.composite
def _definitions(draw: st.DrawFn) -> dict[str, Any]:
    """Return a campaign's definition with whole numbers as ints."""

    def interval(centred: bool) -> dict[str, float]:
        lower = draw(numbers)
        upper = lower + draw(st.integers(1, 50) | st.floats(0.001, 1e6))
        found = {"lower": lower, "upper": upper}
        if centred and draw(st.booleans()):
            found["centre"] = draw(st.sampled_from([lower, upper]))
        return found

    names = st.text(st.characters(codec="utf-8", exclude_characters="\x7f"), min_size=1, max_size=8)
    features = draw(st.lists(names.filter(lambda name: name != "intercept"), max_size=4, unique=True))
    definition = {
        "kind": "quantile",
        "name": draw(st.from_regex(r"\A[A-Za-z0-9_-]{1,80}\Z")),
        "tau": draw(st.floats(0.001, 0.999)),
        "epsilon": draw(st.integers(1, 8) | st.floats(0.01, 20)),
        "target": interval(centred=False),
        "features": {name: interval(centred=True) for name in features},
    }
    extras = {
        "channel": {
            "kind": "cqx",
            "q": draw(st.integers(2, 5)),
            "s": draw(st.integers(1, len(features) + 1)),
        },
        "radius": draw(st.integers(1, 9)),
        "burn_in": draw(st.sampled_from([0, 0.25])),
        "rounds": {"stability": draw(st.sampled_from([0, 1])), "curvature": 4},
        "steps": {"kind": "power", "gain": 2, "delay": 100},
        "partitions": draw(st.integers(1, 64)),
        "inference": {"kind": "sn"},
    }
    return definition | {key: value for key, value in extras.items() if draw(st.booleans())}


def _respelled(value: Any, shuffle: random.Random) -> Any:
    """Return the same content with keys in another order and whole numbers as ints or floats."""
    if isinstance(value, Mapping):
        items = [(key, _respelled(part, shuffle)) for key, part in value.items()]
        shuffle.shuffle(items)
        return dict(items)
    if isinstance(value, int):
        return shuffle.choice([value, float(value)])
    if isinstance(value, float) and value == int(value):
        return shuffle.choice([value, int(value)])
    return value


def _toml(value: Any) -> str:
    """Return a value in TOML's inline spelling."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_quoted(key)} = {_toml(part)}" for key, part in value.items()) + " }"
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(character):08X}" for character in text) + '"'


@given(_definitions(), st.randoms(use_true_random=False))
def test_the_digest_does_not_depend_on_the_spelling(
    definition: dict[str, Any], shuffle: random.Random
) -> None:
    """Key order, 1 or 1.0, TOML or JSON, dict or canonical text: one content, one digest."""
    campaign = Campaign.model_validate(definition)
    other = _respelled(definition, shuffle)
    assert Campaign.model_validate(other).digest == campaign.digest
    assert Campaign.model_validate(json.loads(json.dumps(other))).digest == campaign.digest
    assert Campaign.model_validate(json.loads(campaign.canonical)).digest == campaign.digest
    assert Campaign.model_validate_json(json.dumps(other)).digest == campaign.digest
    assert Campaign.model_validate(campaign.model_dump()).digest == campaign.digest
    assert Campaign.model_validate_json(campaign.model_dump_json()).digest == campaign.digest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all generated files."""
    return tmp_path_factory.mktemp("campaigns")


@settings(max_examples=50)
@given(definition=_definitions(), shuffle=st.randoms(use_true_random=False))
def test_files_of_both_kinds_have_the_same_digest(
    folder: Path, definition: dict[str, Any], shuffle: random.Random
) -> None:
    """The content written as TOML and as JSON loads as the same campaign."""
    (folder / "c.toml").write_text(
        "\n".join(f"{key} = {_toml(value)}" for key, value in _respelled(definition, shuffle).items()),
        encoding="utf-8",
    )
    (folder / "c.JSON").write_text(json.dumps(_respelled(definition, shuffle)), encoding="utf-8")
    first, second = Campaign.load(folder / "c.toml"), Campaign.load(str(folder / "c.JSON"))
    assert first.digest == second.digest == Campaign.model_validate(definition).digest


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({"kind": "mean"}, ["kind = 'mean'"]),
        ({"kind": None}, ["kind = None"]),
        ({"name": ""}, ["name = ''"]),
        ({"name": "a" * 81}, ["name = 'aaa"]),
        ({"name": "trips 2019"}, ["name = 'trips 2019'"]),
        ({"name": "trips\n"}, ["name = 'trips\\n'"]),
        ({"name": "trips/2019"}, ["name = "]),
        ({"name": "tríps"}, ["name = "]),
        ({"name": 7}, ["name = 7"]),
        ({"tau": 0}, ["tau = 0: Input should be greater than 0"]),
        ({"tau": 1}, ["tau = 1: Input should be less than 1"]),
        ({"tau": -0.5}, ["tau = -0.5"]),
        ({"tau": math.nan}, ["tau = nan"]),
        ({"tau": "0.5"}, ["tau = '0.5': must be a number"]),
        ({"tau": True}, ["tau = True: must be a number"]),
        ({"tau": None}, ["tau = None"]),
        ({"tau": [0.5]}, ["tau: Tuple should have at least 2 items"]),
        ({"epsilon": 0}, ["epsilon = 0: Input should be greater than 0"]),
        ({"epsilon": -1}, ["epsilon = -1"]),
        ({"epsilon": math.inf}, ["epsilon = inf: Input should be a finite number"]),
        ({"epsilon": math.nan}, ["epsilon = nan"]),
        ({"epsilon": None}, ["epsilon: missing"]),
        ({"epsilon": "2"}, ["epsilon = '2'"]),
        ({"epsilon": False}, ["epsilon = False"]),
        ({"epsilon": 10**5000}, ["epsilon = (a number of thousands of digits)"]),
        ({"epsilon": 1e-20}, ["channel: epsilon = 1e-20: too small for the integer sampler"]),
        (
            {"epsilon": 1e-15, "channel": {"kind": "cqx", "q": 256, "s": 2}},
            ["channel: epsilon = 1e-15: too small"],
        ),
        ({"target": {"lower": 1, "upper": 1}}, ["target: lower = 1.0 must be below upper = 1.0"]),
        ({"target": {"lower": 2, "upper": 1}}, ["target: lower = 2.0 must be below upper = 1.0"]),
        ({"target": {"lower": 2}}, ["target.upper: missing"]),
        ({"target": {"lower": 0, "upper": 1, "centre": 0}}, ["target.centre: unknown key"]),
        ({"target": {"lower": 0, "upper": math.inf}}, ["target.upper = inf"]),
        ({"target": {"lower": math.nan, "upper": 1}}, ["target.lower = nan"]),
        ({"target": {"lower": 0, "upper": 1e-31}}, ["target: ", "at least 1e-30 wide"]),
        ({"target": {"lower": 0, "upper": 1e31}}, ["target: ", "inside [-1e30, 1e30]"]),
        ({"target": [0, 1]}, ["target: "]),
        ({"features": {"a": {"lower": 1, "upper": 0}}}, ["features.a: lower = 1.0 must be below"]),
        (
            {"features": {"a": {"lower": 0, "upper": 1, "centre": 1.5}}},
            ["features.a: centre = 1.5 must be in [lower, upper] = [0.0, 1.0]"],
        ),
        ({"features": {"a": {"lower": 0, "upper": 1, "center": 0}}}, ["features.a.center: unknown key"]),
        ({"features": {"a": {"lower": 0, "upper": 1, "centre": math.nan}}}, ["features.a.centre = nan"]),
        ({"features": {"a": {"lower": -1e31, "upper": 1}}}, ["features.a: ", "inside [-1e30, 1e30]"]),
        ({"features": {"none": {"lower": "0", "upper": 1}}}, ["features.none.lower = '0'"]),
        ({"features": {"cqx": {"lower": 1, "upper": 0}}}, ["features.cqx: lower"]),
        ({"features": {"a\nb": {"lower": 1, "upper": 0}}}, [r"features.'a\nb': lower"]),
        ({"features": {"intercept": {"lower": 0, "upper": 1}}}, ["features: 'intercept' cannot be"]),
        ({"features": {"": {"lower": 0, "upper": 1}}}, ["features: '' cannot be a feature's name"]),
        ({"features": {3: {"lower": 0, "upper": 1}}}, ["features.3"]),
        ({"features": [["a", 0, 1]]}, ["features: "]),
        ({"features": None}, ["features = None"]),
        ({"channel": {"kind": "cqx", "q": 1}}, ["channel.q = 1: Input should be greater than or equal to 2"]),
        ({"channel": {"kind": "cqx", "q": 2.5}}, ["channel.q = 2.5"]),
        ({"channel": {"kind": "cqx", "q": True}}, ["channel.q = True"]),
        ({"channel": {"kind": "cqx", "q": 1 << 17}}, ["channel.q = 131072"]),
        ({"channel": {"kind": "cqx", "q": 10**5000}}, ["channel.q = (a number of thousands of digits)"]),
        ({"channel": {"kind": "cqx", "s": 0}}, ["channel.s = 0"]),
        ({"channel": {"kind": "cqx", "s": 4}}, ["channel: s = 4: must be a whole number from 1 to 3"]),
        ({"channel": {"kind": "cqx", "s": 10**30}}, ["channel: s = 1", "must be a whole number from 1 to 3"]),
        ({"channel": {"kind": "cqx", "s": 10**5000}}, ["channel: "]),
        ({"channel": {"kind": "cqx", "q": 1, "s": 4}}, ["channel.q = 1", "channel.s = 4: must be a whole"]),
        ({"channel": {"kind": "cqx", "q": 300, "s": 2}}, ["channel: q = 300, s = 2: more than 2^16"]),
        ({"channel": {"kind": "cqx", "p": 4}}, ["channel.p: unknown key"]),
        ({"channel": {"kind": "gauss"}}, ["channel: Input tag 'gauss'"]),
        ({"channel": {"q": 2}}, ["channel: "]),
        ({"channel": "cqx"}, ["channel"]),
        ({"channel": {"kind": "none"}}, ['epsilon = 2.0: must be absent with channel "none"']),
        ({"channel": {"kind": "none", "q": 2}}, ["channel.q: unknown key", "epsilon = 2.0: must be absent"]),
        ({"inference": {"kind": "bootstrap"}}, ["inference: Input tag 'bootstrap'"]),
        ({"inference": {"kind": "dc"}}, ["inference.chains: missing"]),
        ({"inference": {"kind": "dc", "chains": 1}}, ["inference.chains = 1: Input should be greater"]),
        ({"inference": {"kind": "dc", "chains": 2000}}, ["inference.chains = 2000: Input should be less"]),
        ({"inference": {"kind": "sn", "chains": 2}}, ["inference.chains: unknown key"]),
        ({"inference": {"kind": "higrad"}}, ["inference: must have either segments or horizon"]),
        (
            {"inference": {"kind": "higrad", "segments": [1, 2, 3], "horizon": 9}},
            ["inference: must have either segments or horizon"],
        ),
        (
            {"inference": {"kind": "higrad", "segments": [1, 2, 3], "ratio": 2}},
            ["inference: ratio goes with horizon, not with segments"],
        ),
        ({"inference": {"kind": "higrad", "segments": [5, 6]}}, ["must have one more entry than branching"]),
        ({"inference": {"kind": "higrad", "segments": [5, 0, 6]}}, ["inference.segments.1 = 0: "]),
        (
            {"inference": {"kind": "higrad", "branching": [64, 64], "horizon": 10**6}},
            ["branching = [64, 64]: must have at most 1024 leaves"],
        ),
        ({"tau": [0.5, 0.2]}, ["tau: [0.5, 0.2] must increase"]),
        ({"tau": [0.2, 1.0]}, ["tau.1 = 1.0: Input should be less than 1"]),
        ({"steps": {"exponent": 0.5}}, ["steps.exponent = 0.5"]),
        ({"steps": {"exponent": 1}}, ["steps.exponent = 1"]),
        ({"steps": {"gain": 0}}, ["steps.gain = 0"]),
        ({"steps": {"gain": 1e-320}}, ["steps.gain = 1e-320"]),
        ({"steps": {"delay": -1}}, ["steps.delay = -1"]),
        ({"steps": {"delay": 1e300}}, ["steps.delay = 1e+300"]),
        ({"steps": {"kind": "constant"}}, ["steps.kind = 'constant'"]),
        ({"radius": 0}, ["radius = 0"]),
        ({"radius": -3}, ["radius = -3"]),
        ({"radius": math.inf}, ["radius = inf"]),
        ({"burn_in": 1}, ["burn_in = 1"]),
        ({"burn_in": -0.1}, ["burn_in = -0.1"]),
        ({"rounds": {"stability": 2}}, ["rounds.stability = 2"]),
        ({"rounds": {"stability": -1}}, ["rounds.stability = -1"]),
        ({"rounds": {"curvature": 0}}, ["rounds.curvature = 0"]),
        ({"rounds": {"curvature": 1e-320}}, ["rounds.curvature = 1e-320"]),
        ({"partitions": 0}, ["partitions = 0"]),
        ({"partitions": 1.5}, ["partitions = 1.5"]),
        ({"partitions": 70000}, ["partitions = 70000"]),
        ({"level": 0.95}, ["level: unknown key"]),
        ({"privacy\n": 1}, [r"'privacy\n': unknown key"]),
    ],
)
def test_nonsense_is_refused_by_name(changes: dict[str, Any], messages: list[str]) -> None:
    """One line says which field, its value, and what is allowed."""
    found = _refusal(**changes)
    for message in messages:
        assert message in found


def test_every_bad_field_is_named_at_once() -> None:
    """One refusal lists all of them, each once."""
    message = _refusal(
        kind="mean",
        name="no spaces please",
        tau=1.5,
        epsilon=-2,
        target={"lower": 5, "upper": 0},
        features={
            "a": {"lower": 0, "upper": 1, "centre": 2},
            "b": {"lower": 1, "upper": 1},
            "c": {"lower": 0},
        },
        channel={"kind": "cqx", "q": 1, "s": 0},
        inference={"kind": "magic"},
        steps={"gain": -1, "exponent": 2, "delay": -1},
        radius=0,
        burn_in=1,
        rounds={"stability": 5, "curvature": -1},
        partitions=0,
        colour="blue",
    )
    fields = [problem.replace(" ", ":").split(":")[0] for problem in message.split("; ")]
    assert set(fields) == {
        *("kind", "name", "tau", "epsilon", "target", "features.a", "features.b", "features.c.upper"),
        *(
            "channel.q",
            "channel.s",
            "inference",
            "steps.gain",
            "steps.exponent",
            "steps.delay",
            "radius",
        ),
        *("burn_in", "rounds.stability", "rounds.curvature", "partitions", "colour"),
    }
    assert len(fields) == len(set(fields))


def test_what_is_wrong_between_fields_is_named_with_the_rest() -> None:
    """A block too large for the features is found even where tau and epsilon are wrong as well."""
    message = _refusal(tau=7, epsilon=0, channel={"kind": "cqx", "s": 9})
    for part in ("tau = 7", "epsilon = 0", "channel: s = 9: must be a whole number from 1 to 3"):
        assert part in message


def test_missing_fields_are_named() -> None:
    """An empty definition lists what it lacks."""
    with pytest.raises(InvalidCampaign) as caught:
        Campaign.model_validate({})
    for field in ("kind", "name", "tau", "target", "features", "epsilon"):
        assert f"{field}: missing" in str(caught.value)


@pytest.mark.parametrize("value", [None, 5, "campaign", [], [("kind", "quantile")]])
def test_what_is_no_mapping_is_refused(value: object) -> None:
    """Anything but a mapping or a campaign is refused with the same error."""
    with pytest.raises(InvalidCampaign, match="campaign"):
        Campaign.model_validate(value)


def test_a_refusal_is_one_of_the_packages_errors() -> None:
    """``except LdpStreamError`` catches it, also from the constructor with keywords."""
    with pytest.raises(LdpStreamError, match="tau = 2"):
        Campaign(**{**BASE, "tau": 2})


def test_a_long_value_is_cut_in_the_message() -> None:
    """A refused value of a megabyte does not make a message of a megabyte."""
    assert len(_refusal(name="x" * 1_000_000)) < 300


def test_only_the_fields_of_the_numbers_kind_are_read() -> None:
    """Numbers of other libraries' kinds are read as the numbers they are."""
    assert _campaign(tau=Fraction(1, 2), epsilon=Decimal(2)) == _campaign()


# ---------------------------------------------------------------------- channel "none"


def test_the_reference_channel_needs_no_epsilon() -> None:
    """It is not private, has no budget, and says so; epsilon null and absent are the same."""
    definition = {key: value for key, value in BASE.items() if key != "epsilon"}
    campaign = Campaign.model_validate({**definition, "channel": {"kind": "none"}})
    assert not campaign.private
    assert campaign.epsilon is None
    assert isinstance(campaign.levels[0].mechanism, NoPrivacy)
    assert campaign == _campaign(channel={"kind": "none"}, epsilon=None)
    assert "epsilon" not in campaign.canonical
    with pytest.raises(InvalidInput, match="no finite privacy budget"):
        _ = campaign.budget


def test_a_private_campaign_knows_its_budget_and_channel() -> None:
    """The parts that device and server use are built from the fields."""
    campaign = _campaign(channel={"kind": "cqx", "q": 3, "s": 2}, tau=0.9)
    assert campaign.private
    assert campaign.budget == PrivacyBudget(2.0)
    centre = (3.5 - 0.55) / (3.5 - 0.55)
    assert campaign.levels[0].mechanism == CQX(2.0, 0.9, ((-centre, centre), (0.0, 1.0)), 3, 2)
    assert campaign.levels[0].steps == StepRule(3.0, 0.75, 1000.0, campaign.levels[0].mechanism.second_moment)
    assert campaign.scale.names == ("intercept", "log_miles", "rush")


def test_features_are_in_alphabetical_order() -> None:
    """The order of coordinates does not depend on the order in the file."""
    features = {name: {"lower": 0, "upper": 1} for name in ("b", "a", "C", "aa")}
    assert list(_campaign(features=features).features) == ["C", "a", "aa", "b"]
    assert _campaign(features=features).scale.names == ("intercept", "C", "a", "aa", "b")


def test_a_campaign_without_features_has_an_intercept() -> None:
    """Without features the campaign asks for the quantile itself."""
    campaign = _campaign(features={})
    assert campaign.levels[0].mechanism.p == 1
    assert campaign.scale.names == ("intercept",)


def test_routes_are_public_arithmetic() -> None:
    """The partition is the token modulo P; with one chain, every token belongs to chain 0."""
    campaign = _campaign(partitions=7)
    for token in (0, 6, 7, 2**128 - 1):
        assert campaign.route(token) == (token % 7, 0)
    assert _campaign().route(2**127 + 5) == (0, 0)


@given(
    st.sampled_from([1e-9, 1e-3, 3.0, 1e9]),
    st.sampled_from([0.500001, 0.75, 0.999999]),
    st.sampled_from([0.0, 1000.0, 1e9]),
    st.sampled_from([1e-9, 10.0, 1e9]),
    st.sampled_from([0.0, 1e-300, 0.3, 1.999]),
    st.sampled_from([1e-16, 1.0, 50.0]),
    st.sampled_from([1e-9, 0.5, 1 - 1e-9]),
)
def test_every_campaign_that_is_accepted_has_a_plan(
    gain: float, exponent: float, delay: float, curvature: float, stability: float, epsilon: float, tau: float
) -> None:
    """At the extremes of all tuning values, steps are positive and finite and rounds have a length."""
    campaign = _campaign(
        steps={"gain": gain, "exponent": exponent, "delay": delay},
        rounds={"curvature": curvature, "stability": stability},
        epsilon=epsilon,
        tau=tau,
    )
    for n in (0, 1000, 10**12):
        assert 0 < campaign.levels[0].steps.at(n + 1) < math.inf
        assert campaign.round_schedule.length(n) >= 1


@pytest.mark.parametrize("bounds", [(-1e30, 1e30), (0.0, 1e-30), (1e30 - 1e15, 1e30), (-1e-30, 0.0)])
def test_coefficients_are_finite_at_the_widest_and_narrowest_bounds(bounds: tuple[float, float]) -> None:
    """No unit that is accepted overflows, with coefficients at the largest radius."""
    wide = {"lower": bounds[0], "upper": bounds[1]}
    for target, feature in ((wide, wide), ({"lower": -1e30, "upper": 1e30}, wide)):
        campaign = _campaign(
            target=target, features={"a": feature, "b": {"lower": -1e30, "upper": 1}}, radius=1e9
        )
        found = campaign.scale.coefficients([1e9, 1e9, -1e9])
        assert all(map(math.isfinite, found.values()))
        constant, weights = campaign.scale.contrast({"intercept": 1, "a": 1})
        assert math.isfinite(constant + sum(weight * weight for weight in weights))


# ---------------------------------------------------------------------- a frozen value


def test_a_campaign_cannot_be_changed() -> None:
    """Neither fields nor parts nor the mapping of features can be assigned to, and the source stays apart."""
    features = {"a": {"lower": 0, "upper": 1}}
    campaign = _campaign(features=features)
    digest = campaign.digest
    features["b"] = {"lower": 0, "upper": 9}
    for target, name, value in (
        (campaign, "tau", 0.9),
        (campaign, "epsilon", 8.0),
        (campaign.channel, "q", 9),
        (campaign.features["a"], "upper", 5.0),
        (campaign.target, "lower", -1.0),
        (campaign.rounds, "stability", 0.0),
    ):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(target, name, value)
    with pytest.raises(TypeError):
        campaign.features["b"] = campaign.features["a"]  # type: ignore[index]
    with pytest.raises(ValidationError, match="frozen"):
        del campaign.tau
    assert campaign.digest == hashlib.sha256(campaign.canonical.encode()).hexdigest() == digest


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), lambda c: c.model_copy()]
)
def test_copies_are_equal(duplicate: Any) -> None:
    """Copies, deep copies, pickles and model copies have the original's digest, hash and parts."""
    for campaign in (_campaign(), _campaign(channel={"kind": "none"}, epsilon=None)):
        other = duplicate(campaign)
        assert other == campaign
        assert other.digest == campaign.digest
        assert hash(other) == hash(campaign)
        assert other.levels[0].mechanism == campaign.levels[0].mechanism
        assert {other: 1}[campaign] == 1
        assert type(other.features) is type(campaign.features)


def test_a_copy_with_changes_is_validated() -> None:
    """``model_copy(update=...)`` gives the changed campaign, digest included, or refuses it."""
    other = _campaign().model_copy(update={"epsilon": 4, "tau": 0.9})
    assert other == _campaign(epsilon=4.0, tau=0.9)
    assert other.digest != _campaign().digest
    assert not _campaign().model_copy(update={"channel": {"kind": "none"}, "epsilon": None}).private
    with pytest.raises(InvalidCampaign, match="tau = 3"):
        _campaign().model_copy(update={"tau": 3})
    with pytest.raises(InvalidCampaign, match="colour: unknown key"):
        _campaign().model_copy(update={"colour": "blue"})


def test_a_campaign_is_made_from_parts() -> None:
    """Models in place of plain dicts mean the same."""
    campaign = Campaign(
        kind="quantile",
        name="trips-2019",
        tau=0.5,
        epsilon=2,
        target=Target(lower=0, upper=4.8),
        features={
            "rush": Feature(lower=0, upper=1, centre=0),
            "log_miles": Feature(lower=-2.4, upper=3.5),
        },
        channel=CQXChannel(),
    )
    assert campaign == _campaign()
    assert Campaign.model_validate(campaign) == campaign
    assert Campaign(**{**BASE, "channel": NoChannel(), "epsilon": None}).private is False
    assert campaign != BASE


# ---------------------------------------------------------------------- files


def test_the_toml_of_the_documentation_loads(tmp_path: Path) -> None:
    """The example file gives the example campaign."""
    path = tmp_path / "trips.toml"
    path.write_text(TOML, encoding="utf-8")
    assert Campaign.load(path) == Campaign.load(str(path)) == _campaign()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.toml", b'kind = "quantile\n', "line 1"),
        ("c.toml", b"tau = 0.5\ntau = 0.6\n", "Cannot overwrite"),
        ("c.toml", b'name = "\xff"', "utf-8"),
        ("c.toml", b"\xff\xfe", "utf-8"),
        ("c.toml", b"", "kind: missing"),
        ("c.toml", b"x = " + b"[" * 100_000, ""),
        ("c.toml", b"tau = 1979-05-27\n", "tau"),
        ("c.toml", b"tau = " + b"9" * 5000, ""),
        ("c.json", b"{", "line 1"),
        ("c.json", b'{"tau": 0.5, "tau": 0.6}', "'tau' appears twice"),
        (
            "c.json",
            b'{"features": {"a": {"lower": 0, "upper": 1}, "a": {"lower": 0, "upper": 2}}}',
            "'a' appears twice",
        ),
        ("c.json", b'{"tau": 0.5} {}', "Extra data"),
        ("c.json", b'"\xff"', "utf-8"),
        ("c.json", b"[1, 2]", "campaign"),
        ("c.json", b"null", "campaign"),
        ("c.json", b'{"tau": NaN, "epsilon": Infinity}', "tau = nan"),
        ("c.json", b'{"epsilon": 1e999}', "epsilon = inf"),
        ("c.json", b"[" * 100_000, ""),
        ("c.json", b'{"tau": ' + b"9" * 5000 + b"}", ""),
        ("c.json", json.dumps({**BASE, "tau": 3}).encode(), "tau = 3: "),
        ("c.json", json.dumps({**BASE, "features": {"\ud800\n": {"lower": 1}}}).encode(), "upper: missing"),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Syntax, duplicate keys, encoding and content: one InvalidCampaign that starts with the path."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidCampaign) as caught:
        Campaign.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert message in text
    assert "\n" not in text


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """No such file, a folder, an impossible name: the same error."""
    for path in (tmp_path / "absent.toml", tmp_path, tmp_path / "nul\0.json", tmp_path / ("x" * 5000)):
        with pytest.raises(InvalidCampaign, match=r"No such file|cannot be read|null"):
            Campaign.load(path)


# ---------------------------------------------------------------------- levels and trees of chains


def test_a_horizon_is_cut_into_segments() -> None:
    """n_0 : n_1 : n_2 = 1 : 2 : 4 with branching (2, 2) uses up the horizon of all partitions."""
    plan = HiGrad(horizon=105_000)
    assert plan.planned(1) == (5000, 10_000, 20_000)
    assert plan.planned(2) == (2500, 5000, 10_000)
    assert HiGrad(branching=(3,), horizon=100, ratio=1.0).planned(1) == (25, 25)
    assert HiGrad(horizon=1).planned(4) == (1, 1, 1)
    assert HiGrad(segments=(7, 8, 9)).planned(3) == (7, 8, 9)
    shared = _campaign(tau=[0.2, 0.8], partitions=5, inference={"kind": "higrad", "horizon": 1_050_000})
    assert shared.tree.segments == plan.planned(1)[:2]
    assert HiGrad(segments=(7, 8, 9)).tree(3) == ChainTree((2, 2), (7, 8))


def test_each_level_has_its_own_channel_and_steps() -> None:
    """A level's channel is that of a campaign which asks for it alone; chains are counted level by level."""
    several = _campaign(tau=[0.25, 0.5, 0.9], inference={"kind": "dc", "chains": 4})
    assert several.chains == 12
    for place, level in enumerate(several.levels):
        alone = _campaign(tau=level.tau).levels[0]
        assert (level.tau, level.mechanism, level.steps) == (alone.tau, alone.mechanism, alone.steps)
        assert {several.level_of(chain) for chain in range(4 * place, 4 * place + 4)} == {level}
    assert several.round_schedule.length(0) % 12 == 0
    text = several.canonical
    assert Campaign.model_validate_json(text) == several
    assert '"tau":[0.25,0.5,0.9]' in text


def test_the_average_leaves_out_the_beginning_of_each_path() -> None:
    """HiGrad leaves out a fraction of the planned path, or all before the start is forgotten."""
    long = _campaign(inference={"kind": "higrad", "segments": [50_000, 100_000, 200_000]}, epsilon=8.0)
    (level,) = long.levels
    assert level.settling < 35_000
    assert [long.window(level, depth) for depth in range(3)] == [Window(count=35_000), Window(), Window()]
    short = _campaign(inference={"kind": "higrad", "segments": [10, 20, 400]}, epsilon=8.0)
    rest = math.ceil(level.settling)
    assert [short.window(level, depth).count for depth in range(3)] == [rest, rest - 10, rest - 30]
    assert _campaign().window(level, 0) == Window(fraction=0.1)
