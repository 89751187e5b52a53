"""What a campaign has learnt so far, in the user's units: coefficients and contrasts with confidence sets.

Three sets are for three questions. An interval covers its own coefficient or contrast. Simultaneous intervals
cover all q of theirs at once: with Bonferroni's inequality each is made for 1 - (1 - level)/q. The projection
of the ellipsoid would do as well, since it covers every contrast at once, but both have half-widths that are
a critical value times the same sqrt(a'V a), and for coefficients Bonferroni's value is the smaller one,
whatever the kind of inference, for levels from .8 on: so the choice needs no data. The ellipsoid covers all q
coefficients, and with them every contrast of theirs, in the smallest volume.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._validate import probability
from ..campaign import Campaign, QuantileLevel
from ..channels.face_exponential import FaceExponential
from ..errors import InvalidInput, NoConfidenceSet
from ..inference.averages import TOO_EARLY, Average
from ..inference.ellipsoid import Ellipsoid
from ..inference.regions import Interval
from ..inference.self_normalized import FEWEST

__all__ = ["Estimate"]

_BIASED = (
    'the channel "face_exponential" is biased: coefficients and intervals are of another point than the '
    "quantile regression's, and do not come closer to it with more reports"
)


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
    complete
        Whether a tree of chains with a horizon (HiGrad) has all the reports it was planned for: what comes
        more makes its leaves longer, and the intervals stay valid. None where there is no horizon.
    average
        The average of the campaign's chains that it is made of, of any kind of inference, working scale.
    reason
        Why no interval is finite, or None.
    note
        What to know about the numbers: that the campaign's channel is biased; or None.
    """

    def __init__(
        self,
        campaign: Campaign,
        n_reports: int,
        average: Average,
        level: float,
        at: QuantileLevel,
        complete: bool | None = None,
    ) -> None:
        self.campaign = campaign
        self.n_reports = n_reports
        self.tau = at.tau
        self.complete = complete
        self._settling = at.settling
        self.level = probability(level=level)
        self.average = average
        self._names = campaign.scale.names
        self.reason = self._doubt()
        self.note = _BIASED if isinstance(at.mechanism, FaceExponential) else None

    def _doubt(self) -> str | None:
        """Return why no interval can be vouched for, or None."""
        average, radius = self.average, self.campaign.radius
        if average.reason not in (None, TOO_EARLY):
            return average.reason
        if average.reason is not None:
            return (
                f"{TOO_EARLY}: a chain needs {self._settling:,.0f} reports, {FEWEST} of them "
                "averaged, to leave its start behind"
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

    def simultaneous(
        self, names: Iterable[str] | None = None, level: float | None = None
    ) -> dict[str, Interval]:
        """Return intervals that cover all the coefficients named at once, by name, in the user's units.

        Each is the interval at 1 - (1 - level)/q (Bonferroni), so they exist wherever intervals do.

        Parameters
        ----------
        names
            The q coefficients, all unless given.
        level
            Probability that all q are covered together, the estimate's own unless given; the intervals carry
            it.

        Raises
        ------
        InvalidInput
            If a name is unknown or repeated, none is given, or the level is outside (0, 1).
        """
        chosen = self._chosen(names)
        level = self.level if level is None else probability(level=level)
        single = 1 - (1 - level) / len(chosen)
        found = {name: self.contrast({name: 1.0}, single) for name in chosen}
        return {name: Interval(one.value, one.lower, one.upper, level) for name, one in found.items()}

    def ellipsoid(self, names: Iterable[str] | None = None, level: float | None = None) -> Ellipsoid:
        """Return the joint confidence set of coefficients, in the user's units.

        Parameters
        ----------
        names
            The q coefficients, all unless given.
        level
            Coverage, the estimate's own unless given.

        Raises
        ------
        NoConfidenceSet
            If there is none; the message says why: :attr:`reason`, chains or threads too few for q
            coefficients, or a direction in which nothing is known.
        InvalidInput
            If a name is unknown or repeated, none is given, or the level is outside (0, 1) or, for "sn" and
            q > 1, outside .8 to .999.
        """
        chosen = self._chosen(names)
        level = self.level if level is None else probability(level=level)
        if self.reason is not None:
            raise NoConfidenceSet(self.reason)
        maps = [self.campaign.scale.contrast({name: 1.0}) for name in chosen]
        rows = np.array([a for _, a in maps])
        centre = np.array([constant for constant, _ in maps]) + rows @ self.average.mean
        return Ellipsoid(chosen, centre, self.average.region(rows, level), level)

    def _chosen(self, names: Iterable[str] | None) -> tuple[str, ...]:
        """Return the names asked for, or refuse them."""
        chosen = self._names if names is None else (names,) if isinstance(names, str) else tuple(names)
        for name in chosen:
            if name not in self._names:
                raise InvalidInput(
                    f"names: unknown coefficient {name!r}: must be one of {', '.join(self._names)}"
                )
        if not chosen or len(set(chosen)) < len(chosen):
            raise InvalidInput(f"names = {chosen!r}: must be at least one coefficient, each once")
        return chosen

    def _interval(self, value: float, a: Sequence[float], level: float) -> Interval:
        """Return the interval of k + a'b around its value; infinite where there is a reason."""
        half = math.inf if self.reason else self.average.half_width(a, level)
        return Interval(value, value - half, value + half, level)

    def as_dict(self) -> dict[str, Any]:
        """Return the estimate for JSON; an infinite end is None.

        Keys: campaign, digest, tau, n_reports, level, private, reason and
        coefficients: {name: {value, lower, upper}}; with a horizon also complete, with a note also note.
        """
        note = {} if self.note is None else {"note": self.note}
        horizon = {} if self.complete is None else {"complete": self.complete}
        return {
            "campaign": self.campaign.name,
            "digest": self.campaign.digest,
            "tau": self.tau,
            "n_reports": self.n_reports,
            **horizon,
            "level": self.level,
            "private": self.campaign.private,
            "reason": self.reason,
            **note,
            "coefficients": {name: interval.as_dict() for name, interval in self.items()},
        }

    def __repr__(self) -> str:
        rows = [f"Estimate(campaign={self.campaign.name!r}, n_reports={self.n_reports}, level={self.level}"]
        if not self.campaign.private:
            rows[0] += ", NOT PRIVATE"
        if self.note is not None:
            rows[0] += ", BIASED"
        for name, interval in self.items():
            ends = (
                f"[{interval.lower:.6g}, {interval.upper:.6g}]"
                if math.isfinite(interval.width)
                else "no interval yet"
            )
            rows.append(f"  {name} = {interval.value:.6g} {ends}")
        return "\n".join(rows) + ")"
