"""Taxi trip records in files."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ldp_stream.connectors.base import Reject
from ldp_stream.connectors.parquet_tables import ParquetTable
from ldp_stream.connectors.tlc import TlcSource
from ldp_stream.datasets.tlc import read_record, trip_columns
from ldp_stream.errors import InvalidInput, MissingExtra, UnusableRow

OFFICIAL = ["VendorID", "tpep_pickup_datetime", "tpep_dropoff_datetime", "trip_distance", "RatecodeID"]
OLDER = ["vendor_id", "pickup_datetime", "dropoff_datetime", "trip_distance", "rate_code_id"]
SIZES = [1, 3, 4, 100]


def trips(start: int, count: int) -> list[list[Any]]:
    """Return made-up trips; every fifth is too long, every seventh has no rate code."""
    rows = []
    for number in range(start, start + count):
        pickup = datetime(2019, 6, 1) + timedelta(hours=number)
        minutes = 300 if number % 5 == 4 else 3 + number
        code = None if number % 7 == 6 else 1 + number % 3
        rows.append([2, pickup, pickup + timedelta(minutes=minutes), 0.5 + number / 4, code])
    return rows


def write_csv(path: Path, rows: Sequence[Sequence[Any]], columns: Sequence[str] = OFFICIAL) -> Path:
    """Write trips as CSV, compressed if the name says so."""
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def write_parquet(path: Path, rows: Sequence[Sequence[Any]], unit: str = "us") -> Path:
    """Write trips as Parquet, in row groups of four."""
    columns = dict(zip(OFFICIAL, zip(*rows, strict=True), strict=True))
    times = {name: pa.array(values, pa.timestamp(unit)) for name, values in columns.items() if "tpep" in name}
    pq.write_table(pa.table({**columns, **times}), path, row_group_size=4)
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> list[Path]:
    """Files of 11 trips each: CSV with the older names, Parquet, gzip CSV; and an empty one between."""
    return [
        write_csv(tmp_path / "a.csv", trips(0, 11), OLDER),
        write_parquet(tmp_path / "b.parquet", trips(11, 11)),
        write_csv(tmp_path / "empty.csv", []),
        write_csv(tmp_path / "c.csv.gz", trips(22, 11)),
    ]


def everything(source: TlcSource, size: int) -> tuple[list[Any], list[Reject]]:
    """Read a source to its end and close it."""
    items: list[Any] = []
    rejected: list[Reject] = []
    with source:
        for batch in source.batches(size):
            assert len(batch.items) + len(batch.rejected) <= size
            items += batch.items
            rejected += batch.rejected
    return items, rejected


@pytest.mark.parametrize("size", SIZES)
def test_files_of_every_kind_are_one_source(mixed: list[Path], size: int) -> None:
    """Rows are those of the pure rule, in the order of the files; a reject tells its file and line."""
    items, rejected = everything(TlcSource(mixed), size)
    expected = []
    for row in trips(0, 33):
        record = dict(zip(OFFICIAL, row, strict=True))
        if row[2] - row[1] < timedelta(hours=2):
            expected.append(read_record(record))
    assert items == expected
    assert {reject.reason for reject in rejected} == {"the trip is not between 1 and 120 minutes long"}
    found = [(Path(reject.origin).name, reject.line) for reject in rejected]
    assert found == [
        ("a.csv", 6),
        ("a.csv", 11),
        ("b.parquet", 4),
        ("b.parquet", 9),
        ("c.csv.gz", 4),
        ("c.csv.gz", 9),
    ]
    assert "2019-06-01 14:00:00" in rejected[2].raw


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_resuming_after_every_batch_gives_exactly_the_rest(
    mixed: list[Path], monkeypatch: pytest.MonkeyPatch, size: int, at_once: int
) -> None:
    """From each position the rest is the same, across files, kinds of file, row groups and parts of them."""
    monkeypatch.setattr("ldp_stream.connectors.parquet_tables._ROWS_AT_ONCE", at_once)
    whole = everything(TlcSource(mixed), 1000)
    items: list[Any] = []
    rejected: list[Reject] = []
    with TlcSource(mixed) as source:
        for batch in source.batches(size):
            items += batch.items
            rejected += batch.rejected
            later = TlcSource(mixed)
            later.resume(json.loads(json.dumps(batch.position)))
            rest = everything(later, size)
            assert (items + rest[0], rejected + rest[1]) == whole


def test_progress_is_over_all_files(mixed: list[Path]) -> None:
    """Progress is the share of the bytes of all files, and ends at 1."""
    sizes = [path.stat().st_size for path in mixed]
    with TlcSource(mixed) as source:
        progress = [batch.progress for batch in source.batches(11)]
    ends = [sizes[0], sizes[0] + sizes[1], sum(sizes)]
    assert progress == pytest.approx([end / sum(sizes) for end in ends])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_parquet_times_of_any_unit(tmp_path: Path, unit: str) -> None:
    """Times in seconds to nanoseconds give the same rows as CSV."""
    rows = trips(0, 9)
    with closing(ParquetTable(str(write_parquet(tmp_path / "a.parquet", rows, unit)), trip_columns)) as table:
        taken = table.take(1)
        assert taken is not None
        assert [type(value) for value in taken.records[0]] == [datetime, datetime, float, int]
    as_parquet = everything(TlcSource(tmp_path / "a.parquet"), 100)[0]
    assert as_parquet == everything(TlcSource(write_csv(tmp_path / "a.csv", rows)), 100)[0]


def test_parquet_resumes_without_reading_what_is_before(tmp_path: Path) -> None:
    """Row groups before the position are not touched: they may even be damaged."""
    path = write_parquet(tmp_path / "a.parquet", trips(0, 12))
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(0).column(1).data_page_offset
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    with TlcSource(path) as source:
        source.resume({"file": 0, "line": 5, "byte": 0})
        assert sum(len(batch.items) + len(batch.rejected) for batch in source.batches(100)) == 7
        source.resume({"file": 0, "line": 0, "byte": 0})
        with pytest.raises(InvalidInput, match=r"a\.parquet: cannot be read beyond row 0"):
            next(source.batches(100))


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow a Parquet file is refused with the command that installs it; CSV is still read."""
    path = write_parquet(tmp_path / "a.parquet", trips(0, 3))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ldp-stream\[parquet\]'"):
        TlcSource(path)
    assert len(everything(TlcSource(write_csv(tmp_path / "a.csv", trips(0, 3))), 10)[0]) == 3


