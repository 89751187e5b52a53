"""Unbiased mechanisms for one number t in [-1, 1]: piecewise, two-valued, and their mixture, with integers.

**Piecewise** (Wang et al. 2019, algorithm 2). The reals' mechanism draws uniformly from a window around a
multiple of t with probability e^(eps/2)/(e^(eps/2) + 1), else from the rest of [-C, C]. Here the interval has
n = w + S cells, the window w of them, and it stands at one of S + 1 places: s = S (t + 1)/2, rounded without
bias. A cell in the window has probability a, any other one b, w a + S b = 1, so

    E[cell - (n - 1)/2] = (a - b) w (s - S/2),    and    y = (cell - (n - 1)/2)/((a - b) w S/2)

has mean t. With w a = floor(2^62 w e^eps/(w e^eps + S))/2^62, a certified floor, a/b <= e^eps as rationals:
the report is eps-LDP and y is unbiased, both exactly. w = S e^(-eps/2), the share of the window in the reals'
mechanism, which has this one's limit as S grows; S = 2^20. The mean square is

    E[y^2] = (b n (n^2 - 1)/12 + (a - b) w (w^2 - 1)/12)/((a - b) w S/2)^2 + E[(2 s/S - 1)^2]/((a - b) w).

**Two-valued** (Duchi, Jordan, Wainwright 2018). t is rounded to -1 or 1 without bias and goes through binary
randomized response; y = +-1/(pi - rho).

**Hybrid** (Wang et al. 2019, section III-C): piecewise with probability alpha = 1 - e^(-eps/2) if eps > .61,
else two-valued. Which of them is used is independent of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from .._validate import integer_in, positive
from ..errors import InvalidInput
from .base import RandomBits
from .randomized_response import RESOLUTION_BITS, RandomizedResponse, floor_of_share
from .rounding import round_at_random

__all__ = ["ScalarHybrid", "ScalarPiecewise"]

_ONE = 1 << RESOLUTION_BITS
_SHIFTS = 1 << 20
_HYBRID_FROM = 0.61  # epsilon* of Wang et al. 2019, equation 8


@dataclass(frozen=True)
class ScalarPiecewise:
    """The piecewise mechanism on cells.

    Parameters
    ----------
    epsilon
        Privacy of one number, finite and > 0.
    shifts
        S, an even whole number from 2 to 2^20: the places of the window but one.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, or epsilon too small for the integer sampler.

    Examples
    --------
    >>> mechanism = ScalarPiecewise(1.0)
    >>> round(mechanism.second_moment(0.0), 4), round(mechanism.second_moment(1.0), 4)
    (3.6821, 6.2236)
    """

    epsilon: float
    shifts: int = _SHIFTS

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon)
        if integer_in(2, _SHIFTS, shifts=self.shifts) % 2:
            raise InvalidInput(f"shifts = {self.shifts!r}: must be even")
        if self.inside <= self.outside:
            raise InvalidInput(f"epsilon = {self.epsilon!r}: too small for the integer sampler")

    @cached_property
    def window(self) -> int:
        """The cells of the window, w."""
        return max(1, round(self.shifts * math.exp(-self.epsilon / 2)))

    @property
    def cells(self) -> int:
        """The number of cells, n = w + S."""
        return int(self.window + self.shifts)

    @cached_property
    def _kept(self) -> int:
        """A draw from [0, 2^62) below this number takes a cell of the window."""
        return floor_of_share(self.epsilon, Fraction(self.shifts, self.window))

    @cached_property
    def inside(self) -> Fraction:
        """Probability a of a cell in the window."""
        return Fraction(self._kept, _ONE * self.window)

    @cached_property
    def outside(self) -> Fraction:
        """Probability b of any other cell."""
        return Fraction(_ONE - self._kept, _ONE * self.shifts)

    @cached_property
    def _gain(self) -> Fraction:
        """(a - b) w."""
        return (self.inside - self.outside) * self.window

    @cached_property
    def largest(self) -> float:
        """The largest y."""
        return self.value(self.cells - 1)

    @cached_property
    def _unit(self) -> float:
        return float(1 / (self._gain * self.shifts))

    def value(self, cell: int) -> float:
        """Return y of a cell."""
        return (2 * cell - self.cells + 1) * self._unit

    def place(self, t: float) -> float:
        """Return S (t + 1)/2, taken into [0, S]."""
        return min(max((t + 1) / 2, 0.0), 1.0) * self.shifts

    def draw(self, t: float, random: RandomBits) -> float:
        """Return y; three draws, whatever t and the outcome."""
        place = round_at_random(self.place(t), random)
        kept = random.bits(RESOLUTION_BITS) < self._kept
        within, other = random.below(self.window), random.below(self.shifts)
        return self.value(place + within if kept else other + (other >= place) * self.window)

    def law(self, t: float) -> tuple[Fraction, ...]:
        """Return the exact probability of each cell given t."""
        place = self.place(t)
        index = math.floor(place)
        up = Fraction(round((place - index) * _ONE), _ONE)
        found = [self.outside] * self.cells
        for start, chance in ((index, 1 - up), (index + 1, up)):
            if chance:
                for cell in range(start, start + self.window):
                    found[cell] += chance * (self.inside - self.outside)
        return tuple(found)

    @cached_property
    def _spread(self) -> float:
        """The part of E[y^2] that does not depend on t."""
        n, w = self.cells, self.window
        plain = self.outside * Fraction(n * (n * n - 1), 12) + self._gain * Fraction(w * w - 1, 12)
        return float(plain / (self._gain * self.shifts / 2) ** 2)

    def second_moment(self, square: float, rounding: float = 0.0) -> float:
        """Return E[y^2] where E[t^2] is ``square`` and rounding adds ``rounding`` to E[s^2]."""
        return self._spread + (square + rounding * (2 / self.shifts) ** 2) / float(self._gain)


@dataclass(frozen=True)
class ScalarHybrid:
    """The mixture of the piecewise and the two-valued mechanism.

    Parameters
    ----------
    epsilon
        Privacy of one number, finite and > 0.
    shifts
        As in :class:`ScalarPiecewise`.

    Raises
    ------
    InvalidInput
        If a parameter is out of range, or epsilon too small for the integer sampler.

    Examples
    --------
    >>> mechanism = ScalarHybrid(2.0)
    >>> round(mechanism.second_moment(0.0), 4), round(mechanism.second_moment(1.0), 4)
    (1.0423, 2.0423)
    """

    epsilon: float
    shifts: int = _SHIFTS

    def __post_init__(self) -> None:
        _ = self.piecewise, self.response

    @cached_property
    def piecewise(self) -> ScalarPiecewise:
        """The piecewise mechanism."""
        return ScalarPiecewise(self.epsilon, self.shifts)

    @cached_property
    def response(self) -> RandomizedResponse:
        """Binary randomized response."""
        return RandomizedResponse(self.epsilon, 2)

    @cached_property
    def mixture(self) -> Fraction:
        """The probability alpha of the piecewise mechanism."""
        alpha = 1 - math.exp(-self.epsilon / 2) if self.epsilon > _HYBRID_FROM else 0.0
        return Fraction(round(alpha * _ONE), _ONE)

    @cached_property
    def two_values(self) -> float:
        """The size 1/(pi - rho) of a two-valued y."""
        return float(1 / (self.response.pi - self.response.rho))

    @property
    def largest(self) -> float:
        """The largest y."""
        return max(self.piecewise.largest if self.mixture else 0.0, self.two_values)

    def draw(self, t: float, random: RandomBits) -> float:
        """Return y."""
        if random.bits(RESOLUTION_BITS) < self.mixture * _ONE:
            return self.piecewise.draw(t, random)
        upper = round_at_random(min(max((t + 1) / 2, 0.0), 1.0), random)
        return self.two_values if self.response.draw(upper, random) else -self.two_values

    def second_moment(self, square: float, rounding: float = 0.0) -> float:
        """Return E[y^2] where E[t^2] is ``square``, as :meth:`ScalarPiecewise.second_moment`."""
        alpha = float(self.mixture)
        return alpha * self.piecewise.second_moment(square, rounding) + (1 - alpha) * self.two_values**2
