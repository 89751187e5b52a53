"""What is wrong with a campaign's definition: for each bad field its path, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from .campaign_parts import Channel, CQXChannel, Epsilon, Features, PrivateChannel, Taus, Whole

__all__ = ["field_problems", "joint_problems"]

_ALTERNATIVES = "channel", "inference", "tau"
_PRIVATE = tuple(section.model_fields["kind"].default for section in get_args(PrivateChannel))
_MOST_SHOWN = 80  # characters of a bad value
_FEATURES, _CHANNEL = TypeAdapter[Any](Features), TypeAdapter[Any](Channel)
_WHOLE, _EPSILON, _TAU = TypeAdapter[Any](Whole), TypeAdapter[Any](Epsilon), TypeAdapter[Any](Taus)


def field_problems(error: ValidationError) -> list[str]:
    """Return what pydantic found, in the order of the fields."""
    problems = []
    for item in error.errors(include_url=False):
        path = _path(item["loc"])
        what = item["msg"].removeprefix("Value error, ")
        if item["type"] == "missing":
            problems.append(f"{path}: missing")
        elif item["type"] == "extra_forbidden":
            problems.append(f"{path}: unknown key")
        elif isinstance(item["input"], str | int | float | None):
            problems.append(f"{path} = {_shown(item['input'])}: {what}")
        else:
            problems.append(f"{path}: {what}")
    return problems


def joint_problems(data: Mapping[str, Any]) -> list[str]:
    """Return what is wrong between fields, as far as the fields concerned are sound by themselves."""
    problems = []
    channel = data.get("channel", CQXChannel())
    kind = channel.get("kind") if isinstance(channel, Mapping) else getattr(channel, "kind", None)
    epsilon = data.get("epsilon")
    if kind == "none" and epsilon is not None:
        problems.append(
            f'epsilon = {_shown(epsilon)}: must be absent with channel "none", which is not private'
        )
    if kind not in _PRIVATE:
        return problems
    if epsilon is None:
        problems.append('epsilon: missing (only channel "none", which is not private, has none)')
    features = _sound(_FEATURES, data.get("features"))
    if features is None:
        return problems
    design = _sound(_CHANNEL, channel)
    if design is None:
        if kind != "cqx":
            return problems
        block = _sound(_WHOLE, channel.get("s", 1) if isinstance(channel, Mapping) else 1)
        if block is not None and block > len(features) + 1:
            problems.append(
                f"channel.s = {_shown(block)}: must be a whole number from 1 to {len(features) + 1}"
            )
        return problems
    epsilon, tau = _sound(_EPSILON, epsilon), _sound(_TAU, data.get("tau"))
    intervals = tuple(feature.axis(name).interval for name, feature in features.items())
    levels = tau if isinstance(tau, tuple) else (0.5 if tau is None else tau,)
    try:
        for level in levels:
            design.mechanism(1.0 if epsilon is None else epsilon, level, intervals)
    except ValueError as error:  # InvalidInput is one, and so is an integer with too many digits to be shown
        problems.append(f"channel: {error}")
    return problems


def _path(location: tuple[int | str, ...]) -> str:
    """Return the dotted path of a field; of alternatives pydantic names the one it took, which is no key."""
    parts = location[:1] + location[2:] if location[:1] and location[0] in _ALTERNATIVES else location
    return ".".join(str(part) if str(part).isprintable() else repr(part) for part in parts) or "campaign"


def _shown(value: object) -> str:
    """Return the value as Python writes it, cut when it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python shows
        return "(a number of thousands of digits)"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _sound(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Return the value as the type reads it, or None when it is refused."""
    try:
        return adapter.validate_python(value)
    except ValidationError:
        return None
