r"""Lines of a file, a gzip file or standard input, with an exact position after each.

The position is (line, byte): the lines taken so far and the bytes they hold with their line ends,
uncompressed. The file is read in blocks and cut at ``\n``, ``\r\n`` or a lone ``\r``; nothing is read line by
line.

Not guaranteed: that a file which changes while it is read is noticed. A last line without a line end counts
as a whole line. A gzip file or standard input resumes by reading again up to the position, a plain file jumps
there.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ..errors import InvalidInput
from .base import Position, read_position

__all__ = ["LineFile", "text_of"]

_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 1 << 24
_GZIP_MAGIC = b"\x1f\x8b"


def text_of(line: bytes) -> str:
    """Return a line as a reject's text: no line end, bytes that are not UTF-8 as surrogate escapes."""
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _open(path: str) -> io.BufferedReader:
    if path == "-":
        stream = sys.stdin.buffer
        if isinstance(stream, io.BufferedReader):
            return stream
        return io.BufferedReader(cast("io.RawIOBase", stream))
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise InvalidInput(f"path = {path!r}: there is no such file") from None
    except OSError as error:
        raise InvalidInput(f"path = {path!r}: cannot be opened: {error.strerror}") from None


def _regular_size(stream: io.BufferedReader) -> int | None:
    """Return the size in bytes of a regular file, None for a pipe or a terminal."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class LineFile:
    """The lines of one file.

    Parameters
    ----------
    path
        A file, plain or gzip (told by its first bytes, whatever its name), or ``-`` for standard input.

    Raises
    ------
    InvalidInput
        If the file is not there or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.name = "standard input" if self.path == "-" else self.path
        self.line = 0
        self.byte = 0
        self._raw = _open(self.path)
        self._size = _regular_size(self._raw)
        self._compressed = self._magic() == _GZIP_MAGIC
        self._stream = gzip.GzipFile(fileobj=self._raw) if self._compressed else self._raw
        self._block: list[bytes] = []
        self._next = 0
        self._tail = b""
        self._ended = False
        self._fault: InvalidInput | None = None

    def _magic(self) -> bytes:
        """Return the first two bytes without taking them."""
        try:
            return self._raw.peek(2)[:2]
        except OSError as error:
            raise InvalidInput(f"path = {self.path!r}: cannot be read: {error.strerror}") from None

    @property
    def position(self) -> Position:
        """The lines and the uncompressed bytes taken so far."""
        return {"line": self.line, "byte": self.byte}

    @property
    def progress(self) -> float | None:
        """The part of the file that is read, by (compressed) bytes; None for a pipe."""
        if self._size is None:
            return None
        if self._ended and self._next == len(self._block):
            return 1.0
        done = self._raw.tell() if self._compressed else self.byte
        return min(1.0, done / self._size) if self._size else 1.0

    def take(self, count: int) -> list[bytes]:
        """Take at most ``count`` lines, with their line ends; an empty list at the end.

        A regular file gives as many as there are. A pipe gives what has arrived, at least one line, rather
        than wait.

        Raises
        ------
        InvalidInput
            If nothing is left but what cannot be read: a damaged gzip file, or a line without an end.
        """
        while not self._ended:
            ready = len(self._block) - self._next
            if ready >= count or (ready and self._size is None):
                break
            self._fill()
        lines = self._block[self._next : self._next + count]
        if not lines and self._fault is not None:
            raise self._fault
        self._next += len(lines)
        self.line += len(lines)
        self.byte += sum(map(len, lines))
        return lines

    def give_back(self, lines: Sequence[bytes]) -> None:
        """Undo the taking of the last lines taken."""
        self._block[: self._next] = lines
        self._next = 0
        self.line -= len(lines)
        self.byte -= sum(map(len, lines))

    def _fill(self) -> None:
        """Read one more block and cut it into lines; what follows the last line end waits for the next.

        If that fails, the lines before are handed out first, and then the error is raised.
        """
        del self._block[: self._next]
        self._next = 0
        last = self.line + len(self._block)
        try:
            block = self._stream.read1(_BLOCK_BYTES)
        except (EOFError, OSError, zlib.error) as error:
            self._fault = InvalidInput(f"{self.name}: cannot be read beyond line {last}: {error}")
            self._ended = True
            return
        self._ended = not block
        lines = (self._tail + block).splitlines(keepends=True)
        unfinished = bool(block) and not lines[-1].endswith(b"\n")
        self._tail = lines.pop() if unfinished else b""
        self._block += lines
        if len(self._tail) > _LONGEST_LINE:
            line = last + len(lines) + 1
            self._fault = InvalidInput(
                f"{self.name}, line {line}: over {_LONGEST_LINE} bytes; is it a text file?"
            )
            self._ended = True

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading.

        Raises
        ------
        InvalidInput
            If the position is not at the start of a line of this file, or lies behind what a pipe has given
            already.
        """
        line, byte = read_position(position, "line", "byte")
        if self._size is not None and not self._compressed:
            self._jump(line, byte)
        else:
            self._skip(line, byte)

    def _misfit(self, line: int, byte: int) -> InvalidInput:
        return InvalidInput(
            f"position = {{'line': {line}, 'byte': {byte}}}: does not fit {self.name}; was the file changed?"
        )

    def _clear(self, line: int, byte: int) -> None:
        self.line, self.byte = line, byte
        self._block, self._next, self._tail = [], 0, b""
        self._ended, self._fault = False, None

    def _jump(self, line: int, byte: int) -> None:
        """Seek in a plain file, and look at the byte before the position: it must end a line or the file."""
        size = self._size or 0
        if byte > size or (byte == 0) != (line == 0):
            raise self._misfit(line, byte)
        self._stream.seek(max(byte - 1, 0))
        before = self._stream.read(1) if byte else b"\n"
        if before not in (b"\n", b"\r") and byte < size:
            raise self._misfit(line, byte)
        self._clear(line, byte)

    def _skip(self, line: int, byte: int) -> None:
        """Take lines up to the position, from the start of a gzip file if the position lies behind."""
        if byte < self.byte:
            if not self._compressed or self._size is None:
                raise InvalidInput(f"{self.name}: a pipe cannot go back to byte {byte}, it is at {self.byte}")
            self._stream.seek(0)
            self._clear(0, 0)
        while self.byte < byte:
            lines = self.take(10_000)
            if not lines:
                break
            if self.byte > byte:
                while self.byte > byte:
                    self.give_back([lines.pop()])
                break
        if (self.line, self.byte) != (line, byte):
            raise self._misfit(line, byte)

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if isinstance(self._stream, gzip.GzipFile):
            self._stream.close()
        if self.path != "-":
            self._raw.close()
        elif self._raw is not sys.stdin.buffer and not self._raw.closed:
            self._raw.detach()
