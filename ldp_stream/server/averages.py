"""From the chains of a quantile level in all partitions to the average that its confidence sets need."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..campaign import Campaign
from ..inference.self_normalized import ChainAverage, PooledAverage, pool
from .level_chains import LevelChains

__all__ = ["average_of"]


def average_of(campaign: Campaign, place: int, parts: Sequence[LevelChains]) -> PooledAverage:
    """Return the average of one quantile level.

    Parameters
    ----------
    campaign
        The campaign.
    place
        The level's number in ``campaign.levels``.
    parts
        Its chains in each partition.
    """
    settling = campaign.levels[place].settling
    windows = [(chain.n, chain.window()) for part in parts for chain in part.chains.values()]
    found = [
        ChainAverage(window.length, window.mean, window.random_scaling, n >= settling)
        for n, window in windows
        if window is not None
    ]
    return pool(found) if found else PooledAverage(np.zeros(campaign.p), None, ())
