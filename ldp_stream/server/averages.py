"""From the chains of a quantile level in all partitions to the average that its confidence sets need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..campaign import Campaign
from ..campaign_parts import DivideAndConquer, HiGrad
from ..inference.averages import TOO_EARLY, Average
from ..inference.divide_and_conquer import DivideAndConquerAverage
from ..inference.higrad import HiGradAverage
from ..inference.self_normalized import FEWEST, ChainAverage, PooledAverage, pool
from .level_chains import LevelChains

__all__ = ["average_of"]


def average_of(campaign: Campaign, place: int, parts: Sequence[LevelChains]) -> Average:
    """Return the average of one quantile level.

    Parameters
    ----------
    campaign
        The campaign.
    place
        The level's number in ``campaign.levels``.
    parts
        Its chains in each partition that holds reports.
    """
    settling = campaign.levels[place].settling
    if isinstance(campaign.inference, DivideAndConquer):
        return _divide_and_conquer(parts, settling, campaign.p)
    if isinstance(campaign.inference, HiGrad):
        return _higrad(parts, campaign.p)
    windows = [(chain.n, chain.window()) for part in parts for chain in part.chains.values()]
    found = [
        ChainAverage(window.length, window.mean, window.random_scaling, n >= settling)
        for n, window in windows
        if window is not None
    ]
    return pool(found) if found else PooledAverage(np.zeros(campaign.p), None, ())


def _divide_and_conquer(parts: Sequence[LevelChains], settling: float, p: int) -> DivideAndConquerAverage:
    """Return the average of the chains that have left their start behind; of all while none has."""
    chains = [chain for part in parts for chain in part.leaves() if chain.n]
    settled = [chain for chain in chains if chain.n >= settling and chain.averaged >= FEWEST]
    centres = np.array([chain.mean() for chain in settled or chains]).reshape(-1, p)
    return DivideAndConquerAverage(centres, None if settled else TOO_EARLY)


def _higrad(parts: Sequence[LevelChains], p: int) -> HiGradAverage:
    """Return the average of all partitions' threads; while no segment has one, of the latest iterates."""
    paths: list[list[int]] = []
    lengths: list[int] = []
    means = np.zeros((sum(part.tree.nodes for part in parts), p))
    for part in parts:
        first = len(lengths)
        lengths += [0] * part.tree.nodes
        paths += [[first + node for node in part.tree.path(leaf)] for leaf in range(part.tree.leaves)]
        for node, chain in part.chains.items():
            lengths[first + node] = chain.averaged
            means[first + node] = chain.mean()
    if max(lengths, default=0) >= FEWEST:
        return HiGradAverage.of(paths, lengths, means)
    latest = [part.iterate(leaf) for part in parts for leaf in range(part.tree.leaves)]
    mean = np.mean(np.array(latest).reshape(-1, p), axis=0, keepdims=True) if latest else np.zeros((1, p))
    return HiGradAverage(mean, np.eye(1), TOO_EARLY)
