"""New York City TLC yellow-taxi trip records as rows for a regression of trip time.

One record gives, with d the trip's distance in miles and t its time in minutes,

    y = log t,    x = {log_miles: log d, rush, night, airport},

where rush is 1 for a pickup on Monday to Friday in the hours 8 to 19, night is 1 for the hours 0 to 6 of any
day, and airport is 1 for the rate codes 2 (JFK) and 3 (Newark). All hours are those written in the record,
and both ends count. Only trips of 0.1 to 30 miles and 1 to 120 minutes are used, so the bounds below hold
every row. This choice of trips is made before the study and is not protected by the privacy guarantee.

Source of the columns: the Taxi and Limousine Commission's data dictionary for yellow-taxi trip records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from ..errors import InvalidInput, UnusableRow

__all__ = ["LOG_MILES_BOUNDS", "LOG_MINUTES_BOUNDS", "read_record", "read_trip", "trip_columns"]

LOG_MILES_BOUNDS: Final = (-2.4, 3.5)
"""Public bounds of ``log_miles``: log 0.1 = -2.303 to log 30 = 3.401, rounded outwards."""

LOG_MINUTES_BOUNDS: Final = (0.0, 4.8)
"""Public bounds of the target: log 1 = 0 to log 120 = 4.787, rounded outwards."""

_SPELLINGS: Final = (
    ("tpep_pickup_datetime", "pickup_datetime"),
    ("tpep_dropoff_datetime", "dropoff_datetime"),
    ("trip_distance", "trip_distance"),
    ("RatecodeID", "rate_code_id"),
)
_RATE_CODES: Final = {str(code): float(code in (2, 3)) for code in range(1, 7)}
_SATURDAY: Final = 5


def trip_columns(columns: Sequence[str]) -> tuple[str, str, str, str]:
    """Return the names under which pickup, dropoff, distance and rate code stand among the columns.

    Raises
    ------
    InvalidInput
        If one of the four is not there under any of its spellings.

    Examples
    --------
    >>> trip_columns(["rate_code_id", "pickup_datetime", "dropoff_datetime", "trip_distance"])
    ('pickup_datetime', 'dropoff_datetime', 'trip_distance', 'rate_code_id')
    """
    names = []
    for spellings in _SPELLINGS:
        name = next((spelling for spelling in spellings if spelling in columns), None)
        if name is None:
            wanted = " or ".join(map(repr, dict.fromkeys(spellings)))
            raise InvalidInput(f"columns = {list(columns)!r}: a trip record has a column {wanted}")
        names.append(name)
    pickup, dropoff, distance, rate_code = names
    return pickup, dropoff, distance, rate_code


def _time(value: object, name: str) -> datetime:
    if isinstance(value, datetime):
        return value
    if value is None or value == "":
        raise UnusableRow(f"the {name} time is missing")
    try:
        return datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise UnusableRow(f"the {name} time is not a date and time") from None


def _number(value: object, name: str) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        fault = "is missing" if value is None or value == "" else "is not a number"
        raise UnusableRow(f"the {name} {fault}") from None


def read_trip(
    pickup: object, dropoff: object, distance: object, rate_code: object
) -> tuple[dict[str, float], float]:
    """Return features and target of one trip.

    Parameters
    ----------
    pickup, dropoff
        Times, as ``datetime`` or ISO text (``2019-06-15 11:33:56``).
    distance
        Miles, as a number or its text.
    rate_code
        The rate code, as a number or its text. Where it is missing the row is without ``airport``.

    Returns
    -------
    tuple
        ``{"log_miles", "rush", "night", "airport"}`` and log minutes.

    Raises
    ------
    UnusableRow
        If a time or the distance is missing or unreadable, or outside the trips that are used.

    Examples
    --------
    >>> x, y = read_trip("2019-06-14 11:30:00", "2019-06-14 11:50:00", "4.71", "1")
    >>> {name: round(value, 3) for name, value in x.items()}, round(y, 3)
    ({'log_miles': 1.55, 'rush': 1.0, 'night': 0.0, 'airport': 0.0}, 2.996)
    """
    start, end = _time(pickup, "pickup"), _time(dropoff, "dropoff")
    try:
        minutes = (end - start).total_seconds() / 60.0
    except TypeError:
        raise UnusableRow("only one of the two times has a time zone") from None
    if not 1.0 <= minutes <= 120.0:
        raise UnusableRow("the trip is not between 1 and 120 minutes long")
    miles = _number(distance, "trip distance")
    if not 0.1 <= miles <= 30.0:
        raise UnusableRow("the trip is not between 0.1 and 30 miles long")
    hour = start.hour
    x = {
        "log_miles": math.log(miles),
        "rush": 1.0 if 8 <= hour <= 19 and start.weekday() < _SATURDAY else 0.0,
        "night": 1.0 if hour <= 6 else 0.0,
    }
    airport = _RATE_CODES.get(rate_code) if isinstance(rate_code, str) else None
    if airport is not None:
        x["airport"] = airport
    elif rate_code is not None and rate_code != "":
        code = _number(rate_code, "rate code")
        if not math.isnan(code):
            x["airport"] = 1.0 if code in (2.0, 3.0) else 0.0
    return x, math.log(minutes)


def read_record(record: Mapping[str, object]) -> tuple[dict[str, float], float]:
    """Return features and target of one trip record.

    Parameters
    ----------
    record
        Column names and values, under the official names (``tpep_pickup_datetime``,
        ``tpep_dropoff_datetime``, ``trip_distance``, ``RatecodeID``) or the older ones (``pickup_datetime``,
        ``dropoff_datetime``, ``rate_code_id``). A value that is absent or None is missing. See
        :func:`read_trip` for the rule.

    Returns
    -------
    tuple
        ``{"log_miles", "rush", "night", "airport"}`` and log minutes.

    Raises
    ------
    UnusableRow
        If the trip cannot be used; the message is the reason.

    Examples
    --------
    >>> trip = {"pickup_datetime": "2019-06-15 05:00:00", "dropoff_datetime": "2019-06-15 05:01:00"}
    >>> read_record(trip | {"trip_distance": 1, "rate_code_id": 2})
    ({'log_miles': 0.0, 'rush': 0.0, 'night': 1.0, 'airport': 1.0}, 0.0)
    """
    get = record.get
    values = []
    for official, older in _SPELLINGS:
        value = get(official)
        values.append(get(older) if value is None else value)
    return read_trip(*values)
