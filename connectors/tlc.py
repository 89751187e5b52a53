"""NYC TLC yellow-taxi trip records in files: CSV (also gzip) and, with pyarrow installed, Parquet.

Several files are one source, in the order given. A trip that cannot be used, by the rule of
:mod:`ldp_stream.datasets.tlc`, is a reject with its reason, file and line. As with every raw data source,
this happens before the study and is not protected by the privacy guarantee.

The position is ``{"file": index from 0, "line": ..., "byte": ...}``; in a Parquet file ``line`` counts rows
and ``byte`` is 0.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path

from ..datasets.tlc import read_trip, trip_columns
from ..errors import InvalidInput
from .base import Position, Row, read_position
from .csv_tables import CsvTable, column_indices
from .parquet_tables import ParquetTable, is_parquet
from .reading import Reader, ReaderSource, Records, one_by_one

__all__ = ["TlcSource"]


class _CsvTrips:
    """The four columns of a CSV file's trips."""

    def __init__(self, path: str) -> None:
        self._table = CsvTable(path)
        self.name = self._table.name
        self.resume = self._table.resume
        self.close = self._table.close
        try:
            names = trip_columns(self._table.columns)
            self._cells = itemgetter(*column_indices(self._table.columns, names, path))
        except BaseException:
            self._table.close()
            raise

    @property
    def position(self) -> Position:
        return self._table.position

    @property
    def progress(self) -> float | None:
        return self._table.progress

    def take(self, size: int) -> Records[Sequence[object]] | None:
        taken = self._table.take(size)
        if taken is None:
            return None
        return Records(list(map(self._cells, taken.records)), taken.lines, taken.raw, taken.rejected)


def _open_trips(path: str) -> Reader[Sequence[object]]:
    return ParquetTable(path, trip_columns) if is_parquet(path) else _CsvTrips(path)


class _TripFiles:
    """The trips of several files, one after another; a batch lies within one file."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths
        self._sizes = [0 if path == "-" else _size(path) for path in paths]
        for path in paths:
            if path != "-":
                _open_trips(path).close()
        self._index = 0
        self._table = _open_trips(paths[0])

    @property
    def name(self) -> str:
        return self._table.name

    @property
    def position(self) -> Position:
        return {"file": self._index, **self._table.position}

    @property
    def progress(self) -> float | None:
        here = self._table.progress
        if here is None:
            return None
        read = sum(self._sizes[: self._index]) + here * self._sizes[self._index]
        return read / sum(self._sizes) if sum(self._sizes) else here

    def _go_to(self, index: int) -> None:
        self._table.close()
        self._index = index
        self._table = _open_trips(self._paths[index])

    def take(self, size: int) -> Records[Sequence[object]] | None:
        while (taken := self._table.take(size)) is None and self._index + 1 < len(self._paths):
            self._go_to(self._index + 1)
        return taken

    def resume(self, position: Position) -> None:
        index, line, byte = read_position(position, "file", "line", "byte")
        if index >= len(self._paths):
            raise InvalidInput(f"position = {dict(position)!r}: there are only {len(self._paths)} files")
        if index != self._index:
            self._go_to(index)
        self._table.resume({"line": line, "byte": byte})

    def close(self) -> None:
        self._table.close()


def _size(path: str) -> int:
    """Return a file's size in bytes; 0 if it is not there, which opening it will tell."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


class TlcSource(ReaderSource[Row]):
    """Trips as rows: ``{"log_miles", "rush", "night", "airport"}`` and log minutes.

    Parameters
    ----------
    paths
        One file or several: CSV, gzip or Parquet, told by their first bytes; or ``-`` alone for standard
        input.
    strict
        Raise UnusableRow at the first trip that cannot be used.

    Raises
    ------
    InvalidInput
        If there is no path, or one of the files is not there or has not the columns of trip records.
    MissingExtra
        If one of them is a Parquet file and pyarrow is not installed.
    """

    def __init__(
        self, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, strict: bool = False
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        names = [os.fspath(path) for path in given]
        if not names or ("-" in names and len(names) > 1):
            raise InvalidInput(f"paths = {names!r}: must be at least one file, or '-' alone")
        super().__init__(_TripFiles(names), one_by_one(_read), strict)


def _read(cells: Sequence[object]) -> Row:
    pickup, dropoff, distance, rate_code = cells
    return read_trip(pickup, dropoff, distance, rate_code)
