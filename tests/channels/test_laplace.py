"""Direct Laplace on a lattice: exact sensitivity, exact noise, and both kinds of support."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import pytest
from scipy.stats import chi2

from ldp_stream.channels.base import RandomBits, VectorPayload
from ldp_stream.channels.discrete_laplace import DiscreteLaplace, happens
from ldp_stream.channels.laplace import DirectLaplace
from ldp_stream.channels.support import Support
from ldp_stream.client.entropy import SimulatedEntropy
from ldp_stream.errors import InvalidInput
from tests.channels.comparison import contributions

UNIT = 1 << 24
CASES = [
    (0.5, ((-1.0, 1.0),) * 3),
    (0.9, ((-1.0, 1.0), (0.0, 1.0))),
    (0.3, ((-1.0, 0.3), (-0.1875, 1.0), (-1.0, 0.0))),
    (0.7, ()),
]


def _roundings(corner: tuple[float, ...]) -> set[tuple[int, ...]]:
    """Return the lattice points to which a contribution can be rounded, in exact arithmetic."""
    places = [Fraction(x) * UNIT for x in corner]
    return set(product(*({math.floor(place), math.ceil(place)} for place in places)))


@pytest.mark.parametrize(("tau", "intervals"), CASES)
def test_no_two_roundings_are_farther_apart_than_the_sensitivity(
    tau: float, intervals: tuple[tuple[float, float], ...]
) -> None:
    """Over all roundings of all corners the largest L1 distance is D: the exact ratio of laws is e^eps."""
    channel = DirectLaplace(1.0, tau, intervals)
    points = {point for corner in Support(tau, intervals).corners() for point in _roundings(corner)}
    largest = max(sum(abs(x - y) for x, y in zip(a, b, strict=True)) for a, b in combinations(points, 2))
    assert largest == channel.lattice_sensitivity
    assert channel.noise.rate * largest == Fraction(channel.epsilon)
    exact = Support(tau, intervals).sensitivity * UNIT
    assert exact <= largest * (1 + 1e-15)
    assert largest <= exact + 2 * channel.p


@pytest.mark.parametrize(("tau", "intervals"), CASES)
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_the_stated_law_is_private(
    tau: float, intervals: tuple[tuple[float, float], ...], epsilon: float
) -> None:
    """Over corners and interior points, at corners and reports far away, log ratios are at most epsilon.

    Somewhere it is nearly reached. Noise for a sensitivity that is 1% smaller is rejected.
    """
    channel = DirectLaplace(epsilon, tau, intervals)
    points = contributions(channel)
    sent = [[round(x * UNIT) / UNIT for x in g] for g in points]
    reports = [VectorPayload(tuple(k * x for x in g)) for g in sent for k in (1, 5)]
    found = [[channel.log_density(g, report) for g in points] for report in reports]
    largest = max(max(row) - min(row) for row in found)
    assert 0.99 * epsilon < largest <= epsilon * (1 + 1e-9)
    assert largest / 0.99 > epsilon * (1 + 1e-9)


def test_the_stated_law_has_mass_one() -> None:
    """Probabilities of the lattice points around a contribution between two of them add up to 1."""
    channel = DirectLaplace(1e8, 0.7, ())
    g = (1 - 0.7) * 0.3
    middle = math.floor(g * UNIT)
    chances = [
        math.exp(channel.log_density([g], VectorPayload(((middle + k) / UNIT,)))) for k in range(-60, 61)
    ]
    assert math.fsum(chances) == pytest.approx(1.0, rel=1e-9)
    mean = math.fsum(chance * (middle + k) for k, chance in zip(range(-60, 61), chances, strict=True))
    assert mean == pytest.approx(g * UNIT, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.7])
def test_the_blind_support_is_a_cube(epsilon: float) -> None:
    """Delta_1 = 2 M p, up to the lattice; it costs more than the aware one."""
    aware, blind = (DirectLaplace(epsilon, 0.75, ((-1.0, 1.0),) * 3, which) for which in ("aware", "blind"))
    assert blind.lattice_sensitivity / UNIT == 2 * 0.75 * 4
    assert aware.lattice_sensitivity / UNIT == 2 * 0.75 * 3
    assert blind.second_moment > aware.second_moment


def test_a_contribution_outside_the_support_is_taken_into_it() -> None:
    """Whatever the floats, the point to which noise is added is one of the support's."""
    channel = DirectLaplace(1e9, 0.5, ((-1.0, 1.0), (0.0, 1.0)))
    sent = channel.privatize([0.5, 40.0, -3.0], SimulatedEntropy(1)).values
    assert sent == pytest.approx((0.5, 0.5, 0.0), abs=1e-6)


