"""Chosen columns of a Parquet file as records; needs pyarrow (``pip install 'ldp-stream[parquet]'``).

The position is ``{"line": rows taken, "byte": 0}``; resuming passes over row groups without
reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..errors import InvalidInput, MissingExtra
from .base import Position, read_position
from .reading import Records

__all__ = ["ParquetTable", "is_parquet"]

_MAGIC = b"PAR1"
_ROWS_AT_ONCE = 65_536


def is_parquet(path: str) -> bool:
    """Say whether a file's first bytes are those of Parquet; False for what is no file or cannot be read."""
    try:
        with Path(path).open("rb") as stream:
            return stream.seekable() and stream.read(4) == _MAGIC
    except OSError:
        return False


def _pyarrow(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(
            "Parquet files need pyarrow, which is not installed: pip install 'ldp-stream[parquet]'"
        ) from None


class ParquetTable:
    """Some columns of a Parquet file.

    Parameters
    ----------
    path
        The file.
    choose
        From all columns' names to those to read, in order.

    Raises
    ------
    InvalidInput
        If the file cannot be read, or ``choose`` does not find its columns.
    MissingExtra
        If pyarrow is not installed.
    """

    def __init__(self, path: str, choose: Callable[[Sequence[str]], Sequence[str]]) -> None:
        self._arrow = _pyarrow("pyarrow")
        parquet = _pyarrow("pyarrow.parquet")
        self.name = path
        try:
            self._file = parquet.ParquetFile(path)
        except (self._arrow.ArrowException, OSError) as error:
            raise InvalidInput(f"path = {path!r}: cannot be read as Parquet: {error}") from None
        try:
            self._columns = list(choose(self._file.schema_arrow.names))
        except BaseException:
            self.close()
            raise
        self._rows: int = self._file.metadata.num_rows
        self._start(0)

    def _start(self, row: int) -> None:
        """Begin at a row: in the row group that holds it."""
        metadata = self._file.metadata
        sizes = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        ends = list(accumulate(sizes))
        groups = [index for index, end in enumerate(ends) if end > row]
        self._taken = row
        self._ready: list[tuple[object, ...]] = []
        skip = row - (ends[groups[0]] - sizes[groups[0]]) if groups else 0
        self._chunks = self._read(groups, skip)

    def _read(self, groups: list[int], skip: int) -> Iterator[list[tuple[object, ...]]]:
        batches = self._file.iter_batches(_ROWS_AT_ONCE, row_groups=groups, columns=self._columns)
        for batch in batches if groups else ():
            rows = batch.slice(min(skip, batch.num_rows))
            skip -= batch.num_rows - rows.num_rows
            yield list(zip(*(self._values(rows.column(name)) for name in self._columns), strict=True))

    def _values(self, column: Any) -> list[object]:
        """Return a column's values; times to the microsecond, which is what ``datetime`` holds."""
        if self._arrow.types.is_timestamp(column.type):
            column = column.cast(self._arrow.timestamp("us", column.type.tz), safe=False)
        values: list[object] = column.to_pylist()
        return values

    @property
    def position(self) -> Position:
        """The rows taken so far."""
        return {"line": self._taken, "byte": 0}

    @property
    def progress(self) -> float | None:
        """The part of the rows that is taken."""
        return self._taken / self._rows if self._rows else 1.0

    def take(self, size: int) -> Records[Sequence[object]] | None:
        """Take at most ``size`` rows, or None at the end."""
        while len(self._ready) < size and (chunk := self._next_chunk()) is not None:
            self._ready += chunk
        records = self._ready[:size]
        if not records:
            return None
        del self._ready[:size]
        first = self._taken + 1
        self._taken += len(records)
        return Records(records, range(first, self._taken + 1), lambda index: self._raw(records[index]))

    def _next_chunk(self) -> list[tuple[object, ...]] | None:
        try:
            return next(self._chunks, None)
        except (self._arrow.ArrowException, OSError) as error:
            raise InvalidInput(f"{self.name}: cannot be read beyond row {self._taken}: {error}") from None

    def _raw(self, record: tuple[object, ...]) -> str:
        return ", ".join(f"{name}={value}" for name, value in zip(self._columns, record, strict=True))

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading."""
        line, byte = read_position(position, "line", "byte")
        if line > self._rows or byte:
            raise InvalidInput(
                f"position = {dict(position)!r}: does not fit {self.name} of {self._rows} rows"
            )
        self._start(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
