"""Columns of reports: exact both ways, consistent with single reports, and closed against any bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.batch_codec import batch_to_json, decode_batch, encode_batch
from ldp_stream.errors import InvalidReport
from ldp_stream.report_batch import ReportBatch
from ldp_stream.reports import MOST_VALUES, CategoryReport, Report, VectorReport
from tests.test_codec import categories, vectors

ONE = CategoryReport(digest="0123456789abcdef", round=7, chain=1, block=2, category=3, token="ab" * 16)
TWO = CategoryReport(digest="0123456789abcdef", round=8, chain=0, block=5, category=9, token="cd" * 16)
LONG = VectorReport(digest="0123456789abcdef", round=7, chain=1, values=(0.5, -0.0), token="ab" * 16)
BATCH = ReportBatch.from_reports([ONE, TWO])
VECTORS = ReportBatch.from_reports([LONG, LONG])
HEAD = bytes.fromhex("0123456789abcdef")


@st.composite
def _rows(draw: st.DrawFn) -> list[Report]:
    """Return reports of one kind, one campaign and one width."""
    rows = draw(st.lists(categories, min_size=1, max_size=8) | st.lists(vectors, min_size=1, max_size=8))
    first = rows[0]
    changes: dict[str, Any] = {"digest": first.digest}
    found = []
    for row in rows:
        if isinstance(first, VectorReport) and isinstance(row, VectorReport):
            width = len(first.values)
            changes["values"] = (row.values * width)[:width]
        found.append(type(row).model_validate({**row.model_dump(), **changes}))
    return found


def _same(a: ReportBatch, b: ReportBatch) -> bool:
    return encode_batch(a) == encode_batch(b)


# ---------------------------------------------------------------------- both ways


@given(_rows())
def test_columns_survive_both_forms(rows: list[Report]) -> None:
    """Binary and JSON give the same rows back in order, to the last bit, from every kind of buffer."""
    batch = ReportBatch.from_reports(rows)
    assert list(batch) == rows
    assert len(batch) == len(rows)
    for write in (encode_batch, batch_to_json):
        data = write(batch)
        for buffer in (data, bytearray(data), memoryview(data)):
            found = decode_batch(buffer)
            assert list(found) == rows
            assert write(found) == data
            for name, dtype in (("round", "u4"), ("chain", "u2"), ("token", "u1")):
                assert getattr(found, name).dtype == np.dtype(dtype)


@given(_rows(), st.slices(8))
def test_a_slice_is_the_slice_of_the_rows(rows: list[Report], part: slice) -> None:
    """Cutting the columns is cutting the list of reports, down to none."""
    batch = ReportBatch.from_reports(rows)[part]
    assert list(batch) == rows[part]
    assert list(decode_batch(encode_batch(batch))) == rows[part]


def test_the_binary_layout_is_pinned() -> None:
    """Kind, digest, count, width, then whole little-endian columns: 28 bytes a category report."""
    columns = struct.pack("<II", 7, 8) + struct.pack("<HH", 1, 0) + b"\xab" * 16 + b"\xcd" * 16
    payload = struct.pack("<II", 2, 5) + struct.pack("<HH", 3, 9)
    assert encode_batch(BATCH) == b"\x11" + HEAD + struct.pack("<IH", 2, 0) + columns + payload
    vectors = (
        struct.pack("<II", 7, 7)
        + struct.pack("<HH", 1, 1)
        + b"\xab" * 32
        + struct.pack("<4d", 0.5, -0.0, 0.5, -0.0)
    )
    assert encode_batch(VECTORS) == b"\x12" + HEAD + struct.pack("<IH", 2, 2) + vectors
    assert len(encode_batch(BATCH)) == 15 + 2 * 28


def test_the_json_layout_is_pinned() -> None:
    """One object of columns with the names of a report's fields."""
    assert json.loads(batch_to_json(BATCH)) == {
        "kind": "category",
        "digest": "0123456789abcdef",
        "round": [7, 8],
        "chain": [1, 0],
        "token": ["ab" * 16, "cd" * 16],
        "block": [2, 5],
        "category": [3, 9],
    }
    assert json.loads(batch_to_json(VECTORS))["values"] == [[0.5, -0.0], [0.5, -0.0]]


