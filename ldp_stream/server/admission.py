"""Which messages of a partition's log count: the rule, and the fold of those that do.

A message counts if it is a report of the campaign whose payload the channel can make, whose token belongs to
this partition and to its chain and was not counted before, and whose round is neither from the future nor
more than ``rounds.max_staleness`` rounds old when its turn comes. All of this is a function of the log and
its offsets alone, so that a replay admits the same messages and gives the same state bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..campaign import Campaign
from ..channels.kinds import FiniteChannel
from ..message_columns import decode_messages
from ..report_batch import ReportBatch
from .aggregator import Aggregator

__all__ = ["Admission", "Counted", "Reason", "Refusal", "route_many"]

_PIECE = 4096  # messages that are looked at together
_HALF = np.uint64(32)


class Reason(StrEnum):
    """Why a message does not count."""

    NOT_A_REPORT = "not a report"
    OTHER_CAMPAIGN = "of another campaign"
    PAYLOAD = "outside the channel's alphabet"
    UNKNOWN_CHAIN = "unknown chain"
    OTHER_PARTITION = "token of another partition"
    OTHER_CHAIN = "token of another chain"
    TOO_OLD = "round too old"
    FROM_THE_FUTURE = "round from the future"
    COUNTED_BEFORE = "token counted before"


class Refusal(NamedTuple):
    """A message that does not count: its place among the messages, the reason, and what exactly was met."""

    place: int
    reason: Reason
    detail: str


class Counted(Protocol):
    """The tokens that counted, within a horizon of offsets."""

    @property
    def horizon(self) -> int:
        """Offsets back to which every token is remembered."""

    def seen(
        self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Return which tokens (n, 16) were counted within the horizon of their offsets (n,)."""

    def add(self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]) -> None:
        """Count tokens."""


