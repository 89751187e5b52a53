"""Where a reader stands in the partitions of a topic, and where their logs begin and end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import BrokerUnavailable, InvalidInput
from .base import Position
from .kafka_clients import Say, translated
from .kafka_options import KafkaSettings, kafka_module

__all__ = ["Contact", "Standing"]

_CONTACT_SECONDS = 3.0  # of silence, after which it is asked whether the broker is there
_ANSWER_MS = 1000  # to wait for that answer
_BOUNDS_MS = 10_000  # to wait for the ends of the logs where they are needed


class Standing:
    """The next offset of each partition of one topic, kept by the reader and nobody else.

    Parameters
    ----------
    settings
        Where Kafka is.
    consumer
        The consumer of kafka-python.
    topic
        The topic.
    partitions
        The numbers of its partitions.
    say
        Told what a person should know.

    Raises
    ------
    BrokerUnavailable
        If Kafka does not answer in time.
    """

    def __init__(
        self, settings: KafkaSettings, consumer: Any, topic: str, partitions: Iterable[int], say: Say
    ) -> None:
        named = kafka_module("kafka.structs").TopicPartition
        self._illegal = kafka_module("kafka.errors").IllegalStateError
        self._settings = settings
        self._consumer = consumer
        self._topic = topic
        self._say = say
        self.names = {number: named(topic, number) for number in partitions}
        self.lost: dict[int, int] = {}
        self.starts, self.ends = self.bounds()
        self._goal = self.ends  # where the log ended when the position was set
        self.next = dict(self.starts)

    @property
    def position(self) -> dict[str, int]:
        """The next offsets, by the partition's number as text."""
        return {str(number): offset for number, offset in self.next.items()}

    @property
    def assigned(self) -> tuple[int, ...]:
        """The partitions that the consumer has now."""
        return tuple(sorted(name.partition for name in self._consumer.assignment()))

    def bounds(self, milliseconds: int = _BOUNDS_MS) -> tuple[dict[int, int], dict[int, int]]:
        """Ask for the first offset, and the one after the last, of each partition.

        Raises
        ------
        BrokerUnavailable
            If Kafka does not answer in time.
        """
        names = list(self.names.values())
        with translated(self._settings):
            starts = self._consumer.beginning_offsets(names, timeout_ms=milliseconds)
            ends = self._consumer.end_offsets(names, timeout_ms=milliseconds)
        return {n.partition: starts[n] for n in names}, {n.partition: ends[n] for n in names}

    def move(self, position: Position) -> None:
        """Go to a position; partitions that it does not name begin where their log does.

        Raises
        ------
        InvalidInput
            If it does not fit the topic.
        BrokerUnavailable
            If Kafka does not answer in time.
        """
        wanted = self._read(position)
        starts, self.ends = self.bounds()
        self._goal = self.ends
        self._place({**starts, **wanted}, starts)
        self.seek(self._consumer.assignment())

    def recover(self) -> None:
        """Go on where the log begins, in the assigned partitions that retention has passed.

        Raises
        ------
        InvalidInput
            If the position lies beyond the log's end.
        """
        try:
            starts, self.ends = self.bounds(_ANSWER_MS)
        except BrokerUnavailable:
            return
        self._place({number: self.next[number] for number in self.assigned}, starts)
        self.seek(self._consumer.assignment())

    def seek(self, names: Iterable[Any]) -> None:
        """Send the consumer to the position, in those of the partitions that it has at this moment.

        Asks nobody, so kafka-python's own thread may call it when partitions are assigned.
        """
        for name in tuple(names):
            self.names.setdefault(name.partition, name)  # a topic may be given more partitions
            try:
                self._consumer.seek(name, self.next.setdefault(name.partition, 0))
            except ValueError:  # taken away just now; it is sought when it is assigned again
                continue

    def pass_gaps(self) -> None:
        """Move over offsets without messages: marks of transactions, and what compaction has removed.

        Only right when everything that the consumer gave has been handed out.
        """
        paused = self._consumer.paused()
        for name in tuple(self._consumer.assignment()):
            if name in paused:
                continue
            try:
                reached = self._consumer.position(name, timeout_ms=0)
            except kafka_module("kafka.errors").KafkaError:
                continue
            if reached is not None:
                self.next[name.partition] = max(self.next[name.partition], reached)

    def lag(self, number: int) -> int:
        """Return how far a partition's end, as last heard, is from the position."""
        try:
            heard = self._consumer.highwater(self.names[number])
        except self._illegal:  # taken away just now
            heard = None
        return max(0, max(heard or 0, self.ends.get(number, 0)) - self.next[number])

    def reached(self, ends: Mapping[int, int]) -> bool:
        """Say whether everything before the ends is read, in all partitions or in those assigned."""
        if all(self.next[number] >= end for number, end in ends.items()):
            return True
        assigned = self.assigned
        return bool(assigned) and all(self.next[number] >= ends.get(number, 0) for number in assigned)

    @property
    def caught_up(self) -> bool:
        """Whether everything before the ends of when the position was set is read, of what is assigned."""
        return bool(self.assigned) and self.reached(self._goal)

    def progress(self, ends: Mapping[int, int]) -> float | None:
        """Return the part before the ends that is read; None without ends."""
        total = sum(end - self.starts.get(number, 0) for number, end in ends.items())
        done = sum(self.next[number] - self.starts.get(number, 0) for number in ends)
        return min(1.0, done / total) if total > 0 else None

    def cut(self, what: str) -> InvalidInput:
        """Return the error for a position that the topic does not know any more."""
        return InvalidInput(
            f"topic {self._topic!r} was cut or made again since the position was stored: {what}; restore the "
            f"topic, or begin anew without the stored position and the state that belongs to it"
        )

    def _read(self, position: Position) -> dict[int, int]:
        wanted = {}
        for name, offset in position.items():
            known = name.isascii() and name.isdecimal() and int(name) in self.names
            if not known or isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                allowed = ", ".join(map(str, self.names))
                raise InvalidInput(
                    f"position = {dict(position)!r}: must be offsets >= 0 of partitions {allowed}"
                )
            wanted[int(name)] = offset
        return wanted

    def _place(self, wanted: Mapping[int, int], starts: Mapping[int, int]) -> None:
        """Set the position where it lies in the log; say what is lost, refuse what lies beyond."""
        for number, offset in wanted.items():
            if offset > self.ends[number]:
                raise self.cut(f"partition {number} ends at {self.ends[number]}, the position is {offset}")
        for number, offset in wanted.items():
            gone = starts[number] - offset
            if gone > 0:
                self.lost[number] = self.lost.get(number, 0) + gone
                self._say(
                    f"{gone} messages of {self._topic} are gone: partition {number} begins at "
                    f"{starts[number]}, the position is {offset}; going on at its beginning"
                )
            self.next[number] = max(offset, starts[number])


class Contact:
    """Notices that a broker is away, and says so every few seconds until it is back.

    Parameters
    ----------
    standing
        Used to ask the broker.
    where, group
        The broker and the group, for a person.
    say
        Told.
    """

    def __init__(self, standing: Standing, where: str, group: str | None, say: Say) -> None:
        self._standing = standing
        self._where = where
        self._group = group
        self._say = say
        self._next = 0.0
        self._silent = False
        self.heard = time.monotonic()
        """When the broker was heard last."""

    def check(self) -> None:
        """After a silence, ask the broker for the logs' ends, now and then."""
        now = time.monotonic()
        if now < max(self.heard + _CONTACT_SECONDS, self._next):
            return
        try:
            self._standing.ends = self._standing.bounds(_ANSWER_MS)[1]
        except BrokerUnavailable:
            self._silent = True
            self._say(f"no contact with Kafka at {self._where} for {now - self.heard:.0f} s; trying again")
        else:
            self.heard = time.monotonic()
            if self._silent:
                self._silent = False
                self._say(f"contact with Kafka at {self._where} again")
            if self._group is not None and not self._standing.assigned:
                self._say(f"waiting for partitions from the group {self._group}")
        self._next = time.monotonic() + _CONTACT_SECONDS
