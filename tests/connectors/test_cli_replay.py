"""``ldp-stream replay`` and ``estimate``: what is learnt, resuming, stopping, rejects, plots."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ldp_stream import Aggregator, Campaign, Reporter
from ldp_stream.connectors.commands.stored import read_checkpoint
from ldp_stream.datasets.taxi import TaxiTrips
from tests.connectors.cli_support import CAMPAIGN, OPEN_CAMPAIGN, TARGET, Shell, process, state, write_rows

BLOCKS = 'channel = { kind = "cqx", q = 2, s = 3 }'
N = 2_000
BAD = (7, 1_234)
KEYS = ["campaign", "digest", "tau", "n_reports", "level", "private", "reason", "coefficients"]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A folder with a campaign and rows."""
    shell = Shell(tmp_path, capsys)
    shell.write("trips.toml", CAMPAIGN)
    write_rows(tmp_path / "rows.csv", N, bad=BAD)
    return shell


def replay(
    shell: Shell, *options: object, rows: str = "rows.csv", campaign: str = "trips.toml"
) -> tuple[object, ...]:
    """Return the arguments of a replay of the folder's files."""
    folder = shell.folder
    return "replay", folder / campaign, folder / rows, *TARGET, *options


@pytest.fixture
def whole(shell: Shell) -> bytes:
    """The state after a replay with seed 3 that nothing interrupted."""
    path = shell.folder / "whole.ckpt"
    assert shell(*replay(shell, "--seed", 3, "--checkpoint", path)).code == 0
    return state(path)


def test_replay_prints_coefficients_and_what_was_rejected(shell: Shell) -> None:
    """The table has every coefficient; speed and rejects by reason come on standard error."""
    run = shell(*replay(shell, "--seed", 3))
    assert run.code == 0
    assert f"median from {N - len(BAD):,} reports, epsilon = 4, 95% intervals" in run.out
    for name in ("intercept", "log_miles", "rush"):
        assert f" {name} " in run.out
    assert "2 rows could not be used" in run.err
    assert "2  the target 'minutes' is not a number" in run.err
    assert "a second" in run.err


def test_replay_is_the_loop_over_reports(shell: Shell) -> None:
    """A replay without noise gives the state of the loop over the package's own devices and server."""
    shell.write("open.toml", OPEN_CAMPAIGN)
    shell(*replay(shell, "--checkpoint", shell.folder / "s.ckpt", campaign="open.toml"))
    campaign = Campaign.load(shell.folder / "open.toml")
    server, devices = Aggregator(campaign), Reporter.simulated(campaign, seed=1)
    for number, (x, y) in enumerate(TaxiTrips(N, seed=3)):
        if number not in BAD:
            server.ingest(devices.report(x, y, server.parameters()))
    assert state(shell.folder / "s.ckpt") == server.snapshot()


def test_replay_learns_the_truth(shell: Shell) -> None:
    """With little noise the coefficients come near the known ones, so devices and server fit together."""
    shell.write("clear.toml", CAMPAIGN.replace("epsilon = 4.0", "epsilon = 8.0\n" + BLOCKS))
    write_rows(shell.folder / "many.csv", 30_000)
    run = shell(*replay(shell, "--seed", 1, "--json", rows="many.csv", campaign="clear.toml"))
    found = {name: entry["value"] for name, entry in run.json["coefficients"].items()}
    truth = TaxiTrips.true_coefficients(0.5)
    assert found == pytest.approx({name: truth[name] for name in found}, abs=0.05)


def test_json_is_pure_and_has_the_promised_keys(shell: Shell) -> None:
    """--json prints one JSON object with campaign, digest, n_reports, level and coefficients."""
    run = shell(
        *replay(shell, "--seed", 3, "--json", "--level", 0.9, "--checkpoint", shell.folder / "s.ckpt")
    )
    answer = run.json
    assert list(answer) == KEYS
    assert (answer["campaign"], answer["n_reports"], answer["level"]) == ("trips", N - len(BAD), 0.9)
    assert answer["digest"] == Campaign.load(shell.folder / "trips.toml").digest
    for entry in answer["coefficients"].values():
        assert list(entry) == ["value", "lower", "upper"]
        assert entry["lower"] < entry["value"] < entry["upper"]
    assert shell("estimate", shell.folder / "s.ckpt", "--json", "--level", 0.9).json == answer


