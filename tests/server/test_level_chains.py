"""DC and HiGrad trees and several levels: each report moves its node alone, whatever the cut into batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from ldp_stream import Aggregator, Campaign, Reporter
from ldp_stream.errors import InvalidInput
from ldp_stream.inference.higrad import HiGradAverage
from ldp_stream.report_batch import ReportBatch
from tests.server import naive
from tests.server.streams import campaign, feed, reports

DC = {"kind": "dc", "chains": 5}
HIGRAD = {"kind": "higrad", "branching": [2, 3], "segments": [150, 300, 500]}
CAMPAIGNS = {
    "dc": {"inference": DC},
    "higrad": {"inference": HIGRAD},
    "levels": {"tau": [0.25, 0.5, 0.9]},
    "levels of higrad": {"inference": HIGRAD, "tau": [0.3, 0.8], "rounds": {"stability": 0}},
}
CUT = [("one", 40), ("batch", 1500), ("objects", 300), ("one", 9), ("batch", 700)]


def spread(of: Campaign, n: int, seed: int) -> ReportBatch:
    """Return reports whose chains are drawn evenly."""
    batch = reports(of, n)
    batch.chain[:] = np.random.default_rng(seed).integers(0, of.chains, n)
    return batch


def nodes_of(of: Campaign, chains: NDArray[np.uint16]) -> list[tuple[int, int]]:
    """Return the (level, node) of each report, one after the other: the deepest node whose parent is full."""
    folded: dict[tuple[int, int], int] = {}
    found = []
    for chain in chains.tolist():
        place, leaf = divmod(chain, of.tree.leaves)
        path = iter(of.tree.path(leaf))
        node = next(path)
        while folded.get((place, node), 0) == of.tree.capacity(node):
            node = next(path)
        folded[place, node] = folded.get((place, node), 0) + 1
        found.append((place, node))
    return found


@pytest.mark.parametrize("changes", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_each_node_is_a_walk_of_its_own_reports(changes: dict[str, object]) -> None:
    """A node starts where its parent stopped, with the step sizes of its path, and averages its window."""
    of = campaign(**changes)
    batch = spread(of, 6000, seed=1)
    server = Aggregator(of)
    server.ingest_many(batch)
    rows = np.zeros((len(batch), of.p))
    for place, level in enumerate(of.levels):
        mine = batch.chain // of.tree.leaves == place
        alone = campaign(**{**changes, "tau": level.tau})
        rows[mine] = naive.decoded(alone, batch[mine])
    nodes = np.array(nodes_of(of, batch.chain))
    used = 0
    for place, level in enumerate(of.levels):
        for node, chain in server._own.levels[place].chains.items():
            mine = (nodes == (place, node)).all(axis=1)
            used += int(mine.sum())
            depth = of.tree.level(node)
            before = of.tree.events_before(depth)
            steps = [level.steps.at(before + i) for i in range(1, int(mine.sum()) + 1)]
            parent = next((up for up in range(node) if node in of.tree.children(up)), None)
            start = np.zeros(of.p) if parent is None else server._own.levels[place].chains[parent].iterate
            iterates = naive.walk(rows[mine], steps, of.radius, start)
            assert chain.n == len(iterates)
            if len(iterates):
                np.testing.assert_allclose(chain.iterate, iterates[-1], rtol=1e-10, atol=1e-12)
            left_out = of.window(level, depth).start(chain.n)
            if chain.n > left_out:
                np.testing.assert_allclose(
                    chain.mean(), iterates[left_out:].mean(axis=0), rtol=1e-9, atol=1e-12
                )
    assert used == len(batch)


@pytest.mark.parametrize("changes", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_the_cut_into_batches_does_not_matter(changes: dict[str, object]) -> None:
    """Single events, batches and a restored state that goes on are equal bit for bit."""
    of = campaign(**changes)
    batch = spread(of, 4000, seed=2)
    whole, pieces = Aggregator(of), Aggregator(of)
    whole.ingest_many(batch)
    for at in feed(pieces, batch, CUT):
        if at > 1800:
            pieces = Aggregator.restore(of, pieces.snapshot())
            pieces.ingest_many(batch[at:])
            break
    assert pieces.snapshot() == whole.snapshot()
    assert pieces.parameters() == whole.parameters()


def test_a_report_for_a_full_node_goes_to_the_child_of_its_token() -> None:
    """Beyond n_0 = 3 reports the root takes none, and a report of leaf t moves the node on t's way."""
    of = campaign(
        inference={"kind": "higrad", "branching": [2, 2], "segments": [3, 2, 4]}, rounds={"stability": 0}
    )
    server = Aggregator(of)
    batch = reports(of, 8)
    batch.chain[:] = [3, 3, 3, 0, 3, 0, 1, 2]
    server.ingest_many(batch)
    counts = {node: chain.n for node, chain in server._own.levels[0].chains.items()}
    assert counts == {0: 3, 1: 2, 2: 2, 3: 0, 4: 1, 5: 0, 6: 0}
    betas = [chain.beta for chain in server.parameters().chains]
    assert betas[2] == betas[3]
    assert betas[0] == betas[2] != betas[1]  # by these reports both inner nodes stopped at the same place


