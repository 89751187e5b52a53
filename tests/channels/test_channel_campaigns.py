"""Every kind of channel through a campaign: device, codec, server, snapshot, river estimator."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from ldp_stream import Campaign, PrivateQuantileRegressor, Reporter
from ldp_stream.batch_codec import batch_to_json, decode_batch, encode_batch
from ldp_stream.channels.base import VectorPayload
from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.laplace import DirectLaplace
from ldp_stream.client.entropy import SimulatedEntropy
from ldp_stream.client.reporter import contribution
from ldp_stream.codec import decode_report, encode_report, report_to_json
from ldp_stream.errors import AlreadyReported, InvalidCampaign, InvalidReport
from ldp_stream.message_columns import decode_messages
from ldp_stream.report_batch import ReportBatch
from ldp_stream.reports import Report
from ldp_stream.server.aggregator import Aggregator
from tests.server.streams import campaign

KINDS: dict[str, dict[str, Any]] = {
    "cqx": {"kind": "cqx", "q": 3, "s": 2},
    "laplace": {"kind": "laplace"},
    "laplace, blind": {"kind": "laplace", "support": "blind"},
    "face_exponential": {"kind": "face_exponential", "q": 3},
    "piecewise": {"kind": "piecewise"},
    "piecewise, all": {"kind": "piecewise", "k": 3},
    "hybrid": {"kind": "hybrid", "k": 2},
    "privunit_g": {"kind": "privunit_g"},
}
every_kind = pytest.mark.parametrize("channel", KINDS.values(), ids=KINDS)
N = 400


def _made(of: Campaign, n: int = N, seed: int = 1) -> list[Report]:
    """Return reports of simulated devices at the parameters of an empty server."""
    drawn = np.random.default_rng(seed)
    devices, now = Reporter.simulated(of, seed), Aggregator(of).parameters()
    return [
        devices.report({"size": float(x), "flag": int(x > 0)}, 3 * float(x) + float(e), now)
        for x, e in drawn.normal(size=(n, 2))
    ]


@every_kind
def test_reports_survive_both_codecs(channel: dict[str, Any]) -> None:
    """Binary and JSON, one report and columns of many, give the reports back bit for bit."""
    rows = _made(campaign(channel=channel), 50)
    for row in rows:
        assert decode_report(encode_report(row)) == decode_report(report_to_json(row)) == row
    batch = ReportBatch.from_reports(rows)
    for data in (encode_batch(batch), batch_to_json(batch)):
        assert list(decode_batch(data)) == rows
    width = None if channel["kind"] in ("cqx", "face_exponential") else 3
    parsed = decode_messages([encode_report(row) for row in rows], rows[0].digest, width)
    assert parsed.batch is not None
    assert list(parsed.batch) == rows
    assert not parsed.faults


@every_kind
@pytest.mark.parametrize("tau", [0.3, [0.25, 0.5, 0.9]])
def test_a_restored_server_goes_on_bit_for_bit(channel: dict[str, Any], tau: object) -> None:
    """One by one, in batches, and across a snapshot: the same state, whatever the channel and the levels."""
    of = campaign(channel=channel, tau=tau)
    rows = _made(of)
    whole, parts = Aggregator(of), Aggregator(of)
    whole.ingest_many(ReportBatch.from_reports(rows))
    for row in rows[:150]:
        parts.ingest(row)
    parts = Aggregator.restore(of, parts.snapshot())
    parts.ingest_many(rows[150:])
    assert parts.snapshot() == whole.snapshot()
    assert whole.n_reports == N


@every_kind
def test_a_device_reports_once_through_it(channel: dict[str, Any]) -> None:
    """A real device with a ledger makes one report, which the server takes, and can send it again."""
    of = campaign(channel=channel)
    server, device = Aggregator(of), Reporter(of, ledger=":memory:")
    report = device.report({"size": 1.0}, 2.0, server.parameters())
    server.ingest(report)
    assert device.resend() == report
    with pytest.raises(AlreadyReported):
        device.report({"size": 1.0}, 2.0, server.parameters())
    assert server.n_reports == 1


@every_kind
def test_the_campaign_reads_back_as_itself(channel: dict[str, Any]) -> None:
    """Canonical JSON, copy with changes, and the channel's parameters survive."""
    of = campaign(channel=channel)
    again = Campaign.model_validate(json.loads(of.canonical))
    assert again == of
    assert again.levels[0].mechanism == of.levels[0].mechanism
    assert of.levels[0].mechanism.second_moment > 0
    assert of.private


def test_the_digests_of_campaigns_from_before_are_unchanged() -> None:
    """The default channel and "none" have the digests that they had without the other kinds."""
    assert campaign().digest_prefix == "e058f5d610623515"
    assert campaign(channel={"kind": "none"}, epsilon=None).digest_prefix == "b06faddc5fc98cdd"


@every_kind
def test_the_river_estimator_takes_it(channel: dict[str, Any]) -> None:
    """By its name or its section the model learns and predicts, and a campaign's model is the same."""
    given = channel["kind"] if len(channel) == 1 else channel
    model = PrivateQuantileRegressor(
        features={"size": (-2, 6), "flag": (0, 1, 0)}, target=(-10, 30), epsilon=3.0, channel=given, seed=2
    )
    again = PrivateQuantileRegressor.from_campaign(model.campaign, seed=2)
    for x in np.random.default_rng(3).normal(size=200).tolist():
        for one in (model, again):
            one.learn_one({"size": x, "flag": 1}, 2 * x)
    assert model.coefficients == again.coefficients
    assert model.coefficients != PrivateQuantileRegressor.from_campaign(model.campaign).coefficients


