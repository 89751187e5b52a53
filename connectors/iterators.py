"""Any iterable as a source: dicts, pairs (x, y) such as river's streams and datasets yield, or reports.

The position is ``{"item": items taken}``; resuming takes and drops that many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, Generic, TypeVar, overload

from ..errors import InvalidInput
from .base import Position, Row, read_position
from .reading import ReaderSource, Records, one_by_one
from .rows import feature_names, read_row

__all__ = ["IterableSource"]

T = TypeVar("T")


class _Items(Generic[T]):
    """The items of an iterable as records; an item's line number is its number, from 1."""

    name = "the iterable"

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._iterator = iter(iterable)
        self._taken = 0

    @property
    def position(self) -> Position:
        return {"item": self._taken}

    @property
    def progress(self) -> float | None:
        if not isinstance(self._iterable, Sized):
            return None
        return min(1.0, self._taken / max(1, len(self._iterable)))

    def take(self, size: int) -> Records[T] | None:
        items = list(islice(self._iterator, size))
        if not items:
            return None
        first = self._taken + 1
        self._taken += len(items)
        return Records(items, range(first, self._taken + 1), lambda index: repr(items[index]))

    def resume(self, position: Position) -> None:
        (item,) = read_position(position, "item")
        if item < self._taken:
            if iter(self._iterable) is self._iterator:
                raise InvalidInput(
                    f"position = {dict(position)!r}: an iterator at item {self._taken} cannot go back"
                )
            self._iterator, self._taken = iter(self._iterable), 0
        self._taken += sum(1 for _ in islice(self._iterator, item - self._taken))
        if self._taken < item:
            raise InvalidInput(f"position = {dict(position)!r}: the iterable has {self._taken} items")

    def close(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


class IterableSource(ReaderSource[T], Generic[T]):
    """Items of any iterable.

    A mapping becomes a row, its target taken out; a pair whose first part is a mapping is a row already; both
    follow the rule of :mod:`ldp_stream.connectors.rows`. Anything else, such as a report, is passed through
    as it is.

    Not guaranteed: that an iterator that was advanced before resumes at the right item; give one that starts
    where the first one did.

    Parameters
    ----------
    iterable
        The items. A list or another iterable that can be read again can also be resumed backwards.
    target
        The target's name, needed where items are mappings.
    features
        The names to read as features; None takes every value that is a number.
    strict
        Raise UnusableRow at the first row that cannot be used.

    Examples
    --------
    >>> trips = [{"miles": 2.0, "minutes": 9}, {"miles": 1.0, "minutes": None}]
    >>> source = IterableSource(trips, target="minutes")
    >>> batch = next(source.batches(10))
    >>> batch.items
    [({'miles': 2.0}, 9.0)]
    >>> [(reject.line, reject.reason) for reject in batch.rejected]
    [(2, "the target 'minutes' is missing")]
    """

    @overload
    def __init__(
        self: IterableSource[Row],
        iterable: Iterable[Mapping[str, object]],
        *,
        target: str,
        features: Sequence[str] | None = None,
        strict: bool = False,
    ) -> None: ...

    @overload
    def __init__(
        self: IterableSource[Row],
        iterable: Iterable[tuple[Mapping[str, object], object]],
        *,
        target: None = None,
        features: Sequence[str] | None = None,
        strict: bool = False,
    ) -> None: ...

    @overload
    def __init__(self: IterableSource[T], iterable: Iterable[T], *, strict: bool = False) -> None: ...

    def __init__(
        self,
        iterable: Iterable[object],
        *,
        target: str | None = None,
        features: Sequence[str] | None = None,
        strict: bool = False,
    ) -> None:
        wanted = feature_names(features, target)

        def convert(item: object) -> Any:
            if isinstance(item, Mapping):
                if target is None:
                    raise InvalidInput("target = None: must name the target where items are mappings")
                return read_row(item, item.get(target), target, wanted)
            if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Mapping):
                return read_row(item[0], item[1], "y", wanted)
            return item

        super().__init__(_Items(iterable), one_by_one(convert), strict)
