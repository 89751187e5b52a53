"""The broker that the Kafka tests run against: a real one that survives a kill and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests import kafka_broker, kafka_ways
from tests.kafka_broker import Broker, Reachable
from tests.kafka_ways import BrokerError, NoBroker

ROOT = Path(__file__).parent.parent

# Notes what it is asked; its "container" answers a request for the cluster with a list of one broker.
DOCKER_STAND_IN = """
import os, pathlib, signal, socket, struct, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
if sys.argv[1] == "create":
    (here / "port").write_text(sys.argv[sys.argv.index("-p") + 1].split(":")[1])
if sys.argv[1] == "kill":
    os.kill(int((here / "pid").read_text()), signal.SIGKILL)
if sys.argv[1] == "start":
    (here / "pid").write_text(str(os.getpid()))
    server = socket.create_server(("127.0.0.1", int((here / "port").read_text())))
    while True:
        server.accept()[0].sendall(struct.pack(">iii", 8, 0, 1))
"""


def _send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    with closing(KafkaProducer(bootstrap_servers=bootstrap, acks="all")) as producer:
        for value in values:
            producer.send(topic, value).get(timeout=30)


def _consumer(bootstrap: str, topic: str) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"{topic}-readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
    )


def _next(consumer: KafkaConsumer) -> bytes:
    """Return the next value; fails after half a minute."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for records in consumer.poll(timeout_ms=500).values():
            return bytes(records[0].value)
    raise AssertionError("no record came")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _goes(pid: int, limit: float = 30.0) -> bool:
    end = time.monotonic() + limit
    while _exists(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not _exists(pid)


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide java, mvn, docker and the jars of earlier runs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("LDP_STREAM_KAFKA", raising=False)
    return tmp_path


def test_a_record_goes_in_and_comes_out(broker: Reachable, unique_name: str) -> None:
    """What a producer sends to the shared broker a consumer group reads."""
    _send(broker.bootstrap, unique_name, [b"report"])
    with closing(_consumer(broker.bootstrap, unique_name)) as consumer:
        assert _next(consumer) == b"report"


def test_topics_are_made_only_on_request(broker: Reachable, unique_name: str) -> None:
    """A misspelt topic is not created by asking for it."""
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap)) as consumer:
        assert not consumer.partitions_for_topic(unique_name)
        assert unique_name not in consumer.topics()


@pytest.mark.parametrize("way", ["kill", "stop"])
def test_records_and_group_offsets_outlive_a_restart(own_broker: Broker, unique_name: str, way: str) -> None:
    """After SIGKILL, or SIGTERM, the broker answers at the same address with the same records and commits."""
    address = own_broker.bootstrap
    _send(address, unique_name, [b"first", b"second"])
    with closing(_consumer(address, unique_name)) as consumer:
        assert _next(consumer) == b"first"
        consumer.commit()
    before = own_broker.pid
    getattr(own_broker, way)()
    assert not own_broker.running
    assert before is not None
    assert not _exists(before)

    own_broker.start()
    assert own_broker.bootstrap == address
    with closing(_consumer(address, unique_name)) as consumer:
        assert consumer.committed(TopicPartition(unique_name, 0)) == 1
        assert _next(consumer) == b"second"


@pytest.mark.parametrize("own_broker", [{"message.max.bytes": "2000"}], indirect=True)
def test_settings_can_be_added(own_broker: Broker, unique_name: str) -> None:
    """A line of server.properties that a test adds is in force."""
    with pytest.raises(Exception, match=r"(?i)MessageSizeTooLarge|RecordTooLarge"):
        _send(own_broker.bootstrap, unique_name, [bytes(3000)])


