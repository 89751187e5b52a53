"""Timing two programs against each other, and the table that says what came out.

The two are run in turn, several times in one process, and the fastest run of each counts: what else the
machine does then slows neither of them more than the other.
"""

from __future__ import annotations

import gc
import json
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

__all__ = ["Row", "fastest", "peak_kib", "show", "write"]


@dataclass(frozen=True)
class Row:
    """One line of the benchmark: a figure, what it stands beside, and the aim.

    ``ratio`` is figure / compared_figure. ``met`` says whether ``value``, the figure or the ratio that the
    aim is about, is at most ``aim``.
    """

    name: str
    figure: float
    unit: str
    compared_with: str
    compared_figure: float
    ratio: float
    aim: str
    met: bool

    @classmethod
    def of(cls, name: str, unit: str, figure: float, other: str, other_figure: float, /, **aim: float) -> Row:
        """Return a row; the aim is ``ratio=`` or ``figure=`` with the most that is allowed."""
        ((kind, most),) = aim.items()
        ratio = figure / other_figure
        met = (ratio if kind == "ratio" else figure) <= most
        text = f"ratio <= {most:g}" if kind == "ratio" else f"<= {most:g} {unit}"
        return cls(name, figure, unit, other, other_figure, ratio, text, met)


def fastest(programs: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return each program's shortest time in seconds over ``rounds`` interleaved runs."""
    best = [float("inf")] * len(programs)
    for _ in range(rounds):
        for place, program in enumerate(programs):
            gc.collect()
            gc.disable()
            start = time.perf_counter()
            program()
            best[place] = min(best[place], time.perf_counter() - start)
            gc.enable()
    return best


def peak_kib() -> int:
    """Return this process's peak memory in KiB.

    What the system counts for a new program begins with what its parent had, so Linux's own count of the
    program is read where there is one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def show(rows: Sequence[Row]) -> None:
    """Print the table."""
    table = Table(title="benchmarks: each pair interleaved in one run, the fastest of several")
    for heading in ("name", "figure", "compared with", "its figure", "ratio", "aim", "met"):
        table.add_column(heading, justify="left" if heading in ("name", "compared with") else "right")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.figure:.4g} {row.unit}",
            row.compared_with,
            f"{row.compared_figure:.4g} {row.unit}",
            f"{row.ratio:.3g}",
            row.aim,
            "yes" if row.met else "NO",
        )
    Console(width=160).print(table)


def write(rows: Sequence[Row], path: Path) -> None:
    """Write the table as JSON."""
    path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
