"""One report as bytes and back: JSON, or a compact binary form. The only parser of reports.

Binary, little-endian:

=========  =================================================================================  ==========
first byte  then                                                                              bytes
=========  =================================================================================  ==========
0x01        digest 8, round u32, chain u16, token 16, block u32, category u16                 37
0x02        digest 8, round u32, chain u16, token 16, p u16, p float64                        33 + 8 p
=========  =================================================================================  ==========

Whatever the bytes, the only exception is :class:`~ldp_stream.errors.InvalidReport`, with a message of one
line that repeats nothing of them. Columns of many reports have a codec of their own
(:mod:`ldp_stream.batch_codec`), since a device needs no numpy.
"""

from __future__ import annotations

import math
import struct
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from .errors import InvalidReport
from .reports import MOST_VALUES, CategoryReport, Report, VectorReport

__all__ = ["CATEGORY", "VECTOR", "decode_report", "encode_report", "first_problem", "report_to_json"]

CATEGORY, VECTOR = 0x01, 0x02
_HEAD = struct.Struct("<B8sIH16s")
_CATEGORY = struct.Struct("<IH")
_WIDTH = struct.Struct("<H")
_MOST_BYTES = 1 << 17  # of one report; the largest, 4,096 values in JSON, has some 102,600
_JSON: TypeAdapter[Report] = TypeAdapter(Annotated[Report, Field(discriminator="kind")])


def report_to_json(report: Report) -> bytes:
    """Return the report as one line of JSON (UTF-8, no line end)."""
    return report.model_dump_json().encode()


def encode_report(report: Report) -> bytes:
    """Return the report in the compact binary form: 37 bytes for a category report.

    Examples
    --------
    >>> report = CategoryReport(digest="0" * 16, round=1, chain=0, block=2, category=3, token="ab" * 16)
    >>> len(encode_report(report)), decode_report(encode_report(report)) == report
    (37, True)
    """
    kind = CATEGORY if isinstance(report, CategoryReport) else VECTOR
    head = _HEAD.pack(
        kind, bytes.fromhex(report.digest), report.round, report.chain, bytes.fromhex(report.token)
    )
    if isinstance(report, CategoryReport):
        return head + _CATEGORY.pack(report.block, report.category)
    return head + _WIDTH.pack(len(report.values)) + struct.pack(f"<{len(report.values)}d", *report.values)


def decode_report(data: bytes | bytearray | memoryview) -> Report:
    """Return the report that the bytes hold, binary or JSON.

    Raises
    ------
    InvalidReport
        If the bytes are not exactly one report; nothing else is ever raised, whatever the bytes.
    """
    data = bytes(data)
    if len(data) > _MOST_BYTES:
        raise InvalidReport(f"report of {len(data)} bytes: at most {_MOST_BYTES} are allowed")
    if data[:1] in (b"\x01", b"\x02"):
        return _from_binary(data)
    if not data.lstrip().startswith(b"{"):
        raise InvalidReport("neither a binary nor a JSON report")
    try:
        return _JSON.validate_json(data)
    except ValidationError as error:
        raise InvalidReport(f"not a JSON report: {first_problem(error, tags=1)}") from None


def first_problem(error: ValidationError, *, tags: int = 0) -> str:
    """Return the first problem of a parsed message in one line, without echoing what it held.

    Parameters
    ----------
    error
        What pydantic found.
    tags
        How many leading parts of the problem's path name a kind and not a field.
    """
    item = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if item["type"] == "extra_forbidden":
        return "unknown key"
    if item["type"] == "union_tag_invalid":
        return "kind: unknown"
    path = ".".join(str(part) for part in item["loc"][tags:])
    return f"{path}: {item['msg']}" if path else item["msg"]


def _from_binary(data: bytes) -> Report:
    if len(data) < _HEAD.size:
        raise InvalidReport(f"binary report of {len(data)} bytes: at least {_HEAD.size} are needed")
    kind, digest, round_, chain, token = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    named = digest.hex(), token.hex()
    if kind == CATEGORY:
        if len(body) != _CATEGORY.size:
            raise InvalidReport(
                f"category report of {len(data)} bytes: must have {_HEAD.size + _CATEGORY.size}"
            )
        block, category = _CATEGORY.unpack(body)
        return CategoryReport(
            digest=named[0], round=round_, chain=chain, block=block, category=category, token=named[1]
        )
    if len(body) < _WIDTH.size:
        raise InvalidReport(
            f"vector report of {len(data)} bytes: at least {_HEAD.size + _WIDTH.size} are needed"
        )
    (width,) = _WIDTH.unpack_from(body)
    if len(body) != _WIDTH.size + 8 * width or not 1 <= width <= MOST_VALUES:
        raise InvalidReport(
            f"vector report of {len(data)} bytes: does not hold {width} values (1 to {MOST_VALUES})"
        )
    values = struct.unpack_from(f"<{width}d", body, _WIDTH.size)
    if not all(map(math.isfinite, values)):
        raise InvalidReport("vector report: values must be finite numbers")
    return VectorReport(digest=named[0], round=round_, chain=chain, values=values, token=named[1])
