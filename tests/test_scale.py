"""The working scale: any record has a row, and coefficients, contrasts and fits agree in the user's units."""

from __future__ import annotations

import datetime
import math
import warnings
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.errors import InvalidInput
from ldp_stream.scale import Axis, WorkingScale

SCALE = WorkingScale(
    (Axis("miles", 0.0, 10.0, 4.0), Axis("rush", 0.0, 1.0, 0.0), Axis("temp", -20.0, 40.0, 40.0)), 0.0, 60.0
)
MISSING = {"miles": 4.0, "rush": 0.0, "temp": 40.0}


class _Angry:
    """Raises whatever is asked of it."""

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __gt__(self, other: object) -> bool:
        raise RuntimeError("no")


class _Overflowing:
    """Is too large for a float and cannot be compared either."""

    def __float__(self) -> float:
        raise OverflowError


# ---------------------------------------------------------------------- axes


@pytest.mark.parametrize(
    ("axis", "half_width", "interval"),
    [
        (Axis("a", 0.0, 10.0, 5.0), 5.0, (-1.0, 1.0)),
        (Axis("a", 0.0, 10.0, 0.0), 10.0, (0.0, 1.0)),
        (Axis("a", 0.0, 10.0, 10.0), 10.0, (-1.0, 0.0)),
        (Axis("a", 0.0, 10.0, 4.0), 6.0, (-4.0 / 6.0, 1.0)),
        (Axis("a", -3.0, 1.0, 0.0), 3.0, (-1.0, 1.0 / 3.0)),
    ],
)
def test_an_axis_has_the_longer_side_as_its_unit(
    axis: Axis, half_width: float, interval: tuple[float, float]
) -> None:
    """Its unit is the larger distance from centre to bound; the interval is in [-1, 1] with 0 inside."""
    assert axis.half_width == half_width
    assert axis.interval == interval


# ---------------------------------------------------------------------- rows


@pytest.mark.parametrize(
    ("value", "read_as"),
    [
        (2.5, 2.5),
        (3, 3.0),
        (True, 1.0),
        (False, 0.0),
        ("2.5", 2.5),
        (" 1e1 ", 10.0),
        (b"2.5", 2.5),
        (Decimal("2.5"), 2.5),
        (Fraction(5, 2), 2.5),
        (np.float32(2.5), 2.5),
        (np.int64(7), 7.0),
        (np.bool_(True), 1.0),
        (np.array(2.5), 2.5),
        (1e308, 10.0),
        (math.inf, 10.0),
        (-math.inf, 0.0),
        (np.float64("inf"), 10.0),
        ("inf", 10.0),
        (10**400, 10.0),
        (-(10**400), 0.0),
        pytest.param(10**5000, 10.0, id="5001 digits"),
        (Fraction(-(10**400), 3), 0.0),
        (Decimal("-1e999"), 0.0),
        (Decimal("Infinity"), 10.0),
        (-0.0, 0.0),
        (10.000001, 10.0),
        (-1, 0.0),
    ],
)
def test_a_number_in_any_spelling_is_read_and_clipped(value: object, read_as: float) -> None:
    """Numbers of every kind, text that is one, and those beyond all floats are taken to the nearer bound."""
    assert SCALE.row({"miles": value}) == SCALE.row({"miles": read_as})
    assert SCALE.row({"miles": value})[1] == pytest.approx((read_as - 4.0) / 6.0, abs=1e-15)


