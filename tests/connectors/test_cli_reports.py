"""``ldp-stream parameters``, ``report`` and ``ingest``: the way of reports through files."""

from __future__ import annotations

import gzip
import json
import signal
import time
from pathlib import Path

import pytest

from ldp_stream import Aggregator, Campaign
from ldp_stream.codec import decode_report
from ldp_stream.connectors.commands.report_files import read_reports
from ldp_stream.reports import Parameters
from tests.connectors.cli_support import CAMPAIGN, OPEN_CAMPAIGN, TARGET, Shell, process, state, write_rows

N = 60


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a campaign, its first parameters and rows."""
    shell = Shell(tmp_path, capsys)
    shell.write("trips.toml", CAMPAIGN)
    write_rows(tmp_path / "rows.csv", N + 1, bad=[4])
    shell("parameters", tmp_path / "trips.toml", "--out", tmp_path / "p.json")
    return shell


def report(shell: Shell, out: str, *options: object, campaign: str = "trips.toml") -> tuple[object, ...]:
    """Return the arguments that make reports of the folder's rows."""
    folder = shell.folder
    files = (folder / campaign, folder / "rows.csv")
    target = out if out == "-" else folder / out
    return "report", *files, *TARGET, "--parameters", folder / "p.json", "--out", target, *options


def test_parameters_of_a_campaign_and_of_a_checkpoint(shell: Shell) -> None:
    """A campaign gives the start, a checkpoint the round of its state, as messages that devices read."""
    folder = shell.folder
    start = Parameters.model_validate_json((folder / "p.json").read_bytes())
    assert (start.n, start.round, start.chains[0].beta) == (0, 0, (0.0, 0.0, 0.0))
    shell("replay", folder / "trips.toml", folder / "rows.csv", *TARGET, "--checkpoint", folder / "s.ckpt")
    run = shell("parameters", folder / "s.ckpt")
    campaign = Campaign.load(folder / "trips.toml")
    server = Aggregator.restore(campaign, state(folder / "s.ckpt"))
    assert (run.code, run.err) == (0, "")
    assert Parameters.model_validate_json(run.out) == server.parameters()


@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
def test_reports_of_rows_are_what_a_server_takes(shell: Shell, binary: bool) -> None:
    """One report is made of each usable row; ingesting the file folds them all, in order."""
    folder = shell.folder
    run = shell(*report(shell, "r", "--seed", 7, *(["--binary"] if binary else [])))
    assert run.code == 0
    assert f"{N} reports made" in run.err
    assert "1 row could not be used" in run.err
    campaign = Campaign.load(folder / "trips.toml")
    reports = [decode_report(content) for _, content in read_reports(str(folder / "r"))]
    assert len(reports) == N
    assert {item.digest for item in reports} == {campaign.digest_prefix}
    server = Aggregator(campaign)
    server.ingest_many(reports)
    assert shell("ingest", folder / "trips.toml", folder / "r", "--checkpoint", folder / "s.ckpt").code == 0
    assert state(folder / "s.ckpt") == server.snapshot()


def test_both_forms_hold_the_same_reports(shell: Shell) -> None:
    """With one seed, JSON lines and the binary form decode to equal reports, of 39 bytes in the latter."""
    shell(*report(shell, "r.jsonl", "--seed", 7))
    shell(*report(shell, "r.bin", "--seed", 7, "--binary"))
    paths = [shell.folder / "r.jsonl", shell.folder / "r.bin"]
    first, second = ([decode_report(content) for _, content in read_reports(str(path))] for path in paths)
    assert first == second
    assert paths[1].stat().st_size == 8 + 39 * N


def test_without_a_seed_reports_differ(shell: Shell) -> None:
    """Two runs without a seed draw from the system, so tokens and reports differ."""
    shell(*report(shell, "a"))
    shell(*report(shell, "b"))
    assert (shell.folder / "a").read_bytes() != (shell.folder / "b").read_bytes()


def test_rounds_with_one_seed_draw_independently(shell: Shell) -> None:
    """Reports made with the same seed at the parameters of two rounds have no token in common."""
    folder = shell.folder
    shell(*report(shell, "first", "--seed", 7))
    message = json.loads((folder / "p.json").read_text(encoding="utf-8"))
    (folder / "p.json").write_text(json.dumps({**message, "round": message["round"] + 1}), encoding="utf-8")
    shell(*report(shell, "second", "--seed", 7))
    tokens = [
        {json.loads(line)["token"] for line in (folder / name).read_text(encoding="utf-8").splitlines()}
        for name in ("first", "second")
    ]
    assert len(tokens[0]) == len(tokens[1]) > 5
    assert not tokens[0] & tokens[1]


def test_report_says_how_many_are_safe_and_warns_beyond(shell: Shell) -> None:
    """The safe number is the length of the round; more reports than that get a warning, fewer do not."""
    safe = Campaign.load(shell.folder / "trips.toml").round_schedule.length(0)
    many = shell(*report(shell, "many"))
    few = shell(*report(shell, "few", "--limit", safe))
    for run in (many, few):
        assert run.code == 0
        assert f"up to {safe} at these parameters are safe" in run.err
        assert "which act as one step" in run.err
    assert "WARNING" in many.err
    assert "WARNING" not in few.err
    assert len((shell.folder / "few").read_text(encoding="utf-8").splitlines()) == safe


def test_reports_to_standard_output_are_nothing_else(shell: Shell) -> None:
    """With --out - standard output holds the reports alone."""
    run = shell(*report(shell, "-"))
    assert len([decode_report(line.encode()) for line in run.out.splitlines()]) == N


