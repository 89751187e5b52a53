"""The best CQX channel for a budget: exact second moments of every (q, s) and block design.

The moments of a (q, s) before the block design enters are computed once (:mod:`.moments`); from them E
||g~||^2 follows for every omega in closed form. Searched are s = 1..p, uniform blocks and omega = 1/64, 2/64,
.., 1, slopes as they are and sheared, and q = 2, 3, ..; four grids, or four sizes of blocks, in a row that
bring nothing end a search. Only additions, products and quotients of floats are used, so that every machine
makes the same choice.

What else was looked at, on vertex grids; the first four by exact enumeration and convex optimization over all
eps-LDP channels of the alphabet {face} x {ends of each slope} at d = 1 and 2:

* At tau = 1/2 with midpoints the uniform design is optimal to the optimizer's 1%.
* omega: at most 37% less (d = 20, epsilon = 8, tau = .9); where it helps much, omega = 1.
* Shear: 34% less at d = 1, tau = 1/2, one-sided, epsilon = 1/2, which is the optimum over all channels;
  65% less at d = 20.
* Decoding slopes with weights by class of block instead of 1/w_j: 0 to 4% beyond omega. Not worth its code.
* Within a block, Hamming balls instead of k-ary randomized response: by a calculation on paper worse up to
  epsilon 4 and 3% better at 8 with blocks of 12 and more. Subset selection and unequal inclusion of the
  slopes were not evaluated.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..errors import InvalidInput
from .block_design import BlockDesign
from .cqx import CQX, MOST_CATEGORIES
from .moments import Raw, combined, expected_raw, worst_raw

__all__ = ["Candidate", "Criterion", "candidates"]

Criterion = Literal["expected", "worst"]

_OMEGAS = (None, *(k / 64 for k in range(1, 65)))
_PATIENCE = 4  # grids, and sizes of blocks, in a row that bring nothing before the search ends


@dataclass(frozen=True)
class Candidate:
    """A CQX design and its exact figure, the mean over the quantile levels.

    Parameters
    ----------
    q, s, intercept, shear
        The design, as in :class:`~ldp_stream.channels.cqx.CQX`.
    figure
        "expected": E ||g~||^2 at the optimum, P(f = 1) = tau, with slopes uniform on their intervals.
        "worst": the largest E ||g~||^2 over the support.
    """

    q: int
    s: int
    intercept: float | None
    shear: bool
    figure: float


def candidates(
    epsilon: float,
    taus: Sequence[float],
    intervals: tuple[tuple[float, float], ...],
    criterion: Criterion = "expected",
) -> list[Candidate]:
    """Return uniform blocks and the best omega of each (q, s, shear) searched, the best design first.

    Parameters
    ----------
    epsilon
        Privacy of one report.
    taus
        Quantile levels; figures are means over them.
    intervals
        (l_j, u_j) of each slope in the working scale.
    criterion
        Which figure is minimised: "expected" or "worst".

    Returns
    -------
    list of Candidate
        Not empty; sorted by the criterion's figure.

    Raises
    ------
    InvalidInput
        If an argument is out of range, or epsilon is too small for every design.

    Examples
    --------
    >>> best = candidates(4.0, [0.9], ((-1.0, 1.0),) * 3)[0]
    >>> best.q, best.s, best.intercept, best.shear, round(best.figure, 3)
    (4, 2, 1.0, False, 0.901)
    """
    first = [CQX(epsilon, tau, intervals) for tau in taus]  # refuses arguments that no design allows
    shears = (False, True) if any(CQX(epsilon, taus[0], intervals, shear=True).anchors) else (False,)
    found = []
    for shear in shears:
        best, idle = math.inf, 0
        for s in range(1, first[0].p + 1):
            finer = list(_finer(epsilon, taus, intervals, s, shear, criterion))
            least = min((candidate.figure for candidate in finer), default=math.inf)
            idle = 0 if least < best else idle + 1
            best = min(best, least)
            found += finer
            if idle == _PATIENCE:
                break
    return sorted(found, key=lambda candidate: candidate.figure)


def _finer(
    epsilon: float,
    taus: Sequence[float],
    intervals: tuple[tuple[float, float], ...],
    s: int,
    shear: bool,
    criterion: Criterion,
) -> Iterator[Candidate]:
    """Yield the designs with blocks of s coordinates and finer and finer grids."""
    best, q, idle = math.inf, 2, 0
    p = len(intervals) + 1
    while idle < _PATIENCE and max(2 * q ** (s - 1), q**s if s < p else 0) <= MOST_CATEGORIES:
        try:
            channels = [CQX(epsilon, tau, intervals, q, s, None, shear) for tau in taus]
        except InvalidInput:  # too many blocks, or epsilon too small for so many categories
            return
        uniform, candidate = _best_omega(channels, criterion)
        yield from (uniform,) if candidate == uniform else (uniform, candidate)
        idle = 0 if candidate.figure < best else idle + 1
        best = min(best, candidate.figure)
        q += 1


def _best_omega(channels: Sequence[CQX], criterion: Criterion) -> tuple[Candidate, Candidate]:
    """Return the (q, s, shear) of the channels, one a level, with uniform blocks and with the best omega."""
    of = channels[0]
    figure = _expected(channels) if criterion == "expected" else _worst(channels)
    designs = _designs(of.p, of.s)
    uniform, best = (
        Candidate(of.q, of.s, design.intercept, of.shear, figure(design))
        for design in (designs[0], min(designs, key=figure))
    )
    return uniform, best


@lru_cache(maxsize=256)
def _designs(p: int, s: int) -> tuple[BlockDesign, ...]:
    omegas = [omega for omega in _OMEGAS if s > 1 or omega != 1] if s < p else [None]
    return tuple(BlockDesign(p, s, omega) for omega in omegas)


def _expected(channels: Sequence[CQX]) -> Callable[[BlockDesign], float]:
    """Return E ||g~||^2 at the optimum as a function of the block design, mean over the channels."""
    total = Raw(0.0, 0.0, 0.0, 0.0)
    for channel in channels:
        start = channel.tables.intercept((1 - channel.tau, channel.tau))
        total = _sum(total, Raw(start, 0.0, 0.0, 0.0))
        for j, count in _distinct(channel):
            total = _sum(total, _anchored(expected_raw(channel.tables, j), count, channel.anchors[j]))

    def figure(design: BlockDesign) -> float:
        return _added_up(total, design) / len(channels)

    return figure


def _worst(channels: Sequence[CQX]) -> Callable[[BlockDesign], float]:
    """Return the largest E ||g~||^2 as a function of the block design, mean over the channels.

    Slopes with an end that is the worse one under every block design are added up once; of the others the
    worse end is found for each design.
    """
    faces = [[_worst_on(channel, face) for face in (0, 1)] for channel in channels]

    def on(sure: Raw, others: list[tuple[Raw, Raw]], design: BlockDesign) -> float:
        slopes = (max(combined(raw, design, 1.0) for raw in raws) for raws in others)
        return _added_up(sure, design) + math.fsum(slopes)

    def figure(design: BlockDesign) -> float:
        return math.fsum(max(on(*face, design) for face in both) for both in faces) / len(faces)

    return figure


def _worst_on(channel: CQX, face: int) -> tuple[Raw, list[tuple[Raw, Raw]]]:
    """Return the moments on a face, as of slopes with anchor 1: a sum, and the two ends of what is left."""
    sure = Raw(channel.tables.intercept((1.0 - face, float(face))), 0.0, 0.0, 0.0)
    others = []
    for j, count in _distinct(channel):
        low, high = (_anchored(raw, count, channel.anchors[j]) for raw in worst_raw(channel.tables, j, face))
        if _dominates(low, high):
            sure = _sum(sure, low)
        elif _dominates(high, low):
            sure = _sum(sure, high)
        else:
            others.append((low, high))
    return sure, others


def _anchored(raw: Raw, count: int, anchor: float) -> Raw:
    """Return the moments of ``count`` equal slopes as of one with anchor 1."""
    return Raw(count * anchor**2 * raw.start, count * raw.own, count * anchor * raw.cross, count * raw.hull)


def _added_up(total: Raw, design: BlockDesign) -> float:
    """Return the figure of the intercept and of slopes that are added up in ``total``."""
    return combined(total, design, 1.0) if design.p > 1 else total.start / design.weights[0]


def _dominates(one: Raw, other: Raw) -> bool:
    """Whether one figure is at least the other under every block design; both have the same start."""
    return one.own >= other.own and one.cross >= other.cross and one.hull >= other.hull


def _sum(one: Raw, other: Raw) -> Raw:
    return Raw(one.start + other.start, one.own + other.own, one.cross + other.cross, one.hull + other.hull)


def _distinct(channel: CQX) -> list[tuple[int, int]]:
    """Return (j, count) of each distinct interval, j the first slope that has it."""
    counts = Counter(channel.intervals)
    return [(channel.intervals.index(interval), count) for interval, count in counts.items()]
