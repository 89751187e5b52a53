"""``report --kafka``: devices that answer a service's newest parameters, never too many at one point."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ldp_stream import Aggregator
from ldp_stream.codec import decode_report, encode_report
from ldp_stream.connectors.cli import main
from ldp_stream.connectors.kafka import KafkaSink, KafkaSource, KeyedValue
from ldp_stream.reports import Parameters
from tests.connectors.cli_support import COMMAND
from tests.connectors.kafka_support import until
from tests.connectors.service.serving import Stand
from tests.kafka_broker import Broker, Reachable

LONG = {"curvature": 1.0}  # rounds of some twenty reports and more, so that few are waited for


@pytest.fixture
def stand(broker: Reachable, tmp_path: Path, unique_name: str) -> Stand:
    """A campaign of one partition with its topics."""
    return Stand(tmp_path, broker.bootstrap, unique_name, rounds=LONG)


def _rows(
    folder: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = ("miles", "minutes")
) -> Path:
    path = folder / "rows.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def _trips(n: int) -> list[tuple[float, float]]:
    return [(i % 30, 5 + 1.5 * (i % 30)) for i in range(n)]


def _arguments(stand: Stand, rows: Path, *more: object) -> list[str]:
    given = ("report", stand.file, rows, "--target", "minutes", "--kafka", stand.settings.servers, *more)
    return [str(argument) for argument in given]


def _run(stand: Stand, rows: Path, *more: object) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *_arguments(stand, rows, *more)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@contextmanager
def _running(stand: Stand, rows: Path | str, *more: object) -> Iterator[subprocess.Popen[str]]:
    """Start the command, with standard input held open; it does not outlive the test."""
    command = [*COMMAND, *_arguments(stand, Path(rows), *more)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True) as devices:
        try:
            yield devices
        finally:
            if devices.poll() is None:
                devices.kill()


def _records(stand: Stand) -> list[Any]:
    """Return what one read of the topic of reports gives, with keys and times in milliseconds."""
    source: KafkaSource[bytes] = KafkaSource(stand.settings, stand.topics.reports, until_end=True)
    with source:
        polled: dict[Any, list[Any]] = source._consumer.poll(timeout_ms=5000)
    return [record for records in polled.values() for record in records]


def _publish(stand: Stand, message: Parameters) -> None:
    with KafkaSink(stand.settings, stand.topics.parameters) as sink:
        sink.write([KeyedValue(b"%d" % message.partition, message.model_dump_json().encode())])
        sink.flush()


@pytest.mark.parametrize("binary", [True, False])
def test_every_row_counts_once_and_the_estimate_is_published(stand: Stand, binary: bool) -> None:
    """With a service every row becomes one report that counts, and ``estimate --kafka`` shows them all."""
    rows = _rows(stand.folder, _trips(2500))
    with stand.serve() as service:
        service.says("starts at the beginning")
        done = _run(stand, rows, *(["--binary"] if binary else []))
        assert done.returncode == 0, done.stderr
        assert "2,500 reports sent" in done.stderr
        until(lambda: stand.estimate().get("n_reports") == 2500)
        assert service.stop() == 0
    messages = [message for _, message in stand.log()]
    assert {message[:1] for message in messages} == ({b"\x01"} if binary else {b"{"})
    assert len({decode_report(message).token for message in messages}) == 2500
    assert stand.estimate()["rejected"] == {}
    command = [*COMMAND, "estimate", str(stand.file), "--kafka", stand.settings.servers, "--json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = json.loads(shown.stdout)
    assert (answer["n_reports"], answer["level"]) == (2500, 0.95)
    assert "0 messages rejected" in shown.stderr


def test_reports_go_to_the_partition_of_their_token(
    broker: Reachable, tmp_path: Path, unique_name: str
) -> None:
    """With three partitions each gets a third, keyed by token, at its own parameters, and all count."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name, partitions=3, rounds=LONG)
    with stand.serve() as service:
        service.says("starts at the beginning")
        done = _run(stand, _rows(tmp_path, _trips(600)), "--binary")
        assert done.returncode == 0, done.stderr
        until(lambda: stand.estimate().get("n_reports") == 600)
        assert service.stop() == 0
    for number in range(3):
        messages = stand.log(number)
        assert len(messages) == 200
        tokens = [int(decode_report(message).token, 16) for _, message in messages]
        assert {stand.campaign.route(token)[0] for token in tokens} == {number}
    records = _records(stand)
    assert records
    assert all(record.key.hex() == decode_report(record.value).token for record in records)


