"""``ldp-stream serve`` as a person and a machine meet it: stopping, dead letters, files, logs, arguments."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ldp_stream.codec import decode_report, report_to_json
from ldp_stream.connectors.base import MessageBatch
from ldp_stream.connectors.cli import main
from ldp_stream.connectors.commands.stopping import Stopped
from ldp_stream.connectors.service.loop import Service
from ldp_stream.connectors.service.settings import ServiceSettings
from ldp_stream.connectors.service.state import ServiceState
from ldp_stream.server.admission import Reason
from tests.connectors.cli_support import CAMPAIGN
from tests.connectors.kafka_support import send, until
from tests.connectors.service.parts import Log, Outlet, Store, Tokens, campaign, honest_log
from tests.connectors.service.serving import (
    HORIZON,
    Stand,
    check_fold,
    mixed_log,
    saved,
    saved_position,
    served,
    write_campaign,
)
from tests.kafka_broker import Broker, Reachable
from tests.server.plain_fold import plain_fold

STOP_SECONDS = 10.0  # the service promises half of that


# ---------------------------------------------------------------------- stop and go on


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly_and_the_next_start_goes_on_there(
    broker: Reachable, unique_name: str, tmp_path: Path, by: signal.Signals
) -> None:
    """Exit 0 in time; all is saved, committed, the group left; and the next start goes on exactly there."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 20_000, seed=1)
    send(stand.settings, stand.topics.reports, log[:12_000])
    with stand.serve("--save-seconds", 60, "--log-json") as service:
        service.says('"refused"')
        assert service.stop(by, STOP_SECONDS) == 0
    stopped = service.events[-1]
    with saved(stand.checkpoint, stand.campaign) as found:
        (position,) = found.position.values()
        assert position > 0
        assert stopped["event"] == "stop"
        assert stopped["saved"] is True
        assert stopped["reports"] == found.server.n_reports
    assert stand.members() == 0
    assert stand.committed() == position
    check_fold(stand.checkpoint, stand.campaign, enumerate(log[:position]))
    send(stand.settings, stand.topics.reports, log[12_000:])
    with stand.serve("--log-json") as service:
        stand.caught_up(len(log))
        assert service.stop(by, STOP_SECONDS) == 0
    (start,) = [event for event in service.events if event["event"] == "start"]
    assert start["position"] == {"0": position}
    assert start["reports"] == stopped["reports"]
    check_fold(stand.checkpoint, stand.campaign, enumerate(log))


# ---------------------------------------------------------------------- messages that do not count


