"""Privacy budgets: how much a release may tell, and how releases add up.

A channel ``Q`` is ``(epsilon, delta)``-locally private when, for all inputs ``x`` and ``x'`` and all events
``A``,

    ``Q(A | x) <= exp(epsilon) Q(A | x') + delta``;

``delta = 0`` is epsilon-local privacy. Releases that are ``(epsilon_i, delta_i)``-private are together
``(sum epsilon_i, sum delta_i)``-private, also when a later one depends on what the earlier ones released.

Source: Dwork and Roth (2014), The Algorithmic Foundations of Differential Privacy, Theorem 3.16 and
Appendix B (sequential composition), read with one user's data as the database.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ._validate import integer_in, non_negative
from .errors import InvalidInput

__all__ = ["PrivacyBudget", "compose"]


@dataclass(frozen=True)
class PrivacyBudget:
    """An ``(epsilon, delta)`` promise: of one channel, of several together, or the most that is allowed.

    Parameters
    ----------
    epsilon : float
        Finite and at least 0. ``epsilon = delta = 0`` is the empty budget: nothing has been released.
    delta : float, optional
        From 0 to 1. At 1 nothing is promised any more.

    Raises
    ------
    InvalidInput
        If a number is outside its range.

    Examples
    --------
    >>> PrivacyBudget(2.0).split(4)
    PrivacyBudget(epsilon=0.5, delta=0.0)
    >>> PrivacyBudget(1.0, 1e-6).within(PrivacyBudget(16.0))
    False
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        """Keep both numbers as plain floats, or refuse them."""
        delta = non_negative(delta=self.delta)
        if delta > 1:
            raise InvalidInput(f"delta = {self.delta!r}: must be a number from 0 to 1")
        object.__setattr__(self, "epsilon", non_negative(epsilon=self.epsilon))
        object.__setattr__(self, "delta", delta)

    def split(self, parts: int) -> PrivacyBudget:
        """Return the budget of one of ``parts`` equal releases: ``(epsilon / parts, delta / parts)``.

        The quotients are rounded down where they must be rounded, so that ``parts`` of them never compose to
        more than this budget.

        Parameters
        ----------
        parts : int
            Number of releases, from 1 to 1,000,000.

        Raises
        ------
        InvalidInput
            If ``parts`` is not such a number.
        """
        count = integer_in(1, 1_000_000, parts=parts)
        return PrivacyBudget(_divide_down(self.epsilon, count), _divide_down(self.delta, count))

    def within(self, limit: PrivacyBudget) -> bool:
        """Return whether this budget asks for no more than ``limit``, in epsilon and in delta."""
        return self.epsilon <= limit.epsilon and self.delta <= limit.delta


def compose(*budgets: PrivacyBudget) -> PrivacyBudget:
    """Return the budget of all releases together (basic sequential composition).

    The sums are those of the exact numbers, rounded once; delta stops at 1.

    Parameters
    ----------
    *budgets : PrivacyBudget
        One for each release; none at all gives the empty budget.

    Returns
    -------
    PrivacyBudget
        ``(sum epsilon_i, min(1, sum delta_i))``.

    Raises
    ------
    InvalidInput
        If the sum of the epsilons is too large for a float.

    Notes
    -----
    Source: Dwork and Roth (2014), Theorem 3.16.

    Examples
    --------
    >>> compose(PrivacyBudget(0.1), PrivacyBudget(0.2, 1e-6), PrivacyBudget(0.7))
    PrivacyBudget(epsilon=1.0, delta=1e-06)
    """
    try:
        epsilon = math.fsum(budget.epsilon for budget in budgets)
    except OverflowError:
        epsilon = math.inf
    return PrivacyBudget(epsilon, min(1.0, math.fsum(budget.delta for budget in budgets)))


def _divide_down(value: float, count: int) -> float:
    """Return the largest float that is at most ``value / count``, exactly."""
    part = value / count
    part_top, part_bottom = part.as_integer_ratio()
    top, bottom = value.as_integer_ratio()
    return math.nextafter(part, 0.0) if part_top * count * bottom > top * part_bottom else part
