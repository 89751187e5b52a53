"""``ldp-stream demo``: it runs, says what it found, and its study is the one that it describes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ldp_stream.connectors.commands.demo_run import TAUS, make_campaigns, run_study
from ldp_stream.datasets.taxi import TaxiTrips
from tests.connectors.cli_support import Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_the_quick_demo_tells_the_whole_story(shell: Shell) -> None:
    """It shows truth, estimate, interval and coverage for both quantiles, minutes, and saves a picture."""
    run = shell("demo", "--quick")
    assert run.code == 0
    rows = [line.split() for line in run.out.splitlines()]
    for name in TaxiTrips.true_coefficients(0.5):
        found = [row for row in rows if row and row[0] == name]
        assert len(found) == len(TAUS)
        for tau, (_, truth, value, lower, upper, covered) in zip(TAUS, found, strict=True):
            assert float(truth) == pytest.approx(TaxiTrips.true_coefficients(tau)[name], abs=0.006)
            assert float(lower) <= float(value) <= float(upper)
            assert covered in ("yes", "NO")
            assert (float(lower) <= float(truth) <= float(upper)) == (covered == "yes")
    covered_rows = sum(row[-1] == "yes" for row in rows if len(row) == 6)
    assert f"{covered_rows} of 10 intervals cover the truth" in run.out
    assert covered_rows >= 8  # of this seed
    for text in ("60,000 users", "epsilon = 6", "5-mile trip in the rush hour", "truth 22.5", "truth 34.1"):
        assert text in run.out
    assert (shell.folder / "demo" / "quantiles.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_is_repeatable_and_the_seed_matters(shell: Shell) -> None:
    """Equal seeds print equal results, another seed others."""
    common = ("demo", "--reports", 3000, "--plot", "x.png")
    first, second, third = (shell(*common, "--seed", seed).out for seed in (1, 1, 2))
    assert first == second != third


def test_each_user_is_asked_once_by_a_coin_that_does_not_look(shell: Shell) -> None:
    """Every report belongs to one campaign, a third of them to the median, whatever the channel."""
    del shell
    total = 20_000
    counts = []
    for epsilon in (6.0, 1.0):
        answers = run_study(make_campaigns(epsilon), total, seed=5)
        counts.append([answer.estimate.n_reports for answer in answers])
    assert counts[0] == counts[1]
    assert sum(counts[0]) == total
    spread = np.sqrt(total * (1 / 3) * (2 / 3))
    assert abs(counts[0][0] - total / 3) < 4 * spread


def test_an_interrupted_study_gives_what_it_has_learnt(shell: Shell) -> None:
    """A stop after the first block of trips leaves an answer of that many reports."""
    del shell
    answers = run_study(make_campaigns(6.0), 10**6, seed=5, after=lambda _: True)
    assert 0 < sum(answer.estimate.n_reports for answer in answers) < 10**5


def test_without_matplotlib_the_demo_goes_on(shell: Shell) -> None:
    """A missing matplotlib costs the picture only, and the line says what to install."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None; "
        "from ldp_stream.connectors.cli import main; sys.exit(main(['demo', '--reports', '2000']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=shell.folder
    )
    assert run.returncode == 0
    assert "pip install 'ldp-stream[plot]'" in run.stderr
    assert "intervals cover the truth" in run.stdout
    assert "picture" not in run.stdout
