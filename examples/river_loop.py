"""A private median in river's ``learn_one`` loop.

    python examples/river_loop.py
    python examples/river_loop.py --download

How long does a taxi trip take, given its distance and the time of day? The trips are river's ``Taxis`` where
they are on this machine already (or may be downloaded, 195 MB), else synthetic ones with known coefficients.
The model learns through one private report a trip: with ``learn_one`` it plays the device and the server in
one process. With ``seed`` the randomness is repeatable and protects nobody; a device draws its own.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from river import compose, datasets, metrics
from rich.progress import track
from rich.console import Console

from ldp_stream import PrivateQuantileRegressor
from ldp_stream.datasets.taxi import TaxiTrips

EARTH_RADIUS_MILES = 3958.8
SATURDAY = 5


def features(x: dict[str, Any]) -> dict[str, float]:
    """Return log miles as the crow flies, weekday rush hour and night of one of river's trips."""
    longitude, latitude, to_longitude, to_latitude = (
        math.radians(x[f"{end}_{axis}"]) for end in ("pickup", "dropoff") for axis in ("longitude", "latitude")
    )
    return x
