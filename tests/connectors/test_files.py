"""Rows and reports in files."""

from __future__ import annotations

import gzip
import io
import json
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.connectors.base import Reject, Source
from ldp_stream.connectors.files import CsvSource, JsonLinesSource, ReportLinesSource
from ldp_stream.errors import CampaignMismatch, InvalidInput, InvalidReport, UnusableRow

TRIPS = b"""miles,rush,zone,minutes
1.5,1,JFK,12
2.5,,EWR,9
oops,1,JFK,8
3.5,0,JFK,
4.5,0,JFK,abc
5.5,0,JFK,inf
6.5,0,JFK
7.5,0,JFK,7,extra
\xff,0,JFK,7

8.5,0,"JFK, or
so",6
9.5,0,JFK,5"""

REASONS = {
    4: "the feature 'miles' is not a number",
    5: "the target 'minutes' is missing",
    6: "the target 'minutes' is not a number",
    7: "the target 'minutes' is not finite",
    8: "the number of fields is not the header's",
    9: "the number of fields is not the header's",
    10: "not valid UTF-8",
}
ROWS = [
    ({"miles": 1.5, "rush": 1.0}, 12.0),
    ({"miles": 2.5}, 9.0),
    ({"miles": 8.5, "rush": 0.0}, 6.0),
    ({"miles": 9.5, "rush": 0.0}, 5.0),
]
FORMS = ["plain", "gzip"]
SIZES = [1, 2, 3, 5, 1000]


def written(folder: Path, content: bytes, form: str = "plain", name: str = "rows.csv") -> Path:
    """Write a file, compressed or not, and return its path."""
    path = folder / name
    path.write_bytes(gzip.compress(content) if form == "gzip" else content)
    return path


def everything(source: Source[Any], size: int) -> tuple[list[Any], list[Reject]]:
    """Read a source to its end and close it."""
    items: list[Any] = []
    rejected: list[Reject] = []
    with source:
        for batch in source.batches(size):
            assert len(batch.items) + len(batch.rejected) <= size
            items += batch.items
            rejected += batch.rejected
    return items, rejected


def lines_and_reasons(rejected: Sequence[Reject]) -> dict[int, str]:
    """Return the reason of each rejected line."""
    assert len({reject.line for reject in rejected}) == len(rejected)
    return {reject.line: reject.reason for reject in rejected}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_bad_rows_are_counted_with_line_and_reason_and_good_ones_kept(
    tmp_path: Path, form: str, size: int
) -> None:
    """Every kind of fault is a reject with its line and stops nothing, in any batches and compression."""
    items, rejected = everything(
        CsvSource(written(tmp_path, TRIPS, form), "minutes", ["miles", "rush"]), size
    )
    assert items == ROWS
    assert lines_and_reasons(rejected) == REASONS


def test_a_reject_keeps_the_row_as_it_was(tmp_path: Path) -> None:
    """The text of a reject gives back the exact bytes of its line, also where they are not UTF-8."""
    path = written(tmp_path, TRIPS)
    _, rejected = everything(CsvSource(path, "minutes", ["miles"]), 100)
    lines = TRIPS.split(b"\n")
    for reject in rejected:
        assert reject.raw.encode("utf-8", "surrogateescape") == lines[reject.line - 1]
        assert reject.origin == str(path)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_resuming_after_every_batch_gives_exactly_the_rest(
    tmp_path: Path, form: str, size: int, ending: bytes
) -> None:
    """A new source, resumed at a batch's position, hands out what the first had not, with the same lines."""
    path = written(tmp_path, TRIPS.replace(b"\n", ending), form)
    features = ["miles", "rush"]
    whole = everything(CsvSource(path, "minutes", features), 1000)
    seen: tuple[list[Any], list[Reject]] = ([], [])
    with CsvSource(path, "minutes", features) as source:
        for batch in source.batches(size):
            seen = (seen[0] + list(batch.items), seen[1] + list(batch.rejected))
            assert source.position == batch.position
            later = CsvSource(path, "minutes", features)
            later.resume(json.loads(json.dumps(batch.position)))
            rest = everything(later, size)
            assert (seen[0] + rest[0], seen[1] + rest[1]) == whole


