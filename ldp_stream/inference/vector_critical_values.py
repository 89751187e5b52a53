"""Critical values of the random-scaling F statistic of q contrasts.

One chain of n reports, W a Brownian motion and B its bridge in R^q, has for q contrasts A of full rank

    F_q = n (A m_n - A b)'(A V_n A')^-1 (A m_n - A b)/q -> W(1)'[int B B']^-1 W(1)/q,

in which Sigma cancels (Lee, Liao, Seo and Shin 2022). With q = 1 it is T^2, whose law is exact
(:mod:`~ldp_stream.inference.critical_values`). Beyond, quantiles are simulated once
(:mod:`~ldp_stream.inference.vector_table`, with standard errors below .1%): W(1) is independent of

    int B B' = sum_k xi_k xi_k'/(k pi)^2,   xi_k iid N(0, I),

so F_q = X/(q S_q), X chi-squared with q degrees of freedom and S_q the square of the q-th pivot in the
Cholesky factor of int B B': one factor of a 30 x 30 matrix serves all q.

Between the table's levels log F_q is interpolated in log T, T the exact value at q = 1, by a monotone cubic
(Fritsch and Carlson 1980). The two are nearly proportional: a level left out of the table is met to .06%.

Several chains pooled, with shares lambda_k, have sum_k lambda_k (int B B')_k in place of int B B'. S_q is a
concave function of the matrix, so S_q(pooled) >= sum_k lambda_k S_q(k), and g(s) = P(chi2_q > x s) falls with
s. For q <= 2, g is convex, so E g(sum_k lambda_k S_q(k)) <= sum_k lambda_k E g(S_q(k)) = P(F_q > x/q): the
value of one chain covers at least at its level. For larger q, g is convex beyond s = (q - 2)/x only, and
simulation shows the same. The value of one chain is therefore used for any number of them. The price: at 95%
it covers in 98.9% with two equal chains and q = 3, in 99.8% with four.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.interpolate import PchipInterpolator

from .._validate import integer_in, probability
from ..errors import InvalidInput
from .critical_values import self_normalized
from .vector_table import LEVELS, QUANTILES

__all__ = ["HIGHEST", "LARGEST", "LOWEST", "self_normalized_vector"]

LARGEST = len(QUANTILES)  # q
LOWEST, HIGHEST = LEVELS[0], LEVELS[-1]


def self_normalized_vector(level: float, q: int) -> float:
    """Return the critical value f of the random-scaling F statistic: P(F_q <= f) = level.

    The ellipsoid of q contrasts of one chain is {n (A m - A b)'(A V A')^-1(A m - A b) <= q f}.

    Parameters
    ----------
    level : float
        Coverage probability, from .8 to .999; with q = 1 anywhere in (0, 1).
    q : int
        Number of contrasts, 1 to 30.

    Returns
    -------
    float
        The critical value, without unit: exact with q = 1, else to a standard error below .1%.

    Raises
    ------
    InvalidInput
        If q or the level is outside its range.

    Examples
    --------
    >>> round(self_normalized_vector(0.95, 1), 2), round(self_normalized_vector(0.95, 2))
    (45.53, 52)
    """
    q = integer_in(1, LARGEST, q=q)
    level = probability(level=level)
    if q == 1:
        return self_normalized(level) ** 2
    if not LOWEST <= level <= HIGHEST:
        raise InvalidInput(
            f"level = {level!r}: must be from {LOWEST} to {HIGHEST} for a joint set of {q} coefficients"
        )
    return _interpolated(level, q)


@lru_cache(maxsize=1024)
def _interpolated(level: float, q: int) -> float:
    """Return the table's quantile of F_q between its levels."""
    curve = PchipInterpolator([_exact(known) for known in LEVELS], np.log(QUANTILES[q - 1]))
    return math.exp(float(curve(_exact(level))))


def _exact(level: float) -> float:
    """Return log T, which grows with the level."""
    return math.log(self_normalized(level))
