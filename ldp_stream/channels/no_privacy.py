"""The non-private reference: the contribution itself is the payload.

It protects nothing. It exists so that a study can put the price of privacy beside a result; a real
``Reporter`` refuses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .._validate import probability
from .base import Decoded, RandomBits, VectorPayload

__all__ = ["NoPrivacy"]


@dataclass(frozen=True)
class NoPrivacy:
    """The identity channel on the contribution g (p floats); no privacy at all.

    Parameters
    ----------
    tau
        Quantile level in (0, 1).
    intervals
        (l_j, u_j) of each of the d slopes in the working scale.

    Examples
    --------
    >>> channel = NoPrivacy(tau=0.5, intervals=((-1.0, 1.0),))
    >>> channel.decode(VectorPayload((0.5, -0.25))).values
    (0.5, -0.25)
    """

    tau: float
    intervals: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        probability(tau=self.tau)

    @property
    def p(self) -> int:
        """Number of coordinates, the intercept included."""
        return len(self.intervals) + 1

    def privatize(self, g: Sequence[float], random: RandomBits) -> VectorPayload:
        """Return the contribution unchanged; draws nothing from ``random``."""
        del random
        return VectorPayload(tuple(g))

    def decode(self, payload: VectorPayload) -> Decoded:
        """Return the contribution as it was sent."""
        return Decoded(tuple(range(self.p)), payload.values)

    @cached_property
    def second_moments(self) -> tuple[float, ...]:
        """E g_j^2 of each coordinate, by convention with P(f = 1) = tau and slopes uniform on [l_j, u_j]."""
        face = self.tau * (1 - self.tau)
        return (face, *(face * (low * low + low * high + high * high) / 3 for low, high in self.intervals))

    @cached_property
    def second_moment(self) -> float:
        """Return v, the mean of :attr:`second_moments`: the public scale of the default step sizes."""
        return sum(self.second_moments) / self.p

    @property
    def limits(self) -> tuple[float, ...]:
        """The largest absolute value of each coordinate that is taken: 1, as no contribution is larger."""
        return (1.0,) * self.p

    @cached_property
    def worst_second_moment(self) -> float:
        """The largest E||g||^2 over the support: M^2 (1 + sum_j max(-l_j, u_j)^2), at a corner."""
        squares = (max(-low, high) ** 2 for low, high in self.intervals)
        return max(self.tau, 1 - self.tau) ** 2 * (1 + math.fsum(squares))
