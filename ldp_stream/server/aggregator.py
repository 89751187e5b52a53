"""The server of a campaign: folds reports into state, answers with parameters, estimates and snapshots.

The state is a deterministic fold of the accepted reports: single events, batches of any size, and a replay of
the log give the same state bit for bit. The aggregator does no I/O, trusts no report (each is checked against
the campaign before anything changes) and does not look at tokens: counting each user once is the task of what
feeds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .._validate import integer_in
from ..campaign import Campaign
from ..campaign_parts import HiGrad
from ..channels.base import CategoryPayload, VectorPayload
from ..errors import CampaignMismatch, InvalidInput, InvalidReport, InvalidSnapshot, OverlappingState
from ..inference.averages import Average
from ..plan import BLOCK
from ..report_batch import ReportBatch
from ..reports import CategoryReport, Parameters, Report, VectorReport
from .averages import average_of
from .decoding import Decodes
from .estimate import Estimate
from .estimates import Estimates
from .level_chains import LevelChains
from .level_decoding import LevelDecoder
from .partition import Partition
from .snapshot import pack, unpack

__all__ = ["Aggregator"]

_PIECE = 4 * BLOCK  # reports decoded at once: their gradients stay in the processor's cache
_MOST_PIECES = 16
_ONE_BY_ONE = 16  # reports up to here are folded faster without arrays


class Aggregator:
    """Private quantile regression from a stream of reports.

    Parameters
    ----------
    campaign
        The public contract.
    partition
        The partition of the report stream that this aggregator serves, below ``campaign.partitions``.

    Raises
    ------
    InvalidInput
        If the partition does not exist.

    Examples
    --------
    >>> from ldp_stream.client.reporter import Reporter
    >>> campaign = Campaign.model_validate({
    ...     "kind": "quantile", "name": "trips", "tau": 0.5, "epsilon": 2.0,
    ...     "target": {"lower": 0, "upper": 60}, "features": {"miles": {"lower": 0, "upper": 30}},
    ... })
    >>> server, devices = Aggregator(campaign), Reporter.simulated(campaign, seed=7)
    >>> for i in range(1500):
    ...     x, y = {"miles": i % 30}, 5 + 2 * (i % 30)
    ...     server.ingest(devices.report(x, y, parameters=server.parameters()))
    >>> server.n_reports, server.estimate(level=0.9)["miles"].bounded
    (1500, True)
    >>> Aggregator.restore(campaign, server.snapshot()).snapshot() == server.snapshot()
    True
    """

    def __init__(self, campaign: Campaign, *, partition: int = 0) -> None:
        self.campaign = campaign
        self._digest = campaign.digest_prefix
        self._mechanisms: list[Decodes] = [level.mechanism for level in campaign.levels]
        self._leaves = campaign.tree.leaves
        self._n_chains = campaign.chains
        self._partition = Partition(campaign, integer_in(0, campaign.partitions - 1, partition=partition))
        self._waiting: list[Report] = []  # checked, not folded yet
        self._others: dict[int, Partition] = {}

    @property
    def partition(self) -> int:
        """The partition that this aggregator serves."""
        return self._partition.number

    @property
    def n_reports(self) -> int:
        """Reports folded so far, over all partitions that it holds."""
        return self._partition.n + len(self._waiting) + sum(part.n for part in self._others.values())

    # ------------------------------------------------------------------ folding reports

    def ingest(self, report: Report) -> None:
        """Fold one report.

        It is checked at once and folded with its neighbours when there are enough of them, or before anything
        is asked.

        Raises
        ------
        InvalidReport
            If the report is not of this campaign, or its chain, block, category or width does not exist;
            nothing changes.
        """
        if not isinstance(report, CategoryReport | VectorReport):
            raise InvalidReport(f"report: is of type {type(report).__name__}, must be a report")
        if not self._admits(report):
            raise InvalidReport(f"report: {self._refusal(report)}")
        self._waiting.append(report)
        if len(self._waiting) >= BLOCK:
            self._settle()

    def _admits(self, report: Report) -> bool:
        return (
            report.digest == self._digest and report.chain < self._n_chains and self._decoder.admits(report)
        )

    def _refusal(self, report: Report) -> str:
        """Return why a report is not admitted."""
        if report.digest != self._digest:
            return f"digest = {report.digest!r}: must be {self._digest!r}"
        if report.chain >= self._n_chains:
            return f"chain = {report.chain}: must be below {self._n_chains}"
        return self._decoder.refusal(report)

    def _settle(self) -> None:
        """Fold the reports that wait."""
        rows, self._waiting = self._waiting, []
        if len(rows) <= _ONE_BY_ONE:
            for report in rows:
                mechanism = self._mechanisms[report.chain // self._leaves]
                self._partition.append(report.chain, *mechanism.decode(report.payload))
        else:
            chain = np.array([report.chain for report in rows], np.uint16)
            self._partition.extend(chain, self._decoder.decode_reports(rows))

    @property
    def _own(self) -> Partition:
        """The partition that this aggregator serves, with every report folded."""
        if self._waiting:
            self._settle()
        return self._partition

    def fold(self, payload: CategoryPayload | VectorPayload, chain: int = 0) -> None:
        """Fold a payload that the campaign's channel made at a chain's coefficients; nothing is checked."""
        self._own.append(chain, *self._mechanisms[chain // self._leaves].decode(payload))

    def ingest_many(self, reports: ReportBatch | Iterable[Report]) -> None:
        """Fold many reports in order: all of them, or none if one is refused.

        Parameters
        ----------
        reports
            Columns (fast), or any iterable of reports, which is read to its end before anything is folded.

        Raises
        ------
        InvalidReport
            As in :meth:`ingest`; the message names the place of the first bad report.
        """
        if not isinstance(reports, ReportBatch):
            rows = list(reports)
            if not rows:
                return
            if not self._admits(rows[0]):  # else the others would be held against it
                raise InvalidReport(f"reports[0]: {self._refusal(rows[0])}")
            reports = ReportBatch.from_reports(rows)
        if reports.digest != self._digest:
            raise InvalidReport(f"reports: digest = {reports.digest!r}: must be {self._digest!r}")
        own = self._own
        own.check_chains(reports.chain)
        self._decoder.check(reports)
        size = _PIECE * min(self._n_chains, _MOST_PIECES)  # so that each chain has whole blocks of it
        for start in range(0, len(reports), size):
            piece = reports[start : start + size]
            own.extend(piece.chain, self._decoder.decode(piece))

    def outside(self, reports: ReportBatch) -> NDArray[np.bool_]:
        """Return which payloads the campaign's channel cannot have made, (n,), in columns of its kind."""
        return self._decoder.outside(reports)

    @cached_property
    def _decoder(self) -> LevelDecoder:
        return LevelDecoder(self.campaign)

    def merge(self, other: Aggregator) -> None:
        """Take over the partitions of another aggregator; both must hold disjoint sets of reports.

        Raises
        ------
        CampaignMismatch
            If the other one is of another campaign.
        OverlappingState
            If both hold reports of the same partition; nothing changes.
        """
        if other.campaign.digest != self.campaign.digest:
            raise CampaignMismatch(
                f"merge: digest = {other.campaign.digest!r}: must be {self.campaign.digest!r}"
            )
        held = {part.number for part in self._partitions()}
        both = sorted(part.number for part in other._partitions() if part.number in held)
        if both:
            raise OverlappingState(f"merge: both hold reports of the partitions {both}: must be disjoint")
        for part in other._partitions():
            copy = self._own if part.number == self._own.number else Partition(self.campaign, part.number)
            copy.restore(*part.state())
            if copy is not self._own:
                self._others[part.number] = copy

    def split(self) -> list[Aggregator]:
        """Return one aggregator for each partition that this one holds, by number: what was merged, apart."""
        found: list[Aggregator] = []
        for part in sorted([self._own, *self._others.values()], key=lambda part: part.number):
            alone = Aggregator(self.campaign, partition=part.number)
            alone._partition.restore(*part.state())
            found.append(alone)
        return found

    def _partitions(self) -> list[Partition]:
        """Return the partitions that hold reports, by number."""
        parts = [self._own, *self._others.values()]
        return sorted((part for part in parts if part.n), key=lambda part: part.number)

    # ------------------------------------------------------------------ answers

    @property
    def round(self) -> int:
        """The number of the round of this aggregator's partition."""
        return self._own.round

    def parameters(self) -> Parameters:
        """Return the coefficients at which devices of this aggregator's partition make their reports now."""
        return self._own.parameters()

    def beta(self, chain: int = 0) -> tuple[float, ...]:
        """Return the coefficients of one chain of :meth:`parameters`, p floats, working scale."""
        return self._own.beta(chain)

    def fitted(self, x: Mapping[str, object], tau: float | None = None) -> float:
        """Return the fitted tau-quantile at x, in the user's units; those of several levels never cross."""
        scale, place = self.campaign.scale, self._place(tau)
        row = scale.row(x)
        found = [scale.fitted(row, self._mean(at).tolist()) for at in range(len(self.campaign.levels))]
        return sorted(found)[place]

    def _mean(self, place: int) -> NDArray[np.float64]:
        chains = self._own.levels[place].chains
        alone = len(chains) == 1 and not self._others
        return chains[0].mean() if alone else self._average(place).mean

    def estimate(self, level: float = 0.95, tau: float | None = None) -> Estimate:
        """Return the coefficients with confidence intervals of the given level, in the user's units.

        Parameters
        ----------
        level
            Coverage of the intervals.
        tau
            Which of the campaign's quantile levels; needed if it has several.

        Raises
        ------
        InvalidInput
            If the level is outside (0, 1), or tau is not one of the campaign's.
        """
        place = self._place(tau)
        parts = [part.levels[place] for part in self._partitions()]
        n = sum(chain.n for part in parts for chain in part.chains.values())
        at = self.campaign.levels[place]
        return Estimate(self.campaign, n, self._average(place), level, at, self._complete(parts))

    def _complete(self, parts: Sequence[LevelChains]) -> bool | None:
        """Return whether every leaf has the reports it was planned for; None without a plan."""
        if not isinstance(self.campaign.inference, HiGrad):
            return None
        planned = self.campaign.inference.planned(self.campaign.trees)[-1]
        leaves = [chain for part in parts for chain in part.leaves()]
        whole = len(leaves) == self.campaign.partitions * self.campaign.tree.leaves
        return whole and all(chain.n >= planned for chain in leaves)

    def estimates(self, level: float = 0.95) -> Estimates:
        """Return the estimate of each of the campaign's quantile levels.

        Raises
        ------
        InvalidInput
            If the level is outside (0, 1).
        """
        return Estimates([self.estimate(level, at.tau) for at in self.campaign.levels])

    def _place(self, tau: float | None) -> int:
        """Return the number of a quantile level."""
        taus = [level.tau for level in self.campaign.levels]
        if tau is None and len(taus) == 1:
            return 0
        if tau not in taus:
            raise InvalidInput(f"tau = {tau!r}: must be one of {taus}")
        return taus.index(tau)

    def _average(self, place: int) -> Average:
        return average_of(self.campaign, place, [part.levels[place] for part in self._partitions()])

    # ------------------------------------------------------------------ state

    def snapshot(self) -> bytes:
        """Return the whole state as bytes, from which :meth:`restore` goes on bit for bit."""
        facts: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[np.float64]] = {}
        for part in [self._own, *sorted(self._others.values(), key=lambda part: part.number)]:
            part_facts, part_arrays = part.state()
            facts.append({"partition": part.number, **part_facts})
            arrays |= {f"{part.number}.{name}": array for name, array in part_arrays.items()}
        return pack({"digest": self.campaign.digest, "partitions": facts}, arrays)

    @classmethod
    def restore(cls, campaign: Campaign, data: bytes) -> Self:
        """Return the aggregator whose :meth:`snapshot` the bytes are.

        Raises
        ------
        InvalidSnapshot
            If the bytes are not a sound snapshot of this package's format.
        CampaignMismatch
            If it is of another campaign.
        """
        facts, arrays = unpack(data)
        if facts.get("digest") != campaign.digest:
            raise CampaignMismatch(f"snapshot: digest = {facts.get('digest')!r}: must be {campaign.digest!r}")
        try:
            numbers = [part["partition"] for part in facts["partitions"]]
            aggregator = cls(campaign, partition=numbers[0])
            aggregator._others = {number: Partition(campaign, number) for number in numbers[1:]}
            for part in facts["partitions"]:
                number = part["partition"]
                prefix = f"{number}."
                own = {
                    name.removeprefix(prefix): array
                    for name, array in arrays.items()
                    if name.startswith(prefix)
                }
                (aggregator._others.get(number) or aggregator._own).restore(part, own)
        except (LookupError, TypeError, AttributeError, OverflowError, ValueError) as error:
            raise InvalidSnapshot(f"snapshot: does not hold this campaign's state: {error}") from None
        return aggregator
