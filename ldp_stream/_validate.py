"""Named checks: ``positive(scale=-1.0)`` raises an error that says which, what and what is allowed.

Every check takes exactly one keyword, returns the value as a plain ``float`` or ``int``, and raises
:class:`~ldp_stream.errors.InvalidInput`.
"""

from __future__ import annotations

import math

from .errors import InvalidInput

__all__ = ["finite", "integer_in", "non_negative", "positive", "probability"]


def _single(named: dict[str, object]) -> tuple[str, object]:
    ((name, value),) = named.items()
    return name, value


def _number(name: str, value: object, allowed: str) -> float:
    if isinstance(value, bool | str | bytes):
        raise InvalidInput(f"{name} = {value!r}: must be {allowed}")
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} = {value!r}: must be {allowed}") from None


def finite(**named: object) -> float:
    """Return the value as a float, or refuse it unless it is a finite number."""
    name, value = _single(named)
    number = _number(name, value, "a finite number")
    if not math.isfinite(number):
        raise InvalidInput(f"{name} = {value!r}: must be a finite number")
    return number


def positive(**named: object) -> float:
    """Return the value as a float, or refuse it unless it is finite and above 0.

    Examples
    --------
    >>> positive(epsilon=2)
    2.0
    >>> positive(epsilon=0)
    Traceback (most recent call last):
    ...
    ldp_stream.errors.InvalidInput: epsilon = 0: must be a finite number > 0
    """
    name, value = _single(named)
    number = _number(name, value, "a finite number > 0")
    if not (math.isfinite(number) and number > 0):
        raise InvalidInput(f"{name} = {value!r}: must be a finite number > 0")
    return number


def non_negative(**named: object) -> float:
    """Return the value as a float, or refuse it unless it is finite and at least 0."""
    name, value = _single(named)
    number = _number(name, value, "a finite number >= 0")
    if not (math.isfinite(number) and number >= 0):
        raise InvalidInput(f"{name} = {value!r}: must be a finite number >= 0")
    return number


def probability(**named: object) -> float:
    """Return the value as a float, or refuse it unless it lies strictly between 0 and 1."""
    name, value = _single(named)
    number = _number(name, value, "a number in (0, 1)")
    if not 0 < number < 1:
        raise InvalidInput(f"{name} = {value!r}: must be a number in (0, 1)")
    return number


def integer_in(lower: int, upper: int, /, **named: object) -> int:
    """Return the value as an int, or refuse it unless it is a whole number in [lower, upper]."""
    name, value = _single(named)
    allowed = f"a whole number from {lower} to {upper}"
    number = value if isinstance(value, int) else _number(name, value, allowed)
    if isinstance(value, bool) or not lower <= number <= upper or number != int(number):
        raise InvalidInput(f"{name} = {value!r}: must be {allowed}")
    return int(number)
