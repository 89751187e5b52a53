"""Blocks: the numbering is the lexicographic one, also where listing all of them is out of the question."""

from __future__ import annotations

import itertools
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldp_stream.channels.blocks import block_coordinates


@pytest.mark.parametrize("p", range(1, 9))
def test_the_numbering_is_lexicographic(p: int) -> None:
    """Block r is the r-th of itertools.combinations, for every size."""
    for s in range(1, p + 1):
        blocks = [block_coordinates(r, p, s) for r in range(comb(p, s))]
        assert blocks == list(itertools.combinations(range(p), s))


@pytest.mark.parametrize("p", range(2, 9))
def test_blocks_with_the_intercept_come_first(p: int) -> None:
    """Exactly the first C(p - 1, s - 1) blocks hold coordinate 0."""
    for s in range(1, p):
        first = comb(p - 1, s - 1)
        assert [0 in block_coordinates(r, p, s) for r in range(comb(p, s))] == [
            r < first for r in range(comb(p, s))
        ]


@given(st.integers(1, 300), st.data())
def test_a_block_knows_its_number(p: int, data: st.DataObject) -> None:
    """The combinatorial number system, which counts the blocks after it, gives the number back."""
    s = data.draw(st.integers(1, min(p, 6)))
    rank = data.draw(st.integers(0, comb(p, s) - 1))
    block = block_coordinates(rank, p, s)
    assert list(block) == sorted(set(block))
    assert 0 <= block[0] <= block[-1] < p
    assert comb(p, s) - 1 - rank == sum(comb(p - 1 - c, s - k) for k, c in enumerate(block))
