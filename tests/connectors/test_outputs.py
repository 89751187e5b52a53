"""Files with one JSON text a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldp_stream.connectors.base import Reject
from ldp_stream.connectors.outputs import JsonLinesSink, RejectsFile
from ldp_stream.errors import InvalidInput


def test_the_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    """Until the sink is closed an older file stays; then the new one is there, and nothing beside it."""
    path = tmp_path / "reports.jsonl"
    path.write_text("old\n")
    with JsonLinesSink(path) as sink:
        sink.write(['{"a": 1}', '{"a": 2}'])
        sink.flush()
        assert path.read_text() == "old\n"
    assert path.read_text() == '{"a": 1}\n{"a": 2}\n'
    assert list(tmp_path.iterdir()) == [path]
    sink.close()


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    """What was written before an exception is removed, and the older file stays."""
    path = tmp_path / "reports.jsonl"
    path.write_text("old\n")
    sink = JsonLinesSink(path)
    sink.write(["{}"])
    with pytest.raises(RuntimeError), sink:
        raise RuntimeError
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_of_two_lines_is_refused(tmp_path: Path) -> None:
    """One text is one line, or a reader would see two."""
    with JsonLinesSink(tmp_path / "reports.jsonl") as sink, pytest.raises(InvalidInput, match="one line"):
        sink.write(["{\n}"])


def test_a_closed_sink_takes_nothing(tmp_path: Path) -> None:
    """Writing after the file is in its place is refused rather than lost."""
    sink = JsonLinesSink(tmp_path / "reports.jsonl")
    sink.close()
    with pytest.raises(InvalidInput, match="closed"):
        sink.write(["{}"])


def test_a_dash_writes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    """With ``-`` the lines go to standard output, which stays open."""
    with JsonLinesSink("-") as sink:
        sink.write(["{}"])
    print("after")
    assert capsys.readouterr().out == "{}\nafter\n"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A folder, or a folder that is not there, is refused when the sink is made."""
    with pytest.raises(InvalidInput, match="is a folder"):
        JsonLinesSink(tmp_path)
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        JsonLinesSink(tmp_path / "nowhere" / "reports.jsonl")
    with pytest.raises(InvalidInput, match="cannot be written"):
        RejectsFile(tmp_path)


def test_rejects_are_kept_with_line_reason_and_row(tmp_path: Path) -> None:
    """Each reject is one JSON object, and the row's exact bytes can be had back from it."""
    path = tmp_path / "rejects.jsonl"
    raw = b'1,"\xff\n2'.decode("utf-8", "surrogateescape")
    with RejectsFile(path) as sink:
        sink.write([Reject("not valid UTF-8", 7, raw, "trips.csv")])
    (line,) = path.read_text(encoding="ascii").splitlines()
    fields = json.loads(line)
    assert fields == {"origin": "trips.csv", "line": 7, "reason": "not valid UTF-8", "raw": raw}
    assert fields["raw"].encode("utf-8", "surrogateescape") == b'1,"\xff\n2'


def test_rejects_start_anew_or_go_on(tmp_path: Path) -> None:
    """A rejects file starts empty, unless it is asked to go on; a flush hands over what was written."""
    path = tmp_path / "rejects.jsonl"
    for append, lines in ((False, 1), (True, 2), (False, 1)):
        with RejectsFile(path, append=append) as sink:
            sink.write([Reject("r", 1, "x")])
            sink.flush()
            assert len(path.read_text().splitlines()) == lines