def test_joint_sets_of_a_checkpoint(shell: Shell) -> None:
    """--simultaneous and --ellipsoid give the estimate's joint sets, as JSON and in words."""
    path = shell.folder / "s.ckpt"
    shell(*replay(shell, "--seed", 3, "--checkpoint", path))
    answer = read_checkpoint(path).server.estimate(0.9)
    asked = ("estimate", path, "--level", 0.9, "--simultaneous", "--ellipsoid")
    found = shell(*asked, "--json").json
    assert found["ellipsoid"] == answer.ellipsoid().as_dict()
    joint = {name: interval.as_dict() for name, interval in answer.simultaneous().items()}
    assert found["simultaneous"] == joint
    assert found["coefficients"]["rush"]["lower"] > joint["rush"]["lower"]
    said = shell(*asked).out
    assert "90% simultaneous intervals" in said
    assert f"volume {answer.ellipsoid().volume:.4g}" in said


def test_where_there_is_no_ellipsoid_the_reason_is_said(shell: Shell) -> None:
    """After few reports the JSON holds the reason in place of the ellipsoid, and the text says it."""
    path = shell.folder / "s.ckpt"
    shell(*replay(shell, "--strict", "--batch", 5, "--checkpoint", path))
    found = shell("estimate", path, "--ellipsoid", "--json").json
    assert list(found["ellipsoid"]) == ["reason"]
    assert found["ellipsoid"]["reason"] == found["reason"]
    assert "No ellipsoid: too early" in shell("estimate", path, "--ellipsoid").out


def test_before_any_interval_json_has_null_and_a_reason(shell: Shell) -> None:
    """With too few reports the ends are null, in JSON, and the table says why there are none."""
    few = replay(shell, "--limit", 2)
    answer = shell(*few, "--json").json
    assert answer["coefficients"]["rush"]["lower"] is None
    assert answer["reason"]
    assert "No interval:" in shell(*few).out


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_batches_do_not_change_the_result(shell: Shell, whole: bytes, size: int) -> None:
    """However many rows are read at once, the state is the same bit for bit."""
    shell(*replay(shell, "--seed", 3, "--batch", size, "--checkpoint", shell.folder / "s.ckpt"))
    assert state(shell.folder / "s.ckpt") == whole


@pytest.mark.parametrize("form", ["gzip", "jsonl", "two files"])
def test_the_form_of_the_rows_does_not_change_the_result(shell: Shell, whole: bytes, form: str) -> None:
    """Compressed, as JSON lines, or cut into two files: the state is the same bit for bit."""
    text = (shell.folder / "rows.csv").read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    names: list[str] = ["rows.csv.gz"]
    if form == "gzip":
        (shell.folder / names[0]).write_bytes(gzip.compress(text.encode()))
    elif form == "jsonl":
        names = ["rows.jsonl"]
        objects = [json.dumps(dict(zip(header.split(","), line.split(","), strict=True))) for line in lines]
        shell.write(names[0], "\n".join(objects))
    else:
        names = ["a.csv", "b.csv"]
        shell.write("a.csv", "\n".join([header, *lines[:900]]) + "\n")
        shell.write("b.csv", "\n".join([header, *lines[900:]]) + "\n")
    paths = [shell.folder / name for name in names]
    options = ("--seed", 3, "--checkpoint", shell.folder / "s.ckpt")
    assert shell("replay", shell.folder / "trips.toml", *paths, *TARGET, *options, "--limit", 1_500).code == 0
    assert shell("replay", shell.folder / "trips.toml", *paths, *TARGET, *options).code == 0
    assert state(shell.folder / "s.ckpt") == whole


def test_an_interrupted_run_goes_on_to_the_same_state(shell: Shell, whole: bytes) -> None:
    """Stopped three times and resumed, also with other batches, a seeded run ends as if never stopped."""
    common = replay(shell, "--seed", 3, "--checkpoint", shell.folder / "s.ckpt")
    for limit, size in ((5, 8192), (777, 10), (1_500, 64)):
        run = shell(*common, "--limit", limit, "--batch", size, "--json")
        assert run.json["n_reports"] == limit
    run = shell(*common)
    assert state(shell.folder / "s.ckpt") == whole
    assert "1,500 of the checkpoint" in run.err


def test_another_seed_gives_another_state(shell: Shell, whole: bytes) -> None:
    """The seed matters, and without one two runs differ: the randomness is the system's."""
    states = [whole]
    for number, options in enumerate([("--seed", 4), (), ()]):
        path = shell.folder / f"{number}.ckpt"
        shell(*replay(shell, *options, "--checkpoint", path))
        states.append(state(path))
    assert len(set(states)) == len(states)


