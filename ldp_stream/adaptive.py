"""Adaptive steps (rule B): a pilot learns the curvature, then steps are constant between public checkpoints.

The steps are a vector eta (p,), constant over an epoch, and change only at checkpoints, which are counts:
100 (1 + 1.5 + 1.5^2 + ..), that is 100, 250, 475, 812, .. (:func:`checkpoints`). Each change is a function of
counts, public constants and sums over the reports of the epoch, so any split of the stream into batches, a
restored state and a replay make the same steps.

Pilot. One chain, b_0 = 0, eta_j = .05/G with G^2 = sum_j E g~_j^2 (public). Every checkpoint ends an epoch
and calls :func:`retune` with floor 1/4 and the n' of :func:`pilot_horizon`; the retune that ends the pilot
has the n' of what follows and floor 1/32. It ends at a checkpoint (:func:`pilot_ends`) past a tenth of the
horizon n where the curvature f^ is significant and settled, later where it is not. The pilot's reports are
then left out of every average, and the next chains start at the mean of its last epoch.

Main phase, n_0 reports being the pilot's and n' = n - n_0:

- SN: one chain; retunes at the checkpoints up to n_0 + n'/2, with floor 1/8. The average and V start at n_0,
  and again at a checkpoint where eta_0 falls by more than 1.7 times.
- DC: K chains, report i of a chain of n_k = n'/K with steps 10 eta_j (1 + i/(.05 n_k))^-.6
  (:func:`divided_steps`); the first tenth of each chain is left out.
- HiGrad: n_0 : n_1 : n_2 = .5 : 1 : 2, constant steps 1.5 eta_j, nothing left out.

Without a horizon. SN: the pilot never ends; at each checkpoint t the reports to come are taken to be
n' = 2 t, the chain is not moved, and the average starts at the last checkpoint not after .3 n, or at the last
restart not after .5 n if that is later. The pilot's end (:func:`pilot_ends` without a horizon) only says
from where on intervals are given. DC: the pilot ends there, and the steps are made as if it had been a tenth
of the horizon, n' = 9 n_0; the decreasing steps then serve any n. A HiGrad tree has a horizon.

Retune, after an epoch of N reports g~_i at the points b_i with the mean bbar, steps eta; per coordinate

    S_bb = sum (b - bbar)^2,   S_gb = sum g~ (b - bbar),
    A <- S_gb - 4 S_bb/(eta N) + A/2,   B <- S_bb + B/2,   h^ = A/B,
    f^ = h^_0,   se = sqrt(mean g~_0^2/B_0).

The term with 4 takes away the curvature that a walk without any seems to have: S_gb has the mean eta N v/2
and S_bb the mean eta^2 N^2 v/6 then, so 3 would make A unbiased, and 4 leaves a margin. f is f^, less se
where f^ is below 3 se. With r_j = clip(h^_j/f^, .03, 1)^(c_j/(c_j + 6)), c_j = eta_j h^_j N, the new steps
are

    eta_j = c/(f r_j n'),   c = min(120, 2 psi n' phi_tau^2/G_e^2),   G_e^2 = sum_j mean(g~_j^2)/r_j,
    psi = min(.25, sqrt(v_0/n')/(phi_tau max(|z_tau|, .3))),

between eta_j/4 (the floor) and 2 eta_j, at most .7/(G sqrt(n' r_j)): c relaxation times in what is to come,
as long as the cloud of iterates, which grows with the steps, stays so small that the curvature of the
distribution function over it moves the mean little. phi_tau is the normal density at z_tau, the normal
quantile: a convention. The constants are calibrated by simulation (docs/coverage.md).

All arrays may have leading dimensions (..., p): replications of a study, or none in a server.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .epoch_sums import EpochSums

__all__ = [
    "CONSTANTS",
    "AdaptiveConstants",
    "PublicScale",
    "Tuning",
    "checkpoints",
    "divided_steps",
    "pilot_ends",
    "pilot_horizon",
    "restarts",
    "retune",
    "to_come",
]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class AdaptiveConstants:
    """The constants of the rule, in the order in which the module's text uses them."""

    first_epoch: int = 100
    growth: float = 1.5
    first_step: float = 0.05
    pilot: tuple[float, float, float] = (
        0.10,
        0.20,
        0.35,
    )  # fractions: at the earliest; not significant; at most
    significant: float = 2.0
    settled: float = 1.7
    walk_curvature: float = 4.0
    memory: float = 0.5
    trusted: float = 3.0
    least_ratio: float = 0.03
    ratio_prior: float = 6.0
    most_relaxations: float = 120.0
    most_spread: float = 0.25
    least_z: float = 0.3
    largest_move: float = 0.7
    rise: float = 2.0
    fall: tuple[float, float, float] = (4.0, 32.0, 8.0)  # in the pilot; at its end; after it
    restart: float = 1.7
    sn_retunes_until: float = 0.5
    dc_gain: float = 10.0
    dc_delay: float = 0.05
    dc_exponent: float = 0.6
    dc_burn_in: float = 0.1
    higrad_gain: float = 1.5
    open_horizon: float = 2.0  # SN without a horizon: n' over the count
    open_window: float = 0.3  # SN without a horizon: fraction left out
    open_restarts_until: float = 0.5  # fraction of n, SN without a horizon
    open_delay: float = 500.0  # without a horizon: shortest pilot, over v
    open_pilot: float = 9.0  # DC without a horizon: n' over n_0


