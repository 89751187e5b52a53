"""Which runs of counted tokens to make one of, and how, in bounded memory.

While tokens of an epoch still come, runs are joined so that each is larger than all smaller ones together:
with n tokens there are at most log2(n) + 1 of them, and a token is written log2(n) + 1 times at most. When
the epoch is over, all are made one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .token_pending import sort_tokens

__all__ = ["merged", "to_merge"]


def to_merge(sizes: Sequence[int], over: bool) -> list[int]:
    """Return the indices of the runs to make one of, given their sizes; none if all stay as they are.

    Parameters
    ----------
    sizes
        Tokens of each run of one partition and epoch.
    over
        Whether the epoch is over.

    Examples
    --------
    >>> to_merge([800, 100, 40, 60], over=False)
    [2, 3, 1]
    >>> to_merge([800, 100, 40], over=False)
    []
    >>> to_merge([800, 100, 40], over=True)
    [2, 1, 0]
    """
    order = sorted(range(len(sizes)), key=lambda index: sizes[index])
    if not over:
        total = taken = 0
        for place, index in enumerate(order):
            if sizes[index] <= total:
                taken = place + 1
            total += sizes[index]
        order = order[:taken]
    return order if len(order) > 1 else []


def merged(sources: Iterable[Iterator[NDArray[np.bytes_]]]) -> Iterator[NDArray[np.bytes_]]:
    """Yield the tokens of several sources, each in order, in order as a whole; a block of each is held.

    Examples
    --------
    >>> one, two = np.frombuffer(bytes(16) + b"b" * 16, "S16"), np.frombuffer(b"a" * 16, "S16")
    >>> b"".join(block.tobytes() for block in merged([iter([one]), iter([two])])).replace(bytes(16), b"0 ")
    b'0 aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbb'
    """
    waiting = [(block, source) for source in sources if (block := next(source, None)) is not None]
    while waiting:
        # what a source still has is above its block's last token: all up to the least of these is there
        least = np.sort(np.concatenate([block[-1:] for block, _ in waiting]))[:1]
        parts, rest = [], []
        for block, source in waiting:
            cut = int(np.searchsorted(block, least, side="right")[0])
            parts.append(block[:cut])
            following = block[cut:] if cut < len(block) else next(source, None)
            if following is not None:
                rest.append((following, source))
        waiting = rest
        yield sort_tokens(np.concatenate(parts))
