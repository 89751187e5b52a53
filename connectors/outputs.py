"""Sinks that write files with one JSON text a line: reports, and the rows that could not be used."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO

from ..errors import InvalidInput
from .base import Reject, Sink

__all__ = ["JsonLinesSink", "RejectsFile", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all; what stood there before is replaced."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _open(path: Path, mode: Literal["w", "a"]) -> TextIO:
    try:
        return path.open(mode, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InvalidInput(f"path = {str(path)!r}: cannot be written: {error.strerror}") from None


class JsonLinesSink(Sink[str]):
    """A file of JSON texts, one a line, that appears whole or not at all.

    The lines go to ``<path>.part``, which takes the file's place when the sink is closed; after an exception
    inside ``with`` it is removed and an older file stays as it is. ``-`` writes to standard output at once.

    Parameters
    ----------
    path
        The file to write, or ``-`` for standard output.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = None if os.fspath(path) == "-" else Path(path)
        self._part = None if self._path is None else self._path.with_name(self._path.name + ".part")
        if self._path is not None and self._path.is_dir():
            raise InvalidInput(f"path = {str(self._path)!r}: is a folder")
        self._file: TextIO | None = sys.stdout if self._part is None else _open(self._part, "w")

    def write(self, items: Iterable[str]) -> None:
        """Write JSON texts; refuse one that has a line end with InvalidInput."""
        if self._file is None:
            raise InvalidInput("the file is closed")
        for text in items:
            if "\n" in text:
                raise InvalidInput(f"item = {text!r}: must be on one line")
            self._file.write(text + "\n")

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Put the file in its place."""
        file, self._file = self._file, None
        if file is None:
            return
        file.flush()
        if self._path is not None and self._part is not None:
            os.fsync(file.fileno())
            file.close()
            self._part.replace(self._path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put the file in its place, or remove what was written if an exception passes."""
        if error is None:
            self.close()
        elif self._file is not None and self._part is not None:
            self._file.close()
            self._file = None
            self._part.unlink()


class RejectsFile(Sink[Reject]):
    """A file of rejects: ``{"origin": ..., "line": ..., "reason": ..., "raw": ...}``, one a line.

    It holds raw data and is as private as that. A run that is repeated from a checkpoint writes the rejects
    after the checkpoint again.

    Parameters
    ----------
    path
        The file to write.
    append
        Go on at the end of the file instead of starting anew.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False) -> None:
        self._file = _open(Path(path), "a" if append else "w")

    def write(self, items: Iterable[Reject]) -> None:
        """Write the rejects."""
        for item in items:
            fields = {"origin": item.origin, "line": item.line, "reason": item.reason, "raw": item.raw}
            self._file.write(json.dumps(fields) + "\n")

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        self._file.flush()

    def sync(self) -> None:
        """Return when what was handed over is on the disk, where the file is on one."""
        with suppress(OSError):  # a pipe or a terminal
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
