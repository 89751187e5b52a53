"""Ways to run one Apache Kafka broker on this machine: Java with jars that Maven fetches, or a Docker engine.

A way makes a `Recipe`, command lines that `tests.kafka_keeper` carries out. Both give the same broker: one
node that is its own controller (KRaft), on loopback, with topics made only on request.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

VERSION = "4.3.1"
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

# slf4j-simple writes Kafka's log to standard error; without it a broker that cannot start says nothing.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


class BrokerError(RuntimeError):
    """A broker could not be started or controlled; the message says why."""


class NoBroker(BrokerError):
    """This machine has no way to run a broker; the message says what is missing."""


@dataclass(frozen=True)
class Recipe:
    """Command lines."""

    run: list[str]
    """The broker in the foreground."""
    kill: list[str]
    """What kills it; empty when SIGKILL to `run` does."""
    remove: list[str]
    """What removes it for good; empty when nothing is left."""


Way = Callable[[Path, int, int, Mapping[str, str]], Recipe]
"""Of a folder for files, the port of the broker, that of its controller and further server.properties."""


def choose() -> Way:
    """Maven and Java, else a Docker engine that runs.

    Raises
    ------
    NoBroker
        Neither is there.
    """
    java = _succeeds("java", "-version")
    maven = jars().is_dir() or shutil.which("mvn") is not None
    if java and maven:
        return with_java
    if _succeeds("docker", "info"):
        return with_docker
    missing = " and ".join(["java (17 or newer)"] * (not java) + ["mvn (Maven)"] * (not maven))
    docker = "the Docker engine does not answer" if shutil.which("docker") else "docker is not installed"
    raise NoBroker(f"no way to run Apache Kafka: {missing} not found, and {docker}")


def jars() -> Path:
    """Return the folder where Kafka's jars are kept between runs, there or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache).absolute() / "ldp-stream" / f"kafka-{VERSION}"


def fetch_jars() -> Path:
    """Fetch the jars with Maven unless they are there; safe when two processes do it at once."""
    target = jars()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="fetching-", dir=target.parent))
    try:
        (place / "pom.xml").write_text(POM)
        maven = ["mvn", "-q", "-B", "-f", str(place / "pom.xml"), "dependency:copy-dependencies"]
        _run([*maven, "-DincludeScope=runtime", f"-DoutputDirectory={place / 'libs'}"])
        try:
            (place / "libs").rename(target)
        except OSError:  # somebody else was faster
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(place)
    return target


def with_java(folder: Path, port: int, controller: int, extra: Mapping[str, str]) -> Recipe:
    """Write the settings, format the storage and run the broker as a child process."""
    lines = _settings("127.0.0.1", port, controller, str(folder / "data")) | dict(extra)
    settings = folder / "server.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    classes = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{fetch_jars()}/*"]
    brief = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", *classes, "kafka.tools.StorageTool"]
    _run([*brief, "format", "-t", CLUSTER_ID, "-c", str(settings)])
    return Recipe(["java", "-Xmx512m", *classes, "kafka.Kafka", str(settings)], [], [])


def with_docker(_folder: Path, port: int, controller: int, extra: Mapping[str, str]) -> Recipe:
    """Create a container of the official image; its data live in it, so a killed one goes on where it was."""
    name = f"ldp-stream-{uuid.uuid4().hex[:12]}"
    variables = environment(port, controller, extra)
    options = [option for key, value in variables.items() for option in ("-e", f"{key}={value}")]
    publish = ["-p", f"127.0.0.1:{port}:{port}"]
    _run(["docker", "create", "--name", name, *publish, *options, f"apache/kafka:{VERSION}"])
    return Recipe(
        ["docker", "start", "-a", name], ["docker", "kill", name], ["docker", "rm", "-f", "-v", name]
    )


def environment(port: int, controller: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which the image takes its settings.

    It listens on the same port inside as outside, so that the advertised address also holds inside.
    """
    lines = _settings("0.0.0.0", port, controller, "/tmp/kafka-data") | dict(extra)
    return {f"KAFKA_{name.replace('.', '_').upper()}": value for name, value in lines.items()}


def _settings(host: str, port: int, controller: int, data: str) -> dict[str, str]:
    one = ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"]
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
        "auto.create.topics.enable": "false",
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        **{f"{topic}.replication.factor": "1" for topic in one},
        **{f"{topic}.min.isr": "1" for topic in one[1:]},
        **{f"{topic}.num.partitions": "1" for topic in one},
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker may register again only when its old session is over.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.dedupe.buffer.size": str(1 << 24),
    }


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode != 0:
        raise BrokerError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout[-4000:]}")