def test_the_byte_position_is_where_the_next_row_starts(tmp_path: Path) -> None:
    """The position counts the lines taken and the bytes before the next row, line ends included."""
    content = b"a,y\r\n1,2\r\n\xc3\xa4,3\r\n4,5"
    with CsvSource(written(tmp_path, content), "y", ["a"]) as source:
        assert source.position == {"line": 1, "byte": 5}
        positions = [dict(batch.position) for batch in source.batches(1)]
    assert positions == [{"line": 2, "byte": 10}, {"line": 3, "byte": 16}, {"line": 4, "byte": len(content)}]


def test_progress_goes_from_near_nothing_to_one(tmp_path: Path) -> None:
    """Progress is the share of bytes read, of compressed ones in a gzip file, and ends at 1."""
    content = b"a,y\n" + b"".join(b"%d,%d\n" % (number, number * 7919 % 1009) for number in range(100_000))
    for form in FORMS:
        with CsvSource(written(tmp_path, content, form), "y") as source:
            progress = [batch.progress for batch in source.batches(5_000)]
        known = [value for value in progress if value is not None]
        assert known == sorted(known)
        assert len(known) == 20
        assert known[0] < 0.3
        assert 0.3 < known[9] < 0.8
        assert known[-1] == 1.0


ALPHABET = st.sampled_from(
    [b"1", b",", b'"', b"\n", b"\r\n", b"\r", b" ", b"x", b"\xff", b"\x00", b"1,2\n", b'"\n']
)


@given(st.lists(ALPHABET, max_size=60).map(b"".join))
def test_any_bytes_are_read_the_same_in_any_batches(content: bytes) -> None:
    """Whatever follows the header, nothing is raised, and what is read does not depend on the batch size."""
    stdin = sys.stdin
    readings = []
    try:
        for size in (1, 2, 3, 1000):
            sys.stdin = io.TextIOWrapper(io.BytesIO(b"a,y\n" + content))
            readings.append(everything(CsvSource("-", "y", ["a"]), size))
    finally:
        sys.stdin = stdin
    assert all(reading == readings[0] for reading in readings)


@given(st.lists(ALPHABET, max_size=40).map(b"".join))
def test_any_bytes_resume_exactly(content: bytes) -> None:
    """From the position after each batch the rest is read as if there had been no stop."""
    whole = _read_bytes(content, None)
    for number, position in enumerate(whole[2], 1):
        rest = _read_bytes(content, position)
        kept = _read_bytes(content, None, most=number)
        assert (kept[0] + rest[0], kept[1] + rest[1]) == (whole[0], whole[1])


def _read_bytes(
    content: bytes, position: Any, most: int = 10**9
) -> tuple[list[Any], list[Reject], list[Any]]:
    stdin = sys.stdin
    items: list[Any] = []
    rejected: list[Reject] = []
    positions = []
    try:
        sys.stdin = io.TextIOWrapper(io.BytesIO(b"a,y\n" + content))
        with CsvSource("-", "y", ["a"]) as source:
            if position is not None:
                source.resume(position)
            for number, batch in enumerate(source.batches(2)):
                if number == most:
                    break
                items += batch.items
                rejected += batch.rejected
                positions.append(batch.position)
    finally:
        sys.stdin = stdin
    return items, rejected, positions


def test_a_stray_quote_costs_one_row(tmp_path: Path) -> None:
    """A quote that is never closed, or closed in another row, loses its own row and no other."""
    rows = [f"{number},{number}" for number in range(1000)]
    rows[10] = '"10,10'
    rows[500] = '"500,500'
    rows[505] = '505,"505'
    path = written(tmp_path, "\n".join(["a,y", *rows]).encode())
    items, rejected = everything(CsvSource(path, "y", ["a"]), 64)
    assert sorted(set(range(1000)) - {int(y) for _, y in items}) == [10, 500, 505]
    assert [reject.line for reject in rejected] == [12, 502, 507]


