"""What a campaign has learnt so far, in the user's units: coefficients and contrasts with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._validate import probability
from ..campaign import Campaign, QuantileLevel
from ..inference.regions import Interval
from ..inference.self_normalized import FEWEST, PooledAverage

__all__ = ["Estimate"]


class Estimate(Mapping[str, Interval]):
    """Frozen estimates of one moment: a mapping from "intercept" and the features' names to intervals.

    Attributes
    ----------
    campaign
        The campaign.
    n_reports
        Reports that the estimate is made of.
    level
        Coverage of the intervals, unless another is asked for.
    tau
        The quantile level.
    average
        The pooled average that it is made of, working scale.
    reason
        Why no interval is finite, or None.
    """

    def __init__(
        self, campaign: Campaign, n_reports: int, average: PooledAverage, level: float, at: QuantileLevel
    ) -> None:
        self.campaign = campaign
        self.n_reports = n_reports
        self.tau = at.tau
        self._settling = at.settling
        self.level = probability(level=level)
        self.average = average
        self._names = campaign.scale.names
        self.reason = self._doubt()

    def _doubt(self) -> str | None:
        """Return why no interval can be vouched for, or None."""
        average, radius = self.average, self.campaign.radius
        if average.W is None:
            return (
                f"too early: a chain needs {self._settling:,.0f} reports, {FEWEST} of them averaged, "
                "to leave its start behind"
            )
        units = np.eye(len(self._names)).tolist()
        half = np.array([average.half_width(unit, self.level) for unit in units])
        reached = np.flatnonzero(np.abs(average.mean) + half >= radius)
        if not reached.size:
            return None
        named = ", ".join(self._names[j] for j in reached)
        return (
            f"the interval of {named} reaches the edge of the box |b| <= {radius:g} (working scale), where "
            "the projection decides: allow a larger radius or wider bounds"
        )

    def __getitem__(self, name: str) -> Interval:
        """Return the interval of one coefficient, in the user's units."""
        if name not in self._names:
            raise KeyError(f"{name!r}: must be one of {', '.join(self._names)}")
        return self.contrast({name: 1.0})

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def contrast(self, weights: Mapping[str, float], level: float | None = None) -> Interval:
        """Return the interval of a linear combination of the coefficients, in the user's units.

        Parameters
        ----------
        weights
            Weight of each coefficient by name, "intercept" included.
        level
            Coverage, the estimate's own unless given.

        Raises
        ------
        InvalidInput
            If a name is unknown, a weight not finite, or the level outside (0, 1).
        """
        constant, a = self.campaign.scale.contrast(weights)
        level = self.level if level is None else probability(level=level)
        value = constant + sum(float(x) * float(m) for x, m in zip(a, self.average.mean, strict=True))
        return self._interval(value, a, level)

    def quantile(self, x: Mapping[str, object], level: float | None = None) -> Interval:
        """Return the interval of the fitted tau-quantile at the features x, in the user's units.

        It covers the quantile, not a future observation. Features are read as a device reads them: missing
        ones take their centre, others are clipped.
        """
        scale = self.campaign.scale
        level = self.level if level is None else probability(level=level)
        row = scale.row(x)
        value = scale.fitted(row, self.average.mean.tolist())
        return self._interval(value, [scale.half * entry for entry in row], level)

    def _interval(self, value: float, a: Sequence[float], level: float) -> Interval:
        """Return the interval of k + a'b around its value; infinite where there is a reason."""
        half = math.inf if self.reason else self.average.half_width(a, level)
        return Interval(value, value - half, value + half, level)

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON; an infinite end is None.

        Keys: campaign, digest, tau, n_reports, level, private, reason and
        coefficients: {name: {value, lower, upper}}.
        """
        return {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "tau": self.tau,
            "n_reports": self.n_reports,
            "level": self.level,
            "private": self.campaign.private,
            "reason": self.reason,
            "coefficients": {name: interval.as_dict() for name, interval in self.items()},
        }

    def __repr__(self) -> str:
        rows = [f"Estimate(campaign={self.campaign.name!r}, n_reports={self.n_reports}, level={self.level}"]
        if not self.campaign.private:
            rows[0] += ", NOT PRIVATE"
        for name, interval in self.items():
            ends = (
                f"[{interval.lower:.6g}, {interval.upper:.6g}]"
                if math.isfinite(interval.width)
                else "no interval yet"
            )
            rows.append(f"  {name} = {interval.value:.6g} {ends}")
        return "\n".join(rows) + ")"
