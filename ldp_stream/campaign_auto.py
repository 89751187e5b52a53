"""``channel = {kind = "auto"}``: replaced by the best CQX design before the campaign is frozen.

What the campaign stores, and its digest covers, is the design that was chosen. For several quantile levels
the mean of the figure over the levels is minimised. Other kinds of channels are never chosen;
:func:`ldp_stream.design.design_channel` says where one of them would be better.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from .campaign_parts import CQXChannel, Epsilon, Features, Section, Taus
from .channels.search import Candidate, candidates
from .errors import InvalidInput

__all__ = ["AutoChannel", "resolved", "section_of"]


class AutoChannel(Section):
    """The request for the best CQX design by a criterion, "expected" or "worst" second moment."""

    kind: Literal["auto"] = "auto"
    criterion: Literal["expected", "worst"] = "expected"


_AUTO = TypeAdapter[Any](AutoChannel)
_EPSILON, _TAU, _FEATURES = TypeAdapter[Any](Epsilon), TypeAdapter[Any](Taus), TypeAdapter[Any](Features)


def section_of(candidate: Candidate) -> CQXChannel:
    """Return the campaign's section of a design."""
    return CQXChannel(q=candidate.q, s=candidate.s, intercept=candidate.intercept, shear=candidate.shear)


def resolved(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a campaign's definition with its channel chosen, if it is to be.

    A definition whose channel is of another kind, or whose other fields do not allow a choice, keeps a
    channel with which it is checked and refused like any other.

    Raises
    ------
    ValidationError
        If the channel's own section is wrong.

    Examples
    --------
    >>> resolved({"channel": {"kind": "auto"}, "epsilon": 4, "tau": 0.9, "features": {}})["channel"]
    CQXChannel(kind='cqx', q=2, s=1, intercept=None, shear=False)
    """
    channel = data.get("channel")
    kind = channel.get("kind") if isinstance(channel, Mapping) else getattr(channel, "kind", None)
    if kind != "auto":
        return data
    criterion = _AUTO.validate_python(channel).criterion
    try:
        epsilon = _EPSILON.validate_python(data.get("epsilon"))
        tau = _TAU.validate_python(data.get("tau"))
        features = _FEATURES.validate_python(data.get("features"))
        taus = tau if isinstance(tau, tuple) else (tau,)
        intervals = tuple(feature.axis(name).interval for name, feature in features.items())
        chosen = section_of(candidates(epsilon, taus, intervals, criterion)[0])
    except (ValidationError, InvalidInput):
        chosen = CQXChannel()
    return {**data, "channel": chosen}
