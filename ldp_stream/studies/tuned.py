"""Studies with adaptive steps (rule B): a common pilot, then SN, DC or HiGrad, with the corrections.

A pilot's length depends on its reports, so after it the replications go on in groups of equal length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from ..adaptive import (
    AdaptiveConstants,
    Tuning,
    checkpoints,
    divided_steps,
    pilot_ends,
    pilot_horizon,
    restarts,
    retune,
    to_come,
)
from ..epoch_sums import EpochSums
from ..inference.correction import Correction, correct
from .chains import Runner
from .plan import BRANCHING, Found, Plan, tree_lengths
from .sets import SNWindow, divided, spread_over_threads, thread_weights, tree_threads

__all__ = ["Pilot", "open_sn", "pilots", "tuned_dc", "tuned_higrad", "tuned_sn"]

Array = NDArray[np.float64]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Pilot:
    """Replications whose pilots end together: their numbers, n_0, where what follows starts, steps."""

    where: Places
    count: int
    start: Array
    tuning: Tuning


def pilots(plan: Plan, runner: Runner, replications: int) -> Iterator[Pilot]:
    """Yield the pilots, from the shortest to the longest."""
    rule, public = plan.rule, plan.public
    b = np.zeros((replications, runner.p))
    tuning, left, count = Tuning.start(public, (replications,), rule), np.arange(replications), 0
    for stop, following in pairwise(checkpoints(rule)):
        sums, b = runner.sums(b, tuning.steps, (count, stop))
        count = stop
        after = retune(tuning, sums, public, pilot_horizon(count, plan.horizon, rule), rule.fall[0], rule)
        ends = pilot_ends(after, count, following, plan.horizon, public, rule) | (following > plan.n // 2)
        if ends.any():
            remaining = (
                rule.open_pilot * count if plan.horizon is None else to_come(count, plan.horizon, rule)
            )
            final = retune(tuning, sums, public, remaining, rule.fall[1], rule)
            yield Pilot(left[ends], count, sums.point[ends], final.select(ends))
        left, b, tuning = left[~ends], b[~ends], after.select(~ends)
        if not len(left):
            return


def _sn(plan: Plan, window: SNWindow, parts: list[EpochSums], first: Places) -> Found:
    """Return what SN windows come to; chain r's starts with the epoch number first[r] of ``parts``."""
    mean, groups = window.mean(), []
    half = window.half_width(plan.level)
    for k in np.unique(first).tolist():
        where = np.flatnonzero(first == k)
        found = correct(reduce(EpochSums.then, parts[k:]), plan.public)
        corrected = found.apply(mean)
        groups.append(
            (
                where,
                Found.widened(corrected[where], half[where], found.shift[where], found.relaxations[where]),
            )
        )
    return Found.gather(groups)


def _until(last: float, rule: AdaptiveConstants) -> list[int]:
    return list(takewhile(lambda count: count <= last, checkpoints(rule)))


def tuned_sn(plan: Plan, runner: Runner, pilot: Pilot) -> Found:
    """One chain after a pilot, with a known horizon."""
    rule, count, b, tuning = plan.rule, pilot.count, pilot.start, pilot.tuning
    window, first = SNWindow(*b.shape), np.zeros(len(b), np.intp)
    parts: list[EpochSums] = []
    last = count + rule.sn_retunes_until * (plan.n - count)
    for stop in [*(place for place in _until(last, rule) if place > count), plan.n]:
        sums, b = runner.sums(b, tuning.steps, (count, stop), window=window)
        parts.append(sums)
        count = stop
        if count < plan.n:
            after = retune(tuning, sums, plan.public, to_come(count, plan.n, rule), rule.fall[2], rule)
            again = restarts(tuning, after, rule)
            window.restart(again)
            first[again] = len(parts)
            tuning = after
    return _sn(plan, window, parts, first)


def open_sn(plan: Plan, runner: Runner, replications: int) -> Found:
    """SN without a horizon: one chain that is retuned for ever."""
    rule, count = plan.rule, 0
    b, tuning = np.zeros((replications, runner.p)), Tuning.start(plan.public, (replications,), rule)
    window, first = SNWindow(*b.shape), np.zeros(replications, np.intp)
    parts: list[EpochSums] = []
    opens = max(_until(rule.open_window * plan.n, rule), default=0)
    for stop in [*_until(plan.n - 1, rule), plan.n]:
        sums, b = runner.sums(b, tuning.steps, (count, stop), window=window)
        parts.append(sums)
        count = stop
        if count < plan.n:
            after = retune(tuning, sums, plan.public, to_come(count, None, rule), rule.fall[0], rule)
            again = restarts(tuning, after, rule) & (count <= rule.open_restarts_until * plan.n)
            again |= count == opens
            window.restart(again)
            first[again] = len(parts)
            tuning = after
    return _sn(plan, window, parts, first)


def _corrected(sums: EpochSums, plan: Plan) -> tuple[Array, Correction]:
    found = correct(sums, plan.public)
    return found.apply(sums.point), found


def tuned_dc(plan: Plan, runner: Runner, pilot: Pilot) -> Found:
    """K chains after a common pilot."""
    rule, K, R = plan.rule, plan.chains, len(pilot.start)
    n = (plan.n - pilot.count) // K
    planned = rule.open_pilot * pilot.count / K if plan.horizon is None else n
    left_out = int(rule.dc_burn_in * n)
    steps = np.repeat(pilot.tuning.steps, K, axis=0)

    def scale(start: int, stop: int) -> Array:
        return divided_steps(start, stop, planned, rule)

    b = runner.skip(np.repeat(pilot.start, K, axis=0), steps, (0, left_out), scale)
    sums, _ = runner.sums(b, steps, (left_out, n), scale)
    corrected, found = _corrected(sums, plan)
    mean, half = divided(corrected.reshape(R, K, -1), plan.level)
    shift = found.shift.reshape(R, K).mean(axis=1)
    return Found.widened(mean, half, shift, found.relaxations.reshape(R, K, -1).sum(axis=1), K)


def tuned_higrad(plan: Plan, runner: Runner, pilot: Pilot) -> Found:
    """One tree after a pilot."""
    b, steps, R = pilot.start, plan.rule.higrad_gain * pilot.tuning.steps, len(pilot.start)
    lengths = tree_lengths(plan.n - pilot.count)
    w, Sigma = thread_weights(BRANCHING, lengths)
    levels, relaxations, shift = [], np.zeros_like(b), np.zeros(R)
    for branches, length, weight in zip((1, *BRANCHING), lengths, w, strict=True):
        b, steps = np.repeat(b, branches, axis=0), np.repeat(steps, branches, axis=0)
        sums, b = runner.sums(b, steps, (0, length))
        corrected, found = _corrected(sums, plan)
        levels.append(corrected)
        relaxations += found.relaxations.reshape(R, -1, runner.p).mean(axis=1)
        shift += weight * found.shift.reshape(R, -1).mean(axis=1)
    mean, half = tree_threads(spread_over_threads(levels, w, R), Sigma, plan.level)
    return Found.widened(mean, half, shift, relaxations)
