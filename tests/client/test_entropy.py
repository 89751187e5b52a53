"""Entropy: exact uniformity, repeatable simulation, and a system source that a fork does not repeat."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from scipy.stats import chi2

from ldp_stream.client.entropy import Entropy, SimulatedEntropy, SystemEntropy, uniform_below
from ldp_stream.errors import InvalidInput

SOURCES = [SystemEntropy(), SimulatedEntropy(1)]


def _first_results(draw: Callable[[Callable[[int], int], int], int], n: int) -> list[int]:
    """Return what ``draw`` makes of each possible first value of the bits, with 0 as every later value."""
    k = (n - 1).bit_length()

    def bits_from(first: int) -> Callable[[int], int]:
        values = [0, first]

        def bits(asked: int) -> int:
            assert asked == k
            return values.pop() if values else 0

        return bits

    return [draw(bits_from(first), n) for first in range(2**k)]


@pytest.mark.parametrize("n", range(1, 70))
def test_every_result_has_exactly_one_first_value(n: int) -> None:
    """Of the 2^k equally likely values, n are taken as they are and the others only cause another draw."""
    results = _first_results(uniform_below, n)
    assert results == [*range(n), *[0] * (len(results) - n)]


def test_the_enumeration_rejects_a_biased_rule() -> None:
    """Taking the remainder instead of drawing again is seen by the same enumeration."""
    results = _first_results(lambda bits, n: bits((n - 1).bit_length()) % n, 5)
    assert results != [*range(5), *[0] * 3]


def test_fewer_than_two_tries_on_average_at_the_worst_n() -> None:
    """Just above a power of two, where rejection is most frequent, draws stay below 2 a number."""
    entropy, tries = SimulatedEntropy(3), 0

    def counted(k: int) -> int:
        nonlocal tries
        tries += 1
        return entropy.bits(k)

    for _ in range(4000):
        uniform_below(counted, 2**20 + 1)
    assert tries < 2.1 * 4000


def test_one_possible_result_needs_no_bits() -> None:
    """Below 1 there is only 0, and nothing is asked for."""
    asked: list[int] = []

    def bits(k: int) -> int:
        asked.append(k)
        return 0

    assert uniform_below(bits, 1) == 0
    assert asked == []


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 62, 64, 65])
def test_bits_stay_in_range_and_fill_it(source: Entropy, k: int) -> None:
    """400 draws of k bits lie in [0, 2^k), and each single bit takes both values."""
    draws = [source.bits(k) for _ in range(400)]
    assert all(0 <= draw < 2**k for draw in draws)
    for position in range(k):
        assert len({draw >> position & 1 for draw in draws}) == 2


@pytest.mark.parametrize("source", SOURCES)
def test_tokens_have_the_asked_length_and_differ(source: Entropy) -> None:
    """Two 16-byte tokens differ, and none is as long as asked by accident."""
    assert source.token_bytes(16) != source.token_bytes(16)
    assert [len(source.token_bytes(n)) for n in (0, 1, 33)] == [0, 1, 33]


def test_a_seed_fixes_everything() -> None:
    """Equal seeds repeat all three kinds of draws, another seed does not."""

    def draws(seed: int) -> list[object]:
        entropy = SimulatedEntropy(seed)
        return [entropy.bits(62), entropy.below(10**9), entropy.token_bytes(8)]

    assert draws(5) == draws(5)
    assert draws(5) != draws(6)


def _chi_square(seed: int, share_of_first: float) -> float:
    """Return the chi-square distance of 60,000 draws below 6 from a law with that share for 0."""
    entropy, n = SimulatedEntropy(seed), 60_000
    counts = Counter(entropy.below(6) for _ in range(n))
    expected = [n * share_of_first, *[n * (1 - share_of_first) / 5] * 5]
    return sum((counts[value] - mean) ** 2 / mean for value, mean in enumerate(expected))


def test_draws_follow_the_uniform_law_and_no_other() -> None:
    """Chi-square accepts 1/6 each and rejects a law whose first share is 10% too large."""
    limit = chi2.ppf(0.999, 5)
    assert _chi_square(11, 1 / 6) < limit
    assert _chi_square(11, 1.1 / 6) > limit


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_does_not_repeat_the_system_source() -> None:
    """Parent and child draw different tokens from one SystemEntropy that was used before the fork."""
    program = """
import os
from ldp_stream.client.entropy import SystemEntropy

entropy = SystemEntropy()
entropy.bits(62)
forked = os.fork()
if forked:
    os.waitpid(forked, 0)
print(entropy.token_bytes(16).hex())
"""
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout.split()
    assert len(printed) == len(set(printed)) == 2


@pytest.mark.parametrize("source", SOURCES)
def test_nonsense_is_refused(source: Entropy) -> None:
    """Negative sizes and an empty range raise the package's error."""
    with pytest.raises(InvalidInput, match="k = -1"):
        source.bits(-1)
    with pytest.raises(InvalidInput, match="n = 0"):
        source.below(0)
    with pytest.raises(InvalidInput, match="n = -1"):
        source.token_bytes(-1)


@pytest.mark.parametrize("seed", [-1, 1.5, 2**53, None])
def test_a_seed_must_be_a_whole_number(seed: object) -> None:
    """Seeds that would silently mean another seed are refused."""
    with pytest.raises(InvalidInput, match="seed"):
        SimulatedEntropy(seed)  # type: ignore[arg-type]
