"""A clean stop at SIGINT (Ctrl-C) and SIGTERM.

A signal only sets a mark while state is changed, and the work ends at the next safe place. While a command
waits for input, nothing is half done, so there the signal ends the waiting at once. After the first signal
the usual handling is back: a second one stops the process on the spot.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["StopSignals", "Stopped"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal arrived while a command waited for input."""


class StopSignals:
    """Context in which SIGINT and SIGTERM ask for a stop instead of ending the process.

    Attributes
    ----------
    number
        The signal that arrived, or None.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._interruptible = False
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int:
        """0, or 128 plus the signal's number, as shells count."""
        return 0 if self.number is None else 128 + self.number

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Inside, a signal raises :class:`Stopped`: nothing here may leave state half changed."""
        self._interruptible = True
        try:
            if self.number is not None:
                raise Stopped
            yield
        finally:
            self._interruptible = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.number = number
        self._put_back()
        if self._interruptible:
            self._interruptible = False
            raise Stopped

    def _put_back(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def __enter__(self) -> Self:
        """Take over both signals, where Python lets a program do so: in the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give both signals back."""
        self._put_back()
