"""Faults around ``serve``: after each the checkpoint is, bit for bit, the plain fold of the log."""

from __future__ import annotations

import json
import random
import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from ldp_stream.connectors.base import MessageBatch
from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.service.state import ServiceState, source_position
from ldp_stream.connectors.service.tokens import CountedTokens
from ldp_stream.errors import InvalidSnapshot
from tests.connectors.kafka_support import (
    delete_records,
    remake_topic,
    send,
    until,
)
from tests.connectors.service.parts import campaign
from tests.connectors.service.serving import (
    HORIZON,
    Served,
    Stand,
    assert_letters,
    check_fold,
    mixed_log,
    saved,
    saved_position,
    served,
    wait_for,
    write_campaign,
)
from tests.connectors.service.writer import Writer
from tests.kafka_broker import Broker, Reachable
from tests.server.plain_fold import PlainFold, plain_fold

# ---------------------------------------------------------------------- the service is killed


@pytest.mark.parametrize("own_broker", [{"group.min.session.timeout.ms": "500"}], indirect=True)
def test_killed_at_twenty_random_moments_under_load(
    own_broker: Broker, unique_name: str, tmp_path: Path
) -> None:
    """SIGKILL while it starts, reads and saves, over and over: nothing is lost and nothing counts twice."""
    stand = Stand(tmp_path, own_broker.bootstrap, unique_name)
    log, horizon, kills = mixed_log(stand.campaign, 100_000, seed=1), 60_000, 20
    draw = random.Random(20)
    short = "--kafka-option", "session_timeout_ms=1000", "--kafka-option", "heartbeat_interval_ms=300"
    options = ("--save-seconds", 0.02, "--horizon", horizon, "--log-json", *short)
    starts: set[int] = set()
    with Writer(stand, log) as writer:
        for number in range(kills):
            writer.allow(len(log) // (2 * kills))
            with stand.serve(*options) as service:
                if number % 2 == 0:
                    time.sleep(draw.uniform(0.0, 3.0))  # wherever it is then
                else:
                    service.says('"refused"')  # the first batch is read
                    writer.allow(len(log) // (2 * kills))
                    time.sleep(draw.uniform(0.0, 0.5))
                service.kill()
                starts |= started_at(service)
        writer.allow()
        with stand.serve(*options) as service:
            writer.done()
            stand.caught_up(len(log))
            assert service.stop() == 0
    assert len(starts) > 3
    kept = stand.log()
    assert [message for _, message in kept] == log
    plain = check_fold(stand.checkpoint, stand.campaign, kept, horizon)
    assert plain.server.n_reports > 80_000
    assert_letters(stand, kept, plain)


def started_at(service: Served) -> set[int]:
    """Return the offset that a service has said it goes on at, if it came so far."""
    lines = [line for line in service.said if '"start"' in line]
    return {json.loads(line)["position"].get("0", 0) for line in lines}


# ---------------------------------------------------------------------- the checkpoint is damaged


@pytest.fixture(scope="module")
def run_halfway(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """A checkpoint after some saves in the middle of a log, and that log."""
    of = campaign()
    log = mixed_log(of, 6_000, seed=3)
    path = tmp_path_factory.mktemp("damage") / "state.ckpt"
    counted = CountedTokens()
    with FileCheckpoint(path, counted) as store:
        store.load()
        state = ServiceState(of, counted)
        for first in range(0, 4_000, 500):
            piece = log[first : first + 500]
            state.fold(MessageBatch(piece, {}, offsets=range(first, first + 500)))
            store.save(state.checkpoint({"0": first + 500}))
    return path, log


def damages(content: bytes, state: bytes) -> Iterator[tuple[str, int]]:
    """Yield flips of bits anywhere, flips in the newest state, and cuts."""
    draw, size = random.Random(4), len(content)
    yield from (("flip", draw.randrange(8 * size)) for _ in range(24))
    chunks = [state[at : at + 16] for at in range(0, len(state) - 16, 16)]
    only_there = [content.index(chunk) for chunk in chunks if content.count(chunk) == 1]
    yield from (("flip", 8 * draw.choice(only_there) + draw.randrange(128)) for _ in range(8))
    yield from (("cut", length) for length in (0, 1, 100, 4096, size // 2, size - 4096, size - 1))


def test_a_damaged_checkpoint_is_gone_on_from_or_refused(
    run_halfway: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    """Any bit flipped, any length cut off: the right state in the end, or a refusal and the file as it is."""
    whole, log = run_halfway
    content = whole.read_bytes()
    with saved(whole, campaign()) as found:
        state = found.server.snapshot()
    expected = plain_fold(campaign(), enumerate(log), HORIZON)
    outcomes = {"the newest": 0, "the one before": 0, "refused": 0}
    for kind, place in damages(content, state):
        damaged = bytearray(content)
        if kind == "flip":
            damaged[place // 8] ^= 1 << place % 8
        else:
            del damaged[place:]
        path = tmp_path / f"{kind}-{place}.ckpt"
        path.write_bytes(damaged)
        outcomes[go_on(path, log, expected)] += 1
    assert min(outcomes.values()) > 0


def go_on(path: Path, log: list[bytes], expected: PlainFold) -> str:
    """Serve the rest of the log from a checkpoint, compare the end, and say what was gone on from."""
    of, counted = campaign(), CountedTokens()
    content = path.read_bytes()
    with FileCheckpoint(path, counted) as store:
        try:
            found = store.load()
        except InvalidSnapshot as error:
            refusal = str(error)
        else:
            refusal = ""
        if refusal:
            advice = ("put a sound copy", "choose another file", "use the release")
            assert refusal.startswith(f"{path}: ")
            assert any(words in refusal for words in advice)
            assert path.read_bytes() == content
            return "refused"
        assert found is not None
        state = ServiceState.of(found, of, counted)
        (first,) = source_position(found).values()
        assert first == 4_000 or (first == 3_500 and found.recovered)
        for start in range(first, len(log), 700):
            piece = log[start : start + 700]
            try:
                state.fold(MessageBatch(piece, {}, offsets=range(start, start + len(piece))))
            except InvalidSnapshot:  # a token could not be looked up: damage that shows late
                return "refused"
        store.save(state.checkpoint({"0": len(log)}))
    assert state.servers[0].snapshot() == expected.server.snapshot()
    assert state.by_reason().total() == len(expected.refused)
    with saved(path, of) as after:
        assert after.server.snapshot() == expected.server.snapshot()
        assert not after.recovered
    return "the newest" if first == 4_000 else "the one before"


class FileStand:
    """A campaign, a file of reports that is served, and a checkpoint of its first half."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.campaign = campaign()
        self.log = [line for line in mixed_log(self.campaign, 3_000, seed=5) if is_line(line)]
        self.file = write_campaign(folder, self.campaign)
        self.reports = folder / "reports.jsonl"
        self.checkpoint = folder / "state.ckpt"
        self.write(self.log[:1_000])
        for _ in range(2):  # the second save is of the second half
            assert self.run().process.returncode == 0
            self.write(self.log[:2_000])
        assert self.run().process.returncode == 0
        self.write(self.log)

    def write(self, lines: list[bytes]) -> None:
        """Write the file of reports."""
        self.reports.write_bytes(b"".join(line + b"\n" for line in lines))

    def run(self) -> Served:
        """Serve the file to its end."""
        with served(self.folder, self.file, self.reports, "--checkpoint", self.checkpoint) as service:
            service.wait()
            return service

    def sql(self, script: str) -> None:
        """Change the checkpoint."""
        with closing(sqlite3.connect(self.checkpoint)) as connection:
            connection.executescript(script)


def is_line(message: bytes) -> bool:
    """Say whether a message can be a line of a file."""
    return bool(message.strip()) and message.isascii() and not {*b"\r\n"} & {*message}


@pytest.fixture(scope="module")
def half_served(tmp_path_factory: pytest.TempPathFactory) -> FileStand:
    """A checkpoint of ``serve`` of part of a file."""
    return FileStand(tmp_path_factory.mktemp("served"))


@pytest.fixture
def file_stand(half_served: FileStand) -> Iterator[FileStand]:
    """The same, with a checkpoint that may be damaged."""
    kept = half_served.folder / "kept"
    shutil.copy(half_served.checkpoint, kept)
    yield half_served
    shutil.move(kept, half_served.checkpoint)


def test_serve_goes_on_from_the_save_before_a_damaged_one(file_stand: FileStand) -> None:
    """With the newest save damaged it says so, and the end is the same."""
    file_stand.sql("UPDATE slot_0 SET state = zeroblob(100) WHERE generation % 2 = 1;")
    file_stand.sql("UPDATE slot_1 SET state = zeroblob(100) WHERE generation % 2 = 1;")
    service = file_stand.run()
    assert service.process.returncode == 0
    assert service.says("one of its two saves is damaged; going on from the sound one")
    check_fold(file_stand.checkpoint, file_stand.campaign, enumerate(file_stand.log))


@pytest.mark.parametrize(
    ("damage", "advice"),
    [
        ("cut", "put a sound copy in its place, or move it away"),
        ("header", "put a sound copy in its place, or move it away"),
        ("both", "put a sound copy in its place, or move it away"),
        ("future", "use the release that wrote it"),
        ("campaign", "choose another --checkpoint"),
        ("tokens", "put a sound copy in its place, or move it away"),
    ],
)
def test_serve_refuses_what_it_cannot_use(file_stand: FileStand, damage: str, advice: str) -> None:
    """Unusable, of a future format or of another campaign: exit 2 with what to do, the file as it is."""
    path, file = file_stand.checkpoint, file_stand.file
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 3])
    elif damage == "header":
        path.write_bytes(b"not a database" + content[14:])
    elif damage == "both":
        file_stand.sql("UPDATE slot_0 SET state = x'00'; UPDATE slot_1 SET position = '{}';")
    elif damage == "future":
        file_stand.sql("PRAGMA user_version = 2;")
    elif damage == "tokens":
        file_stand.sql("DELETE FROM token_runs;")
    elif damage == "campaign":
        file = write_campaign(file_stand.folder, campaign(tau=0.25))
    before = path.read_bytes()
    with served(file_stand.folder, file, file_stand.reports, "--checkpoint", path) as service:
        assert service.wait() == 2
    assert len(service.said) == 1
    assert service.said[0].startswith(f"ldp-stream: {path}: ")
    assert advice in service.said[0]
    assert path.read_bytes() == before


# ---------------------------------------------------------------------- the disk is full


@contextmanager
def full_disk(service: Served, size: int) -> Iterator[None]:
    """Let no file of a process grow beyond a size, as on a full disk."""
    pid = service.process.pid
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_and_waited_out(broker: Reachable, unique_name: str, tmp_path: Path) -> None:
    """While nothing can be saved the save before is kept and reading stops; with room again all is saved."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 30_000, seed=6)
    send(stand.settings, stand.topics.reports, log[:2_000])
    with stand.serve("--log-json") as service:
        stand.caught_up(2_000)
        with full_disk(service, stand.checkpoint.stat().st_size):
            send(stand.settings, stand.topics.reports, log[2_000:10_000])
            assert "what was saved before is kept; trying again" in service.says("not saved")
            reached = stand.estimate()["n_reports"]
            send(stand.settings, stand.topics.reports, log[10_000:])
            assert saved_position(stand.checkpoint)["0"] < 10_000
            time.sleep(3.0)  # time for another try, and for reading on if it did
            assert saved_position(stand.checkpoint)["0"] < 10_000
            assert stand.estimate()["n_reports"] == reached
        service.says("works again")
        stand.caught_up(len(log))
        assert service.stop() == 0
    assert [event["event"] for event in service.events].count("failing") == 1
    check_fold(stand.checkpoint, stand.campaign, stand.log())


def test_a_stop_while_the_disk_is_full_says_that_it_was_not_saved(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """Exit code 1, in time; the next start goes on from the last save and the end is the same."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 12_000, seed=7)
    send(stand.settings, stand.topics.reports, log[:1_000])
    with stand.serve() as service:
        stand.caught_up(1_000)
        with full_disk(service, stand.checkpoint.stat().st_size):
            send(stand.settings, stand.topics.reports, log[1_000:])
            service.says("not saved")
            assert service.stop() == 1
            service.says("the next start goes on from the last save")
    with stand.serve() as service:
        stand.caught_up(len(log))
        assert service.stop() == 0
    check_fold(stand.checkpoint, stand.campaign, stand.log())


# ---------------------------------------------------------------------- the log is cut, or made again


def test_messages_that_retention_took_are_said_and_passed_over(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """Below the log's start it goes on at the start, says how many are gone, and folds what it could read."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 3_000, seed=8)
    send(stand.settings, stand.topics.reports, log[:1_000])
    with stand.serve() as service:
        stand.caught_up(1_000)
        assert service.stop() == 0
    send(stand.settings, stand.topics.reports, log[1_000:])
    delete_records(stand.settings, stand.topics.reports, 1_300)
    with stand.serve() as service:
        service.says("300 messages of")
        stand.caught_up(len(log))
        assert service.stop() == 0
    read = [*enumerate(log[:1_000]), *stand.log()]
    assert len(read) == len(log) - 300
    check_fold(stand.checkpoint, stand.campaign, read)


def test_a_topic_that_was_made_again_is_refused(broker: Reachable, unique_name: str, tmp_path: Path) -> None:
    """Beyond the log's end: exit 2, one line with what to do, the checkpoint as it was."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 500, seed=9)
    send(stand.settings, stand.topics.reports, log)
    with stand.serve() as service:
        stand.caught_up(len(log))
        assert service.stop() == 0
    before = stand.checkpoint.read_bytes()
    remake_topic(stand.settings, stand.topics.reports)
    send(stand.settings, stand.topics.reports, log[:10])
    with stand.serve() as service:
        assert service.wait() == 2
    (line,) = [line for line in service.said if line.startswith("ldp-stream: ")]
    assert line == service.said[-1]
    assert "was cut or made again" in line
    assert "restore the topic, or begin anew" in line
    assert "Traceback" not in "".join(service.said)
    assert stand.checkpoint.read_bytes() == before


# ---------------------------------------------------------------------- two services


def test_two_services_of_one_group_with_checkpoints_of_their_own(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """Started by mistake: one of them reads the only partition, the other waits and holds nothing wrong.

    When the one that reads is stopped, the other is given the partition and reads it from its own position,
    which is the beginning: each checkpoint is the fold of what its service has read.
    """
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 6_000, seed=10)
    send(stand.settings, stand.topics.reports, log[:3_000])
    paths = tmp_path / "one.ckpt", tmp_path / "two.ckpt"
    with stand.serve(checkpoint=paths[0]) as first:
        until(lambda: saved_position(paths[0]).get("0") == 3_000)
        with stand.serve(checkpoint=paths[1]) as second:
            wait_for(lambda: stand.members() == 2)
            send(stand.settings, stand.topics.reports, log[3_000:])
            until(lambda: len(log) in {saved_position(path).get("0") for path in paths})
            ahead = next(path for path in paths if saved_position(path).get("0") == len(log))
            behind = paths[1 - paths.index(ahead)]
            leader, other = (first, second) if ahead == paths[0] else (second, first)
            assert leader.stop() == 0
            until(lambda: saved_position(behind).get("0") == len(log))
            assert other.stop() == 0
    for path in paths:
        check_fold(path, stand.campaign, enumerate(log))


def test_two_services_with_one_checkpoint(broker: Reachable, unique_name: str, tmp_path: Path) -> None:
    """The one that saves second notices, ends with exit code 2 and one line, and harms nothing."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 4_000, seed=11)
    send(stand.settings, stand.topics.reports, log[:2_000])
    with stand.serve() as first:
        stand.caught_up(2_000)
        with stand.serve() as second:
            second.says("campaign")
            send(stand.settings, stand.topics.reports, log[2_000:])
            until(lambda: None in {first.process.poll(), second.process.poll()} != {None}, 60)
            ended, stays = (first, second) if first.process.poll() is not None else (second, first)
            assert ended.process.returncode == 2
            assert "another process has saved to it" in ended.said[-1]
            assert ended.said[-1].startswith("ldp-stream: ")
            assert "Traceback" not in "".join(ended.said)
            stand.caught_up(len(log))
            assert stays.stop() == 0
    check_fold(stand.checkpoint, stand.campaign, enumerate(log))
