"""State as bytes: versioned, checked, without pickle.

Layout: the 8 bytes ``ldpstate``, a format version (u16), the SHA-256 of what follows, then zlib of: the
length of a JSON header (u32), the header (facts, and the names and shapes of the arrays), and the arrays as
little-endian float64.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidSnapshot

__all__ = ["FORMAT_VERSION", "pack", "unpack"]

Array = NDArray[np.float64]

FORMAT_VERSION = 1
_MAGIC = b"ldpstate"
_HEAD = struct.Struct("<8sH32s")
_LENGTH = struct.Struct("<I")


def pack(facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return facts (JSON-able) and float64 arrays as one checked string of bytes.

    Examples
    --------
    >>> data = pack({"n": 2}, {"b": np.array([0.5, 0.25])})
    >>> unpack(data)
    ({'n': 2}, {'b': array([0.5 , 0.25])})
    """
    shapes = {name: array.shape for name, array in arrays.items()}
    header = json.dumps({"facts": facts, "shapes": shapes}, separators=(",", ":")).encode()
    parts = [_LENGTH.pack(len(header)), header]
    parts += [np.ascontiguousarray(array, "<f8").tobytes() for array in arrays.values()]
    body = zlib.compress(b"".join(parts), 1)
    return _HEAD.pack(_MAGIC, FORMAT_VERSION, hashlib.sha256(body).digest()) + body


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the facts and arrays of :func:`pack`.

    Raises
    ------
    InvalidSnapshot
        If the bytes are not a snapshot, are altered or cut short, or have a format version that this package
        does not know.
    """
    if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
        raise InvalidSnapshot(f"snapshot of {len(data)} bytes: is not a snapshot of this package")
    _, version, checksum = _HEAD.unpack_from(data)
    if version != FORMAT_VERSION:
        raise InvalidSnapshot(
            f"snapshot: format version {version}, this package reads {FORMAT_VERSION}; use a matching version"
        )
    body = data[_HEAD.size :]
    if hashlib.sha256(body).digest() != checksum:
        raise InvalidSnapshot("snapshot: the checksum does not fit, the bytes were altered or cut short")
    try:
        return _parse(zlib.decompress(body))
    except (zlib.error, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidSnapshot(f"snapshot: cannot be read: {error}") from None


def _parse(content: bytes) -> tuple[dict[str, Any], dict[str, Array]]:
    (length,) = _LENGTH.unpack_from(content)
    offset = _LENGTH.size + length
    header = json.loads(content[_LENGTH.size : offset])
    arrays = {}
    for name, shape in header["shapes"].items():
        size = math.prod(shape)
        arrays[name] = np.frombuffer(content, "<f8", size, offset).reshape(shape).astype(np.float64)
        offset += 8 * size
    if offset != len(content):
        raise ValueError(f"{len(content) - offset} bytes too many")
    if not isinstance(header["facts"], dict):
        raise ValueError("the facts are no mapping")
    return header["facts"], arrays
