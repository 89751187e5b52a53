"""From a record to a row of numbers."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import pytest

from ldp_stream.connectors.rows import feature_names, read_row
from ldp_stream.errors import InvalidInput, UnusableRow


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1.5", 1.5),
        (" 1e3 ", 1000.0),
        (2, 2.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        ("inf", math.inf),
        (10**400, math.inf),
    ],
)
def test_what_is_a_number(value: object, expected: float) -> None:
    """A feature may be a number of any kind or its text."""
    x, _ = read_row({"a": value}, 1.0, features=("a",))
    assert x == {"a": expected}
    assert type(x["a"]) is float


@pytest.mark.parametrize("record", [{}, {"a": ""}, {"a": "  "}, {"a": None}, {"a": "nan"}, {"a": math.nan}])
def test_a_feature_that_is_not_there_is_left_out(record: dict[str, object]) -> None:
    """Absent, empty, None and NaN are the same: the row is without the feature."""
    assert read_row(record, 1.0, features=("a",)) == ({}, 1.0)


@pytest.mark.parametrize("value", ["abc", "1,5", [1], {"b": 1}, datetime(2020, 1, 1), 1j])
def test_text_in_a_named_feature_makes_the_row_unusable(value: object) -> None:
    """A value that is no number in a feature that was asked for is a fault that names the feature."""
    with pytest.raises(UnusableRow, match="the feature 'a' is not a number"):
        read_row({"a": value}, 1.0, features=("a",))
    assert read_row({"a": value, "b": 2}, 1.0) == ({"b": 2.0}, 1.0)


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        (None, "missing"),
        ("", "missing"),
        ("abc", "not a number"),
        ([], "not a number"),
        ("nan", "not finite"),
        (math.inf, "not finite"),
        (10**400, "not finite"),
    ],
)
def test_the_target_must_be_a_finite_number(y: object, reason: str) -> None:
    """Every other target makes the row unusable; the reason names the target and not the value."""
    with pytest.raises(UnusableRow, match=f"^the target 'minutes' is {reason}$"):
        read_row({"a": 1}, y, target="minutes")


def test_the_record_is_not_changed_and_the_target_no_feature() -> None:
    """The caller's mapping stays as it is, and the target is never among the features."""
    record = {"a": 1, "minutes": 2}
    assert read_row(record, record["minutes"], target="minutes") == ({"a": 1.0}, 2.0)
    assert record == {"a": 1, "minutes": 2}


@pytest.mark.parametrize("features", ["ab", ["a", "a"], ["a", "y"], [1]])
def test_wrong_feature_names_are_refused(features: list[str]) -> None:
    """One string, a name twice, the target, or something that is no name is refused."""
    with pytest.raises(InvalidInput, match="features = "):
        feature_names(features, "y")
