"""Sources of rows and reports in files: CSV and JSON lines, plain or gzip, or standard input (``-``).

A row that cannot be used (no target, text where a number belongs, the wrong number of fields, bytes that are
not UTF-8, broken JSON, a target that is NaN or infinite) is handed out as a reject with its reason and line
number; it never stops the run unless ``strict`` is set. An empty or absent feature is no fault: it is left
out of the row.

This cleaning happens before the study, on raw data, and is not protected by the privacy guarantee: which rows
were left out, the reasons, and the rejects file are as private as the raw data itself.

The position of every source here is ``{"line": lines read, "byte": uncompressed bytes read}``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TypeVar

from ..errors import CampaignMismatch, InvalidInput, InvalidReport, UnusableRow
from .base import Position, Row
from .csv_tables import CsvTable, column_indices
from .line_files import LineFile, text_of
from .reading import Convert, ReaderSource, Records, one_by_one
from .rows import feature_names, read_row

__all__ = ["CsvSource", "JsonLines", "JsonLinesSource", "ReportLinesSource", "cells_to_rows", "json_object"]

T = TypeVar("T")


class CsvSource(ReaderSource[Row]):
    """Rows of a CSV file with a header line.

    Parameters
    ----------
    path
        The file, plain or gzip, or ``-`` for standard input.
    target
        The target's column.
    features
        The columns to read as features. None takes every other value that is a number, row by row, and passes
        over text; naming them is faster, and text in one of them makes the row a reject.
    delimiter
        One character.
    strict
        Raise UnusableRow at the first row that cannot be used.

    Attributes
    ----------
    columns
        The columns of the file.
    absent
        The named features that the file has no column for; every row is without them.

    Raises
    ------
    InvalidInput
        If the file is not there, has no header line or no target column, or none of the named features.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        features: Sequence[str] | None = None,
        *,
        delimiter: str = ",",
        strict: bool = False,
    ) -> None:
        wanted = feature_names(features, target)
        table = CsvTable(path, delimiter)
        try:
            self.columns = tuple(table.columns)
            self.absent = tuple(name for name in wanted or () if name not in self.columns)
            if wanted and len(self.absent) == len(wanted):
                listed = ", ".join(map(repr, self.columns))
                raise InvalidInput(
                    f"{table.name}: has none of the features {list(wanted)}; the columns are {listed}"
                )
            convert = cells_to_rows(self.columns, target, wanted, table.name)
        except BaseException:
            table.close()
            raise
        super().__init__(table, convert, strict)


def cells_to_rows(
    columns: Sequence[str], target: str, features: tuple[str, ...] | None, path: str
) -> Convert[list[str], Row]:
    """Return the conversion of records to rows.

    A batch is read column by column. Only where that meets text, or a target that is not finite, its rows are
    read one by one with :func:`~ldp_stream.connectors.rows.read_row`, which is the rule for both.
    """
    wanted = columns if features is None else features
    names = [name for name in wanted if name and name in columns and name != target]
    own, *others = column_indices(columns, [target, *names], path)
    read_feature = _read_loosely if features is None else _read_column

    def read_one(record: list[str]) -> Row:
        cells = {name: record[index] for name, index in zip(names, others, strict=True)}
        return read_row(cells, record[own], target, features)

    def convert(records: Sequence[list[str]]) -> tuple[list[Row], list[tuple[int, str]]]:
        try:
            y = _read_column([record[own] for record in records])
            values = [read_feature([record[index] for record in records]) for index in others]
        except ValueError:
            return one_by_one(read_one)(records)
        if not all(map(math.isfinite, y)):
            return one_by_one(read_one)(records)
        rows = zip(*values, strict=True) if values else repeat((), len(y))
        if all(math.isfinite(sum(column)) for column in values):
            xs = [dict(zip(names, row, strict=True)) for row in rows]
        else:
            xs = [{n: v for n, v in zip(names, row, strict=True) if not math.isnan(v)} for row in rows]
        return list(zip(xs, y, strict=True)), []

    return convert


def _read_column(cells: Sequence[str]) -> list[float]:
    """Return the cells as numbers, an empty one as NaN; raise ValueError at text."""
    try:
        return list(map(float, cells))
    except ValueError:
        return [float(cell or "nan") for cell in cells]


def _read_loosely(cells: Sequence[str]) -> list[float]:
    """Return the cells as numbers, everything else as NaN."""

    def loosely(cell: str) -> float:
        try:
            return float(cell)
        except ValueError:
            return math.nan

    return list(map(loosely, cells))


class JsonLines:
    """The lines of a file as records, without the empty ones."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._file = LineFile(path)
        self.name = self._file.name
        self.resume = self._file.resume
        self.close = self._file.close

    @property
    def position(self) -> Position:
        """The lines and bytes taken so far."""
        return self._file.position

    @property
    def progress(self) -> float | None:
        """The part of the file that is read."""
        return self._file.progress

    def take(self, size: int) -> Records[bytes] | None:
        """Take at most ``size`` lines; None at the end."""
        first = self._file.line + 1
        lines = self._file.take(size)
        if not lines:
            return None
        if first == 1:
            lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
        kept = [(number, line) for number, line in enumerate(lines, first) if not line.isspace()]
        numbers, records = zip(*kept, strict=True) if kept else ((), ())
        return Records(records, numbers, lambda index: text_of(records[index]))


def json_object(line: bytes) -> dict[str, object]:
    """Return the JSON object that a line holds, or refuse it with UnusableRow."""
    try:
        record = json.loads(line.decode())
    except UnicodeDecodeError:
        raise UnusableRow("not valid UTF-8") from None
    except (ValueError, RecursionError):
        raise UnusableRow("broken JSON") from None
    if not isinstance(record, dict):
        raise UnusableRow("not a JSON object")
    return record


class JsonLinesSource(ReaderSource[Row]):
    """Rows of a file with one JSON object a line.

    A value may be a number, true or false (1 or 0), or a text that is a number; null, an empty text and an
    absent name are the same. Empty lines are passed over.

    Parameters
    ----------
    path
        The file, plain or gzip, or ``-`` for standard input.
    target
        The target's name.
    features
        The names to read as features; None takes every other value that is a number.
    strict
        Raise UnusableRow at the first row that cannot be used.

    Raises
    ------
    InvalidInput
        If the file is not there.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        features: Sequence[str] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        wanted = feature_names(features, target)

        def convert(line: bytes) -> Row:
            record = json_object(line)
            return read_row(record, record.get(target), target, wanted)

        super().__init__(JsonLines(path), one_by_one(convert), strict)


class ReportLinesSource(ReaderSource[T]):
    """Reports in a file, one a line.

    Parameters
    ----------
    path
        The file, plain or gzip, or ``-`` for standard input.
    decode
        From a line without its line end to a report; a line for which it raises InvalidReport or
        CampaignMismatch becomes a reject with the message as its reason. Empty lines are passed over.
    strict
        Raise UnusableRow at the first line that is not a report.

    Raises
    ------
    InvalidInput
        If the file is not there.
    """

    def __init__(
        self, path: str | os.PathLike[str], decode: Callable[[bytes], T], *, strict: bool = False
    ) -> None:
        def convert(line: bytes) -> T:
            try:
                return decode(line.rstrip(b"\r\n"))
            except (InvalidReport, CampaignMismatch) as error:
                raise UnusableRow(str(error)) from None

        super().__init__(JsonLines(path), one_by_one(convert), strict)
