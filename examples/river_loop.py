"""A private median in river's ``learn_one`` loop.

    python examples/river_loop.py
    python examples/river_loop.py --epsilon 4 --trips 300000

How long does a taxi trip take, given distance, weekday rush hours, night and airport? The trips are those of
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
from ldp_stream.datasets.taxi import FEATURES, TARGET, TaxiTrips
from ldp_stream.errors import LdpStreamError

Trip = tuple[dict[str, float], float]

EARTH_RADIUS = 3959.0  # miles
KENNEDY_AIRPORT = (-73.778, 40.641)  # degrees east and north
SATURDAY = 5


def miles(start: tuple[float, float], end: tuple[float, float]) -> float:
    """Return the distance as the crow flies between two nearby places, in degrees east and north."""
    east = math.radians(end[0] - start[0]) * math.cos(math.radians(start[1] + end[1]) / 2)
    return EARTH_RADIUS * math.hypot(east, math.radians(end[1] - start[1]))


def river_trip(x: dict[str, Any], seconds: float) -> Trip:
    """Return the features and the log minutes of one of river's trips."""
    start, end = ((x[f"{at}_longitude"], x[f"{at}_latitude"]) for at in ("pickup", "dropoff"))
    time = x["pickup_datetime"]
    features = {
        "log_miles": math.log(max(0.1, miles(start, end))),
        "rush": float(8 <= time.hour <= 19 and time.weekday() < SATURDAY),
        "night": float(time.hour <= 6),
        "airport": float(min(miles(start, KENNEDY_AIRPORT), miles(end, KENNEDY_AIRPORT)) <= 1.5),
    }
    return features, math.log(seconds / 60)


def learn(stream: Iterable[Trip], n: int, epsilon: float, truth: Mapping[str, float]) -> None:
    """Learn the median of log minutes from the first ``n`` trips and print it, beside the truth if there is one."""
    regressor = PrivateQuantileRegressor(features=FEATURES, target=TARGET, tau=0.5, epsilon=epsilon, seed=7)
    model = compose.Select(*FEATURES) | regressor
    error = metrics.MAE()
    for x, y in track(islice(stream, n), "learning", total=n, console=Console(stderr=True)):
        error.update(y, model.predict_one(x))
        model.learn_one(x, y)
    kind = "synthetic trips" if truth else "trips of river.datasets.Taxis"
    print(
        f"{regressor.n_reports:,} {kind}, one private report each, epsilon {epsilon:g}; {error} log minutes."
    )

    table = Table("coefficient", "estimate", "95% interval", *(["truth"] if truth else []))
    for name in regressor.coefficients:
        found = regressor.confidence_interval(name)
        known = [f"{truth[name]:.3f}"] if truth else []
        table.add_row(name, f"{found.value:.3f}", f"{found.lower:.3f} to {found.upper:.3f}", *known)
    Console().print(table)


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
            learn((river_trip(x, seconds) for x, seconds in taxis), given.trips, given.epsilon, {})
        else:
            synthetic = TaxiTrips(given.trips, seed=1)
            learn(synthetic, given.trips, given.epsilon, synthetic.true_coefficients(0.5))
    except (LdpStreamError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
