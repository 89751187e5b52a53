"""DC and HiGrad trees and several levels: each report moves its node alone, whatever the cut into batches."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp_stream import Aggregator, Campaign
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
