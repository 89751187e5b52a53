"""Intervals as values."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.errors import InvalidInput
from ldp_stream.inference.regions import Interval


def test_width_and_ends() -> None:
    """A bounded interval has its length as width and contains its ends, but nothing past them."""
    interval = Interval(value=1.0, lower=0.5, upper=2.0, level=0.9)
    assert interval.width == 1.5
    assert interval.bounded
    assert 0.5 in interval
    assert 1.0 in interval
    assert 2.0 in interval
    assert math.nextafter(0.5, 0) not in interval
    assert math.nextafter(2.0, 3) not in interval
    not_a_number = math.nan
    assert not_a_number not in interval


@pytest.mark.parametrize(("lower", "upper"), [(-math.inf, math.inf), (-math.inf, 2.0), (0.5, math.inf)])
def test_infinite_ends(lower: float, upper: float) -> None:
    """An interval without one of its ends is unbounded, infinitely wide, and None at that end in JSON."""
    interval = Interval(value=1.0, lower=lower, upper=upper, level=0.9)
    assert not interval.bounded
    assert interval.width == math.inf
    assert 1.0 in interval
    assert (1e300 in interval) == (upper == math.inf)
    assert json.loads(json.dumps(interval.as_dict(), allow_nan=False)) == {
        "value": 1.0,
        "lower": None if lower == -math.inf else lower,
        "upper": None if upper == math.inf else upper,
    }


def test_a_point_is_an_interval() -> None:
    """Both ends may fall on the value."""
    interval = Interval(value=1.0, lower=1.0, upper=1.0, level=0.9)
    assert interval.width == 0
    assert interval.bounded
    assert 1.0 in interval


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_sorted_numbers_make_an_interval(numbers: list[float]) -> None:
    """Any three finite numbers in order are accepted, kept as they are, and survive JSON."""
    lower, value, upper = sorted(numbers)
    interval = Interval(value=value, lower=lower, upper=upper, level=0.5)
    assert value in interval
    assert json.loads(json.dumps(interval.as_dict())) == {"value": value, "lower": lower, "upper": upper}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lower": 1.5}, r"lower = 1.5: must be at most value = 1.0"),
        ({"upper": 0.5}, r"upper = 0.5: must be at least value = 1.0"),
        ({"lower": math.inf}, r"lower = inf: must be at most value = 1.0"),
        ({"upper": -math.inf}, r"upper = -inf: must be at least value = 1.0"),
        ({"lower": math.nan}, r"lower = nan: must be a finite number"),
        ({"upper": "2"}, r"upper = '2': must be a finite number"),
        ({"value": math.nan}, r"value = nan: must be a finite number"),
        ({"value": math.inf, "upper": math.inf}, r"value = inf: must be a finite number"),
        ({"level": 95}, r"level = 95: must be a number in \(0, 1\)"),
    ],
)
def test_refuses_what_is_no_interval(changed: dict[str, float], message: str) -> None:
    """Ends out of order, NaN and levels outside (0, 1) are refused by name."""
    with pytest.raises(InvalidInput, match=message):
        Interval(**({"value": 1.0, "lower": 0.0, "upper": 2.0, "level": 0.9} | changed))


def test_keeps_plain_floats() -> None:
    """Numbers from numpy become plain floats, so that every reader of the value can print and encode them."""
    numbers = np.array([1.0, 0.0, math.inf, 0.5])
    interval = Interval(value=numbers[0], lower=numbers[1], upper=numbers[2], level=numbers[3])
    assert repr(interval) == "Interval(value=1.0, lower=0.0, upper=inf, level=0.5)"
    kept = (interval.value, interval.lower, interval.upper, interval.level)
    assert all(type(number) is float for number in kept)


def test_is_a_frozen_value() -> None:
    """Equal numbers make equal intervals, copies and pickles included, and none can be changed."""
    interval = Interval(value=1.0, lower=0.0, upper=2.0, level=0.9)
    assert interval == Interval(value=1, lower=0, upper=2, level=0.9)
    assert len({interval, copy.deepcopy(interval), pickle.loads(pickle.dumps(interval))}) == 1
    for name in ("value", "lower", "upper", "level"):
        with pytest.raises(FrozenInstanceError):
            setattr(interval, name, 1.5)
