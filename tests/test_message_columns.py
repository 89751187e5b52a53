"""Many messages at once are read as each would be on its own."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_stream.codec import decode_report, encode_report, report_to_json
from ldp_stream.errors import InvalidReport
from ldp_stream.message_columns import decode_messages
from ldp_stream.reports import CategoryReport, Report, VectorReport

DIGEST = "0123456789abcdef"


def _report(draw: np.random.Generator, width: int | None) -> Report:
    common = {
        "digest": DIGEST,
        "round": int(draw.integers(1 << 32)),
        "chain": int(draw.integers(1 << 16)),
        "token": draw.bytes(16).hex(),
    }
    if width is None:
        return CategoryReport(
            **common, block=int(draw.integers(1 << 32)), category=int(draw.integers(1 << 16))
        )
    return VectorReport(**common, values=tuple(draw.uniform(-1, 1, width).tolist()))


def _messages(seed: int, n: int, width: int | None, bad: float, json: float) -> list[bytes]:
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        report = _report(draw, width)
        which = draw.integers(6) if draw.random() < bad else -1
        if which == 0:
            report = report.model_copy(update={"digest": "f" * 16})
        elif which == 1:
            report = _report(draw, 2 if width is None else None)
        message = report_to_json(report) if draw.random() < json else encode_report(report)
        if which == 2:
            message = draw.bytes(37)
        elif which == 3:
            message = message[:-1]
        elif which == 4:
            message = b""
        elif which == 5:
            message = b"\x01" + draw.bytes(36)  # well-formed, and of a digest that nobody knows
        found.append(message)
    return found


@pytest.mark.parametrize("json", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("bad", [0.0, 0.05, 0.6])
@pytest.mark.parametrize("width", [None, 3])
def test_many_are_read_as_one(width: int | None, bad: float, json: float) -> None:
    """Reports, places and faults are those of decoding one message after the other."""
    messages = _messages(5, 300, width, bad, json)
    reports, places, faults = [], [], []
    for place, message in enumerate(messages):
        try:
            report = decode_report(message)
        except InvalidReport as error:
            faults.append((place, False, str(error)))
            continue
        if report.digest != DIGEST:
            faults.append((place, True, f"digest = {report.digest!r}: must be {DIGEST!r}"))
        elif isinstance(report, CategoryReport) != (width is None):
            kind = "a category" if width is None else f"a vector of {width} values"
            faults.append((place, False, f"must be {kind}, as the campaign's channel makes"))
        else:
            reports.append(report)
            places.append(place)
    found = decode_messages(messages, DIGEST, width)
    assert found.batch is not None
    assert list(found.batch) == reports
    assert found.places.tolist() == places
    assert sorted(map(tuple, found.faults)) == faults
    assert bool(faults) == (bad > 0)


def test_no_reports_make_no_batch() -> None:
    """Without a report of the campaign there are no columns."""
    for messages in ([], [b"", b"?"]):
        found = decode_messages(messages, DIGEST, None)
        assert found.batch is None
        assert len(found.places) == 0
        assert len(found.faults) == len(messages)


def test_columns_of_another_length_are_no_report() -> None:
    """A vector report of another width than the campaign's is at fault, and harms no neighbour."""
    draw = np.random.default_rng(1)
    messages = [encode_report(_report(draw, width)) for width in (3, 2, 3)]
    found = decode_messages(messages, DIGEST, 3)
    assert found.places.tolist() == [0, 2]
    assert [fault.place for fault in found.faults] == [1]