def test_columns_of_any_memory_order_are_written_alike() -> None:
    """Strided and big-endian columns are packed as their values."""
    doubled = ReportBatch.from_reports([ONE, ONE, TWO, TWO])
    assert encode_batch(doubled[::2]) == encode_batch(BATCH)
    swapped = ReportBatch(
        BATCH.digest,
        BATCH.round.astype(">u4"),
        BATCH.chain.astype(">u2"),
        BATCH.token,
        None if BATCH.block is None else BATCH.block.astype(">u4"),
        None if BATCH.category is None else BATCH.category.astype(">u2"),
    )
    assert _same(swapped, BATCH)


def test_no_reports_are_columns_of_length_zero() -> None:
    """An empty set of columns is sound in binary form, and as category columns in JSON."""
    assert len(decode_batch(encode_batch(BATCH[:0]))) == 0
    assert len(decode_batch(batch_to_json(BATCH[:0]))) == 0
    assert list(decode_batch(encode_batch(VECTORS[:0]))) == []


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "at least one is needed"),
        ([ONE, LONG], r"reports\[1\]: must be a CategoryReport of campaign 0123456789abcdef"),
        ([LONG, ONE], r"reports\[1\]: must be a VectorReport"),
        ([ONE, TWO, ONE.model_copy(update={"digest": "0" * 16})], r"reports\[2\]: must be a CategoryReport"),
        ([LONG, LONG.model_copy(update={"values": (1.0,)})], r"reports\[1\]: must have 2 values"),
    ],
)
def test_reports_that_do_not_belong_together_are_refused(rows: list[Report], message: str) -> None:
    """The message names the place of the first odd one."""
    with pytest.raises(InvalidReport, match=message):
        ReportBatch.from_reports(rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block": None}, "must be block and category, or values"),
        ({"category": None}, "must be block and category, or values"),
        ({"block": None, "category": None}, "must be block and category, or values"),
        ({"values": np.zeros((2, 1))}, "must be block and category, or values"),
        ({"values": np.zeros((2, 1)), "block": None}, "must be block and category, or values"),
        ({"round": np.zeros(3, np.uint32)}, r"columns of lengths \[3, 2, 2, 2, 2\]"),
        ({"category": np.zeros(1, np.uint16)}, "must all be equal"),
        ({"token": np.zeros((2, 15), np.uint8)}, "token: rows must have 16 bytes"),
        ({"token": np.zeros(2, np.uint8)}, "token: rows must have 16 bytes"),
        ({"values": np.full((2, 1), np.nan), "block": None, "category": None}, "must be finite"),
        ({"values": np.zeros((2, 0)), "block": None, "category": None}, "must have 1 to 4096 values"),
        ({"values": np.zeros((2, MOST_VALUES + 1)), "block": None, "category": None}, "1 to 4096 values"),
        ({"values": np.zeros(2), "block": None, "category": None}, "1 to 4096 values"),
    ],
)
def test_columns_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    """Both payloads, half a payload, other lengths or widths, and numbers that are not finite."""
    columns = {
        name: getattr(BATCH, name) for name in ("digest", "round", "chain", "token", "block", "category")
    }
    with pytest.raises(InvalidReport, match=message):
        ReportBatch(**{**columns, **changes})


