"""Raw rows from the files on a command line: several files as one source, opened for a campaign.

The position is that of the file being read, its number from 0, and what it begins with: a length, and the
first 6 bytes of the SHA-256 of the target's name and so many of its bytes. So a checkpoint is not continued
with another file by mistake, while one that has grown is welcome. Standard input is not checked so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ...campaign import Campaign
from ...errors import InvalidInput
from ..base import Batch, Position, Row, Source, read_position
from ..files import CsvSource, JsonLinesSource
from ..outputs import RejectsFile
from ..tlc import TlcSource
from ..user_rows import CsvUserSource, JsonLinesUserSource, UserRow
from .files_out import check_writable, open_rejects
from .options import Format

__all__ = ["FileChain", "RowChoice", "open_rows", "open_user_rows"]

_STDIN = "-"
_HEAD_BYTES = 4096
_TLC_TARGET = "log_minutes"
_TLC_FEATURES = ("airport", "log_miles", "night", "rush")
_JSON_LINES = (".jsonl", ".ndjson")

T = TypeVar("T")


def _size(path: str) -> int:
    """Return a file's size in bytes, 0 for standard input and what is not there."""
    return Path(path).stat().st_size if Path(path).is_file() else 0


def _is_pipe(path: str) -> bool:
    return Path(path).exists() and not Path(path).is_file()