def test_a_named_user_reports_once(stand: Stand) -> None:
    """Of each user's rows the first is reported; one without a user or with a broken number is rejected."""
    rows = [(f"user {i % 40}", i % 30, 20) for i in range(100)]
    rows[5] = ("", 3, 20)
    rows[50] = ("user 50", "far", 20)
    path = _rows(stand.folder, rows, ("who", "miles", "minutes"))
    with stand.serve() as service:
        service.says("starts at the beginning")
        done = _run(stand, path, "--user", "who", "--seed", 3)
        assert done.returncode == 0, done.stderr
        assert "40 reports sent" in done.stderr
        assert "58 rows passed over: their users had reported before" in done.stderr
        assert "1  the user is missing" in done.stderr
        assert "1  the feature 'miles' is not a number" in done.stderr
        again = _run(stand, path, "--user", "who", "--seed", 3)
        assert "40 reports sent" in again.stderr
        until(lambda: sum(stand.estimate().get("rejected", {}).values()) == 40)
        assert service.stop() == 0
    assert stand.estimate()["n_reports"] == 40
    assert stand.estimate()["rejected"] == {"token counted before": 40}


def test_users_of_json_lines_are_any_text_or_number(stand: Stand) -> None:
    """A user's name may be text or a number; without a seed another run makes other tokens."""
    path = stand.folder / "rows.jsonl"
    users = ["é", 7, "7", "é", None, "\ud800"]
    lines = [json.dumps({"who": user, "miles": 3, "minutes": 9}) for user in users]
    path.write_text("\n".join(lines), encoding="utf-8")
    _publish(stand, Aggregator(stand.campaign).parameters())
    for _ in range(2):
        done = _run(stand, path, "--user", "who")
        assert "3 reports sent" in done.stderr
        assert "1  the user is missing" in done.stderr
    assert len({decode_report(message).token for _, message in stand.log()}) == 6


def test_one_message_is_answered_by_no_more_than_the_campaign_accepts(stand: Stand) -> None:
    """Without newer parameters at most five rounds' worth are sent at one point; then it says why it ends."""
    server = Aggregator(stand.campaign)
    _publish(stand, server.parameters())
    length = stand.campaign.round_schedule.length(0)
    done = _run(stand, _rows(stand.folder, _trips(2000)), "--wait-seconds", 8)
    assert done.returncode == 2
    assert "no newer parameters" in done.stderr
    assert "is 'ldp-stream serve' running?" in done.stderr
    sent = len(stand.log())
    assert f"{sent} reports sent, which answer 1 round\n" in done.stderr
    assert "may not be stored" not in done.stderr
    assert 2 * length <= sent <= (stand.campaign.rounds.max_staleness + 1) * length < 2000


def test_a_newer_message_is_answered(stand: Stand) -> None:
    """When the service publishes a newer round, the reports that follow answer that one."""
    server = Aggregator(stand.campaign)
    _publish(stand, server.parameters())
    length = stand.campaign.round_schedule.length(0)
    with _running(stand, _rows(stand.folder, _trips(400)), "--limit", 2 * length + 5) as devices:
        until(lambda: len(stand.log()) >= 2 * length)
        for _, message in stand.log():
            server.ingest(decode_report(message))
        assert server.round > 0
        _publish(stand, server.parameters())
        _, said = devices.communicate(timeout=60)
    assert devices.returncode == 0, said
    rounds = Counter(decode_report(message).round for _, message in stand.log())
    assert rounds[0] >= 2 * length
    assert rounds[server.round] + rounds[0] == 2 * length + 5


def test_an_older_round_is_answered_too(stand: Stand) -> None:
    """When the service goes on from an older state, its parameters are the newest, and devices go on."""
    length = stand.campaign.round_schedule.length(0)
    later = Parameters.model_validate({**Aggregator(stand.campaign).parameters().model_dump(), "round": 9})
    _publish(stand, later)
    with _running(stand, _rows(stand.folder, _trips(400)), "--limit", 2 * length + 5) as devices:
        until(lambda: len(stand.log()) >= 2 * length)
        _publish(stand, Aggregator(stand.campaign).parameters())
        _, said = devices.communicate(timeout=60)
    assert devices.returncode == 0, said
    rounds = Counter(decode_report(message).round for _, message in stand.log())
    assert set(rounds) == {0, 9}
    assert "which answer 2 rounds" in said


