"""From a record, names and values of any kind, to a row of numbers: features and target.

The one rule for every format:

- the target must be a finite number;
- a feature that is absent, empty or NaN is left out (a device then takes the feature's public centre);
- a feature that was asked for and holds text makes the row unusable;
- when no features are named, every value that is a number is taken and all others are left out.

A number is what Python's ``float`` reads, so ``" 1e3 "`` and ``True`` are numbers.

Leaving rows out is cleaning that happens *before* the study, on raw data: it is not protected by the privacy
guarantee, which covers only what a device sends for a row that it was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..errors import InvalidInput, UnusableRow
from .base import Row

__all__ = ["feature_names", "read_row"]


def feature_names(features: Sequence[str] | None, target: str | None) -> tuple[str, ...] | None:
    """Return the features' names as a tuple, or None for "every number".

    Raises
    ------
    InvalidInput
        If it is one string, a name stands twice, or the target is among them.
    """
    if features is None:
        return None
    names = tuple(features)
    if isinstance(features, str) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(f"features = {features!r}: must be a sequence of names")
    if len(set(names)) != len(names):
        raise InvalidInput(f"features = {list(names)!r}: must not name a feature twice")
    if target in names:
        raise InvalidInput(f"features = {list(names)!r}: must not contain the target {target!r}")
    return names


def _number(value: object) -> float | None:
    """Return the value as a float, None if there is nothing, or raise ValueError if it is not a number."""
    if type(value) is float:
        return value
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf
    except TypeError:
        raise ValueError("not a number") from None


def _target(value: object, target: str) -> float:
    try:
        y = _number(value)
    except ValueError:
        raise UnusableRow(f"the target {target!r} is not a number") from None
    if y is None:
        raise UnusableRow(f"the target {target!r} is missing")
    if not math.isfinite(y):
        raise UnusableRow(f"the target {target!r} is not finite")
    return y


def read_row(
    record: Mapping[str, object], y: object, target: str = "y", features: tuple[str, ...] | None = None
) -> Row:
    """Return the row of numbers that a record holds.

    Parameters
    ----------
    record
        Names and values; a value named like the target is not taken as a feature.
    y
        The target's value.
    target
        The target's name.
    features
        The names to look for; None takes every number.

    Raises
    ------
    UnusableRow
        If the target is missing, not a number or not finite, or a named feature is not a number.

    Examples
    --------
    >>> read_row({"miles": "1.5", "rush": "", "zone": "JFK"}, "12", target="minutes")
    ({'miles': 1.5}, 12.0)
    """
    number_y = _target(y, target)
    x: dict[str, float] = {}
    for name in record if features is None else features:
        if name == target or name not in record:
            continue
        try:
            value = _number(record[name])
        except ValueError:
            if features is None:
                continue
            raise UnusableRow(f"the feature {name!r} is not a number") from None
        if value is not None and not math.isnan(value):
            x[name] = value
    return x, number_y
