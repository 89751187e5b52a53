"""The discrete Laplace law, drawn exactly with integers.

    P(Z = k) = (1 - r)/(1 + r) r^|k|,    r = e^-rate,    k a whole number,

the law of the difference of two geometric variables. A Laplace variable in floating point has holes and bumps
that differ between inputs and give them away (Mironov 2012); here no float is involved. The rate is rational,
s/t, and the sampler is that of Canonne, Kamath and Steinke (2020, algorithms 1 and 2):

- a coin with chance e^-x, x in [0, 1], throws coins with chances x, x/2, x/3, .. until one fails; it succeeds
  if the number of throws is odd;
- X = U + t V with U uniform below t, kept with chance e^(-U/t), and V the number of coins with chance e^-1
  before a failure, has P(X >= x) = e^(-x/t), so floor(X/s) is geometric with ratio e^(-s/t); a fair sign
  follows, and -0 is drawn again.

The number of draws depends on the noise, not on what it is added to.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property

from ..errors import InvalidInput
from .base import RandomBits

__all__ = ["DiscreteLaplace", "happens"]

_PRECISION = Context(prec=60)


def happens(numerator: int, denominator: int, random: RandomBits) -> bool:
    """Return True with probability exactly e^-(numerator/denominator), a fraction in [0, 1]."""
    throws = 1
    while random.below(denominator * throws) < numerator:
        throws += 1
    return throws % 2 == 1


@dataclass(frozen=True)
class DiscreteLaplace:
    """The law P(Z = k) proportional to e^(-rate |k|) on the whole numbers.

    Parameters
    ----------
    rate
        A rational above 0.

    Raises
    ------
    InvalidInput
        If the rate is not above 0.

    Examples
    --------
    >>> law = DiscreteLaplace(Fraction(1, 2))
    >>> round(law.variance, 6), round(law.log_probability(3) - law.log_probability(5), 6)
    (7.835396, 1.0)
    """

    rate: Fraction

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise InvalidInput(f"rate = {self.rate!r}: must be a rational > 0")

    def draw(self, random: RandomBits) -> int:
        """Return a whole number with exactly this law."""
        s, t = self.rate.numerator, self.rate.denominator
        while True:
            start = random.below(t)
            if not happens(start, t, random):
                continue
            steps = 0
            while happens(1, 1, random):
                steps += 1
            size = (start + t * steps) // s
            negative = random.below(2)
            if size or not negative:
                return -size if negative else size

    @cached_property
    def _ratio(self) -> Decimal:
        rate = _PRECISION.divide(Decimal(self.rate.numerator), Decimal(self.rate.denominator))
        return _PRECISION.exp(_PRECISION.minus(rate))

    @cached_property
    def variance(self) -> float:
        """2 r/(1 - r)^2, the mean of the square; from correctly rounded decimals, so the same everywhere."""
        rest = _PRECISION.subtract(1, self._ratio)
        return float(_PRECISION.divide(_PRECISION.multiply(2, self._ratio), _PRECISION.multiply(rest, rest)))

    def log_probability(self, k: int) -> float:
        """Return ln P(Z = k)."""
        rest, total = _PRECISION.subtract(1, self._ratio), _PRECISION.add(1, self._ratio)
        return float(_PRECISION.ln(_PRECISION.divide(rest, total))) - float(self.rate * abs(k))
