"""The devices' side over Kafka: read the newest parameters, make reports, send them, and never too many.

N reports at one point act as one step of N eta, so devices that all answer the same parameters message would
overshoot. Here at most four rounds' worth of reports answer one message, and then a newer one is waited for.
Where none comes, because some reports were refused or other devices are slow, one more round's worth is sent
each second, up to what the campaign accepts as late; then nothing is sent until the service is heard of.
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
from ...reports import Parameters, Report
from ..kafka import KafkaSink, KeyedValue
from ..kafka_clients import Say
from ..kafka_newest import NewestReader
from ..kafka_options import KafkaSettings
from ..kafka_topics import Topics

__all__ = ["KafkaDevices"]

_ROUNDS = 4  # rounds' worth of reports that answer one message at once
_PATIENCE_SECONDS = 1.0  # before one more round's worth
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 0.005
_SAY_SECONDS = 3.0
_WRITE = 500  # reports handed to the sink at once


class _Answered:
    """One partition's newest parameters, and how many reports may answer and have answered them."""

    def __init__(self, message: Parameters, length: int, now: float) -> None:
        self.message = message
        self.length = length
        self.allowed = _ROUNDS * length
        self.sent = 0
        self.since = now


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
        self._answered: dict[int, _Answered] = {}
        self._seen: dict[bytes, int] = {}  # key: offset of the message taken in
        self._waiting: list[KeyedValue] = []
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
                return self._answered[partition].message
            self._send_waiting()
            now = time.monotonic()
            self._grant(partition, now)
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
        found = self._answered.get(partition)
        return found is not None and found.sent < found.allowed

    def _grant(self, partition: int, now: float) -> None:
        """Allow one more round's worth at the same message, if it is old enough and not too many."""
        found = self._answered.get(partition)
        if found is None or now - found.since < _PATIENCE_SECONDS:
            return
        most = (self._campaign.rounds.max_staleness + 1) * found.length
        found.allowed = min(found.allowed + found.length, max(most, found.allowed))
        found.since = now

    def _take_in(self, seconds: float) -> None:
        """Read new parameters."""
        if not self._reader.refresh(seconds) and self._answered:
            return
        for key, (offset, value) in self._reader.values.items():
            if self._seen.get(key) == offset:
                continue
            self._seen[key] = offset
            message = self._parsed(value)
            known = self._answered.get(message.partition)
            if known is None or known.message != message:
                length = self._campaign.round_schedule.length(message.n)
                self._answered[message.partition] = _Answered(message, length, time.monotonic())

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
        answered = self._answered[partition]
        self.rounds += answered.sent == 0
        answered.sent += 1
        self.sent += 1
        if len(self._waiting) >= _WRITE or answered.sent >= answered.allowed:
            self._send_waiting()

    def _send_waiting(self) -> None:
        items, self._waiting = self._waiting, []
        if items:
            self._sink.write(items)

    def flush(self) -> None:
        """Return when everything sent is stored; BrokerUnavailable if that takes too long."""
        self._send_waiting()
        self._sink.flush()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the connections."""
        self._held.close()
