"""The codec of one report: exact both ways, small, and closed against any bytes."""

from __future__ import annotations

import json
import struct
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ldp_stream.campaign import Campaign
from ldp_stream.client.reporter import Reporter
from ldp_stream.codec import decode_report, encode_report, report_to_json
from ldp_stream.errors import InvalidReport
from ldp_stream.reports import (
    MOST_VALUES,
    CategoryReport,
    ChainParameters,
    Parameters,
    Report,
    VectorReport,
)
from tests.fuzz_codec import fuzz

hexes = st.text("0123456789abcdef")
u16, u32 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1)
common: dict[str, Any] = {
    "digest": st.binary(min_size=8, max_size=8).map(bytes.hex),
    "round": u32,
    "chain": u16,
    "token": st.binary(min_size=16, max_size=16).map(bytes.hex),
}
categories = st.builds(CategoryReport, **common, block=u32, category=u16)
vectors = st.builds(
    VectorReport,
    **common,
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30).map(tuple),
)
REPORT = CategoryReport(digest="0123456789abcdef", round=7, chain=1, block=2, category=3, token="ab" * 16)
VECTOR = VectorReport(digest="0123456789abcdef", round=7, chain=1, values=(0.5, -0.0), token="ab" * 16)
JSON = report_to_json(REPORT)


# ---------------------------------------------------------------------- both ways


@given(categories | vectors)
@example(
    VectorReport(
        digest="0" * 16, round=0, chain=0, values=(5e-324, -0.0, 1.7976931348623157e308), token="0" * 32
    )
)
@example(
    VectorReport(
        digest="0" * 16, round=0, chain=0, values=(-1.7976931348623157e308,) * MOST_VALUES, token="0" * 32
    )
)
def test_a_report_survives_both_forms(report: Report) -> None:
    """Binary and JSON give the same report back, to the last bit, from every kind of buffer."""
    for write in (encode_report, report_to_json):
        data = write(report)
        found = decode_report(data)
        assert found == report
        assert type(found) is type(report)
        assert write(found) == data  # also the sign of zero
        assert decode_report(bytearray(data)) == decode_report(memoryview(data)) == report


@given(categories | vectors, st.binary(min_size=1, max_size=3))
def test_a_message_is_read_to_its_end(report: Report, extra: bytes) -> None:
    """Nothing may follow or be missing, in either form; white space around JSON is allowed."""
    binary, text = encode_report(report), report_to_json(report)
    for data in (binary + extra, binary[:-1], text + b"," + extra, text[:-1], text + text):
        with pytest.raises(InvalidReport):
            decode_report(data)
    assert decode_report(b" \n" + text + b"\n") == report


def test_the_binary_layout_is_pinned() -> None:
    """Little-endian: kind, digest, round, chain, token, then block and category, or width and values."""
    head = bytes.fromhex("0123456789abcdef") + struct.pack("<IH", 7, 1) + b"\xab" * 16
    assert encode_report(REPORT) == b"\x01" + head + struct.pack("<IH", 2, 3)
    assert encode_report(VECTOR) == b"\x02" + head + struct.pack("<H2d", 2, 0.5, -0.0)


def test_the_json_layout_is_pinned() -> None:
    """One flat object with the names of the fields, on one line."""
    assert json.loads(JSON) == {
        "kind": "category",
        "digest": "0123456789abcdef",
        "round": 7,
        "chain": 1,
        "block": 2,
        "category": 3,
        "token": "ab" * 16,
    }
    assert b"\n" not in JSON
    assert json.loads(report_to_json(VECTOR))["values"] == [0.5, -0.0]


