"""Sums over consecutive reports of one chain: what adaptive steps and corrections are made of.

Per coordinate, over reports i = 1..N that answer the points b_{i-1} with decoded gradients g~_i and steps
eta_i: the means bbar and gbar, sum g~^2, sum eta g~^2, S_bb = sum (b - bbar)^2 and S_gb = sum g~ (b - bbar).
Two stretches in a row combine exactly; all is centred at its own mean, so nothing cancels at any length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EpochSums"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EpochSums:
    """Sums over consecutive reports, per coordinate; everything is centred at its own mean.

    Parameters
    ----------
    count
        N, reports.
    point, gradient
        Means of the points b_{i-1} that reports i answer and of g~_i, (..., p).
    squares, moves
        sum g~^2 and sum eta g~^2, (..., p).
    bb, gb
        S_bb and S_gb, (..., p).
    """

    count: int
    point: Array
    gradient: Array
    squares: Array
    moves: Array
    bb: Array
    gb: Array

    @classmethod
    def of(cls, points: Array, gradients: Array, steps: Array) -> EpochSums:
        """Return the sums of N reports.

        Parameters
        ----------
        points, gradients
            b_{i-1} and g~_i, shape (N, ..., p), N at least 1.
        steps
            eta, of a shape that broadcasts against them.

        Examples
        --------
        >>> found = EpochSums.of(np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]]), np.array([0.5]))
        >>> found.bb.tolist(), found.gb.tolist(), found.moves.tolist()
        ([0.5], [1.0], [5.0])
        """
        point = points.mean(axis=0)
        gaps = points - point
        squares = gradients * gradients
        return cls(
            len(points),
            point,
            gradients.mean(axis=0),
            squares.sum(axis=0),
            (squares * steps).sum(axis=0),
            np.einsum("t...,t...->...", gaps, gaps),
            np.einsum("t...,t...->...", gaps, gradients),
        )

    def then(self, following: EpochSums) -> EpochSums:
        """Return the sums over both stretches."""
        count = self.count + following.count
        share = following.count / count
        weight = self.count * share
        gap, turn = following.point - self.point, following.gradient - self.gradient
        return EpochSums(
            count,
            self.point + share * gap,
            self.gradient + share * turn,
            self.squares + following.squares,
            self.moves + following.moves,
            self.bb + following.bb + weight * gap * gap,
            self.gb + following.gb + weight * gap * turn,
        )
