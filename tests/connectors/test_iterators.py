"""Any iterable as a source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from river import datasets, stream

from ldp_stream.connectors.iterators import IterableSource
from ldp_stream.errors import InvalidInput, UnusableRow

DICTS: list[dict[str, object]] = [{"a": number, "y": number**2} for number in range(7)]


@dataclass(frozen=True)
class Report:
    """Stands for a report of any kind."""

    token: int


def test_dicts_become_rows_and_stay_as_they_are() -> None:
    """The target is taken out of a copy; the caller's dicts are not changed."""
    source = IterableSource(DICTS, target="y")
    items = [item for batch in source.batches(3) for item in batch.items]
    assert items == [({"a": float(number)}, float(number**2)) for number in range(7)]
    assert DICTS[2] == {"a": 2, "y": 4}


def test_pairs_become_rows() -> None:
    """A pair (x, y) is a row, its numbers read as in any file."""
    (batch,) = IterableSource([({"a": "1.5", "b": "x"}, "2")]).batches(10)
    assert batch.items == [({"a": 1.5}, 2.0)]


def test_a_river_stream_is_a_source() -> None:
    """What river.stream yields, numbers as text and a missing target included, needs no conversion."""
    river_stream = stream.iter_array([[1.0, 2.0], [3.0, 4.0]], [5.0, None], feature_names=["a", "b"])
    (batch,) = IterableSource(river_stream).batches(10)
    assert batch.items == [({"a": 1.0, "b": 2.0}, 5.0)]
    assert [(reject.line, reject.reason) for reject in batch.rejected] == [(2, "the target 'y' is missing")]


def test_a_river_dataset_is_a_source() -> None:
    """A bundled river dataset gives all its rows."""
    items = [item for batch in IterableSource(datasets.TrumpApproval()).batches(100) for item in batch.items]
    assert len(items) == datasets.TrumpApproval().n_samples
    assert items[0][0].keys() == next(iter(datasets.TrumpApproval()))[0].keys()


def test_reports_pass_through_as_they_are() -> None:
    """An item that is neither a mapping nor a pair with one is handed on, the same object."""
    reports = [Report(1), Report(2)]
    (batch,) = IterableSource(reports).batches(5)
    assert [id(item) for item in batch.items] == [id(report) for report in reports]


@pytest.mark.parametrize("taken", range(8))
def test_resuming_gives_exactly_the_rest(taken: int) -> None:
    """From every position, the rest and what came before make the whole."""

    def generate() -> Iterator[dict[str, object]]:
        yield from DICTS

    source = IterableSource(generate(), target="y")
    source.resume({"item": taken})
    items = [item for batch in source.batches(2) for item in batch.items]
    assert [x["a"] for x, _ in items] == [float(number) for number in range(taken, 7)]
    assert source.position == {"item": 7}


def test_the_position_counts_rejects_too() -> None:
    """A row that cannot be used moves the position, so that resuming does not read it again."""
    source = IterableSource([{"y": 1}, {"y": "bad"}, {"y": 3}], target="y")
    batch = next(source.batches(2))
    assert batch.position == {"item": 2}
    assert [reject.line for reject in batch.rejected] == [2]
    source.resume(batch.position)
    assert [batch.items for batch in source.batches(2)] == [[({}, 3.0)]]


def test_a_list_can_go_back_and_an_iterator_cannot() -> None:
    """What can be read again resumes backwards; an iterator that is beyond the position is refused."""
    again = IterableSource(DICTS, target="y")
    assert len(next(again.batches(5)).items) == 5
    again.resume({"item": 1})
    assert next(again.batches(1)).items == [({"a": 1.0}, 1.0)]
    once = IterableSource(iter(DICTS), target="y")
    assert len(next(once.batches(5)).items) == 5
    with pytest.raises(InvalidInput, match="cannot go back"):
        once.resume({"item": 1})


def test_a_position_beyond_the_end_is_refused() -> None:
    """Resuming behind the last item says how many there are."""
    with pytest.raises(InvalidInput, match="has 7 items"):
        IterableSource(DICTS, target="y").resume({"item": 8})


def test_progress_is_known_where_the_length_is() -> None:
    """A list tells how far it is, an iterator does not."""
    assert [batch.progress for batch in IterableSource([1, 2, 3, 4]).batches(2)] == [0.5, 1.0]
    assert next(IterableSource(iter([1, 2])).batches(2)).progress is None


def test_mappings_need_a_target() -> None:
    """A mapping without a named target is the caller's mistake, not a bad row."""
    with pytest.raises(InvalidInput, match="target = None"):
        next(IterableSource(DICTS).batches(1))


def test_strict_stops_at_the_first_bad_row() -> None:
    """A strict source raises with number and reason, and its position stays before that batch."""
    source = IterableSource([{"y": 1}, {"y": "bad"}], target="y", strict=True)
    batches = source.batches(1)
    next(batches)
    with pytest.raises(UnusableRow, match="line 2: the target 'y' is not a number"):
        next(batches)
    assert source.position == {"item": 1}


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_wrong_batch_size_is_refused_at_once(size: int) -> None:
    """The size is checked when batches are asked for, not at the first one."""
    with pytest.raises(InvalidInput, match="size = "):
        IterableSource(DICTS, target="y").batches(size)


def test_closing_closes_a_generator() -> None:
    """Closing the source ends a generator, so that what it holds is released."""
    ended = []

    def generate() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            ended.append(True)

    with IterableSource(generate()) as source:
        next(source.batches(1))
    assert ended == [True]