@pytest.mark.parametrize("d", [0, 1, 5, 20])
@pytest.mark.parametrize("s", [1, 2])
def test_a_private_report_is_small(d: int, s: int) -> None:
    """A report of a campaign with up to 20 features has 37 bytes, below 48."""
    campaign = Campaign.model_validate(
        {
            "kind": "quantile",
            "name": "small",
            "tau": 0.5,
            "epsilon": 4.0,
            "target": {"lower": 0, "upper": 1},
            "features": {f"x{j}": {"lower": 0, "upper": 1} for j in range(d)},
            "channel": {"kind": "cqx", "q": 2, "s": min(s, d + 1)},
        }
    )
    start = Parameters(
        digest=campaign.digest_prefix,
        partition=0,
        round=0,
        n=0,
        chains=(ChainParameters(chain=0, beta=(0.0,) * (d + 1)),),
    )
    report = Reporter.simulated(campaign, seed=d).report({}, 0.3, start)
    assert len(encode_report(report)) == 37
    assert decode_report(encode_report(report)) == report


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "neither a binary nor a JSON report"),
        (b"\x01", "binary report of 1 bytes: at least 31 are needed"),
        (b"\x01" + bytes(35), "category report of 36 bytes: must have 37"),
        (b"\x01" + bytes(37), "category report of 38 bytes: must have 37"),
        (b"\x02" + bytes(30), "vector report of 31 bytes: at least 33 are needed"),
        (b"\x02" + bytes(32), "does not hold 0 values"),
        (b"\x02" + bytes(30) + b"\x02\x00" + bytes(8), "does not hold 2 values"),
        (b"\x02" + bytes(30) + b"\x01\x10" + bytes(8 * 4097), "does not hold 4097 values"),
        (b"\x02" + bytes(30) + b"\x01\x00" + struct.pack("<d", float("nan")), "values must be finite"),
        (b"\x02" + bytes(30) + b"\x01\x00" + struct.pack("<d", float("inf")), "values must be finite"),
        (b"\x03" + bytes(36), "neither a binary nor a JSON report"),
        (b"{" * (1 << 17) + b"{", "report of 131073 bytes: at most 131072 are allowed"),
        (b"{" * 100_000, "Invalid JSON"),
        (b'{"\xff"', "Invalid JSON"),
        (b"null", "neither a binary nor a JSON report"),
        (b"[]", "neither a binary nor a JSON report"),
        (b"{}", "kind"),
        (b'{"kind": "SECRET\\n"}', "kind: unknown"),
        (b'{"kind": ["SECRET"]}', "kind: unknown"),
        (JSON[:-1] + b', "SECRET\\n": 1}', "unknown key"),
        (JSON[:-1] + b', "values": [1]}', "unknown key"),
        (
            JSON.replace(b'"category":3', b'"category":-1'),
            "category: Input should be greater than or equal to 0",
        ),
        (JSON.replace(b'"category":3', b'"category":65536'), "category: Input should be less than 65536"),
        (JSON.replace(b'"block":2', b'"block":2.0'), "block: Input should be a valid integer"),
        (JSON.replace(b'"block":2', b'"block":true'), "block: Input should be a valid integer"),
        (JSON.replace(b'"block":2', b'"block":"2"'), "block: Input should be a valid integer"),
        (JSON.replace(b'"block":2', b'"block":' + b"9" * 4400), "Invalid JSON: number out of range"),
        (JSON.replace(b'"block":2,', b""), "block: Field required"),
        (JSON.replace(b'"0123456789abcdef"', b'"0123456789abcdef\\n"'), "digest: String should match"),
        (JSON.replace(b'"0123456789abcdef"', b'"\\ud800"'), "Invalid JSON"),
        (JSON.replace(b"abab", b"SECR"), "token: String should match"),
        (report_to_json(VECTOR).replace(b"0.5", b"NaN"), "values.0: Input should be a finite number"),
        (report_to_json(VECTOR).replace(b"0.5", b"1e999"), "values.0: Input should be a finite number"),
        (report_to_json(VECTOR).replace(b"[0.5,-0.0]", b"[]"), "values: Tuple should have at least 1"),
        (
            report_to_json(VECTOR).replace(b"[0.5,-0.0]", b'["SECRET"]'),
            "values.0: Input should be a valid number",
        ),
    ],
)
def test_bad_bytes_are_refused_in_one_line(data: bytes, message: str) -> None:
    """The message says what is wrong and repeats nothing of what was sent, for every kind of buffer."""
    for buffer in (data, bytearray(data), memoryview(data)):
        with pytest.raises(InvalidReport) as caught:
            decode_report(buffer)
        text = str(caught.value)
        assert message in text
        assert text.isprintable()
        assert "SEC" not in text
        assert len(text) < 200


def test_a_buffer_of_other_items_is_read_as_its_bytes() -> None:
    """The length that counts is that of the bytes."""
    padded = b" " * (-len(JSON) % 4) + JSON
    assert decode_report(memoryview(array("I", padded))) == REPORT
    with pytest.raises(InvalidReport, match="at most 131072"):
        decode_report(memoryview(array("I", bytes(131_076))))


@given(
    st.binary(max_size=200)
    | st.tuples(st.sampled_from([b"\x01", b"\x02"]), st.binary(max_size=80)).map(b"".join)
)
def test_any_bytes_are_a_report_or_refused(data: bytes) -> None:
    """Nothing but InvalidReport is raised, and what is accepted can be written again."""
    try:
        report = decode_report(data)
    except InvalidReport:
        return
    assert encode_report(report) == data or decode_report(encode_report(report)) == report


def test_fuzzing_finds_nothing_else() -> None:
    """20,000 random, valid, mutated and odd inputs to both parsers: accepted soundly or refused tidily."""
    seen = fuzz(20_000, seed=1)
    assert sum(seen.values()) == 20_000
    assert seen["valid", True] > 2000
    for kind in ("mutated", "odd JSON"):  # the fuzzing reaches past the first check
        assert seen[kind, True] > 100
        assert seen[kind, False] > 1000


@pytest.mark.parametrize("fault", [ValueError("boom"), InvalidReport("two\nlines"), InvalidReport("kAnArY")])
def test_the_fuzzing_notices_a_parser_that_misbehaves(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Another exception, a message of two lines and one that repeats the input all end the run."""
    calls: Counter[str] = Counter()

    def wrap(decode: Callable[[bytes], Report]) -> Callable[[bytes], Report]:
        def wrapped(data: bytes) -> Report:
            calls["decode"] += 1
            if calls["decode"] == 30:
                raise fault
            return decode(data)

        return wrapped

    monkeypatch.setattr("tests.fuzz_codec.decode_report", wrap(decode_report))
    with pytest.raises((AssertionError, ValueError)):
        fuzz(500, seed=1)
