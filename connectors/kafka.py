"""Messages of a Kafka topic as a source, and a topic as a sink; needs kafka-python.

The position of a :class:`KafkaSource` is the offset of the next message of each partition,
``{"0": 1200, "1": 1187}``. It is the source's own and the only truth: who keeps it with a state resumes
exactly there. What a consumer group has committed is never read; it only shows others how far a reader is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .._validate import integer_in, positive
from ..errors import BrokerUnavailable, CampaignMismatch, InvalidInput, InvalidReport, UnusableRow
from .base import MessageBatch, Position, Reject, Source
from .kafka_clients import Say, never, open_client, silent
from .kafka_options import KafkaSettings, kafka_module
from .kafka_sink import KafkaSink, KeyedValue
from .kafka_standing import Contact, Standing
from .kafka_topics import partitions_of

__all__ = ["KafkaSink", "KafkaSource", "KeyedValue"]

T = TypeVar("T")


class KafkaSource(Source[T]):
    """The messages of a topic, in batches of one partition each.

    Guaranteed: each partition's messages come in the order of their offsets, none twice and none left out,
    whatever the broker or the group does meanwhile; what retention has deleted is said and counted in
    :attr:`lost`. A broker that goes away gives empty batches until it is back.

    Not guaranteed: an order between partitions; that two members of a group see disjoint messages when
    partitions change hands (each goes by its own position). Not for use by two threads.

    Parameters
    ----------
    settings
        Where Kafka is; it is waited for.
    topic
        The topic, which must be there.
    partitions
        Numbers of the partitions to read; all when None. With a group, the group decides.
    decode
        Makes an item of a message's value; what it raises of InvalidReport, CampaignMismatch and UnusableRow
        makes a reject. When None the items are the values as bytes. A message without a value is ``b""``.
    group
        A consumer group to join: its members share the partitions.
    until_end
        Whether :meth:`batches` ends where the log ended when it was called.
    poll_seconds
        How long to wait for messages before an empty batch.
    say
        Told what a person should know: what is waited for, no contact, messages that are gone.
    stopping
        Asked whether to give up waiting for a broker when the source is made.

    Raises
    ------
    InvalidInput
        If the topic or a partition does not exist, or an argument is out of range.
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
        partitions: Sequence[int] | None = None,
        decode: Callable[[bytes], T] | None = None,
        group: str | None = None,
        until_end: bool = False,
        poll_seconds: float = 0.2,
        say: Say = silent,
        stopping: Callable[[], bool] = never,
    ) -> None:
        self._poll_ms = round(1000 * positive(poll_seconds=poll_seconds))
        count = partitions_of(settings, topic, say, stopping)
        if partitions is not None and group is not None:
            raise InvalidInput(f"partitions = {partitions!r}: must be None with a group, which deals them")
        chosen = range(count) if partitions is None else sorted({*partitions})
        for partition in chosen:
            integer_in(0, count - 1, partitions=partition)
        self.topic = topic
        self._settings = settings
        self._decode = decode
        self._group = group
        self._until_end = until_end
        self._say = say
        self._errors = errors = kafka_module("kafka.errors")
        self._passing = (
            errors.RetriableError,
            errors.UnknownBrokerIdError,
            errors.UnknownMemberIdError,
            errors.IllegalGenerationError,
            errors.RebalanceInProgressError,
        )
        self._moves = 0  # how often the position was set from outside
        self._not_committed = False
        self._closed = False
        self._consumer = open_client(
            settings,
            "KafkaConsumer",
            say,
            stopping,
            group_id=group,
            session_timeout_ms=10_000,  # after which the group misses a member that was killed
            enable_auto_commit=False,
            auto_offset_reset="none",
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
        try:
            self._standing = Standing(settings, self._consumer, topic, chosen, say)
            self._contact = Contact(self._standing, settings.servers, group, say)
            self._join()
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------ the contract of a source

    @property
    def position(self) -> Position:
        """The offset of the next message of each partition, by its number as text."""
        return self._standing.position

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this source may read."""
        return tuple(self._standing.names)

    @property
    def assigned(self) -> tuple[int, ...]:
        """The partitions that this source reads now; with a group, what it was given."""
        return self._standing.assigned

    @property
    def lost(self) -> dict[int, int]:
        """How many offsets of each partition retention had deleted before they were read, where any."""
        return dict(self._standing.lost)

    def resume(self, position: Position) -> None:
        """Go to a position of an earlier reading.

        A partition that it does not name starts at the log's beginning. Messages between the position and the
        log's beginning are gone: that is said and counted in :attr:`lost`.

        Raises
        ------
        InvalidInput
            If it names a partition that this source does not read, or lies beyond the log's end: the topic
            was cut or made again.
        BrokerUnavailable
            If Kafka does not answer in time.
        """
        self._standing.move(position)
        self._moves += 1

    def batches(self, size: int) -> Iterator[MessageBatch[T]]:
        """Hand out at most ``size`` messages of one partition at a time; empty batches while nothing arrives.

        Raises
        ------
        InvalidInput
            If the topic was cut or made again.
        BrokerUnavailable
            If Kafka refuses to go on, or, with ``until_end``, does not answer at the start.
        """
        most = integer_in(1, 1 << 20, size=size)
        ends: dict[int, int] = {}
        if self._until_end:
            ends = self._standing.ends = self._standing.bounds()[1]
        self._consumer.resume(*self._consumer.paused())
        self._standing.seek(self._consumer.assignment())  # after an interruption the consumer may be ahead
        while not (self._until_end and self._standing.reached(ends)):
            moves = self._moves
            polled = self._poll(most)
            for name, records in polled.items():
                if self._moves != moves:
                    break
                if (batch := self._batch(name, records, ends)) is not None:
                    yield batch
            if not polled:
                yield MessageBatch([], self.position, progress=self._standing.progress(ends))

    def close(self) -> None:
        """Leave the group and release the connections, within a few seconds."""
        if self._closed:
            return
        self._closed = True
        try:
            self._consumer.close(autocommit=False, timeout_ms=2000)
        except (self._errors.KafkaError, RuntimeError) as error:
            self._say(f"Kafka was left without a word: {self._settings.hide(str(error))}")

    # ------------------------------------------------------------------ beyond the contract

    @property
    def caught_up(self) -> bool:
        """Whether what was in the logs when the position was set is read; False while nothing is assigned."""
        return self._standing.caught_up

    def lag(self) -> int | None:
        """Return how many offsets lie between the position and the logs' ends as last heard.

        Over the assigned partitions; None while there are none. Asks nobody, so it takes no time.
        """
        lags = self.lags()
        return sum(lags.values()) if lags else None

    def lags(self) -> dict[int, int]:
        """Return the lag of each assigned partition."""
        return {number: self._standing.lag(number) for number in self.assigned}

    def commit(self, timeout: float = 2.0) -> bool:
        """Tell the group how far this source is, and say whether it was told; without a group do nothing.

        This is only for tools that show a group's lag; a failure does no harm.
        """
        if self._group is None:
            return False
        commit, standing = kafka_module("kafka.structs").OffsetAndMetadata, self._standing
        offsets = {standing.names[each]: commit(standing.next[each], "", -1) for each in self.assigned}
        try:
            self._consumer.commit(offsets, timeout_ms=int(1000 * timeout))
        except (self._errors.KafkaError, RuntimeError) as error:
            if not self._not_committed:
                self._not_committed = True
                self._say(f"the group was not told the position: {self._settings.hide(str(error))}")
            return False
        self._not_committed = False
        return True

    # ------------------------------------------------------------------ reading

    def _poll(self, most: int) -> Mapping[Any, list[Any]]:
        """Return new records by partition; none while nothing arrives or the broker is away."""
        started = time.monotonic()
        try:
            self._take_up_join()
            polled: Mapping[Any, list[Any]] = self._consumer.poll(timeout_ms=self._poll_ms, max_records=most)
        except (self._errors.OffsetOutOfRangeError, self._errors.NoOffsetForPartitionError):
            self._standing.recover()
            return {}
        except self._errors.LogTruncationError as error:
            raise self._standing.cut(str(error)) from None
        except self._passing:
            polled = {}
        except self._errors.KafkaError as error:
            raise BrokerUnavailable(
                f"Kafka at {self._settings.servers}: {self._settings.hide(str(error))}"
            ) from None
        if polled:
            self._contact.heard = time.monotonic()
            return polled
        self._standing.pass_gaps()
        self._contact.check()
        time.sleep(max(0.0, self._poll_ms / 1000 - (time.monotonic() - started)))  # never spin
        return polled

    def _take_up_join(self) -> None:
        """Have a join that outlasted the poll that began it taken up by the next one.

        kafka-python 3.0 forgets such a join where only a change of the topic's metadata had caused it: the
        group then waits for this member, and nothing is read any more.
        """
        coordinator: Any = getattr(self._consumer, "_coordinator", None)
        if self._group is not None and getattr(coordinator, "rejoining", False):
            coordinator.request_rejoin()

    def _batch(self, name: Any, records: list[Any], ends: Mapping[int, int]) -> MessageBatch[T] | None:
        """Make a batch and move the position; None if nothing of the records is due."""
        number, standing = name.partition, self._standing
        if self._group is not None and name not in self._consumer.assignment():
            return None  # taken away since the poll; whoever has it now reads it
        if records[0].offset < standing.next[number]:  # read again after a rebalance
            records = [record for record in records if record.offset >= standing.next[number]]
        end = ends.get(number)
        if end is not None and records and records[-1].offset >= end - 1:
            records = [record for record in records if record.offset < end]
            self._consumer.pause(name)
        if not records:
            return None
        first, last = records[0].offset, records[-1].offset
        standing.next[number] = last + 1
        if self._decode is None:
            items: list[Any] = [record.value or b"" for record in records]
            offsets: Sequence[int] = range(first, last + 1)
            if len(offsets) != len(items):
                offsets = [record.offset for record in records]
            rejected: list[Reject] = []
        else:
            items, offsets, rejected = self._decoded(records, self._decode)
        return MessageBatch(items, self.position, rejected, self._standing.progress(ends), number, offsets)

    def _decoded(
        self, records: list[Any], decode: Callable[[bytes], T]
    ) -> tuple[list[T], list[int], list[Reject]]:
        items, offsets, rejected = [], [], []
        for record in records:
            value = record.value or b""
            try:
                items.append(decode(value))
            except (InvalidReport, CampaignMismatch, UnusableRow) as error:
                origin = f"{self.topic}/{record.partition}"
                text = value.decode("utf-8", "surrogateescape")
                rejected.append(Reject(str(error), record.offset, text, origin))
            else:
                offsets.append(record.offset)
        return items, offsets, rejected

    def _join(self) -> None:
        """Begin to read: every partition of this source, or what the group gives."""
        standing = self._standing
        if self._group is None:
            self._consumer.assign(list(standing.names.values()))
            standing.seek(standing.names.values())
            return
        # The listener runs in kafka-python's own thread; a seek there is done before anything is fetched.
        kind: Any = kafka_module().ConsumerRebalanceListener
        methods = {
            "on_partitions_revoked": lambda *_: None,
            "on_partitions_assigned": lambda _, names: standing.seek(names),
        }
        self._consumer.subscribe(topics=[self.topic], listener=type("Listener", (kind,), methods)())