VECTORS = [name for name in KINDS if name not in ("cqx", "face_exponential")]


@pytest.mark.parametrize("name", VECTORS)
def test_values_beyond_the_limits_are_refused(name: str) -> None:
    """Alone and in columns, a value just above the channel's limit is refused; the limit itself is not."""
    of = campaign(channel=KINDS[name])
    limits = of.levels[0].mechanism.limits  # type: ignore[union-attr]
    server = Aggregator(of)
    (good,) = _made(of, 1)
    server.ingest(good.model_copy(update={"values": limits}))
    for j, limit in enumerate(limits):
        values = [0.0, 0.0, 0.0]
        values[j] = -limit * (1 + 1e-12)
        bad = good.model_copy(update={"values": tuple(values)})
        with pytest.raises(InvalidReport, match="values"):
            server.ingest(bad)
        with pytest.raises(InvalidReport, match=r"reports\[1\]: values"):
            server.ingest_many(ReportBatch.from_reports([good, bad]))
    assert server.n_reports == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"channel": {"kind": "laplace", "support": "half"}}, "channel.support = 'half'"),
        ({"channel": {"kind": "laplace", "q": 2}}, "channel.q: unknown key"),
        ({"channel": {"kind": "laplace"}, "epsilon": 1e-12}, "channel: epsilon = 1e-12"),
        ({"channel": {"kind": "laplace"}, "epsilon": None}, "epsilon: missing"),
        ({"channel": {"kind": "face_exponential", "q": 1}}, "channel.q = 1"),
        ({"channel": {"kind": "face_exponential", "q": 400}}, "channel: q = 400: 320000 grid points"),
        ({"channel": {"kind": "piecewise", "k": 0}}, "channel.k = 0"),
        ({"channel": {"kind": "hybrid", "k": 4}}, "channel: k = 4: must be a whole number from 1 to 3"),
        ({"channel": {"kind": "privunit_g", "k": 1}}, "channel.k: unknown key"),
    ],
)
def test_a_wrong_section_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    """The message names the field, its value and what is allowed."""
    with pytest.raises(InvalidCampaign) as caught:
        campaign(**changes)
    assert message in str(caught.value)


def test_only_the_biased_channel_says_so() -> None:
    """Its estimates carry a note in words, in JSON and in print; those of the others do not."""
    for channel in KINDS.values():
        of = campaign(channel=channel)
        server = Aggregator(of)
        server.ingest_many(_made(of, 20))
        estimate = server.estimate()
        biased = channel["kind"] == "face_exponential"
        assert (estimate.note is not None) == biased
        assert ("note" in estimate.as_dict()) == biased
        assert ("BIASED" in repr(estimate)) == biased
    assert estimate.note is None


# ---------------------------------------------------------------------- a measured fact


def _errors(channel: CQX | DirectLaplace, seeds: range) -> float:
    """Return the mean Euclidean error of the averaged estimate after 20,000 reports, working scale.

    Y~ = X'b + e/2, e standard normal, X uniform, tau .5, b = (0, .4, -.3, .2), steps i^-.75 for both.
    """
    of = Campaign.model_validate(
        {
            "kind": "quantile",
            "name": "fact",
            "tau": 0.5,
            "epsilon": channel.epsilon,
            "target": {"lower": -1, "upper": 1},
            "features": {f"x{j}": {"lower": -1, "upper": 1} for j in range(3)},
            "channel": {"kind": "cqx" if isinstance(channel, CQX) else "laplace"},
            "rounds": {"stability": 0},
            "steps": {"gain": math.sqrt(channel.second_moment), "delay": 0},
        }
    )
    assert of.levels[0].mechanism == channel
    truth = np.array([0.0, 0.4, -0.3, 0.2])
    found = []
    for seed in seeds:
        drawn, entropy, server = np.random.default_rng(seed), SimulatedEntropy(seed), Aggregator(of)
        rows = np.column_stack([np.ones(20_000), drawn.uniform(-1, 1, (20_000, 3))])
        targets = rows @ truth + 0.5 * drawn.normal(size=20_000)
        for row, y in zip(rows.tolist(), targets.tolist(), strict=True):
            server.fold(channel.privatize(contribution(row, y, server.beta(), 0.5), entropy))
        found.append(float(np.linalg.norm(server.estimate().average.mean - truth)))
    return float(np.mean(found))


def test_cqx_beats_direct_laplace_as_measured() -> None:
    """At n = 20,000, d = 3, tau .5, epsilon 1 the mean errors are near .15 and .7, a factor of 3 or more.

    In this design 60 vectorized runs gave .134 and .648, at epsilon 4 .053 and .082; a prototype's, with a
    design that is not on record, .17 and .89, and .054 and .087.
    """
    intervals = ((-1.0, 1.0),) * 3
    cqx = _errors(CQX(1.0, 0.5, intervals), range(4))
    laplace = _errors(DirectLaplace(1.0, 0.5, intervals), range(4))
    assert 0.08 < cqx < 0.22
    assert 0.4 < laplace < 1.1
    assert laplace > 3 * cqx


def test_the_vector_payload_of_a_report_is_what_the_channel_made() -> None:
    """A report's values are the payload's, and the server's decoding of them is the identity."""
    (row,) = _made(campaign(channel={"kind": "laplace"}), 1)
    assert isinstance(row.payload, VectorPayload)
    mechanism = campaign(channel={"kind": "laplace"}).levels[0].mechanism
    assert mechanism.decode(row.payload).values == row.payload.values  # type: ignore[arg-type]
