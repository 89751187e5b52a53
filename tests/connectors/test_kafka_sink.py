"""Kafka as a sink: nothing is lost, the newest of a key stays the newest, and nothing waits for ever."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from ldp_stream.connectors.kafka import KafkaSink, KeyedValue
from ldp_stream.connectors.kafka_newest import newest
from ldp_stream.errors import BrokerUnavailable, InvalidInput
from tests.connectors.kafka_support import (
    forget_refused_connections,
    make_topic,
    numbered,
    read_all,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ldp_stream.connectors.kafka_options import KafkaSettings
    from tests.kafka_broker import Broker, Reachable


@pytest.fixture
def settings(broker: Reachable) -> KafkaSettings:
    """Settings for the shared broker."""
    return settings_of(broker.bootstrap)


@pytest.fixture
def refused_connections() -> Iterator[None]:
    """Let go of the sockets of refused connections, which kafka-python leaves to the garbage collector."""
    yield
    forget_refused_connections()


def _unkeyed(values: list[bytes]) -> list[KeyedValue]:
    return [KeyedValue(None, value, 0) for value in values]


def test_everything_is_stored_in_order_when_flush_returns(settings: KafkaSettings, unique_name: str) -> None:
    """After a flush nothing waits, and a reader finds the messages in the order they were written."""
    topic = make_topic(settings, unique_name)
    with KafkaSink(settings, topic) as sink:
        for start in range(0, 3000, 500):
            sink.write(_unkeyed(numbered(start, start + 500)))
        sink.flush()
        assert sink.waiting == 0
        assert read_all(settings, topic) == numbered(0, 3000)
        sink.flush()


def test_key_and_partition_say_where_a_message_goes(settings: KafkaSettings, unique_name: str) -> None:
    """A given partition wins; else a key always leads to the same partition."""
    topic = make_topic(settings, unique_name, partitions=4)
    with KafkaSink(settings, topic) as sink:
        sink.write(KeyedValue(b"%d" % number, b"a", number % 4) for number in range(8))
        sink.flush()
        assert len(read_all(settings, topic)) == 8
        assert set(newest(settings, topic)) == {b"%d" % number for number in range(8)}
        for bad in (-1, 4):
            with pytest.raises(InvalidInput, match=f"partition = {bad}: must be from 0 to 3"):
                sink.write([KeyedValue(None, b"x", 0), KeyedValue(None, b"x", bad)])
        assert sink.waiting == 0


def test_write_waits_when_too_much_is_open(settings: KafkaSettings, unique_name: str) -> None:
    """However much is written, what waits for an acknowledgement stays below the limits."""
    topic = make_topic(settings, unique_name)
    for limits in ({"most_waiting": 50}, {"most_bytes": 300}):
        with KafkaSink(settings, topic, **limits) as sink:
            for start in range(0, 400, 20):
                sink.write(_unkeyed(numbered(start, start + 20)))
                assert sink.waiting <= 50
            sink.flush()
    assert read_all(settings, topic) == numbered(0, 400) * 2


def test_a_message_that_is_too_large_is_refused_and_nothing_is_taken(
    settings: KafkaSettings, unique_name: str
) -> None:
    """A megabyte and more is refused before anything is sent; just below it passes."""
    topic = make_topic(settings, unique_name)
    with KafkaSink(settings, topic) as sink:
        with pytest.raises(InvalidInput, match="a message of 1048576 bytes: must have at most 1048448"):
            sink.write([KeyedValue(None, b"small"), KeyedValue(None, bytes(1 << 20))])
        sink.write([KeyedValue(b"k", bytes(1_048_440))])
        sink.flush()
    assert [len(value) for value in read_all(settings, topic)] == [1_048_440]


@pytest.mark.usefixtures("refused_connections")
def test_what_is_not_acknowledged_stays_and_is_sent_when_the_broker_is_back(
    own_broker: Broker, unique_name: str
) -> None:
    """Flush gives up after its timeout, keeps everything, and a later one stores all of it."""
    settings = settings_of(own_broker.bootstrap)
    topic = make_topic(settings, unique_name)
    with KafkaSink(settings, topic, timeout=1.0) as sink:
        sink.write(_unkeyed(numbered(0, 100)))
        sink.flush()
        own_broker.kill()
        sink.write(_unkeyed(numbered(100, 200)))
        start = time.monotonic()
        with pytest.raises(
            BrokerUnavailable, match=f"topic '{topic}' at .*: 100 messages are not stored yet"
        ):
            sink.flush()
        assert time.monotonic() - start < 4
        assert sink.waiting == 100
        sink.write(_unkeyed(numbered(200, 210)))
        own_broker.start()
        _flush_in_time(sink)
        found = read_all(settings, topic)
    assert list(dict.fromkeys(found)) == numbered(0, 210)


@pytest.mark.usefixtures("refused_connections")
def test_what_kafka_gave_up_is_sent_again_and_the_newest_stays_the_newest(
    own_broker: Broker, unique_name: str
) -> None:
    """Messages that expired inside kafka-python are not lost, and no older value comes after a newer one."""
    settings = settings_of(own_broker.bootstrap, request_timeout_ms=600, delivery_timeout_ms=700)
    topic = make_topic(settings, unique_name)
    with KafkaSink(settings, topic, timeout=0.5) as sink:
        own_broker.kill()
        for version in range(5):
            sink.write([KeyedValue(b"a", b"a%d" % version), KeyedValue(b"b", b"b%d" % version)])
            with pytest.raises(BrokerUnavailable):
                sink.flush()
            time.sleep(0.4)
        assert sink.waiting == 10
        own_broker.start()
        _flush_in_time(sink)
        stored = read_all(settings, topic)
        assert set(stored) == {b"%c%d" % (key, n) for key in b"ab" for n in range(5)}
        assert {key: found.value for key, found in newest(settings, topic).items()} == {
            b"a": b"a4",
            b"b": b"b4",
        }


@pytest.mark.usefixtures("refused_connections")
def test_a_sink_that_is_never_flushed_recovers_by_itself(own_broker: Broker, unique_name: str) -> None:
    """A writer that only writes finds its messages stored after the broker was away longer than they live."""
    settings = settings_of(own_broker.bootstrap, request_timeout_ms=1500, delivery_timeout_ms=1600)
    topic = make_topic(settings, unique_name)
    with KafkaSink(settings, topic) as sink:
        own_broker.kill()
        sink.write([KeyedValue(b"a", b"%04d" % 0)])
        time.sleep(3)
        own_broker.start()
        last = 0
        while b"0000" not in read_all(settings, topic):
            last += 1
            assert last < 100
            sink.write([KeyedValue(b"a", b"%04d" % last)])
            time.sleep(0.2)
    assert newest(settings, topic)[b"a"].value == b"%04d" % last


@pytest.mark.usefixtures("refused_connections")
def test_write_takes_everything_although_it_raises(own_broker: Broker, unique_name: str) -> None:
    """When too much waits and the broker is away, write says so, and nothing of what it was given is lost."""
    settings = settings_of(own_broker.bootstrap)
    topic = make_topic(settings, unique_name)
    with KafkaSink(settings, topic, timeout=0.5, most_waiting=10) as sink:
        own_broker.kill()
        with pytest.raises(BrokerUnavailable, match="100 messages are not stored yet"):
            sink.write(_unkeyed(numbered(0, 100)))
        own_broker.start()
        _flush_in_time(sink)
        assert list(dict.fromkeys(read_all(settings, topic))) == numbered(0, 100)


@pytest.mark.usefixtures("refused_connections")
def test_closing_without_a_broker_does_not_hang(own_broker: Broker, unique_name: str) -> None:
    """Closing ends within its timeout and leaves no thread behind, whatever still waits."""
    settings = settings_of(own_broker.bootstrap)
    topic = make_topic(settings, unique_name)
    before = threading.active_count()
    sink = KafkaSink(settings, topic, timeout=0.5)
    own_broker.kill()
    sink.write(_unkeyed(numbered(0, 100)))
    start = time.monotonic()
    sink.close(1.0)
    sink.close(1.0)
    assert time.monotonic() - start < 4
    assert threading.active_count() == before


def _flush_in_time(sink: KafkaSink) -> None:
    """Flush until it succeeds, for at most half a minute."""
    end = time.monotonic() + 30
    while True:
        try:
            return sink.flush()
        except BrokerUnavailable:
            assert time.monotonic() < end
