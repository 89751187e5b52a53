"""Simulated devices: raw rows of one file become the reports that so many users' devices would have made.

The randomness of report i is a function of (key, i) alone: its bits are the words

    16 (i mod 256), .., 16 (i mod 256) + 15    of    SHAKE-256(key, i div 256),

and, where these do not do, SHAKE-256(key, i, 1), SHAKE-256(key, i, 2), .. The key is BLAKE2b_digest(seed),
with the campaign's digest, so that campaigns with one seed draw independently; without a seed it comes from
the operating system. Hence, with a seed, a run that was interrupted and resumed gives the state of one that
was not, bit for bit, however its rows were cut into batches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import blake2b, shake_256
from struct import unpack

import numpy as np

from ..._validate import integer_in
from ...campaign import Campaign
from ...channels.base import Payload, VectorPayload
from ...client.entropy import uniform_below
from ...client.reporter import contribution
from ...report_batch import ReportBatch
from ...server.aggregator import Aggregator
from ..base import Row

__all__ = ["CountedEntropy", "SimulatedDevices"]

_WORD_BITS = 64
_WORDS = 16  # of a report; a block of s = 13 coordinates needs as many
_NUMBERS = 256  # reports whose words are drawn together
_Made = tuple[int, Payload]  # chain, payload
_FEW = 32  # reports below which columns are not worth their making


class CountedEntropy:
    """Fair bits that depend on a key and a count, and on nothing drawn before.

    Parameters
    ----------
    key
        32 bytes. Unknown and uniform, they make the bits cryptographic ones; known, they protect nobody.

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

    __slots__ = ("_block", "_count", "_key", "_more", "_table", "_words")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._block = -1
        self._table: tuple[int, ...] = ()
        self.start(0)

    def start(self, count: int) -> None:
        """Go to the bits of number ``count``, from 0 to 2^64 - 1."""
        block, place = divmod(count, _NUMBERS)
        if block != self._block:
            self._table = self._draw(_NUMBERS * _WORDS, block)
            self._block = block
        self._words = list(self._table[place * _WORDS : (place + 1) * _WORDS])
        self._count = count
        self._more = 0

    def _draw(self, words: int, *name: int) -> tuple[int, ...]:
        """Return so many words of 64 bits; names of different lengths or numbers give independent ones."""
        text = self._key + b"".join(number.to_bytes(8, "little") for number in name)
        return unpack(f"<{words}Q", shake_256(text).digest(8 * words))

    def bits(self, k: int, /) -> int:
        """Return a whole number uniform in [0, 2^k); each draw starts at a new word of 64 bits."""
        if k > _WORD_BITS:
            return self.bits(k - _WORD_BITS) << _WORD_BITS | self.bits(_WORD_BITS)
        words = self._words
        if not words:
            self._more += 1
            words += self._draw(_WORDS, self._count, self._more)
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
        self._levels = campaign.levels
        self._leaves = campaign.tree.leaves
        self._chains = campaign.chains
        self._schedule = campaign.round_schedule

    def fold(self, server: Aggregator, rows: Sequence[Row]) -> None:
        """Make each row's report at the parameters of its moment and fold it.

        Row k of this call is report number ``server.n_reports + k`` of the campaign.
        """
        first = server.n_reports
        at = 0
        while at < len(rows):
            stop = at + 1
            if self._schedule.stability > 0:
                start = server.parameters().n
                stop = start + self._schedule.length(start) - first
            made = self._privatize(first + at, rows[at:stop], server)
            self._fold_round(server, made)
            at += len(made)

    def _privatize(self, first: int, rows: Sequence[Row], server: Aggregator) -> list[_Made]:
        """Return the chains and payloads of reports number ``first`` on, at the coefficients of the round."""
        entropy, levels, leaves, chains = self._entropy, self._levels, self._leaves, self._chains
        to_row, to_target = self._scale.row, self._scale.target
        made: list[_Made] = []
        for number, (x, y) in enumerate(rows, first):
            entropy.start(number)
            chain = 0 if chains == 1 else entropy.below(chains)
            level = levels[chain // leaves]
            g = contribution(to_row(x), to_target(y), server.beta(chain), level.tau)
            made.append((chain, level.mechanism.privatize(g, entropy)))
        return made

    def _fold_round(self, server: Aggregator, made: Sequence[_Made]) -> None:
        n = len(made)
        if n < _FEW:
            for chain, payload in made:
                server.fold(payload, chain)
            return
        chains = np.array([chain for chain, _ in made], np.uint16)
        common = np.zeros(n, np.uint32), chains, np.zeros((n, 16), np.uint8)
        payloads = [payload for _, payload in made]
        columns = list(zip(*payloads, strict=True))
        if isinstance(payloads[0], VectorPayload):
            batch = ReportBatch(self._digest, *common, values=np.array(columns[0]))
        else:
            block, category = np.array(columns[0], np.uint32), np.array(columns[1], np.uint16)
            batch = ReportBatch(self._digest, *common, block=block, category=category)
        server.ingest_many(batch)
