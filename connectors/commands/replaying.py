"""The loop of ``ldp-stream replay``: read rows, make and fold their reports, save, until the end or a stop.

State and position change together, after each batch: a checkpoint never holds one without the other.
"""

from __future__ import annotations

from collections import Counter

from ...campaign import Campaign
from ...errors import InvalidInput, LdpStreamError
from ...server.aggregator import Aggregator
from ..base import Batch, Row
from ..outputs import RejectsFile
from .console import note, say_rejected
from .devices import SimulatedDevices
from .progress import ReportProgress
from .raw_rows import FileChain
from .saving import Saver
from .stopping import Stopped, StopSignals

__all__ = ["Replay", "need_one_partition"]


def need_one_partition(campaign: Campaign) -> None:
    """Refuse a campaign of several partitions, each of which has a server of its own."""
    if campaign.partitions != 1:
        raise InvalidInput(f"campaign.partitions = {campaign.partitions}: must be 1 for a run in one process")


class Replay:
    """One run over raw rows.

    Parameters
    ----------
    campaign
        The campaign, of one partition.
    source
        The rows.
    saver
        The checkpoint; if it holds something, the run goes on from there.
    seed
        Of the devices, or None.
    rejects
        Where rows that cannot be used are kept, or None.

    Attributes
    ----------
    server
        The state.
    exit_code
        0, or 130 or 143 after a signal.
    """

    def __init__(
        self,
        campaign: Campaign,
        source: FileChain[Row],
        saver: Saver,
        seed: int | None,
        rejects: RejectsFile | None,
    ) -> None:
        need_one_partition(campaign)
        self.server = Aggregator(campaign)
        self.exit_code = 0
        self._source = source
        self._saver = saver
        self._rejects = rejects
        self._devices = SimulatedDevices(campaign, seed)
        self._rejected: Counter[str] = Counter()
        self._unseen = set(campaign.features)
        self._summary = ""
        if saver.found is not None:
            self.server = saver.found.server
            if saver.found.position:
                source.resume(saver.found.position)
        self._before = self.server.n_reports
        self._position = source.position

    def go(self, size: int, limit: int | None) -> LdpStreamError | None:
        """Read to the end, the limit, a signal or a fault of the input, and save.

        Parameters
        ----------
        size
            Rows read at once.
        limit
            Reports at which to stop, or None.

        Returns
        -------
        LdpStreamError or None
            The fault that ended the run: what came before it is learnt and saved.
        """
        problem: LdpStreamError | None = None
        with StopSignals() as stop, ReportProgress("replaying") as progress:
            try:
                while stop.number is None and (batch := self._read(stop, size, limit)) is not None:
                    self._take(batch)
                    progress.advance(len(batch.items), batch.progress)
            except LdpStreamError as error:
                problem = error
            self._save()
        self.exit_code = stop.exit_code
        self._summary = progress.summary()
        return problem

    def _read(self, stop: StopSignals, size: int, limit: int | None) -> Batch[Row] | None:
        if limit is not None:
            size = min(size, limit - self.server.n_reports)
        if size <= 0:
            return None
        try:
            with stop.interruptible():
                return next(self._source.batches(size), None)
        except Stopped:
            return None

    def _take(self, batch: Batch[Row]) -> None:
        self._devices.fold(self.server, batch.items)
        self._position = batch.position
        self._rejected.update(reject.reason for reject in batch.rejected)
        self._unseen = {name for name in self._unseen if all(name not in x for x, _ in batch.items)}
        if self._rejects is not None:
            self._rejects.write(batch.rejected)
        if self._saver.due:
            self._save()

    def _save(self) -> None:
        if self._rejects is not None:
            self._rejects.flush()
        self._saver.save(self.server, self._position)

    def say_what_happened(self) -> None:
        """Print speed, rejects and what looks wrong, on standard error."""
        note(self._summary + (f", after {self._before:,} of the checkpoint" if self._before else ""))
        say_rejected(self._rejected, "row")
        if self._unseen and self.server.n_reports > self._before:
            names = ", ".join(map(repr, sorted(self._unseen)))
            note(f"no row has a value of {names}: every device took the public centre")
        if self.exit_code:
            how = (
                "goes on from the checkpoint"
                if self._saver.keeps
                else "starts anew: there is no --checkpoint"
            )
            note(f"stopped by a signal; the same command {how}")
