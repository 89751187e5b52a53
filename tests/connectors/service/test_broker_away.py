"""The broker goes away while the service reads, publishes and stops: its state stays the plain fold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldp_stream.connectors.base import MessageBatch
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.kafka import KafkaSource
from ldp_stream.connectors.kafka_topics import Topics
from ldp_stream.connectors.service.kafka_places import KafkaOutlet
from ldp_stream.connectors.service.loop import Service
from ldp_stream.connectors.service.settings import ServiceSettings
from ldp_stream.connectors.service.state import ServiceState
from ldp_stream.connectors.service.tokens import CountedTokens
from tests.connectors.kafka_support import make_topic, numbered, send, settings_of, take, until
from tests.connectors.service.parts import Log, campaign, honest_log
from tests.connectors.service.serving import (
    HORIZON,
    Served,
    Stand,
    assert_letters,
    check_fold,
    mixed_log,
    saved_position,
    wait_for,
)
from tests.connectors.service.writer import Writer
from tests.kafka_broker import Broker, Reachable
from tests.server.plain_fold import plain_fold


def test_a_broker_that_is_killed_while_reading_publishing_and_stopping(
    own_broker: Broker, unique_name: str, tmp_path: Path
) -> None:
    """The service stays up, says so, goes on, can be stopped meanwhile, and loses and doubles nothing."""
    stand = Stand(tmp_path, own_broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 60_000, seed=2)
    send(stand.settings, stand.topics.reports, log[:40_000])
    with stand.serve() as service:
        service.says("refused")  # a first batch of the backlog is read
        own_broker.kill()
        own_broker.start()
        stand.caught_up(40_000)
        with Writer(stand, log[40_000:], pause=0.02) as writer:
            writer.allow(10_000)
            until(lambda: saved_position(stand.checkpoint)["0"] > 41_000)
            said = silences(service)
            own_broker.kill()
            until(lambda: silences(service) > said)
            own_broker.start()
            writer.allow(5_000)
            before = saved_position(stand.checkpoint)["0"]
            until(lambda: saved_position(stand.checkpoint)["0"] > before)
            own_broker.kill()
            code = service.stop()
            assert code in (0, 1)
            service.says("all of it is in" if code == 0 else "the next start goes on from the last save")
            own_broker.start()
            writer.allow()
            writer.done()
    kept = stand.log()
    assert {message for _, message in kept} == set(log)
    plain = plain_fold(stand.campaign, kept, HORIZON)
    with stand.serve() as service:
        stand.caught_up(len(kept))
        wait_for(lambda: stand.estimate()["n_reports"] == plain.server.n_reports)
        assert stand.newest(stand.topics.parameters) == plain.server.parameters().model_dump(mode="json")
        assert service.stop() == 0
    check_fold(stand.checkpoint, stand.campaign, kept)
    assert_letters(stand, kept, plain)


def silences(service: Served) -> int:
    """How often the service has said that Kafka does not answer, to its reading or to its writing."""
    return sum("no contact with Kafka" in line or "ERROR" in line for line in service.said)


def test_a_join_that_outlasts_a_poll_is_taken_up(broker: Reachable, unique_name: str) -> None:
    """A poll that ends between the answers to JoinGroup and SyncGroup does not leave the partition unread."""
    settings = settings_of(broker.bootstrap)
    topic = make_topic(settings, unique_name)
    send(settings, topic, numbered(0, 10))
    with KafkaSource[bytes](settings, topic, group=unique_name, poll_seconds=0.1) as source:
        assert take(source, 10) == numbered(0, 10)
        coordinator = source._consumer._coordinator
        join = coordinator._do_join_and_sync_async

        async def slow_join() -> bytes:
            answer: bytes = await join()
            await coordinator._manager._net.sleep(0.5)
            return answer

        coordinator._do_join_and_sync_async = slow_join
        coordinator._assignment_snapshot = {topic: {0, 1}}  # as if the topic had changed since
        send(settings, topic, numbered(10, 20))
        assert take(source, 10, limit=20) == numbered(10, 20)


class BrokerGoesAway(Log):
    """A log whose reader kills the broker just before it hands out the third batch."""

    def __init__(self, messages: list[list[bytes]], broker: Broker) -> None:
        super().__init__(messages)
        self._broker = broker

    def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
        """Hand out the batches."""
        for number, batch in enumerate(super().batches(size)):
            if number == 2:
                self._broker.kill()
            yield batch


def test_a_broker_that_does_not_take_dead_letters(
    own_broker: Broker, unique_name: str, tmp_path: Path
) -> None:
    """The checkpoint waits for the letters: nothing is saved before they are stored, and then all is."""
    stand = Stand(tmp_path, own_broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 4_000, seed=5)
    said: list[str] = []
    at_the_fault: list[dict[str, int]] = []

    def note(level: str, event: str, text: str, **facts: object) -> None:
        del level, text, facts
        said.append(event)
        if event == "failing":
            at_the_fault.append(saved_position(stand.checkpoint))
            own_broker.start()

    counted = CountedTokens(HORIZON)
    times = ServiceSettings(batch=500, save_seconds=0.01, retry_seconds=0.1)
    with (
        FileCheckpoint(stand.checkpoint, counted) as store,
        KafkaOutlet(stand.settings, stand.topics) as outlet,
    ):
        store.load()
        state = ServiceState(stand.campaign, counted)
        feed = BrokerGoesAway([log], own_broker)
        assert Service(state, feed, outlet, store, counted, times, note, lambda: False).run()
    assert [event for event in said if event in ("failing", "works again")] == ["failing", "works again"]
    assert at_the_fault == [{"0": 1_000}]
    assert_letters(stand, list(enumerate(log)), check_fold(stand.checkpoint, stand.campaign, enumerate(log)))


def test_a_message_of_any_size_that_is_no_report_is_a_dead_letter(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """Junk as large as the broker takes does not stop the service, and all its bytes are in the letters."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    (good,) = honest_log(stand.campaign, 20)
    junk = [b"\xff" * 1_000_000, bytes(range(250)) * 3200]
    send(stand.settings, stand.topics.reports, [*junk, *good])
    with stand.serve() as service:
        stand.caught_up(22)
        assert service.stop() == 0
    assert stand.estimate()["n_reports"] == 20
    found: dict[int, bytes] = {}
    for letter in stand.letters():
        found[letter["offset"]] = found.get(letter["offset"], b"") + letter["raw"]
    assert found == dict(enumerate(junk))


