"""The device: one valid report of any record, spent once; the token alone says where it belongs."""

from __future__ import annotations

import hmac
import inspect
import math
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.campaign import Campaign
from ldp_stream.channels.base import CategoryPayload, VectorPayload
from ldp_stream.channels.cqx import CQX
from ldp_stream.client.entropy import SimulatedEntropy
from ldp_stream.client.ledger import Ledger
from ldp_stream.client.reporter import Reporter, contribution
from ldp_stream.codec import decode_report, encode_report, report_to_json
from ldp_stream.errors import (
    AlreadyReported,
    BudgetExceeded,
    CampaignMismatch,
    InvalidInput,
    LdpStreamError,
)
from ldp_stream.privacy import PrivacyBudget
from ldp_stream.reports import CategoryReport, ChainParameters, Parameters, VectorReport
from ldp_stream.server.aggregator import Aggregator

BASE: dict[str, Any] = {
    "kind": "quantile",
    "name": "trips",
    "tau": 0.9,
    "epsilon": 2.0,
    "target": {"lower": 0, "upper": 60},
    "features": {
        "miles": {"lower": 0, "upper": 30},
        "night": {"lower": 0, "upper": 1, "centre": 0},
        "temp": {"lower": -20, "upper": 40, "centre": 10},
    },
    "channel": {"kind": "cqx", "q": 3, "s": 2},
}


def _campaign(**changes: Any) -> Campaign:
    return Campaign.model_validate({**BASE, **changes})


CAMPAIGN = _campaign()
REFERENCE = _campaign(channel={"kind": "none"}, epsilon=None)


def _parameters(campaign: Campaign = CAMPAIGN, partition: int = 0, **changes: Any) -> Parameters:
    p = campaign.levels[0].mechanism.p
    chains = (ChainParameters(chain=0, beta=(0.1, 0.2, -0.3, 0.4, 0.5)[:p]),)
    fields = {"digest": campaign.digest_prefix, "partition": partition, "round": 5, "n": 70, "chains": chains}
    return Parameters(**{**fields, **changes})


RECORD = {"miles": 3.2, "night": 1, "temp": 12.5}


# ---------------------------------------------------------------------- the contribution


@given(st.lists(st.floats(-1, 1), max_size=4), st.floats(-2, 2), st.floats(0.01, 0.99), st.data())
def test_the_contribution_is_the_estimating_function(
    slopes: list[float], y: float, tau: float, data: st.DataObject
) -> None:
    """It is X (1{Y <= X'b} - tau), summed in the order of the coordinates."""
    row = [1.0, *slopes]
    b = data.draw(st.lists(st.floats(-3, 3), min_size=len(row), max_size=len(row)))
    fitted = 0.0
    for value, coefficient in zip(row, b, strict=True):
        fitted += value * coefficient
    face = float(y <= fitted) - tau
    assert contribution(row, y, b, tau) == [face * value for value in row]


@pytest.mark.parametrize(
    ("y", "expected"), [(0.49, 0.1), (0.5, 0.1), (0.51, -0.9), (-math.inf, 0.1), (math.inf, -0.9)]
)
def test_the_face_includes_equality(y: float, expected: float) -> None:
    """A target exactly at the fit is below it; infinite targets have a side."""
    assert contribution([1.0, 0.5], y, [0.25, 0.5], 0.9) == pytest.approx([expected, expected / 2])


@pytest.mark.parametrize("b", [[1e308, 1e308], [-1e308, 1e308], [1e308, -1e308]])
def test_huge_coefficients_still_give_a_contribution_of_the_support(b: list[float]) -> None:
    """An overflowing or undefined fit decides a face like any other."""
    for y in (0.0, 1e308, -1e308, math.inf):
        found = contribution([1.0, 1.0], y, b, 0.5)
        assert found in ([0.5, 0.5], [-0.5, -0.5])


# ---------------------------------------------------------------------- once, and only once


def test_a_device_reports_once_and_can_send_again(tmp_path: Path) -> None:
    """A second report is refused, also after reopening, while resend gives the same one, byte for byte."""
    path = tmp_path / "device.sqlite"
    device = Reporter(CAMPAIGN, ledger=path)
    assert device.resend() is None
    report = device.report(RECORD, 14.0, _parameters())
    assert not device.simulation
    for again in (device, Reporter(CAMPAIGN, ledger=str(path)), Reporter(CAMPAIGN, Ledger(path))):
        with pytest.raises(AlreadyReported):
            again.report({"miles": 30.0}, 59.0, _parameters())
        assert again.resend() == report
    assert encode_report(report) == Ledger(path).stored(bytes.fromhex(CAMPAIGN.digest))
    assert Ledger(path).spent == PrivacyBudget(2.0)


