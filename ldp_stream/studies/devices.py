"""Devices of many replications at once: what each would send on either face.

A contribution g = X (f - tau) depends on the coefficients only through the face f = 1{y~ <= X'b}. So the
features, the block, and the randomized category and decoded gradient *for each face* are drawn ahead for a
piece of the stream, from the channel's definition and with arrays; the chain only chooses between the two:

    g~ = g~(0) + f (g~(1) - g~(0)),   b <- Proj(b - eta g~).

Draws use the same uniforms for both faces and do not depend on the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..channels.base import CategoryPayload
from ..channels.cqx import CQX
from ..channels.no_privacy import NoPrivacy
from .model import Model

__all__ = ["Devices", "Piece", "walk"]

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
_TWO_POINTS = 2


@dataclass(frozen=True, eq=False)
class Piece:
    """T reports of each of C columns, for both faces.

    Parameters
    ----------
    X, y
        Features (T, p, C) and targets (T, C).
    zero, change
        g~(0) and g~(1) - g~(0), (T, p, C).
    block, categories
        Of CQX reports: the block (T, C) and the category sent on face 0 and on face 1, each (T, C).
    """

    X: Array
    y: Array
    zero: Array
    change: Array
    block: Ints | None = None
    categories: tuple[Ints, Ints] | None = None


@dataclass(frozen=True)
class Devices:
    """Users of a model who answer through a channel."""

    model: Model
    channel: CQX | NoPrivacy

    def draw(self, events: int, columns: int, rng: np.random.Generator) -> Piece:
        """Return ``events`` reports of each of ``columns`` columns."""
        X, y = self.model.draw((events, columns), rng)
        if isinstance(self.channel, NoPrivacy):
            return Piece(X, y, -self.channel.tau * X, X)
        block = rng.integers(0, self.channel.n_blocks, (events, columns))
        rounding = rng.random((self.channel.s, events, columns))
        uniform = rng.random((events, columns))
        sizes, keep = self._alphabets
        with_intercept = (block < self.channel.intercept_blocks).astype(np.int64)
        chance = keep[with_intercept]
        lie = ((uniform - chance) / (1 - chance) * (sizes[with_intercept] - 1)).astype(np.int64)
        truly = uniform < chance
        true = self._categories(X, block, with_intercept, rounding)
        zero, one = (np.where(truly, c, lie + (lie >= c)) for c in true)
        decoded, change = np.zeros_like(X), np.zeros_like(X)
        row = block * self._values.shape[1]
        for place, values in enumerate(np.moveaxis(self._values, 2, 0)):
            coordinate = self._coordinates[block, place][:, None]
            first, second = (np.take(values, row + c) for c in (zero, one))
            np.put_along_axis(decoded, coordinate, first[:, None], axis=1)
            np.put_along_axis(change, coordinate, (second - first)[:, None], axis=1)
        return Piece(X, y, decoded, change, block, (zero, one))

    def _categories(self, X: Array, block: Ints, with_intercept: Ints, rounding: Array) -> tuple[Ints, Ints]:
        """Return the category before randomized response on face 0 and on face 1, each (T, C)."""
        channel = self.channel
        assert isinstance(channel, CQX)
        faces = [np.zeros(block.shape, np.int64), np.zeros(block.shape, np.int64)]
        for place, uniform in enumerate(rounding):
            coordinate = np.take(self._coordinates[:, place], block)
            x = np.take_along_axis(X, coordinate[:, None], axis=1)[:, 0]
            grid = coordinate + channel.p * with_intercept
            slopes = coordinate > 0
            for face, (scale, shift) in enumerate(self._grids):
                position = x * np.take(scale, grid)
                position += np.take(shift, grid)
                if channel.q == _TWO_POINTS:
                    digit = (uniform < position).astype(np.int64)
                else:
                    index = np.clip(np.floor(position), 0, channel.q - 1)
                    digit = (index + (uniform < position - index)).astype(np.int64)
                faces[face] = np.where(slopes, faces[face] * channel.q + digit, face)
        return faces[0], faces[1]

    @cached_property
    def _coordinates(self) -> Ints:
        channel = self.channel
        assert isinstance(channel, CQX)
        return np.array([channel.coordinates(block) for block in range(channel.n_blocks)])

    @cached_property
    def _grids(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Of each face: scale and shift (2 p,) that turn x_j into its place on the grid, in points from 0.

        The first p entries are for blocks without the intercept, the others for blocks with it.
        """
        channel = self.channel
        assert isinstance(channel, CQX)
        tau, p, found = channel.tau, channel.p, []
        for face in (0, 1):
            scale, shift = np.zeros(2 * p), np.zeros(2 * p)
            for j, interval in enumerate(channel.intervals, 1):
                own = sorted((face - tau) * end for end in interval)
                both = [(f - tau) * end for f in (0, 1) for end in interval]
                for place, (low, high) in ((j, (min(both), max(both))), (p + j, own)):
                    points = (channel.q - 1) / (high - low)
                    scale[place], shift[place] = (face - tau) * points, -low * points
            found.append((scale, shift))
        return found[0], found[1]

    @cached_property
    def _alphabets(self) -> tuple[Ints, Array]:
        """Categories, and the probability of the true one, of a block without and with the intercept."""
        channel = self.channel
        assert isinstance(channel, CQX)
        sizes = np.array([channel.categories(channel.n_blocks - 1), channel.categories(0)])
        power = np.exp(channel.epsilon)
        return sizes, power / (power + sizes - 1)

    @cached_property
    def _values(self) -> Array:
        """Decoded values by block, category and place in the block, (blocks, most categories, s)."""
        channel = self.channel
        assert isinstance(channel, CQX)
        table = np.zeros((channel.n_blocks, int(self._alphabets[0].max()), channel.s))
        for block in range(channel.n_blocks):
            for category in range(channel.categories(block)):
                table[block, category] = channel.decode(CategoryPayload(block, category)).values
        return table


def walk(
    piece: Piece, b: Array, steps: Array, radius: float, scale: Array | None = None
) -> tuple[Array, Array, Array]:
    """Let chains run over a piece.

    Parameters
    ----------
    piece
        T reports of C columns.
    b
        The iterates before, (p, C).
    steps
        eta, (p, C) or (p, 1); report t has ``scale[t]`` times it.
    radius
        Half-width of the box.
    scale
        Shape (T,); ones unless given.

    Returns
    -------
    points : Array
        b_{i-1}, shape (T, p, C).
    gradients : Array
        g~_i, shape (T, p, C).
    last : Array
        The iterates after, (p, C).
    """
    points, gradients = np.empty_like(piece.zero), piece.zero.copy()
    b, room = b.copy(), np.empty_like(b)
    fitted, face = np.empty(b.shape[1]), np.empty(b.shape[1], np.bool_)
    for t, (X, y, change, g, point) in enumerate(
        zip(piece.X, piece.y, piece.change, gradients, points, strict=True)
    ):
        point[:] = b
        np.multiply(b, X, out=room)
        np.add.reduce(room, axis=0, out=fitted)
        np.less_equal(y, fitted, out=face)
        np.multiply(change, face, out=room)
        np.add(g, room, out=g)
        np.multiply(g, steps if scale is None else steps * scale[t], out=room)
        np.subtract(b, room, out=b)
        np.minimum(b, radius, out=b)
        np.maximum(b, -radius, out=b)
    return points, gradients, b
