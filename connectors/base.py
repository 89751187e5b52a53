"""The contracts of everything that reads and writes: sources, sinks and checkpoint stores.

Data flows one way: a :class:`Source` hands out batches, a pure core folds their items into a state, and a
:class:`CheckpointStore` keeps that state together with the position that it belongs to. After a crash the
state is loaded and the source resumes at that position:

    state(position) = fold of every item before the position,

so an item is counted once in effect, although it may be *read* more than once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, TypeAlias, TypeVar

from ..errors import InvalidInput

__all__ = [
    "Batch",
    "Checkpoint",
    "CheckpointStore",
    "MessageBatch",
    "Position",
    "Reject",
    "Row",
    "Sink",
    "Source",
    "read_position",
]

Position: TypeAlias = Mapping[str, int]
"""Where a source stands, as whole numbers by name: line and byte of a file, or the next offset of each
partition."""

Row: TypeAlias = tuple[dict[str, float], float]
"""One row of raw data: the features that are there by name, and the target."""

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)
SelfT = TypeVar("SelfT", bound="_Closing")


@dataclass(frozen=True, slots=True)
class Reject:
    """One row, line or message that could not be used.

    Parameters
    ----------
    reason
        Why, in words that are the same for every row with the same fault, so that rejects can be counted by
        reason.
    line
        Its number in the origin: the line of a file (from 1), the number of an item (from 1) or an offset.
    raw
        Its text as read. Bytes that are not UTF-8 stand as surrogate escapes:
        ``raw.encode("utf-8", "surrogateescape")`` gives back the exact bytes.
    origin
        The file or the partition that it came from.

    Examples
    --------
    >>> str(Reject("the target 'minutes' is missing", 7, "1.5,,0", "trips.csv"))
    "trips.csv, line 7: the target 'minutes' is missing: '1.5,,0'"
    """

    reason: str
    line: int
    raw: str
    origin: str = ""

    def __str__(self) -> str:
        """Say origin, line, reason and the beginning of the raw text."""
        shown = self.raw if len(self.raw) <= 200 else self.raw[:200] + "..."
        return f"{self.origin or 'input'}, line {self.line}: {self.reason}: {shown!r}"


@dataclass(frozen=True, slots=True)
class Batch(Generic[T_co]):
    """What a source hands out at once.

    Parameters
    ----------
    items
        The usable items, in the order of the source. May be empty.
    position
        The source's position after everything in this batch, rejected rows included.
    rejected
        What could not be used, in the order of the source.
    progress
        The part of the source that is read, from 0 to 1; None where its size is unknown.
    """

    items: Sequence[T_co]
    position: Position
    rejected: Sequence[Reject] = ()
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class MessageBatch(Batch[T_co]):
    """A batch of messages of one partition of a log.

    Parameters
    ----------
    partition
        The partition that everything in this batch comes from.
    offsets
        The offset of each item.
    """

    partition: int = 0
    offsets: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state and the position that it belongs to.

    Parameters
    ----------
    campaign
        The campaign's canonical JSON, so that a checkpoint can be read without the campaign's file.
    state
        The snapshot of the state; its own format is the state's business.
    position
        Where the source stood: everything before it is in the state, nothing after it is.
    recovered
        True if a damaged copy had to be passed over, so that this may be the last save but one.
    """

    campaign: str
    state: bytes
    position: Position
    recovered: bool = False


class _Closing(ABC):
    """Something that holds a file or a socket until it is closed."""

    @abstractmethod
    def close(self) -> None:
        """Release what is held. Closing twice does nothing."""

    def __enter__(self: SelfT) -> SelfT:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


class Source(_Closing, Generic[T_co]):
    """Items in a fixed order, handed out in batches, with a position to resume from.

    Guaranteed: the items after a position are the same on every reading, as long as what lies behind the
    source is; every row that is read is either an item or a reject of exactly one batch.

    Not guaranteed: that a batch is full (it may hold any number of items up to the size asked for, also
    none); that two readings cut the stream into the same batches; that a source without end ever stops (it
    hands out empty batches while nothing arrives); that a position means anything to another source or to a
    changed file. Nothing is stored on the far side: who keeps no checkpoint starts again at the beginning.
    """

    @property
    @abstractmethod
    def position(self) -> Position:
        """The position after the last batch that was handed out."""

    @abstractmethod
    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading; the next batch starts right after it.

        Raises
        ------
        InvalidInput
            If the position does not fit this source.
        """

    @abstractmethod
    def batches(self, size: int) -> Iterator[Batch[T_co]]:
        """Hand out batches of at most ``size`` rows, items and rejects together, from the position on.

        Raises
        ------
        UnusableRow
            Only in a strict source: at the first row that cannot be used. The position stays before that
            batch.
        """


class Sink(_Closing, Generic[T_contra]):
    """A place that takes items in order.

    Not guaranteed: that an item is safe before :meth:`flush` returns; that an item is written once only, if a
    run is repeated from an earlier position.
    """

    @abstractmethod
    def write(self, items: Iterable[T_contra]) -> None:
        """Take the items."""

    @abstractmethod
    def flush(self) -> None:
        """Return when everything written so far is handed over to the system behind."""


class CheckpointStore(_Closing):
    """Keeps one campaign's newest checkpoint; a save replaces it as a whole or not at all.

    Not guaranteed: that two processes can save to one store (the second one is refused).
    """

    @abstractmethod
    def load(self) -> Checkpoint | None:
        """Return the newest sound checkpoint, or None if nothing was saved yet.

        Raises
        ------
        InvalidSnapshot
            If what is stored is not a sound checkpoint.
        """

    @abstractmethod
    def save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint; when this returns it survives a crash.

        Raises
        ------
        CampaignMismatch
            If the store holds another campaign's checkpoint.
        OSError
            If it could not be written; the one before stays valid.
        """


def read_position(position: Position, *names: str) -> tuple[int, ...]:
    """Return the named numbers of a position.

    Raises
    ------
    InvalidInput
        If a name is absent or unknown, or a number is not a whole number >= 0.

    Examples
    --------
    >>> read_position({"line": 3, "byte": 120}, "line", "byte")
    (3, 120)
    """
    values = tuple(position.get(name) for name in names)
    whole = tuple(
        value for value in values if isinstance(value, int) and not isinstance(value, bool) and value >= 0
    )
    if len(whole) != len(names) or len(position) != len(names):
        raise InvalidInput(
            f"position = {dict(position)!r}: must have whole numbers >= 0 named {', '.join(names)}"
        )
    return whole
