"""``ldp-stream coverage``: its table, its JSON, its picture, and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ldp_stream.studies.coverage import Cell, rows, simulate
from tests.connectors.cli_support import Shell

KEYS = [
    *("method", "tau", "epsilon", "d", "errors", "spread", "n", "coefficient"),
    *("coverage", "mc_error", "width", "distance", "bound"),
]
SMALL = ("--method", "sn", "--n", "1000", "--replications", "5", "--tau", ".5", "--d", "1")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_every_combination_is_a_cell(shell: Shell) -> None:
    """Each option given twice doubles the lines; JSON has a row a coefficient with exactly the known keys."""
    run = shell(
        "coverage", *SMALL, "--method", "dc10", "--epsilon", "none", "--epsilon", "4", "--json", "a.json"
    )
    assert run.code == 0
    lines = [line.split() for line in run.out.splitlines() if line.split()[:1] in (["sn"], ["dc10"])]
    assert [line[:3] for line in lines] == [
        [method, "0.5", epsilon] for epsilon in ("none", "4") for method in ("sn", "dc10")
    ]
    found = json.loads(Path("a.json").read_text())
    assert len(found) == 8
    assert all(list(row) == KEYS for row in found)
    assert [row["epsilon"] for row in found] == [None] * 4 + [4.0] * 4
    assert [row["coefficient"] for row in found] == [0, 1] * 4


def test_the_rows_are_the_simulation(shell: Shell) -> None:
    """The same seed gives the same figures as the function behind the command, another seed others."""
    shell("coverage", *SMALL, "--epsilon", "2", "--steps", "power", "--seed", "7", "--json", "a.json")
    cell = Cell("sn", 0.5, 2.0, 1, "gauss", 0.2, 1000, "power")
    found = json.loads(Path("a.json").read_text())
    assert found == [row.as_dict() for row in rows(cell, simulate(cell, 5, 7))]
    assert found != [row.as_dict() for row in rows(cell, simulate(cell, 5, 8))]
    for row in found:
        assert row["mc_error"] == pytest.approx(math.sqrt(row["coverage"] * (1 - row["coverage"]) / 5))


def test_the_picture_is_drawn(shell: Shell) -> None:
    """--plot makes a file of the format of its ending."""
    run = shell("coverage", *SMALL, "--epsilon", "2", "--plot", "a.png")
    assert run.code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "bayes"), "--method = 'bayes': must be one of sn, dc10, dc20, higrad"),
        (("--errors", "cauchy"), "--errors = 'cauchy': must be one of gauss, t3"),
        (("--steps", "fast"), "--steps = 'fast': must be one of power, corrected, adaptive, adaptive-open"),
        (("--epsilon", "much"), "--epsilon = 'much': must be a number > 0 or \"none\""),
        (("--n", "999"), "--n = 999: must be"),
        (("--d", "0"), "--d = 0: must be"),
        (("--spread", "0"), "--spread = 0.0: must be"),
        (("--tau", "1"), "tau"),
        (("--method", "higrad", "--steps", "adaptive-open"), "a HiGrad tree has a horizon"),
        (("--json", "nowhere/a.json"), "--json = 'nowhere/a.json': its folder is not there"),
    ],
)
def test_wrong_options_are_refused_in_one_line(shell: Shell, options: tuple[str, ...], message: str) -> None:
    """Exit code 2 and one line that names the option, before anything is simulated."""
    run = shell("coverage", *options)
    assert run.code == 2
    assert run.out == ""
    assert message in run.err
    assert run.err.count("\n") == 1