def test_a_quoted_field_may_hold_lines_and_delimiters(tmp_path: Path) -> None:
    """A record over several lines is one row, also across the end of a batch; line numbers stay right."""
    path = written(tmp_path, b'note,y\n"a\nb\n\nc,d",1\n"e ""f""",2\n"g",x\n')
    for size in SIZES:
        items, rejected = everything(CsvSource(path, "y"), size)
        assert items == [({}, 1.0), ({}, 2.0)]
        assert lines_and_reasons(rejected) == {7: "the target 'y' is not a number"}


def test_a_record_over_several_lines_of_the_wrong_width_costs_its_first_line(tmp_path: Path) -> None:
    """Where a stray quote finds another that closes it, the rows between are still read."""
    path = written(tmp_path, b'a,b,y\n"1,1,1\n2,2,2\n3",3\n4,4,4\n')
    items, rejected = everything(CsvSource(path, "y", ["a"]), 10)
    assert [y for _, y in items] == [2.0, 4.0]
    assert [reject.line for reject in rejected] == [2, 4]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_lines_do_not_depend_on_the_blocks_that_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: bytes
) -> None:
    """Wherever a block ends, also between CR and LF, rows, line numbers and positions are the same."""
    path = written(tmp_path, TRIPS.replace(b"\n", ending))
    whole = everything(CsvSource(path, "minutes", ["miles", "rush"]), 5)
    for block in range(1, 9):
        monkeypatch.setattr("ldp_stream.connectors.line_files._BLOCK_BYTES", block)
        source = CsvSource(path, "minutes", ["miles", "rush"])
        assert everything(source, 5) == whole
        assert source.position == {"line": 14, "byte": path.stat().st_size}


def test_without_named_features_every_number_is_taken(tmp_path: Path) -> None:
    """Text in a column that nobody asked for is passed over, row by row."""
    path = written(tmp_path, b"a,b,,y\n1,x,5,1\n,2,,2\nnan,,,3\n")
    assert everything(CsvSource(path, "y"), 10) == ([({"a": 1.0}, 1.0), ({"b": 2.0}, 2.0), ({}, 3.0)], [])


def test_fast_and_careful_reading_agree(tmp_path: Path) -> None:
    """A row gives the same item next to a broken row, where rows are read one by one, as among sound ones."""
    cells = ["1", "", " ", "nan", "inf", "-inf", " 2 ", "1e400"]
    rows = [f"{first},{second},7" for first in cells for second in cells]
    sound = written(tmp_path, "\n".join(["a,b,y", *rows]).encode(), name="sound.csv")
    broken = written(tmp_path, "\n".join(["a,b,y", *rows, "x,1,7"]).encode(), name="broken.csv")
    quick, none = everything(CsvSource(sound, "y", ["a", "b"]), 1000)
    slow, one = everything(CsvSource(broken, "y", ["a", "b"]), 1000)
    assert quick == slow
    assert (len(none), len(one)) == (0, 1)
    assert quick[5 * 8 + 4] == ({"a": -math.inf, "b": math.inf}, 7.0)


def test_a_byte_order_mark_and_spaces_do_not_hide_columns(tmp_path: Path) -> None:
    """The header of a spreadsheet's export is read: a byte order mark, spaces after commas, CRLF."""
    path = written(tmp_path, b"\xef\xbb\xbfa, b , y\r\n1, 2, 3\r\n")
    assert everything(CsvSource(path, "y", ["a", "b"]), 10) == ([({"a": 1.0, "b": 2.0}, 3.0)], [])


def test_another_delimiter(tmp_path: Path) -> None:
    """A delimiter can be named; one of several characters is refused."""
    path = written(tmp_path, b"a;y\n1;2\n")
    assert everything(CsvSource(path, "y", delimiter=";"), 10) == ([({"a": 1.0}, 2.0)], [])
    with pytest.raises(InvalidInput, match="delimiter = ';;'"):
        CsvSource(path, "y", delimiter=";;")


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    """The error names the file, or the column and the columns that there are."""
    with pytest.raises(InvalidInput, match=r"nowhere\.csv.*no such file"):
        CsvSource(tmp_path / "nowhere.csv", "y")
    path = written(tmp_path, TRIPS)
    with pytest.raises(
        InvalidInput, match=r"'seconds' is not there; the columns are 'miles', 'rush', 'zone'"
    ):
        CsvSource(path, "seconds")
    with pytest.raises(InvalidInput, match="none of the features"):
        CsvSource(path, "minutes", ["kilometres"])
    with pytest.raises(InvalidInput, match="'a' stands twice"):
        CsvSource(written(tmp_path, b"a,a,y\n1,2,3\n", name="twice.csv"), "y", ["a"])
    with pytest.raises(InvalidInput, match="cannot be opened"):
        CsvSource(tmp_path, "y")


