"""Rows whose user is named in a column: CSV and JSON lines, as in :mod:`ldp_stream.connectors.files`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from ..errors import InvalidInput, UnusableRow
from .base import Row
from .csv_tables import CsvTable, column_indices
from .files import JsonLines, cells_to_rows, json_object
from .reading import Convert, ReaderSource, one_by_one
from .rows import feature_names, read_row

__all__ = ["CsvUserSource", "JsonLinesUserSource", "UserRow"]

R = TypeVar("R")

UserRow: TypeAlias = tuple[str, Row]
"""A user's name and one row of raw data."""

_MISSING = "the user is missing"


class CsvUserSource(ReaderSource[UserRow]):
    """Rows of a CSV file with a header line and a column that names each row's user, in any text.

    Parameters
    ----------
    path, target, features, delimiter, strict
        As in :class:`~ldp_stream.connectors.files.CsvSource`.
    user
        The user's column; a row where it is empty is a reject.

    Raises
    ------
    InvalidInput
        If the file is not there, or has not the target's, a feature's or the user's column, or the user's is
        the target's.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        features: Sequence[str],
        user: str,
        *,
        delimiter: str = ",",
        strict: bool = False,
    ) -> None:
        _check_user(user, target)
        table = CsvTable(path, delimiter)
        try:
            (place, *_) = column_indices(table.columns, [user, target, *features], table.name)
            rows = cells_to_rows(table.columns, target, feature_names(features, target), table.name)
        except BaseException:
            table.close()
            raise
        super().__init__(table, _with_users(rows, lambda cells: cells[place].strip()), strict)


class JsonLinesUserSource(ReaderSource[UserRow]):
    """Rows of a file with one JSON object a line, of which a text or a number names the user.

    Parameters
    ----------
    path, target, features, strict
        As in :class:`~ldp_stream.connectors.files.JsonLinesSource`.
    user
        The user's name in the objects; an object without it is a reject.

    Raises
    ------
    InvalidInput
        If the file is not there, or the user is the target.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        features: Sequence[str],
        user: str,
        *,
        strict: bool = False,
    ) -> None:
        _check_user(user, target)
        wanted = feature_names(features, target)

        def convert(line: bytes) -> UserRow:
            record = json_object(line)
            row = read_row(record, record.get(target), target, wanted)
            name = record.get(user)
            text = str(name).strip() if isinstance(name, str | int | float) else ""
            if not text:
                raise UnusableRow(_MISSING)
            return text, row

        super().__init__(JsonLines(path), one_by_one(convert), strict)


def _check_user(user: str, target: str) -> None:
    if user == target:
        raise InvalidInput(f"user = {user!r}: must not be the target")


def _with_users(rows: Convert[R, Row], user_of: Callable[[R], str]) -> Convert[R, UserRow]:
    """Return the conversion that also takes each record's user."""

    def convert(records: Sequence[R]) -> tuple[list[UserRow], list[tuple[int, str]]]:
        items, faults = rows(records)
        bad = {place for place, _ in faults}
        found: list[UserRow] = []
        good = (place for place in range(len(records)) if place not in bad)
        for place, row in zip(good, items, strict=True):
            user = user_of(records[place])
            if user:
                found.append((user, row))
            else:
                faults.append((place, _MISSING))
        return found, sorted(faults)

    return convert
