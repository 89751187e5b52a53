"""Privacy budgets: validation, splitting, composition and comparison."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.errors import InvalidInput
from ldp_stream.privacy import PrivacyBudget, compose

epsilons = st.floats(0, 1e6)
deltas = st.floats(0, 1)


@pytest.mark.parametrize(
    ("epsilon", "delta", "said"),
    [
        (-1.0, 0.0, "epsilon = -1.0"),
        (float("inf"), 0.0, "epsilon = inf"),
        (float("nan"), 0.0, "epsilon = nan"),
        (1.0, -1e-9, "delta = -1e-09"),
        (1.0, 1.5, "delta = 1.5"),
        (1.0, float("nan"), "delta = nan"),
    ],
)
def test_a_number_outside_its_range_is_named(epsilon: float, delta: float, said: str) -> None:
    """A bad epsilon or delta is refused with its name and value."""
    with pytest.raises(InvalidInput, match=said):
        PrivacyBudget(epsilon, delta)


def test_whole_numbers_are_the_same_budget_as_floats() -> None:
    """Budgets from 2 and 2.0 are equal and keep floats, so that they print and hash alike."""
    assert repr(PrivacyBudget(2)) == repr(PrivacyBudget(2.0))
    assert hash(PrivacyBudget(2)) == hash(PrivacyBudget(2.0))


@given(epsilons, deltas, st.integers(1, 10_000))
def test_the_parts_never_add_up_to_more_than_the_whole(epsilon: float, delta: float, parts: int) -> None:
    """In exact arithmetic, k parts are at most the whole, and at most k units in the last place below it."""
    part = PrivacyBudget(epsilon, delta).split(parts)
    for piece, whole in ((part.epsilon, epsilon), (part.delta, delta)):
        total = Fraction(piece) * parts
        assert total <= Fraction(whole)
        assert float(total) == pytest.approx(whole, rel=1e-15, abs=5e-320)


def test_splitting_rounds_down_where_the_nearest_float_is_too_large() -> None:
    """The nearest float to 0.9 / 7 times 7 exceeds 0.9; the part is the float below it."""
    assert compose(*[PrivacyBudget(0.9 / 7)] * 7).epsilon > 0.9
    part = PrivacyBudget(0.9).split(7)
    assert compose(*[part] * 7).within(PrivacyBudget(0.9))
    assert part.epsilon == math.nextafter(0.9 / 7, 0)


@pytest.mark.parametrize("parts", [0, -1, 1.5, "2"])
def test_a_number_of_parts_that_is_none_is_refused(parts: object) -> None:
    """Only whole numbers from 1 on split a budget."""
    with pytest.raises(InvalidInput, match="parts"):
        PrivacyBudget(1.0).split(parts)  # type: ignore[arg-type]


def test_composition_adds_exactly() -> None:
    """Ten times 0.1 is 1, whatever the order, and no release costs nothing."""
    assert compose(*[PrivacyBudget(0.1)] * 10) == PrivacyBudget(1.0)
    assert compose(PrivacyBudget(1e16), PrivacyBudget(1.0), PrivacyBudget(1.0)).epsilon == 1e16 + 2
    assert compose() == PrivacyBudget(0.0, 0.0)


def test_composed_delta_stops_at_one() -> None:
    """Deltas add, but a delta of 1 already promises nothing."""
    assert compose(PrivacyBudget(1.0, 0.25), PrivacyBudget(1.0, 0.5)) == PrivacyBudget(2.0, 0.75)
    assert compose(*[PrivacyBudget(0.0, 0.6)] * 2).delta == 1.0


def test_a_sum_too_large_for_a_float_is_refused() -> None:
    """An overflowing sum raises the package's error instead of passing as infinity."""
    with pytest.raises(InvalidInput, match="epsilon"):
        compose(PrivacyBudget(1e308), PrivacyBudget(1e308))


def test_within_compares_both_numbers() -> None:
    """A budget is within a limit only if neither epsilon nor delta exceeds it; equality is within."""
    limit = PrivacyBudget(2.0, 1e-6)
    assert limit.within(limit)
    assert not PrivacyBudget(2.1, 0.0).within(limit)
    assert not PrivacyBudget(1.0, 2e-6).within(limit)
