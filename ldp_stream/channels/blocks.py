"""Blocks: the s-subsets of p coordinates, numbered in lexicographic order.

``block_coordinates(r, p, s)`` is the r-th element of ``itertools.combinations(range(p), s)``, found without
listing the others: among the subsets whose smallest element is j there are C(p - 1 - j, s - 1).
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

__all__ = ["block_coordinates"]


@lru_cache(maxsize=1 << 16)
def block_coordinates(rank: int, p: int, s: int) -> tuple[int, ...]:
    """Return the increasing coordinates of block ``rank`` (0 <= rank < C(p, s)).

    Examples
    --------
    >>> [block_coordinates(r, 3, 2) for r in range(3)]
    [(0, 1), (0, 2), (1, 2)]
    """
    chosen = []
    coordinate = 0
    for left in range(s, 0, -1):
        while rank >= (passed := comb(p - 1 - coordinate, left - 1)):
            rank -= passed
            coordinate += 1
        chosen.append(coordinate)
        coordinate += 1
    return tuple(chosen)
