"""Randomized response: certified rounding of pi, exact privacy for any (epsilon, K), what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ldp_stream.channels.randomized_response import RESOLUTION_BITS, RandomizedResponse
from ldp_stream.client.entropy import SimulatedEntropy
from ldp_stream.errors import InvalidInput
from tests.channels.enumeration import exp_bounds, total
from tests.channels.reference import floor_of_pi

ONE = 1 << RESOLUTION_BITS
LARGEST = 1 << 16


def _random_cases(n: int, seed: int) -> list[tuple[float, int]]:
    """Return (epsilon, K), epsilon from 0.001 to 30 and K from 2 to 2^16, spread over their magnitudes."""
    random = Random(seed)
    return [
        (math.exp(random.uniform(math.log(1e-3), math.log(30))), int(2 ** random.uniform(1, 16)))
        for _ in range(n)
    ]


def test_pi_is_the_exact_floor_in_thousands_of_cases() -> None:
    """T = floor(2^62 pi) agrees with 200-digit arithmetic for 2,000 random (epsilon, K)."""
    for epsilon, categories in _random_cases(2000, seed=1):
        assert RandomizedResponse(epsilon, categories).keep == floor_of_pi(epsilon, categories)


def test_a_float_floor_is_above_the_true_pi_in_about_half_of_the_cases() -> None:
    """Rounding must be certified: float64 breaks the guarantee in 40% to 60% of epsilon <= 8, K <= 64."""
    above = 0
    random = Random(2)
    cases = [(random.uniform(0.1, 8), random.randint(2, 64)) for _ in range(2000)]
    for epsilon, categories in cases:
        power = math.exp(epsilon)
        above += (
            math.floor(power / (power + categories - 1) * ONE) > RandomizedResponse(epsilon, categories).keep
        )
    assert 0.4 < above / len(cases) < 0.6


def test_privacy_is_exact_in_thousands_of_cases() -> None:
    """In 3,000 random cases pi/rho <= e^epsilon as rationals, and one more in 2^62 would be too many."""
    for epsilon, categories in _random_cases(3000, seed=3):
        response = RandomizedResponse(epsilon, categories)
        low, high = exp_bounds(epsilon)
        assert response.pi / response.rho <= low
        more = response.pi + Fraction(1, ONE)
        assert more * (categories - 1) / (1 - more) > high


@given(st.floats(1e-19, 1e6, allow_subnormal=False), st.integers(2, LARGEST))
def test_privacy_is_exact_or_refused_for_any_epsilon(epsilon: float, categories: int) -> None:
    """From the tiniest to the hugest epsilon, 1 < pi/rho <= e^epsilon, or the channel is refused."""
    try:
        response = RandomizedResponse(epsilon, categories)
    except InvalidInput:
        assert floor_of_pi(epsilon, categories) * categories <= ONE
        return
    ratio = response.pi / response.rho
    assert 1 < ratio <= exp_bounds(min(epsilon, 200.0))[0]
    assert response.pi + (categories - 1) * response.rho == 1
    assert 0 < response.rho < response.pi < 1


@pytest.mark.parametrize("categories", [2, 3, 257, LARGEST])
@pytest.mark.parametrize("epsilon", [199.0, math.nextafter(200, 0), 200.0, 201.0, 1e4, 1e308])
def test_a_huge_epsilon_keeps_a_little_noise(epsilon: float, categories: int) -> None:
    """From where all of 2^62 would round to one, the other categories keep 1 in 2^62 between them."""
    response = RandomizedResponse(epsilon, categories)
    assert response.keep == ONE - 1
    assert response.rho == Fraction(1, ONE * (categories - 1))


@pytest.mark.parametrize(
    ("epsilon", "categories"),
    [(1e-300, 2), (5e-324, 2), (4e-19, 2), (1e-19, LARGEST), (2e-16, LARGEST), (1e-14, LARGEST - 1)],
)
def test_an_epsilon_too_small_for_the_sampler_is_refused(epsilon: float, categories: int) -> None:
    """Where the rounded pi is not above 1/K the report would carry nothing: the message says so."""
    with pytest.raises(InvalidInput, match=r"epsilon = .*: too small for the integer sampler"):
        RandomizedResponse(epsilon, categories)


def test_the_smallest_epsilon_of_two_categories() -> None:
    """With K = 2 the limit is where 2^62 (pi - 1/2) reaches 1, epsilon = 2^-60."""
    limit = 2.0**-60
    assert RandomizedResponse(math.nextafter(limit, 1), 2).keep == ONE // 2 + 1
    with pytest.raises(InvalidInput):
        RandomizedResponse(math.nextafter(limit, 0), 2)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, True, "1", None])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon: float) -> None:
    """The message names epsilon and its value."""
    with pytest.raises(InvalidInput, match="epsilon = "):
        RandomizedResponse(epsilon, 4)


@pytest.mark.parametrize("categories", [1, 0, -3, LARGEST + 1, 2.5])
def test_an_alphabet_of_a_wrong_size_is_refused(categories: int) -> None:
    """K is a whole number from 2 to 2^16."""
    with pytest.raises(InvalidInput, match="categories = "):
        RandomizedResponse(1.0, categories)


@given(st.integers(2, 12), st.floats(0.01, 8), st.data())
def test_the_law_is_a_mixture(categories: int, epsilon: float, data: st.DataObject) -> None:
    """P(c) = pi P(truth = c) + rho (1 - P(truth = c)), which sums to 1 exactly."""
    weights = data.draw(st.lists(st.integers(0, 100), min_size=categories, max_size=categories))
    assume(sum(weights))
    truth = [Fraction(weight, sum(weights)) for weight in weights]
    response = RandomizedResponse(epsilon, categories)
    law = response.law(truth)
    assert total(law) == 1
    assert list(law) == [response.pi * t + response.rho * (1 - t) for t in truth]


class _Scripted:
    """Hands out given numbers."""

    def __init__(self, bits: int, below: int) -> None:
        self._bits, self._below = bits, below

    def bits(self, k: int, /) -> int:
        """Return the given bits."""
        assert k == RESOLUTION_BITS
        return self._bits

    def below(self, n: int, /) -> int:
        """Return the given other category."""
        assert 0 <= self._below < n
        return self._below


@pytest.mark.parametrize("category", range(5))
def test_the_two_draws_decide(category: int) -> None:
    """Below T the truth is kept; from T on, the K - 1 others are reached once each."""
    response = RandomizedResponse(1.0, 5)
    for other in range(4):
        assert response.draw(category, _Scripted(response.keep - 1, other)) == category
    reached = [response.draw(category, _Scripted(response.keep, other)) for other in range(4)]
    assert reached == [c for c in range(5) if c != category]


def test_draws_repeat_with_a_seed() -> None:
    """The same seed gives the same categories."""
    response = RandomizedResponse(0.5, 7)
    first, second = (
        [response.draw(3, entropy) for _ in range(50)] for entropy in map(SimulatedEntropy, (5, 5))
    )
    assert first == second
    assert len(set(first)) > 3
