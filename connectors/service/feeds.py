"""Where the service's messages come from: what it asks of a source, and files of reports as one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ..._validate import integer_in
from ..base import MessageBatch, Position, Source, read_position
from ..line_files import LineFile

__all__ = ["Feed", "ReportLinesFeed"]


class Feed(Protocol):
    """A source of messages whose position the service keeps."""

    @property
    def position(self) -> Position:
        """The position after the last batch."""

    def resume(self, position: Position) -> None:
        """Go to an earlier position."""

    def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
        """Hand out messages of one partition at a time; empty batches while nothing arrives."""

    @property
    def caught_up(self) -> bool:
        """Whether everything that was there at the start, or where it went to, is read."""

    def lag(self) -> int | None:
        """Messages that are there and not read yet; None if unknown."""

    def commit(self) -> object:
        """Tell the far side, if there is one, how far the checkpoint is; a failure does no harm."""

    def close(self) -> None:
        """Leave."""


class ReportLinesFeed(Source[bytes]):
    """Reports in a file or from standard input, JSON, one a line; the offset is the line's number from 0.

    Standard input that is given again after a stop is read as the same lines from the first one on: those
    before the position are passed over. Standard input and named pipes are not touched before
    :meth:`batches`, since that may wait.

    Parameters
    ----------
    path
        The file, plain or gzip, or ``-`` for standard input.

    Raises
    ------
    InvalidInput
        If the file is not there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._position: Position = {"line": 0, "byte": 0}
        waits = self._path == "-" or Path(self._path).is_fifo()
        self._file = None if waits else LineFile(self._path)

    @property
    def position(self) -> Position:
        """The line and byte after the last batch."""
        return self._position

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading; refuse one that does not fit with InvalidInput.

        Standard input is refused by :meth:`batches`, if it does not fit.
        """
        line, byte = read_position(position, "line", "byte")
        if self._file is not None:
            self._file.resume(position)
        self._position = {"line": line, "byte": byte}

    def _opened(self) -> LineFile:
        """Return the file at the position."""
        if self._file is None:
            self._file = LineFile(self._path)
            self._file.resume(self._position)
        return self._file

    def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
        """Hand out at most ``size`` lines at once; empty lines are passed over."""
        most = integer_in(1, 10**9, size=size)
        file = self._opened()
        while True:
            first = file.line
            lines = file.take(most)
            if not lines:
                return
            self._position = file.position
            kept = [(number, line) for number, line in enumerate(lines, first) if not line.isspace()]
            yield MessageBatch(
                [line.rstrip(b"\r\n") for _, line in kept],
                self._position,
                progress=file.progress,
                offsets=[number for number, _ in kept],
            )

    @property
    def caught_up(self) -> bool:
        """Always: the files that it publishes to are its own."""
        return True

    def lag(self) -> int | None:
        """Return None: nobody knows how many lines are left."""
        return None

    def commit(self) -> None:
        """Do nothing: a file knows no readers."""

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._file is not None:
            self._file.close()
