"""Self-normalized (random scaling) confidence intervals, from one chain or pooled over independent chains.

One chain of n averaged iterates with mean m and V = n^-2 sum_s s^2 (m_s - m)(m_s - m)' gives, for a contrast
a of the coefficients,

    a'm +- cv sqrt(a'V a / n).

Independent chains k = 1..K of n_k, N = sum n_k, shares lambda_k = n_k/N, pool to the mean
sum_k lambda_k m_k and

    W = sum_k lambda_k^2 V_k/n_k,     a'm +- cv(lambda) sqrt(a'W a),

with the critical value of :func:`~ldp_stream.inference.critical_values.self_normalized`, which falls as
chains are added. No Hessian is estimated. Source: Lee, Liao, Seo, Shin (2022) for one chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .critical_values import self_normalized

__all__ = ["FEWEST", "ChainAverage", "PooledAverage", "pool"]

Array = NDArray[np.float64]
FEWEST = 100  # averaged iterates below which a chain's V says nothing


@dataclass(frozen=True, eq=False)
class ChainAverage:
    """One chain's averaging window: its length, mean (p,) and random scaling matrix V (p, p).

    ``settled`` says whether the chain is past the public count before which no interval is given.
    """

    length: int
    mean: Array
    V: Array
    settled: bool = True


@dataclass(frozen=True, eq=False)
class PooledAverage:
    """The pooled mean (p,), its scaling matrix W (p, p) and the chains' shares.

    W is None where no set can be given yet.
    """

    mean: Array
    W: Array | None
    shares: tuple[float, ...]

    def half_width(self, a: Sequence[float], level: float) -> float:
        """Return cv sqrt(a'W a) of the contrast a (p,), infinite where no set can be given yet."""
        if self.W is None:
            return math.inf
        vector = np.asarray(a, np.float64)
        return self_normalized(level, self.shares) * math.sqrt(max(float(vector @ self.W @ vector), 0.0))


def pool(chains: Sequence[ChainAverage]) -> PooledAverage:
    """Return the pooled average of independent chains, at least one.

    Chains that have not settled or are below FEWEST iterates are left out while others have more; where none
    has, the mean has no set.
    """
    enough = [chain for chain in chains if chain.settled and chain.length >= FEWEST]
    used = enough or list(chains)
    total = sum(chain.length for chain in used)
    shares = tuple(chain.length / total for chain in used)
    mean = np.sum([share * chain.mean for share, chain in zip(shares, used, strict=True)], axis=0)
    if not enough:
        return PooledAverage(mean, None, shares)
    parts = [share**2 / chain.length * chain.V for share, chain in zip(shares, used, strict=True)]
    return PooledAverage(mean, np.sum(parts, axis=0), shares)