def test_a_checkpoint_that_is_done_stays_as_it_is(shell: Shell, whole: bytes) -> None:
    """A second run over the same rows learns nothing twice; rows that were added are learnt."""
    path = shell.folder / "whole.ckpt"
    shell(*replay(shell, "--seed", 3, "--checkpoint", path))
    assert state(path) == whole
    with (shell.folder / "rows.csv").open("a", encoding="utf-8") as file:
        file.write("1.0,1,JFK,2.0,120.0\n")
    run = shell(*replay(shell, "--seed", 3, "--checkpoint", path, "--json"))
    assert run.json["n_reports"] == N - len(BAD) + 1


@pytest.mark.parametrize("change", ["file", "target"])
def test_a_checkpoint_is_not_continued_with_other_rows(shell: Shell, change: str) -> None:
    """A checkpoint refuses rows that begin otherwise, and another target."""
    path = shell.folder / "s.ckpt"
    shell(*replay(shell, "--limit", 100, "--checkpoint", path))
    rows, target = shell.folder / "rows.csv", "minutes"
    if change == "file":
        rows.write_bytes(rows.read_bytes().replace(b"JFK", b"EWR"))
    else:
        target = "seconds"
    run = shell("replay", shell.folder / "trips.toml", rows, "--target", target, "--checkpoint", path)
    assert run.code == 2
    assert run.err.count("\n") == 1
    assert "is not the file that the checkpoint stands in, or has another target" in run.err


def test_rejects_are_kept_on_request_and_added_to_on_resuming(shell: Shell) -> None:
    """The rejects file has origin, line, reason and text of each row, over all runs of a checkpoint."""
    rejects = shell.folder / "rejects.jsonl"
    common = replay(shell, "--seed", 3, "--rejects", rejects, "--checkpoint", shell.folder / "s.ckpt")
    shell(*common, "--limit", 500)
    shell(*common)
    kept = [json.loads(line) for line in rejects.read_text(encoding="utf-8").splitlines()]
    assert [reject["line"] for reject in kept] == [number + 2 for number in BAD]
    assert kept[0]["reason"] == "the target 'minutes' is not a number"
    assert kept[0]["raw"].endswith(",JFK,long,0.0")


def test_strict_stops_at_the_first_bad_row_and_keeps_what_came_before(shell: Shell) -> None:
    """--strict ends with code 2 and one line that names the row; earlier batches are saved and shown."""
    path = shell.folder / "s.ckpt"
    run = shell(*replay(shell, "--strict", "--batch", 5, "--checkpoint", path, "--json"))
    assert run.code == 2
    assert run.err.count("\n") == 1
    assert "line 9: the target 'minutes' is not a number" in run.err
    assert run.json["n_reports"] == 5
    assert shell("estimate", path, "--json").json["n_reports"] == 5


def test_a_gzip_file_that_is_cut_short_does_not_lose_what_was_learnt(shell: Shell) -> None:
    """A fault of the input ends the run with code 2, after what was read is learnt and saved."""
    content = gzip.compress((shell.folder / "rows.csv").read_bytes())
    (shell.folder / "rows.csv.gz").write_bytes(content[:-2000])
    path = shell.folder / "s.ckpt"
    run = shell(*replay(shell, "--batch", 50, "--checkpoint", path, "--json", rows="rows.csv.gz"))
    assert run.code == 2
    assert run.err.count("\n") == 1
    assert run.json["n_reports"] == shell("estimate", path, "--json").json["n_reports"]


def test_a_feature_that_no_row_has_is_pointed_out(shell: Shell) -> None:
    """JSON lines without a feature are usable, but the run says that it was never there."""
    shell.write("rows.jsonl", '{"log_miles": 1, "minutes": 2}\n' * 3)
    run = shell(*replay(shell, rows="rows.jsonl"))
    assert run.code == 0
    assert "no row has a value of 'rush'" in run.err


