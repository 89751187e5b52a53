"""The campaign's topics as feed and outlet of the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from ...campaign import Campaign
from ...errors import BrokerUnavailable, InvalidInput
from ...reports import Parameters
from ..kafka import KafkaSink, KafkaSource, KeyedValue
from ..kafka_clients import Say, never, silent
from ..kafka_options import KafkaSettings
from ..kafka_topics import Topics, ensure_topics
from .letters import Letter, pack_letters

__all__ = ["ESTIMATE_KEY", "KafkaOutlet", "open_kafka"]

ESTIMATE_KEY = b"all"
"""The key of the estimate over all partitions."""

_LEAST_BYTES = 1 << 12
_FLUSH_SECONDS = 1.0
_CLOSE_SECONDS = 0.5


class KafkaOutlet:
    """Publishes to a campaign's topics.

    Parameters
    ----------
    settings
        Where Kafka is.
    topics
        The topics, which must be there.
    say, stopping
        As in :func:`~ldp_stream.connectors.kafka_clients.wait_for_broker`.

    Raises
    ------
    InvalidInput
        If a topic is not there, or messages may be too small for dead letters.
    BrokerUnavailable
        If Kafka does not answer in time.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        say: Say = silent,
        stopping: Callable[[], bool] = never,
    ) -> None:
        with ExitStack() as opened:

            def sink(topic: str, **options: Any) -> KafkaSink:
                made = KafkaSink(
                    settings, topic, timeout=_FLUSH_SECONDS, say=say, stopping=stopping, **options
                )
                return opened.enter_context(made)

            self._parameters = sink(topics.parameters, linger_seconds=0.0, newest_only=True)
            self._estimates = sink(topics.estimates, newest_only=True)
            self._rejected = sink(topics.rejected)
            if self._rejected.largest < _LEAST_BYTES:
                raise InvalidInput(
                    f"max_request_size: must leave at least {_LEAST_BYTES} bytes to a message of dead letters"
                )
            opened.pop_all()

    def parameters(self, message: Parameters) -> None:
        """Send the parameters under their partition's number."""
        self._parameters.write([KeyedValue(b"%d" % message.partition, message.model_dump_json().encode())])

    def estimate(self, message: bytes) -> None:
        """Send the estimate."""
        self._estimates.write([KeyedValue(ESTIMATE_KEY, message)])

    def letters(self, letters: Sequence[Letter]) -> None:
        """Send the letters, many in a message."""
        packed = pack_letters(letters, self._rejected.largest)
        self._rejected.write(KeyedValue(None, message) for message in packed)

    def tend(self) -> None:
        """Send again parameters and estimates that failed; a topic that refuses does not stop the other."""
        faults = []
        for sink in (self._parameters, self._estimates):
            try:
                sink.tend()
            except BrokerUnavailable as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def settle(self) -> None:
        """Return when the letters are stored."""
        self._rejected.flush()

    def close(self) -> None:
        """Send what waits, as far as that goes within a second or two, and leave."""
        for sink in (self._parameters, self._estimates, self._rejected):
            sink.close(_CLOSE_SECONDS)

    def __enter__(self) -> KafkaOutlet:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def open_kafka(
    campaign: Campaign,
    settings: KafkaSettings,
    group: str | None,
    replication: int | None,
    say: Say,
    stopping: Callable[[], bool],
    held: ExitStack,
) -> tuple[KafkaSource[bytes], KafkaOutlet]:
    """Wait for Kafka, make the topics that are not there, and join the group.

    Parameters
    ----------
    campaign
        Whose topics.
    settings
        Where Kafka is.
    group
        The consumer group; None takes the topics' common name.
    replication
        Copies of each topic that is made; None leaves it to the broker.
    say, stopping
        As in :func:`~ldp_stream.connectors.kafka_clients.wait_for_broker`.
    held
        What is opened is closed with it.

    Raises
    ------
    InvalidInput
        If a topic is there with another number of partitions, or cannot be made.
    BrokerUnavailable
        If Kafka does not answer in time.
    """
    topics = ensure_topics(settings, campaign, replication, say, stopping)
    outlet = held.enter_context(KafkaOutlet(settings, topics, say, stopping))
    feed: KafkaSource[bytes] = held.enter_context(
        KafkaSource(
            settings,
            topics.reports,
            group=group or topics.reports.removesuffix(".reports"),
            say=say,
            stopping=stopping,
        )
    )
    say(f"reports from topic {topics.reports} at {settings.servers}")
    return feed, outlet
