"""The public tree of chains: numbers, paths, capacities, and how reports spread over it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.tree import ChainTree

TREES = [
    ChainTree(),
    ChainTree((3,), (0,)),
    ChainTree((2, 2), (10, 20)),
    ChainTree((4, 2, 3), (5, 1, 7)),
]
every_tree = pytest.mark.parametrize("tree", TREES)


@every_tree
def test_paths_follow_children(tree: ChainTree) -> None:
    """Every path goes from the root by children to its leaf; leaves come in the order of their digits."""
    for leaf in range(tree.leaves):
        path = tree.path(leaf)
        assert path[0] == 0
        assert [tree.level(node) for node in path] == list(range(tree.depth + 1))
        for parent, child in itertools.pairwise(path):
            assert child in tree.children(parent)
    digits = list(itertools.product(*map(range, tree.branching)))
    for leaf, choice in enumerate(digits):
        node = 0
        for digit in choice:
            node = tree.children(node)[digit]
        assert tree.path(leaf)[-1] == node


@every_tree
def test_every_node_is_one_child(tree: ChainTree) -> None:
    """The root and all children together are the nodes 0, 1, .., each once."""
    children = [child for node in range(tree.nodes) for child in tree.children(node)]
    assert [0, *sorted(children)] == list(range(tree.nodes))
    assert len({tree.path(leaf)[-1] for leaf in range(tree.leaves)}) == tree.leaves


@given(st.sampled_from(TREES), st.integers(0, 500))
def test_reports_spread_as_a_fair_walk_does(tree: ChainTree, n: int) -> None:
    """If each node's reports went to its children in turn, ``stretch`` would say how many nodes take them."""
    folded = [0] * tree.nodes
    turn = [0] * tree.nodes
    for _ in range(n):
        node = 0
        while folded[node] == tree.capacity(node):
            children = tree.children(node)
            turn[node] += 1
            node = children[(turn[node] - 1) % len(children)]
        folded[node] += 1
    chains, events = tree.stretch(n)
    open_nodes = [node for node in range(tree.nodes) if folded[node] != tree.capacity(node)]
    taking = [node for node in open_nodes if not any(node in tree.children(up) for up in open_nodes)]
    level = min(tree.level(node) for node in taking)
    assert chains == tree.first(level + 1) - tree.first(level)
    fewest = min(folded[node] for node in taking if tree.level(node) == level)
    assert fewest <= events - tree.events_before(level) <= fewest + 1
