"""Studies with power steps (rule A): index only, chains from a cold start, plain averages."""

from __future__ import annotations

import math

import numpy as np

from ..plan import Window
from .chains import Runner
from .plan import BRANCHING, Found, Plan, tree_lengths
from .sets import SNWindow, divided, spread_over_threads, thread_weights, tree_threads

__all__ = ["power_dc", "power_higrad", "power_sn"]


def _window(plan: Plan, runner: Runner, columns: int, n: int) -> SNWindow:
    """Return the averages of chains of n reports each, without the first tenth, as the server makes them."""
    window, left_out = SNWindow(columns, runner.p), Window(plan.burn_in).start(n)
    ones = np.ones((columns, runner.p))
    b = runner.skip(np.zeros_like(ones), ones, (0, left_out), plan.power_scale)
    runner.average(b, ones, (left_out, n), window, plan.power_scale)
    return window


def power_sn(plan: Plan, runner: Runner, replications: int) -> Found:
    """One chain of n reports."""
    window = _window(plan, runner, replications, plan.n)
    mean = window.mean()
    return Found(mean, window.half_width(plan.level), np.full_like(mean, np.nan))


def power_dc(plan: Plan, runner: Runner, replications: int) -> Found:
    """K chains of n/K reports."""
    K = plan.chains
    window = _window(plan, runner, replications * K, plan.n // K)
    mean, half = divided(window.mean().reshape(replications, K, -1), plan.level)
    return Found(mean, half, np.full_like(mean, np.nan))


def power_higrad(plan: Plan, runner: Runner, replications: int) -> Found:
    """One tree; the first tenth of a path is left out of its root's average."""
    lengths = tree_lengths(plan.n)
    place = min(math.floor(plan.burn_in * sum(lengths)), lengths[0] - 1)
    averaged = (lengths[0] - place, *lengths[1:])
    ones = np.ones((replications, runner.p))
    b = runner.skip(np.zeros_like(ones), ones, (0, place), plan.power_scale)
    levels = []
    for branches, length in zip((1, *BRANCHING), averaged, strict=True):
        b = np.repeat(b, branches, axis=0)
        window = SNWindow(len(b), runner.p)
        b = runner.average(b, np.ones_like(b), (place, place + length), window, plan.power_scale)
        place += length
        levels.append(window.mean())
    w, Sigma = thread_weights(BRANCHING, averaged)
    mean, half = tree_threads(spread_over_threads(levels, w, replications), Sigma, plan.level)
    return Found(mean, half, np.full_like(mean, np.nan))
