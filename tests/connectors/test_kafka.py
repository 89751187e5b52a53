"""Kafka as a source: order, positions, groups, and what happens when the log or the broker changes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest
from kafka import TopicPartition

from ldp_stream.connectors.base import MessageBatch
from ldp_stream.connectors.kafka import KafkaSource
from ldp_stream.connectors.kafka_clients import open_client
from ldp_stream.connectors.kafka_standing import Standing
from ldp_stream.errors import InvalidInput, InvalidReport
from tests.connectors.kafka_support import (
    delete_records,
    forget_refused_connections,
    make_topic,
    numbered,
    remake_topic,
    send,
    settings_of,
    take,
    until,
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


def _batches(settings: KafkaSettings, topic: str, size: int, **options: bool) -> list[MessageBatch[bytes]]:
    with KafkaSource[bytes](settings, topic, until_end=True, **options) as source:
        return list(source.batches(size))


# ---------------------------------------------------------------------- order and positions


def test_batches_hold_one_partition_each_in_order(settings: KafkaSettings, unique_name: str) -> None:
    """Every message comes once, in its partition's order, with its offset, in batches of at most the size."""
    topic = make_topic(settings, unique_name, partitions=3)
    sent = {partition: numbered(1000 * partition, 1000 * partition + 150) for partition in range(3)}
    for partition, values in sent.items():
        send(settings, topic, values, partition)
    found: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for batch in _batches(settings, topic, 40):
        assert len(batch.items) <= 40
        assert list(batch.offsets) == list(range(len(found[batch.partition]), batch.offsets[-1] + 1))
        found[batch.partition] += batch.items
        assert batch.position[str(batch.partition)] == len(found[batch.partition])
    assert found == sent
    assert batch.position == {"0": 150, "1": 150, "2": 150}
    assert batch.progress == 1.0


def test_two_readers_with_different_batch_sizes_read_the_same(
    settings: KafkaSettings, unique_name: str
) -> None:
    """The concatenation of batches does not depend on how the stream is cut."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 500))
    readings = [
        [item for batch in _batches(settings, topic, size) for item in batch.items] for size in (1, 7, 1000)
    ]
    assert readings[0] == readings[1] == readings[2] == numbered(0, 500)


def test_a_reader_resumes_exactly_at_every_position(settings: KafkaSettings, unique_name: str) -> None:
    """What follows a batch's position on a new reading is what followed it on the first one."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 60))
    first = _batches(settings, topic, 13)
    with KafkaSource[bytes](settings, topic, until_end=True) as source:
        for number, batch in enumerate(first):
            source.resume(batch.position)
            assert source.position == batch.position
            after = [item for later in first[number + 1 :] for item in later.items]
            assert [item for later in source.batches(5) for item in later.items] == after


def test_resuming_between_two_batches_takes_effect_at_once(settings: KafkaSettings, unique_name: str) -> None:
    """A loop that goes back, or forth, gets the messages from there on next, and no stale ones."""
    topic = make_topic(settings, unique_name, partitions=2)
    for partition in (0, 1):
        send(settings, topic, numbered(0, 50), partition)
    with KafkaSource[bytes](settings, topic) as source:
        source.resume({"0": 30, "1": 30})
        batches = source.batches(100)
        while not next(batches).items:
            pass
        source.resume({"0": 10, "1": 10})
        found = _by_partition(batches, 80)
    assert found == {0: numbered(10, 50), 1: numbered(10, 50)}


def test_a_loop_inside_a_loop_repeats_nothing(settings: KafkaSettings, unique_name: str) -> None:
    """What one loop over batches has handed out, another one on the same source does not hand out again."""
    topic = make_topic(settings, unique_name, partitions=2)
    for partition in (0, 1):
        send(settings, topic, numbered(0, 50), partition)
    with KafkaSource[bytes](settings, topic) as source:
        outer = source.batches(100)
        while not (first := next(outer)).items:
            pass
        found = _by_partition(source.batches(100), 50)
        found[first.partition] = [*first.items, *found[first.partition]]
        assert [next(outer).items for _ in range(5)] == [[]] * 5
    assert found == {0: numbered(0, 50), 1: numbered(0, 50)}