# ---------------------------------------------------------------------- estimates


def test_dc_is_made_of_the_settled_chains() -> None:
    """Mean and interval are those of the chains' averages: t_{K-1} sqrt(S_jj/K), in the user's units."""
    of = campaign(inference=DC, rounds={"stability": 0}, epsilon=8.0)
    server = Aggregator(of)
    server.ingest_many(spread(of, 20_000, seed=3))
    centres = np.array([chain.mean() for chain in server._own.levels[0].leaves()])
    estimate = server.estimate(0.9)
    assert estimate.reason is None
    np.testing.assert_allclose(estimate.average.mean, centres.mean(axis=0), rtol=1e-12)
    half = stats.t.ppf(0.95, 4) * centres.std(axis=0, ddof=1) / math.sqrt(5)
    for j, name in enumerate(of.scale.names):
        _, row = of.scale.contrast({name: 1.0})
        if name != "intercept":
            assert estimate[name].width / 2 == pytest.approx(abs(row[j]) * half[j], rel=1e-9)


def test_early_answers_say_why() -> None:
    """Before chains have settled there is a value and no interval, for every kind."""
    for changes in CAMPAIGNS.values():
        of = campaign(**changes)
        for n in (0, 30):
            server = Aggregator(of)
            server.ingest_many(spread(of, n, seed=4))
            for estimate in server.estimates().values():
                assert estimate.reason is not None
                assert estimate.reason.startswith("too early: ")
                assert not any(interval.bounded for interval in estimate.values())


def test_higrad_averages_nothing_before_the_start_is_forgotten() -> None:
    """Segments that lie before that count have no part in the average, however many reports follow."""
    settling = math.ceil(campaign(epsilon=1.0).levels[0].settling)
    inner = int(0.45 * settling)  # the first two levels lie before it, and part of each leaf
    of = campaign(
        inference={"kind": "higrad", "branching": [2, 2], "segments": [inner, inner, 2 * settling]},
        rounds={"stability": 0},
        epsilon=1.0,
    )
    (level,) = of.levels
    server = Aggregator(of)
    batch = spread(of, 12 * settling, seed=9)
    for stop in (inner - 9, 3 * inner - 99, 3 * inner + int(0.2 * settling)):
        server.ingest_many(batch[server.n_reports : stop])
        reason = server.estimate().reason
        assert reason is not None
        assert reason.startswith("too early: ")
    server.ingest_many(batch[server.n_reports :])
    leaves = server._own.levels[0].leaves()
    average = server.estimate().average
    assert isinstance(average, HiGradAverage)
    averaged = [chain.n - of.window(level, 2).start(chain.n) for chain in leaves]
    assert average.information == pytest.approx(sum(averaged))
    means = np.array([chain.mean() for chain in leaves])
    np.testing.assert_allclose(average.mean, np.average(means, axis=0, weights=averaged), rtol=1e-10)


