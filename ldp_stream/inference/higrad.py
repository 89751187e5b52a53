"""HiGrad: confidence sets from the threads of a tree of chains (Su and Zhu 2018/2023), any segment lengths.

A tree of segments: a child goes on where its parent stopped, on reports of its own. The average over segment
v, of n_v iterates, is nearly N(b, Sigma/n_v), and the averages of different segments are nearly independent.
A thread t is a path from a root to a leaf, and its estimate is

    theta_t = sum_l w_tl (average over its segment at level l),

w_tl proportional to the number of iterates averaged at level l in all, N_l = sum of n_v over the level; over
the levels at which the thread has an average, so that weights sum to 1. Threads are dependent through the
segments that they share: Cov(theta_t, theta_t') = Sigma R_tt' with

    R_tt' = sum over shared segments v, at level l, of w_tl w_t'l/n_v,

which is known. Generalised least squares with g = R^-1 1, I = 1'g:

    theta = sum_t g_t theta_t/I,    V = (Theta - 1 theta')'R^-1(Theta - 1 theta')/((B - 1) I),
    contrast:   a'theta -+ t_{B-1} sqrt(a'V a),
    ellipsoid:  (theta - b)'V^-1(theta - b) ~ q (B - 1)/(B - q) F_{q, B-q},   B > q threads.

These laws are exact for normal averages: with R = C C', the rows of C^-1 Theta are independent with
covariance Sigma and mean (C^-1 1) b', a regression on one column. For equal lengths 1 is an eigenvector of R,
theta is the plain mean of the threads, and V = (1'R 1)(..)'R^-1(..)/(B^2 (B - 1)), the formula of Su and Zhu.

Several independent trees (one a partition) side by side are just more threads. Threads that differ in no
segment with an average count once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, NoConfidenceSet
from .averages import TOO_EARLY, half_width, shape, t_squared, t_value
from .self_normalized import FEWEST

__all__ = ["HiGradAverage"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HiGradAverage:
    """The estimates of B threads with their known dependence, and the confidence sets around their mean.

    Parameters
    ----------
    threads
        Theta, shape (B, p), working scale.
    dependence
        R, shape (B, B), positive definite.
    reason
        Why no set can be given, or None; filled in when there are fewer than two threads.
    """

    threads: Array
    dependence: Array
    reason: str | None = None
    kind: ClassVar[Literal["higrad"]] = "higrad"

    def __post_init__(self) -> None:
        """Say why there is no set where threads are too few."""
        threads = len(self.threads)
        if self.reason is None and threads < 2:
            few = "the threads share all their segments so far, and intervals need two that differ"
            object.__setattr__(self, "reason", few if threads else TOO_EARLY)

    @classmethod
    def of(cls, paths: ArrayLike, lengths: ArrayLike, means: ArrayLike, *, fewest: int = FEWEST) -> Self:
        """Return the average of a tree, or of several, from the averages of its segments.

        Parameters
        ----------
        paths
            Segments of each thread from its root to its leaf, shape (B, L + 1), numbers below ``nodes``.
        lengths
            n_v, iterates averaged in each segment, shape (nodes,); 0 where there are none yet.
        means
            Average over each segment, shape (nodes, p); whatever stands where there is none is ignored.
        fewest
            Segments with fewer iterates count as empty: the average of a few, which are close to each other,
            varies much less than Sigma/n_v.

        Raises
        ------
        InvalidInput
            If shapes do not agree, a number of a segment does not exist, a segment stands at two levels or
            has two parents, two threads end in one leaf, a length is below 0, or an average is not finite.

        Examples
        --------
        >>> tree = HiGradAverage.of([[0, 1], [0, 2]], [200, 100, 100], [[1.0], [2.0], [4.0]])
        >>> tree.mean.tolist(), tree.threads.tolist()
        ([2.0], [[1.5], [2.5]])
        """
        nodes, n, averages = _checked(paths, lengths, means)
        n = np.where(n >= fewest, n, 0.0)
        totals = np.array([n[np.unique(level)].sum() for level in nodes.T])
        weights = np.where(n[nodes] > 0, totals, 0.0)
        there = weights.sum(axis=1) > 0
        weights = weights[there] / weights[there].sum(axis=1, keepdims=True)
        design = np.zeros((len(weights), len(n)))  # of the threads in the segments
        np.put_along_axis(design, nodes[there], weights, axis=1)
        design = design[np.sort(np.unique(design, axis=0, return_index=True)[1])]
        used = np.flatnonzero(n)
        design = design[:, used]
        if not np.isfinite(averages[used]).all():
            raise InvalidInput("means: must be finite where lengths are not 0")
        return cls(design @ averages[used], design / n[used] @ design.T)

    @cached_property
    def _whitened(self) -> tuple[Array, Array]:
        """C^-1 Theta (B, p) and C^-1 1 (B,), with R = C C'."""
        factor = np.linalg.cholesky(self.dependence)
        ones = np.ones(len(self.threads))
        return np.linalg.solve(factor, self.threads), np.linalg.solve(factor, ones)

    @cached_property
    def information(self) -> float:
        """I = 1'R^-1 1: the number of independent iterates that the mean is worth."""
        ones = self._whitened[1]
        return float(ones @ ones)

    @cached_property
    def mean(self) -> Array:
        """The weighted mean of the threads, shape (p,); zeros without threads."""
        if not len(self.threads):
            return np.zeros(self.threads.shape[1])
        theta, ones = self._whitened
        return ones @ theta / self.information

    @cached_property
    def V(self) -> Array:
        """The estimated covariance of the mean, shape (p, p)."""
        theta, ones = self._whitened
        gaps = theta - np.outer(ones, self.mean)
        return gaps.T @ gaps / ((len(gaps) - 1) * self.information)

    def half_width(self, a: Sequence[float], level: float) -> float:
        """Return t_{B-1} sqrt(a'V a) of the contrast a (p,), infinite where there is a reason."""
        if self.reason is not None:
            return math.inf
        return half_width(t_value(level, len(self.threads) - 1), a, self.V)

    def region(self, rows: Array, level: float) -> Array:
        """Return M = f A V A' (q, q) of the contrasts A = rows (q, p), f the quantile of T^2.

        Raises
        ------
        NoConfidenceSet
            If there is a reason, B <= q, or V is singular in these contrasts.
        """
        if self.reason is not None:
            raise NoConfidenceSet(self.reason)
        return shape(t_squared(level, len(rows), len(self.threads), "threads"), rows, self.V)


