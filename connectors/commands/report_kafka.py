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

from ..._validate import positive
from ...campaign import Campaign
from ...client.reporter import Reporter, token_of
from .console import counted, note, say_rejected, warn_if_not_private
from .kafka_devices import KafkaDevices
from .progress import ReportProgress
from .raw_rows import RowChoice
from .stopping import StopSignals

if TYPE_CHECKING:
    from ..base import Batch, Row
    from ..kafka_options import KafkaSettings

__all__ = ["report_to_kafka"]

_ROWS = 1024
_NAP_SECONDS = 0.1

Named = tuple[bytes | None, "Row"]
"""A row, and the token of the user that it names, if it names one."""


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
    with (
        rows.open_rejects() as kept,
        StopSignals() as stop,
        _named_rows(campaign, rows, user, seed) as named,
        KafkaDevices(settings, campaign, binary, note, lambda: stop.number is not None) as devices,
        ReportProgress("reporting") as progress,
    ):
        crowd = _Crowd(campaign, devices, seed, limit, _Pace(rate, lambda: stop.number is not None))
        for batch, items in named:
            rejected.update(reject.reason for reject in batch.rejected)
            if kept is not None:
                kept.write(batch.rejected)
            before = devices.sent
            goes_on = crowd.report(items)
            progress.advance(devices.sent - before, batch.progress)
            if not goes_on:
                break
        devices.flush()
    say_rejected(rejected, "row")
    if crowd.again:
        note(f"{counted(crowd.again, 'row')} passed over: their users had reported before")
    note(f"{counted(devices.sent, 'report')} sent, which answer {counted(devices.rounds, 'round')}")
    raise typer.Exit(stop.exit_code)


@contextmanager
def _named_rows(
    campaign: Campaign, rows: RowChoice, user: str | None, seed: int | None
) -> Iterator[Iterator[tuple[Batch[object], list[Named]]]]:
    """Open the rows; give their batches, and the rows with the tokens of the users that they name."""
    if user is None:
        with rows.open(campaign) as plain:
            yield ((batch, [(None, row) for row in batch.items]) for batch in plain.batches(_ROWS))
        return
    key = os.urandom(32) if seed is None else blake2b(seed.to_bytes(8, "little"), person=b"users").digest()

    def token(name: str) -> bytes:
        secret = hmac.digest(key, name.encode("utf-8", "surrogateescape"), "sha256")
        return token_of(secret, campaign)

    with rows.open_users(campaign, user) as source:
        yield ((batch, [(token(name), row) for name, row in batch.items]) for batch in source.batches(_ROWS))


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
        return True


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
            self._next = max(self._next + self._gap, time.monotonic() - 1.0)
        return not self._stopping()
