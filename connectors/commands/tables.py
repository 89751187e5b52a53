"""Estimates as text: a table of coefficients with intervals, and numbers with the digits these vouch for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ...inference.regions import Interval
from ...server.estimate import Estimate
from .console import NOT_PRIVATE, counted, label, plain, results

__all__ = ["ends", "number", "print_estimate", "quantile_name"]


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
    lower, upper = (
        number(end, interval.width) if math.isfinite(end) else "-" for end in (interval.lower, interval.upper)
    )
    return lower, upper


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


def _describe(estimate: Estimate) -> str:
    """Return one line: what is estimated, from how many reports, at what privacy."""
    what = f"{quantile_name(estimate.tau)} from {counted(estimate.n_reports, 'report')}"
    return f"{estimate.campaign.name}: {what}, {label(estimate.campaign)}"


def _table(intervals: Mapping[str, Interval], truth: Mapping[str, float] | None) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("coefficient", overflow="fold")
    headings = (
        ["estimate", "lower", "upper"]
        if truth is None
        else ["truth", "estimate", "lower", "upper", "covered"]
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, interval in intervals.items():
        cells: list[str | Text] = [number(interval.value, interval.width), *ends(interval)]
        if truth is not None:
            covered = truth[name] in interval
            mark = Text("yes" if covered else "NO", style="green" if covered else "bold red")
            cells = [number(truth[name], interval.width), *cells, mark]
        table.add_row(Text(plain(name)), *cells)
    return table


def print_estimate(
    estimate: Estimate, truth: Mapping[str, float] | None = None, *, simultaneous: bool = False
) -> None:
    """Print one row a coefficient, with intervals for each or for all at once, and whether they cover."""
    console = results()
    style = "bold" if estimate.campaign.private else "bold red"
    kind = "simultaneous intervals" if simultaneous else "intervals"
    line = f"{_describe(estimate)}, {100 * estimate.level:.6g}% {kind}"
    console.print(line, style=style, soft_wrap=True)
    console.print(_table(estimate.simultaneous() if simultaneous else estimate, truth))
    if estimate.reason is not None:
        console.print(plain(f"No interval: {estimate.reason}."), soft_wrap=True)
    if estimate.complete:
        console.print("All planned reports are in; what comes more makes the last segments longer.")
    if estimate.note is not None:
        console.print(plain(f"Note: {estimate.note}."), style="bold red", soft_wrap=True)
    if not estimate.campaign.private:
        console.print(
            f'{NOT_PRIVATE}: made through the channel "none", for comparison only.',
            style=style,
            soft_wrap=True,
        )
