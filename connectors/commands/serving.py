"""The service put together: checkpoint, places, log and loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ...campaign import Campaign
from ...errors import BrokerUnavailable, CampaignMismatch
from ..base import Checkpoint
from ..checkpoints import FileCheckpoint
from ..service.feeds import Feed, ReportLinesFeed
from ..service.logs import JsonLog, Log, TextLog
from ..service.loop import Service
from ..service.outlets import FileOutlet, Outlet
from ..service.settings import ServiceSettings
from ..service.state import ServiceState, source_position
from ..service.status import StatusLine
from ..service.tokens import CountedTokens
from .console import NOT_PRIVATE, counted
from .replaying import need_one_partition
from .stopping import Stopped, StopSignals
from .stored import open_checkpoint

if TYPE_CHECKING:
    from ..kafka_options import KafkaSettings

__all__ = ["FilePlaces", "KafkaPlaces", "Places", "serve_until_stopped"]

Say = Callable[[str], None]


class Places(Protocol):
    """Where messages come from and results go."""

    def open(
        self, campaign: Campaign, say: Say, stopping: Callable[[], bool], held: ExitStack
    ) -> tuple[Feed, Outlet]:
        """Open both; what is to be closed is handed to ``held``."""

    @property
    def waits_in_the_feed(self) -> bool:
        """Whether reading blocks until something arrives, so that a signal must interrupt it."""


@dataclass(frozen=True)
class FilePlaces:
    """A file of reports, or standard input, and files for what is published."""

    reports: str
    parameters: Path | None
    estimates: Path | None
    rejects: Path | None
    waits_in_the_feed: bool = True

    def open(
        self, campaign: Campaign, say: Say, stopping: Callable[[], bool], held: ExitStack
    ) -> tuple[Feed, Outlet]:
        """Open the files."""
        del stopping
        need_one_partition(campaign)
        feed = held.enter_context(ReportLinesFeed(self.reports))
        outlet = held.enter_context(FileOutlet(self.parameters, self.estimates, self.rejects))
        say(f"reports from {'standard input' if self.reports == '-' else self.reports}")
        return feed, outlet


@dataclass(frozen=True)
class KafkaPlaces:
    """The campaign's topics."""

    settings: KafkaSettings
    group: str | None
    replication: int | None
    waits_in_the_feed: bool = False

    def open(
        self, campaign: Campaign, say: Say, stopping: Callable[[], bool], held: ExitStack
    ) -> tuple[Feed, Outlet]:
        """Wait for the broker, make the topics that are not there, and join the group."""
        from ..service.kafka_places import open_kafka

        return open_kafka(campaign, self.settings, self.group, self.replication, say, stopping, held)


def serve_until_stopped(
    campaign: Campaign,
    places: Places,
    checkpoint: Path,
    horizon: int,
    settings: ServiceSettings,
    log_json: bool,
    stop: StopSignals,
    held: ExitStack,
) -> bool:
    """Serve until the reports end or a signal arrives; say whether everything was saved."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # what matters of it is said in our own words
    line = None if log_json else StatusLine(settings.level)
    if line is not None and line.console.is_terminal:
        held.enter_context(line)
        log: Log = TextLog(line.write)
    else:
        line, log = None, JsonLog() if log_json else TextLog()

    def stopping() -> bool:
        return stop.number is not None

    tokens = CountedTokens(horizon)
    store = held.enter_context(FileCheckpoint(checkpoint, tokens))
    found = store.load()
    state, position = _start(found, campaign, tokens, checkpoint, log)
    try:
        feed, outlet = places.open(campaign, lambda text: log("info", "source", text), stopping, held)
        if position:
            feed.resume(position)
    except BrokerUnavailable as error:
        if not stopping():
            raise
        log("info", "stop", f"{error}; nothing was read", saved=True)
        return True
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    if places.waits_in_the_feed:
        waiting = stop.interruptible
    service = Service(state, feed, outlet, store, tokens, settings, log, stopping, waiting, line)
    _say_start(log, state, checkpoint, position)
    try:
        saved = service.run()
    except Stopped:  # while a file or a pipe was waited for: nothing was half done
        saved = service.finish()
    _say_end(log, service, saved, checkpoint)
    return saved


def _start(
    found: Checkpoint | None, campaign: Campaign, tokens: CountedTokens, path: Path, log: Log
) -> tuple[ServiceState, dict[str, int]]:
    """Return the state to go on from, and the source's position, empty at the first start."""
    if found is None:
        return ServiceState(campaign, tokens), {}
    stored = open_checkpoint(path, replace(found, recovered=False))
    if stored.campaign != campaign:
        raise CampaignMismatch(
            f"{path}: is a checkpoint of campaign {stored.campaign.name} ({stored.campaign.digest_prefix}), "
            f"not of {campaign.name} ({campaign.digest_prefix}); choose another --checkpoint"
        )
    if found.recovered:
        log("warning", "recovered", f"{path}: one of its two saves is damaged; going on from the sound one")
    return ServiceState.of(found, campaign, tokens), dict(source_position(found))


def _say_start(log: Log, state: ServiceState, path: Path, position: dict[str, int]) -> None:
    campaign = state.campaign
    if not campaign.private:
        log("warning", "not private", f'{NOT_PRIVATE}: the channel "none" protects nobody')
    begun = f"goes on at {_place(position)}" if position else "starts at the beginning"
    log(
        "info",
        "start",
        f"campaign {campaign.name} ({campaign.digest_prefix}): {counted(state.n_reports, 'report')} "
        f"in {path}, {begun}",
        campaign=campaign.name,
        digest=campaign.digest,
        reports=state.n_reports,
        position=position,
    )


def _place(position: dict[str, int]) -> str:
    if "line" in position:
        return f"line {position['line'] + 1:,}"
    return "offset " + ", ".join(f"{offset:,} of partition {number}" for number, offset in position.items())


def _say_end(log: Log, service: Service, saved: bool, path: Path) -> None:
    state = service.state
    refused = state.by_reason()
    listed = ", ".join(f"{count:,} {reason}" for reason, count in refused.most_common())
    log(
        "info" if saved else "error",
        "stop",
        f"stopped with {counted(state.n_reports, 'report')}"
        + (f", rejected: {listed}" if refused else "")
        + (f"; all of it is in {path}" if saved else "; the next start goes on from the last save"),
        **service.facts(),
        rejected_by_reason={str(reason): count for reason, count in refused.items()},
        saved=saved,
    )