@pytest.mark.parametrize(
    "value",
    [
        None,
        math.nan,
        np.nan,
        np.float32("nan"),
        Decimal("NaN"),
        Decimal("sNaN"),
        "nan",
        "",
        "n/a",
        "1,5",
        "\ud800",
        "\0",
        b"\xff",
        [],
        [1.0],
        {},
        {"miles": 1},
        (1, 2),
        1j,
        np.complex128(1),
        np.array([1.0, 2.0]),
        np.array([]),
        np.datetime64("2019-01-01"),
        pd.NA,
        pd.NaT,
        datetime.date(2019, 1, 1),
        object(),
        _Angry(),
        _Overflowing(),
        float,
        len,
    ],
)
def test_what_is_no_number_is_missing(value: object) -> None:
    """It takes the centre, quietly: no exception, no warning that could become one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SCALE.row({"miles": value, "rush": 1}) == [1.0, 0.0, 1.0, 0.0]
        assert SCALE.target(value) == 0.0


@pytest.mark.parametrize("value", [[1.0], np.array([2.5])])
def test_a_list_of_one_is_read_quietly_or_is_missing(value: object) -> None:
    """Old numpy reads an array of one number as that number, new numpy refuses it: neither raises here."""
    assert SCALE.row({"miles": value})[1] in (0.0, (2.5 - 4.0) / 6.0)


def test_absent_and_unknown_features() -> None:
    """An absent feature takes its centre and one that the campaign does not know is not looked at."""
    assert SCALE.row({}) == [1.0, 0.0, 0.0, 0.0] == SCALE.row(MISSING)
    assert SCALE.row({"rush": 1.0, "intercept": 7.0, "fare": _Angry()}) == [1.0, 0.0, 1.0, 0.0]


values = (
    st.none()
    | st.floats()
    | st.integers()
    | st.text()
    | st.binary()
    | st.decimals()
    | st.lists(st.integers())
)


@given(st.dictionaries(st.sampled_from(["miles", "rush", "temp", "fare"]), values), values)
def test_every_row_lies_in_the_support(x: Mapping[str, object], y: object) -> None:
    """Whatever the record holds, the row is 1 and a number of each interval, and the target is a number."""
    row = SCALE.row(x)
    assert row[0] == 1.0
    for value, (lower, upper) in zip(row[1:], SCALE.intervals, strict=True):
        assert lower <= value <= upper
    assert not math.isnan(SCALE.target(y))


def test_bounds_are_reached_exactly() -> None:
    """A value at a bound is the interval's end, to the bit, so that it lies on the channel's grid."""
    axis = Axis("a", -2.4, 3.5, 0.55)
    scale = WorkingScale((axis,), 0.0, 1.0)
    assert tuple(scale.row({"a": end})[1] for end in (axis.lower, axis.upper)) == axis.interval
    assert scale.row({"a": 0.55})[1] == 0.0


@pytest.mark.parametrize(
    ("y", "expected"),
    [(0, -1.0), (60, 1.0), (30.0, 0.0), (45, 0.5), (90, 2.0), (-30, -2.0), (math.inf, math.inf)],
)
def test_the_target_is_not_clipped(y: float, expected: float) -> None:
    """y~ = (y - mid)/half, also outside the public range."""
    assert SCALE.target(y) == expected


def test_targets_beyond_all_floats_keep_their_sign() -> None:
    """A whole number too large for a float is above every fit, its negative below."""
    assert SCALE.target(10**400) == math.inf
    assert SCALE.target(-(10**400)) == -math.inf


# ---------------------------------------------------------------------- the user's units


@st.composite
def _cases(draw: st.DrawFn) -> tuple[WorkingScale, list[float], dict[str, float]]:
    """Return a scale with all kinds of centres, working coefficients, and a record in bounds."""
    axes = []
    record = {}
    for name in "abcd"[: draw(st.integers(0, 4))]:
        lower = draw(st.floats(-100, 100))
        upper = lower + draw(st.floats(0.1, 100))
        shares = st.floats(0, 1)
        place = draw(st.sampled_from([0.0, 0.5, 1.0]) | shares)
        centre = min(max(lower + place * (upper - lower), lower), upper)
        axes.append(Axis(name, lower, upper, centre))
        record[name] = min(max(lower + draw(shares) * (upper - lower), lower), upper)
    start = draw(st.floats(-100, 100))
    scale = WorkingScale(tuple(axes), start, start + draw(st.floats(0.1, 100)))
    return scale, [draw(st.floats(-3, 3)) for _ in scale.names], record


@given(_cases())
def test_coefficients_give_the_fit_in_the_users_units(
    case: tuple[WorkingScale, list[float], dict[str, float]],
) -> None:
    """The sum intercept + sum slope_j x_j is mid + half X'b for every record inside the bounds."""
    scale, b, x = case
    coefficients = scale.coefficients(b)
    assert tuple(coefficients) == scale.names
    by_hand = coefficients["intercept"] + math.fsum(coefficients[name] * value for name, value in x.items())
    row = scale.row(x)
    middle = (scale.target_lower + scale.target_upper) / 2
    half = (scale.target_upper - scale.target_lower) / 2
    assert scale.fitted(row, b) == pytest.approx(
        middle + half * math.fsum(map(math.prod, zip(row, b, strict=True)))
    )
    size = (
        sum(abs(coefficients[name] * value) for name, value in x.items()) + abs(coefficients["intercept"]) + 1
    )
    assert by_hand == pytest.approx(scale.fitted(row, b), abs=1e-12 * size)


