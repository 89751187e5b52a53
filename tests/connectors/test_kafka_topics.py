"""The topics of a campaign: names, making and checking them, and the newest value of each key."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka.admin import ConfigResource

from ldp_stream.connectors.kafka import KafkaSink, KafkaSource, KeyedValue
from ldp_stream.connectors.kafka_clients import open_client
from ldp_stream.connectors.kafka_newest import Newest, NewestReader, newest
from ldp_stream.connectors.kafka_topics import Topics, ensure_topics, partitions_of
from ldp_stream.errors import BrokerUnavailable, InvalidInput
from tests.connectors.kafka_support import (
    forget_refused_connections,
    make_topic,
    numbered,
    read_all,
    send,
    settings_of,
    small_campaign,
    until,
)

if TYPE_CHECKING:
    from ldp_stream.connectors.kafka_options import KafkaSettings
    from tests.kafka_broker import Broker, Reachable


@pytest.fixture
def settings(broker: Reachable) -> KafkaSettings:
    """Settings for the shared broker."""
    return settings_of(broker.bootstrap)


def _publish(settings: KafkaSettings, topic: str, *pairs: tuple[bytes, bytes]) -> None:
    with KafkaSink(settings, topic) as sink:
        sink.write(KeyedValue(key, value) for key, value in pairs)
        sink.flush()


# ---------------------------------------------------------------------- names and making


def test_names_begin_with_the_campaign_and_its_digest() -> None:
    """Two versions of a campaign of one name have no topic in common."""
    campaign = small_campaign("trips")
    base = f"trips-{campaign.digest[:8]}"
    assert Topics.of(campaign) == Topics(
        f"{base}.reports", f"{base}.parameters", f"{base}.estimates", f"{base}.rejected"
    )
    other = Topics.of(small_campaign("trips", partitions=2))
    assert not set(vars(Topics.of(campaign)).values()) & set(vars(other).values())


def test_missing_topics_are_made_and_making_them_twice_changes_nothing(
    settings: KafkaSettings, unique_name: str
) -> None:
    """Reports get the campaign's partitions, parameters and estimates are compacted, content stays."""
    campaign = small_campaign(unique_name, partitions=3)
    topics = ensure_topics(settings, campaign, replication=1)
    counts = {topic: partitions_of(settings, topic) for topic in vars(topics).values()}
    assert counts == {topics.reports: 3, topics.parameters: 1, topics.estimates: 1, topics.rejected: 1}
    assert [_cleanup(settings, topic) for topic in vars(topics).values()] == [
        "delete",
        "compact",
        "compact",
        "delete",
    ]
    send(settings, topics.reports, [b"x"], partition=2)
    assert ensure_topics(settings, campaign) == topics
    assert read_all(settings, topics.reports) == [b"x"]


def _cleanup(settings: KafkaSettings, topic: str) -> str:
    with closing(open_client(settings, "KafkaAdminClient")) as admin:
        found = admin.describe_configs([ConfigResource("TOPIC", topic)], config_filter="all")
    value: str = found["topic"][topic]["cleanup.policy"]["value"]
    return value


def test_a_topic_that_is_missing_is_added_to_those_that_are_there(
    settings: KafkaSettings, unique_name: str
) -> None:
    """Making goes on where an earlier one was broken off."""
    campaign = small_campaign(unique_name)
    make_topic(settings, Topics.of(campaign).rejected)
    topics = ensure_topics(settings, campaign)
    assert partitions_of(settings, topics.reports) == 1


def test_another_number_of_partitions_is_refused(settings: KafkaSettings, unique_name: str) -> None:
    """A report's token says its partition, so a topic of reports with other partitions cannot be used."""
    campaign = small_campaign(unique_name, partitions=2)
    make_topic(settings, Topics.of(campaign).reports, partitions=3)
    with pytest.raises(InvalidInput, match=r"\.reports' has 3 partitions: must have 2, as the campaign says"):
        ensure_topics(settings, campaign)


def test_what_the_broker_refuses_is_said(settings: KafkaSettings, unique_name: str) -> None:
    """More copies than there are brokers cannot be made; the error says so and names the topic."""
    with pytest.raises(InvalidInput, match=rf"topic '{unique_name}.*' cannot be made: .*eplication"):
        ensure_topics(settings, small_campaign(unique_name), replication=3)


