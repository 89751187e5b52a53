"""Before a collection: how wide its intervals will be after n reports, and how many a width needs.

The error of the averaged estimate is asymptotically normal with the covariance H^-1 S H^-1/n, in the working
scale, where

- H = phi E[XX'], phi the density of y~ - X'b at its tau quantile: of a normal distribution with the planning
  spread sigma, phi = phi_N(z_tau)/sigma; E[XX'] with independent slopes, uniform on their intervals;
- S is the covariance of the decoded vector at the optimum, taken to be diagonal, with the channel's second
  moments; of a sheared channel it is the vector before r_j g~_0 is added back that is taken so.

Of n reports a level gets its share, and the burn-in is left out. The expected width of an interval for a'b is

    2 c E[U] sqrt(a'H^-1 S H^-1 a/n),

c the critical value of the campaign's set and U what its scale is divided by the true one: for SN the root of
int (W(r) - r W(1))^2 dr, pooled over partitions, from E sqrt(W) = int_0^inf (1 - E e^-sW) s^-3/2 ds/(2
sqrt(pi)); for DC and HiGrad with m chains or leaves that of chi^2_{m-1}/(m - 1). It is a plan, not a promise:
errors that are not normal, features that do not fill their bounds and slow mixing make intervals wider.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import norm

from ._validate import positive, probability
from .campaign import Campaign, QuantileLevel
from .channels.cqx import CQX
from .channels.moments import combined, expected_raw
from .inference.averages import t_value
from .inference.critical_values import self_normalized

__all__ = ["expected_width", "reports_for"]

Array = NDArray[np.float64]


def expected_width(
    campaign: Campaign, n: float, tau: float, *, level: float = 0.95, spread: float = 0.2
) -> dict[str, float]:
    """Return the expected width of each coefficient's interval after n reports, in the user's units.

    Parameters
    ----------
    campaign
        The campaign.
    n
        Reports of the whole campaign, > 0.
    tau
        Which of the campaign's quantile levels.
    level
        Coverage in (0, 1).
    spread
        Planning standard deviation of y~ around its fit, in the working scale, > 0.

    Raises
    ------
    InvalidInput
        If an argument is out of range.

    Examples
    --------
    >>> campaign = Campaign(kind="quantile", name="x", tau=0.5, epsilon=2, target={"lower": 0, "upper": 2},
    ...                     features={"a": {"lower": -1, "upper": 1}})
    >>> {name: round(width, 3) for name, width in expected_width(campaign, 100_000, 0.5).items()}
    {'intercept': 0.008, 'a': 0.024}
    """
    positive(n=n)
    own = next(at for at in campaign.levels if at.tau == tau)
    covariance = _covariance(own, positive(spread=spread))
    events = n / len(campaign.levels) * (1 - campaign.burn_in)
    factor = 2 * _critical(campaign, probability(level=level)) / math.sqrt(events)
    found = {}
    for name in campaign.scale.names:
        _, a = campaign.scale.contrast({name: 1.0})
        found[name] = factor * math.sqrt(float(np.array(a) @ covariance @ np.array(a)))
    return found


def reports_for(
    campaign: Campaign, width: float, tau: float, *, level: float = 0.95, spread: float = 0.2
) -> dict[str, int]:
    """Return how many reports the expected width of each coefficient's interval needs.

    At least those before which no interval is given. Parameters as in :func:`expected_width`, the width in
    the coefficient's units.
    """
    at_one = expected_width(campaign, 1.0, tau, level=level, spread=spread)
    own = next(at for at in campaign.levels if at.tau == tau)
    chains = len(campaign.levels) * campaign.partitions * (campaign.tree.leaves if _many(campaign) else 1)
    least = own.settling * chains
    need = {name: max(least, (one / positive(width=width)) ** 2) for name, one in at_one.items()}
    return {name: math.ceil(n) if n < 2**63 else 2**63 for name, n in need.items()}


def _many(campaign: Campaign) -> bool:
    return campaign.inference.kind == "dc"


def _covariance(level: QuantileLevel, spread: float) -> Array:
    """Return H^-1 S H^-1 in the working scale, (p, p)."""
    channel = level.mechanism
    p = channel.p
    lower, upper = np.array(channel.intervals).reshape(-1, 2).T
    mean = np.concatenate([[1.0], (lower + upper) / 2])
    second = np.outer(mean, mean) + np.diag(np.concatenate([[0.0], (upper - lower) ** 2 / 12]))
    density = norm.pdf(norm.ppf(level.tau)) / spread
    noise, back = np.array(channel.second_moments), np.eye(p)
    if isinstance(channel, CQX) and channel.shear:
        noise[1:] = [combined(expected_raw(channel.tables, j), channel.design, 0.0) for j in range(p - 1)]
        back[1:, 0] = channel.anchors
    inverse = np.linalg.inv(density * second) @ back
    return np.asarray(inverse @ np.diag(noise) @ inverse.T)


def _critical(campaign: Campaign, level: float) -> float:
    """Return c E[U]."""
    if campaign.inference.kind == "sn":
        shares = [1 / campaign.partitions] * campaign.partitions
        return self_normalized(level, shares) * _mean_root(campaign.partitions)
    m = campaign.tree.leaves * campaign.partitions
    chi = math.sqrt(2 / (m - 1)) * math.exp(gammaln(m / 2) - gammaln((m - 1) / 2))
    return t_value(level, m) * chi


def _mean_root(partitions: int) -> float:
    """Return E sqrt(W), W the mean of ``partitions`` independent integrals of a squared Brownian bridge."""

    def tail(s: float) -> float:
        root = math.sqrt(2 * s / partitions)
        log = 0.5 * (math.log(2 * root / -math.expm1(-2 * root)) - root)
        return -math.expm1(partitions * log)

    # with s = x^2, ds s^-3/2 = 2 dx/x^2; the tail is s/6 near 0
    low = quad(lambda x: 2 * tail(x * x) / (x * x) if x > 1e-6 else 1 / 3, 0, 10)[0]
    high = quad(lambda u: 2 * tail(1 / (u * u)) if u > 0 else 2.0, 0, 0.1)[0]
    return float((low + high) / (2 * math.sqrt(math.pi)))
