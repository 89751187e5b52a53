"""What the tests of the command line share: a campaign, rows, and ways to run a command."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ldp_stream.connectors.checkpoints import FileCheckpoint
from ldp_stream.connectors.cli import main
from ldp_stream.datasets.taxi import TaxiTrips

CAMPAIGN = """\
kind = "quantile"
name = "trips"
tau = 0.5
epsilon = 4.0
target = { lower = 0.0, upper = 4.8 }
[features]
log_miles = { lower = -2.4, upper = 3.5 }
rush = { lower = 0, upper = 1, centre = 0 }
"""
OPEN_CAMPAIGN = CAMPAIGN.replace("epsilon = 4.0", 'channel = { kind = "none" }')
TARGET = ("--target", "minutes")
COMMAND = (sys.executable, "-c", "import sys; from ldp_stream.connectors.cli import main; sys.exit(main())")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


class Shell:
    """Runs commands in this process, with a folder of files."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def __call__(self, *arguments: object) -> Outcome:
        """Run a command; text with a dot that names no option is a file of the folder."""
        self._capture.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = self._capture.readouterr()
        return Outcome(code, captured.out, captured.err)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path


def write_rows(path: Path, n: int, *, bad: Sequence[int] = ()) -> Path:
    """Write n taxi trips as CSV; the rows with these numbers have text for a target."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["log_miles", "rush", "zone", "minutes", "seconds"])
        for number, (x, y) in enumerate(TaxiTrips(n, seed=3)):
            seconds, target = (0.0, "long") if number in bad else (60 * y, y)
            writer.writerow([x["log_miles"], int(x["rush"]), "JFK", target, seconds])
    return path


def state(path: Path) -> bytes:
    """Return the state that a checkpoint holds."""
    with FileCheckpoint(path) as store:
        checkpoint = store.load()
    assert checkpoint is not None
    return checkpoint.state


@contextmanager
def process(*arguments: object, stdin: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    """Start a command as a process of its own, which does not outlive the test."""
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