def test_closing_leaves_nothing_behind() -> None:
    """After the context neither the process nor the folder of the broker is there, and it cannot be used."""
    with Broker() as broker:
        pid, folder = broker.pid, broker.folder
        assert folder.is_dir()
    assert pid is not None
    assert not _exists(pid)
    assert not folder.exists()
    with pytest.raises(BrokerError, match="closed"):
        broker.start()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_broker_ends_with_its_owner(number: signal.Signals) -> None:
    """When the owning Python process is killed, java ends and its files go."""
    code = (
        "import time; from tests.kafka_broker import Broker\n"
        "with Broker() as b: print(b.pid, b.folder, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert _exists(int(pid))
        owner.send_signal(number)
    assert _goes(int(pid))
    end = time.monotonic() + 30
    while Path(folder).exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(folder).exists()


def test_a_broker_that_does_not_come_up_shows_its_log() -> None:
    """A start that fails says so with the broker's own words."""
    with closing(Broker()) as broker, socket.socket() as other:
        host, port = broker.bootstrap.split(":")
        other.bind((host, int(port)))
        with pytest.raises(BrokerError, match=r"(?s)ended before it answered.*Address already in use"):
            broker.start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_foreground_broker_stops_when_told(number: signal.Signals) -> None:
    """The broker of `make broker` says where it answers and ends without an error on Ctrl-C or SIGTERM."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.kafka_broker", str(port)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as foreground:
        assert foreground.stdout is not None
        assert "starting" in foreground.stdout.readline()
        assert f"answers at 127.0.0.1:{port}; Ctrl-C stops it" in foreground.stdout.readline()
        foreground.send_signal(number)
        assert foreground.stdout.read() == "stopped\n"
    assert foreground.returncode == 0
    assert not kafka_broker.wait_until_ready(f"127.0.0.1:{port}", limit=0.5)


def test_a_taken_port_is_said_in_one_line() -> None:
    """`make broker` beside another broker names the port and how to choose another."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        command = [sys.executable, "-m", "tests.kafka_broker", str(port)]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == f"port {port} is taken: stop what listens there, or choose another (PORT=...)\n"


def test_a_named_broker_is_used_and_nothing_started(
    broker: Reachable, nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With LDP_STREAM_KAFKA the tests go to that address, even where no broker could be started."""
    monkeypatch.setenv("LDP_STREAM_KAFKA", broker.bootstrap)
    with kafka_broker.shared() as named:
        assert named.bootstrap == broker.bootstrap
        assert not isinstance(named, Broker)
    assert not list(nothing_installed.iterdir())


def test_a_named_broker_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong LDP_STREAM_KAFKA is not silently replaced; the message names variable and address."""
    monkeypatch.setenv("LDP_STREAM_KAFKA", "127.0.0.1:1")
    monkeypatch.setattr(kafka_broker, "PATIENCE", 0.3)
    with pytest.raises(BrokerError, match=r"LDP_STREAM_KAFKA=127\.0\.0\.1:1: no Kafka broker answers"):
        kafka_broker.shared().__enter__()


@pytest.mark.usefixtures("nothing_installed")
def test_without_any_way_the_message_says_what_is_missing() -> None:
    """Java, Maven and Docker are each named when they are absent."""
    with pytest.raises(
        NoBroker, match=r"java \(17 or newer\) and mvn \(Maven\) not found.*docker is not installed"
    ):
        Broker()


def test_a_docker_client_without_an_engine_is_not_a_way(nothing_installed: Path) -> None:
    """A docker command whose engine does not answer is told apart from a missing one."""
    client = nothing_installed / "docker"
    client.write_text("#!/bin/sh\nexit 1\n")
    client.chmod(0o755)
    with pytest.raises(NoBroker, match="the Docker engine does not answer"):
        Broker()


def test_with_docker_a_container_is_kept_until_the_end(
    nothing_installed: Path,
) -> None:
    """The client is asked for one container, which a kill and a new start keep and only the end removes."""
    client = nothing_installed / "docker"
    client.write_text(f"#!{sys.executable}\n{DOCKER_STAND_IN}")
    client.chmod(0o755)
    with Broker({"message.max.bytes": "2000"}) as broker:
        port = broker.bootstrap.split(":")[1]
        broker.kill()
        assert not broker.running
        broker.start()
        assert broker.running
    calls = (nothing_installed / "calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["info", "create", "start", "kill", "start", "rm"]
    name = calls[1].split()[2]
    assert all(call.split()[-1] == name for call in calls[2:])
    assert f"-p 127.0.0.1:{port}:{port}" in calls[1]
    assert f"KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://127.0.0.1:{port} " in calls[1]
    assert "-e KAFKA_MESSAGE_MAX_BYTES=2000 " in calls[1]
    assert calls[1].endswith(f" apache/kafka:{kafka_ways.VERSION}")


@pytest.mark.parametrize("fixture", ["broker", "own_broker"])
@pytest.mark.parametrize("no_skips", ["", "1"])
def test_the_fixtures_skip_with_the_reason(nothing_installed: Path, fixture: str, no_skips: str) -> None:
    """Where nothing can run a broker a test that needs one is skipped, which CI counts as a failure."""
    (nothing_installed / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (nothing_installed / "test_planted.py").write_text(f"def test_it({fixture}):\n    pass\n")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(nothing_installed)],
        cwd=nothing_installed,
        env={**os.environ, "LDP_STREAM_NO_SKIPS": no_skips, "PYTHONPATH": str(ROOT), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == (1 if no_skips else 0), run.stdout
    assert "no way to run Apache Kafka: java (17 or newer) and mvn (Maven) not found" in run.stdout


def test_jars_are_fetched_once_and_two_may_fetch_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two fetches at the same time end with one sound folder, and a later one does not ask Maven."""
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        '#!/bin/sh\nfor last; do :; done\nmkdir "${last#*=}"\nsleep 0.3\n'
        f'echo jar > "${{last#*=}}/kafka.jar"\necho >> {tmp_path}/calls\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: kafka_ways.fetch_jars(), range(2))
    assert first == second == kafka_ways.fetch_jars()
    assert [file.name for file in first.iterdir()] == ["kafka.jar"]
    assert list(first.parent.iterdir()) == [first]
    assert (tmp_path / "calls").read_text() == "\n\n"


def test_compose_file_describes_the_same_broker() -> None:
    """compose.yaml has the image and the settings that the tests use with Docker."""
    text = (ROOT / "compose.yaml").read_text()
    assert f"image: apache/kafka:{kafka_ways.VERSION}\n" in text
    stated = dict(re.findall(r'^ +(KAFKA_\w+): "?([^"\n]*)"?$', text, flags=re.MULTILINE))
    assert stated == kafka_ways.environment(9092, 9093, {})
