"""Estimates as a message: what a service publishes, and what a reader makes of it again.

The JSON holds the coefficients with their intervals for whoever only wants the numbers, and under ``average``
what they are made of (:mod:`~ldp_stream.server.average_messages`), from which the whole
:class:`~ldp_stream.server.estimate.Estimate` comes back: any level, any contrast, any quantile, any set. A
campaign of several quantile levels has these under ``levels``, each with its ``tau``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from ..campaign import Campaign
from ..codec import first_problem
from ..errors import CampaignMismatch, InvalidInput
from .average_messages import AverageMessage, average_message
from .estimate import Estimate
from .estimates import Estimates

__all__ = ["estimates_from_json", "estimates_to_json"]


class _Level(BaseModel):
    """The fields of one quantile level that are read back; the others are for people."""

    n_reports: int
    complete: bool | None = None
    average: AverageMessage


class _Published(BaseModel):
    """The fields that are read back: one level's own, or those of several."""

    digest: str
    level: float
    levels: list[_Level] | None = None


def estimates_to_json(estimates: Estimates, **facts: object) -> bytes:
    """Return the estimates as one line of JSON: ``as_dict()``, the facts given, and each ``average``."""
    content = estimates.as_dict()
    for entry, estimate in zip(content.get("levels", [content]), estimates.values(), strict=True):
        entry["average"] = average_message(estimate.average)
    return json.dumps({**content, **facts}, separators=(",", ":"), allow_nan=False).encode()


def estimates_from_json(
    campaign: Campaign, data: bytes, level: float | None = None
) -> tuple[Estimates, Mapping[str, Any]]:
    """Return the estimates of :func:`estimates_to_json`, and everything that the message holds.

    Parameters
    ----------
    campaign
        Its campaign.
    data
        The message.
    level
        Coverage of the intervals; None takes the message's own.

    Raises
    ------
    CampaignMismatch
        If the message is of another campaign.
    InvalidInput
        If it does not hold the campaign's estimates, or the level is outside (0, 1).
    """
    try:
        found = _Published.model_validate_json(data)
        parts = [_Level.model_validate_json(data)] if found.levels is None else found.levels
    except ValidationError as error:
        raise InvalidInput(f"message: is not an estimate: {first_problem(error)}") from None
    if found.digest != campaign.digest:
        raise CampaignMismatch(f"message: digest = {found.digest!r}: must be {campaign.digest!r}")
    if len(parts) != len(campaign.levels):
        raise InvalidInput(f"message: holds {len(parts)} quantile levels: must be {len(campaign.levels)}")
    coverage = found.level if level is None else level
    estimates = [
        Estimate(campaign, part.n_reports, part.average.made(campaign.p), coverage, at, part.complete)
        for part, at in zip(parts, campaign.levels, strict=True)
    ]
    return Estimates(estimates), json.loads(data)