def test_trip_records_need_no_target(shell: Shell) -> None:
    """--tlc reads NYC TLC trip records and counts those that it leaves out."""
    header = "tpep_pickup_datetime,tpep_dropoff_datetime,trip_distance,RatecodeID\n"
    good = "2019-06-14 11:30:00,2019-06-14 11:50:00,4.71,1\n"
    shell.write("yellow.csv", header + good * 20 + "2019-06-14 11:30:00,2019-06-14 11:30:01,4.71,1\n")
    run = shell("replay", shell.folder / "trips.toml", shell.folder / "yellow.csv", "--tlc", "--json")
    assert (run.code, run.json["n_reports"]) == (0, 20)
    assert "1 row could not be used" in run.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("busy", [False, True], ids=["waiting", "busy"])
def test_a_signal_stops_cleanly(
    shell: Shell, whole: bytes, number: signal.Signals, code: int, busy: bool
) -> None:
    """Ctrl-C or SIGTERM prints what was learnt, saves it, exits with 128 + signal, and the run can go on."""
    path = shell.folder / "s.ckpt"
    arguments = (
        "replay",
        shell.folder / "trips.toml",
        "-",
        *TARGET,
        "--seed",
        3,
        "--checkpoint",
        path,
        "--json",
    )
    text = (shell.folder / "rows.csv").read_text(encoding="utf-8")
    often = ("--checkpoint-every", 0, "--batch", 2 if busy else 100)
    with process(*arguments, *often) as child:
        assert child.stdin is not None
        child.stdin.write(text if busy else text[: len(text) // 2])
        child.stdin.flush()
        wait_for(path)
        if not busy:
            time.sleep(1.0)  # long enough for the first half to be read, so that it waits for more
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert "stopped by a signal; the same command goes on from the checkpoint" in err
    learnt = json.loads(out)["n_reports"]
    assert 0 < learnt < N - len(BAD)
    assert shell("estimate", path, "--json").json == json.loads(out)
    with process(*arguments) as child:
        out, _ = child.communicate(text, timeout=60)
    assert (child.returncode, json.loads(out)["n_reports"]) == (0, N - len(BAD))
    assert state(path) == whole


def test_a_killed_run_goes_on_from_its_last_save(shell: Shell, whole: bytes) -> None:
    """After SIGKILL the checkpoint holds a state with its position, and the run ends as if never killed."""
    path = shell.folder / "s.ckpt"
    arguments = replay(shell, "--seed", 3, "--checkpoint", path)
    text = (shell.folder / "rows.csv").read_text(encoding="utf-8")
    piped = ("replay", shell.folder / "trips.toml", "-", *TARGET, *arguments[5:])
    with process(*piped, "--checkpoint-every", 0, "--batch", 10) as child:
        assert child.stdin is not None
        child.stdin.write(text)
        child.stdin.flush()
        wait_for(path)
        child.kill()
        child.wait(60)
    assert 0 < shell("estimate", path, "--json").json["n_reports"] < N - len(BAD)
    with process(*piped) as child:
        child.communicate(text, timeout=60)
    assert state(path) == whole


def wait_for(path: Path) -> None:
    """Return when a checkpoint is there."""
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, "no checkpoint was saved"
        time.sleep(0.01)


@pytest.mark.parametrize("name", ["plot.png", "plot.svg", "plot.pdf"])
def test_plots_are_files_of_their_kind(shell: Shell, whole: bytes, name: str) -> None:
    """--plot draws in the format of the file's ending."""
    assert whole
    path = shell.folder / name
    assert shell("estimate", shell.folder / "whole.ckpt", "--plot", path).code == 0
    starts = {"plot.png": b"\x89PNG", "plot.svg": b"<?xml", "plot.pdf": b"%PDF"}
    assert path.read_bytes().startswith(starts[name])
    assert not list(shell.folder.glob("*.part"))


def test_a_plot_without_privacy_says_so(shell: Shell) -> None:
    """The picture of a channel "none" is labelled, that of a private one is not."""
    shell.write("open.toml", OPEN_CAMPAIGN)
    for campaign, labelled in (("open.toml", True), ("trips.toml", False)):
        path = shell.folder / "plot.svg"
        shell(*replay(shell, "--plot", path, campaign=campaign))
        text = path.read_text(encoding="utf-8")
        assert ("NOT PRIVATE" in text, "epsilon = 4" in text) == (labelled, not labelled)


def test_without_matplotlib_a_plot_is_refused_before_the_work(shell: Shell) -> None:
    """A missing matplotlib gives one line that names the extra to install."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None; "
        "from ldp_stream.connectors.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    arguments = [str(argument) for argument in replay(shell, "--plot", shell.folder / "plot.png")]
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "ldp-stream: a plot needs matplotlib: pip install 'ldp-stream[plot]'\n"