def _by_partition(batches: Iterator[MessageBatch[bytes]], count: int) -> dict[int, list[bytes]]:
    """Take batches until a number of items has come."""
    found: dict[int, list[bytes]] = {0: [], 1: []}
    limit = time.monotonic() + 30
    while sum(map(len, found.values())) < count:
        batch = next(batches)
        found[batch.partition] += batch.items
        assert time.monotonic() < limit
    return found


def test_a_loop_that_was_broken_off_goes_on_after_the_last_batch(
    settings: KafkaSettings, unique_name: str
) -> None:
    """A second loop over batches starts right after what the first one was given."""
    topic = make_topic(settings, unique_name, partitions=2)
    for partition in (0, 1):
        send(settings, topic, numbered(0, 50), partition)
    found: dict[int, list[bytes]] = {0: [], 1: []}
    with KafkaSource[bytes](settings, topic) as source:
        for size in (7, 30, 7, 100, 100, 100):
            for batch in source.batches(size):
                found[batch.partition] += batch.items
                if batch.items:
                    break
            if sum(map(len, found.values())) == 100:
                break
    assert found == {0: numbered(0, 50), 1: numbered(0, 50)}


def test_chosen_partitions_are_read_and_no_others(settings: KafkaSettings, unique_name: str) -> None:
    """A source of some partitions has a position of those only, and refuses one of others."""
    topic = make_topic(settings, unique_name, partitions=3)
    for partition in range(3):
        send(settings, topic, [b"%d" % partition], partition)
    with KafkaSource[bytes](settings, topic, partitions=[2, 0], until_end=True) as source:
        assert sorted(item for batch in source.batches(10) for item in batch.items) == [b"0", b"2"]
        assert source.partitions == source.assigned == (0, 2)
        assert source.position == {"0": 1, "2": 1}
        with pytest.raises(
            InvalidInput, match=r"position = \{'1': 0\}: must be offsets >= 0 of partitions 0, 2"
        ):
            source.resume({"1": 0})


@pytest.mark.parametrize("position", [{"0": -1}, {"x": 0}, {"0": True}, {"0": "1"}, {"-0": 1}, {"٣": 1}])
def test_a_malformed_position_is_refused(
    settings: KafkaSettings, unique_name: str, position: dict[str, int]
) -> None:
    """Only offsets by partition are a position, and the source stays where it was."""
    topic = make_topic(settings, unique_name)
    with KafkaSource[bytes](settings, topic) as source:
        with pytest.raises(InvalidInput, match="position = "):
            source.resume(position)
        assert source.position == {"0": 0}


def test_a_message_without_a_value_is_empty_bytes(settings: KafkaSettings, unique_name: str) -> None:
    """A tombstone is handed out as b"" with its offset, not passed over."""
    topic = make_topic(settings, unique_name)
    with_producer = open_client(settings, "KafkaProducer")
    for value in (b"a", None, b"b"):
        with_producer.send(topic, value, key=b"k")
    with_producer.close(5)
    (batch,) = _batches(settings, topic, 10)
    assert (batch.items, list(batch.offsets)) == ([b"a", b"", b"b"], [0, 1, 2])


def test_offsets_that_hold_no_message_are_passed_over(settings: KafkaSettings, unique_name: str) -> None:
    """The marks of transactions take offsets: items keep theirs, and the position reaches the end."""
    topic = make_topic(settings, unique_name)
    producer = open_client(settings, "KafkaProducer", transactional_id=unique_name)
    producer.init_transactions()
    for value in (b"a", b"b"):
        producer.begin_transaction()
        producer.send(topic, value)
        producer.commit_transaction()
    producer.close(5)
    batches = _batches(settings, topic, 10)
    assert [(item, offset) for b in batches for item, offset in zip(b.items, b.offsets, strict=True)] == [
        (b"a", 0),
        (b"b", 2),
    ]
    assert batches[-1].position == {"0": 4}


