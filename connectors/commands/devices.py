"""Simulated devices: raw rows of one file become the reports that so many users' devices would have made.

The randomness of report i is a function of (key, i) alone: its bits are

    BLAKE2b_key(i, 0), BLAKE2b_key(i, 1), ...,    64 bytes each,    key = BLAKE2b_digest(seed),

with the campaign's digest, so that campaigns with one seed draw independently; without a seed the key comes
from the operating system. Hence a run that was interrupted and resumed gives the state of one that was not,
bit for bit, however its rows were cut into batches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct

import numpy as np

from ..._validate import integer_in
from ...campaign import Campaign
from ...channels.base import CategoryPayload, VectorPayload
from ...client.entropy import uniform_below
from ...client.reporter import contribution
from ...report_batch import ReportBatch
from ...server.aggregator import Aggregator
from ..base import Row

__all__ = ["CountedEntropy", "SimulatedDevices"]

_WORD_BITS = 64
_WORDS = Struct("<8Q")
_COUNTS = Struct("<QQ")
_FEW = 8  # reports for which columns are not worth their making


class CountedEntropy:
    """Fair bits that depend on a key and a count, and on nothing drawn before.

    Parameters
    ----------
    key
        1 to 64 bytes. Unknown and uniform, they make the bits cryptographic ones; known, they protect nobody.

    Examples
    --------
    >>> entropy = CountedEntropy(bytes(32))
    >>> entropy.start(5)
    >>> first = [entropy.bits(62), entropy.below(10)]
    >>> entropy.start(6)
    >>> entropy.start(5)
    >>> [entropy.bits(62), entropy.below(10)] == first
    True
    """

    __slots__ = ("_blocks", "_count", "_keyed", "_words")

    def __init__(self, key: bytes) -> None:
        self._keyed = blake2b(key=key)
        self.start(0)

    def start(self, count: int) -> None:
        """Go to the bits of number ``count``, from 0 to 2^64 - 1."""
        self._count = count
        self._blocks = 0
        self._words: list[int] = []

    def bits(self, k: int, /) -> int:
        """Return a whole number uniform in [0, 2^k); each draw starts at a new word of 64 bits."""
        if k > _WORD_BITS:
            return self.bits(k - _WORD_BITS) << _WORD_BITS | self.bits(_WORD_BITS)
        words = self._words
        if not words:
            block = self._keyed.copy()
            block.update(_COUNTS.pack(self._count, self._blocks))
            words += _WORDS.unpack(block.digest())
            self._blocks += 1
        return words.pop() >> (_WORD_BITS - k)

    def below(self, n: int, /) -> int:
        """Return a whole number exactly uniform in [0, n)."""
        return 0 if n == 1 else uniform_below(self.bits, n)


class SimulatedDevices:
    """Stand-ins for the devices of many users, each with one row, at the server's parameters.

    Parameters
    ----------
    campaign
        The campaign, of one partition; the channel "none" is allowed here.
    seed
        Makes the reports repeatable and protects nobody; None draws a key from the operating system.
    """

    def __init__(self, campaign: Campaign, seed: int | None = None) -> None:
        if seed is None:
            key = os.urandom(32)
        else:
            number = integer_in(0, 2**53 - 1, seed=seed).to_bytes(8, "little")
            key = blake2b(number, key=bytes.fromhex(campaign.digest), digest_size=32).digest()
        self._digest = campaign.digest_prefix
        self._entropy = CountedEntropy(key)
        self._scale = campaign.scale
        self._tau = campaign.tau
        self._mechanism = campaign.mechanism
        self._schedule = campaign.round_schedule

    def fold(self, server: Aggregator, rows: Sequence[Row]) -> None:
        """Make each row's report at the parameters of its moment and fold it.

        Row k of this call is report number ``server.n_reports + k`` of the campaign.
        """
        first = server.n_reports
        if self._schedule.stability == 0:
            for number, row in enumerate(rows, first):
                server.fold(self._privatize(number, row, server.beta()))
            return
        at = 0
        while at < len(rows):
            parameters = server.parameters()
            stop = parameters.n + self._schedule.length(parameters.n) - first
            beta = parameters.chains[0].beta
            part = rows[at:stop]
            payloads = [self._privatize(number, row, beta) for number, row in enumerate(part, first + at)]
            self._fold_round(server, payloads)
            at += len(part)

    def _privatize(self, number: int, row: Row, beta: Sequence[float]) -> CategoryPayload | VectorPayload:
        self._entropy.start(number)
        x, y = row
        g = contribution(self._scale.row(x), self._scale.target(y), beta, self._tau)
        return self._mechanism.privatize(g, self._entropy)

    def _fold_round(self, server: Aggregator, payloads: Sequence[CategoryPayload | VectorPayload]) -> None:
        n = len(payloads)
        if n < _FEW:
            for payload in payloads:
                server.fold(payload)
            return
        nothing = np.zeros(n, np.uint32), np.zeros(n, np.uint16), np.zeros((n, 16), np.uint8)
        columns = list(zip(*payloads, strict=True))
        if isinstance(payloads[0], VectorPayload):
            batch = ReportBatch(self._digest, *nothing, values=np.array(columns[0]))
        else:
            block, category = np.array(columns[0], np.uint32), np.array(columns[1], np.uint16)
            batch = ReportBatch(self._digest, *nothing, block=block, category=category)
        server.ingest_many(batch)
