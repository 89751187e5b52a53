"""The README's code blocks run as they stand, one after the other, in an empty folder."""

from __future__ import annotations

import csv
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ldp_stream.connectors.commands.sample import CAMPAIGN
from ldp_stream.datasets.taxi import TaxiTrips
from tests.kafka_broker import Reachable

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[str]:
    """Return the README's code blocks of one language, in order."""
    return [text for found, text in BLOCK.findall(README.read_text(encoding="utf-8")) if found == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, made the current one, with the README's campaign and a file of rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips.toml").write_text(blocks("toml")[0], encoding="utf-8")
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["log_miles", "rush", "log_minutes"])
        rows.writerows([x["log_miles"], x["rush"], y] for x, y in TaxiTrips(2000))
    return tmp_path


def test_python_blocks_run_and_print_finite_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All blocks run in one session, one after the other, and print estimates without NaN."""
    names: dict[str, object] = {}
    found = blocks("python")
    assert len(found) == 4
    for block in found:
        exec(compile(block, str(README), "exec"), names)
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 10
    assert "nan" not in printed
    assert (folder / "device.sqlite").exists()


def test_console_lines_run(folder: Path) -> None:
    """Every ``ldp-stream`` line of the README ends with exit code 0 and says something."""
    lines = [
        line for block in blocks("console") for line in block.splitlines() if line.startswith("ldp-stream")
    ]
    assert len(lines) >= 4
    program = Path(sys.executable).with_name("ldp-stream")
    for line in lines:
        done = subprocess.run(
            [program, *shlex.split(line, comments=True)[1:]],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_the_readmes_campaign_is_the_samples() -> None:
    """The campaign that the README prints is the one that ``ldp-stream sample`` writes."""
    assert blocks("toml") == [CAMPAIGN]


def test_the_kafka_service_runs_in_five_commands(
    broker: Reachable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The five commands, with fewer rows and the tests' own broker, end with an estimate from all reports."""
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in blocks("console") if "make broker" in block)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert lines[0] == ["make", "broker"]
    assert len(lines) == 5
    program = str(Path(sys.executable).with_name("ldp-stream"))
    sample, serve, report, estimate = (
        [program, *(broker.bootstrap if word == "127.0.0.1:9092" else word for word in line[1:])]
        for line in lines[1:]
    )
    subprocess.run([*sample, "--rows", "1500"], check=True)
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            while "starts at the beginning" not in (line := service.stderr.readline()):
                assert line, "the service ended"
            done = subprocess.run(report, capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0, done.stderr
        finally:
            service.send_signal(signal.SIGTERM)
            _, said = service.communicate(timeout=60)
    assert service.returncode == 0, said
    done = subprocess.run([*estimate, "--json"], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["n_reports"] == 1500, said
    assert set(answer["coefficients"]) == {"intercept", "log_miles", "rush"}


def test_make_targets_that_the_readme_names_exist() -> None:
    """Every ``make`` target of the README is one of the Makefile's."""
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z-]+)\b", README.read_text(encoding="utf-8")))
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
