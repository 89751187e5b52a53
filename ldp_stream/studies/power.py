"""Studies with power steps (rule A): index only, chains from a cold start, plain or corrected averages."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..epoch_sums import EpochSums
from ..inference.correction import correct
from ..plan import Window
from .chains import Runner
from .plan import BRANCHING, Found, Plan, tree_lengths
from .sets import SNWindow, divided, spread_over_threads, thread_weights, tree_threads

__all__ = ["power_dc", "power_higrad", "power_sn"]

Array = NDArray[np.float64]


def _window(plan: Plan, runner: Runner, columns: int, n: int) -> tuple[SNWindow, EpochSums]:
    """Run chains of n reports each; return averages without the first tenth, as the server makes them."""
    window, left_out = SNWindow(columns, runner.p), Window(plan.burn_in).start(n)
    ones = np.ones((columns, runner.p))
    b = runner.skip(np.zeros_like(ones), ones, (0, left_out), plan.power_scale)
    sums, _ = runner.sums(b, ones, (left_out, n), plan.power_scale, window)
    return window, sums


def _average(plan: Plan, window: SNWindow, sums: EpochSums) -> tuple[Array, Array, Array]:
    """Return averages, shifts and relaxation times; nothing is corrected with plain power steps."""
    found, mean = correct(sums, plan.public), window.mean()
    if plan.steps == "corrected":
        return found.apply(mean), found.shift, found.relaxations
    return mean, np.zeros(len(mean)), found.relaxations


def _found(plan: Plan, mean: Array, half: Array, shift: Array, relaxations: Array, chains: int = 1) -> Found:
    if plan.steps == "corrected":
        return Found.widened(mean, half, shift, relaxations, chains)
    return Found(mean, half, relaxations)


def power_sn(plan: Plan, runner: Runner, replications: int) -> Found:
    """One chain of n reports."""
    window, sums = _window(plan, runner, replications, plan.n)
    mean, shift, relaxations = _average(plan, window, sums)
    return _found(plan, mean, window.half_width(plan.level), shift, relaxations)


def power_dc(plan: Plan, runner: Runner, replications: int) -> Found:
    """K chains of n/K reports."""
    K = plan.chains
    mean, shift, relaxations = _average(plan, *_window(plan, runner, replications * K, plan.n // K))
    centre, half = divided(mean.reshape(replications, K, -1), plan.level)
    shift, relaxations = (part.reshape(replications, K, -1) for part in (shift, relaxations))
    return _found(plan, centre, half, shift.mean(axis=(1, 2)), relaxations.sum(axis=1), K)


def power_higrad(plan: Plan, runner: Runner, replications: int) -> Found:
    """One tree; the first tenth of a path is left out of its root's average."""
    lengths = tree_lengths(plan.n)
    place = min(math.floor(plan.burn_in * sum(lengths)), lengths[0] - 1)
    averaged = (lengths[0] - place, *lengths[1:])
    w, Sigma = thread_weights(BRANCHING, averaged)
    ones = np.ones((replications, runner.p))
    b = runner.skip(np.zeros_like(ones), ones, (0, place), plan.power_scale)
    levels, relaxations, shift = [], np.zeros_like(ones), np.zeros(replications)
    for branches, length, weight in zip((1, *BRANCHING), averaged, w, strict=True):
        b = np.repeat(b, branches, axis=0)
        window = SNWindow(len(b), runner.p)
        sums, b = runner.sums(b, np.ones_like(b), (place, place + length), plan.power_scale, window)
        place += length
        mean, move, times = _average(plan, window, sums)
        levels.append(mean)
        relaxations += times.reshape(replications, -1, runner.p).mean(axis=1)
        shift += weight * move.reshape(replications, -1).mean(axis=1)
    centre, half = tree_threads(spread_over_threads(levels, w, replications), Sigma, plan.level)
    return _found(plan, centre, half, shift, relaxations)
