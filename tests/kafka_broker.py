"""A real Apache Kafka broker for the tests, and in the foreground for a person (``make broker``).

`Broker` runs one of its own, on a loopback port, with data in a temporary folder. A keeper process
(`tests.kafka_keeper`) holds it, so it ends with this process whatever happens. Tests get theirs from the
fixtures of ``conftest.py``: ``broker``, which is shared and may be one that already runs
(``LDP_STREAM_KAFKA=HOST:PORT``), and ``own_broker``, which may be killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.kafka_ways import BrokerError, choose

KEEPER = Path(__file__).with_name("kafka_keeper.py")

# Below what systems hand out for outgoing connections (32768 on Linux, 49152 elsewhere): a client that tries
# again and again while the broker is down could else be given the broker's own port and connect to itself.
PORTS = range(12_000, 32_000)

PATIENCE = 30.0
"""Seconds in which a broker that already runs must answer."""


class Broker:
    """One broker that can be stopped, killed and started again on the same port with the same data.

    Parameters
    ----------
    extra
        Further lines of server.properties; they win over those of `tests.kafka_ways`.
    port
        Port on 127.0.0.1; a free one when None.

    Raises
    ------
    NoBroker
        This machine has no way to run one; the message says what is missing.
    BrokerError
        It could not be prepared, or the port is taken.
    """

    def __init__(self, extra: Mapping[str, str] | None = None, port: int | None = None) -> None:
        way = choose()
        if port is not None and not _is_free(port):
            raise BrokerError(f"port {port} is taken: stop what listens there, or choose another (PORT=...)")
        port = port or _free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        self.pid: int | None = None
        """Process of the broker (of its attached client with Docker) since the last start."""
        self.folder = Path(tempfile.mkdtemp(prefix="ldp-stream-kafka-"))
        """Settings, data (with Docker in the container) and log."""
        self._lock = threading.Lock()
        try:
            recipe = way(self.folder, port, _free_port(), extra or {})
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        plan = json.dumps({**asdict(recipe), "folder": str(self.folder)})
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", str(KEEPER), plan],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the owner, who then ends the broker in order
        )

    def start(self, limit: float = 60.0) -> None:
        """Run the broker and return when it answers, after at most `limit` seconds."""
        if self.running:
            raise BrokerError("the broker runs already")
        self.pid = int(self._ask("start"))
        if not wait_until_ready(self.bootstrap, limit, lambda: self.running):
            state = "does not answer" if self.running else "ended before it answered"
            self.kill()
            raise BrokerError(f"the broker {state}; the end of its log:\n{self.log()}")

    def stop(self, limit: float = 20.0) -> None:
        """Let the broker end in order (SIGTERM), or kill it after `limit` seconds; the data stay."""
        self._ask("terminate")
        end = time.monotonic() + limit
        while self.running and time.monotonic() < end:
            time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        """End the broker at once (SIGKILL); the data stay as they are."""
        self._ask("kill")

    def close(self) -> None:
        """Stop the broker for good and remove its data."""
        if self._keeper.poll() is None:
            self.stop()
        self._keeper.communicate()  # closes its input, which ends it

    @property
    def running(self) -> bool:
        """Whether the broker's process lives."""
        return self._ask("poll") == "running"

    def log(self, lines: int = 40) -> str:
        """Return the last lines of the broker's log."""
        return "\n".join((self.folder / "log").read_text(errors="replace").splitlines()[-lines:])

    def _ask(self, command: str) -> str:
        with self._lock:
            if self._keeper.stdin is None or self._keeper.stdout is None or self._keeper.poll() is not None:
                raise BrokerError("the broker was closed, or its keeper has ended")
            self._keeper.stdin.write(command + "\n")
            self._keeper.stdin.flush()
            answer = self._keeper.stdout.readline().strip()
        if not answer:
            raise BrokerError(f"the broker's keeper has failed at {command!r}")
        return answer

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Reachable(Protocol):
    """What a test may use of a shared broker."""

    bootstrap: str
    """Address as HOST:PORT."""


@dataclass
class Running:
    """A broker that somebody else runs."""

    bootstrap: str


@contextmanager
def shared() -> Iterator[Reachable]:
    """Reach the broker at LDP_STREAM_KAFKA if that is set, else run one for as long as the context lasts."""
    address = os.environ.get("LDP_STREAM_KAFKA")
    if not address:
        with Broker() as broker:
            yield broker
        return
    if not wait_until_ready(address, PATIENCE):
        raise BrokerError(f"LDP_STREAM_KAFKA={address}: no Kafka broker answers there")
    yield Running(address)


def wait_until_ready(bootstrap: str, limit: float, alive: Callable[[], bool] = lambda: True) -> bool:
    """Ask at HOST:PORT for the cluster until a broker is named; whether one was within `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end and alive():
        if _names_a_broker(bootstrap):
            return True
        time.sleep(0.1)
    return False


def _names_a_broker(bootstrap: str) -> bool:
    """Send one Metadata request (key 3, version 1, no topics) and see whether it lists a broker."""
    host, _, port = bootstrap.rpartition(":")
    request = struct.pack(">hhihi", 3, 1, 0, -1, 0)
    try:
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.makefile("rb").read(12)
    except OSError:
        return False
    return len(answer) == 12 and struct.unpack(">iii", answer)[2] > 0


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    """Return a free port; at random, so that processes which look at the same time rarely meet."""
    chance = random.SystemRandom()
    return next(port for port in iter(lambda: chance.choice(PORTS), None) if _is_free(port))


def main() -> int:
    """Run a broker in the foreground until Ctrl-C or SIGTERM; its data go with it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("port", nargs="?", type=int, default=9092)
    port = parser.parse_args().port
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print("starting Apache Kafka", flush=True)
        with Broker(port=port) as broker:
            print(
                f"Apache Kafka answers at {broker.bootstrap}; Ctrl-C stops it and removes its data",
                flush=True,
            )
            while broker.running:
                time.sleep(0.5)
            print(f"the broker has ended; the end of its log:\n{broker.log()}", file=sys.stderr)
    except BrokerError as error:
        print(error, file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", flush=True)
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
