"""What the reports of a stretch still know when its average is taken: two free corrections, relaxation times.

**Newton step.** A chain with steps eta forgets its start at the rate eta h_j in coordinate j, h_j the
curvature. Over a stretch with the mean point m and the mean decoded gradient gbar, g~ is near h (b - b*) plus
noise, so

    m - P gbar,   P_j = S_bb,j/max(S_gb,j, .2 sum eta g~_j^2),

takes away what the stretch has not forgotten, without a report of its own: at rest S_gb = h S_bb and
sum eta g~^2 = 2 h S_bb, so P is near 1/h. |P gbar| is held to 3 sqrt(S_bb/N), three deviations of the points:
a start that decays is that far off after one relaxation time, and a stretch of less does not know P. It held

    c^_j = N (sum eta g~_j^2/sum g~_j^2)/P_j

relaxation times.

**Curvature of the distribution function.** The points fluctuate about their mean, u = b - bbar, and the mean
of F over that cloud is not F at its centre. With normal errors of standard deviation s and a normal cloud,
E F(X'(b + u)) is the normal distribution function with the variance T^2 = s^2 + E(X'u)^2: it reaches tau at
z_tau T where F does at z_tau s, and its slope there is phi_tau/T. The stretch knows that slope, 1/P_0, and
E(X'u)^2 = sum_j min(1, P_0/P_j) S_bb,j/N, since P_0/P_j is near E x_j^2. So the intercept's mean is off by

    delta = z_tau (T - sqrt(max(T^2 - E(X'u)^2, 0))),   T = phi_tau P_0,

which is taken off. Only the shape of F is a convention: for heavier tails the shift is up to 1.6 times as
large (Student's t with 3 degrees of freedom at .75 and .9), for skew laws it may be anything, so |delta|/2 is
added to the half-width of the intercept.

**Width.** Intervals are widened by 1 + 4/max(c^_j - 4, 2), those of K chains by 1 + .4 K/max(c^_j - 4, .2 K),
c^_j summed over the chains: the sample of relaxation times is small. Calibrated by simulation
(docs/coverage.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..adaptive import PublicScale
from ..epoch_sums import EpochSums

__all__ = ["ALLOWANCE", "Correction", "correct", "curvature_bias", "doubts", "widening"]

Array = NDArray[np.float64]
ALLOWANCE = 0.5  # of the intercept's shift, added to its half-width
_LEAST_PULL = 0.2
_MOST_DEVIATIONS = 3.0  # of the points: the largest Newton step
_FEW_RELAXATIONS = 20.0
_LARGE_BIAS = 0.5
_LARGE_GAP = 3.0  # standard errors
_SMALL_SPREAD = 0.03


@dataclass(frozen=True, eq=False)
class Correction:
    """What to do with the average of a stretch.

    Parameters
    ----------
    newton
        P gbar, held to three deviations of the points, (..., p): taken off the average.
    shift
        delta, (...): taken off the intercept.
    relaxations
        c^, (..., p).
    """

    newton: Array
    shift: Array
    relaxations: Array

    def apply(self, mean: Array) -> Array:
        """Return the corrected average, (..., p)."""
        corrected = np.asarray(mean - self.newton)
        corrected[..., 0] -= self.shift
        return corrected


def _ratio(above: Array, below: Array) -> Array:
    """Return above/below, 0 where ``below`` is not positive."""
    return np.divide(above, below, out=np.zeros_like(below), where=below > 0)


def correct(sums: EpochSums, public: PublicScale) -> Correction:
    """Return the corrections of a stretch's average.

    Parameters
    ----------
    sums
        Sums over the reports of the averaged stretch.
    public
        The campaign's public scale.

    Examples
    --------
    >>> sums = EpochSums.of(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]), np.array([0.1]))
    >>> found = correct(sums, PublicScale(0.5, (1.0,)))
    >>> found.newton.tolist(), found.shift.tolist()  # P = .5/1, gbar = 2
    ([1.0], 0.0)
    """
    P = _ratio(sums.bb, np.maximum(sums.gb, _LEAST_PULL * sums.moves))
    first = P[..., :1] + np.zeros_like(P)
    spread = (np.minimum(_ratio(first, P), 1.0) * sums.bb).sum(axis=-1) / sums.count
    T = public.phi * P[..., 0]
    shift = public.z * (T - np.sqrt(np.maximum(T * T - spread, 0.0)))
    most = _MOST_DEVIATIONS * np.sqrt(sums.bb / sums.count)
    newton = np.clip(P * sums.gradient, -most, most)
    return Correction(newton, np.asarray(shift), _ratio(sums.count * _ratio(sums.moves, sums.squares), P))


def widening(relaxations: Array, chains: int = 1) -> Array:
    """Return the factor of an interval's half-width, (..., p): of one chain or path, or of K chains.

    Examples
    --------
    >>> widening(np.array([4.0, 24.0, 404.0])).tolist()
    [3.0, 1.2, 1.01]
    """
    if chains == 1:
        return np.asarray(1 + 4 / np.maximum(relaxations - 4, 2))
    return np.asarray(1 + 0.4 * chains / np.maximum(relaxations - 4, 0.2 * chains))


def curvature_bias(steps: Array, curvature: Array, public: PublicScale, n: int) -> Array:
    """Return the intercept's predicted bias over its standard error before correction, (...).

    |z_tau| p c'/(4 sigma) with c' = eta_0 sqrt(v n), v the mean second moment, and sigma = phi_tau/f^.

    Parameters
    ----------
    steps
        eta, (..., p).
    curvature
        f^, (...).
    public
        The campaign's public scale.
    n
        Reports in the average.

    Examples
    --------
    >>> public = PublicScale(0.75, (4.0, 4.0))
    >>> round(float(curvature_bias(np.array([0.001, 0.001]), np.array(3.0), public, 10_000)), 3)
    0.637
    """
    p = len(public.second_moments)
    size = steps[..., 0] * math.sqrt(public.G**2 / p * n)
    return np.asarray(abs(public.z) * p * size * np.maximum(curvature, 0.0) / (4 * public.phi))


def doubts(
    relaxations: Array, bias: float, gap: float, curvature: float, public: PublicScale
) -> tuple[str, ...]:
    """Return the reasons to distrust the intervals of one campaign, each one sentence without a full stop.

    Parameters
    ----------
    relaxations
        c^, (p,): over the average of SN, a path of HiGrad, a chain of DC.
    bias
        :func:`curvature_bias`.
    gap
        The largest difference between the averages of the first and the last half, over its standard error.
    curvature
        f^ at the pilot's end.
    public
        The campaign's public scale.

    Examples
    --------
    >>> doubts(np.array([50.0, 12.0]), 0.1, 1.0, 2.0, PublicScale(0.5, (1.0, 1.0)))
    ('the average holds only 12 relaxation times of its slowest coefficient (20 are few)',)
    >>> doubts(np.array([50.0, 52.0]), 0.1, 1.0, 2.0, PublicScale(0.5, (1.0, 1.0)))
    ()
    """
    found = []
    slowest = float(relaxations.min())
    if slowest < _FEW_RELAXATIONS:
        found.append(
            f"the average holds only {slowest:.0f} relaxation times of its slowest coefficient "
            f"({_FEW_RELAXATIONS:.0f} are few)"
        )
    if bias > _LARGE_BIAS:
        found.append(
            f"the spread of the iterates moves the intercept by about {bias:.1f} standard errors, and the "
            "correction supposes normal errors"
        )
    if gap > _LARGE_GAP:
        found.append(f"the averages of the first and the last half differ by {gap:.1f} standard errors")
    if curvature > 0 and public.phi / curvature < _SMALL_SPREAD and abs(public.z) > 0.5:
        found.append(
            f"the residuals' spread is only {public.phi / curvature:.2g} of half the target's range, and the "
            "level is far from the median: the pilot may have ended before the curvature settled"
        )
    return tuple(found)
