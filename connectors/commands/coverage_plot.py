"""The picture of a coverage study: coverage by cell, the most regular cells on the left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .coverage_table import CellResult
from .plots import COLOURS, GREY, new_figure, save, tidy

if TYPE_CHECKING:
    from matplotlib.axis import Axis

__all__ = ["draw_coverage"]

_LEVEL = 95
_REGULAR = 0.1
_MARGIN = 1.3
_RELS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_RATIOS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50)
_LOWEST = 40.0  # percent: what is below stands on the axis


def draw_coverage(found: Sequence[CellResult], path: Path) -> None:
    """Draw coverage of the intercept and of the slopes against rel, a panel a method."""
    methods = sorted({result.cell.method for result in found}, key=lambda name: (len(name), name))
    figure = new_figure(11.0, 1.2 + 1.8 * len(methods))
    panels = figure.subplots(len(methods), 2, squeeze=False, sharex=True, width_ratios=(2, 1))
    rels = _ends([result.cell.relative for result in found])
    for (left, right), method in zip(panels, methods, strict=True):
        cells = [result for result in found if result.cell.method == method]
        ratios = _ends([result.ratio for result in cells])
        right.set(yscale="log", ylabel="error over the bound", ylim=ratios)
        for axes in (left, right):
            tidy(axes)
            axes.set(xscale="log", xlim=rels)
            axes.axvline(_REGULAR, color=GREY, lw=0.8, alpha=0.6)
        left.axhline(_LEVEL, color=GREY, lw=1, ls=(0, (2, 3)))
        rel = [result.cell.relative for result in cells]
        for colour, label, values in (
            (COLOURS[0], "slopes, mean", [result.slopes for result in cells]),
            (COLOURS[1], "intercept", [result.rows[0].coverage for result in cells]),
        ):
            percent = [max(100 * value, _LOWEST) for value in values]
            left.plot(rel, percent, "o", color=colour, ms=4, alpha=0.8, label=label)
        left.set(ylim=(_LOWEST - 2, 101), ylabel="coverage, %")
        left.set_title(method, size=11, loc="left")
        right.plot(rel, [result.ratio for result in cells], "o", color=GREY, ms=4, alpha=0.8)
        right.axhline(1, color=GREY, lw=1, ls=(0, (2, 3)))
        _label(right.yaxis, _RATIOS, ratios)
        for axes in (left, right):
            _label(axes.xaxis, _RELS, rels)
    panels[0, 0].legend(frameon=False, fontsize=8.5, loc="lower left")
    steps = found[0].cell.steps
    figure.supxlabel("rel: asymptotic bound for a fitted value, over the spread of the errors", size=9)
    figure.suptitle(f"Coverage of {_LEVEL}% intervals, {steps} steps, one dot a cell", size=12)
    save(figure, path)


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the limits of a logarithmic axis around the values."""
    return min(values) / _MARGIN, max(values) * _MARGIN


def _label(axis: Axis, ticks: Sequence[float], ends: tuple[float, float]) -> None:
    """Label a logarithmic axis with plain numbers."""
    used = [tick for tick in ticks if ends[0] <= tick <= ends[1]]
    axis.set_ticks([], minor=True)
    axis.set_ticks(used, [f"{tick:g}" for tick in used])
