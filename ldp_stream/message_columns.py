"""Columns of many reports from as many messages, each of which holds one report or is at fault.

What a server reads from a stream: every message is parsed on its own, so that one that is broken harms none
of its neighbours. Compact category reports of 37 bytes, the usual case, are read as one array; everything
else goes through :func:`~ldp_stream.codec.decode_report`, with the same outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .codec import CATEGORY, decode_report, encode_report
from .errors import InvalidReport
from .report_batch import ReportBatch
from .reports import CategoryReport, Report, VectorReport

__all__ = ["Fault", "Parsed", "decode_messages"]

_LAYOUT = np.dtype(
    [
        ("kind", "u1"),
        ("digest", "u1", 8),
        ("round", "<u4"),
        ("chain", "<u2"),
        ("token", "u1", 16),
        ("block", "<u4"),
        ("category", "<u2"),
    ]
)
_SIZE = _LAYOUT.itemsize
_SIZES = {_SIZE}


class Fault(NamedTuple):
    """A message that is no report of the campaign: its place among the messages, and why."""

    place: int
    foreign: bool  # a report, but of another campaign
    detail: str


class Parsed(NamedTuple):
    """What the messages held.

    Parameters
    ----------
    batch
        The reports, in order; None if there is none.
    places
        int64, shape (n,): the place of each report's message.
    faults
        The other messages, in order.
    """

    batch: ReportBatch | None
    places: NDArray[np.int64]
    faults: list[Fault]


def decode_messages(messages: Sequence[bytes], digest: str, width: int | None) -> Parsed:
    """Return the reports of one campaign that the messages hold; nothing is raised, whatever the bytes.

    Parameters
    ----------
    messages
        One report each, binary or JSON.
    digest
        The first 8 bytes of the campaign's digest, 16 hex digits.
    width
        The number of values of its vector reports; None if its reports are categories.

    Examples
    --------
    >>> from ldp_stream.codec import encode_report
    >>> report = CategoryReport(digest="0" * 16, round=1, chain=0, block=2, category=3, token="ab" * 16)
    >>> good, other = encode_report(report), encode_report(report.model_copy(update={"digest": "1" * 16}))
    >>> found = decode_messages([good, b"?", good, other], "0" * 16, width=None)
    >>> len(found.batch), found.places.tolist(), [(fault.place, fault.foreign) for fault in found.faults]
    (2, [0, 2], [(1, False), (3, True)])
    """
    faults: list[Fault] = []
    if width is not None:
        return _vectors(messages, digest, width, faults)
    places: list[int] | range = range(len(messages))
    rows = np.empty(0, _LAYOUT)
    if set(map(len, messages)) == _SIZES:
        rows = np.frombuffer(b"".join(messages), _LAYOUT)
    if len(rows) == 0 or not (rows["kind"] == CATEGORY).all():
        places, messages = _compact(messages, digest, faults)
        rows = np.frombuffer(b"".join(messages), _LAYOUT)
    own = (rows["digest"] == np.frombuffer(bytes.fromhex(digest), np.uint8)).all(axis=1)
    found = np.array(places, np.int64)
    if not own.all():
        others = zip(found[~own].tolist(), rows["digest"][~own], strict=True)
        faults += [_foreign(place, bytes(other).hex(), digest) for place, other in others]
        faults.sort(key=itemgetter(0))
        rows, found = rows[own], found[own]
    return Parsed(_columns(digest, rows) if len(rows) else None, found, faults)


def _foreign(place: int, digest: str, own: str) -> Fault:
    return Fault(place, True, f"digest = {digest!r}: must be {own!r}")


def _columns(digest: str, rows: NDArray[np.void]) -> ReportBatch:
    return ReportBatch(
        digest, rows["round"], rows["chain"], rows["token"], block=rows["block"], category=rows["category"]
    )


def _one_by_one(
    messages: Sequence[bytes], places: Iterable[int], digest: str, faults: list[Fault]
) -> Iterator[tuple[int, Report]]:
    """Yield the places and reports of the messages that hold a report of the campaign."""
    for place in places:
        try:
            report = decode_report(messages[place])
        except InvalidReport as error:
            faults.append(Fault(place, False, str(error)))
            continue
        if report.digest == digest:
            yield place, report
        else:
            faults.append(_foreign(place, report.digest, digest))


def _compact(messages: Sequence[bytes], digest: str, faults: list[Fault]) -> tuple[list[int], list[bytes]]:
    """Return the places and the compact form of the messages that hold, or may hold, a category report."""
    compact = {
        place: message
        for place, message in enumerate(messages)
        if len(message) == _SIZE and message[0] == CATEGORY
    }
    others = [place for place in range(len(messages)) if place not in compact]
    for place, report in _one_by_one(messages, others, digest, faults):
        if isinstance(report, CategoryReport):
            compact[place] = encode_report(report)
        else:
            faults.append(Fault(place, False, "must be a category, as the campaign's channel makes"))
    places = sorted(compact)
    return places, [compact[place] for place in places]


def _vectors(messages: Sequence[bytes], digest: str, width: int, faults: list[Fault]) -> Parsed:
    places: list[int] = []
    reports: list[Report] = []
    for place, report in _one_by_one(messages, range(len(messages)), digest, faults):
        if isinstance(report, VectorReport) and len(report.values) == width:
            places.append(place)
            reports.append(report)
        else:
            kind = f"a vector of {width} values"
            faults.append(Fault(place, False, f"must be {kind}, as the campaign's channel makes"))
    batch = ReportBatch.from_reports(reports) if reports else None
    return Parsed(batch, np.array(places, np.int64), faults)
