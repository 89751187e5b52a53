"""``ldp-stream design`` and ``ldp-stream audit``: tables, JSON, exit codes, wrong arguments."""

from __future__ import annotations

import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from ldp_stream import Campaign
from ldp_stream.channels.randomized_response import RandomizedResponse
from tests.connectors.cli_support import CAMPAIGN, OPEN_CAMPAIGN, Shell


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a campaign."""
    shell = Shell(tmp_path, capsys)
    shell.write("trips.toml", CAMPAIGN)
    return shell


def test_design_prints_a_line_for_the_campaign(shell: Shell) -> None:
    """The chosen channel is printed as TOML, which gives what auto gives; every kind is in the table."""
    run = shell("design", shell.folder / "trips.toml")
    assert (run.code, run.err) == (0, "")
    line = next(line for line in run.out.splitlines() if line.startswith("channel = "))
    written = Campaign.model_validate({**tomllib.loads(CAMPAIGN), **tomllib.loads(line)})
    chosen = Campaign.load(shell.write("auto.toml", 'channel = { kind = "auto" }\n' + CAMPAIGN))
    assert written.digest == chosen.digest
    for kind in ("laplace", "face_exponential", "piecewise", "hybrid", "privunit_g", "biased"):
        assert kind in run.out


def test_design_without_a_campaign(shell: Shell) -> None:
    """Epsilon, level and number of features are enough; JSON holds the choice and the alternatives."""
    run = shell("design", "--epsilon", 4, "--tau", 0.9, "--features", 3, "--criterion", "worst", "--json")
    assert run.code == 0
    answer = run.json
    assert answer["criterion"] == "worst"
    assert answer["chosen"]["channel"]["kind"] == "cqx"
    assert answer["chosen"]["worst"] == min(row["worst"] for row in answer["searched"])
    assert len(answer["alternatives"]) > 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--epsilon, --tau, --features: missing"),
        (("--epsilon", 1, "--tau", 0.5), "--features: missing"),
        (("--epsilon", 0, "--tau", 0.5, "--features", 1), "epsilon = 0"),
        (("--epsilon", 1, "--tau", 2, "--features", 1), "tau = 2"),
        (("--epsilon", 1, "--tau", 0.5, "--features", -1), "features = -1"),
        (("--criterion", "best"), "criterion"),
        (("trips.toml", "--tau", 0.5), "--tau: must be absent"),
        (("nowhere.toml",), "nowhere.toml"),
        (("open.toml",), "no epsilon"),
    ],
)
def test_design_refuses_wrong_arguments(
    shell: Shell, arguments: tuple[object, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what is wrong, with exit code 2."""
    monkeypatch.chdir(shell.folder)
    shell.write("open.toml", OPEN_CAMPAIGN)
    run = shell("design", *arguments)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert message in run.err


def test_audit_says_that_a_campaign_holds(shell: Shell) -> None:
    """The table has the exact epsilon and a row for each coefficient."""
    run = shell("audit", shell.folder / "trips.toml")
    assert (run.code, run.err) == (0, "")
    for text in ("holds what it claims", "37 bytes", "log_miles", "1,000,000 reports"):
        assert text in run.out


def test_audit_as_json(shell: Shell) -> None:
    """The promised keys are there, with the widths at the numbers of reports that were asked for."""
    run = shell("audit", shell.folder / "trips.toml", "--json", "--reports", "500,2e4", "--width", 0.1)
    assert run.code == 0
    answer = run.json
    assert answer["epsilon"] == 4.0
    assert answer["epsilon_exact"] == pytest.approx(4.0, abs=1e-12)
    assert answer["max_bias"] < 1e-12
    assert answer["categories"] == [2]
    assert answer["report_bytes"] == 37
    assert list(answer["width_at"]) == ["500", "20000"]
    assert set(answer["reports_for_width"]) == {"intercept", "log_miles", "rush"}


def test_audit_of_a_campaign_without_privacy_is_labelled(shell: Shell) -> None:
    """It claims nothing, so it holds, and says that it protects nobody."""
    run = shell("audit", shell.write("open.toml", OPEN_CAMPAIGN))
    assert run.code == 0
    assert "NOT PRIVATE" in run.err
    assert "unlimited" in run.out


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_audit_fails_a_sabotaged_channel(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, as_json: tuple[str, ...]
) -> None:
    """A channel that keeps the true category more often than it may gives exit code 1 and says so."""
    monkeypatch.setattr(RandomizedResponse, "pi", property(lambda own: Fraction(own.keep + 1, 1 << 62)))
    monkeypatch.setattr(RandomizedResponse, "rho", property(lambda own: (1 - own.pi) / (own.categories - 1)))
    run = shell("audit", shell.folder / "trips.toml", *as_json)
    assert run.code == 1
    assert "DOES NOT HOLD: tau = 0.5: the exact epsilon" in run.err
    if as_json:
        assert run.json["holds"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--level", 1), "level = 1"),
        (("--spread", 0), "spread = 0"),
        (("--width", -1), "width = -1"),
        (("--reports", "many"), "--reports = 'many'"),
        (("--reports", "0"), "--reports = '0'"),
    ],
)
def test_audit_refuses_wrong_arguments(shell: Shell, arguments: tuple[object, ...], message: str) -> None:
    """One line says what is wrong, with exit code 2."""
    run = shell("audit", shell.folder / "trips.toml", *arguments)
    assert (run.code, run.out, run.err.count("\n")) == (2, "", 1)
    assert message in run.err
