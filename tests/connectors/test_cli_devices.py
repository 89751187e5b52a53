"""Simulated devices of the command line: counted randomness, and the law of what they send."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from ldp_stream import Aggregator, Campaign
from ldp_stream.client.reporter import contribution
from ldp_stream.connectors.commands.devices import CountedEntropy, SimulatedDevices
from ldp_stream.datasets.taxi import FEATURES, TaxiTrips

KEY = bytes(range(32))
N = 20_000


def campaign(**changes: object) -> Campaign:
    """Return a campaign on the synthetic taxi trips."""
    features = {
        name: dict(zip(("lower", "upper", "centre"), bounds, strict=False))
        for name, bounds in FEATURES.items()
    }
    fields = {
        "kind": "quantile",
        "name": "trips",
        "tau": 0.5,
        "epsilon": 2.0,
        "target": {"lower": 0.0, "upper": 4.8},
    }
    return Campaign.model_validate({**fields, "features": features, **changes})


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
    """Return the chance of counts at least as far from the law."""
    expected = counts.sum() * law
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(law) - 1))


def test_bits_depend_on_key_and_count_alone() -> None:
    """Whatever was drawn before, number i has the same bits; other numbers and other keys have others."""
    entropy = CountedEntropy(KEY)
    draws = {}
    for count in (3, 0, 3, 2**64 - 1):
        entropy.start(count)
        found = [entropy.bits(k) for k in (62, 0, 1, 64, 200, *[31] * 20)]
        assert draws.setdefault(count, found) == found
        entropy.bits(count % 7)
    assert len({tuple(found) for found in draws.values()}) == 3
    other = CountedEntropy(KEY[::-1])
    other.start(3)
    assert other.bits(62) != draws[3][0]


@pytest.mark.parametrize("k", [1, 3, 62, 70])
def test_bits_are_uniform(k: int) -> None:
    """The highest three of k bits are uniform over numbers (chi-square, chance of a false alarm 1e-4)."""
    entropy = CountedEntropy(KEY)
    counts = np.zeros(1 << min(k, 3))
    for count in range(N):
        entropy.start(count)
        value = entropy.bits(k)
        assert 0 <= value < 1 << k
        counts[value >> max(k - 3, 0)] += 1
    assert chi_square(counts, np.full(len(counts), 1 / len(counts))) > 1e-4


def test_below_is_uniform_and_the_check_can_fail() -> None:
    """Draws below 5 are uniform (false alarms: 1e-4); the check rejects a law that is off by 5%."""
    entropy = CountedEntropy(KEY)
    counts = np.zeros(5)
    for count in range(N):
        entropy.start(count)
        counts[entropy.below(5)] += 1
    law = np.full(5, 0.2)
    assert chi_square(counts, law) > 1e-4
    assert chi_square(counts, law * [1.05, 0.95, 1.05, 0.95, 1.0]) < 1e-4
    assert entropy.below(1) == 0


def test_payloads_follow_the_channels_law() -> None:
    """Over numbers, a record's payloads follow the exact law of the channel (false alarms: 1e-4)."""
    definition = campaign(channel={"kind": "cqx", "q": 2, "s": 2})
    mechanism, scale = definition.levels[0].mechanism, definition.scale
    x, y = next(iter(TaxiTrips(1, seed=2)))
    g = contribution(scale.row(x), scale.target(y), (0.0,) * 5, definition.tau)
    laws = [np.array(mechanism.law(g, block), float) for block in range(mechanism.n_blocks)]
    counts = [np.zeros(len(law)) for law in laws]
    entropy = CountedEntropy(KEY)
    for count in range(N):
        entropy.start(count)
        block, category = mechanism.privatize(g, entropy)
        counts[block][category] += 1
    law = np.concatenate(laws) / len(laws)
    assert chi_square(np.concatenate(counts), law) > 1e-4
    off = law * np.where(np.arange(len(law)) % 2, 1.06, 0.94)
    assert chi_square(np.concatenate(counts), off / off.sum()) < 1e-4


@pytest.mark.parametrize("stability", [0, 0.3])
@pytest.mark.parametrize("epsilon", [4.0, None])
def test_folding_does_not_depend_on_how_rows_are_cut(stability: float, epsilon: float | None) -> None:
    """One call, single rows, or pieces of any size, in rounds or not: the state is the same bit for bit."""
    channel = {"kind": "none"} if epsilon is None else {"kind": "cqx", "q": 2, "s": 3}
    given = {"epsilon": epsilon, "channel": channel, "rounds": {"stability": stability}}
    definition = campaign(**given)
    rows = list(TaxiTrips(1_500, seed=4))
    states = set()
    for size in (1, 7, 1_500):
        server, devices = Aggregator(definition), SimulatedDevices(definition, seed=9)
        for start in range(0, len(rows), size):
            devices.fold(server, rows[start : start + size])
        assert server.n_reports == len(rows)
        states.add(server.snapshot())
    assert len(states) == 1


def test_campaigns_with_one_seed_draw_independently() -> None:
    """The digest is part of the key, so two campaigns with one seed do not repeat each other's randomness."""
    rows = list(TaxiTrips(200, seed=4))
    betas = []
    for name in ("a", "b"):
        definition = campaign(name=name)
        server = Aggregator(definition)
        SimulatedDevices(definition, seed=9).fold(server, rows)
        betas.append(server.parameters().chains)
    assert betas[0] != betas[1]
