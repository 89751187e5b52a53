"""A Kafka topic as a sink: messages go out in the background, and stay here until they are acknowledged."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

from .._validate import integer_in, non_negative, positive
from ..errors import BrokerUnavailable, InvalidInput
from .base import Sink
from .kafka_clients import Say, never, open_client, silent, translated
from .kafka_options import KafkaSettings, kafka_module
from .kafka_topics import partitions_of

__all__ = ["KafkaSink", "KeyedValue"]

_AGAIN_SECONDS = 0.1  # before what failed is sent again
_OVERHEAD = 128  # bytes of a message beside key and value, at most


class KeyedValue(NamedTuple):
    """One message.

    Parameters
    ----------
    key
        Its key, or None. A compacted topic keeps the newest value of each.
    value
        Its bytes.
    partition
        Where it goes; when None its key decides, and without a key any.
    """

    key: bytes | None
    value: bytes
    partition: int | None = None


class _Sent(NamedTuple):
    """A message that was handed to kafka-python, and its fate."""

    item: KeyedValue
    fate: Any


class KafkaSink(Sink[KeyedValue]):
    """A topic that takes messages, acknowledged by all in-sync replicas.

    Guaranteed: what :meth:`write` has taken is stored when :meth:`flush` returns; what is not stored when it
    raises stays, and the next flush goes on with it. Of the messages of one key, the one written last is also
    stored last.

    Not guaranteed: that a message is stored only once, when the broker was away; that what is not flushed
    outlives this process. Not for use by two threads.

    Parameters
    ----------
    settings
        Where Kafka is; it is waited for.
    topic
        The topic, which must be there.
    timeout
        Seconds in which :meth:`flush` gives up.
    most_waiting
        Number of messages without acknowledgement at which :meth:`write` waits for them.
    most_bytes
        The same in bytes of keys and values.
    linger_seconds
        How long a message may wait for others to go with it.
    newest_only
        Of messages with one key that could not be handed on only the newest is kept.
    say, stopping
        As in :func:`~ldp_stream.connectors.kafka_clients.wait_for_broker`, when the sink is made.

    Raises
    ------
    InvalidInput
        If the topic does not exist, or an argument is out of range.
    BrokerUnavailable
        If Kafka does not answer in time.
    MissingExtra
        If kafka-python is not installed.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        *,
        timeout: float = 10.0,
        most_waiting: int = 50_000,
        most_bytes: int = 1 << 25,
        linger_seconds: float = 0.005,
        newest_only: bool = False,
        say: Say = silent,
        stopping: Callable[[], bool] = never,
    ) -> None:
        self._timeout = positive(timeout=timeout)
        self._most_waiting = integer_in(1, 1 << 30, most_waiting=most_waiting)
        self._most_bytes = integer_in(1, 1 << 40, most_bytes=most_bytes)
        self._partitions = partitions_of(settings, topic, say, stopping)
        self.topic = topic
        self._settings = settings
        self._errors = kafka_module("kafka.errors")
        self._queue: deque[KeyedValue] = deque()  # taken, not handed on yet
        self._sent: deque[_Sent] = deque()  # handed on, in order; the acknowledged ones leave at the front
        self._bytes = 0  # of keys and values in _sent
        self._fault: str | None = None  # why something failed that is not stored yet
        self._newest_only = newest_only
        self._closed = False
        largest = settings.options.get("max_request_size", 1 << 20)
        self._largest = (largest if isinstance(largest, int) else 1 << 20) - _OVERHEAD
        self._producer = open_client(
            settings,
            "KafkaProducer",
            say,
            stopping,
            acks="all",
            allow_auto_create_topics=False,
            metrics_enabled=False,
            linger_ms=round(1000 * non_negative(linger_seconds=linger_seconds)),
            batch_size=1 << 16,
            max_block_ms=int(1000 * self._timeout),
        )
        try:
            with translated(settings):
                self._producer.partitions_for(topic)  # so that the first message need not wait for it
        except BaseException:
            self.close()
            raise

    @property
    def largest(self) -> int:
        """The most bytes that key and value of a message may have."""
        return self._largest

    @property
    def waiting(self) -> int:
        """Number of messages that were taken and are not known to be stored."""
        return len(self._queue) + len(self._sent)

    def write(self, items: Iterable[KeyedValue]) -> None:
        """Take the items; they go out in the background.

        Raises
        ------
        InvalidInput
            If one is larger than a message may be, or its partition does not exist; none is taken then.
        BrokerUnavailable
            If too many wait and Kafka does not take them in time. All items are taken all the same: do not
            write them again.
        """
        new = list(items)
        for item in new:
            self._check(item)
        self._queue.extend(new)
        self._keep_newest()
        self._drop_stored()
        if self._sent and self._sent[0].fate.failed():
            self._send_again()
        self._hand_on(time.monotonic() + self._timeout)

    def tend(self) -> None:
        """Send again what failed, without waiting for it.

        Raises
        ------
        BrokerUnavailable
            If something failed and is not stored yet; the message says why it did.
        """
        self._drop_stored()
        faults = [str(entry.fate.exception) for entry in self._sent if entry.fate.failed()]
        if faults:
            self._fault = faults[0]
            self._send_again()
        self._hand_on(time.monotonic() + self._timeout)
        if not self.waiting:
            self._fault = None
        if self._fault is not None:
            raise self._unavailable(self._fault)

    def flush(self) -> None:
        """Return when everything taken so far is stored.

        Raises
        ------
        BrokerUnavailable
            If it is not within the timeout; what is not stays, and the next flush goes on with it.
        """
        end = time.monotonic() + self._timeout
        self._hand_on(end)
        self._settle(end)

    def close(self, timeout: float = 3.0) -> None:
        """Send what waits, as far as that goes within ``timeout`` seconds, and release the connections."""
        if self._closed:
            return
        self._closed = True
        end = time.monotonic() + timeout
        try:
            self._hand_on(end)
            self._settle(end)
        except BrokerUnavailable:
            # kafka-python does not close before everything is sent, unless its sender gives up
            self._producer._sender.force_close()
        with suppress(self._errors.KafkaError):
            self._producer.close(1.0)

    def _check(self, item: KeyedValue) -> None:
        if item.partition is not None and not 0 <= item.partition < self._partitions:
            raise InvalidInput(f"partition = {item.partition}: must be from 0 to {self._partitions - 1}")
        if (size := _size(item)) > self._largest:
            raise InvalidInput(f"a message of {size} bytes: must have at most {self._largest}")

    def _hand_on(self, end: float) -> None:
        """Hand the queue to kafka-python, waiting for acknowledgements where too many are open."""
        queue = self._queue
        while queue:
            if self._is_full(1):
                self._drop_stored()
                if self._is_full(2):
                    self._settle(end)
            self._send(queue[0])
            queue.popleft()

    def _send(self, item: KeyedValue) -> None:
        try:
            fate = self._producer.send(self.topic, item.value, item.key, partition=item.partition)
        except self._errors.KafkaError as error:
            raise self._unavailable(str(error)) from None
        self._sent.append(_Sent(item, fate))
        self._bytes += _size(item)

    def _is_full(self, share: int) -> bool:
        """Say whether 1/share of what may be open is."""
        return share * len(self._sent) >= self._most_waiting or share * self._bytes >= self._most_bytes

    def _drop_stored(self) -> None:
        while self._sent and self._sent[0].fate.succeeded():
            self._bytes -= _size(self._sent.popleft().item)

    def _settle(self, end: float) -> None:
        """Wait until everything handed on is stored; send again what failed."""
        why = ""
        while True:
            try:
                self._producer.flush(max(0.0, end - time.monotonic()))
            except self._errors.KafkaError as error:
                why = str(error)
            self._drop_stored()
            if not self._sent:
                return
            faults = [str(entry.fate.exception) for entry in self._sent if entry.fate.failed()]
            if time.monotonic() >= end:
                raise self._unavailable(faults[0] if faults else why)
            if faults:
                time.sleep(_AGAIN_SECONDS)
                self._send_again()

    def _send_again(self) -> None:
        """Send what failed once more, and after it what has the same key and was sent later."""
        entries, self._sent, self._bytes = self._sent, deque(), 0
        again: list[KeyedValue] = []
        keys: set[bytes] = set()
        for entry in entries:
            key = entry.item.key
            if entry.fate.failed() or key in keys:
                again.append(entry.item)
                if key is not None:
                    keys.add(key)
            elif not entry.fate.succeeded():
                self._sent.append(entry)
                self._bytes += _size(entry.item)
        self._queue.extendleft(reversed(again))
        self._keep_newest()
        for _ in range(min(len(again), len(self._queue))):
            self._send(self._queue[0])
            self._queue.popleft()

    def _keep_newest(self) -> None:
        """Drop from the queue what a newer message with its key replaces."""
        if self._newest_only and len(self._queue) > 1:
            self._queue = deque({item.key: item for item in self._queue}.values())

    def _unavailable(self, why: str) -> BrokerUnavailable:
        where = f"topic {self.topic!r} at {self._settings.servers}"
        why = self._settings.hide(why)
        return BrokerUnavailable(f"{where}: {self.waiting} messages are not stored yet: {why}")


def _size(item: KeyedValue) -> int:
    return len(item.value) + (0 if item.key is None else len(item.key))
