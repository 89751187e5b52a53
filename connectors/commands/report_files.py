r"""Files of reports: JSON lines, or binary.

Binary: the 8 bytes ``ldprep\x00\x01``, then for each report its length (u16, little-endian) and its compact
form. :mod:`ldp_stream.codec` alone knows what is inside a report.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from ...codec import encode_report, report_to_json
from ...reports import Report
from ..line_files import LineFile
from ..outputs import JsonLinesSink

__all__ = ["read_reports", "write_reports"]

_MAGIC = b"ldprep\x00\x01"
_LENGTH = struct.Struct("<H")
_LINES = 4096


def write_reports(path: Path, reports: Iterable[Report], binary: bool) -> None:
    """Write a file of reports that appears whole or not at all; ``-`` is standard output, for JSON lines."""
    if binary:
        _write_binary(path, reports)
        return
    with JsonLinesSink(path) as sink:
        for report in reports:
            sink.write([report_to_json(report).decode()])


def _write_binary(path: Path, reports: Iterable[Report]) -> None:
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            file.write(_MAGIC)
            for report in reports:
                content = encode_report(report)
                file.write(_LENGTH.pack(len(content)) + content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_reports(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the undecoded reports of a file with their numbers: lines, or places in a binary file, from 1.

    Raises
    ------
    InvalidInput
        If the file is not there or cannot be read.
    """
    if path != "-" and Path(path).is_file():
        with Path(path).open("rb") as file:
            if file.read(len(_MAGIC)) == _MAGIC:
                yield from _read_binary(file)
                return
    yield from _read_lines(path)


def _read_binary(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    number = 0
    while head := file.read(_LENGTH.size):
        number += 1
        length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
        yield number, file.read(length)


def _read_lines(path: str) -> Iterator[tuple[int, bytes]]:
    lines = LineFile(path)
    try:
        number = 0
        while taken := lines.take(_LINES):
            for line in taken:
                number += 1
                if not line.isspace():
                    yield number, line.rstrip(b"\r\n")
    finally:
        lines.close()
