"""What every kind of average answers, and what the kinds have in common.

An average is what the chains of a campaign come to: a mean m (p,) of the coefficients, and what is known of
its error without a Hessian. For a contrast a'b it gives the half-width of an interval, for q rows A of
contrasts the matrix M of the ellipsoid

    {A b: (A b - A m)' M^-1 (A b - A m) <= 1}.

All kinds have M = f A V A' with V (p, p) a scaling matrix and f a critical value:

| kind | V | f for q contrasts | half-width of one contrast |
| --- | --- | --- | --- |
| sn | W, of the pooled chains | q F_q (random scaling) | t sqrt(a'V a), t random scaling |
| dc | S/K | T^2 of q and K | t_{K-1} sqrt(a'V a) |
| higrad | S/(1'Sigma^-1 1) | T^2 of q and B | t_{B-1} sqrt(a'V a) |

T^2 of q and m is the quantile of q (m - 1)/(m - q) F_{q, m-q}, which needs m > q (Hotelling 1931). With q = 1
it is the square of the t quantile, so an ellipsoid of one contrast is its interval.

Where a set does not exist there is no number: :attr:`Average.reason` says why there is no interval, and
:meth:`Average.region` raises :class:`~ldp_stream.errors.NoConfidenceSet` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, stdtrit

from ..errors import NoConfidenceSet

__all__ = ["TOO_EARLY", "Average", "half_width", "shape", "t_squared", "t_value"]

Array = NDArray[np.float64]
TOO_EARLY = "too early"  # the reason of an average whose chains have not left their start behind
_SINGULAR = 1e-12  # smallest eigenvalue of a correlation matrix that is told from 0


class Average(Protocol):
    """The mean of a campaign's chains, and the confidence sets around it, in the working scale."""

    @property
    def kind(self) -> str:
        """The kind of inference, as a campaign names it: "sn", "dc" or "higrad"."""

    @property
    def mean(self) -> Array:
        """The mean of the coefficients, (p,)."""

    @property
    def reason(self) -> str | None:
        """Why no contrast has an interval, or None; TOO_EARLY while the chains are on their way."""

    def half_width(self, a: Sequence[float], level: float) -> float:
        """Return the half-width of the interval of a'b, a (p,); infinite where there is a reason."""

    def region(self, rows: Array, level: float) -> Array:
        """Return the matrix M (q, q) of the ellipsoid of the contrasts ``rows`` (q, p).

        Raises
        ------
        NoConfidenceSet
            If there is none; the message is the reason.
        """


def t_value(level: float, degrees: int) -> float:
    """Return t with P(|t_degrees| <= t) = level.

    Examples
    --------
    >>> round(t_value(0.95, 9), 4)
    2.2622
    """
    return float(stdtrit(degrees, (1 + level) / 2))


def t_squared(level: float, q: int, samples: int, noun: str) -> float:
    """Return the quantile of Hotelling's T^2 of q contrasts from independent samples of one mean.

    Parameters
    ----------
    level
        Coverage in (0, 1).
    q
        Contrasts.
    samples
        m, chains or threads.
    noun
        What the samples are called, for the message.

    Raises
    ------
    NoConfidenceSet
        If m <= q: the samples lie in a plane, and no ellipsoid holds q contrasts.

    Examples
    --------
    >>> round(t_squared(0.95, 2, 10, "chains"), 3)
    10.033
    """
    if samples <= q:
        raise NoConfidenceSet(
            f"an ellipsoid of {q} coefficients needs more than {q} {noun}: there are {samples}; "
            "fewer coefficients or simultaneous intervals can be had"
        )
    return q * (samples - 1) / (samples - q) * float(fdtri(q, samples - q, level))


def half_width(critical: float, a: Sequence[float], V: Array) -> float:
    """Return critical sqrt(a'V a); rounding below 0 under the root counts as 0."""
    vector = np.asarray(a, np.float64)
    return critical * math.sqrt(max(float(vector @ V @ vector), 0.0))


def shape(critical: float, rows: Array, V: Array) -> Array:
    """Return the ellipsoid's matrix M = critical A V A' of the contrasts A = rows (q, p), exactly symmetric.

    Raises
    ------
    NoConfidenceSet
        If A V A' is singular: the scaling matrix has not seen all directions.
    """
    scaling = rows @ V @ rows.T
    scaling = (scaling + scaling.T) / 2
    sizes = np.sqrt(np.maximum(np.diag(scaling), 0.0))
    if not sizes.all() or np.linalg.eigvalsh(scaling / np.outer(sizes, sizes))[0] < _SINGULAR:
        raise NoConfidenceSet(
            "the scaling matrix of these coefficients is singular in double precision: the chains have not "
            "moved in some direction, or a feature's bounds are too far from 0 for their width"
        )
    return critical * scaling
