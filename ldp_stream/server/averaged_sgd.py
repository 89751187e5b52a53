"""One chain: projected stochastic approximation, averaged (Polyak-Ruppert) over a window without a horizon.

    b_i = Proj(b_{i-1} - eta_i g~_i),   m_n = mean of b_i over the window,   Proj on the box |b_j| <= radius.

The window leaves out the first events (a tenth, say) without knowing how long the stream will be: sums are
closed at public checkpoints of ratio 5/4, and the window starts at one of them
(:class:`ldp_stream.plan.Window`). What lies before it can never be used again and is dropped, so the state
stays bounded.

Given the reports, g~_i does not depend on b, so a block of events is one cumulative sum wherever the
projection does not bind; from where it binds, the block goes on event by event. Blocks end at public counts
(:func:`~ldp_stream.plan.block_stop`) and their sums are computed when they are full, always from the same
numbers in the same order, so the state is the same bit for bit however the stream was cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..plan import BLOCK, StepRule, Window, block_stop, is_checkpoint
from .segment import Segment, combine, combine_all, from_walk, joint_offset

__all__ = ["Chain"]

Array = NDArray[np.float64]


def _accumulate(rows: Array) -> None:
    """Replace each row by the sum of the rows up to it, in place, one addition after the other.

    Two columns at a time count as one complex number: the same additions in half the steps. The width must be
    even.
    """
    pairs = rows.view(np.complex128)
    np.add.accumulate(pairs, axis=0, out=pairs)


def _projected_walk(b: list[float], moves: list[list[float]], radius: float) -> Iterator[list[float]]:
    """Yield the iterates after each move, event by event, each projected on the box."""
    for move in moves:
        b = [max(-radius, min(radius, value + change)) for value, change in zip(b, move, strict=True)]
        yield b


class Chain:
    """State of one chain of p coefficients in the working scale.

    Parameters
    ----------
    p
        Number of coefficients.
    steps
        The step rule.
    radius
        Half-width of the box that the iterates are projected on.
    window
        Which events the average leaves out.
    events_before
        Where in the step rule the chain begins: its first step is eta_i, i = events_before + 1.
    start
        The iterate that it begins at, p floats; 0 unless given.
    """

    def __init__(
        self,
        p: int,
        steps: StepRule,
        radius: float,
        window: Window,
        events_before: int = 0,
        start: Sequence[float] | None = None,
    ) -> None:
        self.p = p
        self._range = range(p)
        self.steps = steps
        self.radius = radius
        self._left_out = window
        self._events_before = events_before
        self._segments: list[tuple[int, Segment]] = []  # (events before it, sums), each ends at a checkpoint
        self._open: Segment | None = None  # full blocks since then
        self._width = width = p + p % 2  # an even number of columns, see _accumulate
        self._gradients = np.zeros((BLOCK, width))  # decoded gradients of the current block, an event a row
        self._path = np.empty((BLOCK, width))  # working room for the iterates
        self._walk = np.ones((BLOCK, width + 2))  # working room for D_t, t, 1
        self._walk[:, width] = np.arange(1, BLOCK + 1)
        anchor = np.zeros(width)
        if start is not None:
            anchor[:p] = start
        self._begin_block(0, anchor)

    def _begin_block(self, start: int, anchor: Array) -> None:
        self._start = start
        self._length = block_stop(start) - start
        self._anchor = anchor  # the iterate before the block's first event
        self._anchor_list: list[float] = anchor.tolist()
        self._count = 0  # events of the block so far
        self._iterate = list(self._anchor_list)  # after them
        self._sums = [0.0] * self._width  # of b_i - anchor over them
        self._negative_steps = self._step_sizes(start, start + self._length)
        self._negative_step_list: list[float] | None = None  # the same, made when events come one by one
        self._closed: tuple[int, Segment | None] | None = (
            None  # (window start, sums of its full blocks), when known
        )

    def _step_sizes(self, start: int, stop: int) -> Array:
        """Return -eta_i, i = start + 1..stop: always of a whole block, so always the same bits."""
        first = self._events_before + 1
        place = np.arange(start + first, stop + first, dtype=np.float64) + self.steps.offset
        if self.steps.from_roots:
            root = np.sqrt(place)
            return np.asarray(-self.steps.scale / (root * np.sqrt(root)))
        return np.asarray(-self.steps.scale * place**-self.steps.exponent)

    # ------------------------------------------------------------------ folding events

    @property
    def n(self) -> int:
        """Events folded so far."""
        return self._start + self._count

    def append(self, coordinates: Sequence[int], values: Sequence[float]) -> None:
        """Fold one decoded gradient, given by its nonzero coordinates."""
        steps = self._negative_step_list
        if steps is None:
            steps = self._negative_step_list = self._negative_steps.tolist()
        count, b, radius = self._count, self._iterate, self.radius
        row, negative_step = self._gradients[count], steps[count]
        for j, value in zip(coordinates, values, strict=True):
            row[j] = value
            moved = b[j] + value * negative_step
            b[j] = radius if moved > radius else -radius if moved < -radius else moved
        sums, anchor = self._sums, self._anchor_list
        for j in self._range:
            sums[j] += b[j] - anchor[j]
        self._count = count + 1
        if self._count == self._length:
            self._close_block()

    def extend(self, gradients: Array) -> None:
        """Fold n decoded gradients, shape (n, p), in order."""
        done = 0
        while done < len(gradients):
            rows = gradients[done : done + self._length - self._count]
            self._store(rows)
            done += len(rows)

    def _store(self, rows: Array) -> None:
        """Put gradients into the current block, which has room for them."""
        first = self._count
        self._count += len(rows)
        self._gradients[first : self._count, : self.p] = rows
        if self._count == self._length:
            self._close_block()
        elif len(rows):
            path = self._iterates(first, np.array(self._iterate))
            self._iterate = path[-1].tolist()
            path -= self._anchor
            path[0] += self._sums
            _accumulate(path)
            self._sums = path[-1].tolist()

    def _close_block(self) -> None:
        block, last = self._block_sums()
        stop = self._start + self._length
        self._open = block if self._open is None else combine(self._open, block)
        if not self._left_out.opens_at_once and is_checkpoint(stop):
            self._segments.append((stop - self._open.length, self._open))
            self._open = None
            kept = self._left_out.start(stop)
            self._segments = [(start, segment) for start, segment in self._segments if start >= kept]
        self._gradients[: self._count] = 0.0
        self._begin_block(stop, last)

    def _block_sums(self) -> tuple[Segment, Array]:
        """Return the sums over the current block's events, and the last iterate."""
        path = self._iterates(0, self._anchor)
        last = path[-1].copy()
        walk = self._walk[: self._count]
        sums = walk[:, : self._width]
        np.subtract(path.reshape(-1), np.tile(self._anchor, len(path)), out=path.reshape(-1))
        sums[:] = path
        _accumulate(sums)
        return from_walk(self._anchor, walk), last

    def _iterates(self, first: int, before: Array) -> Array:
        """Return the iterates of the block's events from number ``first`` on; ``before`` precedes them.

        Shape (events, width): working room that the next call overwrites.
        """
        gradients, steps = self._gradients[first : self._count], self._negative_steps[first : self._count]
        path = self._path[: len(steps)]
        np.multiply(gradients.reshape(-1), np.repeat(steps, self._width), out=path.reshape(-1))
        path[0] += before
        _accumulate(path)
        if path.max() > self.radius or path.min() < -self.radius:
            bound = int(np.argmax((np.abs(path) > self.radius).any(axis=1)))
            b = (before if bound == 0 else path[bound - 1]).tolist()
            moves = (gradients[bound:] * steps[bound:, None]).tolist()
            path[bound:] = list(_projected_walk(b, moves, self.radius))
        return path

    # ------------------------------------------------------------------ answers

    @property
    def iterate(self) -> list[float]:
        """The latest iterate b_n, p floats."""
        return self._iterate[: self.p]

    def _full_blocks(self) -> Segment | None:
        """Return the sums of the window's full blocks."""
        start = self._left_out.start(self.n)
        if self._closed is None or self._closed[0] != start:
            parts = [segment for before, segment in self._segments if before >= start]
            self._closed = (start, combine_all(parts if self._open is None else [*parts, self._open]))
        return self._closed[1]

    def window(self) -> Segment | None:
        """Return the sums over the averaging window, or None while it is empty."""
        found = self._full_blocks()
        if self._count:
            block, _ = self._block_sums()
            found = block if found is None else combine(found, block)
        return None if found is None else found.leading(self.p)

    @property
    def averaged(self) -> int:
        """How many iterates the average is made of; 0 before the first that is not left out."""
        return self.n - self._left_out.start(self.n) if self._left_out.averages(self.n) else 0

    def mean(self) -> Array:
        """Return the average m_n over the window, shape (p,); the latest iterate while it is empty."""
        closed = self._full_blocks()
        if self._count == 0:
            return (self._anchor if closed is None else closed.mean)[: self.p].copy()
        start, offset = self._anchor, np.array(self._sums) / self._count
        if closed is not None:
            start, offset = closed.start, joint_offset(closed, self._count, start, offset)
        return np.asarray(start + offset)[: self.p]

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Array]:
        """Return the state as named arrays, from which :meth:`restore` goes on bit for bit."""
        segments = [segment for _, segment in self._segments] + ([] if self._open is None else [self._open])
        return {
            "counts": np.array([self._start, self._open is not None], np.float64),
            "anchor": self._anchor.copy(),
            "gradients": self._gradients[: self._count, : self.p].copy(),
            "lengths": np.array([segment.length for segment in segments], np.float64),
            "starts": np.array([segment.start for segment in segments]).reshape(-1, self._width),
            "offsets": np.array([segment.offset for segment in segments]).reshape(-1, self._width),
            "moments": np.array([segment.moments for segment in segments]).reshape(
                -1, self._width + 2, self._width + 2
            ),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Take over a state of :meth:`state`, of a chain with the same parameters."""
        start, opened = (int(value) for value in state["counts"])
        lengths = [int(length) for length in state["lengths"]]
        segments = [
            Segment(length, *(np.array(part) for part in parts))
            for length, *parts in zip(
                lengths, state["starts"], state["offsets"], state["moments"], strict=True
            )
        ]
        self._open = segments.pop() if opened else None
        before = start - sum(lengths)
        self._segments = []
        for segment in segments:
            self._segments.append((before, segment))
            before += segment.length
        self._begin_block(start, np.array(state["anchor"]))
        self._gradients[:] = 0.0
        self._store(np.array(state["gradients"]))
