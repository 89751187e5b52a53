"""The rule of admission in its plainest form: one message after the other, a dict of tokens, no arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ldp_stream import Aggregator, Campaign
from ldp_stream.codec import decode_report
from ldp_stream.errors import InvalidReport
from ldp_stream.server.admission import Reason

EPOCHS = 15  # epochs after its own in which a token is still remembered


@dataclass
class PlainFold:
    """The fold of one partition's log, and what was refused: (offset, reason)."""

    server: Aggregator
    horizon: int
    counted: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[int, Reason]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.probe = Aggregator(self.server.campaign)  # what it accepts is well-formed

    def take(self, offset: int, message: bytes) -> None:
        """Fold one message, or note why it does not count."""
        reason = self._reason(offset, message)
        if reason is not None:
            self.refused.append((offset, reason))

    def _reason(self, offset: int, message: bytes) -> Reason | None:
        campaign = self.server.campaign
        try:
            report = decode_report(message)
        except InvalidReport:
            return Reason.NOT_A_REPORT
        if report.digest != campaign.digest_prefix:
            return Reason.OTHER_CAMPAIGN
        partition, chain = campaign.route(int.from_bytes(bytes.fromhex(report.token)))
        parameters = self.server.parameters()
        epoch = offset // -(-self.horizon // EPOCHS)
        try:
            self.probe.ingest(report)
        except InvalidReport as error:
            text = str(error)
            if "chain =" in text:
                return Reason.UNKNOWN_CHAIN
            return Reason.PAYLOAD if "category =" in text or "values =" in text else Reason.NOT_A_REPORT
        if partition != self.server.partition:
            return Reason.OTHER_PARTITION
        if chain != report.chain:
            return Reason.OTHER_CHAIN
        if report.token in self.counted and epoch - self.counted[report.token] <= EPOCHS:
            return Reason.COUNTED_BEFORE
        if report.round > parameters.round:
            return Reason.FROM_THE_FUTURE
        if report.round < parameters.round - campaign.rounds.max_staleness:
            return Reason.TOO_OLD
        self.counted[report.token] = epoch
        self.server.ingest(report)
        return None


def plain_fold(
    campaign: Campaign, messages: Iterable[tuple[int, bytes]], horizon: int, partition: int = 0
) -> PlainFold:
    """Return the fold of (offset, message) pairs."""
    fold = PlainFold(Aggregator(campaign, partition=partition), horizon)
    for offset, message in messages:
        fold.take(offset, message)
    return fold