class _Script(RandomBits):
    """Hands out given numbers."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = list(numbers)

    def bits(self, k: int, /) -> int:
        """Return the next one."""
        del k
        return self.numbers.pop(0)

    def below(self, n: int, /) -> int:
        """Return the next one."""
        del n
        return self.numbers.pop(0)


def test_a_value_beyond_the_limits_is_cut() -> None:
    """Noise that practically never happens leads to the limit itself, on both sides."""
    channel = DirectLaplace(1.0, 0.5, ())
    t = channel.noise.rate.denominator
    for negative in (0, 1):
        steps = [0, 0, 1] * 200 + [0, 1]  # a coin with chance 1/e that succeeds 200 times, then fails
        draws = [0, 0, 0, *steps, negative]
        values = channel.privatize([0.5], _Script(*draws)).values
        assert t > 1
        assert abs(values[0]) == channel.limits[0]
        assert (values[0] < 0) == bool(negative)


def test_a_coin_of_the_exponential_has_its_chance() -> None:
    """The alternating series over the throws adds up to e^-x: 1 - x + x^2/2 - .., term by term."""
    for numerator, denominator in ((0, 1), (1, 3), (7, 8), (1, 1)):
        x, chance, still = Fraction(numerator, denominator), Fraction(0), Fraction(1)
        for throws in range(1, 30):
            fails = 1 - x / throws
            if happens(1, 1, _Script(*[0] * (throws - 1), throws)):
                chance += still * fails
            still *= x / throws
        assert float(chance) == pytest.approx(math.exp(-x), rel=1e-15)


def _distance(law: DiscreteLaplace, expected: DiscreteLaplace, seed: int) -> float:
    n, entropy = 40_000, SimulatedEntropy(seed)
    counts = Counter(min(max(law.draw(entropy), -8), 8) for _ in range(n))
    means = {k: n * math.exp(expected.log_probability(k)) for k in range(-7, 8)}
    means[-8] = means[8] = (n - sum(means.values())) / 2
    return sum((counts[k] - mean) ** 2 / mean for k, mean in means.items())


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(5, 7), Fraction(3, 10)])
def test_the_noise_follows_its_law_and_no_other(rate: Fraction) -> None:
    """Chi-square accepts the rate and rejects one that is 5% larger."""
    limit = chi2.ppf(0.999, 16)
    assert _distance(DiscreteLaplace(rate), DiscreteLaplace(rate), 5) < limit
    assert _distance(DiscreteLaplace(rate), DiscreteLaplace(rate * Fraction(21, 20)), 5) > limit


@pytest.mark.parametrize("rate", [Fraction(1, 10**9), Fraction(1, 3), Fraction(40)])
def test_the_variance_is_that_of_the_law(rate: Fraction) -> None:
    """2 r/(1 - r)^2 agrees with 1/(2 sinh^2(rate/2))."""
    assert DiscreteLaplace(rate).variance == pytest.approx(0.5 / math.sinh(rate / 2) ** 2, rel=1e-13)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1e-10}, "epsilon"),
        ({"tau": 1.0}, "tau"),
        ({"intervals": ((0.5, 1.0),)}, "intervals"),
        ({"support": "half"}, "support = 'half'"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, object], message: str) -> None:
    """The message names the parameter."""
    with pytest.raises(InvalidInput, match=message):
        DirectLaplace(**{"epsilon": 1.0, "tau": 0.5, "intervals": (), **changes})  # type: ignore[arg-type]


def test_a_rate_must_be_positive() -> None:
    """Rate 0 has no law."""
    with pytest.raises(InvalidInput, match="rate"):
        DiscreteLaplace(Fraction(0))
