"""What the service knows: for each partition its fold, and how many messages did not count, by reason.

A checkpoint holds all of it. Its position has the source's own numbers, and for each partition and reason
``"<partition> <reason>"`` the number of messages refused so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...campaign import Campaign
from ...errors import InvalidInput, InvalidSnapshot
from ...server.admission import Admission, Counted, Reason
from ...server.aggregator import Aggregator
from ..base import Checkpoint, MessageBatch, Position
from .letters import Letter

__all__ = ["ServiceState", "source_position"]


class ServiceState:
    """The folds of all partitions of one campaign.

    Parameters
    ----------
    campaign
        The campaign.
    counted
        The record of counted tokens, of all partitions.
    servers
        States to go on from, each of one partition; the other partitions start empty.
    refused
        Messages refused so far, by (partition, reason).
    """

    def __init__(
        self,
        campaign: Campaign,
        counted: Counted,
        servers: Iterable[Aggregator] = (),
        refused: Counter[tuple[int, Reason]] | None = None,
    ) -> None:
        self.campaign = campaign
        self.refused: Counter[tuple[int, Reason]] = Counter() if refused is None else refused
        own = {server.partition: server for server in servers}
        self._folds = {
            number: Admission(own.get(number) or Aggregator(campaign, partition=number), counted)
            for number in range(campaign.partitions)
        }

    @classmethod
    def of(cls, checkpoint: Checkpoint, campaign: Campaign, counted: Counted) -> ServiceState:
        """Return the state that a checkpoint of this campaign holds.

        Raises
        ------
        InvalidSnapshot
            If the state is not this release's.
        """
        refused: Counter[tuple[int, Reason]] = Counter()
        for name, count in checkpoint.position.items():
            number, _, reason = name.partition(" ")
            if reason:
                try:
                    refused[int(number), Reason(reason)] = count
                except ValueError:
                    raise InvalidSnapshot(f"position: {name!r} is no count of this release") from None
        servers = Aggregator.restore(campaign, checkpoint.state).split()
        return cls(campaign, counted, servers, refused)

    @property
    def servers(self) -> list[Aggregator]:
        """The states, by partition."""
        return [fold.server for fold in self._folds.values()]

    @property
    def n_reports(self) -> int:
        """Reports that count, over all partitions."""
        return sum(server.n_reports for server in self.servers)

    def by_reason(self) -> Counter[Reason]:
        """Return how many messages were refused, by reason."""
        found: Counter[Reason] = Counter()
        for (_, reason), count in self.refused.items():
            found[reason] += count
        return found

    def fold(self, batch: MessageBatch[bytes]) -> list[Letter]:
        """Fold what counts of one partition's messages, in order; return the others as dead letters."""
        number = batch.partition
        if number not in self._folds:
            raise InvalidInput(
                f"partition = {number}: the campaign has {len(self._folds)}: its topic must have as many"
            )
        refusals = self._folds[number].fold(batch.offsets, batch.items)
        for reason, count in Counter(reason for _, reason, _ in refusals).items():
            self.refused[number, reason] += count
        offsets, items = batch.offsets, batch.items
        return [
            Letter(reason, detail, number, offsets[place], items[place]) for place, reason, detail in refusals
        ]

    def pooled(self) -> Aggregator:
        """Return one aggregator of all partitions, for an estimate or a snapshot; not to fold into."""
        servers = self.servers
        if len(servers) == 1:
            return servers[0]
        whole = Aggregator(self.campaign, partition=servers[0].partition)
        for server in servers:
            whole.merge(server)
        return whole

    def checkpoint(self, position: Position) -> Checkpoint:
        """Return the checkpoint of this state and the source's position."""
        tallies = {f"{number} {reason}": count for (number, reason), count in self.refused.items()}
        return Checkpoint(self.campaign.canonical, self.pooled().snapshot(), {**position, **tallies})


def source_position(checkpoint: Checkpoint) -> Position:
    """Return the source's own part of a checkpoint's position."""
    return {name: number for name, number in checkpoint.position.items() if " " not in name}