def test_another_campaign_is_another_report(tmp_path: Path) -> None:
    """Each digest has its own report, token and cost in the one ledger."""
    ledger = Ledger(tmp_path / "device.sqlite")
    other = _campaign(name="trips-2")
    first = Reporter(CAMPAIGN, ledger).report(RECORD, 14.0, _parameters())
    second = Reporter(other, ledger).report(RECORD, 14.0, _parameters(other))
    assert first.token != second.token
    assert (Reporter(CAMPAIGN, ledger).resend(), Reporter(other, ledger).resend()) == (first, second)
    assert ledger.spent == PrivacyBudget(4.0)


CHILD = """
import os, signal, sys
from ldp_stream.campaign import Campaign
from ldp_stream.client.reporter import Reporter
from ldp_stream.reports import ChainParameters, Parameters

campaign = Campaign.model_validate_json(sys.argv[2])
start = Parameters(digest=campaign.digest_prefix, partition=0, round=0, n=0,
                   chains=(ChainParameters(chain=0, beta=(0.0,) * campaign.levels[0].mechanism.p),))
report = Reporter(campaign, ledger=sys.argv[1]).report({"miles": 3.2}, 14.0, start)
print(report.model_dump_json(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_between_decision_and_send_spends_nothing_twice(tmp_path: Path) -> None:
    """A device killed right after it has made its report finds that report again, and makes no other."""
    path = tmp_path / "device.sqlite"
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), CAMPAIGN.canonical],
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -9, child.stderr
    device = Reporter(CAMPAIGN, ledger=path)
    with pytest.raises(AlreadyReported):
        device.report(RECORD, 14.0, _parameters())
    found = device.resend()
    assert found is not None
    assert found.model_dump_json() == child.stdout.strip()


def test_a_channel_that_fails_spends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If making the report breaks, nothing is stored and the device may try again."""
    path = tmp_path / "device.sqlite"
    device = Reporter(CAMPAIGN, ledger=path)

    def broken(*arguments: object) -> CategoryPayload:
        raise OSError(f"no entropy for {len(arguments)} arguments")

    with monkeypatch.context() as patch:
        patch.setattr(CQX, "privatize", broken)
        with pytest.raises(OSError, match="no entropy"):
            device.report(RECORD, 14.0, _parameters())
    assert device.resend() is None
    assert Ledger(path).spent == PrivacyBudget(0.0)
    device.report(RECORD, 14.0, _parameters())


# ---------------------------------------------------------------------- what a device refuses


def test_a_device_refuses_the_channel_that_is_not_private(tmp_path: Path) -> None:
    """Only a simulation sends contributions as they are; no ledger is made for it."""
    with pytest.raises(InvalidInput, match='channel = "none": not private'):
        Reporter(REFERENCE, ledger=tmp_path / "device.sqlite")
    assert not (tmp_path / "device.sqlite").exists()
    report = Reporter.simulated(REFERENCE, seed=1).report(RECORD, 14.0, _parameters(REFERENCE))
    assert isinstance(report, VectorReport)


@pytest.mark.parametrize("limits", [{"largest_epsilon": 1.9}, {"lifetime": PrivacyBudget(1.9)}])
def test_a_campaign_beyond_the_owners_budget_is_refused(tmp_path: Path, limits: dict[str, Any]) -> None:
    """BudgetExceeded, before anything is made or stored."""
    ledger = Ledger(tmp_path / "device.sqlite", **limits)
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon = 2\.0"):
        Reporter(CAMPAIGN, ledger).report(RECORD, 14.0, _parameters())
    assert ledger.spent == PrivacyBudget(0.0)
    assert Reporter(CAMPAIGN, ledger).resend() is None


