"""The picture of the demo: quantiles of trip time over distance, and coefficients beside the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..base import Row
from .demo_run import Answer
from .plots import COLOURS, new_figure, save, tidy
from .tables import quantile_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_answers"]

_MILES = (0.3, 20.0)
_READABLE = {
    "intercept": "intercept",
    "log_miles": "log distance",
    "rush": "rush hour",
    "night": "night",
    "airport": "airport fare",
}


def draw_answers(answers: Sequence[Answer], trips: Sequence[Row], path: Path) -> None:
    """Draw and save the picture; ``trips`` are shown as dots."""
    figure = new_figure(11.5, 5.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _draw_curves(left, answers, trips)
    _draw_errors(right, answers)
    n_reports = sum(answer.estimate.n_reports for answer in answers)
    epsilon = answers[0].estimate.campaign.epsilon
    figure.suptitle(
        f"Trip times learnt from {n_reports:,} private reports, one a user, epsilon = {epsilon:g}", size=13
    )
    save(figure, path)


def _draw_curves(axes: Axes, answers: Sequence[Answer], trips: Sequence[Row]) -> None:
    tidy(axes)
    city = [(x["log_miles"], y) for x, y in trips if x["rush"] == 1.0 and x["airport"] == 0.0]
    axes.plot(*np.exp(np.array(city).T), ".", ms=2.5, color="#b9bec6", alpha=0.7, zorder=0)
    axes.plot([], [], "o", ms=3, color="#b9bec6", label="trips (the server saw none)")
    log_miles = np.linspace(math.log(_MILES[0]), math.log(_MILES[1]), 60)
    for answer, colour in zip(answers, COLOURS, strict=True):
        estimate, truth = answer.estimate, answer.truth
        fits = [
            estimate.quantile({"log_miles": float(d), "rush": 1.0, "night": 0.0, "airport": 0.0})
            for d in log_miles
        ]
        name = quantile_name(estimate.tau)
        if all(fit.bounded for fit in fits):
            lower, upper = np.exp([fit.lower for fit in fits]), np.exp([fit.upper for fit in fits])
            axes.fill_between(np.exp(log_miles), lower, upper, color=colour, alpha=0.25, lw=0)
        axes.plot(
            np.exp(log_miles),
            np.exp([fit.value for fit in fits]),
            color=colour,
            lw=2,
            label=f"{name}, estimated",
        )
        true = truth["intercept"] + truth["rush"] + truth["log_miles"] * log_miles
        axes.plot(np.exp(log_miles), np.exp(true), color="black", lw=1.2, ls=(0, (2, 3)))
    axes.plot([], [], color="black", lw=1.2, ls=(0, (2, 3)), label="truth")
    axes.set(
        xscale="log",
        yscale="log",
        xlim=_MILES,
        ylim=(2, 90),
        xlabel="distance (miles)",
        ylabel="trip time (minutes)",
    )
    axes.set_xticks(miles := [0.5, 1, 2, 5, 10, 20], [f"{mile:g}" for mile in miles])
    axes.set_yticks(minutes := [2, 5, 10, 20, 40, 80], [str(minute) for minute in minutes])
    axes.minorticks_off()
    axes.set_title(
        "In the rush hour (shaded: 95% interval)".replace("95", _percent(answers)), size=11, loc="left"
    )
    axes.legend(loc="upper left", frameon=False, fontsize=9)


def _percent(answers: Sequence[Answer]) -> str:
    return f"{100 * answers[0].estimate.level:g}"


def _draw_errors(axes: Axes, answers: Sequence[Answer]) -> None:
    tidy(axes)
    names = list(_READABLE)
    widest = 0.0
    for k, (answer, colour) in enumerate(zip(answers, COLOURS, strict=True)):
        shift = 0.17 - 0.34 * k
        for row, name in enumerate(names):
            interval, truth = answer.estimate[name], answer.truth[name]
            place = row - shift
            if interval.bounded:
                bar = [interval.lower - truth, interval.upper - truth]
                axes.plot(bar, [place, place], color=colour, lw=6, alpha=0.35, solid_capstyle="butt")
                widest = max(widest, *map(abs, bar))
            error = interval.value - truth
            widest = max(widest, abs(error))
            axes.plot([0], [place], "|", color="black", ms=15, mew=1.6)
            axes.plot([error], [place], "o", color=colour, ms=5)
        axes.plot([], [], "o-", color=colour, lw=3, label=f"{quantile_name(answer.estimate.tau)}, estimate")
    axes.plot([], [], "|", color="black", ms=12, mew=1.6, ls="none", label="truth")
    limit = 1.12 * widest if math.isfinite(widest) and widest > 0 else 1.0
    axes.set(xlim=(-limit, limit), ylim=(len(names) - 0.4, -0.9), yticks=range(len(names)))
    axes.set_yticklabels([_READABLE[name] for name in names], size=10)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("estimate minus truth (log minutes; 0.01 is 1% of the time)")
    axes.set_title(f"Coefficients with {_percent(answers)}% intervals", size=11, loc="left")
    axes.legend(loc="upper center", ncols=3, frameon=False, fontsize=8.5)
