"""The contracts and their values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest

from ldp_stream.connectors.base import Batch, Checkpoint, Position, Reject, Source, read_position
from ldp_stream.errors import InvalidInput


class Counter(Source[int]):
    """The smallest source: whole numbers below 5."""

    def __init__(self) -> None:
        self.at = 0
        self.closed = False

    @property
    def position(self) -> Position:
        """The next number."""
        return {"item": self.at}

    def resume(self, position: Position) -> None:
        """Go to a number."""
        (self.at,) = read_position(position, "item")

    def batches(self, size: int) -> Iterator[Batch[int]]:
        """Hand out numbers."""
        while self.at < 5:
            items = list(range(self.at, min(5, self.at + size)))
            self.at += len(items)
            yield Batch(items, self.position)

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True


def test_a_source_is_closed_at_the_end_of_with() -> None:
    """Leaving the with block closes a source, also when an exception passes."""
    source = Counter()
    with pytest.raises(RuntimeError), source:
        raise RuntimeError
    assert source.closed


def test_state_and_position_go_together() -> None:
    """Folding up to a position, then resuming there, gives the fold of the whole."""
    first = Counter()
    batch = next(first.batches(2))
    second = Counter()
    second.resume(batch.position)
    assert sum(batch.items) + sum(sum(rest.items) for rest in second.batches(2)) == sum(range(5))


@pytest.mark.parametrize("value", [Reject("r", 1, "x"), Batch([1], {}), Checkpoint("{}", b"", {})])
def test_values_are_frozen(value: object) -> None:
    """A reject, a batch and a checkpoint cannot be changed."""
    field = dataclasses.fields(value)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, None)


def test_a_reject_says_where_and_why_and_shortens_its_text() -> None:
    """The text of a reject names origin, line and reason, and shows at most 200 characters of the row."""
    assert str(Reject("no target", 12, "1,,2", "a.csv")) == "a.csv, line 12: no target: '1,,2'"
    assert len(str(Reject("no target", 12, "x" * 10_000))) < 300


@pytest.mark.parametrize(
    "position",
    [{}, {"line": 1}, {"line": 1, "byte": -1}, {"line": 1, "byte": 2, "file": 0}, {"line": 1, "byte": True}],
)
def test_a_position_of_another_kind_is_refused(position: dict[str, int]) -> None:
    """A position with other names, or numbers that are not whole and >= 0, is refused with both named."""
    with pytest.raises(InvalidInput, match=r"position = .*line, byte"):
        read_position(position, "line", "byte")


def test_a_position_survives_json() -> None:
    """A position goes through JSON unchanged."""
    position = {"line": 3, "byte": 2**60}
    assert read_position(json.loads(json.dumps(position)), "byte", "line") == (2**60, 3)
