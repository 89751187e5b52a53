"""``ldp-stream serve`` as a process of its own, logs to serve, and the plain fold to compare with."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from kafka import TopicPartition

from ldp_stream import Aggregator, Campaign
from ldp_stream.codec import decode_report, report_to_json
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.kafka import KafkaSource
from ldp_stream.connectors.kafka_clients import open_client
from ldp_stream.connectors.kafka_options import KafkaSettings
from ldp_stream.connectors.kafka_topics import Topics, ensure_topics
from ldp_stream.connectors.service.state import ServiceState, source_position
from ldp_stream.connectors.service.tokens import CountedTokens
from ldp_stream.server.admission import Reason
from tests.benchmarks.service import messages as good_messages
from tests.connectors.cli_support import COMMAND
from tests.connectors.kafka_support import settings_of, until
from tests.connectors.service.parts import campaign
from tests.server.plain_fold import EPOCHS, PlainFold, plain_fold

HORIZON = 10_000_000
"""What ``serve`` takes when it is not told."""

LIMIT = 30.0
"""Seconds in which anything that is waited for must happen."""


class Served:
    """A running ``serve``, and what it has said on standard error so far."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def said(self) -> list[str]:
        """The whole lines so far."""
        return self._log.read_text("utf-8", "replace").split("\n")[:-1]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The same of a ``--log-json``; a line that is not JSON is an error."""
        return [json.loads(line) for line in self.said]

    def says(self, text: str, limit: float = LIMIT) -> str:
        """Wait for a line with this text and return it."""
        found: list[str] = []

        def there() -> bool:
            found[:] = [line for line in self.said if text in line]
            assert found or self.process.poll() is None, f"ended without {text!r}: {self.said}"
            return bool(found)

        try:
            until(there, limit)
        except AssertionError as error:
            raise AssertionError(f"{text!r}: {error}: {self.said}") from None
        return found[0]

    def wait(self, limit: float = LIMIT) -> int:
        """Return the exit code; it must end by itself."""
        return self.process.wait(limit)

    def stop(self, by: signal.Signals = signal.SIGTERM, limit: float = 10.0) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(by)
        return self.process.wait(limit)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


@contextmanager
def served(
    folder: Path, *arguments: object, stdin: int = subprocess.DEVNULL, terminal: int | None = None
) -> Iterator[Served]:
    """Start ``serve`` with these arguments; it does not outlive the context.

    Its log goes to a file of the folder, or to a terminal.
    """
    number = sum(1 for _ in folder.glob("serve-*.log"))
    path = folder / f"serve-{number}.log"
    with (
        path.open("wb") as log,
        subprocess.Popen(
            [*COMMAND, "serve", *map(str, arguments)],
            stdin=stdin,
            stdout=log,
            stderr=log if terminal is None else terminal,
        ) as process,
    ):
        try:
            yield Served(process, path)
        finally:
            if process.poll() is None:
                process.kill()


class Stand:
    """One campaign on a broker: its topics, its file, and a checkpoint.

    Parameters
    ----------
    folder
        For the campaign's file, the checkpoint and the logs.
    bootstrap
        The broker.
    name
        The campaign's name, which no other test may use.
    changes
        Of the campaign.
    """

    def __init__(self, folder: Path, bootstrap: str, name: str, **changes: object) -> None:
        self.folder = folder
        self.campaign = campaign(name=name, **changes)
        self.settings: KafkaSettings = settings_of(bootstrap)
        self.topics: Topics = ensure_topics(self.settings, self.campaign)
        self.group = self.topics.reports.removesuffix(".reports")
        self.file = write_campaign(folder, self.campaign)
        self.checkpoint = folder / "state.ckpt"

    def serve(
        self, *options: object, checkpoint: Path | None = None, terminal: int | None = None
    ) -> AbstractContextManager[Served]:
        """Start the service, with short times."""
        return served(
            self.folder,
            self.file,
            "--kafka",
            self.settings.servers,
            "--checkpoint",
            checkpoint or self.checkpoint,
            "--publish-seconds",
            0.2,
            "--save-seconds",
            0.1,
            *options,
            terminal=terminal,
        )

    def log(self, partition: int = 0) -> list[tuple[int, bytes]]:
        """Return what the topic of reports holds: (offset, message)."""
        return read_topic(self.settings, self.topics.reports, partition)

    def letters(self) -> list[dict[str, Any]]:
        """Return the dead letters, with their bytes decoded."""
        packed = read_topic(self.settings, self.topics.rejected)
        found = [json.loads(line) for _, message in packed for line in message.split(b"\n")]
        return [{**letter, "raw": b64decode(letter["raw"])} for letter in found]

    def newest(self, topic: str) -> dict[str, Any]:
        """Return the newest message of the topic of estimates or of parameters; empty if there is none."""
        messages = read_topic(self.settings, topic)
        found: dict[str, Any] = json.loads(messages[-1][1]) if messages else {}
        return found

    def estimate(self) -> dict[str, Any]:
        """Return the newest estimate."""
        return self.newest(self.topics.estimates)

    def caught_up(self, offset: int, limit: float = 60.0) -> None:
        """Wait until the checkpoint's position in partition 0 is there."""
        until(lambda: saved_position(self.checkpoint).get("0", -1) >= offset, limit)

    def members(self) -> int:
        """Return how many members the consumer group has."""
        with closing(open_client(self.settings, "KafkaAdminClient")) as admin:
            return len(admin.describe_groups([self.group])[self.group]["members"])

    def committed(self, partition: int = 0) -> int:
        """Return the offset that the group has committed."""
        with closing(open_client(self.settings, "KafkaAdminClient")) as admin:
            offsets = admin.list_group_offsets({self.group: None})[self.group]
            return int(offsets[TopicPartition(self.topics.reports, partition)].offset)


