"""A progress bar on standard error, where that is a terminal; elsewhere nothing."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from .console import counted

__all__ = ["ReportProgress"]


class ReportProgress:
    """Shows the part that is done, the reports so far and how many come a second.

    Parameters
    ----------
    text
        What stands before the bar.

    Attributes
    ----------
    reports
        Reports of this run so far.
    """

    def __init__(self, text: str) -> None:
        console = Console(stderr=True, markup=False, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(text, total=None, count="")
        self._start = time.monotonic()
        self.reports = 0

    def advance(self, reports: int, part: float | None) -> None:
        """Count more reports; ``part`` of the work is done, None if its size is not known."""
        self.reports += reports
        count = f"{counted(self.reports, 'report')}, {self.rate:,.0f}/s"
        if part is None:
            self._progress.update(self._task, count=count)
        else:
            self._progress.update(self._task, completed=part, total=1.0, count=count)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def rate(self) -> float:
        """Reports a second so far."""
        return self.reports / max(self.seconds, 1e-9)

    def summary(self) -> str:
        """Return one line for the end."""
        return f"{counted(self.reports, 'report')} in {self.seconds:.1f} s ({self.rate:,.0f} a second)"

    def __enter__(self) -> Self:
        """Show the bar."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        self._progress.stop()
