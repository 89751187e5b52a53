"""The long-running consumer: read, fold, publish, save, over and over, until it is asked to stop.

One thread does everything, in this order: a batch is folded as a whole, its dead letters are handed over, new
parameters are sent, and now and then everything is saved: state, position and counted tokens in one
transaction, after the dead letters before that position are safe. So at every moment the newest checkpoint is
a fold of the log up to its position, and a start from it repeats exactly what came after.

What fails for a reason outside (a full disk, a broker that is away) is said and tried again. While dead
letters or the checkpoint cannot be stored, nothing is read: memory stays bounded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from ...errors import BrokerUnavailable, InvalidInput, LdpStreamError
from ...server.admission import Reason
from ..base import CheckpointStore, MessageBatch
from .feeds import Feed
from .letters import Letter
from .logs import Log
from .outlets import Outlet
from .publishing import Publisher
from .settings import ServiceSettings
from .state import ServiceState

__all__ = ["Pending", "Service"]

_SAY_AGAIN_SECONDS = 10.0  # between two lines about one fault


class Pending(Protocol):
    """The record of counted tokens, as far as the loop looks at it."""

    @property
    def pending(self) -> int:
        """Tokens that no checkpoint holds yet."""


class Service:
    """One run of the consumer.

    Parameters
    ----------
    state
        What is known so far.
    feed
        Where messages come from, at the state's position.
    outlet
        Where results go.
    store
        Where checkpoints are kept.
    tokens
        The record of counted tokens, which the store saves.
    settings
        Sizes and times.
    log
        What happened goes there.
    stopping
        Says whether to stop; asked after every batch.
    waiting
        Context in which the feed is read; a signal may end the waiting there.
    show
        Called now and then with the run, for a status line.
    clock
        Seconds that never go back.
    """

    def __init__(
        self,
        state: ServiceState,
        feed: Feed,
        outlet: Outlet,
        store: CheckpointStore,
        tokens: Pending,
        settings: ServiceSettings,
        log: Log,
        stopping: Callable[[], bool],
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        show: Callable[[Service], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = state
        self.feed = feed
        self._outlet = outlet
        self._store = store
        self._tokens = tokens
        self._settings = settings
        self._log = log
        self._stopping = stopping
        self._waiting = waiting
        self._show = show
        self._clock = clock
        self._publisher = Publisher(state, outlet, settings, clock)
        self.started = clock()
        self.messages = 0  # of this run
        self._position = feed.position  # after what is folded; the feed may be ahead when a signal comes
        self._next_save = self.started + settings.save_seconds
        self._next_log = self.started + settings.log_seconds
        self._unsaved = True  # the first save also shows that the file can be written
        self._stuck = False  # what must be stored could not be
        self._unpublished = False
        self._failing: str | None = None
        self._say_again = self.started
        self._said = self.started, 0  # when progress was last said, and the messages of this run by then
        self._warned: set[Reason] = set()

    def run(self) -> bool:
        """Serve until the feed ends or a stop is asked for; say whether everything was saved."""
        self._publish()
        batches = self.feed.batches(self._settings.batch)
        while not self._stopping():
            if self._due() and not self._save():
                self._pause()
                continue
            try:
                with self._waiting():
                    batch = next(batches, None)
            except LdpStreamError:  # what was folded is sound
                self.finish()
                raise
            if batch is None:
                break
            self._take(batch)
        return self.finish()

    def finish(self) -> bool:
        """Publish and save what there is; say whether everything was saved."""
        self._publish(last=True)
        return self._save()

    def _take(self, batch: MessageBatch[bytes]) -> None:
        self._position = batch.position
        if batch.items:
            letters = self.state.fold(batch)
            self.messages += len(batch.items)
            self._unsaved = True
            if letters:
                self._hand_over(letters)
                self._say_refused(letters)
        self._publish()
        now = self._clock()
        if self._show is not None:
            self._show(self)
        elif now >= self._next_log:
            self._say_progress()
            self._next_log = now + self._settings.log_seconds

    def _hand_over(self, letters: list[Letter]) -> None:
        """Give dead letters to the outlet, which keeps what it cannot store now for the next settling."""
        try:
            self._outlet.letters(letters)
        except (BrokerUnavailable, OSError) as error:
            self._stuck = True
            self._say_failing(f"dead letters wait: {error}")

    def _publish(self, *, last: bool = False) -> None:
        """Send what is new. What a broker does not take now is sent again in its time: the newest counts."""
        if not self.feed.caught_up:  # an older state than has been published would mislead the devices
            return
        try:
            self._publisher.publish()
            if last:
                self._publisher.estimate()
        except (BrokerUnavailable, OSError, InvalidInput) as error:
            self._unpublished = True
            self._say_failing(f"not published: {error}; trying again")
        else:
            self._unpublished = False
            self._say_working()

    def _say_failing(self, text: str) -> None:
        now = self._clock()
        if self._failing is None or now >= self._say_again:
            self._say_again = now + _SAY_AGAIN_SECONDS
            self._log("error", "failing", text)
        self._failing = text

    def _say_working(self) -> None:
        if self._failing is not None and not self._stuck and not self._unpublished:
            self._failing = None
            self._log("info", "works again", "publishing and saving work again")

    def _due(self) -> bool:
        """Say whether it is time to save, or something could not be stored when it last was."""
        if self._stuck or self._tokens.pending >= self._settings.save_tokens:
            return True
        return self._unsaved and self._clock() >= self._next_save

    def _save(self) -> bool:
        """Make dead letters safe, then the checkpoint; say whether that worked."""
        now = self._clock()
        try:
            self._outlet.settle()
            if self._unsaved:
                self._store.save(self.state.checkpoint(self._position))
        except (BrokerUnavailable, OSError) as error:
            self._stuck = True
            self._say_failing(f"not saved: {error}; trying again")
            return False
        self._stuck = False
        self._say_working()
        self._next_save = now + self._settings.save_seconds
        if self._unsaved:
            self._unsaved = False
            self.feed.commit()
        return True

    def _pause(self) -> None:
        """Wait before the next try, in small steps, so that a stop is noticed."""
        until = self._clock() + self._settings.retry_seconds
        while self._clock() < until and not self._stopping():
            time.sleep(0.1)

    # ------------------------------------------------------------------ what is said

    def _say_refused(self, letters: list[Letter]) -> None:
        """Warn at the first message refused for each reason; the numbers are in every later line."""
        for letter in letters:
            if letter.reason not in self._warned:
                self._warned.add(letter.reason)
                self._log(
                    "warning",
                    "refused",
                    f"refused, and others like it from now on without a line each: {letter.reason} "
                    f"(partition {letter.partition}, offset {letter.offset}: {letter.detail})",
                    reason=str(letter.reason),
                    partition=letter.partition,
                    offset=letter.offset,
                    detail=letter.detail,
                )

    def _say_progress(self) -> None:
        now = self._clock()
        then, before = self._said
        self._said = now, self.messages
        facts = {**self.facts(), "rate": (self.messages - before) / max(now - then, 1e-9)}
        lag = "" if facts["lag"] is None else f", {facts['lag']:,} waiting"
        self._log(
            "info",
            "progress",
            f"{facts['reports']:,} reports, {facts['rejected']:,} rejected, "
            f"{facts['rate']:,.0f} messages a second{lag}",
            **facts,
        )

    def facts(self) -> dict[str, int | float | None]:
        """Return reports and refusals in all, messages a second of this run, and the lag."""
        seconds = max(self._clock() - self.started, 1e-9)
        return {
            "reports": self.state.n_reports,
            "rejected": sum(self.state.refused.values()),
            "rate": self.messages / seconds,
            "lag": self.feed.lag(),
        }