def test_every_fault_becomes_a_dead_letter_and_a_count(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """Each reason, in two partitions, across a restart: letters, counts and state are those of the fold."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name, partitions=2)
    logs = [faulty_log(number, honest) for number, honest in enumerate(honest_log(stand.campaign, 1200))]
    for half in (slice(0, 400), slice(400, None)):
        for number, log in enumerate(logs):
            send(stand.settings, stand.topics.reports, log[half], number)
        with stand.serve("--log-json") as service:
            ends = {str(number): len(stand.log(number)) for number in range(2)}
            until(lambda ends=ends: saved_position(stand.checkpoint) == ends)
            assert service.stop() == 0
    folds = [plain_fold(stand.campaign, enumerate(log), HORIZON, number) for number, log in enumerate(logs)]
    refused = {
        (number, offset): reason for number, fold in enumerate(folds) for offset, reason in fold.refused
    }
    assert {*refused.values()} == {*Reason} - {Reason.OTHER_CHAIN}  # a campaign has one chain a partition
    letters = {(letter["partition"], letter["offset"]): letter for letter in stand.letters()}
    assert len(letters) == len(stand.letters())
    assert {at: letter["reason"] for at, letter in letters.items()} == {
        at: str(reason) for at, reason in refused.items()
    }
    assert all(letter["raw"] == logs[number][offset] for (number, offset), letter in letters.items())
    assert all(letter["detail"] for letter in letters.values())
    counts = Counter(map(str, refused.values()))
    assert stand.estimate()["rejected"] == counts
    assert service.events[-1]["rejected_by_reason"] == counts
    with saved(stand.checkpoint, stand.campaign) as found:
        states = [server.snapshot() for server in found.server.split()]
        assert states == [fold.server.snapshot() for fold in folds]
        assert found.server.n_reports == 1200


def faulty_log(number: int, honest: list[bytes]) -> list[bytes]:
    """Return a partition's honest messages with one of each fault among them, and duplicates at both ends."""

    def changed(message: bytes, **changes: object) -> bytes:
        return json.dumps({**json.loads(report_to_json(decode_report(message))), **changes}).encode()

    def token_for(partition: int, beside: int = 0) -> str:
        return f"{2 * (10**6 + beside) + partition:032x}"

    late = honest[500]
    faults = [
        b"",
        b"\xff\x00\x01" * 9,
        late[:-1],
        changed(late, digest="0123456789abcdef"),
        changed(late, category=60_000),
        changed(late, block=60_000),
        changed(late, chain=1),
        changed(late, token=token_for(1 - number)),
        changed(late, token=token_for(number, 1), round=0),
        changed(late, token=token_for(number, 2), round=10**6),
        honest[3],
        changed(honest[499]),  # the same report in the other form
    ]
    return [*honest[:300], honest[7], honest[299], *honest[300:500], *faults, *honest[500:], honest[7]]


# ---------------------------------------------------------------------- files and standard input


def lines_of(n: int, seed: int) -> list[bytes]:
    """Return good reports, duplicates and broken text as lines of a file."""
    messages = mixed_log(campaign(), n, seed)
    found = [report_to_json(decode_report(m)) if len(m) == 37 and m[0] == 1 else m for m in messages]
    return [line for line in found if line.strip() and not {*b"\r\n"} & {*line}]


def write_lines(path: Path, lines: list[bytes]) -> Path:
    """Write lines to a file."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def test_a_file_of_reports_is_served_to_its_end_and_gone_on_with(tmp_path: Path) -> None:
    """State, parameters, estimate and rejects are those of its lines; a longer file is gone on with."""
    of, lines = campaign(), lines_of(5_000, seed=2)
    file, checkpoint, reports = write_campaign(tmp_path, of), tmp_path / "s.ckpt", tmp_path / "reports.jsonl"
    outputs = {name: tmp_path / f"{name}.json" for name in ("parameters", "estimates", "rejects")}
    options = [part for name, path in outputs.items() for part in (f"--{name}", path)]
    for end in (2_000, len(lines)):
        write_lines(reports, lines[:end])
        with served(tmp_path, file, reports, "--checkpoint", checkpoint, *options) as service:
            assert service.wait() == 0
        plain = check_fold(checkpoint, of, enumerate(lines[:end]))
        parameters = json.loads(outputs["parameters"].read_text())
        assert parameters == plain.server.parameters().model_dump(mode="json")
        estimate = json.loads(outputs["estimates"].read_text())
        assert estimate["n_reports"] == plain.server.n_reports
        assert estimate["rejected"] == Counter(str(reason) for _, reason in plain.refused)
        rejects = [json.loads(line) for line in outputs["rejects"].read_text("utf-8").splitlines()]
        assert [(reject["line"] - 1, reject["reason"]) for reject in rejects] == plain.refused


def test_standard_input_is_served_and_a_signal_ends_the_waiting(tmp_path: Path) -> None:
    """What has come is saved although the pipe stays open; the same lines again are passed over."""
    of, lines = campaign(), lines_of(3_000, seed=3)
    file, checkpoint = write_campaign(tmp_path, of), tmp_path / "s.ckpt"
    arguments = (file, "-", "--checkpoint", checkpoint, "--save-seconds", 0.1, "--log-json")
    with served(tmp_path, *arguments, stdin=subprocess.PIPE) as service:
        pipe = service.process.stdin
        assert pipe is not None
        with pipe:
            pipe.write(b"".join(line + b"\n" for line in lines[:1_500]))
            pipe.flush()
            service.says('"refused"')
            assert service.stop(limit=STOP_SECONDS) == 0
    read = saved_position(checkpoint)["line"]
    assert read > 0
    check_fold(checkpoint, of, enumerate(lines[:read]))
    with (
        write_lines(tmp_path / "all", lines).open("rb") as again,
        served(tmp_path, *arguments, stdin=again.fileno()) as service,
    ):
        assert service.wait() == 0
    check_fold(checkpoint, of, enumerate(lines))


def test_a_pipe_that_says_nothing_is_left_at_once(tmp_path: Path) -> None:
    """A signal while nothing at all has come: exit 0, and a checkpoint of nothing is saved."""
    of, checkpoint = campaign(), tmp_path / "s.ckpt"
    arguments = (write_campaign(tmp_path, of), "-", "--checkpoint", checkpoint)
    with served(tmp_path, *arguments, stdin=subprocess.PIPE) as service:
        service.says("starts at the beginning")
        assert service.stop(signal.SIGINT, STOP_SECONDS) == 0
        assert service.process.stdin is not None
        service.process.stdin.close()
    check_fold(checkpoint, of, [])


def test_a_pipe_that_is_not_at_the_position_yet_is_left_at_once(tmp_path: Path) -> None:
    """A signal while lines that are folded already are passed over: exit 0, the checkpoint as it was."""
    of, lines, checkpoint = campaign(), lines_of(200, seed=6), tmp_path / "s.ckpt"
    arguments = (write_campaign(tmp_path, of), "-", "--checkpoint", checkpoint)
    with (
        write_lines(tmp_path / "all", lines).open("rb") as whole,
        served(tmp_path, *arguments, stdin=whole.fileno()) as service,
    ):
        assert service.wait() == 0
    with served(tmp_path, *arguments, stdin=subprocess.PIPE) as service:
        pipe = service.process.stdin
        assert pipe is not None
        with pipe:
            pipe.write(lines[0] + b"\n")
            pipe.flush()
            service.says("goes on at line")
            assert service.stop(limit=STOP_SECONDS) == 0
    check_fold(checkpoint, of, enumerate(lines))


class EndedWhileRead(Log):
    """A feed that is interrupted when the second batch is taken and not handed out yet."""

    def batches(self, size: int) -> Iterator[MessageBatch[bytes]]:
        """Hand out one batch."""
        read = super().batches(size)
        yield next(read)
        next(read)
        raise Stopped


def test_what_was_taken_but_not_handed_out_is_not_passed_over() -> None:
    """When a signal ends the reading at its last step, the checkpoint is where the folded messages end."""
    of, tokens = campaign(), Tokens()
    feed, store = EndedWhileRead(honest_log(of, 300)), Store(tokens)
    state = ServiceState(of, tokens)
    service = Service(
        state, feed, Outlet(), store, tokens, ServiceSettings(batch=100), lambda *_, **__: None, lambda: False
    )
    with pytest.raises(Stopped):
        service.run()
    assert service.finish()
    assert state.n_reports == 100
    assert store.saved[-1].position == {"0": 100}


# ---------------------------------------------------------------------- what is said


def test_a_text_log_is_one_dated_line_an_event(broker: Reachable, unique_name: str, tmp_path: Path) -> None:
    """Every line begins with a time, also where a message holds line ends and control characters."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    sent = [b'{"kind":"a\nb\x1b[31m"}', b"\n\n\r", b'{"kind":"category","digest":"x\\ny\\u001b[2J"}']
    send(stand.settings, stand.topics.reports, sent)
    with stand.serve() as service:
        stand.caught_up(3)
        assert service.stop() == 0
    assert len(service.said) > 3
    for line in service.said:
        assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \S", line)
        assert line.isprintable()


def test_a_json_log_is_one_object_a_line(broker: Reachable, unique_name: str, tmp_path: Path) -> None:
    """Every line has time, level, event and message; the facts of start and stop are numbers."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 500, seed=4)
    send(stand.settings, stand.topics.reports, log)
    with stand.serve("--log-json") as service:
        stand.caught_up(len(log))
        assert service.stop() == 0
    for event in service.events:
        assert {"time", "level", "event", "message"} <= {*event}
        assert event["level"] in ("info", "warning", "error")
    names = [event["event"] for event in service.events]
    assert names.index("source") < names.index("start") < names.index("refused") < names.index("stop")
    assert service.events[-1]["lag"] == 0


def test_a_terminal_has_a_status_line_below_the_log(
    broker: Reachable, unique_name: str, tmp_path: Path
) -> None:
    """On a terminal the last line shows reports, rejected, rate, lag and widths; log lines stand above."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 500, seed=7)
    send(stand.settings, stand.topics.reports, log)
    terminal, other_end = os.openpty()
    shown = bytearray()

    def read_on() -> None:
        with suppress(OSError):  # the end of a terminal
            while piece := os.read(terminal, 4096):
                shown.extend(piece)

    reader = threading.Thread(target=read_on, daemon=True)
    reader.start()
    with stand.serve(terminal=other_end) as service:
        os.close(other_end)
        until(lambda: f"450 reports  {len(log) - 450} rejected".encode() in shown)
        stand.caught_up(len(log))
        assert service.stop() == 0
    reader.join(10)
    os.close(terminal)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert re.search(r"\d+ reports  \d+ rejected  [\d,]+/s  lag [\d,]+  (no intervals yet|widths: )", text)
    assert re.search(r"[\r\n]20\d\d-\d\d-\d\d \d\d:\d\d:\d\d stopped with 450 reports, rejected: ", text)
    assert "Traceback" not in text


# ---------------------------------------------------------------------- a broker that is not there


def free_address() -> str:
    """Return an address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_a_missing_broker_is_waited_for_up_to_a_limit(tmp_path: Path) -> None:
    """It says what it waits for, and ends after ``--wait-seconds`` with exit code 2 and a last line."""
    address, file = free_address(), write_campaign(tmp_path, campaign())
    arguments = (file, "--kafka", address, "--checkpoint", tmp_path / "s.ckpt")
    with served(tmp_path, *arguments, "--wait-seconds", 5) as service:
        assert service.wait() == 2
    assert any(f"waiting for Kafka at {address}" in line for line in service.said)
    assert service.said[-1].startswith(f"ldp-stream: no Kafka broker answers at {address} after 5 s")
    assert not (tmp_path / "s.ckpt").exists()


def test_a_signal_ends_the_wait_for_a_broker(tmp_path: Path) -> None:
    """In time and with exit code 0: nothing was read, nothing is wrong."""
    arguments = (write_campaign(tmp_path, campaign()), "--kafka", free_address())
    with served(tmp_path, *arguments, "--checkpoint", tmp_path / "s.ckpt") as service:
        service.says("waiting for Kafka")
        assert service.stop(limit=STOP_SECONDS) == 0
    assert "nothing was read" in service.said[-1]
    assert not (tmp_path / "s.ckpt").exists()


def test_a_broker_that_comes_late_is_noticed(own_broker: Broker, unique_name: str, tmp_path: Path) -> None:
    """The service that waited serves as soon as the broker is there."""
    stand = Stand(tmp_path, own_broker.bootstrap, unique_name)
    log = mixed_log(stand.campaign, 500, seed=5)
    send(stand.settings, stand.topics.reports, log)
    own_broker.stop()
    with stand.serve() as service:
        service.says("waiting for Kafka")
        own_broker.start()
        stand.caught_up(len(log))
        assert service.stop() == 0
    check_fold(stand.checkpoint, stand.campaign, enumerate(log))


# ---------------------------------------------------------------------- arguments

KAFKA = ("--kafka", "localhost:9092")
CHECKPOINT = ("--checkpoint", "{folder}/s.ckpt")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{campaign}", *KAFKA), "--checkpoint"),
        (("{campaign}", *CHECKPOINT), "REPORTS, --kafka"),
        (("{campaign}", "r.jsonl", *KAFKA, *CHECKPOINT), "REPORTS, --kafka"),
        (("{folder}/none.toml", *KAFKA, *CHECKPOINT), "none.toml"),
        (("{campaign}", "{folder}/none.jsonl", *CHECKPOINT), "none.jsonl"),
        (("{campaign}", "--kafka", "localhost", *CHECKPOINT), "localhost"),
        (("{campaign}", "--kafka", "localhost:99999", *CHECKPOINT), "99999"),
        (("{campaign}", "--kafka", "localhost:x", *CHECKPOINT), "localhost:x"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--kafka-option", "bootstrap=1"), "bootstrap"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--kafka-option", "client_id"), "client_id"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--kafka-option", "group_id=mine"), "group_id"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--kafka-option", "sasl_plain_password=x7Y!z"), "env:"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--kafka-option", "client_id=env:NOT_SET_AT_ALL"), "NOT_SET_AT"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--kafka-config", "{folder}/none"), "none"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--rejects", "{folder}/r"), "--rejects"),
        (("{campaign}", *KAFKA, "--checkpoint", "{folder}/no/s.ckpt"), "--checkpoint"),
        (("{campaign}", *KAFKA, "--checkpoint", "{folder}"), "--checkpoint"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--save-seconds", "0"), "save_seconds"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--save-seconds", "nan"), "save_seconds"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--horizon", "1"), "--horizon"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--level", "1"), "level"),
        (("{campaign}", *KAFKA, *CHECKPOINT, "--wait-seconds", "-1"), "wait_seconds"),
        (("{campaign}", "-", *CHECKPOINT, "--group", "g"), "--group"),
        (("{campaign}", "-", *CHECKPOINT, "--parameters", "{folder}/no/p.json"), "--parameters"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    """Exit code 2 and one line that names what is wrong; no secret in it, and no file is made."""
    places = {"campaign": tmp_path / "trips.toml", "folder": tmp_path}
    places["campaign"].write_text(CAMPAIGN, encoding="utf-8")
    assert main(["serve", *(argument.format(**places) for argument in arguments)]) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("ldp-stream: ")
    assert said in line
    assert "x7Y!z" not in line
    assert captured.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["trips.toml"]
