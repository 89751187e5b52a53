"""What the service says on standard error: lines that a person can read, or one JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol, TextIO

__all__ = ["JsonLog", "Log", "TextLog"]


class Log(Protocol):
    """Takes events: a level, a text for people, and facts for machines."""

    def __call__(self, level: str, event: str, text: str, **facts: object) -> None:
        """Say that something happened.

        Parameters
        ----------
        level
            "info", "warning" or "error".
        event
            A fixed name of what happened, for machines.
        text
            The same for people, one line.
        facts
            Numbers and names that belong to it.
        """


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _now() -> datetime:
    return datetime.now(UTC)


class TextLog:
    """One line an event: time (UTC), level where it is not info, text.

    Parameters
    ----------
    write
        Takes a whole line without its end; None writes to standard error.
    """

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to(sys.stderr)

    def __call__(self, level: str, event: str, text: str, **facts: object) -> None:
        """Write one line."""
        del event, facts
        mark = "" if level == "info" else f"{level.upper()}: "
        self._write(f"{_now():%Y-%m-%d %H:%M:%S} {mark}{_plain(text)}")


class JsonLog:
    """One JSON object an event: ``time``, ``level``, ``event``, ``message``, and the facts."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to(sys.stderr)

    def __call__(self, level: str, event: str, text: str, **facts: object) -> None:
        """Write one line."""
        line = {"time": _now().isoformat(), "level": level, "event": event, "message": text, **facts}
        self._write(json.dumps(line, default=str))


def _to(stream: TextIO) -> Callable[[str], None]:
    def write(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return write
