"""Dead letters: messages that do not count, with the reason, where they stood, and their bytes.

One JSON object a letter, ``{"reason", "detail", "partition", "offset", "raw"}``, raw in base64. Letters that
arise together are packed into one message, one a line, since on a stream a message each would cost far more
than reading what it holds. Bytes that are too many for a message are spread over several lines, in order,
which also have ``"part"`` and ``"parts"``: k and n, for the k-th of n pieces from 1.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...server.admission import Reason

__all__ = ["Letter", "pack_letters"]

_MOST_BYTES = 1 << 18  # of a message
_HEAD_BYTES = 2048  # of a letter's line at most, besides the raw bytes


class Letter(NamedTuple):
    """One message that does not count.

    Parameters
    ----------
    reason
        Why; one of a fixed few, so that letters can be counted by reason.
    detail
        What exactly was met and what is allowed, in one line.
    partition, offset
        Where it stood in the log.
    raw
        Its bytes.
    """

    reason: Reason
    detail: str
    partition: int
    offset: int
    raw: bytes

    def to_lines(self, most: int) -> Iterator[bytes]:
        """Yield the letter as lines of JSON of at most ``most`` bytes: one unless it has too many bytes."""
        room = (most - _HEAD_BYTES) // 4 * 3
        if len(self.raw) <= room:
            yield self.to_json()
            return
        pieces = range(0, len(self.raw), room)
        for number, first in enumerate(pieces, 1):
            line = self._replace(raw=self.raw[first : first + room]).to_json()
            yield b'%b,"part":%d,"parts":%d}' % (line[:-1], number, len(pieces))

    def to_json(self) -> bytes:
        """Return the letter as one line of JSON.

        Examples
        --------
        >>> Letter(Reason.NOT_A_REPORT, "broken", 0, 12, b"abc").to_json().decode()
        '{"reason":"not a report","detail":"broken","partition":0,"offset":12,"raw":"YWJj"}'
        """
        head = _head(self.reason, self.detail, self.partition)
        return b'%b"offset":%d,"raw":"%b"}' % (head, self.offset, b64encode(self.raw))


@lru_cache(maxsize=1024)
def _head(reason: Reason, detail: str, partition: int) -> bytes:
    return f'{{"reason":"{reason}","detail":{json.dumps(detail)},"partition":{partition},'.encode()


def pack_letters(letters: Sequence[Letter], most: int = _MOST_BYTES) -> Iterator[bytes]:
    """Yield messages of at most ``most`` bytes that hold the letters, in order, one a line."""
    most = min(most, _MOST_BYTES)
    lines: list[bytes] = []
    size = 0
    for letter in letters:
        for line in letter.to_lines(most):
            if lines and size + len(line) > most:
                yield b"\n".join(lines)
                lines, size = [], 0
            lines.append(line)
            size += len(line) + 1
    if lines:
        yield b"\n".join(lines)
