"""The devices' side over Kafka: read the newest parameters, make reports, send them, and never too many.

N reports at one point act as one step of N eta, so devices that all answer the same parameters would
overshoot, and the service refuses what answers a round too old. Here at most two rounds' worth of reports are
under way at any time, and at most two answer one message; then newer parameters are waited for. Where none
come, because some reports were refused or other devices are slow, one more round's worth is sent each second,
up to what the campaign accepts as late; then nothing is sent until the service is heard of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from ...campaign import Campaign
from ...codec import encode_report, report_to_json
from ...errors import BrokerUnavailable, CampaignMismatch
from ...plan import RoundSchedule
from ...reports import Parameters, Report
from ..kafka import KafkaSink, KeyedValue
from ..kafka_clients import Say
from ..kafka_newest import NewestReader
from ..kafka_options import KafkaSettings
from ..kafka_topics import Topics

__all__ = ["KafkaDevices"]

_ROUNDS = 2  # rounds' worth of reports under way, and answering one message, at once
_PATIENCE_SECONDS = 1.0  # before one more round's worth
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.005
_SAY_SECONDS = 3.0
_WRITE = 500  # reports handed to the sink at once, and
_HOLD_SECONDS = 0.01  # how long one waits for others, if more come


class _Line:
    """One partition: its newest parameters, and how many reports may still answer them.

    Parameters
    ----------
    message
        The first parameters that were read.
    schedule
        The campaign's rounds.
    most
        Rounds' worth that may answer one message, whatever happens.
    """

    def __init__(self, message: Parameters, schedule: RoundSchedule, most: int) -> None:
        self._schedule = schedule
        self._most = most
        self._next = message.n  # reports counted when the next one's turn comes, if none is refused
        self.take(message)

    def take(self, message: Parameters) -> None:
        """Go to newer parameters."""
        self.message = message
        self._length = self._schedule.length(message.n)
        self._granted = _ROUNDS * self._length
        self._next = max(self._next, message.n)
        self.sent = 0
        self._since = time.monotonic()

    @property
    def open(self) -> bool:
        """Whether one more report may answer the message."""
        return max(self.sent, self._next - self.message.n) < self._granted

    def count(self) -> None:
        """Take note that a report was sent."""
        self.sent += 1
        self._next += 1

    def grant(self) -> None:
        """Allow one more round's worth at the same message, if it is old enough and that is not too many.

        What was under way so long is not coming any more.
        """
        now = time.monotonic()
        if now - self._since >= _PATIENCE_SECONDS:
            self._since = now
            self._next = self.message.n
            self._granted = min(self._granted + self._length, self._most * self._length)


class KafkaDevices:
    """Many users' devices, which answer the parameters of a service.

    Parameters
    ----------
    settings
        Where Kafka is; it is waited for.
    campaign
        The campaign.
    binary
        Whether reports go out in the compact form instead of JSON.
    say
        Told what is waited for.
    stopping
        Asked whether to stop waiting.

    Raises
    ------
    InvalidInput
        If the campaign's topics are not there.
    BrokerUnavailable
        If Kafka does not answer in time.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        campaign: Campaign,
        binary: bool,
        say: Say,
        stopping: Callable[[], bool],
    ) -> None:
        self._campaign = campaign
        self._encode = encode_report if binary else report_to_json
        self._say = say
        self._stopping = stopping
        self._wait_seconds = settings.wait_seconds
        self._lines: dict[int, _Line] = {}
        self._seen: dict[bytes, int] = {}  # key: offset of the message taken in
        self._waiting: list[KeyedValue] = []
        self._handed_on = self._stored_at = self._said_at = time.monotonic()
        self._stored = 0
        self._servers = settings.servers
        self._next_look = 0.0
        self.rounds = 0
        """Rounds that were answered."""
        self.sent = 0
        """Reports that were sent."""
        self._held = ExitStack()
        topics = Topics.of(campaign)
        try:
            self._reader = self._held.enter_context(NewestReader(settings, topics.parameters, say, stopping))
            self._sink = self._held.enter_context(KafkaSink(settings, topics.reports, linger_seconds=0.0))
            self._reader.catch_up()
        except BaseException:
            self._held.close()
            raise

    def parameters(self, partition: int) -> Parameters | None:
        """Return what the next report of a partition answers; None if it is time to stop.

        Waits while the newest message has been answered often enough.

        Raises
        ------
        BrokerUnavailable
            If no newer parameters come within the settings' ``wait_seconds``.
        CampaignMismatch
            If the topic holds something else than parameters of the campaign.
        """
        started = time.monotonic()
        said = started
        while True:
            self._look(partition, started)
            if self._stopping():
                return None
            if self._may_answer(partition):
                return self._lines[partition].message
            self.hand_on()
            if partition in self._lines:
                self._lines[partition].grant()
            now = time.monotonic()
            if now - started >= self._wait_seconds:
                raise BrokerUnavailable(
                    f"no newer parameters of partition {partition} for {now - started:.0f} s: "
                    "is 'ldp-stream serve' running?"
                )
            if now - said >= _SAY_SECONDS:
                said = now
                self._say(f"no newer parameters for {now - started:.0f} s: is 'ldp-stream serve' running?")

    def _look(self, partition: int, now: float) -> None:
        """Read new parameters: at once where none may be answered, else now and then."""
        if not self._may_answer(partition):
            self._take_in(_POLL_SECONDS)
        elif now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._take_in(0.0)

    def _may_answer(self, partition: int) -> bool:
        return partition in self._lines and self._lines[partition].open

    def _take_in(self, seconds: float) -> None:
        """Read new parameters."""
        if not self._reader.refresh(seconds) and self._lines:
            return
        for key, (offset, value) in self._reader.values.items():
            if self._seen.get(key) == offset:
                continue
            self._seen[key] = offset
            message = self._parsed(value)
            line = self._lines.get(message.partition)
            if line is None:
                most = self._campaign.rounds.max_staleness + 1
                self._lines[message.partition] = _Line(message, self._campaign.round_schedule, most)
            elif line.message != message:
                line.take(message)

    def _parsed(self, value: bytes) -> Parameters:
        try:
            message = Parameters.model_validate_json(value)
        except ValidationError:
            raise CampaignMismatch(f"topic {self._reader.topic!r}: holds more than parameters") from None
        if message.digest != self._campaign.digest_prefix:
            raise CampaignMismatch(
                f"topic {self._reader.topic!r}: parameters.digest = {message.digest!r}: "
                f"must be {self._campaign.digest_prefix!r}"
            )
        return message

    def send(self, report: Report, partition: int) -> None:
        """Send a report that answers the partition's parameters."""
        self._waiting.append(KeyedValue(bytes.fromhex(report.token), self._encode(report), partition))
        line = self._lines[partition]
        self.rounds += line.sent == 0
        line.count()
        self.sent += 1
        held = time.monotonic() - self._handed_on
        if held >= _HOLD_SECONDS or len(self._waiting) >= _WRITE or not line.open:
            self.hand_on()

    def hand_on(self) -> None:
        """Let the reports go that wait for others to go with them; to be called before any wait.

        Raises
        ------
        BrokerUnavailable
            If none was stored for the settings' ``wait_seconds``, although some were sent.
        """
        items, self._waiting = self._waiting, []
        self._handed_on = time.monotonic()
        self._sink.write(items)
        self._check_stored(len(items), self._handed_on)

    def _check_stored(self, new: int, now: float) -> None:
        """Notice a broker that takes nothing any more; the ``new`` reports have only just been handed on."""
        stored = self.sent - self.in_doubt
        if stored > self._stored or self.in_doubt <= new:
            self._stored, self._stored_at, self._said_at = stored, now, now
            return
        gone = f"Kafka at {self._servers}: stored no report for {now - self._stored_at:.0f} s"
        if now - self._stored_at >= self._wait_seconds:
            raise BrokerUnavailable(gone)
        if now - self._said_at >= _SAY_SECONDS:
            self._said_at = now
            self._say(gone)

    def flush(self) -> None:
        """Return when everything sent is stored; BrokerUnavailable if that takes too long."""
        self.hand_on()
        self._sink.flush()

    @property
    def in_doubt(self) -> int:
        """Number of reports among those sent that are not known to be stored."""
        return len(self._waiting) + self._sink.waiting

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the connections."""
        self._held.close()
