"""The table of vector critical values, simulated: quantiles of F_q = W(1)'[int BB']^-1 W(1)/q, q = 1..30.

W(1) is standard normal in R^q, independent of the Brownian bridges in A = int BB'. The law of A is the same
in every rotated frame, so W(1) may be turned to the last axis: F_q = X (A^-1)_qq/q with X = |W(1)|^2, which
is chi-squared with q degrees of freedom and independent of A. And 1/(A^-1)_qq is S_q, the square of the last
pivot of A's Cholesky factor. So one factor of a 30 x 30 matrix holds a draw of S_q for each q, and

    P(F_q > f) = E P(chi2_q > f q S_q),

a mean of smooth functions: W(1) itself is not drawn. The same matrix read in other orders of its axes gives
more draws; they are dependent, which standard errors from independent batches take into account.

A = sum_k xi_k xi_k'/(k pi)^2 with xi_k iid N(0, I). The first TERMS are drawn. The rest has mean t_1 I and
second cumulants that are multiples of t_2, t_j = sum_{k > TERMS} (k pi)^-2j; in its place stands a Wishart
matrix c W_nu(I) with nu c = t_1 and nu c^2 = t_2, which has both exactly. What this leaves was measured where
it is largest, at q = 30: with 30 terms the 95% quantile is 1.4% too large, with 60 terms .07%. So it falls
like TERMS^-4, and is .005% with 120 terms, below the standard error.

``python -m tests.statistical.vector_critical_values`` prints the module that is shipped (about 5 minutes).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtrc

__all__ = ["LARGEST", "LEVELS", "Draws", "draw", "matrices", "pivots", "quantile", "source"]

Array = NDArray[np.float64]
LARGEST = 30  # q
TERMS = 120
LEVELS = (0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.98, 0.99, 0.995, 0.998, 0.999)
MATRICES, PIECE, BATCHES = 2_000_000, 2500, 40
SEED = 20_240_229
_LOWEST, _HIGHEST, _BINS_IN_ONE = -10, 4, 1024  # of log S, in bins of 1/1024
_POINTS = np.exp(_LOWEST + (np.arange((_HIGHEST - _LOWEST) * _BINS_IN_ONE) + 0.5) / _BINS_IN_ONE)


def matrices(rng: np.random.Generator, n: int, terms: int = TERMS, largest: int = LARGEST) -> Array:
    """Return n draws of A = int BB', (n, largest, largest)."""
    scale = 1 / (np.pi * np.arange(1, terms + 1))
    first, second = 1 / 6 - math.fsum(scale**2), 1 / 90 - math.fsum(scale**4)  # t_1 and t_2
    degrees = first**2 / second
    rows = np.zeros((n, terms + largest, largest))
    rows[:, :terms] = rng.standard_normal((n, terms, largest)) * scale[:, np.newaxis]
    bartlett = np.triu(rng.standard_normal((n, largest, largest)), 1)
    axes = np.arange(largest)
    bartlett[:, axes, axes] = np.sqrt(rng.chisquare(degrees - axes, (n, largest)))
    rows[:, terms:] = math.sqrt(second / first) * bartlett
    return rows.transpose(0, 2, 1) @ rows


def pivots(A: Array) -> Array:
    """Return S_q for q = 1..largest in four orders of the axes, (4 n, largest)."""
    largest = A.shape[-1]
    axes = np.arange(largest)
    orders = [axes, axes[::-1], np.roll(axes, largest // 3), np.roll(axes, -(largest // 3))]
    factors = [np.linalg.cholesky(A[:, order[:, np.newaxis], order]) for order in orders]
    return np.concatenate([factor[:, axes, axes] ** 2 for factor in factors])


@dataclass(frozen=True, eq=False)
class Draws:
    """Counts of log S_q in bins, (batches, largest, bins): all that quantiles and their errors need."""

    counts: NDArray[np.uint32]

    def beyond(self, f: float, q: int) -> Array:
        """Return each batch's estimate of P(F_q > f), (batches,)."""
        counts = self.counts[:, q - 1]
        used = np.flatnonzero(counts.any(axis=0))
        tail = chdtrc(q, f * q * _POINTS[used])
        return np.asarray(counts[:, used] @ tail / counts.sum(axis=1))


def draw(n: int = MATRICES, piece: int = PIECE, seed: int = SEED, terms: int = TERMS) -> Draws:
    """Return the counts of n matrices, ``piece`` at a time, dealt to the batches in turn.

    n is a multiple of 40 times ``piece``.
    """
    rng = np.random.default_rng(seed)
    counts = np.zeros((BATCHES, LARGEST, len(_POINTS)), np.uint32)
    for number in range(n // piece):
        found = np.log(pivots(matrices(rng, piece, terms)))
        bins = np.floor((found - _LOWEST) * _BINS_IN_ONE).astype(np.int64)
        for q in range(LARGEST):
            counts[number % BATCHES, q] += np.bincount(bins[:, q], minlength=len(_POINTS)).astype(np.uint32)
    return Draws(counts)


def quantile(draws: Draws, level: float, q: int) -> tuple[float, float]:
    """Return the quantile of F_q and its standard error."""
    pooled = Draws(draws.counts.sum(axis=0, dtype=np.uint32, keepdims=True))

    def excess(log_f: float) -> float:
        return math.log(float(pooled.beyond(math.exp(log_f), q)[0]) / (1 - level))

    log_f = float(brentq(excess, math.log(2), math.log(2e3), xtol=1e-10))
    slope = (excess(log_f + 1e-3) - excess(log_f - 1e-3)) / 2e-3  # of log P in log f
    tails = draws.beyond(math.exp(log_f), q)
    relative = float(np.std(tails, ddof=1)) / math.sqrt(len(tails)) / (1 - level)
    return math.exp(log_f), math.exp(log_f) * relative / abs(slope)


def _tuple(numbers: Iterable[str]) -> str:
    return f"    ({', '.join(numbers)}),"


def source(draws: Draws) -> str:
    """Return the text of ldp_stream/inference/vector_table.py."""
    found = [[quantile(draws, level, q) for level in LEVELS] for q in range(1, LARGEST + 1)]
    rows = [_tuple(f"{value:.5g}" for value, _ in row) for row in found]
    errors = [_tuple(f"{100 * error / value:.2g}" for value, error in row) for row in found]
    n = int(draws.counts[:, 0].sum()) // 4
    return "\n".join(
        [
            f'"""Quantiles of W(1)\'[int BB\']^-1 W(1)/q from {n:,} simulated matrices.',
            "",
            "Written by tests/statistical/vector_critical_values.py, which says how; not edited by hand.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            '__all__ = ["LEVELS", "PERCENT_ERRORS", "QUANTILES"]',
            "",
            f"LEVELS = {LEVELS!r}",
            "",
            f"# Row q - 1 holds the quantiles of F_q at LEVELS, q = 1..{LARGEST}.",
            "QUANTILES = (",
            *rows,
            ")",
            "",
            "# Their standard errors, in percent of the quantile.",
            "PERCENT_ERRORS = (",
            *errors,
            ")",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(source(draw()))