CATEGORIES_JSON, VECTORS_JSON = batch_to_json(BATCH), batch_to_json(VECTORS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither binary nor JSON columns"),
        (b"\x11", "columns of 1 bytes: at least 15 are needed"),
        (encode_batch(BATCH)[:-1], "columns of 70 bytes: 2 reports of width 0 have 71"),
        (encode_batch(BATCH) + b"\0", "columns of 72 bytes"),
        (b"\x11" + HEAD + struct.pack("<IH", 2**32 - 1, 0), "4294967295 reports"),
        (b"\x12" + HEAD + struct.pack("<IH", 2**32 - 1, 65535), "4294967295 reports"),
        (b"\x12" + HEAD + struct.pack("<IH", 0, 0), "width 0"),
        (b"\x12" + HEAD + struct.pack("<IH", 0, 5000), "values: rows must have 1 to 4096"),
        (b"\x11" + HEAD + struct.pack("<IH", 0, 1), "width 1"),
        (encode_batch(VECTORS)[:-8] + struct.pack("<d", float("nan")), "values: must be finite"),
        (b"[" * 100_000, "Invalid JSON"),
        (b"{}", "kind: Field required"),
        (CATEGORIES_JSON.replace(b'"kind":"category"', b'"kind":"vector"'), "do not fit the kind"),
        (VECTORS_JSON.replace(b'"kind":"vector"', b'"kind":"category"'), "do not fit the kind"),
        (CATEGORIES_JSON.replace(b"category", b"SECRET", 1), "kind: Input should be"),
        (CATEGORIES_JSON[:-1] + b',"SECRET\\n":[]}', "unknown key"),
        (CATEGORIES_JSON.replace(b"[3,9]", b"[3]"), "columns of lengths"),
        (CATEGORIES_JSON.replace(b"[3,9]", b"[3,-9]"), "category.1: Input should be greater"),
        (CATEGORIES_JSON.replace(b"[3,9]", b"null"), "must be block and category, or values"),
        (CATEGORIES_JSON.replace(b"[7,8]", b"[7,4294967296]"), "round.1: Input should be less"),
        (CATEGORIES_JSON.replace(b"[7,8]", b"[7,8.0]"), "round.1: Input should be a valid integer"),
        (CATEGORIES_JSON.replace(b"abab", b"SECR"), "token.0: String should match"),
        (VECTORS_JSON.replace(b"[[0.5,-0.0],", b"[[0.5],"), "rows of widths [1, 2]"),
        (VECTORS_JSON.replace(b"[[0.5,-0.0],[0.5,-0.0]]", b"[[],[]]"), "values: rows must have 1 to 4096"),
        (VECTORS_JSON.replace(b"[[0.5,-0.0],[0.5,-0.0]]", b"[]"), "at least one row"),
        (
            VECTORS_JSON.replace(b"[[0.5,-0.0],[0.5,-0.0]]", b"[[1e999],[0]]"),
            "values.0.0: Input should be a finite",
        ),
        (
            VECTORS_JSON.replace(b"[[0.5,-0.0],[0.5,-0.0]]", b"[[NaN],[0]]"),
            "values.0.0: Input should be a finite",
        ),
        (VECTORS_JSON[:-1] + b',"block":[1,1]}', "must be block and category, or values"),
        (
            VECTORS_JSON.replace(b"[[0.5,-0.0]", b"[[" + b",".join([b"1"] * 5000) + b"]"),
            "rows of widths [2, 5000]",
        ),
    ],
)
def test_bad_bytes_are_refused_in_one_line(data: bytes, message: str) -> None:
    """The message says what is wrong and repeats nothing of what was sent, for every kind of buffer."""
    for buffer in (data, bytearray(data), memoryview(data)):
        with pytest.raises(InvalidReport) as caught:
            decode_batch(buffer)
        text = str(caught.value)
        assert message in text
        assert text.isprintable()
        assert "SEC" not in text
        assert len(text) < 200


@given(
    st.binary(max_size=200)
    | st.tuples(st.sampled_from([b"\x11", b"\x12"]), st.binary(max_size=80)).map(b"".join)
)
def test_any_bytes_are_columns_or_refused(data: bytes) -> None:
    """Nothing but InvalidReport is raised."""
    try:
        batch = decode_batch(data)
    except InvalidReport:
        return
    assert _same(decode_batch(encode_batch(batch)), batch)