def test_without_parameters_it_waits_and_says_so(stand: Stand) -> None:
    """While no service has published anything nothing is sent, and the wait ends with one line."""
    done = _run(stand, _rows(stand.folder, _trips(10)), "--wait-seconds", 4)
    assert done.returncode == 2
    assert "no newer parameters for 3 s" in done.stderr
    assert "Traceback" not in done.stderr
    assert stand.log() == []


def test_the_rate_is_kept(stand: Stand) -> None:
    """At 20 a second ten reports go out one by one over half a second, not at once."""
    _publish(stand, Aggregator(stand.campaign).parameters())
    assert main(_arguments(stand, _rows(stand.folder, _trips(10)), "--rate", 20)) == 0
    times = [record.timestamp for record in _records(stand)]
    assert len(times) == 10
    assert max(times) - min(times) >= 350
    assert len(set(times)) >= 8


def test_a_signal_stops_it_after_what_was_sent(stand: Stand) -> None:
    """SIGINT ends a slow run with code 130; what it counted as sent is in the topic."""
    _publish(stand, Aggregator(stand.campaign).parameters())
    with _running(stand, _rows(stand.folder, _trips(1000)), "--rate", 4) as devices:
        until(lambda: len(stand.log()) >= 2)
        devices.send_signal(signal.SIGINT)
        _, said = devices.communicate(timeout=30)
    assert devices.returncode == 130
    assert f"{len(stand.log())} reports sent" in said


@pytest.mark.parametrize("limit", [True, False])
def test_rows_that_trickle_in_are_sent_at_once(stand: Stand, limit: bool) -> None:
    """Rows from a pipe are reported while it stays open, and a signal or the limit ends the wait for more."""
    _publish(stand, Aggregator(stand.campaign).parameters())
    with _running(stand, "-", *(["--limit", 3] if limit else [])) as devices:
        assert devices.stdin is not None
        assert devices.stderr is not None
        devices.stdin.write("miles,minutes\n1,2\n3,4\n5,6\n")
        devices.stdin.flush()
        until(lambda: len(stand.log()) == 3)
        if not limit:
            devices.send_signal(signal.SIGINT)
        assert devices.wait(30) == (0 if limit else 130)
        assert "3 reports sent" in devices.stderr.read()


def test_a_pause_of_the_rows_is_no_broker_that_is_gone(stand: Stand) -> None:
    """Rows that come after a pause longer than --wait-seconds are sent as before, and nothing is said."""
    _publish(stand, Aggregator(stand.campaign).parameters())
    with _running(stand, "-", "--wait-seconds", 3) as devices:
        assert devices.stdin is not None
        devices.stdin.write("miles,minutes\n1,2\n")
        devices.stdin.flush()
        until(lambda: len(stand.log()) == 1)
        devices.stdin.write("1,long\n")  # with which the run learns that all is stored
        devices.stdin.flush()
        time.sleep(3.5)
        _, said = devices.communicate("3,4\n", timeout=30)
    assert devices.returncode == 0, said
    assert said.endswith("2 reports sent, which answer 1 round\n")
    assert "stored no report" not in said


def test_a_broker_that_takes_nothing_ends_the_run(
    own_broker: Broker, tmp_path: Path, unique_name: str
) -> None:
    """When the broker goes away amid a round it says so, gives up in time, and says what may be missing."""
    stand = Stand(tmp_path, own_broker.bootstrap, unique_name, rounds={"curvature": 0.1})
    _publish(stand, Aggregator(stand.campaign).parameters())
    arguments = ("--rate", 10, "--wait-seconds", 5)
    with _running(stand, _rows(tmp_path, _trips(400)), *arguments) as devices:
        until(lambda: len(stand.log()) >= 3)
        own_broker.kill()
        _, said = devices.communicate(timeout=60)
    assert devices.returncode == 2
    assert "stored no report for 3 s" in said
    assert "of these may not be stored" in said
    assert said.splitlines()[-1].startswith(f"ldp-stream: Kafka at {own_broker.bootstrap}: stored no report")