def test_a_feature_without_a_column_is_told(tmp_path: Path) -> None:
    """A feature that the file does not have is left out of every row, and the source says which."""
    source = CsvSource(written(tmp_path, b"a,y\n1,2\n"), "y", ["a", "b"])
    assert source.absent == ("b",)
    assert everything(source, 10) == ([({"a": 1.0}, 2.0)], [])


@pytest.mark.parametrize("content", [b"", b"\n", b'"a\nb",y\n', b"\xff,y\n"])
def test_a_file_without_a_header_is_refused(tmp_path: Path, content: bytes) -> None:
    """An empty file, or one whose first line is no list of names, is refused with what is needed."""
    with pytest.raises(InvalidInput, match="columns' names"):
        CsvSource(written(tmp_path, content), "y")


def test_a_file_of_one_endless_line_is_refused(tmp_path: Path) -> None:
    """A file that is not made of lines is refused before it fills the memory."""
    path = written(tmp_path, b"a,y\n" + b"1" * (1 << 25), "gzip")
    with pytest.raises(InvalidInput, match="line 2: over 16777216 bytes"):
        everything(CsvSource(path, "y"), 10)


def test_strict_raises_with_file_line_and_reason(tmp_path: Path) -> None:
    """A strict source hands out what is before the bad batch, then says file, line, reason and row."""
    path = written(tmp_path, TRIPS)
    with CsvSource(path, "minutes", ["miles"], strict=True) as source:
        batches = source.batches(1)
        assert [len(next(batches).items) for _ in range(2)] == [1, 1]
        with pytest.raises(
            UnusableRow, match=r"rows\.csv, line 4: the feature 'miles' is not a number: 'oops,"
        ):
            next(batches)
        assert source.position["line"] == 3


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("byte", [0, 3, 30, 10**6])
def test_a_position_that_does_not_fit_the_file_is_refused(tmp_path: Path, form: str, byte: int) -> None:
    """A position in the header, inside a line or beyond the end tells that the file is another one."""
    with (
        CsvSource(written(tmp_path, TRIPS, form), "minutes") as source,
        pytest.raises(InvalidInput, match="position = "),
    ):
        source.resume({"line": 2, "byte": byte})


@pytest.mark.parametrize("size", [10, 100_000])
@pytest.mark.parametrize("cut", [1500, -4])
def test_a_gzip_file_that_is_cut_short_says_where(tmp_path: Path, cut: int, size: int) -> None:
    """All rows before the damage are handed out; then the error names the file and the last line."""
    content = b"a,y\n" + b"".join(b"%d,%d\n" % (number, number) for number in range(1000))
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(content)[:cut])
    rows: list[Any] = []
    with (
        CsvSource(path, "y") as source,
        pytest.raises(InvalidInput, match=r"csv\.gz: cannot be read beyond line \d+"),
    ):
        rows.extend(row for batch in source.batches(size) for row in batch.items)
    assert [y for _, y in rows] == [float(number) for number in range(len(rows))]
    assert len(rows) == 1000 if cut < 0 else 300 < len(rows) < 900