def test_higrad_says_when_it_is_complete_and_goes_on() -> None:
    """Complete once every leaf has its n_L reports; with more reports the intervals get no wider for long."""
    of = campaign(
        inference={"kind": "higrad", "branching": [2, 2], "segments": [2000, 2000, 4000]},
        epsilon=8.0,
        rounds={"stability": 0},
    )
    server = Aggregator(of)
    batch = spread(of, 100_000, seed=5)
    seen = []
    for stop in (1_000, 10_000, 21_000, 24_000, 100_000):
        server.ingest_many(batch[server.n_reports : stop])
        estimate = server.estimate()
        leaves = server._own.levels[0].leaves()
        assert estimate.complete == (len(leaves) == 4 and min(chain.n for chain in leaves) >= 4000)
        assert estimate.as_dict()["complete"] == estimate.complete
        seen.append(estimate.complete)
    assert seen == [False, False, False, True, True]
    assert sum(chain.n for chain in server._own.levels[0].chains.values()) == 100_000
    assert estimate.reason is None
    assert server.estimate().average.information > 50_000
    assert Aggregator(campaign()).estimate().complete is None


def test_quantiles_of_several_levels_never_cross() -> None:
    """At any x values, lower and upper ends increase with tau, and are those of the levels in order."""
    of = campaign(tau=[0.49, 0.5, 0.51], rounds={"stability": 0}, epsilon=1.0)
    server = Aggregator(of)
    server.ingest_many(spread(of, 60_000, seed=6))
    crossed = 0
    for size in np.linspace(-2, 6, 21).tolist():
        x = {"size": size, "flag": 1}
        plain = [server.estimate(tau=tau).quantile(x).value for tau in (0.49, 0.5, 0.51)]
        crossed += plain != sorted(plain)
        found = server.estimates().quantiles(x)
        assert list(found) == [0.49, 0.5, 0.51]
        for end in ("value", "lower", "upper"):
            ends = [getattr(interval, end) for interval in found.values()]
            assert ends == sorted(ends)
        assert [interval.value for interval in found.values()] == sorted(plain)
        assert [server.fitted(x, tau) for tau in found] == pytest.approx(sorted(plain), rel=1e-12)
    assert crossed > 5


def test_a_level_must_be_named_where_there_are_several() -> None:
    """No tau, or one that is not the campaign's, is refused with those that there are."""
    server = Aggregator(campaign(tau=[0.3, 0.8]))
    for tau in (None, 0.5):
        with pytest.raises(InvalidInput, match=r"tau = .*: must be one of \[0.3, 0.8\]"):
            server.estimate(tau=tau)


def test_several_levels_learn_each_its_own() -> None:
    """From simulated devices each level comes to its own quantile, and each report costs one epsilon."""
    of = campaign(tau=[0.25, 0.75], epsilon=8.0, features={"size": {"lower": 0, "upper": 1}})
    server, devices = Aggregator(of), Reporter.simulated(of, seed=7)
    draw = np.random.default_rng(8)
    for size, noise in zip(draw.random(12_000).tolist(), draw.standard_normal(12_000).tolist(), strict=True):
        server.ingest(devices.report({"size": size}, 8 + 4 * size + 3 * noise, server.parameters()))
    estimates = server.estimates()
    assert estimates.n_reports == 12_000
    for tau, estimate in estimates.items():
        truth = 8 + 4 * 0.5 + 3 * stats.norm.ppf(tau)
        wrong = 8 + 4 * 0.5 + 3 * stats.norm.ppf(1 - tau)
        assert abs(estimate.n_reports - 6000) < 300
        assert abs(estimate.quantile({"size": 0.5}).value - truth) < 0.5
        assert wrong not in estimate.quantile({"size": 0.5})
    assert of.budget.epsilon == 8.0