# ---------------------------------------------------------------------- decoding


def _decode(value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise InvalidReport(f"not a number of {len(value)} bytes") from None


def test_what_cannot_be_decoded_is_rejected_with_its_offset(
    settings: KafkaSettings, unique_name: str
) -> None:
    """A decoder's refusal becomes a reject with reason, offset, origin and the raw bytes, in order."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, [b"1", b"\xff\x00", b"3", b"", b"5"])
    with KafkaSource(settings, topic, decode=_decode, until_end=True) as source:
        (batch,) = source.batches(10)
    assert (batch.items, list(batch.offsets)) == ([1, 3, 5], [0, 2, 4])
    assert [(r.reason, r.line, r.origin) for r in batch.rejected] == [
        ("not a number of 2 bytes", 1, f"{topic}/0"),
        ("not a number of 0 bytes", 3, f"{topic}/0"),
    ]
    assert batch.rejected[0].raw.encode("utf-8", "surrogateescape") == b"\xff\x00"
    assert batch.position == {"0": 5}


def test_an_error_that_is_no_refusal_passes_through(settings: KafkaSettings, unique_name: str) -> None:
    """A fault of the decoder itself is not taken for a bad message."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, [b"{"])
    with (
        KafkaSource(settings, topic, decode=json.loads, until_end=True) as source,
        pytest.raises(json.JSONDecodeError),
    ):
        list(source.batches(10))


# ---------------------------------------------------------------------- the end and the lag


def test_until_end_stops_at_the_end_of_the_start(settings: KafkaSettings, unique_name: str) -> None:
    """Messages that arrive during the loop are left for the next one, which gets all of them."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 20))
    with KafkaSource[bytes](settings, topic, until_end=True) as source:
        batches = source.batches(10)
        found = list(next(batches).items)
        send(settings, topic, numbered(20, 40))
        found += [item for batch in batches for item in batch.items]
        assert found == numbered(0, 20)
        assert source.position == {"0": 20}
        assert [item for batch in source.batches(7) for item in batch.items] == numbered(20, 40)
        assert list(source.batches(7)) == []


def test_until_end_cuts_what_was_fetched_beyond_the_end(
    settings: KafkaSettings, unique_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages that arrive after the end was taken, but before the first fetch, wait for the next loop."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 20))
    with KafkaSource[bytes](settings, topic, until_end=True) as source:
        with monkeypatch.context() as patched:
            bounds = Standing.bounds

            def send_more(standing: Standing) -> tuple[dict[int, int], dict[int, int]]:
                found = bounds(standing)
                send(settings, topic, numbered(20, 30))
                return found

            patched.setattr(Standing, "bounds", send_more)
            assert [item for batch in source.batches(100) for item in batch.items] == numbered(0, 20)
        assert source.position == {"0": 20}
        assert [item for batch in source.batches(100) for item in batch.items] == numbered(20, 30)


def test_without_messages_come_empty_batches(settings: KafkaSettings, unique_name: str) -> None:
    """An endless source hands out empty batches, no faster than it polls, and then what arrives."""
    topic = make_topic(settings, unique_name)
    with KafkaSource[bytes](settings, topic, poll_seconds=0.1) as source:
        batches = source.batches(10)
        start = time.monotonic()
        assert [next(batches).items for _ in range(5)] == [[]] * 5
        assert time.monotonic() - start > 0.3
        send(settings, topic, [b"x"])
        assert take(source, 1) == [b"x"]


def test_lag_is_what_is_not_read_yet(settings: KafkaSettings, unique_name: str) -> None:
    """The lag falls as batches are taken, is 0 at the end, and grows when messages arrive."""
    topic = make_topic(settings, unique_name, partitions=2)
    send(settings, topic, numbered(0, 30), 0)
    send(settings, topic, numbered(0, 10), 1)
    with KafkaSource[bytes](settings, topic) as source:
        assert (source.lag(), source.lags()) == (40, {0: 30, 1: 10})
        batches = source.batches(10)
        taken = len(next(batches).items)
        assert source.lag() == 40 - taken
        while taken < 40:
            taken += len(next(batches).items)
        assert (source.lag(), source.lags()) == (0, {0: 0, 1: 0})
        send(settings, topic, numbered(0, 5), 1)
        few = source.batches(2)
        until(lambda: bool(next(few).items))
        assert source.lags() == {0: 0, 1: 3}
        source.resume({"0": 30, "1": 11})
        assert source.lags() == {0: 0, 1: 4}


# ---------------------------------------------------------------------- groups


def _committed(settings: KafkaSettings, group: str, topic: str) -> int | None:
    consumer = open_client(settings, "KafkaConsumer", group_id=group)
    try:
        offset: int | None = consumer.committed(TopicPartition(topic, 0), timeout_ms=5000)
        return offset
    finally:
        consumer.close(autocommit=False)


def test_a_commit_informs_and_is_never_read(settings: KafkaSettings, unique_name: str) -> None:
    """The group learns the position, and a new member starts where its own position says all the same."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 50))
    with KafkaSource[bytes](settings, topic, group=unique_name) as source:
        assert take(source, 30, size=30) == numbered(0, 30)
        assert source.commit()
        assert source.assigned == (0,)
    assert _committed(settings, unique_name, topic) == 30
    with KafkaSource[bytes](settings, topic, group=unique_name) as source:
        assert take(source, 50) == numbered(0, 50)
        source.resume({"0": 45})
        assert take(source, 5) == numbered(45, 50)
    assert _committed(settings, unique_name, topic) == 30


def test_nothing_is_committed_unasked(settings: KafkaSettings, unique_name: str) -> None:
    """Reading and closing leave no committed offset behind."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 5))
    with KafkaSource[bytes](settings, topic, group=unique_name) as source:
        take(source, 5)
    assert _committed(settings, unique_name, topic) is None
    with KafkaSource[bytes](settings, topic) as source:
        assert not source.commit()


def test_members_share_the_partitions_and_repeat_nothing(settings: KafkaSettings, unique_name: str) -> None:
    """When a second member joins and leaves, the first goes on in each partition where it stood."""
    topic = make_topic(settings, unique_name, partitions=2)
    for partition in (0, 1):
        send(settings, topic, numbered(0, 40), partition)
    with KafkaSource[bytes](settings, topic, group=unique_name, poll_seconds=0.05) as first:
        found: dict[int, list[bytes]] = {0: [], 1: []}
        batches = first.batches(10)

        def go_on() -> None:
            batch = next(batches)
            found[batch.partition] += batch.items

        while sum(map(len, found.values())) < 80:
            go_on()
        with KafkaSource[bytes](settings, topic, group=unique_name, poll_seconds=0.05) as second:
            others = second.batches(10)
            limit = time.monotonic() + 30
            while not (len(first.assigned) == len(second.assigned) == 1):
                go_on()
                next(others)
                assert time.monotonic() < limit
            assert {*first.assigned, *second.assigned} == {0, 1}
        for partition in (0, 1):
            send(settings, topic, numbered(40, 60), partition)
        limit = time.monotonic() + 30
        while sum(map(len, found.values())) < 120:
            go_on()
            assert time.monotonic() < limit
    assert found == {0: numbered(0, 60), 1: numbered(0, 60)}


def test_a_group_and_chosen_partitions_exclude_each_other(settings: KafkaSettings, unique_name: str) -> None:
    """A group decides who reads what, so naming partitions beside it is refused."""
    topic = make_topic(settings, unique_name)
    with pytest.raises(InvalidInput, match="partitions = "):
        KafkaSource[bytes](settings, topic, partitions=[0], group="g")
    with pytest.raises(InvalidInput, match="partitions = 1: must be a whole number from 0 to 0"):
        KafkaSource[bytes](settings, topic, partitions=[1])


# ---------------------------------------------------------------------- the log changes


def test_messages_that_retention_has_deleted_are_counted_and_said(
    settings: KafkaSettings, unique_name: str
) -> None:
    """A position before the log's beginning goes on there, never silently."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 30))
    delete_records(settings, topic, 12)
    said: list[str] = []
    with KafkaSource[bytes](settings, topic, until_end=True, say=said.append) as source:
        assert (source.position, source.lost) == ({"0": 12}, {})
        source.resume({"0": 5})
        assert (source.position, source.lost) == ({"0": 12}, {0: 7})
        assert [item for batch in source.batches(10) for item in batch.items] == numbered(12, 30)
    assert said == [
        f"7 messages of {topic} are gone: partition 0 begins at 12, the position is 5; "
        f"going on at its beginning"
    ]


def test_messages_deleted_while_the_reader_waits_are_counted(
    settings: KafkaSettings, unique_name: str
) -> None:
    """Retention that overtakes a running reader is noticed, counted and said."""
    topic = make_topic(settings, unique_name)
    said: list[str] = []
    with KafkaSource[bytes](settings, topic, say=said.append) as source:
        send(settings, topic, numbered(0, 30))
        delete_records(settings, topic, 20)
        assert take(source, 10) == numbered(20, 30)
        assert source.lost == {0: 20}
    assert len(said) == 1


def test_a_position_beyond_the_end_is_refused(settings: KafkaSettings, unique_name: str) -> None:
    """A topic that was made again does not know the position: the error says so and what to do."""
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 30))
    with KafkaSource[bytes](settings, topic, until_end=True) as source:
        assert len([item for batch in source.batches(10) for item in batch.items]) == 30
        position = source.position
    remake_topic(settings, topic)
    send(settings, topic, numbered(0, 10))
    with KafkaSource[bytes](settings, topic) as source:
        with pytest.raises(
            InvalidInput, match=r"was cut or made again .* partition 0 ends at 10.* is 30; rest"
        ):
            source.resume(position)
        assert source.position == {"0": 0}


