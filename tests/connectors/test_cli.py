"""The command line as a whole: help, version, exit codes, one line for wrong input, sane output."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ldp_stream.connectors.cli import main
from tests.connectors.cli_support import CAMPAIGN, COMMAND, OPEN_CAMPAIGN, TARGET, Shell, process, write_rows

COMMANDS = (
    ("demo",),
    ("replay",),
    ("report",),
    ("ingest",),
    ("parameters",),
    ("estimate",),
    ("campaign", "check"),
    ("campaign", "new"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a campaign, rows, and what was made of them."""
    folder = tmp_path_factory.mktemp("made")
    campaign, rows = folder / "trips.toml", write_rows(folder / "rows.csv", 300)
    campaign.write_text(CAMPAIGN, encoding="utf-8")
    commands = (
        ("replay", campaign, rows, *TARGET, "--seed", 1, "--checkpoint", folder / "s.ckpt"),
        ("parameters", campaign, "--out", folder / "p.json"),
    )
    assert [main([str(argument) for argument in command]) for command in commands] == [0, 0]
    return folder


@pytest.fixture
def shell(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A copy of that folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return Shell(tmp_path, capsys)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_shows_whole_examples(shell: Shell, command: tuple[str, ...]) -> None:
    """Each command's help ends well and shows examples, each on a line of its own."""
    run = shell(*command, "--help")
    lines = [line.strip() for line in run.out.splitlines()]
    assert (run.code, run.err) == (0, "")
    assert "Examples" in lines
    examples = lines[lines.index("Examples") + 2 :]
    examples = examples[: examples.index("")]
    assert any(line.startswith(" ".join(("ldp-stream", *command))) for line in examples)
    starts = ("ldp-stream ", "--", "zcat ")
    assert all(line.startswith(starts) for line in examples), "a line was wrapped"


@pytest.mark.parametrize("command", [(), ("campaign",)], ids=["alone", "campaign"])
def test_without_a_command_the_help_is_shown(shell: Shell, command: tuple[str, ...]) -> None:
    """A group alone shows its commands and ends well."""
    run = shell(*command)
    assert (run.code, run.err) == (0, "")
    assert "Commands" in run.out


def test_version(shell: Shell) -> None:
    """--version prints the package's version."""
    import ldp_stream

    run = shell("--version")
    assert (run.code, run.out) == (0, f"ldp-stream {ldp_stream.__version__}\n")


def test_start_loads_nothing_heavy() -> None:
    """--version and --help answer without numpy, scipy, river or matplotlib."""
    heavy = ("numpy", "scipy", "river", "matplotlib")
    code = (
        "import sys; from ldp_stream.connectors.cli import main; "
        "codes = main(['--version']), main(['replay', '--help']); "
        f"print(codes, [name for name in {heavy!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "(0, 0) []"


WRONG = {
    "no such command": (("replai",), "No such command"),
    "no such option": (("replay", "trips.toml", "rows.csv", "--trget", "x"), "No such option"),
    "missing argument": (("estimate",), "Missing argument"),
    "option of the wrong type": (("replay", "trips.toml", "rows.csv", *TARGET, "--seed", "x"), "--seed"),
    "missing campaign": (("replay", "no.toml", "rows.csv", *TARGET), "no.toml"),
    "bad campaign": (("replay", "bad.toml", "rows.csv", *TARGET), "tau = 7"),
    "campaign that is no TOML": (("campaign", "check", "rows.csv"), "rows.csv"),
    "checkpoint for a campaign": (("campaign", "check", "s.ckpt"), "is a checkpoint"),
    "missing rows": (("replay", "trips.toml", "no.csv", *TARGET), "no.csv"),
    "unknown target": (("replay", "trips.toml", "rows.csv", "--target", "hours"), "'hours'"),
    "no target": (("replay", "trips.toml", "rows.csv"), "--target"),
    "no column of a feature": (("replay", "trips.toml", "narrow.csv", *TARGET), "'rush'"),
    "no trip records": (("replay", "trips.toml", "rows.csv", "--tlc"), "pickup_datetime"),
    "target of trip records": (("replay", "trips.toml", "rows.csv", "--tlc", *TARGET), "log_minutes"),
    "level": (("estimate", "s.ckpt", "--level", "1.5"), "level = 1.5"),
    "batch": (("replay", "trips.toml", "rows.csv", *TARGET, "--batch", "0"), "--batch"),
    "seed": (("replay", "trips.toml", "rows.csv", *TARGET, "--seed", "-1"), "seed = -1"),
    "delimiter": (("replay", "trips.toml", "rows.csv", *TARGET, "--delimiter", "ab"), "delimiter"),
    "missing checkpoint": (("estimate", "no.ckpt"), "no.ckpt"),
    "no checkpoint": (("estimate", "rows.csv"), "not a sound checkpoint"),
    "corrupted checkpoint": (("estimate", "corrupted.ckpt"), "not a sound checkpoint"),
    "checkpoint of another campaign": (
        ("replay", "other.toml", "rows.csv", *TARGET, "--checkpoint", "s.ckpt"),
        "campaign trips",
    ),
    "ingest into another campaign's": (
        ("ingest", "other.toml", "empty.jsonl", "--checkpoint", "s.ckpt"),
        "campaign trips",
    ),
    "ingest nowhere": (("ingest", "trips.toml", "empty.jsonl"), "--checkpoint"),
    "missing reports": (("ingest", "s.ckpt", "no.jsonl"), "no.jsonl"),
    "two states": (("ingest", "s.ckpt", "empty.jsonl", "--checkpoint", "t.ckpt"), "give one"),
    "unwritable checkpoint": (
        ("replay", "trips.toml", "rows.csv", *TARGET, "--checkpoint", "no/s.ckpt"),
        "its folder is not there",
    ),
    "unwritable rejects": (("replay", "trips.toml", "rows.csv", *TARGET, "--rejects", "no/r"), "its folder"),
    "unwritable plot": (("estimate", "s.ckpt", "--plot", "no/p.png"), "its folder is not there"),
    "unknown plot format": (("estimate", "s.ckpt", "--plot", "p.xyz"), ".png"),
    "unwritable parameters": (("parameters", "trips.toml", "--out", "no/p.json"), "its folder is not there"),
    "folder for a file": (("parameters", "trips.toml", "--out", "."), "must be a file"),
    "unwritable reports": (
        ("report", "trips.toml", "rows.csv", *TARGET, "--parameters", "p.json", "--out", "no/r.jsonl"),
        "its folder is not there",
    ),
    "no parameters": (
        ("report", "trips.toml", "rows.csv", *TARGET, "--parameters", "trips.toml", "--out", "r.jsonl"),
        "is not a parameters message",
    ),
    "another campaign's parameters": (
        ("report", "other.toml", "rows.csv", *TARGET, "--parameters", "p.json", "--out", "r.jsonl"),
        "is of campaign",
    ),
    "binary to a pipe": (
        ("report", "trips.toml", "rows.csv", *TARGET, "--parameters", "p.json", "--out", "-", "--binary"),
        "need a file",
    ),
    "several partitions": (("replay", "split.toml", "rows.csv", *TARGET), "partitions = 4"),
    "draft without target": (("campaign", "new", "--from-csv", "rows.csv"), "--target"),
    "draft of text": (("campaign", "new", "--from-csv", "rows.csv", "--target", "zone"), "holds text"),
    "draft over a file": (
        ("campaign", "new", "--from-csv", "rows.csv", *TARGET, "--out", "trips.toml"),
        "--force",
    ),
    "demo with no privacy": (("demo", "--epsilon", "0", "--plot", "x.png"), "epsilon = 0"),
    "demo of too few": (("demo", "--reports", "5", "--plot", "x.png"), "--reports"),
}


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.replace(" ", "-"))
def test_wrong_input_gives_one_line_and_exit_code_2(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Wrong input gives one line on standard error that names it, nothing on standard output, and code 2."""
    monkeypatch.chdir(shell.folder)
    shell.write("bad.toml", CAMPAIGN.replace("tau = 0.5", "tau = 7"))
    shell.write("other.toml", CAMPAIGN.replace("trips", "others"))
    shell.write("split.toml", "partitions = 4\n" + CAMPAIGN)
    shell.write("narrow.csv", "log_miles,minutes\n1,2\n")
    shell.write("empty.jsonl", "")
    whole = (shell.folder / "s.ckpt").read_bytes()
    (shell.folder / "t.ckpt").write_bytes(whole)
    (shell.folder / "corrupted.ckpt").write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    before = {path.name: path.read_bytes() for path in shell.folder.iterdir()}

    arguments, expected = WRONG[case]
    run = shell(*arguments)

    assert (run.code, run.out) == (2, "")
    assert run.err.count("\n") == 1
    assert run.err.startswith("ldp-stream: ")
    assert expected in run.err
    assert {path.name: path.read_bytes() for path in shell.folder.iterdir()} == before


def test_names_from_a_file_bring_no_control_characters(shell: Shell) -> None:
    """A feature's name with an escape sequence is shown as an escape, in tables and in errors."""
    folder = shell.folder
    campaign = shell.write("odd.toml", CAMPAIGN.replace("rush =", '"r\\u001b[31m\\nush" ='))
    rows = shell.write("odd.csv", 'log_miles,"r\x1b[31m\nush",minutes\n1,0,2\n')
    runs = [
        shell("campaign", "check", campaign),
        shell("replay", campaign, folder / "rows.csv", *TARGET),
        shell("replay", campaign, rows, *TARGET),
    ]
    assert [run.code for run in runs] == [0, 2, 2]
    assert r"r\x1b[31m\nush" in runs[0].out
    for run in runs:
        assert all(char.isprintable() or char == "\n" for char in run.out + run.err)
        assert run.err.count("\n") <= 1


def test_output_in_a_pipe_is_plain_text(shell: Shell) -> None:
    """Where no terminal is, tables and progress hold no control characters and no line is cut."""
    folder = shell.folder
    run = shell("replay", folder / "trips.toml", folder / "rows.csv", *TARGET)
    assert run.code == 0
    assert all(char.isprintable() or char == "\n" for char in run.out + run.err)
    assert "300 reports" in run.out


def test_a_name_that_the_encoding_lacks_is_shown_as_an_escape(shell: Shell) -> None:
    """An ASCII terminal is no reason to fail on a name with an accent."""
    campaign = shell.write("accent.toml", CAMPAIGN.replace("rush =", '"gr\u00f6\u00dfe" ='))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [*COMMAND, "campaign", "check", str(campaign)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    assert r"gr\xf6\xdfe" in run.stdout


def test_a_reader_that_leaves_is_no_error(shell: Shell) -> None:
    """When the far end of a pipe is closed, the command ends without a traceback."""
    with process("estimate", shell.folder / "s.ckpt") as child:
        assert child.stdout is not None
        child.stdout.close()
        child.wait(60)
        assert child.stderr is not None
        assert child.stderr.read() == ""


@pytest.mark.parametrize("command", ["check", "replay", "parameters", "estimate", "report", "ingest"])
def test_a_campaign_without_privacy_is_labelled(shell: Shell, command: str) -> None:
    """What comes of the channel "none" is labelled NOT PRIVATE by every command."""
    folder = shell.folder
    campaign, rows = shell.write("open.toml", OPEN_CAMPAIGN), folder / "rows.csv"
    shell("replay", campaign, rows, *TARGET, "--checkpoint", folder / "open.ckpt")
    shell("parameters", campaign, "--out", folder / "open.json")
    common = ("report", campaign, rows, *TARGET, "--parameters", folder / "open.json", "--out")
    shell(*common, folder / "open.jsonl")
    runs = {
        "check": [("campaign", "check", campaign)],
        "replay": [("replay", campaign, rows, *TARGET), ("replay", campaign, rows, *TARGET, "--json")],
        "parameters": [("parameters", campaign)],
        "estimate": [("estimate", folder / "open.ckpt"), ("estimate", folder / "open.ckpt", "--json")],
        "report": [(*common, folder / "again.jsonl")],
        "ingest": [("ingest", campaign, folder / "open.jsonl", "--checkpoint", folder / "new.ckpt")],
    }
    for arguments in runs[command]:
        run = shell(*arguments)
        assert run.code == 0
        assert "NOT PRIVATE" in run.out + run.err
