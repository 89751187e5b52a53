"""The public plan of a campaign: step sizes, checkpoints of the averaging window, rounds of parameters.

Everything here is a function of counts of accepted reports and of public constants, never of a report's
content, so the device, the server and a replay of the log agree on it.

Steps (rule A):   eta_i = gain (i + delay v)^-exponent / sqrt(v), v the channel's mean decoded second moment.
Checkpoints:      1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, ..: ratio 5/4, where running sums are closed.
Rounds:           a round freezes the parameters that devices see for N reports, which act as one step N eta;
                  N is the largest whole number with N eta curvature <= stability.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from .tree import ChainTree

__all__ = [
    "BLOCK",
    "CHECKPOINTS",
    "TRAVEL",
    "RoundSchedule",
    "StepRule",
    "Window",
    "block_stop",
    "is_checkpoint",
]

BLOCK = 2048  # the most events whose sums are closed together
# x^-.75 from two square roots is the same on every machine; a general power need not be.
TRAVEL = 10.0  # sum of steps after which the start counts as forgotten: relaxation times at curvature 1
_SQRT_EXPONENT = 0.75


@dataclass(frozen=True)
class StepRule:
    """eta_i = gain (i + delay v)^-exponent / sqrt(v), i = 1, 2, ...

    Examples
    --------
    >>> rule = StepRule(gain=3.0, exponent=0.75, delay=1000.0, second_moment=4.683)
    >>> round(rule.at(1), 7)
    0.0024485
    """

    gain: float
    exponent: float
    delay: float
    second_moment: float

    @cached_property
    def scale(self) -> float:
        """gain/sqrt(v)."""
        return self.gain / math.sqrt(self.second_moment)

    @cached_property
    def offset(self) -> float:
        """The shift of the count i, delay v."""
        return self.delay * self.second_moment

    @cached_property
    def from_roots(self) -> bool:
        """Whether the power is made of square roots (exponent .75)."""
        return self.exponent == _SQRT_EXPONENT

    def at(self, i: int) -> float:
        """Return eta_i."""
        place = i + self.offset
        if self.from_roots:
            root = math.sqrt(place)
            return self.scale / (root * math.sqrt(root))
        return self.scale * float(place**-self.exponent)

    def events_to_travel(self, distance: float) -> float:
        """Return after how many events the steps add up to ``distance``; infinite beyond what a float holds.

        The sum is its integral, scale ((n + offset)^(1 - exponent) - offset^(1 - exponent))/(1 - exponent).

        Examples
        --------
        >>> rule = StepRule(gain=3.0, exponent=0.75, delay=1000.0, second_moment=4.683)
        >>> n = round(rule.events_to_travel(10.0))
        >>> n, round(sum(rule.at(i) for i in range(1, n + 1)), 2)
        (5623, 10.0)
        """
        rest = 1 - self.exponent
        try:
            return float((distance * rest / self.scale + self.offset**rest) ** (1 / rest)) - self.offset
        except OverflowError:
            return math.inf


def _checkpoints() -> tuple[int, ...]:
    found = [0]
    while found[-1] < 1 << 63:
        found.append(max(found[-1] + 1, found[-1] * 5 // 4))
    return tuple(found)


CHECKPOINTS = _checkpoints()


def block_stop(start: int) -> int:
    """Return where the block that starts after ``start`` events ends.

    It is the next checkpoint, or BLOCK events on, whichever comes first.

    Examples
    --------
    >>> block_stop(7), block_stop(8), block_stop(100_000)
    (8, 10, 102048)
    """
    return min(start + BLOCK, CHECKPOINTS[bisect_right(CHECKPOINTS, start)])


def is_checkpoint(n: int) -> bool:
    """Return whether sums are closed after n events."""
    return CHECKPOINTS[bisect_right(CHECKPOINTS, n) - 1] == n


@dataclass(frozen=True)
class Window:
    """Which events an average leaves out: the first ``fraction`` of them, and at least the first ``count``.

    Parameters
    ----------
    fraction
        In [0, 1).
    count
        A number of events, at least 0.
    """

    fraction: float = 0.0
    count: int = 0

    @property
    def opens_at_once(self) -> bool:
        """Whether nothing is left out."""
        return self.fraction == 0 and self.count == 0

    def averages(self, n: int) -> bool:
        """Return whether the average of n events is one: whether they go beyond what is left out.

        Examples
        --------
        >>> Window(0.1).averages(1), Window(count=11).averages(11), Window(count=11).averages(12)
        (True, False, True)
        """
        return n > self.count

    def start(self, n: int) -> int:
        """Return how many events the window of n events leaves out.

        It is the last checkpoint that is neither past the fraction of n nor, if that is more, the count; 0
        counts as one.

        Examples
        --------
        >>> Window(0.1).start(5), Window(0.1).start(119), Window(0.1).start(120)
        (0, 10, 12)
        >>> Window(count=11).start(5), Window(count=11).start(119)
        (5, 10)
        """
        left_out = max(math.floor(self.fraction * n), min(self.count, n))
        return CHECKPOINTS[bisect_right(CHECKPOINTS, left_out) - 1]


@dataclass(frozen=True)
class RoundSchedule:
    """Where the rounds of one partition begin, counted in its accepted reports.

    Parameters
    ----------
    steps
        The step rule of each quantile level's chains; the levels share the reports equally.
    tree
        The tree of chains of each level.
    stability
        Largest N eta curvature of a round and a chain; 0 makes every accepted report a round of its own.
    curvature
        A public upper guess of the curvature of the expected check loss in the working scale.
    """

    steps: tuple[StepRule, ...]
    tree: ChainTree
    stability: float
    curvature: float

    def length(self, start: int) -> int:
        """Return N, how many accepted reports the round lasts that begins after ``start`` of them.

        Examples
        --------
        >>> rule = StepRule(3.0, 0.75, 1000.0, 4.683)
        >>> schedule = RoundSchedule((rule,), ChainTree(), stability=0.3, curvature=10.0)
        >>> schedule.length(0), schedule.length(100_000), schedule.length(1_000_000)
        (12, 125, 686)
        >>> RoundSchedule((rule,), ChainTree((4,), (0,)), stability=0.3, curvature=10.0).length(400_000)
        500
        """
        if self.stability == 0:
            return 1
        chains, events = self.tree.stretch(start // len(self.steps))
        eta = max(rule.at(events + 1) for rule in self.steps)
        return len(self.steps) * chains * max(1, math.floor(self.stability / (eta * self.curvature)))

    def advance(self, number: int, start: int, n: int) -> tuple[int, int]:
        """Return (number, start) of the round in force after n accepted reports, from an earlier round's.

        Examples
        --------
        >>> rule = StepRule(3.0, 0.75, 1000.0, 4.683)
        >>> schedule = RoundSchedule((rule,), ChainTree(), stability=0.3, curvature=10.0)
        >>> schedule.advance(0, 0, 11), schedule.advance(0, 0, 12), schedule.advance(1, 12, 1000)
        ((0, 0), (1, 12), (79, 1000))
        """
        if self.stability == 0:
            return number + n - start, n
        while (following := start + self.length(start)) <= n:
            number, start = number + 1, following
        return number, start
