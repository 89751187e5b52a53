"""Reports to a service over Kafka, each at the newest parameters."""

from __future__ import annotations

import hmac
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING

import typer

from ..._validate import integer_in, positive
from ...campaign import Campaign
from ...client.reporter import Reporter, token_of
from ...errors import LdpStreamError
from .console import counted, note, say_rejected, warn_if_not_private
from .kafka_devices import KafkaDevices
from .progress import ReportProgress
from .raw_rows import RowChoice
from .stopping import Stopped, StopSignals

if TYPE_CHECKING:
    from ..base import Batch, Row
    from ..kafka_options import KafkaSettings

__all__ = ["report_to_kafka"]

_ROWS = 1024
_BATCH_SECONDS = 0.25  # of a rate: how often the progress bar moves
_NAP_SECONDS = 0.1
_ARREARS_SECONDS = 0.05  # what a rate may make up for after a wait

Named = tuple[bytes | None, "Row"]
"""A row, and the token of the user that it names, if it names one."""

NamedBatches = Iterator[tuple["Batch[object]", list[Named]]]
"""Batches, and of each its rows with the tokens of the users that they name."""


def report_to_kafka(
    campaign: Campaign,
    rows: RowChoice,
    settings: KafkaSettings,
    *,
    binary: bool,
    seed: int | None,
    limit: int | None,
    user: str | None,
    rate: float | None,
) -> None:
    """Send one report a row, or one a user; wait for newer parameters where a round has enough."""
    warn_if_not_private(campaign)
    rejected: Counter[str] = Counter()
    problem: LdpStreamError | None = None
    size = _ROWS if rate is None else max(1, min(_ROWS, int(positive(rate=rate) * _BATCH_SECONDS)))
    with (
        rows.open_rejects() as kept,
        StopSignals() as stop,
        _named_rows(campaign, rows, user, seed, size) as named,
        KafkaDevices(settings, campaign, binary, note, lambda: stop.number is not None) as devices,
        ReportProgress("reporting") as progress,
    ):
        crowd = _Crowd(campaign, devices, seed, limit, _Pace(rate, lambda: stop.number is not None))
        try:
            while (read := _read(named, stop)) is not None:
                batch, items = read
                rejected.update(reject.reason for reject in batch.rejected)
                if kept is not None:
                    kept.write(batch.rejected)
                before = devices.sent
                goes_on = crowd.report(items)
                devices.hand_on()
                progress.advance(devices.sent - before, batch.progress)
                if not goes_on:
                    break
            devices.flush()
        except LdpStreamError as error:
            problem = error
    say_rejected(rejected, "row")
    if crowd.again:
        note(f"{counted(crowd.again, 'row')} passed over: their users had reported before")
    note(f"{counted(devices.sent, 'report')} sent, which answer {counted(devices.rounds, 'round')}")
    if devices.in_doubt:
        note(f"{counted(devices.in_doubt, 'report')} of these may not be stored")
    if problem is not None:
        raise problem
    raise typer.Exit(stop.exit_code)


def _read(named: NamedBatches, stop: StopSignals) -> tuple[Batch[object], list[Named]] | None:
    """Return the next batch, None at the end; a signal ends the wait for standard input."""
    try:
        with stop.interruptible():
            return next(named, None)
    except Stopped:
        return None


@contextmanager
def _named_rows(
    campaign: Campaign, rows: RowChoice, user: str | None, seed: int | None, size: int
) -> Iterator[NamedBatches]:
    """Open the rows; give their batches, and the rows with the tokens of the users that they name."""
    if user is None:
        with rows.open(campaign) as plain:
            yield ((batch, [(None, row) for row in batch.items]) for batch in plain.batches(size))
        return
    key = os.urandom(32)
    if seed is not None:
        number = integer_in(0, 2**53 - 1, seed=seed).to_bytes(8, "little")
        key = blake2b(number, person=b"users").digest()

    def token(name: str) -> bytes:
        secret = hmac.digest(key, name.encode("utf-8", "surrogatepass"), "sha256")
        return token_of(secret, campaign)

    with rows.open_users(campaign, user) as source:
        yield ((batch, [(token(name), row) for name, row in batch.items]) for batch in source.batches(size))


class _Crowd:
    """The users of a run: who has reported, and the next report of each of the others."""

    def __init__(
        self, campaign: Campaign, devices: KafkaDevices, seed: int | None, limit: int | None, pace: _Pace
    ) -> None:
        self._campaign = campaign
        self._devices = devices
        self._reporter = Reporter.simulated(campaign, seed)
        self._limit = limit
        self._pace = pace
        self._reported: set[bytes] = set()
        self.again = 0
        """Rows of users who had reported before."""

    def report(self, items: list[Named]) -> bool:
        """Send each row's report; say whether to go on."""
        devices, reporter = self._devices, self._reporter
        for token, (x, y) in items:
            if devices.sent == self._limit:
                return False
            if token in self._reported:
                self.again += 1
                continue
            partition = devices.sent % self._campaign.partitions
            if token is not None:
                self._reported.add(token)
                partition, _ = self._campaign.route(int.from_bytes(token))
            message = devices.parameters(partition) if self._pace.wait() else None
            if message is None:
                return False
            if token is None:
                devices.send(reporter.report(x, y, message), partition)
            else:
                devices.send(reporter.report_as(token, x, y, message), partition)
        return devices.sent != self._limit


class _Pace:
    """At most so many a second, evenly; None is as fast as it goes."""

    def __init__(self, rate: float | None, stopping: Callable[[], bool]) -> None:
        self._gap = 0.0 if rate is None else 1 / positive(rate=rate)
        self._stopping = stopping
        self._next = time.monotonic()

    def wait(self) -> bool:
        """Wait for the next one's time; say whether to go on."""
        if self._gap:
            while (left := self._next - time.monotonic()) > 0 and not self._stopping():
                time.sleep(min(left, _NAP_SECONDS))
            self._next = max(self._next + self._gap, time.monotonic() - _ARREARS_SECONDS)
        return not self._stopping()
