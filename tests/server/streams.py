"""Campaigns and streams of valid reports for the tests of the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ldp_stream.campaign import Campaign
from ldp_stream.channels.kinds import FiniteChannel
from ldp_stream.report_batch import ReportBatch
from ldp_stream.server.aggregator import Aggregator

LONG_ROUNDS = {"stability": 1.9, "curvature": 1.0}  # some hundred reports each
LIVE = {"stability": 0}

Cut = Sequence[tuple[str, int]]
"""How a stream is handed over: ("one", k), ("batch", k) or ("objects", k) for its next k reports."""


def campaign(**changes: Any) -> Campaign:
    """Return a small campaign: two features, one of them one-sided, unless changed."""
    given = {
        "kind": "quantile",
        "name": "server-tests",
        "tau": 0.3,
        "epsilon": 2.0,
        "target": {"lower": -10, "upper": 30},
        "features": {"size": {"lower": -2, "upper": 6}, "flag": {"lower": 0, "upper": 1, "centre": 0}},
        **changes,
    }
    return Campaign.model_validate({key: value for key, value in given.items() if value is not None})


def reports(of: Campaign, n: int, seed: int = 0) -> ReportBatch:
    """Return n valid reports with payloads drawn uniformly; fewer of a seed are the beginning of more."""
    drawn = np.random.default_rng(seed).random((n, 16))
    channel = of.levels[0].mechanism
    common = (
        of.digest_prefix,
        np.arange(n, dtype=np.uint32),
        np.zeros(n, np.uint16),
        np.floor(256 * drawn).astype(np.uint8),
    )
    if not isinstance(channel, FiniteChannel):
        return ReportBatch(*common, values=2 * drawn[:, : channel.p] - 1)
    block = np.floor(channel.n_blocks * drawn[:, 0]).astype(np.uint32)
    size = np.where(
        block < channel.intercept_blocks, channel.categories(0), channel.categories(channel.n_blocks - 1)
    )
    return ReportBatch(*common, block=block, category=np.floor(size * drawn[:, 1]).astype(np.uint16))


def feed(server: Aggregator, batch: ReportBatch, cut: Cut) -> Iterator[int]:
    """Hand the batch over as the cut says, and yield how many reports are in after each piece."""
    done = 0
    for how, size in cut:
        piece = batch[done : done + size]
        if how == "batch":
            server.ingest_many(piece)
        elif how == "objects":
            server.ingest_many(iter(piece))
        else:
            for report in piece:
                server.ingest(report)
        done += len(piece)
        yield done
    server.ingest_many(batch[done:])
    yield len(batch)


def fed(of: Campaign, batch: ReportBatch, cut: Cut = ()) -> Aggregator:
    """Return a server of the campaign that has the whole batch, handed over as the cut says."""
    server = Aggregator(of)
    for _ in feed(server, batch, cut):
        pass
    return server
