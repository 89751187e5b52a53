"""The estimates of several quantile levels of one campaign, and predictions that never cross.

Each level is estimated from reports of its own, so at some x the fitted quantiles may come in the wrong
order. Sorting them (rearrangement) gives a curve in tau that is never farther from the true one, and sorting
lower and upper ends alike keeps the coverage of the intervals over all levels together.

Source: Chernozhukov, Fernandez-Val and Galichon (2010), Quantile and probability curves without crossing,
Econometrica.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..inference.regions import Interval
from .estimate import Estimate

__all__ = ["Estimates"]


class Estimates(Mapping[float, Estimate]):
    """Frozen estimates of one moment by quantile level tau, increasing.

    Parameters
    ----------
    levels
        The estimates of the levels of one campaign, by increasing tau.
    """

    def __init__(self, levels: Sequence[Estimate]) -> None:
        self._levels = {estimate.tau: estimate for estimate in levels}

    def __getitem__(self, tau: float) -> Estimate:
        return self._levels[tau]

    def __iter__(self) -> Iterator[float]:
        return iter(self._levels)

    def __len__(self) -> int:
        return len(self._levels)

    @property
    def n_reports(self) -> int:
        """Reports that all levels together are made of."""
        return sum(estimate.n_reports for estimate in self.values())

    def quantiles(self, x: Mapping[str, object], level: float | None = None) -> dict[float, Interval]:
        """Return the interval of every fitted quantile at the features x, in the user's units: none cross.

        Raises
        ------
        InvalidInput
            If the level is outside (0, 1).
        """
        found = [estimate.quantile(x, level) for estimate in self.values()]
        values, lower, upper = (
            sorted(getattr(interval, end) for interval in found) for end in ("value", "lower", "upper")
        )
        ends = zip(values, lower, upper, strict=True)
        return {tau: Interval(*three, level=found[0].level) for tau, three in zip(self, ends, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Return the estimates for JSON: of one level as it gives them itself, of several under "levels"."""
        first = next(iter(self.values()))
        if len(self) == 1:
            return first.as_dict()
        shared = {key: value for key, value in first.as_dict().items() if key in _SHARED}
        levels = [
            {key: value for key, value in estimate.as_dict().items() if key not in _SHARED}
            for estimate in self.values()
        ]
        return {**shared, "n_reports": self.n_reports, "levels": levels}


_SHARED = ("campaign", "digest", "level", "private")