def test_json_lines(tmp_path: Path) -> None:
    """Objects become rows; everything else is a reject with line and reason; empty lines are passed over."""
    lines = [
        b'{"a": 1, "b": true, "note": "x", "y": 2}',
        b"",
        b'{"a": null, "y": "3"}',
        b'{"a": "x", "y": 3}',
        b'{"a": 1}',
        b'{"a": 1, "y": NaN}',
        b'{"a": [1], "y": 1}',
        b"[1, 2]",
        b"{",
        b"[" * 100_000,
        b"1" * 5_000,
        b'{"y": \xff}',
        b'{"a": 4, "y": 5}',
    ]
    path = written(tmp_path, b"\xef\xbb\xbf" + b"\n".join(lines))
    expected = {
        4: "the feature 'a' is not a number",
        5: "the target 'y' is missing",
        6: "the target 'y' is not finite",
        7: "the feature 'a' is not a number",
        8: "not a JSON object",
        9: "broken JSON",
        10: "broken JSON",
        11: "broken JSON",
        12: "not valid UTF-8",
    }
    for size in SIZES:
        items, rejected = everything(JsonLinesSource(path, "y", ["a", "b"]), size)
        assert items == [({"a": 1.0, "b": 1.0}, 2.0), ({}, 3.0), ({"a": 4.0}, 5.0)]
        assert lines_and_reasons(rejected) == expected


def test_json_lines_without_named_features(tmp_path: Path) -> None:
    """Every number is a feature, text is passed over."""
    path = written(tmp_path, b'{"a": 1, "b": "x", "y": 2}\n')
    assert everything(JsonLinesSource(path, "y"), 10) == ([({"a": 1.0}, 2.0)], [])


def test_json_lines_resume(tmp_path: Path) -> None:
    """The position after a batch leads to the next line, in plain and gzip files."""
    content = b"".join(b'{"y": %d}\n' % number for number in range(10))
    for form in FORMS:
        path = written(tmp_path, content, form)
        with JsonLinesSource(path, "y") as source:
            position = next(source.batches(3)).position
        later = JsonLinesSource(path, "y")
        later.resume(position)
        items, _ = everything(later, 4)
        assert [y for _, y in items] == [float(number) for number in range(3, 10)]


def decode(line: bytes) -> int:
    """Stand for a codec of reports."""
    if line == b"other":
        raise CampaignMismatch("digest = 00: another campaign's")
    if not line.isdigit():
        raise InvalidReport("not a report")
    return int(line)


def test_reports_in_lines(tmp_path: Path) -> None:
    """Lines reach the decoder without their ends; what it refuses is a reject with its reason."""
    path = written(tmp_path, b"1\r\n2\nx\nother\n\n3", "gzip")
    items, rejected = everything(ReportLinesSource(path, decode), 2)
    assert items == [1, 2, 3]
    assert lines_and_reasons(rejected) == {3: "not a report", 4: "digest = 00: another campaign's"}
    with pytest.raises(UnusableRow, match="line 3: not a report"):
        everything(ReportLinesSource(path, decode, strict=True), 2)


PIPE = """
import sys
from ldp_stream.connectors.files import CsvSource
with CsvSource("-", "y") as source:
    if len(sys.argv) > 1:
        source.resume({"line": 3, "byte": 12})
    for batch in source.batches(100):
        print(len(batch.items), dict(batch.position), batch.progress, flush=True)
"""


def test_a_pipe_hands_on_what_has_arrived() -> None:
    """Standard input gives a batch as soon as there is a row, rather than wait for a full one."""
    with subprocess.Popen(
        [sys.executable, "-c", PIPE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("a,y\n1,2\n")
        process.stdin.flush()
        assert process.stdout.readline() == "1 {'line': 2, 'byte': 8} None\n"
        process.stdin.write("3,4\n5,6")
        process.stdin.close()
        assert process.stdout.read().splitlines()[-1] == "1 {'line': 4, 'byte': 15} None"
    assert process.returncode == 0


def test_a_pipe_resumes_by_passing_over_what_was_read() -> None:
    """The same stream, piped again, goes on at the position; standard input may be gzip."""
    done = subprocess.run(
        [sys.executable, "-c", PIPE, "resume"],
        input=gzip.compress(b"a,y\n1,2\n3,4\n5,6\n"),
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"1 {'line': 4, 'byte': 16} None\n"


def test_reasons_can_be_counted(tmp_path: Path) -> None:
    """A reason holds no value of the row, so that a thousand rows with one fault count as one reason."""
    path = written(tmp_path, b"a,y\n" + b"".join(b"text%d,1\n" % number for number in range(1000)))
    _, rejected = everything(CsvSource(path, "y", ["a"]), 100)
    assert Counter(reject.reason for reject in rejected) == {"the feature 'a' is not a number": 1000}
