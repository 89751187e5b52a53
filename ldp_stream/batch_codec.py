"""Columns of many reports as bytes and back: JSON, or a compact binary form.

Binary, little-endian: one byte (0x11 category, 0x12 vector), digest 8, n u32, p u16 (0 for category reports),
then whole columns: round u32, chain u16, token 16 bytes, and block u32, category u16, or n x p float64 in row
order: 28 bytes a category report. Whatever the bytes, the only exception is
:class:`~ldp_stream.errors.InvalidReport`, with a message of one line that repeats nothing of them.
"""

from __future__ import annotations

import struct
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .codec import first_problem
from .errors import InvalidReport
from .report_batch import ReportBatch

__all__ = ["batch_to_json", "decode_batch", "encode_batch"]

_CATEGORY, _VECTOR = 0x11, 0x12
_HEAD = struct.Struct("<B8sIH")
_COMMON: tuple[tuple[str, str, int], ...] = (("round", "<u4", 1), ("chain", "<u2", 1), ("token", "u1", 16))
_PAYLOAD: tuple[tuple[str, str, int], ...] = (("block", "<u4", 1), ("category", "<u2", 1))


class _Columns(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal["category", "vector"]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    round: list[Annotated[int, Field(ge=0, lt=1 << 32)]]
    chain: list[Annotated[int, Field(ge=0, lt=1 << 16)]]
    token: list[Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]]
    block: list[Annotated[int, Field(ge=0, lt=1 << 32)]] | None = None
    category: list[Annotated[int, Field(ge=0, lt=1 << 16)]] | None = None
    values: list[list[Annotated[float, Field(allow_inf_nan=False)]]] | None = None


def batch_to_json(batch: ReportBatch) -> bytes:
    """Return the columns as one JSON object, tokens as lists of 32 hex digits."""
    columns = _Columns(
        kind="category" if batch.values is None else "vector",
        digest=batch.digest,
        round=batch.round.tolist(),
        chain=batch.chain.tolist(),
        token=[bytes(row).hex() for row in batch.token],
        block=None if batch.block is None else batch.block.tolist(),
        category=None if batch.category is None else batch.category.tolist(),
        values=None if batch.values is None else batch.values.tolist(),
    )
    return columns.model_dump_json(exclude_none=True).encode()


def encode_batch(batch: ReportBatch) -> bytes:
    """Return the columns in the compact binary form.

    Examples
    --------
    >>> from ldp_stream.reports import CategoryReport
    >>> report = CategoryReport(digest="0" * 16, round=1, chain=0, block=2, category=3, token="ab" * 16)
    >>> data = encode_batch(ReportBatch.from_reports([report] * 10))
    >>> len(data), list(decode_batch(data)) == [report] * 10
    (295, True)
    """
    width = 0 if batch.values is None else batch.values.shape[1]
    kind = _CATEGORY if batch.values is None else _VECTOR
    parts = [_HEAD.pack(kind, bytes.fromhex(batch.digest), len(batch), width)]
    names = _COMMON + (_PAYLOAD if batch.values is None else (("values", "<f8", width),))
    parts += [np.ascontiguousarray(getattr(batch, name), dtype).tobytes() for name, dtype, _ in names]
    return b"".join(parts)


def decode_batch(data: bytes | bytearray | memoryview) -> ReportBatch:
    """Return the columns that the bytes hold, binary or JSON.

    Raises
    ------
    InvalidReport
        If the bytes are not exactly one set of columns; nothing else is ever raised, whatever the bytes.
    """
    data = bytes(data)
    return _from_binary(data) if data[:1] in (b"\x11", b"\x12") else _from_json(data)


def _from_binary(data: bytes) -> ReportBatch:
    if len(data) < _HEAD.size:
        raise InvalidReport(f"columns of {len(data)} bytes: at least {_HEAD.size} are needed")
    kind, digest, n, width = _HEAD.unpack_from(data)
    layout = _COMMON + (_PAYLOAD if kind == _CATEGORY else (("values", "<f8", width),))
    expected = _HEAD.size + n * sum(np.dtype(dtype).itemsize * columns for _, dtype, columns in layout)
    if len(data) != expected or (kind == _CATEGORY) != (width == 0):
        raise InvalidReport(f"columns of {len(data)} bytes: {n} reports of width {width} have {expected}")
    found: dict[str, Any] = {}
    offset = _HEAD.size
    for name, dtype, columns in layout:
        column = np.frombuffer(data, dtype, n * columns, offset)
        offset += column.nbytes
        found[name] = column.reshape(n, columns) if name in ("token", "values") else column
    return ReportBatch(digest.hex(), **found)


def _from_json(data: bytes) -> ReportBatch:
    try:
        columns = _Columns.model_validate_json(data)
    except ValidationError as error:
        raise InvalidReport(f"neither binary nor JSON columns: {first_problem(error)}") from None
    values = None
    if columns.values is not None:
        widths = sorted({len(row) for row in columns.values})
        if len(widths) != 1:
            raise InvalidReport(
                f"values: rows of widths {widths[:2]}: must all be equal, and at least one row"
            )
        values = np.array(columns.values, np.float64).reshape(len(columns.values), *widths)
    if (columns.kind == "vector") != (values is not None):
        raise InvalidReport(f"columns of kind {columns.kind!r}: do not fit the kind")
    return ReportBatch(
        columns.digest,
        np.array(columns.round, np.uint32),
        np.array(columns.chain, np.uint16),
        np.frombuffer(bytes.fromhex("".join(columns.token)), np.uint8).reshape(-1, 16),
        None if columns.block is None else np.array(columns.block, np.uint32),
        None if columns.category is None else np.array(columns.category, np.uint16),
        values,
    )