def test_what_is_no_trip_file_is_refused_before_anything_is_read(tmp_path: Path, mixed: list[Path]) -> None:
    """Every file is looked at first: a missing one, one without the columns, and broken Parquet are named."""
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and nothing more")
    no_trips = tmp_path / "no-trips.parquet"
    pq.write_table(pa.table({"a": [1]}), no_trips)
    for path, message in (
        (tmp_path / "nowhere.csv", "no such file"),
        (other, "a trip record has a column"),
        (broken, "cannot be read as Parquet"),
        (no_trips, "a trip record has a column"),
    ):
        with pytest.raises(InvalidInput, match=message):
            TlcSource([*mixed, path])
    for paths in ([], ["-", str(mixed[0])]):
        with pytest.raises(InvalidInput, match="paths = "):
            TlcSource(paths)


@pytest.mark.parametrize(
    "position",
    [
        {"file": 4, "line": 0, "byte": 0},
        {"file": 1, "line": 12, "byte": 0},
        {"file": 1, "line": 1, "byte": 1},
        {},
    ],
)
def test_a_position_that_does_not_fit_is_refused(mixed: list[Path], position: dict[str, int]) -> None:
    """A file that is not there, or a row beyond a file's end, is refused."""
    with TlcSource(mixed) as source, pytest.raises(InvalidInput, match="position = "):
        source.resume(position)


def test_strict_stops_at_the_first_unusable_trip(mixed: list[Path]) -> None:
    """A strict source names file, line and reason."""
    with (
        TlcSource(mixed, strict=True) as source,
        pytest.raises(UnusableRow, match=r"a\.csv, line 6: the trip is"),
    ):
        list(source.batches(10))
