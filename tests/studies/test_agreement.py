"""The vectorised simulator and the package's server come to the same from the same reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ldp_stream import Aggregator
from ldp_stream.campaign import Campaign
from ldp_stream.plan import Window
from ldp_stream.report_batch import ReportBatch
from ldp_stream.studies.coverage import Cell
from ldp_stream.studies.devices import walk
from ldp_stream.studies.sets import SNWindow

N = 5000


@pytest.mark.parametrize("epsilon", [2.0, None])
def test_one_replication_is_the_server(epsilon: float | None) -> None:
    """With power steps the average and the intervals of R = 1 are the aggregator's to 1e-10."""
    cell = Cell("sn", 0.75, epsilon, 3, "gauss", 0.2, N, "power")
    campaign, plan = cell.campaign, cell.plan
    server = Aggregator(campaign)
    piece = cell.devices.draw(N, 1, np.random.default_rng(5))
    points, gradients, last = walk(
        piece, np.zeros((4, 1)), np.ones((4, 1)), plan.radius, plan.power_scale(0, N)
    )
    iterates = np.moveaxis(np.concatenate([points[1:], last[None]]), 1, 2)
    window = SNWindow(1, 4)
    left_out = Window(plan.burn_in).start(N)
    window.add(iterates[left_out:3000])
    window.add(iterates[3000:])
    payload: dict[str, Any] = {"values": np.ascontiguousarray(gradients[:, :, 0])}
    if epsilon is not None:
        assert piece.block is not None
        assert piece.categories is not None
        face = piece.y <= np.einsum("tpc,tpc->tc", piece.X, points)
        category = np.where(face, piece.categories[1], piece.categories[0])
        payload = {
            "block": piece.block[:, 0].astype(np.uint32),
            "category": category[:, 0].astype(np.uint16),
        }
    server.ingest_many(batch(campaign, payload))
    found = list(server.estimate(0.95).values())
    names = list(server.estimate(0.95))
    assert names == ["intercept", "x1", "x2", "x3"]
    np.testing.assert_allclose([i.value for i in found], window.mean()[0], rtol=0, atol=1e-10)
    half = [(interval.upper - interval.lower) / 2 for interval in found]
    np.testing.assert_allclose(half, window.half_width(0.95)[0], rtol=0, atol=1e-10)


def batch(campaign: Campaign, payload: dict[str, Any]) -> ReportBatch:
    """Return the columns of a batch of N reports of the first round."""
    envelope = (campaign.digest_prefix, np.zeros(N, np.uint32), np.zeros(N, np.uint16))
    return ReportBatch(*envelope, np.zeros((N, 16), np.uint8), **payload)
