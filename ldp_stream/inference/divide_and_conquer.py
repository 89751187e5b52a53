"""Divide and conquer (DC): confidence sets from the spread of K chains on disjoint reports.

The chains' averages t_1..t_K are independent and, each with the same number of reports, nearly N(b, Sigma/n).
With their mean t and S = sum_k (t_k - t)(t_k - t)'/(K - 1), whatever Sigma is,

    contrast:   a't -+ t_{K-1} sqrt(a'S a/K),
    ellipsoid:  K (t - b)'S^-1(t - b) = T^2 ~ q (K - 1)/(K - q) F_{q, K-q},   K > q,

by Student and Hotelling (1931). Chains get their reports by a public draw, so their lengths n_k differ by
about sqrt(n_k), which changes the law by terms of order 1/n_k. Lengths that differ by design are the business
of :mod:`~ldp_stream.inference.higrad`, where a thread may be a single chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import NoConfidenceSet
from .averages import TOO_EARLY, half_width, shape, t_squared, t_value

__all__ = ["DivideAndConquerAverage"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DivideAndConquerAverage:
    """The averages of K chains of equal length, and the confidence sets around their mean.

    Parameters
    ----------
    centres
        t_k, shape (K, p), of the chains that have left their start behind; working scale.
    reason
        Why no set can be given, or None; filled in when there are fewer than two chains.

    Examples
    --------
    >>> import numpy as np
    >>> average = DivideAndConquerAverage(np.array([[1.0], [2.0], [6.0]]))
    >>> average.mean.tolist(), round(average.half_width([1.0], 0.95), 3)
    ([3.0], 6.572)
    """

    centres: Array
    reason: str | None = None
    kind: ClassVar[Literal["dc"]] = "dc"

    def __post_init__(self) -> None:
        """Say why there is no set where chains are too few."""
        chains = len(self.centres)
        if self.reason is None and chains < 2:
            few = f"{chains} chain has an average, and intervals need two"
            object.__setattr__(self, "reason", few if chains else TOO_EARLY)

    @cached_property
    def mean(self) -> Array:
        """t, shape (p,); zeros without chains."""
        return self.centres.mean(axis=0) if len(self.centres) else np.zeros(self.centres.shape[1])

    @cached_property
    def V(self) -> Array:
        """S/K, shape (p, p): the estimated covariance of the mean."""
        chains = len(self.centres)
        gaps = self.centres - self.mean
        return gaps.T @ gaps / (chains * (chains - 1))

    def half_width(self, a: Sequence[float], level: float) -> float:
        """Return t_{K-1} sqrt(a'S a/K) of the contrast a (p,), infinite where there is a reason."""
        if self.reason is not None:
            return math.inf
        return half_width(t_value(level, len(self.centres) - 1), a, self.V)

    def region(self, rows: Array, level: float) -> Array:
        """Return M = f A S A'/K (q, q) of the contrasts A = rows (q, p), f the quantile of T^2.

        Raises
        ------
        NoConfidenceSet
            If there is a reason, K <= q, or S is singular in these contrasts.
        """
        if self.reason is not None:
            raise NoConfidenceSet(self.reason)
        return shape(t_squared(level, len(rows), len(self.centres), "chains"), rows, self.V)
