"""The newest value of each key of a compacted topic: read once, or followed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple

from .._validate import positive
from ..errors import BrokerUnavailable
from .kafka_clients import Say, never, open_client, silent, translated
from .kafka_options import KafkaSettings, kafka_module
from .kafka_topics import partitions_of

__all__ = ["Newest", "NewestReader", "newest"]

_POLL_MS = 100


class Newest(NamedTuple):
    """The newest message of a key.

    Parameters
    ----------
    offset
        Where it stands in its partition.
    value
        Its bytes.
    """

    offset: int
    value: bytes


class NewestReader:
    """Follows a compacted topic from its beginning and keeps the newest value of each key.

    A message without a value removes its key; one without a key has the key ``b""``. A broker that goes away
    is waited for in silence: nothing is new until it is back. Not for use by two threads.

    Parameters
    ----------
    settings
        Where Kafka is; it is waited for.
    topic
        The topic, which must be there.
    say, stopping
        As in :func:`~ldp_stream.connectors.kafka_clients.wait_for_broker`.

    Raises
    ------
    InvalidInput
        If there is no such topic.
    BrokerUnavailable
        If Kafka does not answer in time.
    MissingExtra
        If kafka-python is not installed.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        say: Say = silent,
        stopping: Callable[[], bool] = never,
    ) -> None:
        count = partitions_of(settings, topic, say, stopping)
        self.topic = topic
        self._settings = settings
        self._found: dict[bytes, Newest] = {}
        self.values = MappingProxyType(self._found)
        """The newest value of each key, as far as read; a view that follows."""
        named = kafka_module("kafka.structs").TopicPartition
        self._retriable = kafka_module("kafka.errors").RetriableError
        self._names = [named(topic, number) for number in range(count)]
        self._consumer: Any = open_client(
            settings,
            "KafkaConsumer",
            say,
            stopping,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        self._consumer.assign(self._names)

    def refresh(self, seconds: float = 0.0) -> bool:
        """Take in what has arrived, waiting at most ``seconds``; say whether there was anything.

        Raises
        ------
        BrokerUnavailable
            If Kafka refuses to go on.
        """
        with translated(self._settings):
            try:
                polled = self._consumer.poll(timeout_ms=int(1000 * seconds), max_records=10_000)
            except self._retriable:
                return False
        for records in polled.values():
            for record in records:
                key = record.key or b""
                if record.value is None:
                    self._found.pop(key, None)
                else:
                    self._found[key] = Newest(record.offset, record.value)
        return bool(polled)

    def catch_up(self, timeout: float = 10.0) -> None:
        """Read to where the topic ends now.

        Raises
        ------
        BrokerUnavailable
            If that takes longer than ``timeout`` seconds.
        """
        end = time.monotonic() + positive(timeout=timeout)
        with translated(self._settings):
            ends = self._consumer.end_offsets(self._names, timeout_ms=int(1000 * timeout))
        while not all(self._reached(name) >= ends[name] for name in self._names):
            if time.monotonic() >= end:
                where = f"topic {self.topic!r} at {self._settings.servers}"
                raise BrokerUnavailable(f"{where}: not read to its end within {timeout:g} s")
            self.refresh(_POLL_MS / 1000)

    def _reached(self, name: Any) -> int:
        with translated(self._settings):
            return self._consumer.position(name, timeout_ms=_POLL_MS) or 0

    def close(self) -> None:
        """Release the connections, within seconds. Closing twice does nothing."""
        self._consumer.close(autocommit=False, timeout_ms=2000)

    def __enter__(self) -> NewestReader:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def newest(
    settings: KafkaSettings,
    topic: str,
    key: bytes | None = None,
    timeout: float = 10.0,
    say: Say = silent,
    stopping: Callable[[], bool] = never,
) -> dict[bytes, Newest]:
    """Return the newest value of each key of a compacted topic.

    Parameters
    ----------
    settings
        Where Kafka is; it is waited for.
    topic
        The topic, which must be there.
    key
        Only this key; all when None.
    timeout
        Seconds for reading.
    say, stopping
        As in :func:`~ldp_stream.connectors.kafka_clients.wait_for_broker`.

    Raises
    ------
    InvalidInput
        If there is no such topic.
    BrokerUnavailable
        If Kafka does not answer in time.
    MissingExtra
        If kafka-python is not installed.
    """
    with closing(NewestReader(settings, topic, say, stopping)) as reader:
        reader.catch_up(timeout)
        return {name: found for name, found in reader.values.items() if key in (None, name)}