class Admission:
    """The fold of one partition's log.

    Parameters
    ----------
    server
        The partition's state; of one partition alone.
    counted
        The record of counted tokens.
    """

    def __init__(self, server: Aggregator, counted: Counted) -> None:
        self.server = server
        self._campaign = campaign = server.campaign
        self._counted = counted
        self._width = None if isinstance(campaign.levels[0].mechanism, FiniteChannel) else campaign.p
        self._staleness = campaign.rounds.max_staleness
        self._schedule = campaign.round_schedule

    def fold(self, offsets: Sequence[int], messages: Sequence[bytes]) -> list[Refusal]:
        """Fold the messages that count, in order, and return the others.

        Parameters
        ----------
        offsets
            The messages' offsets in the partition's log, increasing.
        messages
            The messages, whatever their bytes.
        """
        if isinstance(offsets, range):
            places = np.arange(offsets.start, offsets.stop, offsets.step)
        else:
            places = np.array(offsets, np.int64)
        refused: list[Refusal] = []
        first = 0
        while first < len(messages):
            reach = int(np.searchsorted(places, places[first] + self._counted.horizon, side="right"))
            stop = min(first + _PIECE, reach)
            refused += self._fold_piece(first, places[first:stop], messages[first:stop])
            first = stop
        return refused

    def _fold_piece(self, first: int, offsets: NDArray[np.int64], messages: Sequence[bytes]) -> list[Refusal]:
        """Fold messages no farther apart than the horizon; ``first`` is the first one's place."""
        parsed = decode_messages(messages, self._campaign.digest_prefix, self._width)
        foreign, broken = Reason.OTHER_CAMPAIGN, Reason.NOT_A_REPORT
        refused = [
            Refusal(first + place, foreign if is_foreign else broken, detail)
            for place, is_foreign, detail in parsed.faults
        ]
        if parsed.batch is not None:
            at_fault = len(refused)
            batch, places = self._well_formed(parsed.batch, first + parsed.places, refused)
            if len(batch):
                self._fold_new(batch, places, offsets[places - first], refused)
            if at_fault < len(refused):
                refused.sort(key=_place)
        return refused

    def _well_formed(
        self, batch: ReportBatch, places: NDArray[np.int64], refused: list[Refusal]
    ) -> tuple[ReportBatch, NDArray[np.int64]]:
        """Return what the campaign's channel and routing can have made; each check adds what it refuses."""
        campaign, own = self._campaign, self.server.partition
        partition, chain = route_many(campaign, batch.token)
        checks = (
            (Reason.UNKNOWN_CHAIN, batch.chain >= campaign.chains),
            (Reason.PAYLOAD, self.server.outside(batch)),
            (Reason.OTHER_PARTITION, partition != own),
            (Reason.OTHER_CHAIN, chain != batch.chain),
        )
        good = ~np.logical_or.reduce([wrong for _, wrong in checks])
        if good.all():
            return batch, places
        for at in np.flatnonzero(~good).tolist():
            reason = next(reason for reason, wrong in checks if wrong[at])
            detail = {
                Reason.PAYLOAD: "payload: the campaign's channel cannot make it",
                Reason.UNKNOWN_CHAIN: f"chain = {batch.chain[at]}: must be below {campaign.chains}",
                Reason.OTHER_PARTITION: f"partition = {own}: the token belongs to {partition[at]}",
                Reason.OTHER_CHAIN: f"chain = {batch.chain[at]}: the token belongs to {chain[at]}",
            }[reason]
            refused.append(Refusal(int(places[at]), reason, detail))
        return batch[good], places[good]

    def _fold_new(
        self,
        batch: ReportBatch,
        places: NDArray[np.int64],
        offsets: NDArray[np.int64],
        refused: list[Refusal],
    ) -> None:
        """Fold what is timely and new."""
        number = self.server.partition
        seen = self._counted.seen(number, offsets, batch.token)
        if seen.any() or _may_repeat(batch.token) or not self._all_timely(batch.round):
            taken = self._choose(batch, seen, places, refused)
            batch, offsets = batch[taken], offsets[taken]
        if len(batch):
            self.server.ingest_many(batch)
            self._counted.add(number, offsets, batch.token)

    def _all_timely(self, rounds: NDArray[np.uint32]) -> bool:
        """Say whether every round is in time, if every report is taken."""
        numbers, counts, left = [], [], len(rounds)
        for number, count in self._rounds():
            numbers.append(number)
            counts.append(min(count, left))
            left -= count
            if left <= 0:
                break
        now = np.repeat(numbers, counts)
        return bool(((rounds <= now) & (rounds >= now - self._staleness)).all())

    def _rounds(self) -> Iterator[tuple[int, int]]:
        """Yield the rounds from the one in force on, and for how many more reports each is."""
        state = self.server.parameters()
        number, start, n = state.round, state.n, self.server.n_reports
        while True:
            stop = start + self._schedule.length(start)
            yield number, stop - n
            number, start, n = number + 1, stop, stop

    def _choose(
        self,
        batch: ReportBatch,
        seen: NDArray[np.bool_],
        places: NDArray[np.int64],
        refused: list[Refusal],
    ) -> list[int]:
        """Return the indices of the reports that count, one by one; add the others to ``refused``."""
        tokens, width = batch.token.tobytes(), batch.token.shape[1]
        taken: list[int] = []
        new: set[bytes] = set()
        coming = self._rounds()
        now, left = next(coming)
        columns = zip(places.tolist(), batch.round.tolist(), seen.tolist(), strict=True)
        for at, (place, given, before) in enumerate(columns):
            token = tokens[at * width : (at + 1) * width]
            if before or token in new:
                reason, detail = Reason.COUNTED_BEFORE, f"token = {token.hex()}: counts once"
            elif given > now:
                reason, detail = Reason.FROM_THE_FUTURE, f"round = {given}: round {now} is in force"
            elif given < now - self._staleness:
                oldest = now - self._staleness
                reason, detail = Reason.TOO_OLD, f"round = {given}: must be at least {oldest}"
            else:
                new.add(token)
                taken.append(at)
                left -= 1
                if not left:
                    now, left = next(coming)
                continue
            refused.append(Refusal(place, reason, detail))
        return taken


_place = itemgetter(0)


def _may_repeat(tokens: NDArray[np.uint8]) -> bool:
    """Say whether two tokens may be equal: never False if they are."""
    heads = np.sort(np.ascontiguousarray(tokens[:, :8]).view(np.uint64)[:, 0])
    return bool((heads[1:] == heads[:-1]).any())


def route_many(
    campaign: Campaign, tokens: NDArray[np.uint8]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return each token's partition and chain: :meth:`~ldp_stream.campaign.Campaign.route` of (n, 16) bytes.

    Examples
    --------
    >>> campaign = Campaign.model_validate({
    ...     "kind": "quantile", "name": "trips", "tau": 0.5, "epsilon": 2.0, "partitions": 7,
    ...     "target": {"lower": 0, "upper": 60}, "features": {"miles": {"lower": 0, "upper": 30}},
    ... })
    >>> token = bytes(range(100, 116))
    >>> partition, chain = route_many(campaign, np.frombuffer(token, np.uint8).reshape(1, 16))
    >>> (int(partition[0]), int(chain[0])) == campaign.route(int.from_bytes(token))
    True
    """
    if campaign.partitions * campaign.chains == 1:
        return np.zeros(len(tokens), np.uint64), np.zeros(len(tokens), np.uint64)
    places = np.uint64(campaign.partitions * campaign.chains)  # at most 2^32
    words = np.ascontiguousarray(tokens).view(">u4").astype(np.uint64)
    rest = words[:, 0] % places
    for column in range(1, words.shape[1]):
        rest = ((rest << _HALF) + words[:, column]) % places
    partitions = np.uint64(campaign.partitions)
    return rest % partitions, rest // partitions
