"""Half-widths of confidence intervals of single coefficients, for all replications at once.

The formulas are those of :mod:`ldp_stream.inference`, on arrays with a leading dimension of R replications.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from ..inference.critical_values import self_normalized

__all__ = ["SNWindow", "divided", "spread_over_threads", "thread_weights", "tree_threads"]

Array = NDArray[np.float64]


def divided(centres: Array, level: float) -> tuple[Array, Array]:
    """Return mean and half-width, each (R, p), from the averages of K chains, (R, K, p).

    t_{K-1} sqrt(S/K), S the variance of the K averages.
    """
    K = centres.shape[1]
    quantile = student.ppf((1 + level) / 2, K - 1)
    return centres.mean(axis=1), np.asarray(quantile * centres.std(axis=1, ddof=1) / math.sqrt(K))


def thread_weights(branching: Sequence[int], lengths: Sequence[int]) -> tuple[Array, Array]:
    """Return w_l, (L + 1,), and Sigma, (B, B), of a HiGrad tree whose segments average ``lengths`` iterates.

    w_l is proportional to n_l prod_{j <= l} B_j; Sigma_tt' is the sum of w_l^2/n_l over the segments that the
    threads t and t' share.

    Examples
    --------
    >>> w, Sigma = thread_weights([2, 2], [100, 100, 100])
    >>> (7 * w).round(9).tolist(), Sigma.shape
    ([1.0, 2.0, 4.0], (4, 4))
    """
    widths = np.cumprod([1, *branching])
    w = np.array(lengths) * widths / float(np.dot(lengths, widths))
    leaf = np.arange(widths[-1])
    Sigma = np.zeros((leaf.size, leaf.size))
    for weight, length, width in zip(w, lengths, widths, strict=True):
        node = leaf * width // leaf.size
        if length:
            Sigma += weight**2 / length * (node[:, None] == node)
    return w, Sigma


def spread_over_threads(levels: Sequence[Array], w: Array, replications: int) -> Array:
    """Return the threads' estimates, (R, B, p), from the segments' averages, level by level (R nodes, p)."""
    leaves = len(levels[-1]) // replications
    return np.asarray(
        np.sum(
            [
                weight
                * np.repeat(
                    level.reshape(replications, -1, level.shape[1]), leaves * replications // len(level), 1
                )
                for weight, level in zip(w, levels, strict=True)
            ],
            axis=0,
        )
    )


def tree_threads(threads: Array, Sigma: Array, level: float) -> tuple[Array, Array]:
    """Return mean and half-width, each (R, p), from the B threads' estimates, (R, B, p), and their Sigma.

    se^2 = (1'Sigma 1)(mu - mubar 1)'Sigma^-1(mu - mubar 1)/(B^2 (B - 1)) per coefficient, t_{B-1}.
    """
    B = threads.shape[1]
    mean = threads.mean(axis=1)
    gaps = threads - mean[:, None]
    form = np.einsum("rtp,ts,rsp->rp", gaps, np.linalg.inv(Sigma), gaps)
    variance = Sigma.sum() * form / (B**2 * (B - 1))
    return mean, np.asarray(student.ppf((1 + level) / 2, B - 1) * np.sqrt(variance))


class SNWindow:
    """Average and diagonal of V of the iterates of C chains, each from its own start on.

    With D_t the sum of the first t iterates less the window's first one, V is
    (sum D_t^2 - 2 m sum t D_t + m^2 sum t^2)/L^2, m = D_L/L.
    """

    def __init__(self, columns: int, p: int) -> None:
        self.length = np.zeros(columns)
        self._origin = np.zeros((columns, p))
        self._total, self._squares, self._weighted = np.zeros((3, columns, p))

    def restart(self, where: NDArray[np.bool_]) -> None:
        """Forget what some chains have; their windows start with their next iterate."""
        self.length[where] = 0
        for part in (self._total, self._squares, self._weighted):
            part[where] = 0

    def add(self, iterates: Array) -> None:
        """Add iterates, (T, C, p)."""
        self._origin[self.length == 0] = iterates[0][self.length == 0]
        sums = iterates - self._origin
        sums[0] += self._total
        np.cumsum(sums, axis=0, out=sums)
        self._squares += np.einsum("tcp,tcp->cp", sums, sums)
        t = np.arange(1.0, len(sums) + 1)
        self._weighted += np.einsum("t,tcp->cp", t, sums) + self.length[:, None] * sums.sum(axis=0)
        self._total = sums[-1].copy()
        self.length += len(sums)

    def mean(self) -> Array:
        """Return the averages, (C, p)."""
        return np.asarray(self._origin + self._total / self.length[:, None])

    def random_scaling(self) -> Array:
        """Return the diagonals of V, (C, p)."""
        L = self.length[:, None]
        m = self._total / L
        moment = L * (L + 1) * (2 * L + 1) / 6
        return np.asarray((self._squares - 2 * m * self._weighted + m**2 * moment) / L**2)

    def half_width(self, level: float) -> Array:
        """Return self-normalized half-widths, (C, p)."""
        return np.asarray(self_normalized(level) * np.sqrt(self.random_scaling() / self.length[:, None]))
