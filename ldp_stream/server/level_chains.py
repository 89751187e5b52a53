"""The chains of one quantile level in one partition: a tree that grows as its nodes become full.

Which node folds a report follows from the leaf that its token names and from how many reports each node has
folded (:mod:`ldp_stream.tree`), so it is a function of the log; in a batch each node takes its reports in
their order, which gives the same state as one report after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..campaign import Campaign, QuantileLevel
from .averaged_sgd import Chain

__all__ = ["LevelChains", "by_number"]

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]
T = TypeVar("T", bound=np.generic)


class LevelChains:
    """State of one quantile level in one partition.

    Parameters
    ----------
    campaign
        The campaign.
    level
        The quantile level, one of the campaign's.
    """

    def __init__(self, campaign: Campaign, level: QuantileLevel) -> None:
        self._campaign = campaign
        self._level = level
        self.tree = campaign.tree
        self._at = [0] * self.tree.leaves  # of each leaf: the node that takes its reports
        self._growing = self.tree.depth > 0  # whether some node will still become full
        self.chains: dict[int, Chain] = {0: self._chain(0, None)}
        self._branch_if_full(0)

    def _chain(self, node: int, start: Sequence[float] | None) -> Chain:
        campaign, level = self._campaign, self._level
        depth = self.tree.level(node)
        return Chain(
            campaign.p,
            level.steps,
            campaign.radius,
            campaign.window(level, depth),
            self.tree.events_before(depth),
            start,
        )

    def _branch_if_full(self, node: int) -> None:
        """Start a node's children once it is full."""
        if self.chains[node].n != self.tree.capacity(node):
            return
        for child in self.tree.children(node):
            self.chains[child] = self._chain(child, self.chains[node].iterate)
            self._branch_if_full(child)
        self._settle_leaves()

    def _settle_leaves(self) -> None:
        """Note the deepest node on the way to each leaf that has begun."""
        paths = [self.tree.path(leaf) for leaf in range(self.tree.leaves)]
        self._at = [max(node for node in path if node in self.chains) for path in paths]
        self._growing = any(node != path[-1] for node, path in zip(self._at, paths, strict=True))

    # ------------------------------------------------------------------ folding events

    def append(self, leaf: int, coordinates: Sequence[int], values: Sequence[float]) -> None:
        """Fold one decoded report of the leaf's token."""
        node = self._at[leaf]
        self.chains[node].append(coordinates, values)
        if self._growing:
            self._branch_if_full(node)

    def extend(self, leaves: Integers, gradients: Array) -> None:
        """Fold n decoded reports in order: the leaves of their tokens, (n,), and gradients, (n, p)."""
        if not self._growing:
            first = self.tree.first(self.tree.depth)
            for leaf, rows in by_number(leaves, gradients):
                self.chains[first + leaf].extend(rows)
        else:
            self._descend(0, leaves, gradients)

    def _descend(self, node: int, leaves: Integers, gradients: Array) -> None:
        """Give the node what it has room for, and each child its part of the rest."""
        chain, capacity = self.chains[node], self.tree.capacity(node)
        room = len(gradients) if capacity is None else min(capacity - chain.n, len(gradients))
        if room:
            chain.extend(gradients[:room])
            self._branch_if_full(node)
        if room == len(gradients):
            return
        children = self.tree.children(node)
        share = self.tree.leaves // self._nodes_at(children)
        for child, rows in by_number(leaves[room:] // share, np.arange(room, len(gradients))):
            start = self.tree.first(self.tree.level(children.start))
            self._descend(start + child, leaves[rows], gradients[rows])

    def _nodes_at(self, children: range) -> int:
        """Return how many nodes the level of these children has."""
        level = self.tree.level(children.start)
        return self.tree.first(level + 1) - self.tree.first(level)

    # ------------------------------------------------------------------ answers

    def leaves(self) -> list[Chain]:
        """Return the chains of the leaves that have begun."""
        first = self.tree.first(self.tree.depth)
        return [chain for node, chain in sorted(self.chains.items()) if node >= first]

    def iterate(self, leaf: int) -> list[float]:
        """Return the coefficients that the next report of a leaf is made at, working scale."""
        return self.chains[self._at[leaf]].iterate

    # ------------------------------------------------------------------ state

    def state(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield each node that has begun and its state."""
        for node, chain in sorted(self.chains.items()):
            yield node, chain.state()

    def restore(self, states: dict[int, dict[str, Array]]) -> None:
        """Take over the nodes of :meth:`state`."""
        self.chains = {node: self._chain(node, None) for node in states}
        for node, state in states.items():
            self.chains[node].restore(state)
        self._settle_leaves()


def by_number(numbers: Integers, rows: NDArray[T]) -> Iterator[tuple[int, NDArray[T]]]:
    """Yield each number that occurs, increasing, with its rows in their order."""
    first = numbers[0] if len(numbers) else 0
    if (numbers == first).all():
        if len(numbers):
            yield int(first), rows
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    found = ordered[[0, *starts]].tolist()
    for number, part in zip(found, np.split(order, starts), strict=True):
        yield number, rows[part]
