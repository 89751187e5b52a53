"""The code and the campaign file that the package promises its users work as they are written."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ldp_stream import Campaign
from ldp_stream.datasets.taxi import TaxiTrips

CAMPAIGN = """\
kind = "quantile"
name = "trips-2019"
tau = 0.5
epsilon = 2.0
target = { lower = 0.0, upper = 4.8 }
channel = { kind = "cqx", q = 2, s = 1 }
inference = { kind = "sn" }
[features]
log_miles = { lower = -2.4, upper = 3.5 }
rush = { lower = 0, upper = 1, centre = 0 }
"""

IMPORTS = "from ldp_stream import Aggregator, Campaign, PrivateQuantileRegressor, Reporter\n"

DEVICES = """\
campaign = Campaign.load("trips.toml")                      # also .json; Campaign.model_validate(dict)
server = Aggregator(campaign)
device = Reporter(campaign, ledger="device.sqlite")         # OS entropy
report = device.report({"log_miles": 0.3, "rush": 1}, y=2.1, parameters=server.parameters())
server.ingest(report)                                       # or ingest_many(reports)
answer = server.estimate(level=0.95)
answer["log_miles"].value, answer["log_miles"].lower, answer["log_miles"].upper      # "intercept" too
answer.contrast({"log_miles": 1.0, "rush": -1.0})           # an Interval, in the user's units
server = Aggregator.restore(campaign, server.snapshot())    # bytes
"""

RIVER = """\
model = PrivateQuantileRegressor(features={"log_miles": (-2.4, 3.5), "rush": (0, 1, 0)}, \
target=(0.0, 4.8), tau=0.5, epsilon=2.0, seed=7)
for x, y in stream:                                          # a third bound is the feature's public centre
    model.learn_one(x, y)
model.predict_one(x, with_interval=True)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder that holds the campaign's file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trips.toml").write_text(CAMPAIGN)
    return tmp_path


def run(code: str, **given: Any) -> dict[str, Any]:
    """Run code and return its names."""
    exec(compile(IMPORTS + code, "face", "exec"), given)
    return given


def test_a_device_reports_to_a_server(place: Path) -> None:
    """A device reports once at the server's parameters; the server answers, and goes on from a snapshot."""
    names = run(DEVICES)
    assert names["server"].n_reports == 1
    assert (place / "device.sqlite").exists()
    assert names["answer"]["intercept"].level == 0.95
    contrast = names["answer"].contrast({"log_miles": 1.0, "rush": -1.0})
    assert type(contrast).__name__ == "Interval"
    assert contrast.value == names["answer"]["log_miles"].value - names["answer"]["rush"].value


def test_a_river_loop_learns(place: Path) -> None:
    """The loop over a stream learns every record and predicts with an interval of river's kind."""
    names = run(RIVER, stream=TaxiTrips(4000, seed=2))
    model, x = names["model"], names["x"]
    interval = model.predict_one(x, with_interval=True)
    assert model.n_reports == 4000
    assert type(interval).__module__.startswith("river.conf")
    assert math.isfinite(interval.lower)
    assert model.predict_one(x) in interval
    assert not list(place.glob("*.sqlite"))


@pytest.mark.usefixtures("place")
def test_many_devices_in_a_study() -> None:
    """Simulated devices report in numbers, and their reports fold together or one by one."""
    code = (
        'campaign = Campaign.load("trips.toml")\n'
        "server, other = Aggregator(campaign), Aggregator(campaign)\n"
        "devices = Reporter.simulated(campaign, seed=7)\n"
        "parameters = server.parameters()\n"
        "reports = [devices.report(x, y, parameters=parameters) for x, y in stream]\n"
        "server.ingest_many(reports)\n"
        "for report in reports:\n"
        "    other.ingest(report)\n"
    )
    names = run(code, stream=TaxiTrips(300, seed=2))
    assert names["server"].snapshot() == names["other"].snapshot()
    answer = names["server"].estimate()
    assert math.isfinite(answer["rush"].value)
    assert "too early" in answer.reason


def test_the_campaign_says_the_same_in_every_form(place: Path) -> None:
    """TOML, JSON and a dictionary with the same content make one campaign; so does one without defaults."""
    given = tomllib.loads(CAMPAIGN)
    (place / "trips.json").write_text(json.dumps(given))
    shorter = {key: value for key, value in given.items() if key not in ("channel", "inference")}
    forms = [
        Campaign.load("trips.toml"),
        Campaign.load("trips.json"),
        Campaign.model_validate(given),
        Campaign.model_validate(shorter),
    ]
    assert len({campaign.digest for campaign in forms}) == 1
    assert forms[0].name == "trips-2019"


@pytest.mark.usefixtures("place")
def test_the_model_is_the_campaigns() -> None:
    """The estimator of a campaign is one with the campaign's digest, so it takes its devices' reports."""
    names = run(
        'campaign = Campaign.load("trips.toml")\nmodel = PrivateQuantileRegressor.from_campaign(campaign)\n'
    )
    assert names["model"].campaign == names["campaign"]


def test_the_names_are_there_in_a_fresh_interpreter(place: Path) -> None:
    """The promised names import together in a new process, which warns of nothing."""
    command = [sys.executable, "-W", "error", "-c", IMPORTS + "print(Campaign.load('trips.toml').name)"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trips-2019\n", "")
