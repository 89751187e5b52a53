"""Tries the installed wheel as a stranger would: no pytest, no checkout, only what the base install brings.

Run by ``make wheel-smoke`` from an empty folder with the interpreter that the wheel was installed for.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from importlib.metadata import distribution
from pathlib import Path

import ldp_stream
from ldp_stream import Aggregator, Campaign, PrivateQuantileRegressor, Reporter

N_REPORTS = 2_000
DEFINITION = {
    "kind": "quantile",
    "name": "smoke",
    "tau": 0.5,
    "epsilon": 4.0,
    "target": {"lower": 0.0, "upper": 4.8},
    "channel": {"kind": "cqx", "q": 2, "s": 1},
    "inference": {"kind": "sn"},
    "features": {
        "log_miles": {"lower": -2.4, "upper": 3.5},
        "rush": {"lower": 0, "upper": 1, "centre": 0},
    },
}


def check(holds: bool, what: str) -> None:
    """Stop the run when something does not hold."""
    if not holds:
        sys.exit(f"smoke test of the wheel failed: {what}")
    print(f"ok: {what}")


def event(number: int) -> tuple[dict[str, float], float]:
    """Return features and target of one made-up trip; the target is linear in the features."""
    x = {"log_miles": (number * 37 % 100) / 50 - 0.5, "rush": number % 2}
    return x, 1.5 + 0.8 * x["log_miles"] + 0.2 * x["rush"]


def check_installed() -> None:
    """The package comes from site-packages and carries its type marker and both folders' code."""
    site = Path(sysconfig.get_path("purelib")).resolve()
    folder = Path(str(ldp_stream.__file__)).resolve().parent
    check(folder == site / "ldp_stream", f"ldp_stream is imported from site-packages ({folder})")
    check((folder / "py.typed").is_file(), "py.typed is installed")
    installed = {file.parts[0] for file in distribution("ldp-stream").files or () if file.suffix == ".py"}
    check(installed == {"ldp_stream"}, f"the wheel installs no other top-level name ({sorted(installed)})")


def check_reports() -> None:
    """Reports of simulated devices become an estimate with intervals, and the state survives a snapshot."""
    campaign = Campaign.model_validate(DEFINITION)
    server = Aggregator(campaign)
    for number in range(N_REPORTS):
        x, y = event(number)
        device = Reporter.simulated(campaign, seed=number)
        server.ingest(device.report(x, y=y, parameters=server.parameters()))
    check(server.n_reports == N_REPORTS, "every report is counted")
    answer = server.estimate(level=0.95)
    for name in ("intercept", "log_miles", "rush"):
        one = answer[name]
        check(one.lower < one.value < one.upper, f"{name} has an interval around its value")
    contrast = answer.contrast({"log_miles": 1.0, "rush": -1.0})
    check(contrast.lower < contrast.upper, "a contrast has an interval")
    restored = Aggregator.restore(campaign, server.snapshot())
    same = restored.estimate(level=0.95)["log_miles"]
    check(same.value == answer["log_miles"].value, "a restored server gives the same answer")


def check_estimator() -> None:
    """The river estimator learns and predicts a number with an interval around it."""
    model = PrivateQuantileRegressor(
        features={"log_miles": (-2.4, 3.5), "rush": (0, 1, 0)},
        target=(0.0, 4.8),
        tau=0.5,
        epsilon=4.0,
        seed=7,
    )
    for number in range(N_REPORTS):
        model.learn_one(*event(number))
    x, _ = event(0)
    interval = model.predict_one(x, with_interval=True)
    check(interval.lower < model.predict_one(x) < interval.upper, "the river estimator predicts")


def check_command() -> None:
    """The console script is installed beside the interpreter; its help and its short demo end well."""
    command = Path(sysconfig.get_path("scripts")) / "ldp-stream"
    for arguments in (["--help"], ["demo", "--quick"]):
        run = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
        sys.stdout.write(run.stdout if run.returncode else "")
        sys.stderr.write(run.stderr if run.returncode else "")
        check(run.returncode == 0, f"ldp-stream {' '.join(arguments)}")


if __name__ == "__main__":
    check_installed()
    check_reports()
    check_estimator()
    check_command()
