"""Private quantiles of taxi trip times, and what privacy costs in accuracy.

    python examples/taxi_quantiles.py yellow_tripdata_2019-*.parquet
    python examples/taxi_quantiles.py trips/ --epsilons 2,none --seeds 1 --plot trips.png

The files are yellow-taxi trip records of New York City's Taxi and Limousine Commission, as CSV, gzip or
Parquet; a folder stands for its files. The tau-quantile of log minutes is linear in log miles, weekday rush
hours (8 to 19), night (0 to 6) and airport fare. Trips of 0.1 to 30 miles and 1 to 120 minutes are used; that
is decided before the study and not protected. They are shuffled once and most are learnt from, one report a
trip. The others, held out, give

    loss       the mean of rho_tau(y - fit),   rho_tau(u) = u (tau - 1{u < 0}),
    ratio      the loss over that of the same averaged SGD without privacy,
    hit rate   the share of y <= fit, which should be tau,

as medians over seeds. Nothing is tuned; a report holds 1 coordinate up to epsilon 2, and 3 above.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Column, Table

from ldp_stream import PrivateQuantileRegressor
from ldp_stream.connectors.tlc import TlcSource
from ldp_stream.datasets.taxi import TaxiTrips
from ldp_stream.datasets.tlc import LOG_MILES_BOUNDS, LOG_MINUTES_BOUNDS
from ldp_stream.errors import InvalidInput, LdpStreamError

Array = NDArray[np.float64]  # of trips: a row holds the features, NaN where missing, and log minutes

FEATURES = {"log_miles": LOG_MILES_BOUNDS, "rush": (0, 1, 0), "night": (0, 1, 0), "airport": (0, 1, 0)}
SUFFIXES = (".csv", ".csv.gz", ".parquet")
console = Console(stderr=True)


class Study(NamedTuple):
    """What one model has to do; epsilon None is the reference, which is not private."""

    tau: float
    epsilon: float | None
    seed: int = 1

    def model(self) -> PrivateQuantileRegressor:
        """Return the model that has learnt nothing yet."""
        own = crc32(
            f"{self.tau}/{self.epsilon}/{self.seed}".encode()
        )  # so that no two rows share their draws
        block = {"kind": "cqx", "q": 2, "s": 1 if (self.epsilon or 0.0) <= 2 else 3}
        return PrivateQuantileRegressor(
            features=FEATURES,
            target=LOG_MINUTES_BOUNDS,
            tau=self.tau,
            epsilon=self.epsilon,
            channel="none" if self.epsilon is None else block,
            seed=own,
        )


def read_trips(paths: Sequence[Path], progress: Progress) -> Array:
    """Return every usable trip of the files, 40 bytes each; without files, synthetic trips."""
    if not paths:
        console.print("No files given: these are 360,000 synthetic trips.")
        return np.concatenate([np.column_stack(block) for block in TaxiTrips(360_000, seed=1).blocks()])
    files = []
    for path in paths:
        files += sorted(f for f in path.iterdir() if f.name.endswith(SUFFIXES)) if path.is_dir() else [path]
    task, blocks, left_out = progress.add_task("reading", total=1.0), [np.empty((0, 5))], 0
    with TlcSource(files) as source:
        for batch in source.batches(8192):
            rows = [[*(x.get(name, np.nan) for name in FEATURES), y] for x, y in batch.items]
            blocks.append(np.array(rows).reshape(-1, 5))
            left_out += len(batch.rejected)
            progress.update(task, completed=batch.progress)
    trips = np.concatenate(blocks)
    console.print(f"{len(trips):,} usable trips, {left_out:,} records left out.")
    return trips


def split(trips: Array, most: int) -> tuple[Array, Array]:
    """Shuffle the trips; return those to learn from, ``most`` of them or else 5 in 6, and the others."""
    n = len(trips)
    learn = most if most < n else n * 5 // 6
    if learn == 0:
        raise InvalidInput(f"usable trips = {n}: must be at least 2")
    console.print(f"{learn:,} to learn from, {n - learn:,} held out.")
    shuffled = np.random.default_rng(0).permutation(trips)
    return shuffled[:learn], shuffled[learn:]


data: list[Array] = []  # in a worker process: trips to learn from, and held out


def start_worker(*parts: Array) -> None:
    """Keep the data in the worker process, and leave Ctrl-C to the main one."""
    data.extend(parts)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def carry_out(study: Study) -> tuple[Study, dict[str, Any]]:
    """Learn from one trip after the other, and measure the fit on the held-out ones."""
    learn, held_out = data
    model = study.model()
    for *values, y in learn.tolist():
        model.learn_one(dict(zip(FEATURES, values, strict=True)), y)
    coefficients = {name: model.coefficients[name] for name in ("intercept", *FEATURES)}
    residual = held_out[:, 4] - quantile(coefficients, held_out[:, :4])
    loss = float(np.mean(residual * (study.tau - (residual < 0))))
    return study, {"loss": loss, "hit_rate": float(np.mean(residual <= 0)), "coefficients": coefficients}


def quantile(coefficients: dict[str, float], x: Array) -> Array:
    """Return the fitted log minutes; a missing 0/1 feature counts as its public centre, 0."""
    intercept, *slopes = coefficients.values()
    return np.asarray(intercept + np.nan_to_num(x) @ slopes)


def summary(results: dict[Study, dict[str, Any]], tau: float, epsilon: float | None) -> dict[str, Any]:
    """Return the row of one tau and epsilon: medians over the seeds."""
    found = [result for study, result in results.items() if study[:2] == (tau, epsilon)]
    loss = median(result["loss"] for result in found)
    coefficients = [result["coefficients"] for result in found]
    return {
        "tau": tau,
        "epsilon": epsilon,
        "private": epsilon is not None,
        "loss": loss,
        "loss_ratio": loss / results[Study(tau, None)]["loss"],
        "hit_rate": median(result["hit_rate"] for result in found),
        "coefficients": {name: median(one[name] for one in coefficients) for name in coefficients[0]},
    }


def label(epsilon: float | None) -> str:
    """Return how an epsilon is named in table and plot."""
    return "NOT PRIVATE" if epsilon is None else f"{epsilon:g}"


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print a line for each row."""
    table = Table("tau", Column("epsilon", no_wrap=True), box=SIMPLE_HEAD, padding=0)
    for name in ("loss", "ratio", "hit_rate", "intercept", *FEATURES):
        table.add_column(name.replace("_", "\n"))
    for row in rows:
        measures = f"{row['loss']:.5f}", f"{row['loss_ratio']:.4f}", f"{row['hit_rate']:.4f}"
        coefficients = (f"{value:.3f}" for value in row["coefficients"].values())
        table.add_row(f"{row['tau']:g}", label(row["epsilon"]), *measures, *coefficients)
    Console().print(table)


