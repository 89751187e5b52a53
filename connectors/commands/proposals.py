"""Bounds proposed from a CSV file: the least and greatest value of each column, rounded outward.

With r the power of ten two digits below the range, r = 10^(floor(log10(max - min)) - 1),

    lower = r floor(min/r),     upper = r ceil(max/r).

Bounds found so depend on raw values, so they leak. They are a starting point for somebody who then sets what
is publicly known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path

from ...errors import InvalidInput
from ...scale import INTERCEPT
from ..csv_tables import CsvTable, column_indices
from .campaign_text import Bounds

__all__ = ["Proposal", "propose", "rounded_outward"]

_LINES = 8192
_WIDEST = 1e300
_EXACT = Context(prec=800)


@dataclass(frozen=True)
class Proposal:
    """What a file suggests.

    Parameters
    ----------
    target
        The target's range.
    features
        Name to bounds, in the file's order.
    left_out
        Columns that cannot be features, with the reason.
    rows
        Rows looked at.
    """

    target: Bounds
    features: dict[str, Bounds]
    left_out: dict[str, str]
    rows: int


class _Column:
    """Least and greatest value of a column, and whether it is numbers at all."""

    def __init__(self) -> None:
        self.lower, self.upper = math.inf, -math.inf
        self.text = 0
        self.indicator = True

    def add(self, cells: Sequence[str]) -> None:
        for cell in cells:
            try:
                value = float(cell)
            except ValueError:
                self.text += bool(cell.strip())
                continue
            if math.isfinite(value):
                self.lower, self.upper = min(self.lower, value), max(self.upper, value)
                self.indicator = self.indicator and value in (0.0, 1.0)

    def fault(self) -> str | None:
        """Say why the column cannot be bounded, if so."""
        if self.text:
            return "holds text"
        if self.lower > self.upper:
            return "has no value"
        if self.lower == self.upper:
            return "has one value only"
        return None if self.upper - self.lower < _WIDEST else "is wider than a feature may be"

    def bounds(self) -> Bounds:
        if self.indicator:
            return Bounds(0.0, 1.0, 0.0)
        return Bounds(*rounded_outward(self.lower, self.upper))


def rounded_outward(lower: float, upper: float) -> tuple[float, float]:
    """Return bounds with two digits of their range, outside the given ones.

    Examples
    --------
    >>> rounded_outward(-2.303, 3.391), rounded_outward(0.31, 118.7)
    ((-2.4, 3.4), (0.0, 120.0))
    """
    unit = Decimal(1).scaleb(math.floor(math.log10(upper - lower)) - 1)
    low = (Decimal(lower) / unit).to_integral_value(ROUND_FLOOR, _EXACT) * unit
    high = (Decimal(upper) / unit).to_integral_value(ROUND_CEILING, _EXACT) * unit
    return float(low) + 0.0, float(high) + 0.0


def propose(path: Path, target: str, delimiter: str = ",") -> Proposal:
    """Read a CSV file and propose bounds for its columns.

    Raises
    ------
    InvalidInput
        If the file has no such target, no usable feature, or no row.
    """
    table = CsvTable(path, delimiter)
    try:
        names = list(table.columns)
        column_indices(names, [target], table.name)
        columns = [_Column() for _ in names]
        rows = 0
        for records in _records(table):
            rows += len(records)
            for column, cells in zip(columns, zip(*records, strict=True), strict=True):
                column.add(cells)
    finally:
        table.close()
    if not rows:
        raise InvalidInput(f"{path}: has no row to look at")
    features: dict[str, Bounds] = {}
    left_out: dict[str, str] = {}
    found: Bounds | None = None
    for name, column in zip(names, columns, strict=True):
        fault = column.fault()
        if name == target:
            if fault is not None:
                raise InvalidInput(f"{path}: the target {target!r} {fault}")
            found = Bounds(*rounded_outward(column.lower, column.upper))
        elif name in ("", INTERCEPT) or names.count(name) > 1:
            left_out[name] = "is no name for a feature" if name in ("", INTERCEPT) else "stands twice"
        elif fault is not None:
            left_out[name] = fault
        else:
            features[name] = column.bounds()
    if found is None or not features:
        raise InvalidInput(f"{path}: no column beside {target!r} holds numbers that differ")
    return Proposal(found, features, left_out, rows)


def _records(table: CsvTable) -> Iterator[Sequence[list[str]]]:
    while (taken := table.take(_LINES)) is not None:
        if taken.records:
            yield taken.records
