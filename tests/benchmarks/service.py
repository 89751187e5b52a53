"""The service's benchmarks, against a real broker: reports a second beside a loop that only counts messages.

Both read the same topic in the same run, in turn, with the same fetching. The service does everything that
it does in life: checks, folds, publishes, and saves state, offsets and tokens to a file.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from kafka import KafkaConsumer, TopicPartition

from ldp_stream import Campaign
from ldp_stream.codec import decode_report, report_to_json
from ldp_stream.connectors.base import MessageBatch, Position
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.kafka import KafkaSink, KeyedValue
from ldp_stream.connectors.kafka_clients import never, silent
from ldp_stream.connectors.kafka_options import KafkaSettings
from ldp_stream.connectors.kafka_topics import ensure_topics
from ldp_stream.connectors.service.kafka_places import open_kafka
from ldp_stream.connectors.service.loop import Service
from ldp_stream.connectors.service.outlets import FileOutlet
from ldp_stream.connectors.service.settings import ServiceSettings
from ldp_stream.connectors.service.state import ServiceState
from ldp_stream.connectors.service.tokens import CountedTokens

from .harness import Row
from .quantile import campaign, cqx_of

__all__ = ["rows"]

MICRO = 1e6
_LAYOUT = np.dtype([("kind", "u1"), ("digest", "V8"), ("round", "<u4"), ("chain", "<u2"), ("token", "V16"),
                    ("block", "<u4"), ("category", "<u2")])  # fmt: skip


def messages(contract: Campaign, first: int, n: int, seed: int) -> list[bytes]:
    """Return n good compact reports, the ones that follow ``first`` good ones, each of a new user."""
    draw = np.random.default_rng([seed, first])
    schedule = contract.round_schedule
    number, start = schedule.advance(0, 0, first)
    rounds: list[int] = []
    while len(rounds) < n:
        stop = start + schedule.length(start)
        rounds += [number] * (stop - max(start, first))
        number, start = number + 1, stop
    found = np.zeros(n, _LAYOUT)
    found["kind"] = 1
    found["digest"] = np.void(bytes.fromhex(contract.digest_prefix))
    found["round"] = rounds[:n]
    found["token"] = np.frombuffer(draw.bytes(16 * n), "V16")
    found["block"] = draw.integers(0, cqx_of(contract).n_blocks, n)
    found["category"] = draw.integers(0, cqx_of(contract).categories(0), n)
    return [row.tobytes() for row in found]


class Made:
    """An endless log without a broker: messages are made when they are asked for, and stop at ``most``."""

    def __init__(self, contract: Campaign, most: int) -> None:
        self._contract = contract
        self._most = most
        self._next = 0

    @property
    def position(self) -> Position:
        """The next offset."""
        return {"0": self._next}

    def resume(self, position: Position) -> None:
        """Go there."""
        self._next = position["0"]

    def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
        """Make the next messages."""
        while self._next < self._most:
            first, n = self._next, min(size, self._most - self._next)
            self._next += n
            yield MessageBatch(
                messages(self._contract, first, n, seed=1), self.position, offsets=range(first, first + n)
            )

    @property
    def caught_up(self) -> bool:
        """Always: what is made is always new."""
        return True

    def lag(self) -> int:
        """Return what is left."""
        return self._most - self._next

    def commit(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _quiet(level: str, event: str, text: str, **facts: object) -> None:
    """Say nothing."""


def serve(contract: Campaign, settings: KafkaSettings, n: int, folder: Path, group: str) -> float:
    """Serve the whole topic from an empty checkpoint; return the seconds from first poll to last save."""
    with ExitStack() as held:
        tokens = CountedTokens()
        store = held.enter_context(FileCheckpoint(folder / f"{group}.ckpt", tokens))
        state = ServiceState(contract, tokens)
        feed, outlet = open_kafka(contract, settings, group, None, silent, never, held)

        def stopping() -> bool:
            return state.n_reports + sum(state.refused.values()) >= n

        service = Service(state, feed, outlet, store, tokens, ServiceSettings(), _quiet, stopping)
        started = time.perf_counter()
        assert service.run()
        return time.perf_counter() - started


def count(topic: str, settings: KafkaSettings, n: int) -> float:
    """Count the messages of a topic with kafka-python alone; return the seconds."""
    consumer = KafkaConsumer(bootstrap_servers=settings.servers, enable_auto_commit=False)
    with closing(consumer):
        name = TopicPartition(topic, 0)
        consumer.assign([name])
        consumer.seek_to_beginning(name)
        most = ServiceSettings().batch
        seen = 0
        started = time.perf_counter()
        while seen < n:
            for records in consumer.poll(timeout_ms=200, max_records=most).values():
                seen += len(records)
        return time.perf_counter() - started


def fill(settings: KafkaSettings, contract: Campaign, content: Sequence[bytes]) -> str:
    """Write messages to the campaign's topic of reports, and return its name."""
    topic = ensure_topics(settings, contract).reports
    with KafkaSink(settings, topic, timeout=60.0) as sink:
        for first in range(0, len(content), 10_000):
            sink.write(KeyedValue(None, message, 0) for message in content[first : first + 10_000])
        sink.flush()
    return topic


