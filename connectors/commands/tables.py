"""Estimates as text: a table of coefficients with intervals, and numbers with as many digits as the interval vouches for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ...campaign import Campaign
from ...inference.regions import Interval
from ...server.estimate import Estimate
from .console import NOT_PRIVATE, label, plain, results

__all__ = ["coefficient_table", "describe", "ends", "number", "print_estimate", "quantile_name"]


def number(value: float, width: float) -> str:
    """Return a number rounded where its interval's third digit stands; six digits without an interval.

    Examples
    --------
    >>> number(0.6612345, 0.0182), number(1234.5, 300.0), number(0.5, float("inf"))
    ('0.6612', '1234', '0.5')
    """
    if not (math.isfinite(width) and width > 0):
        return f"{value:.6g}"
    decimals = 2 - math.floor(math.log10(width))
    if not -3 <= decimals <= 9:
        return f"{value:.6g}"
    return f"{value:.{max(decimals, 0)}f}"


def ends(interval: Interval) -> tuple[str, str]:
    """Return an interval's ends as text; a dash where there is none."""
    return tuple(number(end, interval.width) if math.isfinite(end) else "-" for end in (interval.lower, interval.upper))  # type: ignore[return-value]


def quantile_name(tau: float) -> str:
    """Return what a quantile is called.

    Examples
    --------
    >>> quantile_name(0.5), quantile_name(0.9), quantile_name(0.125)
    ('median', '90th percentile', '12.5% quantile')
    """
    percent = round(100 * tau, 6)
    if percent == 50:
        return "median"
    return f"{percent:.0f}th percentile" if percent % 10 == 0 else f"{percent:g}% quantile"


def describe(campaign: Campaign, n_reports: int) -> str:
    """Return one line: what is estimated, from how many reports, at what privacy."""
    return f"{campaign.name}: {quantile_name(campaign.tau)} from {n_reports:,} reports, {label(campaign)}"


def coefficient_table(estimate: Estimate, truth: Mapping[str, float] | None = None) -> Table:
    """Return a table with one row a coefficient; with the truth, also whether the interval covers it."""
    campaign = estimate.campaign
    style = None if campaign.private else "bold red"
    table = Table(
        title=Text(describe(campaign, estimate.n_reports), style=style or "bold"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("coefficient", overflow="fold")
    if truth is not None:
        table.add_column("truth", justify="right", no_wrap=True)
    for heading in ("estimate", f"{estimate.level:.6g} lower", "upper"):
        table.add_column(heading, justify="right", no_wrap=True)
    if truth is not None:
        table.add_column("covered", justify="center", no_wrap=True)
    for name, interval in estimate.items():
        cells = [number(interval.value, interval.width), *ends(interval)]
        if truth is not None:
            covered = truth[name] in interval
            cells = [number(truth[name], interval.width), *cells]
            mark = Text("yes" if covered else "NO", style="green" if covered else "bold red")
            table.add_row(Text(plain(name)), *cells, mark)
        else:
            table.add_row(Text(plain(name)), *cells)
    return table


def print_estimate(estimate: Estimate) -> None:
    """Print the table, and why there are no intervals if there are none."""
    console = results()
    console.print(coefficient_table(estimate))
    if estimate.reason is not None:
        console.print(f"No intervals: {estimate.reason}.")
    if not estimate.campaign.private:
        console.print(f'{NOT_PRIVATE}: made through the channel "none", for comparison only.', style="bold red")
