"""A campaign as TOML text, for people to read and change."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...campaign import Campaign
from ...campaign_parts import PrivateChannel
from ...errors import InvalidInput

__all__ = ["Bounds", "Draft", "channel_text", "toml_text"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Bounds:
    """Public bounds of a feature or the target, and a feature's centre where it is not the midpoint."""

    lower: float
    upper: float
    centre: float | None = None


@dataclass(frozen=True)
class Draft:
    """What a campaign's file says; everything else keeps its default.

    Parameters
    ----------
    name
        The campaign's name.
    tau
        Quantile level.
    epsilon
        Privacy of one report.
    target
        The target's range.
    features
        Name to bounds.
    comments
        Lines for the head of the file.
    """

    name: str
    tau: float
    epsilon: float
    target: Bounds
    features: Mapping[str, Bounds]
    comments: Sequence[str] = ()


def toml_text(draft: Draft) -> str:
    """Return the file's text, which reads as a sound campaign.

    Raises
    ------
    InvalidCampaign
        If the draft makes no campaign; the message names every bad field.
    InvalidInput
        If a name holds characters that no TOML file can.

    Examples
    --------
    >>> features = {"trip miles": Bounds(0, 30), "rush": Bounds(0, 1, 0)}
    >>> print(toml_text(Draft("trips", 0.5, 2.0, Bounds(0, 60), features)))
    kind = "quantile"
    name = "trips"
    tau = 0.5
    epsilon = 2.0
    target = { lower = 0, upper = 60 }
    <BLANKLINE>
    [features]
    "trip miles" = { lower = 0, upper = 30 }
    rush = { lower = 0, upper = 1, centre = 0 }
    <BLANKLINE>
    """
    lines = [f"# {_comment(line)}".rstrip() for line in draft.comments]
    lines += [
        'kind = "quantile"',
        f"name = {_string(draft.name)}",
        f"tau = {draft.tau!r}",
        f"epsilon = {draft.epsilon!r}",
        f"target = {_table(draft.target)}",
        "",
        "[features]",
    ]
    lines += [f"{_key(name)} = {_table(bounds)}" for name, bounds in draft.features.items()]
    text = "\n".join(lines) + "\n"
    try:
        text.encode()
        Campaign.model_validate(tomllib.loads(text))
    except UnicodeEncodeError:
        raise InvalidInput("a name holds bytes that are not UTF-8, which a TOML file cannot hold") from None
    return text


def _comment(line: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in line)


def _string(text: str) -> str:
    """Return a TOML basic string; JSON has the same escapes but leaves DEL as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _table(bounds: Bounds) -> str:
    parts = {"lower": bounds.lower, "upper": bounds.upper, "centre": bounds.centre}
    return (
        "{ "
        + ", ".join(f"{key} = {_number(value)}" for key, value in parts.items() if value is not None)
        + " }"
    )


def _number(value: float) -> str:
    """Return a number without a needless fraction."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def channel_text(section: PrivateChannel) -> str:
    """Return a channel's section as an inline table of TOML.

    Examples
    --------
    >>> from ldp_stream.campaign_parts import CQXChannel
    >>> channel_text(CQXChannel(q=3, s=2, intercept=1.0))
    '{ kind = "cqx", q = 3, s = 2, intercept = 1.0 }'
    """
    values = section.model_dump(exclude_none=True).items()
    return "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in values) + " }"
