"""What the commands print: results on standard output, everything else on standard error.

Names in a campaign or a file may hold any character. Whatever is shown goes through :func:`plain`, so that
neither a terminal nor a log ever gets a control character from them, and a message stays on one line.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from ...campaign import Campaign

__all__ = [
    "NOT_PRIVATE",
    "counted",
    "label",
    "note",
    "plain",
    "results",
    "say_rejected",
    "warn_if_not_private",
]

NOT_PRIVATE = "NOT PRIVATE"
_PIPE_WIDTH = 160  # characters a line where no terminal says how many it has
_MOST_REASONS = 10


def plain(text: str) -> str:
    r"""Return the text with every character that does not print as an escape.

    Examples
    --------
    >>> print(plain("a\nb\x1b[31m"))
    a\nb\x1b[31m
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(n: int, what: str) -> str:
    """Return a number and what it counts.

    Examples
    --------
    >>> counted(1, "report"), counted(1200, "row")
    ('1 report', '1,200 rows')
    """
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def note(text: str) -> None:
    """Print one line on standard error."""
    print(plain(text), file=sys.stderr, flush=True)


def results() -> Console:
    """Return the console of standard output: no markup in texts, and wide where there is no terminal."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def label(campaign: Campaign) -> str:
    """Return what must stand beside every result of the campaign: its epsilon, or that it is not private."""
    return NOT_PRIVATE if campaign.epsilon is None else f"epsilon = {campaign.epsilon:g}"


def warn_if_not_private(campaign: Campaign) -> None:
    """Say on standard error that the campaign's channel protects nobody, if so."""
    if not campaign.private:
        note(f'{NOT_PRIVATE}: the channel "none" of campaign {campaign.name} protects nobody')


def say_rejected(rejected: Counter[str], what: str) -> None:
    """Print how many rows or reports could not be used, by reason, the most frequent first."""
    if not rejected:
        return
    note(f"{counted(rejected.total(), what)} could not be used:")
    for reason, count in rejected.most_common(_MOST_REASONS):
        note(f"  {count:,}  {reason}")
    if len(rejected) > _MOST_REASONS:
        others = rejected.total() - sum(count for _, count in rejected.most_common(_MOST_REASONS))
        note(f"  {others:,}  for {len(rejected) - _MOST_REASONS} other reasons")
