"""A published estimate says as much as the one that it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_stream import Aggregator
from ldp_stream.errors import CampaignMismatch, InvalidInput
from ldp_stream.server.published import estimates_from_json, estimates_to_json
from tests.server.streams import LIVE, campaign, reports

KINDS = {
    "sn": {},
    "dc": {"inference": {"kind": "dc", "chains": 4}},
    "higrad": {"inference": {"kind": "higrad", "horizon": 50_000}},
    "two levels": {"tau": [0.3, 0.8]},
}


@pytest.mark.parametrize("changes", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("n", [0, 50, 60_000])
def test_estimates_come_back_whole(n: int, changes: dict[str, object]) -> None:
    """Values, intervals at another level, contrasts and the reason survive the message bit for bit."""
    of = campaign(rounds=LIVE, epsilon=8.0, **changes)
    batch = reports(of, n, seed=1)
    batch.chain[:] = np.random.default_rng(2).integers(0, of.chains, n)
    server = Aggregator(of)
    server.ingest_many(batch)
    sent = server.estimates()
    message = estimates_to_json(sent, rounds={"0": 7})
    assert b"\n" not in message
    found, facts = estimates_from_json(of, message, level=0.8)
    assert found.as_dict() == server.estimates(0.8).as_dict()
    assert len(found) == len(of.levels)
    for tau, estimate in found.items():
        other = server.estimate(0.8, tau)
        assert estimate.contrast({"size": 1, "flag": -2}) == other.contrast({"size": 1, "flag": -2})
        assert estimate.quantile({"size": 3}) == other.quantile({"size": 3})
        assert estimate.reason == other.reason
        assert (estimate.reason is None) == (n > 1000)
    assert facts["rounds"] == {"0": 7}
    assert estimates_from_json(of, message)[0].as_dict() == sent.as_dict()


def test_what_is_no_estimate_of_the_campaign_is_refused() -> None:
    """Another campaign's estimate, broken JSON, and averages of another size are refused with a reason."""
    of = campaign()
    message = estimates_to_json(Aggregator(of).estimates())
    with pytest.raises(CampaignMismatch, match=r"digest = '.*': must be '"):
        estimates_from_json(campaign(tau=0.4), message)
    for broken in (b"", b"{}", b"\xff", message.replace(b'"mean":[', b'"mean":[0.5,')):
        with pytest.raises(InvalidInput, match="message: "):
            estimates_from_json(of, broken)
    two = campaign(tau=[0.3, 0.8])
    with pytest.raises(InvalidInput, match="holds 1 quantile levels: must be 2"):
        estimates_from_json(two, message.replace(of.digest.encode(), two.digest.encode()))
    with pytest.raises(InvalidInput, match=r"level = 1.5"):
        estimates_from_json(of, message, level=1.5)
