"""The table of a coverage study: one line a cell on the screen, one entry a coefficient in JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ...studies.coverage import Cell, Row, rows
from ...studies.plan import Found
from ..outputs import write_whole
from .console import results

__all__ = ["CellResult", "CoverageTable"]

_HEADINGS = (
    "method",
    "tau",
    "epsilon",
    "d",
    "errors",
    "spread",
    "n",
    "rel",
    "intercept",
    "slopes",
    "lowest",
    "width",
    "error",
    "of the bound",
)


@dataclass(frozen=True)
class CellResult:
    """A cell and its rows, one a coefficient, the intercept first."""

    cell: Cell
    rows: tuple[Row, ...]

    @property
    def slopes(self) -> float:
        """Mean coverage of the slopes."""
        return sum(row.coverage for row in self.rows[1:]) / len(self.rows[1:])

    @property
    def slopes_error(self) -> float:
        """Monte Carlo error of the mean, as if slopes were independent."""
        return math.sqrt(sum(row.mc_error**2 for row in self.rows[1:])) / len(self.rows[1:])

    @property
    def ratio(self) -> float:
        """Error over the bound."""
        return self.rows[0].distance / self.rows[0].bound

    def line(self) -> list[str]:
        """Return the texts of the cell's line."""
        cell, first = self.cell, self.rows[0]
        return [
            cell.method,
            f"{cell.tau:g}",
            "none" if cell.epsilon is None else f"{cell.epsilon:g}",
            str(cell.d),
            cell.errors,
            f"{cell.spread:g}",
            f"{cell.n:,}",
            f"{cell.relative:.3f}",
            f"{100 * first.coverage:.1f} ± {100 * first.mc_error:.1f}",
            f"{100 * self.slopes:.1f} ± {100 * self.slopes_error:.1f}",
            f"{100 * min(row.coverage for row in self.rows):.1f}",
            f"{sum(row.width for row in self.rows[1:]) / len(self.rows[1:]):.4f}",
            f"{first.distance:.4f}",
            f"{self.ratio:.2f}",
        ]


class CoverageTable:
    """Collects what the cells come to."""

    def __init__(self) -> None:
        self.results: list[CellResult] = []

    def add(self, cell: Cell, found: Found) -> None:
        """Add a cell's replications."""
        self.results.append(CellResult(cell, tuple(rows(cell, found))))

    def show(self) -> None:
        """Print the table on standard output."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in _HEADINGS:
            table.add_column(heading, justify="left" if heading in ("method", "errors") else "right")
        for result in self.results:
            table.add_row(*result.line())
        results().print(table)

    def write(self, path: Path) -> None:
        """Write a list with one object a cell and coefficient."""
        write_whole(path, (json.dumps(_entries(self.results), indent=1) + "\n").encode())


def _entries(found: Sequence[CellResult]) -> list[dict[str, object]]:
    return [row.as_dict() for result in found for row in result.rows]