class FileChain(Source[T]):
    """Files of rows, one after another.

    Parameters
    ----------
    paths
        At least one file, or ``-`` alone for standard input.
    open_file
        Opens one of them. All are opened once at the start, so that a missing one is noticed then.
    mark
        A text that is part of what a position checks: the target's name.
    """

    def __init__(self, paths: Sequence[str], open_file: Callable[[str], Source[T]], mark: str) -> None:
        if not paths or (_STDIN in paths and len(paths) > 1):
            raise InvalidInput(f"ROWS = {list(paths)!r}: must be at least one file, or '-' alone")
        self._paths = paths
        self._open_file = open_file
        self._mark = mark
        for path in paths[1:]:
            if not _is_pipe(path):
                open_file(path).close()
        self._index = 0
        sizes = [_size(path) for path in paths]
        self._file = open_file(paths[0])
        self._before = [sum(sizes[:index]) for index in range(len(sizes) + 1)]

    @property
    def position(self) -> Position:
        """The file's number, line and byte in it, and what it begins with."""
        return self._checked(self._index, self._file.position)

    def _checked(self, index: int, inner: Position) -> Position:
        head_bytes, head = self._head(index, _HEAD_BYTES)
        return {**inner, "file": index, "head_bytes": head_bytes, "head": head}

    def _head(self, index: int, most: int) -> tuple[int, int]:
        """Return how many bytes of a file's beginning are looked at, and the first bytes of their digest."""
        path = self._paths[index]
        content = b""
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                content = file.read(most)
        digest = hashlib.sha256(self._mark.encode("utf-8", "surrogateescape") + b"\x00" + content).digest()
        return len(content), int.from_bytes(digest[:6], "big")

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading of the same files."""
        names = ("file", "line", "byte", "head_bytes", "head")
        index, line, byte, head_bytes, head = read_position(position, *names)
        if index >= len(self._paths):
            raise InvalidInput(
                f"the checkpoint stands in file {index + 1}, and {len(self._paths)} were given"
            )
        if self._head(index, head_bytes) != (head_bytes, head):
            raise InvalidInput(
                f"{self._paths[index]}: is not the file that the checkpoint stands in, or has another "
                "target; give the same rows and --target, or another --checkpoint"
            )
        if index != self._index:
            self._go_to(index)
        self._file.resume({**self._file.position, "line": line, "byte": byte})

    def _go_to(self, index: int) -> None:
        self._file.close()
        self._index = index
        self._file = self._open_file(self._paths[index])

    def batches(self, size: int) -> Iterator[Batch[T]]:
        """Hand out batches, each of one file."""
        while True:
            for batch in self._file.batches(size):
                position = self._checked(self._index, batch.position)
                yield replace(batch, position=position, progress=self._progress(batch.progress))
            if self._index + 1 == len(self._paths):
                return
            self._go_to(self._index + 1)

    def _progress(self, here: float | None) -> float | None:
        if here is None or not self._before[-1]:
            return here
        start, stop = self._before[self._index : self._index + 2]
        return (start + here * (stop - start)) / self._before[-1]

    def close(self) -> None:
        """Close the file being read."""
        self._file.close()


def open_rows(
    paths: Sequence[str],
    campaign: Campaign,
    target: str | None,
    *,
    tlc: bool = False,
    layout: Format = Format.AUTO,
    delimiter: str = ",",
    strict: bool = False,
) -> FileChain[Row]:
    """Open files of raw rows for a campaign.

    Raises
    ------
    InvalidInput
        If a file is not there or has not the target's or a feature's column, or the target is missing.
    """
    features = list(campaign.features)
    if tlc:
        unknown = [name for name in features if name not in _TLC_FEATURES]
        if unknown or target not in (None, _TLC_TARGET):
            what = f"the feature {unknown[0]!r}" if unknown else f"--target {target!r}"
            known = f"the target {_TLC_TARGET} and the features {', '.join(_TLC_FEATURES)}"
            raise InvalidInput(f"{what}: trip records have {known}")
        return FileChain(paths, lambda path: TlcSource(path, strict=strict), _TLC_TARGET)
    if target is None:
        raise InvalidInput("--target: missing; it names the target's column (only --tlc has its own)")

    def open_file(path: str) -> Source[Row]:
        if _is_json_lines(path, layout):
            return JsonLinesSource(path, target, features, strict=strict)
        source = CsvSource(path, target, features, delimiter=delimiter, strict=strict)
        if source.absent:
            source.close()
            raise InvalidInput(
                f"{path}: has no column for the feature {source.absent[0]!r}; "
                f"the columns are {', '.join(map(repr, source.columns))}"
            )
        return source

    return FileChain(paths, open_file, target)


@dataclass(frozen=True)
class RowChoice:
    """What a command line says about rows: the files, and how to read them."""

    paths: Sequence[str]
    target: str | None
    tlc: bool
    layout: Format
    delimiter: str
    strict: bool
    rejects: Path | None

    def open(self, campaign: Campaign) -> FileChain[Row]:
        """Open the files."""
        return open_rows(
            self.paths,
            campaign,
            self.target,
            tlc=self.tlc,
            layout=self.layout,
            delimiter=self.delimiter,
            strict=self.strict,
        )

    def open_users(self, campaign: Campaign, user: str) -> FileChain[UserRow]:
        """Open the files, whose users are named in a column."""
        if self.tlc:
            raise InvalidInput("--user: trip records name no users")
        return open_user_rows(
            self.paths,
            campaign,
            self.target,
            user,
            layout=self.layout,
            delimiter=self.delimiter,
            strict=self.strict,
        )

    def open_rejects(self) -> AbstractContextManager[RejectsFile | None]:
        """Open the file for what cannot be used, if there is to be one."""
        if self.rejects is not None:
            check_writable(self.rejects, "--rejects")
        return open_rejects(self.rejects)


def open_user_rows(
    paths: Sequence[str],
    campaign: Campaign,
    target: str | None,
    user: str,
    *,
    layout: Format = Format.AUTO,
    delimiter: str = ",",
    strict: bool = False,
) -> FileChain[UserRow]:
    """Open files of raw rows whose users are named in a column.

    Raises
    ------
    InvalidInput
        If a file is not there or lacks a column, or the target is missing.
    """
    if target is None:
        raise InvalidInput("--target: missing; it names the target's column")
    features = list(campaign.features)

    def open_file(path: str) -> Source[UserRow]:
        if _is_json_lines(path, layout):
            return JsonLinesUserSource(path, target, features, user, strict=strict)
        return CsvUserSource(path, target, features, user, delimiter=delimiter, strict=strict)

    return FileChain(paths, open_file, target)


def _is_json_lines(path: str, layout: Format) -> bool:
    if layout is not Format.AUTO:
        return layout is Format.JSONL
    return path.lower().removesuffix(".gz").endswith(_JSON_LINES)
