"""The study behind ``ldp-stream demo``: two campaigns on synthetic taxi trips, each user asked by one.

A public coin, drawn from a generator of its own and so independent of every trip, sends user i to the
campaign for the median with probability 1/3 and to that for the 90th percentile with probability 2/3: where
few trips lie near the quantile, a report tells less. One user sends one report in one campaign, so epsilon is
the whole price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...campaign import Campaign
from ...datasets.taxi import FEATURES, TARGET, TaxiTrips
from ...server.aggregator import Aggregator
from ...server.estimate import Estimate
from ..base import Row
from .devices import SimulatedDevices

__all__ = ["TAUS", "Answer", "make_campaigns", "run_study"]

TAUS = (0.5, 0.9)
_MEDIAN_SHARE = 1 / 3
_COIN = 0xC01  # sets the coin's generator apart from those of the trips


@dataclass(frozen=True)
class Answer:
    """An estimate and the true coefficients by name, both in log minutes."""

    estimate: Estimate
    truth: Mapping[str, float]


def make_campaigns(epsilon: float) -> tuple[Campaign, ...]:
    """Return the campaigns, one for each of ``TAUS``; InvalidCampaign if epsilon makes none."""
    features = {
        name: dict(zip(("lower", "upper", "centre"), bounds, strict=False))
        for name, bounds in FEATURES.items()
    }
    common = {
        "kind": "quantile",
        "epsilon": epsilon,
        "target": dict(zip(("lower", "upper"), TARGET, strict=True)),
        "features": features,
        "channel": {
            "kind": "cqx",
            "q": 2,
            "s": len(features) + 1,
        },  # whole vectors: best for an epsilon above 4
    }
    return tuple(
        Campaign.model_validate({**common, "name": f"taxi-{100 * tau:.0f}", "tau": tau}) for tau in TAUS
    )


def run_study(
    campaigns: Sequence[Campaign],
    reports: int,
    seed: int,
    level: float = 0.95,
    after: Callable[[int], bool] | None = None,
) -> list[Answer]:
    """Return each campaign's answer after so many reports in all.

    Parameters
    ----------
    campaigns
        The two campaigns.
    reports
        Users, one report each.
    seed
        Of trips, coin and devices.
    level
        Coverage of the intervals.
    after
        Called with the number of reports of each block of trips; True stops the study.
    """
    servers = [Aggregator(campaign) for campaign in campaigns]
    devices = [SimulatedDevices(campaign, seed) for campaign in campaigns]
    coin = np.random.default_rng((seed, _COIN))
    for features, target in TaxiTrips(reports, seed).blocks():
        median = coin.random(len(target)) < _MEDIAN_SHARE
        for server, device, asked in zip(servers, devices, (median, ~median), strict=True):
            device.fold(server, _rows(features[asked], target[asked]))
        if after is not None and after(len(target)):
            break
    return [
        Answer(estimate, TaxiTrips.true_coefficients(estimate.tau))
        for estimate in (server.estimate(level) for server in servers)
    ]


def _rows(features: np.ndarray, target: np.ndarray) -> list[Row]:
    return [
        (dict(zip(FEATURES, row, strict=True)), y)
        for row, y in zip(features.tolist(), target.tolist(), strict=True)
    ]
