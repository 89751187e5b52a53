"""Records of a CSV file with a header line, with an exact position after each.

Almost every record is one line, so a batch is parsed at once; only where the count of records and lines
differs, or something is broken, the lines are looked at one by one. A quoted field may hold line ends, up to
a bound: a record that starts at a line and is not closed within 100 lines, or has not the header's number of
fields when it is, costs that one line, and reading goes on at the next. So a stray quote loses one row, not
the rest of the file, and what a line is read as depends on nothing before it.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence

from ..errors import InvalidInput
from .base import Position, Reject, read_position
from .line_files import LineFile, text_of
from .reading import Records

__all__ = ["CsvTable", "column_indices"]

_MOST_LINES = 100
_WRONG_WIDTH = "the number of fields is not the header's"
_NOT_UTF8 = "not valid UTF-8"
_NOT_CLOSED = "a quoted field is not closed"


def column_indices(columns: Sequence[str], names: Sequence[str], path: str) -> list[int]:
    """Return where the named columns stand.

    Raises
    ------
    InvalidInput
        If one is not there, or stands twice.
    """
    for name in names:
        if columns.count(name) != 1:
            fault = "stands twice" if name in columns else "is not there"
            raise InvalidInput(
                f"{path}: column {name!r} {fault}; the columns are {', '.join(map(repr, columns))}"
            )
    return [columns.index(name) for name in names]


class CsvTable:
    """A CSV file with a header line.

    Parameters
    ----------
    path
        A file, plain or gzip, or ``-`` for standard input.
    delimiter
        One character.

    Raises
    ------
    InvalidInput
        If the file is not there, or has no header line.
    """

    def __init__(self, path: str | os.PathLike[str], delimiter: str = ",") -> None:
        if not (isinstance(delimiter, str) and len(delimiter) == 1 and delimiter not in '"\r\n '):
            raise InvalidInput(
                f"delimiter = {delimiter!r}: must be one character, no quote, space or line end"
            )
        self._delimiter = delimiter
        self._file = LineFile(path)
        self.name = self._file.name
        try:
            self.columns = self._header()
        except BaseException:
            self._file.close()
            raise
        self._start = self._file.byte

    def _header(self) -> list[str]:
        lines = self._file.take(1)
        if not lines:
            raise InvalidInput(f"{self.name}: is empty; a header line with the columns' names is needed")
        try:
            (names,) = self._parse([lines[0].decode("utf-8-sig")])
        except (UnicodeDecodeError, ValueError, csv.Error):
            names = []
        if not names:
            raise InvalidInput(
                f"{self.name}: the first line must be the columns' names, in UTF-8, on one line"
            )
        return [name.strip() for name in names]

    @property
    def position(self) -> Position:
        """Line and byte after the records taken so far."""
        return self._file.position

    @property
    def progress(self) -> float | None:
        """The part of the file that is read, by bytes."""
        return self._file.progress

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading."""
        if read_position(position, "line", "byte")[1] < self._start:
            raise InvalidInput(
                f"position = {dict(position)!r}: must not lie in the header line of {self.name}"
            )
        self._file.resume(position)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def take(self, size: int) -> Records[list[str]] | None:
        """Take at most ``size`` lines' records, or None at the end. Empty lines are passed over."""
        first = self._file.line + 1
        lines = self._file.take(size)
        if not lines:
            return None
        try:
            cells = list(self._parse([line.decode() for line in lines]))
        except (UnicodeDecodeError, csv.Error):
            return self._one_by_one(lines, first)
        width = len(self.columns)
        if len(cells) != len(lines) or any(len(row) != width for row in cells):
            return self._one_by_one(lines, first)
        return Records(cells, range(first, first + len(lines)), lambda index: text_of(lines[index]))

    def _parse(self, texts: Sequence[str] | Iterator[str]) -> Iterator[list[str]]:
        return csv.reader(texts, delimiter=self._delimiter, skipinitialspace=True, strict=True)

    def _one_by_one(self, lines: list[bytes], first: int) -> Records[list[str]]:
        """Read the records that start in these lines; the last one may need lines beyond."""
        own = len(lines)
        cells: list[list[str]] = []
        numbers: list[int] = []
        texts: list[str] = []
        rejected: list[Reject] = []
        at = 0
        while at < own:
            count, fields, reason = self._record(lines, at)
            text = text_of(b"".join(lines[at : at + count]))
            if reason:
                rejected.append(Reject(reason, first + at, text, self.name))
            elif fields:
                cells.append(fields)
                numbers.append(first + at)
                texts.append(text)
            at += count
        self._file.give_back(lines[at:])
        return Records(cells, numbers, texts.__getitem__, rejected)

    def _record(self, lines: list[bytes], at: int) -> tuple[int, list[str], str]:
        """Return the lines that the record at ``at`` takes, its fields, and the reason if it cannot be used.

        Lines beyond the given ones are appended to them when a quoted field asks for more.
        """
        used = 0

        def following() -> Iterator[str]:
            nonlocal used
            for index in range(at, at + _MOST_LINES):
                if index == len(lines):
                    lines.extend(self._file.take(_MOST_LINES))
                if index == len(lines):
                    return
                used += 1
                yield lines[index].decode()

        try:
            fields = next(self._parse(following()))
        except UnicodeDecodeError:
            return 1, [], _NOT_UTF8 if used == 1 else _NOT_CLOSED
        except csv.Error as error:
            return 1, [], _NOT_CLOSED if "end of data" in str(error) else f"broken CSV: {error}"
        if fields and len(fields) != len(self.columns):
            return 1, [], _WRONG_WIDTH
        return used, fields, ""