def test_a_strict_run_ends_at_the_first_bad_row(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was sent before the row that cannot be used is in the topic, and is said."""
    monkeypatch.setattr("ldp_stream.connectors.commands.report_kafka._ROWS", 2)
    _publish(stand, Aggregator(stand.campaign).parameters())
    rows = _rows(stand.folder, [(1, 2), (3, 4), (5, "long"), (7, 8)])
    assert main(_arguments(stand, rows, "--strict")) == 2
    said = capsys.readouterr().err
    assert "2 reports sent" in said
    assert "the target 'minutes' is not a number" in said
    assert len(stand.log()) == 2


def test_reports_that_protect_nobody_are_called_so(
    broker: Reachable, tmp_path: Path, capsys: pytest.CaptureFixture[str], unique_name: str
) -> None:
    """A campaign without a private channel is reported to, with a warning."""
    channel = {"kind": "none"}
    stand = Stand(tmp_path, broker.bootstrap, unique_name, epsilon=None, channel=channel, rounds=LONG)
    _publish(stand, Aggregator(stand.campaign).parameters())
    assert main(_arguments(stand, _rows(tmp_path, _trips(5)))) == 0
    assert "NOT PRIVATE" in capsys.readouterr().err
    assert len(stand.log()) == 5


def test_parameters_of_another_campaign_are_refused(stand: Stand, capsys: pytest.CaptureFixture[str]) -> None:
    """What is not a parameters message of the campaign ends the run with one line."""
    rows = _rows(stand.folder, _trips(3))
    other = Aggregator(stand.campaign.model_copy(update={"tau": 0.4})).parameters()
    _publish(stand, other)
    assert main(_arguments(stand, rows)) == 2
    assert f"must be '{stand.campaign.digest_prefix}'" in capsys.readouterr().err
    with KafkaSink(stand.settings, stand.topics.parameters) as sink:
        sink.write([KeyedValue(b"0", b"{}")])
        sink.flush()
    assert main(_arguments(stand, rows)) == 2
    assert "holds more than parameters" in capsys.readouterr().err


def test_a_campaign_without_topics_is_told(
    broker: Reachable, tmp_path: Path, capsys: pytest.CaptureFixture[str], unique_name: str
) -> None:
    """Before a service has made the topics the message says what makes them."""
    stand = Stand(tmp_path, broker.bootstrap, unique_name)
    text = stand.campaign.canonical.replace(unique_name, f"{unique_name}x")
    (tmp_path / "other.json").write_text(text, encoding="utf-8")
    stand.file = tmp_path / "other.json"
    assert main(_arguments(stand, _rows(tmp_path, _trips(3)))) == 2
    assert "`ldp-stream serve` makes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--out", "r.jsonl"], "--parameters, --out: not with --kafka"),
        (["--rate", "0"], "rate = 0.0: must be"),
        (["--user", "nobody"], "column 'nobody' is not there"),
        (["--user", "minutes"], "user = 'minutes': must not be the target"),
        (["--user", "miles", "--seed", "-1"], "seed = -1: must be"),
        (["--tlc", "--user", "who"], "--user: trip records name no users"),
        (["--kafka-option", "sasl_plain_password=hush"], "must be given as env:NAME or file:PATH"),
    ],
)
def test_wrong_options_are_told(
    stand: Stand, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    """Options that do not go together, or are out of range, end with code 2 and one line."""
    _publish(stand, Aggregator(stand.campaign).parameters())
    assert main(_arguments(stand, _rows(stand.folder, _trips(3)), *more)) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "hush" not in said


def test_kafka_options_need_kafka(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --kafka its options are refused, and so is a run that says nowhere to write."""
    (tmp_path / "t.json").write_text(_plain_campaign(), encoding="utf-8")
    rows = _rows(tmp_path, _trips(3))
    base = ["report", str(tmp_path / "t.json"), str(rows), "--target", "minutes"]
    for more in (["--user", "who"], ["--rate", "3"], ["--kafka-option", "check_crcs=false"]):
        assert main([*base, *more]) == 2
        assert "need --kafka" in capsys.readouterr().err
    assert main(base) == 2
    assert "--parameters and --out, or --kafka" in capsys.readouterr().err


def _plain_campaign() -> str:
    return json.dumps(
        {
            "kind": "quantile",
            "name": "plain",
            "tau": 0.5,
            "epsilon": 1.0,
            "target": {"lower": 0, "upper": 60},
            "features": {"miles": {"lower": 0, "upper": 30}},
        }
    )


def test_the_binary_form_is_the_compact_one(stand: Stand) -> None:
    """What --binary sends is byte for byte the compact encoding of the report."""
    _publish(stand, Aggregator(stand.campaign).parameters())
    assert main(_arguments(stand, _rows(stand.folder, _trips(5)), "--binary")) == 0
    for _, message in stand.log():
        assert encode_report(decode_report(message)) == message
