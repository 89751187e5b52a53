"""Runs a broker on behalf of another process, and ends it when that process is gone, however it went.

The owner starts this file as a process of its own and holds the other end of its standard input. Each line
there is a command, answered by one line on standard output:

- ``start``: run the broker; the answer is its process id.
- ``terminate``, ``kill``: SIGTERM, or what stands for SIGKILL; the answer is ``done``.
- ``poll``: ``running``, or ``ended`` and the exit code.

The operating system closes that pipe when the owner ends, even by SIGKILL. Then, and on SIGTERM, the broker
is killed and everything it left is removed. The one argument is JSON: ``run``, ``kill`` and ``remove`` as in
`tests.kafka_ways.Recipe`; ``folder`` holds the broker's files and its ``log``.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType


class Keeper:
    """One broker and the four commands."""

    def __init__(self, run: list[str], kill: list[str], remove: list[str], folder: str) -> None:
        self._run, self._kill, self._remove = run, kill, remove
        self._folder = Path(folder)
        self._broker: subprocess.Popen[bytes] | None = None

    def answer(self, command: str) -> str:
        """Obey one command."""
        if command == "start":
            with (self._folder / "log").open("ab") as log:
                self._broker = subprocess.Popen(
                    self._run, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
            return str(self._broker.pid)
        if command == "poll":
            code = self._broker.poll() if self._broker else 0
            return "running" if code is None else f"ended {code}"
        if command == "terminate" and self._broker:
            self._broker.terminate()
        if command == "kill":
            self._end()
        return "done"

    def close(self) -> None:
        """Kill the broker and remove what it left."""
        self._end()
        if self._remove:
            subprocess.run(self._remove, capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        if self._broker is None or self._broker.poll() is not None:
            return
        if self._kill:
            subprocess.run(self._kill, capture_output=True, check=False)
        else:
            self._broker.kill()
        self._broker.wait()


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)


def main() -> None:
    """Obey until standard input closes."""
    signal.signal(signal.SIGTERM, _leave)
    keeper = Keeper(**json.loads(sys.argv[1]))
    try:
        for line in sys.stdin:
            print(keeper.answer(line.strip()), flush=True)
    finally:
        keeper.close()


if __name__ == "__main__":
    main()