@pytest.mark.parametrize("refusing", ["parameters", "estimates"])
def test_a_topic_that_refuses_what_is_published_is_said(
    broker: Reachable, unique_name: str, tmp_path: Path, refusing: str
) -> None:
    """What a topic does not take is an error on the log; the other goes on, and reports count the same."""
    topics = Topics.of(campaign(name=unique_name))
    settings = settings_of(broker.bootstrap)
    refused = getattr(topics, refusing)
    make_topic(settings, refused, max_message_bytes="50", cleanup_policy="compact")
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    (good,) = honest_log(stand.campaign, 500)
    send(settings, topics.reports, good[:250])
    with stand.serve() as service:
        assert refused in service.says("ERROR: not published")
        send(settings, topics.reports, good[250:])
        stand.caught_up(500)
        if refusing == "parameters":
            wait_for(lambda: stand.estimate()["n_reports"] == 500)
        else:
            plain = plain_fold(stand.campaign, stand.log(), HORIZON).server
            newest = plain.parameters().model_dump(mode="json")
            wait_for(lambda: stand.newest(topics.parameters) == newest)
        assert service.stop() == 0


def test_a_second_service_without_a_partition_publishes_nothing(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """Started beside one that has the partition, it does not overwrite what that one has published."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    (good,) = honest_log(stand.campaign, 500)
    send(stand.settings, stand.topics.reports, good)
    with stand.serve() as service:
        stand.caught_up(500)
        wait_for(lambda: stand.estimate()["n_reports"] == 500)
        with stand.serve(checkpoint=tmp_path / "b.ckpt") as second:
            time.sleep(6.0)  # whichever of the two the group gives the partition to
            assert second.stop() == 0
        assert stand.estimate()["n_reports"] == 500
        assert service.stop() == 0
    assert stand.estimate()["n_reports"] == 500
