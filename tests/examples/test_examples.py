"""The examples, run as a reader would run them: each in a process of its own, on small made-up data."""

from __future__ import annotations

import csv
import gzip
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import repeat
from pathlib import Path

import pytest
from river.datasets import Taxis

from ldp_stream.datasets.taxi import TaxiTrips
from tests.kafka_broker import Reachable

EXAMPLES = Path(__file__).parents[2] / "examples"
OFFICIAL = ("tpep_pickup_datetime", "tpep_dropoff_datetime", "trip_distance", "RatecodeID")
OLDER = ("pickup_datetime", "dropoff_datetime", "trip_distance", "rate_code_id")
KEYS = {"tau", "epsilon", "private", "loss", "loss_ratio", "hit_rate", "coefficients"}
COEFFICIENTS = ["intercept", "log_miles", "rush", "night", "airport"]
JFK, CITY = "2", "1"
RIVER_COLUMNS = (
    "id", "vendor_id", "pickup_datetime", "dropoff_datetime", "passenger_count", "pickup_longitude",
    "pickup_latitude", "dropoff_longitude", "dropoff_latitude", "store_and_fwd_flag", "trip_duration",
)  # fmt: skip
RIVER_TRIP = (
    "trip", 1, "2016-03-14 17:24:55", "2016-03-14 17:32:30", 1, -73.98, 40.77, -73.96, 40.76, "N", 455,
)  # fmt: skip


def run(script: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an example and return what it printed."""
    return subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def records(n: int, seed: int) -> Iterator[tuple[str, str, str, str]]:
    """Yield synthetic trips as the four cells of a trip record."""
    for x, log_minutes in TaxiTrips(n, seed):
        hour = 10 if x["rush"] else 3 if x["night"] else 21
        pickup = datetime(2019, 6, 12, hour, 15)  # a Wednesday
        dropoff = pickup + timedelta(seconds=round(60 * math.exp(log_minutes)))
        yield str(pickup), str(dropoff), f"{math.exp(x['log_miles']):.2f}", JFK if x["airport"] else CITY


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with trip records under the official and, compressed, the older names; and with a note."""
    unusable = ("2019-06-12 10:00:00", "2019-06-12 10:00:05", "0", CITY)
    with (tmp_path / "a.csv").open("w", newline="") as plain:
        csv.writer(plain).writerows([OFFICIAL, *records(5000, seed=1), unusable])
    with gzip.open(tmp_path / "b.csv.gz", "wt", newline="") as packed:
        csv.writer(packed).writerows([OLDER, *records(7000, seed=2), unusable])
    (tmp_path / "README.txt").write_text("These are not trips.")
    return tmp_path


def test_quantiles_of_a_folder_as_json(folder: Path) -> None:
    """Both spellings are read, 5 trips in 6 are learnt from, and the rows compare epsilon 8 to no privacy."""
    picture = folder / "fit.png"
    ran = run(
        "taxi_quantiles.py", folder, "--json", "--seeds", "2", "--epsilons", "8,none", "--taus", "0.5,0.8",
        "--plot", picture,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "12,000 usable trips, 2 records left out." in ran.stderr
    assert "10,000 to learn from, 2,000 held out." in ran.stderr
    rows = json.loads(ran.stdout)
    assert [(row["tau"], row["epsilon"], row["private"]) for row in rows] == [
        (0.5, 8.0, True), (0.5, None, False), (0.8, 8.0, True), (0.8, None, False),
    ]  # fmt: skip
    for row in rows:
        assert set(row) == KEYS
        assert list(row["coefficients"]) == COEFFICIENTS
        assert row["hit_rate"] == pytest.approx(row["tau"], abs=0.06)
        assert row["coefficients"]["log_miles"] == pytest.approx(0.66, abs=0.12)
        assert row["loss_ratio"] == 1.0 if row["epsilon"] is None else 0.98 < row["loss_ratio"] < 1.1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_quantiles_without_files() -> None:
    """Without files it says that the trips are synthetic, and the table labels what is not private."""
    ran = run("taxi_quantiles.py", "--seeds", "1", "--epsilons", "2,none", "--taus", "0.5", "--learn", "3000")
    assert ran.returncode == 0, ran.stderr
    assert "synthetic" in ran.stderr
    assert "3,000 to learn from, 357,000 held out." in ran.stderr
    private, reference = [line for line in ran.stdout.splitlines() if line.strip().startswith("0.5")]
    assert private.split()[:2] == ["0.5", "2"]
    assert reference.split()[:3] == ["0.5", "NOT", "PRIVATE"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epsilons", "1,-1"], "epsilon = -1.0: Input should be greater than 0"),
        (["--taus", "half"], "argument --taus: invalid numbers value: 'half'"),
        (["--seeds", "0"], "argument --seeds: invalid count value: '0'"),
        (["no-such-file.csv"], "no-such-file.csv"),
    ],
)
def test_wrong_input_gets_a_message(arguments: list[str], message: str) -> None:
    """What makes no sense is refused with a line that names it, before any learning."""
    ran = run("taxi_quantiles.py", *arguments)
    assert ran.returncode == 2
    assert message in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr


def test_river_loop_downloads_nothing_unasked(tmp_path: Path) -> None:
    """Where river has no trips, synthetic ones are learnt from, and estimates stand beside the truth."""
    ran = run("river_loop.py", "--trips", "3000", RIVER_DATA=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert "3,000 synthetic trips" in ran.stdout
    truth = TaxiTrips.true_coefficients(0.5)
    for name in ("intercept", "log_miles", "rush", "night"):
        assert any(name in line and f"{truth[name]:.3f}" in line for line in ran.stdout.splitlines())
    assert not list(tmp_path.iterdir())


def test_river_loop_uses_the_trips_that_river_has(tmp_path: Path) -> None:
    """Where river has its trips already, they are learnt from."""
    trips = tmp_path / "Taxis" / "train.csv"
    trips.parent.mkdir()
    with trips.open("w", newline="") as file:
        csv.writer(file).writerows([RIVER_COLUMNS, *repeat(RIVER_TRIP, 2000)])
        file.truncate(
            Taxis().size
        )  # the size is how river knows its file; the rest is a hole and is not read
    ran = run("river_loop.py", "--trips", "1500", RIVER_DATA=str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    assert "1,500 trips of river.datasets.Taxis" in ran.stdout
    assert "truth" not in ran.stdout


def test_kafka_river_loop_learns_from_both_topics(broker: Reachable) -> None:
    """Reports and raw trips on a broker are folded to the last one, and the table shows every coefficient."""
    ran = run("kafka_river_loop.py", "--kafka", broker.bootstrap, "--trips", "2000")
    assert ran.returncode == 0, ran.stderr
    assert "2,000 reports and 2,000 trips, epsilon 4" in ran.stdout
    for name in ("intercept", "log_miles", "rush", "night"):
        assert name in ran.stdout
    assert "line" not in ran.stderr  # nothing was rejected


def test_kafka_river_loop_says_when_no_broker_is_there() -> None:
    """Without a broker the example ends with one message and no traceback."""
    ran = run("kafka_river_loop.py", "--kafka", "127.0.0.1:1", "--wait-seconds", "1")
    assert ran.returncode == 2
    assert "no Kafka broker answers at 127.0.0.1:1" in ran.stderr
    assert "Traceback" not in ran.stderr