CONSTANTS = AdaptiveConstants()


@dataclass(frozen=True)
class PublicScale:
    """What is public about a campaign: tau and the convention's second moments of a decoded coordinate.

    Parameters
    ----------
    tau
        Quantile level.
    second_moments
        E g~_j^2, p numbers (``campaign.mechanism.second_moments``).
    """

    tau: float
    second_moments: tuple[float, ...]

    @property
    def v(self) -> float:
        """The mean second moment of a decoded coordinate."""
        return math.fsum(self.second_moments) / len(self.second_moments)

    @property
    def G(self) -> float:
        """The size of a decoded gradient, sqrt(sum_j E g~_j^2)."""
        return math.sqrt(math.fsum(self.second_moments))

    @property
    def z(self) -> float:
        """The normal quantile z_tau."""
        return NormalDist().inv_cdf(self.tau)

    @property
    def phi(self) -> float:
        """The normal density at z_tau."""
        return NormalDist().pdf(self.z)


@dataclass(frozen=True, eq=False)
class Tuning:
    """The steps in force and what is carried from one checkpoint to the next: the whole state of the rule.

    Parameters
    ----------
    steps
        eta, (..., p).
    A, B
        The carried sums, (..., p).
    curvature, error
        f^ and its standard error at the last checkpoint, (...).
    significant
        The last f^ that was significant before that checkpoint, infinite without one, (...).
    """

    steps: Array
    A: Array
    B: Array
    curvature: Array
    error: Array
    significant: Array

    @classmethod
    def start(
        cls, public: PublicScale, leading: Sequence[int] = (), rule: AdaptiveConstants = CONSTANTS
    ) -> Tuning:
        """Return the state before the first report, with leading dimensions (...)."""
        shape = (*leading, len(public.second_moments))
        zeros = np.zeros(shape)
        return cls(
            np.full(shape, rule.first_step / public.G),
            zeros,
            zeros,
            np.zeros(tuple(leading)),
            np.full(tuple(leading), np.inf),
            np.full(tuple(leading), np.inf),
        )

    def select(self, where: Flags | NDArray[np.intp]) -> Tuning:
        """Return the state of some replications, for arrays with one leading dimension."""
        return Tuning(
            self.steps[where],
            self.A[where],
            self.B[where],
            self.curvature[where],
            self.error[where],
            self.significant[where],
        )


def checkpoints(rule: AdaptiveConstants = CONSTANTS) -> Iterator[int]:
    """Yield the counts of reports at which epochs end.

    Examples
    --------
    >>> from itertools import islice
    >>> list(islice(checkpoints(), 6))
    [100, 250, 475, 812, 1318, 2078]
    """
    length, total = float(rule.first_epoch), 0.0
    while True:
        total += length
        length *= rule.growth
        yield math.floor(total)


def to_come(count: int, horizon: int | None, rule: AdaptiveConstants = CONSTANTS) -> float:
    """Return n', the reports to come after ``count``; without a horizon a multiple of the count."""
    return rule.open_horizon * count if horizon is None else max(horizon - count, 1)


def _quotient(above: Array, below: Array, otherwise: float) -> Array:
    """Return above/below where ``below`` is positive."""
    return np.divide(above, below, out=np.full_like(below, otherwise), where=below > 0)


def pilot_horizon(count: int, horizon: int | None, rule: AdaptiveConstants = CONSTANTS) -> float:
    """Return n' of a retune in the pilot: as if it were over and had been a tenth, at most what is to come.

    Steps for the whole horizon would be too small to come from the start to the truth within the pilot.
    """
    guess = rule.open_pilot * count
    return guess if horizon is None else min(guess, to_come(count, horizon, rule))


