"""A published estimate says as much as the one that it was made of."""

from __future__ import annotations

import json

import pytest

from ldp_stream import Aggregator
from ldp_stream.errors import CampaignMismatch, InvalidInput
from ldp_stream.server.published import estimate_from_json, estimate_to_json
from tests.server.streams import LIVE, campaign, reports


@pytest.mark.parametrize("n", [0, 50, 60_000])
def test_an_estimate_comes_back_whole(n: int) -> None:
    """Values, intervals at another level, contrasts and the reason survive the message bit for bit."""
    of = campaign(rounds=LIVE, epsilon=8.0)
    server = Aggregator(of)
    server.ingest_many(reports(of, n)) if n else None
    sent = server.estimate()
    message = estimate_to_json(sent, rounds={"0": 7})
    assert b"\n" not in message
    found, facts = estimate_from_json(of, message, level=0.8)
    other = server.estimate(0.8)
    assert found.as_dict() == other.as_dict()
    assert found.contrast({"size": 1, "flag": -2}) == other.contrast({"size": 1, "flag": -2})
    assert found.quantile({"size": 3}) == other.quantile({"size": 3})
    assert found.reason == other.reason
    assert (found.reason is None) == (n > 1000)
    assert facts["rounds"] == {"0": 7}
    assert estimate_from_json(of, message)[0].as_dict() == sent.as_dict()
    assert {**json.loads(message), **sent.as_dict()} == json.loads(message)


def test_what_is_no_estimate_of_the_campaign_is_refused() -> None:
    """Another campaign's estimate, broken JSON, and averages of another size are refused with a reason."""
    of = campaign()
    message = estimate_to_json(Aggregator(of).estimate())
    with pytest.raises(CampaignMismatch, match=r"digest = '.*': must be '"):
        estimate_from_json(campaign(tau=0.4), message)
    for broken in (b"", b"{}", b"\xff", message.replace(b'"mean":[', b'"mean":[0.5,')):
        with pytest.raises(InvalidInput, match="message: "):
            estimate_from_json(of, broken)
    with pytest.raises(InvalidInput, match=r"level = 1.5"):
        estimate_from_json(of, message, level=1.5)