def test_report_keeps_rejected_rows_on_request_and_strict_writes_nothing(shell: Shell) -> None:
    """Rows that cannot be used are kept with their line; --strict stops at them and leaves no file."""
    rejects = shell.folder / "bad.jsonl"
    assert shell(*report(shell, "r", "--rejects", rejects)).code == 0
    assert json.loads(rejects.read_text(encoding="utf-8"))["line"] == 6
    run = shell(*report(shell, "strict", "--strict"))
    assert (run.code, run.out) == (2, "")
    assert "line 6" in run.err
    assert not list(shell.folder.glob("strict*"))


def test_a_channel_without_privacy_makes_vector_reports(shell: Shell) -> None:
    """The reference channel's reports go through files too."""
    folder = shell.folder
    shell.write("open.toml", OPEN_CAMPAIGN)
    shell("parameters", folder / "open.toml", "--out", folder / "p.json")
    shell(*report(shell, "r", "--binary", campaign="open.toml"))
    run = shell("ingest", folder / "open.toml", folder / "r", "--checkpoint", folder / "s.ckpt")
    assert f"{N} reports folded" in run.err


def test_ingest_goes_on_from_a_checkpoint(shell: Shell) -> None:
    """Files one after another give the state of both at once; the checkpoint can be named first or alone."""
    folder = shell.folder
    shell(*report(shell, "a", "--limit", 20))
    shell(*report(shell, "b", "--limit", 30))
    (folder / "b.gz").write_bytes(gzip.compress((folder / "b").read_bytes()))
    shell("ingest", folder / "trips.toml", folder / "a", folder / "b", "--checkpoint", folder / "both.ckpt")
    shell("ingest", folder / "trips.toml", folder / "a", "--checkpoint", folder / "s.ckpt")
    run = shell("ingest", folder / "s.ckpt", folder / "b.gz")
    assert "30 reports folded, 50 in" in run.err
    assert state(folder / "s.ckpt") == state(folder / "both.ckpt")
    run = shell("ingest", folder / "trips.toml", folder / "a", "--checkpoint", folder / "s.ckpt")
    assert "20 reports folded, 70 in" in run.err


def test_ingest_counts_and_keeps_what_is_no_report(shell: Shell) -> None:
    """A token that occurs twice, another campaign's report, nonsense and cut bytes are refused by reason."""
    folder = shell.folder
    shell(*report(shell, "r.jsonl", "--seed", 7))
    shell(*report(shell, "r.bin", "--seed", 8, "--binary"))
    (folder / "r.bin").write_bytes((folder / "r.bin").read_bytes()[:-5])
    lines = (folder / "r.jsonl").read_text(encoding="utf-8").splitlines()
    other = json.dumps({**json.loads(lines[0]), "digest": "0" * 16, "token": "0" * 32})
    shell.write("r.jsonl", "\n".join([*lines, lines[5], "", other, "nonsense", "\x00\x01"]))
    rejects = folder / "bad.jsonl"
    files = (folder / "r.jsonl", folder / "r.bin")
    run = shell(
        "ingest", folder / "trips.toml", *files, "--checkpoint", folder / "s.ckpt", "--rejects", rejects
    )
    assert run.code == 0
    assert f"{2 * N - 1} reports folded" in run.err
    assert "5 reports could not be used" in run.err
    assert "1  token: occurred before in this run" in run.err
    assert "1  report: digest = '0000000000000000'" in run.err
    kept = [json.loads(line) for line in rejects.read_text(encoding="utf-8").splitlines()]
    assert [reject["line"] for reject in kept] == [N + 1, N + 3, N + 4, N + 5, N]
    assert kept[0]["raw"] == lines[5]
    run = shell("ingest", folder / "s.ckpt", *files, "--strict")
    assert run.code == 2
    assert run.err.count("\n") == 1


def test_ingest_is_all_or_nothing(shell: Shell) -> None:
    """A run that fails at its second file, or is interrupted, leaves the checkpoint as it was."""
    folder = shell.folder
    shell(*report(shell, "r"))
    shell("ingest", folder / "trips.toml", folder / "r", "--checkpoint", folder / "s.ckpt")
    before = state(folder / "s.ckpt")
    shell(*report(shell, "again"))
    assert shell("ingest", folder / "s.ckpt", folder / "again", folder / "none").code == 2
    assert state(folder / "s.ckpt") == before
    with process("ingest", folder / "s.ckpt", "-") as child:
        assert child.stdin is not None
        child.stdin.write((folder / "again").read_text(encoding="utf-8"))
        child.stdin.flush()
        time.sleep(4.0)  # long enough to start and to wait for more
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "stopped by a signal; nothing was saved\n")
    assert state(folder / "s.ckpt") == before


def test_rows_and_reports_go_into_one_checkpoint(shell: Shell) -> None:
    """A replay goes on from ingested reports at the first row, and ingest keeps the replay's place."""
    folder = shell.folder
    shell(*report(shell, "r", "--limit", 10))
    shell("ingest", folder / "trips.toml", folder / "r", "--checkpoint", folder / "s.ckpt")
    replay = (
        "replay",
        folder / "trips.toml",
        folder / "rows.csv",
        *TARGET,
        "--checkpoint",
        folder / "s.ckpt",
        "--json",
    )
    assert shell(*replay, "--limit", 30).json["n_reports"] == 30
    shell("ingest", folder / "s.ckpt", folder / "r")
    assert shell(*replay).json["n_reports"] == 10 + N + 10