def _best(programs: Sequence[Callable[[], float]], rounds: int) -> list[float]:
    """Return the shortest of what each program returns, over interleaved rounds."""
    best = [float("inf")] * len(programs)
    for _ in range(rounds):
        for place, program in enumerate(programs):
            gc.collect()
            best[place] = min(best[place], program())
    return best


def named(contract: Campaign, name: str) -> Campaign:
    """Return the campaign under a name that no topic of the broker has."""
    return contract.model_copy(update={"name": f"bench-{name}-{os.urandom(4).hex()}"})


def throughput(settings: KafkaSettings, n: int, rounds: int, folder: Path) -> list[Row]:
    """Compare the service with the counting loop, binary and JSON, and good messages with bad ones."""
    found: list[Row] = []
    good_seconds = 0.0
    for name, aim in (("binary", 1 / 0.8), ("JSON", 1 / 0.6)):
        contract = named(campaign(), name.lower())
        content = messages(contract, 0, n, seed=1)
        if name == "JSON":
            content = [report_to_json(decode_report(message)) for message in content]
        topic = fill(settings, contract, content)
        mine, other = _best(
            [
                lambda c=contract: serve(c, settings, n, folder, f"{c.name}-{os.urandom(4).hex()}"),  # type: ignore[misc]
                lambda t=topic: count(t, settings, n),  # type: ignore[misc]
            ],
            rounds,
        )
        if name == "binary":
            good_seconds = mine
        found.append(
            Row.of(
                f"serve, {name}, {n:,} reports",
                "us",
                mine / n * MICRO,
                "a kafka-python loop that counts",
                other / n * MICRO,
                ratio=aim,
            )
        )
    draw = np.random.default_rng(3)
    bad: dict[str, Callable[[Campaign], list[bytes]]] = {
        "random bytes": lambda _: [draw.bytes(int(k)) for k in draw.integers(0, 80, n)],
        "one report over and over": lambda contract: messages(contract, 0, 1, seed=1) * n,
    }
    for name, make in bad.items():
        contract = named(campaign(), "bad")
        fill(settings, contract, make(contract))
        (mine,) = _best(
            [lambda c=contract: serve(c, settings, n, folder, f"{c.name}-{os.urandom(4).hex()}")],  # type: ignore[misc]
            rounds,
        )
        found.append(
            Row.of(
                f"serve, bad: {name}",
                "us",
                mine / n * MICRO,
                "as many good reports",
                good_seconds / n * MICRO,
                ratio=2.0,
            )
        )
    return found


_MEMORY = """
import sys, tempfile
from pathlib import Path
from tests.benchmarks.harness import peak_kib
from tests.benchmarks.service import fold_made
few, n = int(sys.argv[1]), int(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    fold_made(n, few, Path(folder))
print(peak_kib())
"""


def fold_made(n: int, horizon: int, folder: Path) -> None:
    """Take n made reports through loop, state, tokens and checkpoint, without a broker."""
    contract = campaign()
    tokens = CountedTokens(horizon)
    with FileCheckpoint(folder / "state.ckpt", tokens) as store, FileOutlet(None, None, None) as outlet:
        state = ServiceState(contract, tokens)
        settings = ServiceSettings()
        service = Service(state, Made(contract, n), outlet, store, tokens, settings, _quiet, lambda: False)
        assert service.run()
        assert state.n_reports == n


def memory(few: int, many: int) -> Row:
    """Peak memory after few and after many reports, each in a process of its own; the horizon is ``few``."""
    found = []
    for n in (few, many):
        done = subprocess.run(
            [sys.executable, "-c", _MEMORY, str(few), str(n)], capture_output=True, text=True, check=True
        )
        found.append(int(done.stdout) / 1024)
    low, high = found
    return Row.of(
        f"peak memory of the service after {many:,} reports", "MiB", high, f"after {few:,}", low, ratio=1.1
    )


def rows(settings: KafkaSettings, scale: float = 1.0) -> list[Row]:
    """Return all rows; ``scale`` < 1 makes everything smaller."""

    def size(n: int) -> int:
        return max(1000, int(n * scale))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = throughput(settings, size(200_000), 3 if scale >= 1 else 1, folder)
        backlog = size(1_000_000)
        contract = named(campaign(), "backlog")
        topic = fill(settings, contract, messages(contract, 0, backlog, seed=1))
        mine = serve(contract, settings, backlog, folder, contract.name)
        other = count(topic, settings, backlog)
        found.append(
            Row.of(
                f"from start to caught up, {backlog:,} waiting",
                "s",
                mine,
                "a kafka-python loop that counts",
                other,
                ratio=1 / 0.8,
            )
        )
        found.append(memory(size(1_000_000), size(10_000_000)))
    return found
