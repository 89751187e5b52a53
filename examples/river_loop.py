"""A private median in river's ``learn_one`` loop.

    python examples/river_loop.py
    python examples/river_loop.py --epsilon 4 --trips 300000

How long does a taxi trip take, given its distance, weekday rush hours and night? The trips are those of
``river.datasets.Taxis`` if river has them on this machine, otherwise synthetic ones, whose true coefficients
are printed beside the estimates; ``--download`` lets river fetch its own (195 MB).

``learn_one`` plays both the device and the server: it makes a private report of the trip, forgets the trip
and learns from the report. The seed makes this study repeatable; devices draw from the operating system.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table
from river import compose, datasets, metrics

from ldp_stream import PrivateQuantileRegressor
from ldp_stream.datasets.taxi import TaxiTrips
from ldp_stream.errors import LdpStreamError

FEATURES = {"log_miles": (-2.4, 3.5), "rush": (0, 1, 0), "night": (0, 1, 0)}  # public bounds, public centre
LOG_MINUTES = (0.0, 4.8)  # public range
EARTH_RADIUS = 3959.0  # miles
SATURDAY = 5

Trip = tuple[dict[str, float], float]


def learn(trips: Iterable[Trip], n: int, epsilon: float, truth: Mapping[str, float] | None) -> None:
    """Learn the median of log minutes from the first ``n`` trips and print what was found."""
    regressor = PrivateQuantileRegressor(FEATURES, LOG_MINUTES, tau=0.5, epsilon=epsilon, seed=7)
    model = compose.Select(*FEATURES) | regressor
    error = metrics.MAE()
    for x, y in track(islice(trips, n), "learning", total=n, console=Console(stderr=True)):
        error.update(y, model.predict_one(x))
        model.learn_one(x, y)

    kind = "synthetic trips" if truth else "trips of river.datasets.Taxis"
    print(f"{regressor.n_reports:,} {kind}, a private report each, epsilon {epsilon:g}. {error} log minutes")
    table = Table("coefficient", "estimate", "95% interval", *(["truth"] if truth else []))
    for name, value in regressor.coefficients.items():
        interval = regressor.confidence_interval(name, level=0.95)
        known = [f"{truth[name]:.3f}"] if truth else []
        table.add_row(name, f"{value:.3f}", f"{interval.lower:.3f} to {interval.upper:.3f}", *known)
    Console().print(table)


def river_trip(x: dict[str, Any], seconds: float) -> Trip:
    """Return the features and the log minutes of one of river's trips; miles are as the crow flies."""
    longitude, latitude = (math.radians(x[f"pickup_{axis}"]) for axis in ("longitude", "latitude"))
    to_longitude, to_latitude = (math.radians(x[f"dropoff_{axis}"]) for axis in ("longitude", "latitude"))
    east = (to_longitude - longitude) * math.cos((latitude + to_latitude) / 2)
    miles = EARTH_RADIUS * math.hypot(east, to_latitude - latitude)
    time = x["pickup_datetime"]
    features = {
        "log_miles": math.log(max(0.1, miles)),
        "rush": float(8 <= time.hour <= 19 and time.weekday() < SATURDAY),
        "night": float(time.hour <= 6),
    }
    return features, math.log(seconds / 60)


def main() -> None:
    """Read the command line, choose the trips and learn from them."""
    parser = argparse.ArgumentParser(description="A private median in river's learn_one loop.")
    parser.add_argument("--trips", type=int, default=100_000, help="how many to learn from (%(default)s)")
    parser.add_argument("--epsilon", type=float, default=2.0, help="privacy of one report (%(default)s)")
    parser.add_argument("--download", action="store_true", help="let river download its trips (195 MB)")
    given = parser.parse_args()
    try:
        taxis = datasets.Taxis()
        if given.download or taxis.is_downloaded:
            trips = (river_trip(x, seconds) for x, seconds in taxis)
            learn(trips, given.trips, given.epsilon, truth=None)
        else:
            everywhere = TaxiTrips(2 * given.trips, seed=1)
            city = ((x, y) for x, y in everywhere if not x["airport"])
            learn(city, given.trips, given.epsilon, everywhere.true_coefficients(0.5))
    except (LdpStreamError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
