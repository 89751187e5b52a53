"""From a taxi trip record to a row."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from ldp_stream.datasets.tlc import (
    LOG_MILES_BOUNDS,
    LOG_MINUTES_BOUNDS,
    read_record,
    read_trip,
    trip_columns,
)
from ldp_stream.errors import InvalidInput, UnusableRow

FRIDAY = datetime(2019, 6, 14)
QUARTER = timedelta(minutes=15)


@pytest.mark.parametrize("day", range(7))
@pytest.mark.parametrize("hour", range(24))
def test_rush_and_night_hours(day: int, hour: int) -> None:
    """Rush is Monday to Friday, hours 8 to 19; night hours 0 to 6 of any day, to the last second."""
    for second in (0, 3599):
        pickup = datetime(2019, 6, 10) + timedelta(days=day, hours=hour, seconds=second)
        x, _ = read_trip(str(pickup), str(pickup + QUARTER), "2", "1")
        assert x["rush"] == (day < 5 and hour in range(8, 20))
        assert x["night"] == (hour in range(7))


@pytest.mark.parametrize(
    ("seconds", "used"),
    [(59, False), (60, True), (61, True), (7200, True), (7201, False), (0, False), (-600, False)],
)
def test_only_trips_of_1_to_120_minutes_are_used(seconds: int, used: bool) -> None:
    """Both ends count; what is outside, also a dropoff before the pickup, is unusable."""
    end = FRIDAY + timedelta(seconds=seconds)
    if used:
        assert read_trip(FRIDAY, end, 2, 1)[1] == pytest.approx(math.log(seconds / 60), abs=1e-15)
    else:
        with pytest.raises(UnusableRow, match="between 1 and 120 minutes"):
            read_trip(FRIDAY, end, 2, 1)


@pytest.mark.parametrize(
    ("miles", "used"),
    [("0.1", True), (30.0, True), ("0.09", False), (30.01, False), ("-1", False), ("nan", False)],
)
def test_only_trips_of_a_tenth_to_30_miles_are_used(miles: object, used: bool) -> None:
    """Both ends count; what is outside, and what is no distance, is unusable."""
    if used:
        assert read_trip(FRIDAY, FRIDAY + QUARTER, miles, 1)[0]["log_miles"] == math.log(float(str(miles)))
    else:
        with pytest.raises(UnusableRow, match=r"between 0\.1 and 30 miles"):
            read_trip(FRIDAY, FRIDAY + QUARTER, miles, 1)


def test_the_bounds_hold_every_usable_trip() -> None:
    """The public bounds lie outside the logarithms of the limits, so that nothing is clipped."""
    low, _ = read_trip(FRIDAY, FRIDAY + timedelta(minutes=1), 0.1, 1)
    high, longest = read_trip(FRIDAY, FRIDAY + timedelta(minutes=120), 30, 1)
    assert LOG_MILES_BOUNDS[0] < low["log_miles"] < high["log_miles"] < LOG_MILES_BOUNDS[1]
    assert LOG_MINUTES_BOUNDS[0] <= 0.0 < longest < LOG_MINUTES_BOUNDS[1]


@pytest.mark.parametrize(
    ("code", "airport"),
    [("1", 0), ("2", 1), ("3", 1), ("4", 0), ("99", 0), (2, 1), (2.0, 1), ("2.0", 1), (" 3 ", 1), (5.0, 0)],
)
def test_airport_rates(code: object, airport: int) -> None:
    """Rate codes 2 and 3 are airports, as a number or its text."""
    assert read_trip(FRIDAY, FRIDAY + QUARTER, 2, code)[0]["airport"] == airport


@pytest.mark.parametrize("code", [None, "", math.nan])
def test_without_a_rate_code_the_row_is_without_airport(code: object) -> None:
    """A missing rate code leaves the feature out; the rest of the row is used."""
    x, _ = read_trip(FRIDAY, FRIDAY + QUARTER, 2, code)
    assert x.keys() == {"log_miles", "rush", "night"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pickup_datetime": ""}, "the pickup time is missing"),
        ({"dropoff_datetime": None}, "the dropoff time is missing"),
        ({"pickup_datetime": "14/06/2019"}, "the pickup time is not a date and time"),
        ({"dropoff_datetime": 7}, "the dropoff time is not a date and time"),
        ({"dropoff_datetime": "2019-06-14T12:15:00+00:00"}, "only one of the two times has a time zone"),
        ({"trip_distance": ""}, "the trip distance is missing"),
        ({"trip_distance": "far"}, "the trip distance is not a number"),
        ({"rate_code_id": "JFK"}, "the rate code is not a number"),
    ],
)
def test_what_cannot_be_read_says_why(change: dict[str, object], reason: str) -> None:
    """Each fault has one fixed reason, without the row's values."""
    record: dict[str, object] = {
        "pickup_datetime": "2019-06-14 12:00:00",
        "dropoff_datetime": "2019-06-14 12:15:00",
        "trip_distance": "2.0",
        "rate_code_id": "1",
    }
    read_record(record)
    with pytest.raises(UnusableRow, match=f"^{reason}$"):
        read_record(record | change)


def test_official_and_older_spellings_give_the_same_row() -> None:
    """A record may use the official columns or the older ones, and times with or without a zone."""
    older = {
        "pickup_datetime": FRIDAY,
        "dropoff_datetime": FRIDAY + QUARTER,
        "trip_distance": 3,
        "rate_code_id": 2,
    }
    official = {
        "tpep_pickup_datetime": FRIDAY.replace(tzinfo=UTC),
        "tpep_dropoff_datetime": (FRIDAY + QUARTER).isoformat() + "+00:00",
        "trip_distance": "3",
        "RatecodeID": "2",
        "fare_amount": "12",
    }
    assert read_record(official) == read_record(older)


def test_the_columns_are_found_or_named() -> None:
    """The four columns are found in any order; a missing one is named in all its spellings."""
    columns = ["VendorID", "RatecodeID", "trip_distance", "tpep_dropoff_datetime", "tpep_pickup_datetime"]
    assert trip_columns(columns) == (columns[4], columns[3], columns[2], columns[1])
    with pytest.raises(InvalidInput, match="'RatecodeID' or 'rate_code_id'"):
        trip_columns(["trip_distance", "tpep_dropoff_datetime", "tpep_pickup_datetime"])
