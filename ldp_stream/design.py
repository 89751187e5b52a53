"""The choice of a campaign's channel: exact second moments of CQX designs beside those of other channels.

Two figures of a channel, sums over the p coordinates, are exact:

- expected: E ||g~||^2 at the optimum, where P(f = 1) = tau and E g = 0, so that it is the variance of the
  decoded vector; slopes uniform on their intervals. Errors of the estimate scale with its root.
- worst: the largest E ||g~||^2 over the support.

The CQX designs are those of :mod:`ldp_stream.channels.search`. The comparison channels are Direct Laplace
(for the support, and blind), Face-exponential (biased, so its figure is no error), Piecewise and Hybrid with
sampled coordinates (Wang et al. 2019) and PrivUnitG. For several quantile levels figures are means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ._validate import integer_in
from .campaign_auto import section_of
from .campaign_parts import (
    CQXChannel,
    FaceExponentialChannel,
    HybridChannel,
    LaplaceChannel,
    PiecewiseChannel,
    PrivateChannel,
    PrivUnitGChannel,
)
from .channels.search import Candidate, Criterion, candidates
from .errors import InvalidInput

__all__ = ["Alternative", "ChannelDesign", "design_channel"]

_COMPARED: tuple[PrivateChannel, ...] = (
    LaplaceChannel(),
    LaplaceChannel(support="blind"),
    FaceExponentialChannel(),
    PiecewiseChannel(),
    HybridChannel(),
    PrivUnitGChannel(),
)
_SHOWN = 5  # of the best CQX designs
_MOST_POINTS = 1 << 10  # of a Face-exponential channel whose figures are asked for


@dataclass(frozen=True)
class Alternative:
    """A channel and its figures.

    Parameters
    ----------
    channel
        The campaign's section.
    expected, worst
        E ||g~||^2 at the optimum, and the largest over the support; means over the quantile levels.
    """

    channel: PrivateChannel
    expected: float
    worst: float

    @property
    def unbiased(self) -> bool:
        """Whether E g~ = g."""
        return not isinstance(self.channel, FaceExponentialChannel)

    def figure(self, criterion: Criterion) -> float:
        """Return the figure that the criterion minimises."""
        return self.expected if criterion == "expected" else self.worst

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON document says of it."""
        return {
            "channel": self.channel.model_dump(exclude_none=True),
            "expected": self.expected,
            "worst": self.worst,
            "unbiased": self.unbiased,
        }


@dataclass(frozen=True)
class ChannelDesign:
    """The chosen CQX design, and what it was compared with.

    Parameters
    ----------
    epsilon, taus, intervals, criterion
        What it was chosen for.
    chosen
        The best CQX design.
    alternatives
        Best CQX designs, the best uniform one, CQX(2, 1) and the comparison channels, by their figure.
    searched
        Every CQX design that was searched, by its figure.
    """

    epsilon: float
    taus: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    criterion: Criterion
    chosen: Alternative
    alternatives: tuple[Alternative, ...]
    searched: tuple[Candidate, ...]

    @cached_property
    def better(self) -> tuple[Alternative, ...]:
        """Unbiased channels of another kind with a smaller figure than the chosen one's."""
        return tuple(
            other
            for other in self.alternatives
            if not isinstance(other.channel, CQXChannel)
            and other.unbiased
            and other.figure(self.criterion) < self.chosen.figure(self.criterion)
        )

    @property
    def best(self) -> Alternative:
        """The unbiased channel with the smallest figure, of whatever kind."""
        return self.better[0] if self.better else self.chosen

    def as_dict(self) -> dict[str, Any]:
        """Return what a JSON document says of it."""
        return {
            "epsilon": self.epsilon,
            "tau": list(self.taus),
            "features": len(self.intervals),
            "criterion": self.criterion,
            "chosen": self.chosen.as_dict(),
            "better": [other.as_dict() for other in self.better],
            "alternatives": [other.as_dict() for other in self.alternatives],
            "searched": [
                {**section_of(one).model_dump(exclude_none=True), self.criterion: one.figure}
                for one in self.searched
            ],
        }


def design_channel(
    epsilon: float,
    features: int | Sequence[tuple[float, float]],
    tau: float | Sequence[float],
    criterion: Criterion = "expected",
) -> ChannelDesign:
    """Choose the CQX design with the smallest exact second moment, and compare it with other channels.

    Parameters
    ----------
    epsilon
        Privacy of one report, finite and > 0.
    features
        Number d of features with midpoint centres, or (l_j, u_j) of each slope in the working scale.
    tau
        Quantile level in (0, 1), or several.
    criterion
        "expected": the variance at the optimum. "worst": the largest second moment over the support.

    Returns
    -------
    ChannelDesign
        The choice and its alternatives.

    Raises
    ------
    InvalidInput
        If an argument is out of range.

    Examples
    --------
    >>> design = design_channel(4.0, 3, 0.9)
    >>> design.chosen.channel.q, design.chosen.channel.s, design.chosen.channel.intercept
    (4, 2, 1.0)
    >>> round(design.chosen.expected, 3), [other.channel.kind for other in design.better]
    (0.901, [])
    """
    if criterion not in ("expected", "worst"):
        raise InvalidInput(f'criterion = {criterion!r}: must be "expected" or "worst"')
    if isinstance(features, int | float | str):
        intervals = ((-1.0, 1.0),) * integer_in(0, 4095, features=features)
    else:
        intervals = tuple((float(lower), float(upper)) for lower, upper in features)
    taus = (tau,) if isinstance(tau, int | float | str) else tuple(tau)
    if not taus:
        raise InvalidInput("tau: must be a number in (0, 1), or several")
    searched = candidates(epsilon, taus, intervals, criterion)
    uniform = [one for one in searched if one.intercept is None and not one.shear]
    sections: list[PrivateChannel] = [section_of(one) for one in searched[:_SHOWN]]
    sections += [section_of(one) for one in (*uniform[:1], *(u for u in uniform if (u.q, u.s) == (2, 1)))]
    sections += [section for section in _COMPARED if _small(section, len(intervals))]
    rows: dict[PrivateChannel, Alternative] = {}
    for section in sections:
        if section not in rows:
            rows[section] = _alternative(section, epsilon, taus, intervals)
    return ChannelDesign(
        epsilon,
        taus,
        intervals,
        criterion,
        rows[sections[0]],
        tuple(sorted(rows.values(), key=lambda row: row.figure(criterion))),
        tuple(searched),
    )


def _small(section: PrivateChannel, features: int) -> bool:
    """Whether the figures of a comparison channel are found at once."""
    return not isinstance(section, FaceExponentialChannel) or 2 * section.q**features <= _MOST_POINTS


def _alternative(
    section: PrivateChannel,
    epsilon: float,
    taus: Sequence[float],
    intervals: tuple[tuple[float, float], ...],
) -> Alternative:
    channels = [section.mechanism(epsilon, tau, intervals) for tau in taus]
    expected = math.fsum(math.fsum(channel.second_moments) for channel in channels)
    worst = math.fsum(channel.worst_second_moment for channel in channels)
    return Alternative(section, expected / len(taus), worst / len(taus))
