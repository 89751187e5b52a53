"""Self-normalized (random scaling) confidence intervals, from one chain or pooled over independent chains.

One chain of n averaged iterates with mean m and V = n^-2 sum_s s^2 (m_s - m)(m_s - m)' gives, for a contrast
a of the coefficients,

    a'm +- cv sqrt(a'V a / n).

Independent chains k = 1..K of n_k, N = sum n_k, shares lambda_k = n_k/N, pool to the mean
sum_k lambda_k m_k and

    W = sum_k lambda_k^2 V_k/n_k,     a'm +- cv(lambda) sqrt(a'W a),

with the critical value of :func:`~ldp_stream.inference.critical_values.self_normalized`, which falls as
chains are added. The ellipsoid of q contrasts A has the matrix q F_q A W A', F_q the value of one chain,
which is valid, if too wide, for several (:mod:`~ldp_stream.inference.vector_critical_values`). No Hessian is
estimated. Source: Lee, Liao, Seo, Shin (2022) for one chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import NoConfidenceSet
from .averages import TOO_EARLY, half_width, shape
from .critical_values import self_normalized
from .vector_critical_values import LARGEST, self_normalized_vector

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
    kind: ClassVar[Literal["sn"]] = "sn"

    @property
    def reason(self) -> str | None:
        """Why no set can be given yet, or None."""
        return TOO_EARLY if self.W is None else None

    def half_width(self, a: Sequence[float], level: float) -> float:
        """Return cv sqrt(a'W a) of the contrast a (p,), infinite where no set can be given yet."""
        if self.W is None:
            return math.inf
        return half_width(self_normalized(level, self.shares), a, self.W)

    def region(self, rows: Array, level: float) -> Array:
        """Return M = q F_q A W A' (q, q) of the contrasts A = rows (q, p).

        Raises
        ------
        NoConfidenceSet
            If no set can be given yet, q is above 30, or W is singular in these contrasts.
        InvalidInput
            If q > 1 and the level is outside the table of F_q, .8 to .999.
        """
        if self.W is None:
            raise NoConfidenceSet(TOO_EARLY)
        q = len(rows)
        if q > LARGEST:
            raise NoConfidenceSet(
                f"an ellipsoid of {q} coefficients has no critical value: must be at most {LARGEST}; "
                "simultaneous intervals can be had"
            )
        one = self_normalized(level, self.shares) ** 2 if q == 1 else q * self_normalized_vector(level, q)
        return shape(one, rows, self.W)


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
