"""An estimate as a message: what a service publishes, and what a reader makes of it again.

The JSON holds the coefficients with their intervals for whoever only wants the numbers, and under ``average``
what they are made of (:mod:`~ldp_stream.server.average_messages`), from which the whole
:class:`~ldp_stream.server.estimate.Estimate` comes back: any level, any contrast, any quantile, any set.
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

__all__ = ["estimate_from_json", "estimate_to_json"]


class _Published(BaseModel):
    """The fields that are read back; the others are for people."""

    digest: str
    n_reports: int
    level: float
    average: AverageMessage


def estimate_to_json(estimate: Estimate, **facts: object) -> bytes:
    """Return the estimate as one line of JSON: its ``as_dict()``, the facts given, and ``average``."""
    content = {**estimate.as_dict(), **facts, "average": average_message(estimate.average)}
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()


def estimate_from_json(
    campaign: Campaign, data: bytes, level: float | None = None
) -> tuple[Estimate, Mapping[str, Any]]:
    """Return the estimate of :func:`estimate_to_json`, and everything that the message holds.

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
        If it is not an estimate, or the level is outside (0, 1).
    """
    try:
        found = _Published.model_validate_json(data)
    except ValidationError as error:
        raise InvalidInput(f"message: is not an estimate: {first_problem(error)}") from None
    if found.digest != campaign.digest:
        raise CampaignMismatch(f"message: digest = {found.digest!r}: must be {campaign.digest!r}")
    average = found.average.made(campaign.mechanism.p)
    estimate = Estimate(campaign, found.n_reports, average, found.level if level is None else level)
    return estimate, json.loads(data)