def save_plot(path: Path, rows: list[dict[str, Any]], held_out: Array) -> None:
    """Draw the fitted quantiles of minutes against miles, at rush hours and not, over some held-out trips."""
    from matplotlib import colormaps, pyplot

    epsilons = list(dict.fromkeys(row["epsilon"] for row in rows if row["private"]))
    colours = dict(zip(epsilons, colormaps["plasma"](np.linspace(0.05, 0.85, len(epsilons))), strict=True))
    reach = np.array([0.4, 16.0])
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 5.5), sharex=True, sharey=True, layout="constrained")
    for rush, title, axis in zip((0, 1), ("Other hours, not night", "Weekday rush hours"), axes, strict=True):
        shown = held_out[(held_out[:, 1:4] == (rush, 0, 0)).all(axis=1)][:4000]
        axis.loglog(np.exp(shown[:, 0]), np.exp(shown[:, 4]), ".", ms=2, color="0.85")
        for row in rows:
            x = np.array([(log_miles, rush, 0, 0) for log_miles in np.log(reach)])
            look = {"color": colours[row["epsilon"]]} if row["private"] else {"color": "black", "ls": "--"}
            name = label(row["epsilon"]) if row["tau"] == rows[0]["tau"] else None
            minutes = np.exp(quantile(row["coefficients"], x))
            axis.plot(reach, minutes, label=name, **look)
            if rush and row["epsilon"] == rows[-1]["epsilon"]:
                axis.text(reach[1] * 1.05, minutes[1], f"tau {row['tau']:g}", va="center")
        axis.set(title=title, xlabel="miles", xlim=reach, ylim=(1.5, 100))
        axis.set_xticks(ticks := [0.5, 1, 2, 5, 10], [f"{tick:g}" for tick in ticks])
        axis.set_yticks(ticks := [2, 5, 10, 20, 50], [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    axes[0].set_ylabel("minutes")
    axes[1].legend(title="epsilon", loc="lower right")
    taus = " and ".join(f"{tau:g}" for tau in dict.fromkeys(row["tau"] for row in rows))
    figure.suptitle(f"Fitted {taus} quantiles of trip time")
    figure.savefig(path, dpi=150)


def numbers(text: str) -> list[float | None]:
    """Read numbers or "none", separated by commas."""
    return [None if part.strip() == "none" else float(part) for part in text.split(",")]


def count(text: str) -> int:
    """Read a whole number >= 1."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def main() -> None:
    """Read the command line, learn, and print what was found."""
    parser = argparse.ArgumentParser(description="Private quantiles of taxi trip times.")
    option = parser.add_argument
    option("paths", nargs="*", type=Path, metavar="PATH", help="files or folders; without: synthetic trips")
    option("--taus", type=numbers, default="0.5,0.9", help="quantile levels (%(default)s)")
    option("--epsilons", type=numbers, default="1,2,4,8,none", help="none: not private (%(default)s)")
    option("--seeds", type=count, default=5, help="runs of each (%(default)s)")
    option("--learn", type=count, default=300_000, help="trips to learn from (%(default)s)")
    option("--jobs", type=count, default=2, help="processes (%(default)s)")
    option("--json", action="store_true", help="print JSON instead of a table")
    option("--plot", type=Path, metavar="FILE", help="save a picture; needs matplotlib")
    given = parser.parse_args()
    if given.plot and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install 'ldp-stream[plot]'")
    try:
        rows, held_out = carry_out_all(given)
    except (LdpStreamError, OSError) as error:
        parser.error(str(error))
    if given.json:
        json.dump(rows, sys.stdout, indent=1)
    else:
        print_table(rows)
    if given.plot:
        save_plot(given.plot, rows, held_out)


def carry_out_all(given: argparse.Namespace) -> tuple[list[dict[str, Any]], Array]:
    """Return a row for each tau and epsilon, and the held-out trips."""
    studies = [Study(tau, None) for tau in given.taus]  # the reference draws nothing, so one seed will do
    private = [epsilon for epsilon in given.epsilons if epsilon is not None]
    studies += [Study(*each) for each in product(given.taus, private, range(1, given.seeds + 1))]
    for study in studies:
        study.model().parameters()  # refuses nonsense before anything is read
    with Progress(console=console) as progress:
        parts = split(read_trips(given.paths, progress), given.learn)
        with get_context("spawn").Pool(given.jobs, start_worker, parts) as pool:
            done = pool.imap_unordered(carry_out, studies)
            results = dict(progress.track(done, total=len(studies), description="learning"))
    return [summary(results, *each) for each in product(given.taus, given.epsilons)], parts[1]


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
