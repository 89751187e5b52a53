"""Critical values of the random-scaling (self-normalized, SN) t statistic, for one chain or several pooled.

One chain of n reports has the mean m_n and V_n = n^-2 sum_s s^2 (m_s - m_n)(m_s - m_n)'. With the partial
sums of c'(b_i - b) of order sigma sqrt(n) W(r), W a Brownian motion,

    sqrt(n) c'(m_n - b) -> sigma Z,   Z = W(1),
    c'V_n c -> sigma^2 v,             v = int_0^1 (W(r) - r W(1))^2 dr.

v is the integral of a squared Brownian bridge: independent of Z, and with
E exp(-s v) = sqrt(sqrt(2 s)/sinh sqrt(2 s)).

Chains k = 1..K on disjoint reports, with shares lambda_k = n_k/N (sum 1) and the same sigma, are pooled by
mbar = sum_k lambda_k m_k and

    T = c'(mbar - b)/sqrt(sum_k lambda_k^2 c'V_k c/n_k).

The numerator is sigma N^-1/2 sum_k sqrt(lambda_k) Z_k, which is sigma N^-1/2 Z. As lambda_k^2/n_k =
lambda_k/N, the denominator is sigma N^-1/2 sqrt(W) with W = sum_k lambda_k v_k. So T = Z/sqrt(W), with Z
independent of W.

Craig's formula, P(|Z| > x) = (2/pi) int_0^{pi/2} exp(-x^2/(2 sin^2 theta)) dtheta, at x = t sqrt(W), averaged
over W:

    P(|T| > t) = (2/pi) int_0^{pi/2} prod_k sqrt(a_k/sinh a_k) dtheta,   a_k = t sqrt(lambda_k)/sin theta,

because s_k = t^2 lambda_k/(2 sin^2 theta) has sqrt(2 s_k) = a_k. With sin theta = 1/cosh y,
dtheta = -dy/cosh y:

    P(|T| > t) = (2/pi) int_0^inf prod_k sqrt(a_k/sinh a_k) dy/cosh y,   a_k = t sqrt(lambda_k) cosh y.

This integrand is even, smooth and falls doubly exponentially, so the trapezoidal rule converges geometrically
in 1/step and needs no adaptive quadrature.

log E exp(-s v) is convex in s and 0 at s = 0, so pooling never widens: E exp(-s W) <= E exp(-s v). By Jensen,
E exp(-s W) >= exp(-s/6) since E v = 1/6. Hence z sqrt(6) <= critical value <= critical value of one chain,
and many equal chains come down to z sqrt(6), z the normal quantile.

References
----------
Lee, Liao, Seo and Shin (2022), Fast and robust online inference with stochastic gradient descent via random
scaling, AAAI. Abadir and Paruolo (1997), Two mixed normal densities from cointegration analysis,
Econometrica. Craig (1991), A new, simple and exact result for calculating the probability of error, MILCOM.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from .._validate import non_negative, positive, probability
from ..errors import InvalidInput

__all__ = ["self_normalized", "self_normalized_tail"]

_STEP = 1 / 32  # of the trapezoidal rule in y
_SHARES_TOLERANCE = 1e-9  # how far the shares' sum may be from 1
_NEGLIGIBLE = 1520.0  # t cosh y = a from which the integrand, below sqrt(2 a) exp(-a/2), is 0 as a double
_TINY = 1e-16  # t up to which the tail is 1 in double precision


def self_normalized(level: float, shares: Sequence[float] = (1.0,)) -> float:
    """Return the two-sided critical value t of the random-scaling t statistic: P(|T| <= t) = level.

    The interval for c'b is c'mbar +- t sqrt(sum_k lambda_k^2 c'V_k c/n_k).

    Parameters
    ----------
    level : float
        Coverage probability in (0, 1).
    shares : sequence of float, shape (K,)
        lambda_k = n_k/N of each pooled chain, all above 0, sum 1, in any order. One chain by default. A chain
        without reports has no share and is left out.

    Returns
    -------
    float
        The critical value, without unit, to 1e-12 relative or 1e-14 absolute, whichever is larger; the same
        whatever the order of the shares.

    Raises
    ------
    InvalidInput
        If the level is outside (0, 1), a share is not a finite number above 0, or the shares do not sum to 1.

    Notes
    -----
    Results are kept for the latest (level, shares) pairs, so asking again is free. Source: module docstring.

    Examples
    --------
    >>> round(self_normalized(0.95), 4)
    6.7473
    >>> round(self_normalized(0.95, [0.25] * 4), 4)
    5.3589
    """
    return _solve(probability(level=level), _checked(shares))


def self_normalized_tail(t: float, shares: Sequence[float] = (1.0,)) -> float:
    """Return P(|T| > t), the two-sided p-value of a random-scaling t statistic with |T| = t.

    Parameters
    ----------
    t : float
        Absolute value of the statistic, finite and at least 0.
    shares : sequence of float, shape (K,)
        lambda_k = n_k/N of each pooled chain, all above 0, sum 1. One chain by default.

    Returns
    -------
    float
        The probability, to a relative 1e-12 down to 1e-30 and to 1e-6 below.

    Raises
    ------
    InvalidInput
        If t is negative or not finite, a share is not a finite number above 0, or the shares do not sum to 1.

    Examples
    --------
    >>> round(self_normalized_tail(6.7473), 5)
    0.05
    """
    return _tail(non_negative(t=t), _checked(shares))


def _checked(shares: Sequence[float]) -> tuple[float, ...]:
    """Return the shares as a tuple of floats, or refuse them."""
    try:
        given = tuple(shares)
    except TypeError:
        raise InvalidInput(f"shares = {shares!r}: must be a sequence of numbers > 0 with sum 1") from None
    checked = tuple(positive(**{f"shares[{k}]": share}) for k, share in enumerate(given))
    total = math.fsum(checked)
    if abs(total - 1) > _SHARES_TOLERANCE:
        raise InvalidInput(f"shares = {shares!r}: must sum to 1, but sum to {total!r}")
    return checked


@lru_cache(maxsize=1024)
def _solve(level: float, shares: tuple[float, ...]) -> float:
    log_alpha = math.log1p(-level)
    upper = 8.0
    while math.log(_tail(upper, shares)) > log_alpha:
        upper *= 2
    return float(brentq(lambda t: math.log(_tail(t, shares)) - log_alpha, 0.0, upper, xtol=1e-14))


def _tail(t: float, shares: tuple[float, ...]) -> float:
    """Trapezoidal rule for the integral over y, up to where the integrand is 0 in double precision."""
    if t <= _TINY:
        return 1.0
    if t >= _NEGLIGIBLE:
        return 0.0
    cosh = np.cosh(_STEP * np.arange(math.ceil(math.acosh(_NEGLIGIBLE / t) / _STEP) + 1))
    distinct, counts = np.unique(np.asarray(shares), return_counts=True)  # ascending: no order matters
    a = t * np.sqrt(distinct)[:, np.newaxis] * cosh
    # log sqrt(a/sinh a) without overflow for large a and without cancellation of powers for small a
    log_factor = 0.5 * (np.log(2 * a / -np.expm1(-2 * a)) - a)
    integrand = np.exp(counts @ log_factor) / cosh
    return min(1.0, float(_STEP * (integrand.sum() - integrand[0] / 2) * 2 / math.pi))