@given(_cases(), st.lists(st.floats(-10, 10), min_size=5, max_size=5), st.booleans())
def test_contrasts_are_linear_in_the_users_coefficients(
    case: tuple[WorkingScale, list[float], dict[str, float]], weights: list[float], partial: bool
) -> None:
    """The value k + a'b is the weighted sum of the user's coefficients; names left out weigh 0."""
    scale, b, _ = case
    chosen = dict(zip(scale.names[partial:], weights, strict=False))
    constant, a = scale.contrast(chosen)
    coefficients = scale.coefficients(b)
    parts = [weight * coefficients[name] for name, weight in chosen.items()]
    size = 1 + sum(map(abs, parts)) + abs(constant)
    assert constant + math.fsum(map(math.prod, zip(a, b, strict=True))) == pytest.approx(
        math.fsum(parts), abs=1e-11 * size
    )


def test_a_worked_example_with_a_one_sided_centre() -> None:
    """Minutes on miles (centre 4, unit 6), rush (centre 0) and temperature (centre 40, unit 60)."""
    coefficients = SCALE.coefficients([0.5, 0.2, 0.1, -0.3])
    assert coefficients == pytest.approx(
        {"intercept": 30 + 15 - 4.0 - (-6.0), "miles": 1.0, "rush": 3.0, "temp": -0.15}
    )
    assert SCALE.fitted(
        SCALE.row({"miles": 10, "rush": 1, "temp": -20}), [0.5, 0.2, 0.1, -0.3]
    ) == pytest.approx(47 + 10 + 3 + 3)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"fare": 1.0}, "unknown coefficient 'fare': must be one of intercept, miles, rush, temp"),
        ({"miles": math.nan}, r"contrast\['miles'\] = nan: must be a finite number"),
        ({"miles": math.inf}, r"contrast\['miles'\] = inf"),
        ({"miles": "1"}, r"contrast\['miles'\] = '1'"),
        ({"miles": None}, r"contrast\['miles'\] = None"),
        ({"miles": True}, r"contrast\['miles'\] = True"),
        ({"miles": 10**400}, r"contrast\['miles'\] = 1000"),
        ({"miles": 1, "intercept": []}, r"contrast\['intercept'\] = \[\]"),
    ],
)
def test_a_bad_contrast_is_refused(weights: dict[str, float], message: str) -> None:
    """The error names the coefficient and what is allowed."""
    with pytest.raises(InvalidInput, match=message):
        SCALE.contrast(weights)


def test_a_contrast_takes_numbers_of_any_kind() -> None:
    """Decimals, fractions and numpy scalars weigh what they are."""
    weights: list[Any] = [2, Decimal(2), Fraction(2), np.float32(2), np.int64(2)]
    for weight in weights:
        assert SCALE.contrast({"miles": weight}) == SCALE.contrast({"miles": 2.0})