def test_renaming_a_campaign_buys_no_more(tmp_path: Path) -> None:
    """With a lifetime of 5, two campaigns of 2 are answered and every further name is refused."""
    ledger = Ledger(tmp_path / "device.sqlite", lifetime=PrivacyBudget(5.0))
    answered = 0
    for number in range(6):
        campaign = _campaign(name=f"trips-{number}")
        try:
            Reporter(campaign, ledger).report(RECORD, 14.0, _parameters(campaign))
            answered += 1
        except BudgetExceeded:
            pass
    assert answered == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"digest": "0" * 16}, r"parameters.digest = '0000000000000000': must be"),
        ({"digest": _campaign(epsilon=2.5).digest_prefix}, "parameters.digest"),
        ({"partition": 1}, r"parameters.partition = 1: must be 0, by the token"),
        ({"partition": 65535}, "parameters.partition = 65535"),
        ({"chains": ()}, "must hold chain 0 with 4 coefficients"),
        ({"chains": (ChainParameters(chain=1, beta=(0.0,) * 4),)}, "must hold chain 0 with 4 coefficients"),
        ({"chains": (ChainParameters(chain=0, beta=(0.0,) * 3),)}, "must hold chain 0 with 4 coefficients"),
        ({"chains": (ChainParameters(chain=0, beta=(0.0,) * 5),)}, "must hold chain 0 with 4 coefficients"),
        ({"chains": (ChainParameters(chain=0, beta=()),)}, "must hold chain 0 with 4 coefficients"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_before_anything_is_spent(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Another campaign, partition, chain or width: CampaignMismatch, and the ledger stays empty."""
    ledger = Ledger(tmp_path / "device.sqlite")
    for reporter in (Reporter(CAMPAIGN, ledger), Reporter.simulated(CAMPAIGN, seed=1)):
        with pytest.raises(CampaignMismatch, match=message):
            reporter.report(RECORD, 14.0, _parameters(**changes))
    assert ledger.spent == PrivacyBudget(0.0)
    assert ledger.stored(bytes.fromhex(CAMPAIGN.digest)) is None


def test_a_device_in_another_partition_refuses_its_neighbours_parameters(tmp_path: Path) -> None:
    """The partition follows from the token: exactly one of P parameters messages is answered."""
    campaign = _campaign(partitions=5)
    ledger = Ledger(tmp_path / "device.sqlite")
    device = Reporter(campaign, ledger)
    own = int.from_bytes(hmac.digest(ledger.secret, bytes.fromhex(campaign.digest), "sha256")[:16]) % 5
    assert device.partition == own
    for other in set(range(5)) - {own}:
        with pytest.raises(CampaignMismatch, match=f"partition = {other}: must be {own}"):
            device.report(RECORD, 14.0, _parameters(campaign, other))
    device.report(RECORD, 14.0, _parameters(campaign, own))


# ---------------------------------------------------------------------- tokens


def test_the_token_is_the_hmac_of_the_digest(tmp_path: Path) -> None:
    """It is HMAC-SHA256(secret, digest) cut to 16 bytes, whatever the record."""
    ledger = Ledger(tmp_path / "device.sqlite")
    for campaign in (CAMPAIGN, _campaign(tau=0.5)):
        report = Reporter(campaign, ledger).report(RECORD, 14.0, _parameters(campaign))
        expected = hmac.new(ledger.secret, bytes.fromhex(campaign.digest), "sha256").digest()[:16]
        assert report.token == expected.hex()


def test_tokens_do_not_link_users_or_campaigns(tmp_path: Path) -> None:
    """Two devices, and one device in two campaigns, share no token, and secrets differ between devices."""
    ledgers = [Ledger(tmp_path / name) for name in ("a", "b")]
    campaigns = [CAMPAIGN, _campaign(name="trips-2")]
    tokens = [
        Reporter(campaign, ledger).report(RECORD, 14.0, _parameters(campaign)).token
        for ledger in ledgers
        for campaign in campaigns
    ]
    assert len(set(tokens)) == 4
    assert ledgers[0].secret != ledgers[1].secret


@given(st.integers(1, 1 << 16), st.integers(0, (1 << 16) - 1), st.integers(0, 2**53 - 1))
def test_simulated_tokens_land_in_the_partition_that_was_asked(
    partitions: int, asked: int, seed: int
) -> None:
    """A simulated user belongs to the parameters' partition: the report's token, modulo P, says so."""
    campaign = _campaign(partitions=partitions)
    partition = asked % partitions
    report = Reporter.simulated(campaign, seed=seed).report(RECORD, 14.0, _parameters(campaign, partition))
    assert campaign.route(int(report.token, 16)) == (partition, report.chain) == (partition, 0)


def test_simulated_users_are_different_users() -> None:
    """Every report of a simulation has its own token, and a simulation stores none."""
    devices = Reporter.simulated(CAMPAIGN, seed=3)
    tokens = {devices.report(RECORD, 14.0, _parameters()).token for _ in range(500)}
    assert len(tokens) == 500
    assert devices.simulation
    assert devices.partition is None
    with pytest.raises(InvalidInput, match="stores no report"):
        devices.resend()


@given(st.binary(min_size=16, max_size=16), st.integers(1, 1 << 16), st.integers(0, 2**53 - 1))
def test_a_simulation_reports_as_the_user_of_a_token(token: bytes, partitions: int, seed: int) -> None:
    """The report carries that token and the parameters' round, and what the channel makes of the record."""
    campaign = _campaign(partitions=partitions)
    partition, chain = campaign.route(int.from_bytes(token))
    parameters = _parameters(campaign, partition)
    devices = Reporter.simulated(campaign, seed=seed)
    report = devices.report_as(token, RECORD, 14.0, parameters)
    assert isinstance(report, CategoryReport)
    assert (report.token, report.chain, report.round) == (token.hex(), chain, parameters.round)
    payload = Reporter.simulated(campaign, seed=seed).privatize(RECORD, 14.0, parameters.chains[chain].beta)
    assert CategoryPayload(report.block, report.category) == payload


def test_a_token_answers_its_own_partition_only() -> None:
    """Parameters of another partition than the token's are refused."""
    devices = Reporter.simulated(campaign := _campaign(partitions=2), seed=3)
    with pytest.raises(CampaignMismatch, match=r"parameters\.partition = 0: must be 1, by the token"):
        devices.report_as(bytes(15) + b"\x01", RECORD, 14.0, _parameters(campaign, 0))


def test_a_device_stands_for_no_other_user(tmp_path: Path) -> None:
    """On a device report_as is refused, and nothing is spent."""
    device = Reporter(CAMPAIGN, ledger := Ledger(tmp_path / "device.sqlite"))
    with pytest.raises(InvalidInput, match=r"report_as: only Reporter\.simulated"):
        device.report_as(bytes(16), RECORD, 14.0, _parameters())
    assert device.resend() is None
    assert ledger.spent == PrivacyBudget(0.0)


# ---------------------------------------------------------------------- whatever the record holds


class _Angry:
    """Raises whatever is asked of it."""

    def __float__(self) -> float:
        raise RuntimeError("no")


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(
        [10**400, -(10**400), 10**4000, 1e308, -1e308, 5e-324, Decimal("sNaN"), Decimal("1e999")]
    )
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | st.builds(_Angry)
    | st.builds(object)
    | st.sampled_from(
        [np.float32("nan"), np.int8(3), np.array([1.0, 2.0]), np.datetime64("nat"), "\ud800", "nan", "1e5"]
    )
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
records = st.dictionaries(
    st.sampled_from(["miles", "night", "temp", "intercept", "fare"]) | st.text(), anything, max_size=6
)


@given(records, anything, st.integers(0, 1000))
def test_any_record_gives_one_valid_report(x: dict[str, Any], y: Any, seed: int) -> None:
    """No exception depends on the record: the report is in the channel's alphabet and survives the codec."""
    report = Reporter.simulated(CAMPAIGN, seed=seed).report(x, y, _parameters())
    assert isinstance(report, CategoryReport)
    assert report == CategoryReport.model_validate(report.model_dump())
    assert decode_report(encode_report(report)) == decode_report(report_to_json(report)) == report
    mechanism = CAMPAIGN.levels[0].mechanism
    assert isinstance(mechanism, CQX)
    assert report.block < mechanism.n_blocks
    assert report.category < mechanism.categories(report.block)
    assert (report.digest, report.round, report.chain) == (CAMPAIGN.digest_prefix, 5, 0)
    Aggregator(CAMPAIGN).ingest(report)


@given(records, anything)
def test_any_record_gives_a_contribution_of_the_support(x: dict[str, Any], y: Any) -> None:
    """Without privacy the payload shows it: (f - tau) and (f - tau) times a number of each interval."""
    report = Reporter.simulated(REFERENCE, seed=1).report(x, y, _parameters(REFERENCE))
    assert isinstance(report, VectorReport)
    assert report == VectorReport.model_validate(report.model_dump())
    face, *slopes = report.values
    assert face in (1.0 - 0.9, -0.9)
    for value, (lower, upper) in zip(slopes, REFERENCE.scale.intervals, strict=True):
        assert min(face * lower, face * upper) <= value <= max(face * lower, face * upper)


def test_a_device_answers_an_empty_record(tmp_path: Path) -> None:
    """With nothing known, and with nonsense, a real device sends its report and spends its budget."""
    given: list[tuple[dict[str, object], object]] = [
        ({}, None),
        ({"miles": _Angry(), "night": "?"}, math.nan),
        ({}, []),
    ]
    for number, (x, y) in enumerate(given):
        ledger = Ledger(tmp_path / str(number))
        report = Reporter(CAMPAIGN, ledger).report(x, y, _parameters())
        assert isinstance(report, CategoryReport)
        assert ledger.spent == PrivacyBudget(2.0)


def test_what_is_missing_is_replaced_by_public_values() -> None:
    """A missing feature is its centre and a missing target the middle of its range, as if given."""
    middle = {"miles": 15.0, "night": 0, "temp": 10}
    for x, y in (({}, None), ({"miles": math.nan, "night": None, "temp": "n/a"}, math.nan)):
        seen = [
            Reporter.simulated(REFERENCE, seed=1).privatize(row, target, (0.1, 0.2, 0.3, 0.4))
            for row, target in ((x, y), (middle, 30.0))
        ]
        assert seen[0] == seen[1]


# ---------------------------------------------------------------------- randomness


def test_a_seed_repeats_a_study_and_another_does_not() -> None:
    """Reports of equal seeds are equal one by one; of different seeds they differ."""

    def study(seed: int) -> list[object]:
        devices = Reporter.simulated(CAMPAIGN, seed=seed)
        return [devices.report({"miles": i % 30}, i % 60, _parameters()) for i in range(100)]

    assert study(7) == study(7)
    assert study(7) != study(8)


def test_a_device_draws_from_the_operating_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real report's block and category are decoded from os.urandom, not from a seeded generator."""
    campaign = _campaign(
        features={f"x{j}": {"lower": 0, "upper": 1} for j in range(4)},
        channel={"q": 2, "s": 2, "kind": "cqx"},
    )
    asked: list[int] = []
    urandom = os.urandom

    def counted(n: int) -> bytes:
        asked.append(n)
        return urandom(n)

    device = Reporter(campaign, ledger=tmp_path / "device.sqlite")
    monkeypatch.setattr(os, "urandom", counted)
    device.report({}, 3.0, _parameters(campaign))
    assert asked.count(8) >= 2  # 62 bits each for rounding and response
    with pytest.raises(InvalidInput, match="a device makes its one report"):
        device.privatize({}, 3.0, (0.0,) * 5)
    crowd, payloads = Reporter.simulated(campaign), set()
    for _ in range(50):
        payloads.add(crowd.privatize({}, 3.0, (0.0,) * 5))
    assert len(payloads) > 5


def test_two_devices_report_differently(tmp_path: Path) -> None:
    """Equal records on 40 real devices do not give equal reports."""
    payloads = set()
    for number in range(40):
        report = Reporter(CAMPAIGN, ledger=tmp_path / str(number)).report(RECORD, 14.0, _parameters())
        assert isinstance(report, CategoryReport)
        payloads.add(report.payload)
    assert len(payloads) > 5


def test_unseeded_simulations_differ() -> None:
    """Without a seed a simulation draws from the operating system."""
    first, second = (
        [Reporter.simulated(CAMPAIGN).report(RECORD, 14.0, _parameters()).token for _ in range(2)]
        for _ in range(2)
    )
    assert len({*first, *second}) == 4


@pytest.mark.parametrize("seed", [-1, 1.5, "7", 2**60])
def test_a_seed_that_is_no_seed_is_refused(seed: Any) -> None:
    """One of the package's errors says what is allowed."""
    with pytest.raises(LdpStreamError, match="seed = "):
        Reporter.simulated(CAMPAIGN, seed=seed)


def test_privatize_is_the_channel_at_the_records_contribution() -> None:
    """The payload is what the campaign's channel makes of g with the same draws."""
    scale, tau = CAMPAIGN.scale, CAMPAIGN.tau
    beta = (0.1, 0.2, -0.3, 0.4)
    for seed in range(50):
        g = contribution(scale.row(RECORD), scale.target(14.0), beta, tau)
        assert Reporter.simulated(CAMPAIGN, seed=seed).privatize(RECORD, 14.0, beta) == CAMPAIGN.levels[
            0
        ].mechanism.privatize(g, SimulatedEntropy(seed))
    vector = Reporter.simulated(REFERENCE, seed=1).privatize(RECORD, 14.0, beta)
    assert vector == VectorPayload(tuple(contribution(scale.row(RECORD), scale.target(14.0), beta, tau)))


def test_a_ledger_is_asked_for_by_name() -> None:
    """There is no way to make a real reporter without saying where its ledger is."""
    assert inspect.signature(Reporter).parameters["ledger"].default is inspect.Parameter.empty
    with pytest.raises(TypeError):
        Reporter(CAMPAIGN)  # type: ignore[call-arg]
