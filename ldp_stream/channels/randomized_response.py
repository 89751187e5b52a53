"""k-ary randomized response with integer draws and certified privacy.

The true category of K is kept with probability pi and replaced by each other one with probability rho,

    pi = e^eps / (e^eps + K - 1),     rho = (1 - pi) / (K - 1),

so that pi/rho = e^eps. A device draws integers, hence pi is rounded down to T/2^62 (a larger pi would break
the guarantee: rounding pi in float64 does so in about half of all cases), and rho is the rational it then is.
The decoder uses the same two rationals, so the report is exactly eps'-LDP with eps' = ln(pi/rho) <= eps and
decoding is unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache

from .._validate import integer_in, positive
from ..errors import InvalidInput
from .base import RandomBits

__all__ = ["RESOLUTION_BITS", "RandomizedResponse", "floor_of_share"]

RESOLUTION_BITS = 62
_ONE = 1 << RESOLUTION_BITS
_LARGE_EPSILON = 200.0  # rest e^-200 < 2^-62 for every rest up to 2^62, so the floor is 2^62 - 1


@lru_cache(maxsize=1024)
def floor_of_share(epsilon: float, rest: int | Fraction) -> int:
    """Return floor(2^62 e^eps/(e^eps + rest)), rest at most 2^62.

    It is certified: a decimal exp is correctly rounded, so its neighbours enclose e^eps.
    """
    if epsilon >= _LARGE_EPSILON:
        return _ONE - 1
    digits = 40
    while True:
        context = Context(prec=digits)
        power = Decimal(epsilon).exp(context)
        bounds = {
            math.floor(_ONE * end / (end + rest))
            for end in (Fraction(power.next_minus(context)), Fraction(power.next_plus(context)))
        }
        if len(bounds) == 1:
            return bounds.pop()
        digits *= 2


@dataclass(frozen=True)
class RandomizedResponse:
    """The k-ary randomized response on {0, .., categories - 1}.

    Parameters
    ----------
    epsilon
        The privacy parameter, finite and > 0.
    categories
        The alphabet's size K, from 2 to 2^16.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, or epsilon is so small that the rounded pi is not above 1/K.

    Examples
    --------
    >>> response = RandomizedResponse(epsilon=1.0, categories=4)
    >>> round(float(response.pi), 6), round(float(response.rho), 6)
    (0.475367, 0.174878)
    >>> response.pi + 3 * response.rho
    Fraction(1, 1)

    Notes
    -----
    Formal guarantee: the law of the output given any two true categories differs by a factor of at most
    ``pi/rho <= e^epsilon`` (exact, not up to rounding).
    """

    epsilon: float
    categories: int

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        integer_in(2, 1 << 16, categories=self.categories)
        if self.keep * self.categories <= _ONE:
            raise InvalidInput(
                f"epsilon = {self.epsilon!r}: too small for the integer sampler with {self.categories} "
                "categories: the rounded probability of the true category would not be above 1/K"
            )

    @cached_property
    def keep(self) -> int:
        """T = floor(2^62 pi): the true category is kept when a draw from [0, 2^62) is below it."""
        return floor_of_share(self.epsilon, self.categories - 1)

    @cached_property
    def pi(self) -> Fraction:
        """Probability of the true category, the rational T/2^62."""
        return Fraction(self.keep, _ONE)

    @cached_property
    def rho(self) -> Fraction:
        """Probability of each other category, the rational (1 - pi)/(K - 1)."""
        return Fraction(_ONE - self.keep, _ONE * (self.categories - 1))

    def draw(self, category: int, random: RandomBits) -> int:
        """Return the randomized category; the same integer draws, whatever the outcome."""
        kept = random.bits(RESOLUTION_BITS) < self.keep
        other = random.below(self.categories - 1)
        return category if kept else other + (other >= category)

    def law(self, truth: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Return the exact law of the output when the true category has the law ``truth`` (length K)."""
        gain = self.pi - self.rho
        return tuple(self.rho + gain * probability for probability in truth)
