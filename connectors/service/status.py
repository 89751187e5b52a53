"""A status line on a terminal: reports, refusals, messages a second, lag, and how wide the intervals are."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from .loop import Service

__all__ = ["StatusLine", "status_text"]

_EVERY_SECONDS = 1.0
_MOST_WIDTHS = 4


def status_text(service: Service, level: float) -> str:
    """Return the line for the present state of a service."""
    facts = service.facts()
    parts = [f"{facts['reports']:,} reports", f"{facts['rejected']:,} rejected", f"{facts['rate']:,.0f}/s"]
    if facts["lag"] is not None:
        parts.append(f"lag {facts['lag']:,}")
    estimates = service.state.pooled().estimates(level)
    intervals = [(name, interval) for estimate in estimates.values() for name, interval in estimate.items()]
    widths = [f"{name} {interval.width:.3g}" for name, interval in intervals]
    if not all(interval.bounded for _, interval in intervals):
        parts.append("no intervals yet")
    else:
        more = ", .." if len(widths) > _MOST_WIDTHS else ""
        parts.append(f"widths: {', '.join(widths[:_MOST_WIDTHS])}{more}")
    return "  ".join(parts)


class StatusLine:
    """The line at the foot of the terminal; log lines go above it.

    Parameters
    ----------
    level
        Coverage of the intervals whose widths are shown.
    """

    def __init__(self, level: float) -> None:
        self._level = level
        self.console = Console(stderr=True, markup=False, highlight=False)
        self._live = Live(Text(""), console=self.console, auto_refresh=False, transient=True)
        self._next = time.monotonic()

    def __call__(self, service: Service) -> None:
        """Show the present state, at most once a second."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_SECONDS
            line = Text(status_text(service, self._level), no_wrap=True, overflow="ellipsis")
            self._live.update(line, refresh=True)

    def write(self, line: str) -> None:
        """Write a log line above the status line."""
        self.console.print(line, soft_wrap=True)

    def __enter__(self) -> Self:
        """Show the line."""
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the line away."""
        self._live.stop()