# ---------------------------------------------------------------------- the broker changes


@pytest.mark.usefixtures("refused_connections")
@pytest.mark.parametrize("group", [None, "members"])
def test_a_broker_that_is_killed_and_comes_back_loses_nothing(
    own_broker: Broker, unique_name: str, group: str | None
) -> None:
    """While it is away come empty batches and a line now and then; then it goes on exactly where it stood."""
    settings = settings_of(own_broker.bootstrap)
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 100))
    said: list[str] = []
    with KafkaSource[bytes](settings, topic, group=group, say=said.append) as source:
        assert take(source, 60, size=20) == numbered(0, 60)
        own_broker.kill()
        if group is not None:
            start = time.monotonic()
            assert not source.commit(timeout=1.0)
            assert time.monotonic() - start < 5
        batches = source.batches(20)
        found: list[bytes] = []
        end = time.monotonic() + 9
        while time.monotonic() < end:
            found += next(batches).items
        assert any(line.startswith(f"no contact with Kafka at {own_broker.bootstrap} for ") for line in said)
        own_broker.start()
        send(settings, topic, numbered(100, 130))
        until(lambda: bool(found.extend(next(batches).items) or len(found) >= 70))
        assert found == numbered(60, 130)
        assert source.commit() is (group is not None)


@pytest.mark.usefixtures("refused_connections")
def test_closing_without_a_broker_takes_a_few_seconds_at_most(own_broker: Broker, unique_name: str) -> None:
    """A member of a group leaves within five seconds although nobody is there to hear it."""
    settings = settings_of(own_broker.bootstrap)
    topic = make_topic(settings, unique_name)
    send(settings, topic, [b"x"])
    source = KafkaSource[bytes](settings, topic, group=unique_name)
    assert take(source, 1) == [b"x"]
    own_broker.kill()
    start = time.monotonic()
    source.close()
    source.close()
    assert time.monotonic() - start < 5
