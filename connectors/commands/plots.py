"""Pictures of estimates; the only module that imports matplotlib.

Coefficients have different units, so each has an axis of its own, with a dot for the estimate and a bar for
the interval.
"""

from __future__ import annotations

import io
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from ...errors import InvalidInput, MissingExtra
from ...inference.regions import Interval
from ...server.estimates import Estimates
from ..outputs import write_whole
from .console import NOT_PRIVATE, counted, label, plain
from .files_out import check_writable
from .tables import ends, number, quantile_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "GREY",
    "check_plot",
    "draw_estimates",
    "mark_not_private",
    "new_figure",
    "save",
    "tidy",
]

COLOURS = ("#1f5fa8", "#d1622b")
GREY = "#5f6670"
_DOTS_PER_INCH = 150
_ROW_INCHES = 0.62
_NAME_WIDTH = 24  # characters
_NEAR = 4  # widths of the interval


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, sizes in inches.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot needs matplotlib: pip install 'ldp-stream[plot]'") from None
    return Figure(figsize=(width, height), dpi=_DOTS_PER_INCH, layout="constrained", facecolor="white")


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be made or saved, before the work is done.

    Raises
    ------
    InvalidInput
        If the file cannot be written, or its ending names no format.
    MissingExtra
        If matplotlib is not installed.
    """
    check_writable(path, "--plot")
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    if path.suffix.lower().removeprefix(".") not in known:
        raise InvalidInput(
            f"--plot = {str(path)!r}: must end in {', '.join('.' + name for name in sorted(known))}"
        )


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's ending."""
    content = io.BytesIO()
    figure.savefig(content, format=path.suffix.lower().removeprefix("."))
    write_whole(path, content.getvalue())


def tidy(axes: Axes) -> None:
    """Take away what does not inform: the frame's upper and right line, loud ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
    axes.tick_params(colors=GREY, labelcolor="black", labelsize=8)


def mark_not_private(figure: Figure) -> None:
    """Write NOT PRIVATE across a figure."""
    figure.text(
        0.5,
        0.5,
        NOT_PRIVATE,
        size=44,
        color="#c00000",
        alpha=0.22,
        rotation=20,
        ha="center",
        va="center",
        weight="bold",
    )


def draw_estimates(estimates: Estimates, path: Path) -> None:
    """Draw every coefficient of every quantile level with its interval, in the user's units."""
    first = next(iter(estimates.values()))
    campaign, several = first.campaign, len(estimates) > 1
    drawn = [
        (f"{name}, {quantile_name(tau)}" if several else name, estimates[tau][name])
        for name in first
        for tau in estimates
    ]
    figure = new_figure(7.5, 1.5 + _ROW_INCHES * len(drawn))
    rows = figure.subplots(len(drawn), 1, squeeze=False)[:, 0]
    for axes, (name, interval) in zip(rows, drawn, strict=True):
        _draw_coefficient(axes, plain(name), interval)
    marks = f"dot: estimate, bar: {100 * first.level:g}% interval"
    what = f"{len(estimates)} quantiles" if several else f"the {quantile_name(first.tau)}"
    figure.suptitle(
        f"{_literal(campaign.name)}: coefficients of {what}\n"
        f"{counted(estimates.n_reports, 'report')}, {label(campaign)}; {marks}",
        size=11,
    )
    figure.supxlabel(
        "change of the target with one unit of the feature (intercept: the target's value at 0)",
        size=8.5,
        color=GREY,
    )
    if not campaign.private:
        mark_not_private(figure)
    save(figure, path)


def _draw_coefficient(axes: Axes, name: str, interval: Interval) -> None:
    tidy(axes)
    axes.spines["left"].set_visible(False)
    axes.set(yticks=[0], ylim=(-1, 1))
    lines = wrap(name, _NAME_WIDTH, max_lines=2, placeholder=" ...")
    axes.set_yticklabels([_literal("\n".join(lines))], size=10)
    axes.tick_params(axis="y", length=0)
    text = "no interval"
    if interval.bounded:
        axes.plot(
            [interval.lower, interval.upper],
            [0, 0],
            color=COLOURS[0],
            lw=5,
            alpha=0.35,
            solid_capstyle="butt",
        )
        lower, upper = _window(interval)
        axes.set_xlim(lower, upper)
        if lower < 0 < upper:
            axes.axvline(0, color="black", lw=1, ls=(0, (2, 3)), zorder=0)
        text = "{} to {}".format(*ends(interval))
    axes.plot([interval.value], [0], "o", color=COLOURS[0], ms=6)
    axes.locator_params(axis="x", nbins=5)
    axes.ticklabel_format(axis="x", useOffset=False)
    value = number(interval.value, interval.width)
    axes.text(1.02, 0.5, f"{value}\n{text}", transform=axes.transAxes, size=8.5, va="center", color="black")


def _window(interval: Interval) -> tuple[float, float]:
    """Return the axis around an interval; it reaches to 0 where that is near."""
    lower, upper = interval.lower, interval.upper
    width = interval.width or abs(interval.value) or 1.0
    if -_NEAR * width < lower and upper < _NEAR * width:
        lower, upper = min(lower, 0.0), max(upper, 0.0)
    return lower - 0.25 * width, upper + 0.25 * width


def _literal(text: str) -> str:
    """Return a text in which matplotlib sees no formula."""
    return text.replace("$", r"\$")