def _checked(
    paths: ArrayLike, lengths: ArrayLike, means: ArrayLike
) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the tree as arrays, or refuse it."""
    nodes = np.asarray(paths)
    n = np.asarray(lengths, np.float64)
    averages = np.asarray(means, np.float64)
    if nodes.ndim != 2 or not nodes.size or nodes.dtype.kind not in "iu":
        raise InvalidInput("paths: must be whole numbers of shape (threads, levels)")
    if n.ndim != 1 or averages.ndim != 2 or len(averages) != len(n):
        raise InvalidInput("lengths, means: must have shapes (nodes,) and (nodes, p)")
    beyond = nodes[(nodes < 0) | (nodes >= len(n))]
    if beyond.size:
        raise InvalidInput(f"paths: names segment {beyond[0]}: must be from 0 to {len(n) - 1}")
    if not (np.isfinite(n) & (n >= 0)).all():
        raise InvalidInput(f"lengths = {n.tolist()!r}: must be finite and at least 0")
    place: dict[int, tuple[int, ...]] = {}  # the path to each segment
    for path in nodes.tolist():
        for level, node in enumerate(path):
            if place.setdefault(node, tuple(path[:level])) != tuple(path[:level]):
                raise InvalidInput(f"paths: segment {node} is reached in two ways: must be a tree")
    if len(np.unique(nodes[:, -1])) < len(nodes):
        raise InvalidInput("paths: two threads end in one leaf: must be different")
    return nodes.astype(np.int64), n, averages
