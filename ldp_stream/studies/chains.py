"""Chains of many replications that run over fresh reports, a piece of the stream at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ..epoch_sums import EpochSums
from .devices import Devices, walk
from .plan import Scale
from .sets import SNWindow

__all__ = ["Runner"]

Array = NDArray[np.float64]
_PIECE = 250_000  # numbers in an array of a piece, so that it stays in the processor's cache
_FEWEST_EVENTS = 8


@dataclass(frozen=True)
class Runner:
    """Draws reports of a model's devices and lets chains run over them, on the box |b_j| <= ``radius``."""

    devices: Devices
    radius: float
    rng: np.random.Generator

    @property
    def p(self) -> int:
        """Number of coefficients."""
        return self.devices.model.p

    def skip(self, b: Array, steps: Array, stretch: tuple[int, int], scale: Scale | None = None) -> Array:
        """Run the chains b (C, p) over reports stretch[0] + 1..stretch[1] of each; return the iterates after.

        Report i has the steps ``steps``, (C, p), times ``scale``, which gives the factors of reports
        start + 1..stop; ones unless given.
        """
        last = b
        for _, _, iterates, _ in self._pieces(b, steps, stretch, scale):
            last = iterates[-1]
        return np.ascontiguousarray(last)

    def average(
        self, b: Array, steps: Array, stretch: tuple[int, int], window: SNWindow, scale: Scale | None = None
    ) -> Array:
        """Run as :meth:`skip` and add the iterates to a window."""
        last = b
        for _, _, iterates, _ in self._pieces(b, steps, stretch, scale):
            window.add(iterates)
            last = iterates[-1]
        return np.ascontiguousarray(last)

    def sums(
        self,
        b: Array,
        steps: Array,
        stretch: tuple[int, int],
        scale: Scale | None = None,
        window: SNWindow | None = None,
    ) -> tuple[EpochSums, Array]:
        """Run as :meth:`skip`; return the sums over the reports and the iterates after."""
        found: list[EpochSums] = []
        last = b
        for points, gradients, iterates, eta in self._pieces(b, steps, stretch, scale):
            found.append(EpochSums.of(points, gradients, eta))
            if window is not None:
                window.add(iterates)
            last = iterates[-1]
        return reduce(EpochSums.then, found), np.ascontiguousarray(last)

    def _pieces(
        self, b: Array, steps: Array, stretch: tuple[int, int], scale: Scale | None
    ) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Yield points, gradients and iterates of each piece, (T, C, p), and steps, (T or 1, C, p)."""
        current, eta = np.ascontiguousarray(b.T), np.ascontiguousarray(steps.T)
        size = max(_FEWEST_EVENTS, _PIECE // current.size)
        for start in range(*stretch, size):
            events = min(size, stretch[1] - start)
            piece = self.devices.draw(events, current.shape[1], self.rng)
            factors = None if scale is None else scale(start, start + events)
            points, gradients, current = walk(piece, current, eta, self.radius, factors)
            iterates = np.concatenate([points[1:], current[None]])
            yield (
                np.moveaxis(points, 1, 2),
                np.moveaxis(gradients, 1, 2),
                np.moveaxis(iterates, 1, 2),
                steps[None] if factors is None else factors[:, None, None] * steps,
            )
