"""A partition: rounds are a function of its log, whatever the batching, and freeze what devices see."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_stream.errors import InvalidReport
from ldp_stream.reports import Parameters
from ldp_stream.server.aggregator import Aggregator
from ldp_stream.server.partition import Partition
from tests.server import naive
from tests.server.streams import LIVE, LONG_ROUNDS, campaign, fed, feed, reports

PLANS: dict[str, dict[str, Any]] = {
    "live": {"rounds": LIVE},
    "default": {},
    "long": {"rounds": LONG_ROUNDS},
    "long, at the box": {"rounds": LONG_ROUNDS, "radius": 0.05},
}
N = 2600


Said = tuple[int, int, tuple[float, ...]]
"""Number, start and coefficients of a round."""


def said(parameters: Parameters) -> Said:
    """Return number, start and coefficients of a parameters message."""
    assert [chain.chain for chain in parameters.chains] == [0]
    return parameters.round, parameters.n, parameters.chains[0].beta


@cache
def one_by_one(plan: str) -> list[Said]:
    """Return what a server says before the first and after each of N reports."""
    server = Aggregator(campaign(**PLANS[plan]))
    found = [said(server.parameters())]
    for _ in feed(server, reports(server.campaign, N), [("one", 1)] * N):
        found.append(said(server.parameters()))
    return found[: N + 1]


@pytest.mark.parametrize("plan", PLANS)
def test_parameters_are_those_of_the_round_in_force(plan: str) -> None:
    """After every report, devices see the iterate at which their round began, its number and its start."""
    of = campaign(**PLANS[plan])
    oracle = naive.NaiveServer(of, reports(of, N))
    starts = [*range(N + 1)] if of.rounds.stability == 0 else naive.rounds(of, N)
    found = one_by_one(plan)
    assert found[0] == (0, 0, (0.0, 0.0, 0.0))
    for n, (number, start, beta) in enumerate(found):
        assert number == bisect_right(starts, n) - 1
        assert start == starts[number]
        assert beta == pytest.approx(oracle.iterate(start).tolist(), rel=1e-11, abs=1e-12)


def test_a_chain_is_asked_for_by_number() -> None:
    """The coefficients of a chain by itself are those of the parameters message."""
    for plan in PLANS.values():
        server = fed(campaign(**plan), reports(campaign(**plan), 500))
        assert server.beta() == server.beta(0) == server.parameters().chains[0].beta


@pytest.mark.parametrize("plan", PLANS)
@settings(max_examples=20)
@given(
    cut=st.lists(
        st.tuples(st.sampled_from(["one", "batch", "objects"]), st.sampled_from([0, 1, 30, 350, 1100])),
        max_size=6,
    )
)
def test_rounds_do_not_depend_on_the_batching(plan: str, cut: list[tuple[str, int]]) -> None:
    """A replay makes the same rounds with the same coefficients, also when several begin inside one batch."""
    server = Aggregator(campaign(**PLANS[plan]))
    for n in feed(server, reports(server.campaign, N), cut):
        assert said(server.parameters()) == one_by_one(plan)[n]


@pytest.mark.parametrize("stability", [0.02, 0.3, 1.9])
def test_a_round_is_as_long_as_stability_allows(stability: float) -> None:
    """A round's N reports act as one step N eta: N is the largest with N eta curvature <= stability."""
    of = campaign(rounds={"stability": stability, "curvature": 1.0})
    server, begun = Aggregator(of), []
    batch = reports(of, 4000)
    for n in feed(server, batch, [("one", 1)] * 4000):
        if server.parameters().n == n:
            begun.append(n)
    lengths = np.diff([0, *begun])
    for start, length in zip([0, *begun], lengths.tolist(), strict=False):
        eta = naive.step(of, start + 1)
        assert length == 1 or length * eta <= stability * (1 + 1e-12)
        assert (length + 1) * eta > stability
    assert len(begun) > 3
    assert lengths.max() > 1


def test_a_round_of_one_report_shows_the_latest_coefficients() -> None:
    """Where even one report is more than stability allows, every report begins a round."""
    of = campaign(rounds={"stability": 1e-6, "curvature": 1.0})
    server = Aggregator(of)
    for n in feed(server, reports(of, 30), [("one", 1)] * 30):
        assert (server.parameters().round, server.parameters().n) == (n, n)


def test_a_live_partition_numbers_rounds_as_reports() -> None:
    """Without rounds every accepted report begins one, also within a batch."""
    of = campaign(rounds=LIVE)
    server = fed(of, reports(of, 777))
    assert (server.parameters().round, server.parameters().n) == (777, 777)


def test_parameters_name_campaign_and_partition_and_are_valid() -> None:
    """A parameters message survives its own validation and says where it belongs."""
    of = campaign(partitions=7)
    parameters = Aggregator(of, partition=5).parameters()
    assert Parameters.model_validate_json(parameters.model_dump_json()) == parameters
    assert (parameters.digest, parameters.partition) == (of.digest_prefix, 5)


def test_a_chain_that_does_not_exist_is_named() -> None:
    """A column of chain numbers is refused with the place of the first that the campaign does not have."""
    part = Partition(campaign(), 0)
    part.check_chains(np.zeros(0, np.uint16))
    part.check_chains(np.zeros(9, np.uint16))
    with pytest.raises(InvalidReport, match=r"reports\[4\]: chain = 3: must be below 1"):
        part.check_chains(np.array([0, 0, 0, 0, 3, 65535], np.uint16))


def test_the_naive_rounds_are_those_of_the_formula() -> None:
    """The oracle's own first round is floor(stability / (eta_1 curvature)) reports long."""
    of = campaign(rounds=LONG_ROUNDS)
    assert naive.rounds(of, 10_000)[1] == math.floor(1.9 / naive.step(of, 1))


def test_chains_share_a_partition() -> None:
    """With several chains each report moves its own, rounds count all, and batches equal single reports."""
    of = campaign(rounds=LONG_ROUNDS, inference={"kind": "dc", "chains": 3})
    batch = reports(of, 3000)
    batch.chain[:] = np.random.default_rng(4).integers(0, 3, 3000)
    whole, pieces = Aggregator(of), Aggregator(of)
    for _ in feed(whole, batch, []):
        pass
    for _ in feed(pieces, batch, [("one", 40), ("batch", 1500), ("objects", 300), ("one", 9)]):
        pass
    assert pieces.snapshot() == whole.snapshot()
    start = whole.parameters().n
    assert 0 < start <= 3000
    assert start % 3 == 0
    for chain in range(3):
        own = naive.decoded(of, batch[:start])[batch.chain[:start] == chain]
        steps = [naive.step(of, i) for i in range(1, len(own) + 1)]
        iterates = naive.walk(own, steps, of.radius)
        assert whole.beta(chain) == pytest.approx(iterates[-1].tolist(), rel=1e-11, abs=1e-12)
    assert [chain.chain for chain in whole.parameters().chains] == [0, 1, 2]