def test_a_topic_that_is_not_there_is_named_with_what_makes_it(
    settings: KafkaSettings, unique_name: str
) -> None:
    """Reading and writing such a topic is refused at once, and does not make it."""
    for use in (
        lambda: KafkaSource[bytes](settings, unique_name),
        lambda: KafkaSink(settings, unique_name),
        lambda: NewestReader(settings, unique_name),
        lambda: newest(settings, unique_name),
        lambda: partitions_of(settings, unique_name),
    ):
        with pytest.raises(
            InvalidInput, match=f"topic '{unique_name}' does not exist: `ldp-stream serve` makes"
        ):
            use()
    with pytest.raises(InvalidInput, match="topic 'a b': must be 1 to 249 of"):
        partitions_of(settings, "a b")


# ---------------------------------------------------------------------- the newest of each key


def test_the_newest_value_of_each_key_is_found(settings: KafkaSettings, unique_name: str) -> None:
    """Of several values of a key the last one counts; one key can be asked for; an empty topic has none."""
    topic = make_topic(settings, unique_name, cleanup_policy="compact")
    assert newest(settings, topic) == {}
    _publish(settings, topic, (b"0", b"a"), (b"1", b"b"), (b"0", b"c"))
    assert newest(settings, topic) == {b"0": Newest(2, b"c"), b"1": Newest(1, b"b")}
    assert newest(settings, topic, b"1") == {b"1": Newest(1, b"b")}
    assert newest(settings, topic, b"2") == {}


def test_a_message_without_a_value_removes_its_key(settings: KafkaSettings, unique_name: str) -> None:
    """A tombstone counts as what it is in a compacted topic."""
    topic = make_topic(settings, unique_name, cleanup_policy="compact")
    _publish(settings, topic, (b"0", b"a"), (b"1", b"b"))
    producer = open_client(settings, "KafkaProducer")
    producer.send(topic, None, key=b"0")
    producer.close(5)
    assert newest(settings, topic) == {b"1": Newest(1, b"b")}


def test_compaction_changes_nothing(settings: KafkaSettings, unique_name: str) -> None:
    """After the broker has removed older values the newest are found as before; a source skips the gaps."""
    topic = make_topic(
        settings,
        unique_name,
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    for version in range(6):
        _publish(settings, topic, (b"0", b"a%d" % version), (b"1", b"b%d" % version))
        time.sleep(0.15)
    expected = {b"0": Newest(10, b"a5"), b"1": Newest(11, b"b5")}
    assert newest(settings, topic) == expected
    until(lambda: len(read_all(settings, topic)) < 12, limit=60)
    assert newest(settings, topic) == expected
    with KafkaSource[bytes](settings, topic, until_end=True) as source:
        pairs = [
            pair for batch in source.batches(100) for pair in zip(batch.offsets, batch.items, strict=True)
        ]
        assert source.position == {"0": 12}
    assert pairs[-1] == (11, b"b5")
    for offset, value in pairs:
        assert value == b"%c%d" % (b"ab"[offset % 2], offset // 2)


def test_a_reader_follows_what_is_published(settings: KafkaSettings, unique_name: str) -> None:
    """Without blocking it takes in what has arrived, and its values follow."""
    topic = make_topic(settings, unique_name, cleanup_policy="compact")
    _publish(settings, topic, (b"0", b"a"))
    with NewestReader(settings, topic) as reader:
        reader.catch_up()
        assert reader.values == {b"0": Newest(0, b"a")}
        start = time.monotonic()
        assert not reader.refresh()
        assert time.monotonic() - start < 1
        _publish(settings, topic, (b"0", b"b"), (b"1", b"c"))
        until(lambda: reader.refresh() and b"1" in reader.values)
        assert reader.values == {b"0": Newest(1, b"b"), b"1": Newest(2, b"c")}
        reader.close()


def test_a_reader_outlives_the_broker(own_broker: Broker, unique_name: str) -> None:
    """While the broker is away nothing is new and catching up fails in time; then it goes on."""
    settings = settings_of(own_broker.bootstrap)
    topic = make_topic(settings, unique_name, cleanup_policy="compact")
    _publish(settings, topic, *((b"%d" % number, value) for number, value in enumerate(numbered(0, 50))))
    with NewestReader(settings, topic) as reader:
        reader.catch_up()
        own_broker.kill()
        assert not reader.refresh(0.2)
        start = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            reader.catch_up(timeout=1)
        assert time.monotonic() - start < 4
        assert len(reader.values) == 50
        own_broker.start()
        _publish(settings, topic, (b"7", b"new"))
        until(lambda: reader.refresh(0.2) and reader.values[b"7"].value == b"new")
        reader.catch_up()
    forget_refused_connections()
