"""What every finite source here is made of: a reader of records, and a function from records to items.

The reader knows positions, the function knows what a usable record is; :class:`ReaderSource` joins the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from .._validate import integer_in
from ..errors import UnusableRow
from .base import Batch, Position, Reject, Source

__all__ = ["Convert", "Reader", "ReaderSource", "Records", "one_by_one"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Records(Generic[R_co]):
    """Records that were read, and what could not become one.

    Parameters
    ----------
    records
        The records in order.
    lines
        Each record's (first) line number.
    raw
        From a record's index to its text as read.
    rejected
        What was left out.
    """

    records: Sequence[R_co]
    lines: Sequence[int]
    raw: Callable[[int], str]
    rejected: Sequence[Reject] = ()


Convert: TypeAlias = Callable[[Sequence[R]], tuple[list[T], list[tuple[int, str]]]]
"""From records to the items they hold, and (index, reason) of each record that cannot be used."""


class Reader(Protocol[R_co]):
    """Hands out records and knows where it stands."""

    @property
    def name(self) -> str:
        """What is read now: a file's name, for messages."""

    @property
    def position(self) -> Position:
        """The position after the records taken so far."""

    @property
    def progress(self) -> float | None:
        """The part that is read, or None."""

    def take(self, size: int) -> Records[R_co] | None:
        """Take at most ``size`` records, rejects counted; None at the end."""

    def resume(self, position: Position) -> None:
        """Go to an earlier position."""

    def close(self) -> None:
        """Release what is held."""


def one_by_one(convert: Callable[[R], T]) -> Convert[R, T]:
    """Return the conversion of many records that calls ``convert`` on each; UnusableRow makes a fault.

    Examples
    --------
    >>> from ldp_stream.errors import UnusableRow
    >>> def positive(number):
    ...     if number <= 0:
    ...         raise UnusableRow("not positive")
    ...     return number
    >>> one_by_one(positive)([3, -1, 2])
    ([3, 2], [(1, 'not positive')])
    """

    def convert_all(records: Sequence[R]) -> tuple[list[T], list[tuple[int, str]]]:
        items: list[T] = []
        faults: list[tuple[int, str]] = []
        append = items.append
        for index, record in enumerate(records):
            try:
                append(convert(record))
            except UnusableRow as error:
                faults.append((index, str(error)))
        return items, faults

    return convert_all


class ReaderSource(Source[T], Generic[T]):
    """A source made of a reader and a conversion.

    Parameters
    ----------
    reader
        Where the records come from.
    convert
        From records to items and faults.
    strict
        Raise UnusableRow at the first row that cannot be used instead of handing it out as a reject.
    """

    def __init__(self, reader: Reader[R], convert: Convert[R, T], strict: bool) -> None:
        self._reader = reader
        self._take: Callable[[int], tuple[list[T], list[Reject]] | None] = partial(_take, reader, convert)
        self._strict = strict
        self._position = reader.position

    @property
    def position(self) -> Position:
        """The position after the last batch that was handed out."""
        return self._position

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading; refuse one that does not fit with InvalidInput."""
        self._reader.resume(position)
        self._position = self._reader.position

    def batches(self, size: int) -> Iterator[Batch[T]]:
        """Hand out batches of at most ``size`` rows, items and rejects together, from the position on."""
        return self._batches(integer_in(1, 10**9, size=size))

    def _batches(self, size: int) -> Iterator[Batch[T]]:
        while (taken := self._take(size)) is not None:
            items, rejected = taken
            if self._strict and rejected:
                raise UnusableRow(str(rejected[0]))
            self._position = self._reader.position
            yield Batch(items, self._position, rejected, self._reader.progress)

    def close(self) -> None:
        """Close what is read."""
        self._reader.close()


def _take(reader: Reader[R], convert: Convert[R, T], size: int) -> tuple[list[T], list[Reject]] | None:
    """Take records and convert them; faults become rejects, in their place among the reader's own."""
    taken = reader.take(size)
    if taken is None:
        return None
    items, faults = convert(taken.records)
    rejected = [Reject(reason, taken.lines[at], taken.raw(at), reader.name) for at, reason in faults]
    return items, sorted([*taken.rejected, *rejected], key=lambda reject: reject.line)
