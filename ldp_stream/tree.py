"""Which chain folds an event: a public tree of chains, one for each kind of confidence set.

A partition's reports go through a tree of depth L with branching B_1..B_L. A node of level l folds n_l events
and is then full; each of its B_{l+1} children starts where it stopped and goes on with the step sizes of its
own path (the events on the way from the root). A report's token names a leaf, and the report goes to the
deepest node on the way to that leaf whose parent is full: so a report that was made for a segment which is
full by now goes to the child that its token names, and no report is used twice.

=========  =========================  =================================================================
set        tree                       events
=========  =========================  =================================================================
SN         one node                   all to it
DC         K leaves under a root      n_0 = 0: the root folds nothing, every leaf starts at the start
           of no events
HiGrad     B_1..B_L                   n_0, n_1, .. in each node; leaves go on after the horizon
=========  =========================  =================================================================

The leaves of HiGrad never become full: what comes after the horizon goes on in the leaf that its token names.
The thread averages stay averages of consecutive iterates, only longer ones, and their covariance
(:mod:`ldp_stream.inference.higrad`) is made of the lengths as they are, so the set keeps its level.

Source: Su and Zhu (2018, 2023), HiGrad: uncertainty quantification for online learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

__all__ = ["ChainTree"]


@dataclass(frozen=True)
class ChainTree:
    """A tree of chains; its nodes are numbered level by level from the root, 0.

    Parameters
    ----------
    branching
        B_1..B_L, each at least 2; empty for a single chain.
    segments
        n_0..n_{L-1}, the events after which a node of these levels is full.

    Examples
    --------
    >>> tree = ChainTree(branching=(2, 2), segments=(10, 20))
    >>> tree.leaves, tree.nodes, tree.path(2)
    (4, 7, (0, 2, 5))
    >>> tree.children(2), tree.level(5), tree.events_before(2)
    (range(5, 7), 2, 30)
    """

    branching: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        """Nodes of each level."""
        return tuple(prod(self.branching[:level]) for level in range(len(self.branching) + 1))

    @property
    def depth(self) -> int:
        """L, the level of the leaves."""
        return len(self.branching)

    @property
    def leaves(self) -> int:
        """Number of leaves: the chains that parameters and reports name."""
        return self._widths[-1]

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(self._widths)

    def first(self, level: int) -> int:
        """Return the number of the first node of a level."""
        return sum(self._widths[:level])

    def level(self, node: int) -> int:
        """Return the level of a node."""
        return next(level for level in reversed(range(self.depth + 1)) if node >= self.first(level))

    def children(self, node: int) -> range:
        """Return the numbers of a node's children, none of a leaf."""
        level = self.level(node)
        if level == self.depth:
            return range(0)
        count = self.branching[level]
        start = self.first(level + 1) + (node - self.first(level)) * count
        return range(start, start + count)

    def path(self, leaf: int) -> tuple[int, ...]:
        """Return the nodes from the root to a leaf, L + 1 of them."""
        return tuple(
            self.first(level) + leaf * width // self.leaves for level, width in enumerate(self._widths)
        )

    def capacity(self, node: int) -> int | None:
        """Return after how many events a node is full; None for a leaf, which never is."""
        level = self.level(node)
        return None if level == self.depth else self.segments[level]

    def events_before(self, level: int) -> int:
        """Return the events on the path to a node of a level: where its step sizes go on."""
        return sum(self.segments[:level])

    def stretch(self, n: int) -> tuple[int, int]:
        """Return (chains, events): how many chains share the reports after ``n``, and each path's events.

        It takes a level to begin when all nodes before it are full, which holds but for the chance that sends
        reports to one child rather than another.

        Examples
        --------
        >>> tree = ChainTree(branching=(2, 2), segments=(10, 20))
        >>> tree.stretch(0), tree.stretch(10), tree.stretch(30), tree.stretch(50), tree.stretch(450)
        ((1, 0), (2, 10), (2, 20), (4, 30), (4, 130))
        """
        events = 0
        for width, segment in zip(self._widths, self.segments, strict=False):
            if n < width * segment:
                return width, events + n // width
            n -= width * segment
            events += segment
        return self.leaves, events + n // self.leaves
