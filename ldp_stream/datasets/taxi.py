"""Synthetic taxi trips whose conditional quantiles are known exactly.

With ``X = (1, log_miles, rush, night, airport)`` a trip takes ``Y`` log minutes,

    ``Y = X'b + (X'g) e``,   ``X'g > 0`` always,   ``e`` independent of ``X`` with law ``F``,

so that ``P(Y <= X'beta | X) = tau`` for ``beta = b + g F^-1(tau)``: these are the coefficients that a
quantile regression at ``tau`` has to find. ``F`` is the standard normal law cut at -2.5 and 2.5,

    ``F^-1(tau) = Phi^-1(a + tau (1 - 2 a))``,   ``a = Phi(-2.5)``.

The numbers are round ones near those of yellow-taxi trips in New York City, 2018 to 2020: how often each
indicator is 1, how far trips go (further to an airport), ``b`` and ``g``. All features lie inside
``FEATURES`` and all targets inside ``TARGET``, with certainty and not by clipping, so bounds do not move
the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from .._validate import integer_in, probability

__all__ = ["FEATURES", "TARGET", "TaxiTrips"]

FEATURES: dict[str, tuple[float, ...]] = {
    "log_miles": (-2.4, 3.5),
    "rush": (0.0, 1.0, 0.0),
    "night": (0.0, 1.0, 0.0),
    "airport": (0.0, 1.0, 0.0),
}
"""Bounds of each feature for a campaign: lower, upper and, where there are three, the public centre."""

TARGET = (0.0, 4.8)
"""Range of the target for a campaign, in log minutes."""

_NAMES = ("intercept", *FEATURES)
_LOCATION = np.array([1.85, 0.66, 0.20, -0.15, -0.20])  # b, in the order of _NAMES
_SPREAD = np.array([0.35, -0.03, 0.03, -0.03, -0.01])  # g
_CUT = 2.5
_RUSH, _NIGHT, _AIRPORT = 0.51, 0.08, 0.02  # rush and night never together
_LEVELS = np.array([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0])
_CITY_LOG_MILES = np.array([-1.2, -0.7, -0.45, 0.0, 0.5, 1.1, 1.8, 2.2, 2.7, 3.0])  # quantiles at _LEVELS
_AIRPORT_LOG_MILES = np.array([1.8, 2.4, 2.7, 2.8, 2.9, 2.95, 3.05, 3.1, 3.3, 3.4])
_BLOCK = 16_384


@dataclass(frozen=True)
class TaxiTrips:
    """A stream of ``n`` trips; every iteration gives the same ones again.

    Trip ``i`` depends on ``seed`` and ``i`` only: a shorter stream is the beginning of a longer one.

    Parameters
    ----------
    n : int
        Number of trips, from 0 to 10^12. They are made as they are asked for, never all at once.
    seed : int, optional
        From 0 to 2^53 - 1.

    Raises
    ------
    InvalidInput
        If ``n`` or ``seed`` is not such a number.

    Examples
    --------
    >>> trips = TaxiTrips(2, seed=7)
    >>> x, y = next(iter(trips))
    >>> sorted(x), 0.0 < y < 4.8
    (['airport', 'log_miles', 'night', 'rush'], True)
    >>> trips.true_coefficients(0.5)["log_miles"]
    0.66
    """

    n: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Keep both numbers as plain ints, or refuse them."""
        object.__setattr__(self, "n", integer_in(0, 10**12, n=self.n))
        object.__setattr__(self, "seed", integer_in(0, 2**53 - 1, seed=self.seed))

    def __len__(self) -> int:
        """Return the number of trips."""
        return self.n

    def __iter__(self) -> Iterator[tuple[dict[str, float], float]]:
        """Yield ``(x, y)``: the features by name, and the log of the minutes."""
        for features, target in self.blocks():
            for log_miles, rush, night, airport, y in zip(*features.T.tolist(), target.tolist(), strict=True):
                yield {"log_miles": log_miles, "rush": rush, "night": night, "airport": airport}, y

    def blocks(self) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield the same trips as arrays, some thousands at a time.

        Yields
        ------
        features : numpy.ndarray
            Shape (m, 4), columns in the order of ``FEATURES``.
        target : numpy.ndarray
            Shape (m,), log minutes.
        """
        for start in range(0, self.n, _BLOCK):
            features, target = _block(self.seed, start // _BLOCK)
            yield features[: self.n - start], target[: self.n - start]

    @staticmethod
    def true_coefficients(tau: float) -> dict[str, float]:
        """Return the coefficients of the ``tau``-quantile of ``y`` given ``x``.

        Parameters
        ----------
        tau : float
            Quantile level, in (0, 1).

        Returns
        -------
        dict[str, float]
            ``b + g F^-1(tau)``: "intercept" and each feature, in log minutes a unit of the feature.

        Raises
        ------
        InvalidInput
            If ``tau`` is outside (0, 1).
        """
        normal = NormalDist()
        outside = normal.cdf(-_CUT)
        level = normal.inv_cdf(outside + probability(tau=tau) * (1.0 - 2.0 * outside))
        return dict(zip(_NAMES, (_LOCATION + _SPREAD * level).tolist(), strict=True))


def _block(seed: int, index: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the features (_BLOCK, 4) and targets (_BLOCK,) of one block, from its own generator."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, index))))
    hour, place, distance = rng.random((3, _BLOCK))
    rush = hour < _RUSH
    night = hour >= 1.0 - _NIGHT
    airport = place < _AIRPORT
    city = np.interp(distance, _LEVELS, _CITY_LOG_MILES)
    log_miles = np.where(airport, np.interp(distance, _LEVELS, _AIRPORT_LOG_MILES), city)
    design = np.column_stack([np.ones(_BLOCK), log_miles, rush, night, airport])
    target = design @ _LOCATION + (design @ _SPREAD) * _cut_normal(rng)
    return design[:, 1:], target


def _cut_normal(rng: np.random.Generator) -> NDArray[np.float64]:
    """Return _BLOCK draws of the standard normal law cut at -_CUT and _CUT, by rejection."""
    draws = rng.standard_normal(_BLOCK)
    while (outside := np.flatnonzero(np.abs(draws) > _CUT)).size:
        draws[outside] = rng.standard_normal(outside.size)
    return draws
