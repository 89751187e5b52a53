"""Random streams of tokens, and the record of counted tokens in its plainest form."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ldp_stream.connectors.service.tokens import CountedTokens

Batch = tuple[int, NDArray[np.int64], NDArray[np.uint8]]


class NaiveTokens:
    """A dict from partition and token to the epoch in which it counted."""

    def __init__(self, horizon: int) -> None:
        self.length = -(-horizon // 15)
        self.counted: dict[tuple[int, bytes], int] = {}

    def copy(self) -> NaiveTokens:
        """Return a record that goes its own way."""
        other = NaiveTokens(15 * self.length)
        other.counted = dict(self.counted)
        return other

    def seen(self, partition: int, offset: int, token: bytes) -> bool:
        """Look one token up."""
        epoch = self.counted.get((partition, token))
        return epoch is not None and offset // self.length - epoch <= 15

    def add(self, partition: int, offset: int, token: bytes) -> None:
        """Count one token."""
        self.counted[partition, token] = offset // self.length


def token_array(*tokens: bytes) -> NDArray[np.uint8]:
    """Return tokens as an array (n, 16)."""
    return np.frombuffer(b"".join(tokens), np.uint8).reshape(len(tokens), 16)


class Stream:
    """Batches of one log for each partition: gaps in the offsets, half of the tokens met before.

    Parameters
    ----------
    seed
        Seed of everything.
    horizon
        Tokens met before are up to twice as far back.
    partitions
        How many logs.
    shape
        "random" tokens, or "alike": equal in the first or last bytes, many zeros.
    """

    def __init__(self, seed: int, horizon: int, partitions: int = 1, shape: str = "random") -> None:
        self._rng = np.random.default_rng(seed)
        self._horizon = horizon
        self._shape = shape
        self.logs: list[list[tuple[int, bytes]]] = [[] for _ in range(partitions)]

    def _new(self) -> bytes:
        raw = self._rng.bytes(16)
        if self._shape == "random":
            return raw
        number = int(self._rng.integers(5))
        return (bytes(14) + raw[:2], raw[:2] + bytes(14), b"8 bytes." + raw[8:], bytes(16), raw[:1] * 16)[
            number
        ]

    def extend(self, partition: int, count: int) -> None:
        """Make a log longer."""
        log = self.logs[partition]
        for _ in range(count):
            step = 1 if self._rng.random() < 0.9 else int(self._rng.integers(1, 2 + self._horizon // 4))
            if self._rng.random() < 0.002:
                step += int(self._rng.integers(self._horizon, 3 * self._horizon))
            offset = log[-1][0] + step if log else int(self._rng.integers(self._horizon))
            token = self._new()
            if log and self._rng.random() < 0.5:
                back = int(self._rng.integers(1, 2 * self._horizon + 2))
                token = log[max(len(log) - back, 0)][1]
            log.append((offset, token))

    def batch(self, partition: int, start: int) -> Batch:
        """Return a random number of messages of a log from a place on, which it is made to have."""
        log = self.logs[partition]
        stop = start + int(self._rng.integers(1, max(4, min(self._horizon, 700))))
        if stop > len(log):
            self.extend(partition, stop - len(log))
        offsets = np.array([offset for offset, _ in log[start:stop]], np.int64)
        # a caller looks up messages no farther apart than the horizon
        offsets = offsets[offsets <= offsets[0] + self._horizon]
        return partition, offsets, token_array(*(token for _, token in log[start : start + len(offsets)]))


def fold(counted: CountedTokens, naive: NaiveTokens, batch: Batch) -> tuple[int, int]:
    """Look up and count a batch in both, which must agree; return how many were new and how many not.

    As the service does it: all are looked up, then what is new is counted, each token once.
    """
    partition, offsets, tokens = batch
    raw = [token.tobytes() for token in tokens]
    places = offsets.tolist()
    seen = counted.seen(partition, offsets, tokens)
    expected = [naive.seen(partition, offset, token) for offset, token in zip(places, raw, strict=True)]
    assert seen.tolist() == expected
    first = {token: at for at, token in reversed(list(enumerate(raw)))}
    new = [at for at, token in enumerate(raw) if not expected[at] and first[token] == at]
    counted.add(partition, offsets[new], tokens[new])
    for at in new:
        naive.add(partition, places[at], raw[at])
    return len(new), len(raw) - len(new)