def retune(
    tuning: Tuning,
    sums: EpochSums,
    public: PublicScale,
    remaining: float,
    fall: float,
    rule: AdaptiveConstants = CONSTANTS,
) -> Tuning:
    """Return the state after a checkpoint.

    Parameters
    ----------
    tuning
        The state during the epoch.
    sums
        Sums over the epoch's reports.
    public
        The campaign's public scale.
    remaining
        n', the reports to come (:func:`to_come`).
    fall
        Most by which a step may fall: one of ``rule.fall``.
    """
    eta, N = tuning.steps, sums.count
    A = sums.gb - rule.walk_curvature * sums.bb / (eta * N) + rule.memory * tuning.A
    B = sums.bb + rule.memory * tuning.B
    moments = sums.squares / N
    h = _quotient(A, B, 0.0)
    curvature = h[..., 0]
    error = np.sqrt(_quotient(moments[..., 0], B[..., 0], np.inf))
    safe = np.where(curvature > rule.trusted * error, curvature, curvature - error)
    relaxations = np.maximum(eta * h * N, 0.0)
    ratio = np.clip(_quotient(h, curvature[..., None] + 0 * h, 1.0), rule.least_ratio, 1.0)
    r = ratio ** (relaxations / (relaxations + rule.ratio_prior))
    size = (moments / r).sum(axis=-1)
    shape = public.phi * max(abs(public.z), rule.least_z)
    spread = min(rule.most_spread, math.sqrt(public.second_moments[0] / remaining) / shape)
    cloud = 2 * spread * remaining * public.phi**2
    c = np.minimum(rule.most_relaxations, _quotient(cloud + 0 * size, size, np.inf))
    wanted = _quotient(c[..., None] + 0 * r, safe[..., None] * r * remaining, np.inf)
    most = np.minimum(rule.rise * eta, rule.largest_move / (public.G * np.sqrt(remaining * r)))
    before = tuning.curvature > rule.significant * tuning.error
    return Tuning(
        np.minimum(np.maximum(wanted, eta / fall), most),
        A,
        B,
        curvature,
        error,
        np.where(before, tuning.curvature, tuning.significant),
    )


def pilot_ends(
    tuning: Tuning,
    count: int,
    following: int,
    horizon: int | None,
    public: PublicScale,
    rule: AdaptiveConstants = CONSTANTS,
) -> Flags:
    """Return whether the pilot ends at a checkpoint, (...).

    With a horizon n: past .1 n where f^ > 2 se and f^ is below 1.7 times the last significant one; past .2 n
    where f^ is not significant; and where the next checkpoint is past .35 n. Without: past 500 v reports
    where f^ > 3 se, below 1.7 times an earlier significant one.

    Parameters
    ----------
    tuning
        The state after the checkpoint's :func:`retune`.
    count, following
        Reports up to this checkpoint and up to the next one.
    horizon
        n, or None.
    public
        The campaign's public scale.
    """
    calm = tuning.curvature < rule.settled * tuning.significant
    if horizon is None:
        sure = tuning.curvature > rule.trusted * tuning.error
        return np.asarray(
            sure & calm & np.isfinite(tuning.significant) & (count >= rule.open_delay * public.v)
        )
    found = tuning.curvature > rule.significant * tuning.error
    earliest, unsure, latest = (part * horizon for part in rule.pilot)
    ends = found & calm & (count >= earliest)
    ends |= ~found & (count >= unsure)
    return np.asarray(ends | (following > latest))


def restarts(before: Tuning, after: Tuning, rule: AdaptiveConstants = CONSTANTS) -> Flags:
    """Return whether eta_0 fell so far at a checkpoint that the average starts again, (...)."""
    return np.asarray(before.steps[..., 0] > rule.restart * after.steps[..., 0])


def divided_steps(first: int, stop: int, chain_reports: float, rule: AdaptiveConstants = CONSTANTS) -> Array:
    """Return s_i, i = first + 1..stop: report i of a DC chain has the steps s_i eta_j.

    s_i = 10 (1 + i/(.05 n_k))^-.6, n_k = ``chain_reports``.

    Examples
    --------
    >>> divided_steps(0, 2, 40.0).round(3).tolist()
    [7.841, 6.598]
    """
    place = np.arange(first + 1, stop + 1, dtype=np.float64) / (rule.dc_delay * chain_reports)
    return np.asarray(rule.dc_gain * (1 + place) ** -rule.dc_exponent)
