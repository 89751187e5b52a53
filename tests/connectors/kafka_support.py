"""What the tests of the Kafka connector share: topics, messages, and a campaign."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import closing

from kafka import TopicPartition

from ldp_stream.campaign import Campaign
from ldp_stream.campaign_parts import CQXChannel, Feature, Target
from ldp_stream.connectors.kafka import KafkaSink, KafkaSource, KeyedValue
from ldp_stream.connectors.kafka_clients import open_client
from ldp_stream.connectors.kafka_options import KafkaSettings


def settings_of(bootstrap: str, wait_seconds: float = 30.0, **options: object) -> KafkaSettings:
    """Return settings for a test's broker."""
    return KafkaSettings(bootstrap, options, wait_seconds)


def small_campaign(name: str, partitions: int = 1) -> Campaign:
    """Return a campaign with one feature."""
    return Campaign(
        kind="quantile",
        name=name,
        tau=0.5,
        epsilon=2.0,
        target=Target(lower=0, upper=60),
        features={"x": Feature(lower=-1, upper=1)},
        channel=CQXChannel(),
        partitions=partitions,
    )


def make_topic(settings: KafkaSettings, topic: str, partitions: int = 1, **configs: str) -> str:
    """Make a topic and return its name; underscores in names of settings stand for dots."""
    wanted = {
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": {name.replace("_", "."): value for name, value in configs.items()},
    }
    with closing(open_client(settings, "KafkaAdminClient")) as admin:
        admin.create_topics({topic: wanted}, wait_for_metadata=True)
    return topic


def remake_topic(settings: KafkaSettings, topic: str) -> None:
    """Delete a topic and make it again, empty."""
    with closing(open_client(settings, "KafkaAdminClient")) as admin:
        admin.delete_topics([topic])
        until(lambda: topic not in admin.list_topics())
    make_topic(settings, topic)


def delete_records(settings: KafkaSettings, topic: str, before: int, partition: int = 0) -> None:
    """Delete the messages of a partition before an offset, as retention does."""
    with closing(open_client(settings, "KafkaAdminClient")) as admin:
        admin.delete_records({TopicPartition(topic, partition): before})


def send(settings: KafkaSettings, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    """Send values to a partition, in order."""
    with KafkaSink(settings, topic) as sink:
        sink.write(KeyedValue(None, value, partition) for value in values)
        sink.flush()


def numbered(start: int, stop: int) -> list[bytes]:
    """Return values that are told apart by their number."""
    return [b"%06d" % number for number in range(start, stop)]


def read_all(settings: KafkaSettings, topic: str, size: int = 100) -> list[bytes]:
    """Return every message that is there."""
    with KafkaSource[bytes](settings, topic, until_end=True) as source:
        return [item for batch in source.batches(size) for item in batch.items]


def take(source: KafkaSource[bytes], count: int, size: int = 100, limit: float = 60.0) -> list[bytes]:
    """Read until a number of items has come."""
    found: list[bytes] = []
    end = time.monotonic() + limit
    for batch in source.batches(size):
        found += batch.items
        if len(found) >= count:
            return found
        assert time.monotonic() < end, f"{len(found)} of {count} messages within {limit} s"
    return found


def until(true: Callable[[], bool], limit: float = 30.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, f"not so within {limit} s"
        time.sleep(0.05)


def forget_refused_connections() -> None:
    """Collect the sockets of refused connections, which kafka-python does not close itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