def write_campaign(folder: Path, of: Campaign) -> Path:
    """Write a campaign's file."""
    path = folder / f"{of.digest_prefix}.json"
    path.write_text(of.canonical, encoding="utf-8")
    return path


def read_topic(settings: KafkaSettings, topic: str, partition: int = 0) -> list[tuple[int, bytes]]:
    """Return (offset, message) of everything that a partition holds."""
    with KafkaSource[bytes](settings, topic, partitions=[partition], until_end=True) as source:
        return [
            pair for batch in source.batches(10_000) for pair in zip(batch.offsets, batch.items, strict=True)
        ]


# ---------------------------------------------------------------------- logs to serve


def mixed_log(of: Campaign, n: int, seed: int, bad: float = 0.1) -> list[bytes]:
    """Return about n messages: good ones, duplicates of any earlier one, and every other fault.

    For one partition and one chain.
    """
    draw = random.Random(seed)
    good = good_messages(of, 0, round(n * (1 - bad)), seed)
    for place in range(0, len(good), 50):  # some of them as JSON
        good[place] = report_to_json(decode_report(good[place]))
    found: list[bytes] = []
    share = bad / (1 - bad)
    for place, message in enumerate(good):
        found.append(message)
        while draw.random() < share / (1 + share):
            found.append(broken(draw, message, good[draw.randrange(place + 1)]))
    return found


def broken(draw: random.Random, last: bytes, earlier: bytes) -> bytes:
    """Return a message that must not count: often a duplicate, else ``last`` with something wrong."""
    kind = draw.randrange(10)
    if kind < 5:
        return earlier
    if kind < 7:
        return draw.randbytes(draw.choice((0, 1, 36, 37, 38, 500)))
    changed: dict[str, object] = [
        {"digest": "00" * 8},
        {"round": 10**6},
        {"chain": 7},
    ][kind - 7]
    return with_changes(last, draw, **changed)


def with_changes(message: bytes, draw: random.Random, **changes: object) -> bytes:
    """Return a report of a new user with some fields changed, as JSON."""
    report = {**json.loads(report_to_json(decode_report(message))), "token": draw.randbytes(16).hex()}
    return json.dumps({**report, **changes}).encode()


# ---------------------------------------------------------------------- what a checkpoint must hold


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    server: Aggregator
    position: dict[str, int]
    refused: Counter[tuple[int, Reason]]
    recovered: bool
    counted: CountedTokens


@contextmanager
def saved(path: Path, of: Campaign, horizon: int = HORIZON) -> Iterator[Saved]:
    """Read a checkpoint, its tokens included."""
    counted = CountedTokens(horizon)
    with FileCheckpoint(path, counted) as store:
        found = store.load()
        assert found is not None, f"{path}: is not there"
        state = ServiceState.of(found, of, counted)
        server = Aggregator.restore(of, found.state)
        yield Saved(server, dict(source_position(found)), state.refused, found.recovered, counted)


def saved_position(path: Path) -> dict[str, int]:
    """Return the source's position in a checkpoint that may be in use; empty if there is none."""
    if not path.exists():
        return {}
    with suppress(OSError), FileCheckpoint(path) as store:
        found = store.load()
        return {} if found is None else dict(source_position(found))
    return {}


def check_fold(
    path: Path, of: Campaign, log: Iterable[tuple[int, bytes]], horizon: int = HORIZON
) -> PlainFold:
    """Compare a checkpoint of one partition with the plain fold of a log: state, counts, tokens, position.

    The position must be the one after the log.
    """
    messages = list(log)
    plain = plain_fold(of, messages, horizon)
    with saved(path, of, horizon) as found:
        assert found.server.n_reports == plain.server.n_reports
        assert found.server.snapshot() == plain.server.snapshot()
        assert found.refused == Counter((0, reason) for _, reason in plain.refused)
        after = messages[-1][0] + 1 if messages else 0
        assert found.position.get("0", found.position.get("line")) == after
        assert_counted(found.counted, plain, after, horizon)
    return plain


def assert_counted(counted: CountedTokens, plain: PlainFold, offset: int, horizon: int) -> None:
    """Check that the tokens remembered at an offset are those of the plain fold, and no others."""
    epoch = offset // -(-horizon // EPOCHS)
    tokens = list(plain.counted)
    strange = np.random.default_rng(987_654).bytes(16 * 1000)
    asked = np.frombuffer(bytes.fromhex("".join(tokens)) + strange, np.uint8).reshape(-1, 16)
    known = counted.seen(0, np.full(len(asked), offset), asked)
    expected = [epoch - plain.counted[token] <= EPOCHS for token in tokens]
    assert known.tolist() == [*expected, *[False] * 1000]


def assert_letters(stand: Stand, log: list[tuple[int, bytes]], plain: PlainFold) -> None:
    """Check that every refused message has at least one dead letter, and no other message has one."""
    letters = {(letter["offset"], letter["reason"], letter["raw"]) for letter in stand.letters()}
    raw = dict(log)
    assert letters == {(offset, str(reason), raw[offset]) for offset, reason in plain.refused}


def wait_for(true: Callable[[], bool], limit: float = LIMIT) -> None:
    """Wait until something is so, looking rarely: each look may ask a broker."""
    end = time.monotonic() + limit
    while not true():
        assert time.monotonic() < end, f"not so within {limit} s"
        time.sleep(0.2)
