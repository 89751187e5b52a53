"""``ldp-stream sample``: a campaign and made-up rows, to try the other commands with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["CAMPAIGN", "sample"]

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
"""The campaign that is written: the median of log minutes, given distance and rush hour."""


def sample(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where to write.")] = Path("."),
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Rows to make.")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the trips.")] = 1,
) -> None:
    """Write a campaign, trips.toml, and made-up taxi trips, rows.csv.

    The columns are log_miles, rush (0 or 1) and the target log_minutes. Files
    that are there already are not touched.

    Examples
    --------
    ldp-stream sample
    ldp-stream replay trips.toml rows.csv --target log_minutes
    """
    import csv
    import io

    from ...datasets.taxi import TaxiTrips
    from ...errors import InvalidInput
    from ..outputs import write_whole
    from .console import note
    from .files_out import check_writable

    campaign_file, rows_file = folder / "trips.toml", folder / "rows.csv"
    for path in (campaign_file, rows_file):
        if path.exists():
            raise InvalidInput(f"{path}: is there already; move it away or choose another folder")
        check_writable(path, "FOLDER")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["log_miles", "rush", "log_minutes"])
    city = (trip for trip in TaxiTrips(2 * rows + 1000, seed) if not trip[0]["airport"])
    for (x, y), _ in zip(city, range(rows), strict=False):
        writer.writerow([f"{x['log_miles']:.4f}", int(x["rush"]), f"{y:.4f}"])
    write_whole(campaign_file, CAMPAIGN.encode())
    write_whole(rows_file, text.getvalue().encode())
    note(f"{campaign_file} and {rows:,} trips in {rows_file}; the target is log_minutes")
