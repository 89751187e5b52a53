"""Parts that stand in for Kafka and the disk in tests of the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ldp_stream import Aggregator, Campaign, Reporter
from ldp_stream.codec import encode_report
from ldp_stream.connectors.base import Checkpoint, CheckpointStore, MessageBatch, Position
from ldp_stream.connectors.service.letters import Letter
from ldp_stream.errors import BrokerUnavailable
from ldp_stream.reports import Parameters

EPOCHS = 15


class Tokens:
    """Counted tokens in a dict; ``pending`` counts those since the last save of a :class:`Store`."""

    def __init__(self, horizon: int = 10**6) -> None:
        self.horizon = horizon
        self.pending = 0
        self._counted: dict[tuple[int, bytes], int] = {}

    def seen(
        self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Look each token up."""
        epoch = -(-self.horizon // EPOCHS)
        counted = [self._counted.get((partition, bytes(token)), -(10**12)) for token in tokens]
        return np.asarray(offsets // epoch - np.array(counted) // epoch <= EPOCHS)

    def add(self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]) -> None:
        """Remember each token's offset."""
        self.pending += len(tokens)
        for offset, token in zip(offsets.tolist(), tokens, strict=True):
            self._counted[partition, bytes(token)] = offset


class Store(CheckpointStore):
    """Checkpoints in a list; saving fails while ``fault`` is set."""

    def __init__(self, tokens: Tokens, events: list[str] | None = None) -> None:
        self.saved: list[Checkpoint] = []
        self.fault: OSError | None = None
        self._tokens = tokens
        self._events = [] if events is None else events

    def load(self) -> Checkpoint | None:
        """Return the newest."""
        return self.saved[-1] if self.saved else None

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep it, or fail."""
        if self.fault is not None:
            raise self.fault
        self._events.append("save")
        self.saved.append(checkpoint)
        self._tokens.pending = 0

    def close(self) -> None:
        """Do nothing."""


class Log:
    """The messages of partitions, in lists; hands out one batch a turn, then ends or stays empty."""

    def __init__(self, messages: Sequence[Sequence[bytes]], *, endless: bool = False) -> None:
        self._messages = messages
        self._endless = endless
        self._position = dict.fromkeys(range(len(messages)), 0)
        self.commits: list[Position] = []

    @property
    def position(self) -> Position:
        """The next offset of each partition."""
        return {str(number): offset for number, offset in self._position.items()}

    def resume(self, position: Position) -> None:
        """Go there."""
        self._position = {int(number): offset for number, offset in position.items()}

    def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
        """Hand out the partitions in turn."""
        while True:
            empty = True
            for number, messages in enumerate(self._messages):
                first = self._position[number]
                items = messages[first : first + size]
                if items:
                    empty = False
                    self._position[number] += len(items)
                    offsets = range(first, first + len(items))
                    yield MessageBatch(items, self.position, partition=number, offsets=offsets)
            if empty and not self._endless:
                return
            if empty:
                yield MessageBatch([], self.position)

    @property
    def caught_up(self) -> bool:
        """Whether all that is there is read."""
        return True

    def lag(self) -> int:
        """Return what is left."""
        return sum(len(all_) - self._position[number] for number, all_ in enumerate(self._messages))

    def commit(self) -> None:
        """Note the position."""
        self.commits.append(self.position)

    def close(self) -> None:
        """Do nothing."""


class Outlet:
    """What was published, in lists; settling fails while ``fault`` is set."""

    def __init__(self, events: list[str] | None = None) -> None:
        self.sent_parameters: list[Parameters] = []
        self.sent_estimates: list[bytes] = []
        self.sent_letters: list[Letter] = []
        self.fault: BrokerUnavailable | None = None
        self._events = [] if events is None else events

    def parameters(self, message: Parameters) -> None:
        """Keep them, or fail."""
        if self.fault is not None:
            raise self.fault
        self.sent_parameters.append(message)

    def estimate(self, message: bytes) -> None:
        """Keep it, or fail."""
        if self.fault is not None:
            raise self.fault
        self.sent_estimates.append(message)

    def tend(self) -> None:
        """Fail, if so set."""
        if self.fault is not None:
            raise self.fault

    def letters(self, letters: Sequence[Letter]) -> None:
        """Keep them."""
        self._events.append("letters")
        self.sent_letters += letters

    def settle(self) -> None:
        """Fail, if so set."""
        if self.fault is not None:
            raise self.fault
        self._events.append("settle")

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


class Clock:
    """Seconds that go on by a step at every look."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 1000.0
        self.step = step

    def __call__(self) -> float:
        """Return the time."""
        self.now += self.step
        return self.now


def after(n: int) -> Callable[[], bool]:
    """Return what says to stop from its n-th call on."""
    calls = iter(range(n))
    return lambda: next(calls, None) is None


def campaign(**changes: object) -> Campaign:
    """Return a small campaign."""
    given = {
        "kind": "quantile",
        "name": "service-tests",
        "tau": 0.5,
        "epsilon": 4.0,
        "target": {"lower": 0, "upper": 60},
        "features": {"miles": {"lower": 0, "upper": 30}},
        **changes,
    }
    return Campaign.model_validate(given)


def honest_log(of: Campaign, n: int, seed: int = 0) -> list[list[bytes]]:
    """Return each partition's messages as honest devices that read every round send them."""
    draw = np.random.default_rng(seed)
    devices = Reporter.simulated(of, seed=seed)
    found: list[list[bytes]] = []
    for number in range(of.partitions):
        server = Aggregator(of, partition=number)
        messages = []
        for miles in draw.uniform(0, 30, n // of.partitions).tolist():
            report = devices.report({"miles": miles}, 5 + 1.5 * miles, server.parameters())
            server.ingest(report)
            messages.append(encode_report(report))
        found.append(messages)
    return found
