"""What is public about a study, and what its replications come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..adaptive import CONSTANTS, AdaptiveConstants, PublicScale
from ..inference.correction import ALLOWANCE, widening
from ..plan import StepRule

__all__ = [
    "BRANCHING",
    "CHAINS",
    "FEWEST_REPORTS",
    "Found",
    "Method",
    "Plan",
    "Scale",
    "Steps",
    "tree_lengths",
]

Array = NDArray[np.float64]
Scale = Callable[[int, int], Array]
Method = Literal["sn", "dc10", "dc20", "higrad"]
Steps = Literal["power", "corrected", "adaptive", "adaptive-open"]
CHAINS: dict[Method, int] = {"sn": 1, "dc10": 10, "dc20": 20, "higrad": 4}
BRANCHING = (2, 2)
FEWEST_REPORTS = 1000  # of a study: below it a pilot has no time
_RATIO = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Plan:
    """What is public: how many reports, the method, the steps, and the channel's scale.

    Parameters
    ----------
    method
        "sn", "dc10", "dc20" or "higrad" (branching [2, 2], n_0 : n_1 : n_2 = .5 : 1 : 2).
    steps
        "power", "corrected" (power steps with the free corrections), "adaptive" (the horizon n is known) or
        "adaptive-open" (it is not).
    n
        Reports of a replication.
    public, power
        The scale of the adaptive rule, and the power rule.
    """

    method: Method
    steps: Steps
    n: int
    public: PublicScale
    power: StepRule
    radius: float = 3.0
    burn_in: float = 0.1
    level: float = 0.95
    rule: AdaptiveConstants = CONSTANTS

    @property
    def chains(self) -> int:
        """Leaves of the method's tree."""
        return CHAINS[self.method]

    @property
    def horizon(self) -> int | None:
        """The horizon n where it is known from the start."""
        return self.n if self.steps == "adaptive" else None

    def power_scale(self, start: int, stop: int) -> Array:
        """Return the power rule's steps of reports start + 1..stop of a path."""
        return np.array([self.power.at(i) for i in range(start + 1, stop + 1)])


@dataclass(frozen=True, eq=False)
class Found:
    """Estimates, half-widths and estimated relaxation times, each (R, p)."""

    mean: Array
    half_width: Array
    relaxations: Array

    @classmethod
    def widened(cls, mean: Array, half: Array, shift: Array, relaxations: Array, chains: int = 1) -> Found:
        """Return corrected averages whose half-widths grow by what the corrections leave open."""
        half = half * widening(relaxations, chains)
        half[:, 0] += ALLOWANCE * np.abs(shift)
        return cls(mean, half, relaxations)

    @classmethod
    def gather(cls, parts: Sequence[tuple[NDArray[np.intp], Found]]) -> Found:
        """Return the replications of all parts in their order; each part comes with its numbers."""
        order = np.argsort(np.concatenate([where for where, _ in parts]))
        return cls(
            *(
                np.concatenate([getattr(part, name) for _, part in parts])[order]
                for name in ("mean", "half_width", "relaxations")
            )
        )


def tree_lengths(n: int) -> tuple[int, ...]:
    """Return the segments' lengths of a HiGrad tree that takes n reports in all.

    Examples
    --------
    >>> tree_lengths(1050)
    (50, 100, 200)
    """
    widths = np.cumprod([1, *BRANCHING])
    unit = n / float(np.dot(widths, _RATIO))
    return tuple(math.floor(unit * part) for part in _RATIO)
