"""The record of counted tokens in memory: exact, bounded, and cheap to ask."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_stream.connectors.service.token_filter import TokenFilter
from ldp_stream.connectors.service.token_merges import merged, to_merge
from ldp_stream.connectors.service.token_pending import PendingTokens, sort_tokens
from ldp_stream.connectors.service.tokens import CountedTokens
from ldp_stream.errors import InvalidInput
from tests.connectors.service.token_streams import NaiveTokens, Stream, fold, token_array


def keys(rng: np.random.Generator, count: int) -> np.ndarray[tuple[int], np.dtype[np.bytes_]]:
    """Return random tokens of dtype S16."""
    return np.frombuffer(rng.bytes(16 * count), "S16")


@pytest.mark.parametrize("shape", ["random", "alike"])
@pytest.mark.parametrize("horizon", [1, 2, 15, 16, 30, 100, 1000])
def test_a_token_is_known_exactly_as_long_as_the_rule_says(horizon: int, shape: str) -> None:
    """Every answer is the naive dict's, whatever the tokens, the gaps in the offsets and the partition."""
    counted, naive = CountedTokens(horizon), NaiveTokens(horizon)
    stream = Stream(horizon, horizon, partitions=3, shape=shape)
    at = [0, 0, 0]
    new = old = 0
    for number in range(150):
        partition = number % 3
        batch = stream.batch(partition, at[partition])
        at[partition] += len(batch[1])
        found = fold(counted, naive, batch)
        new, old = new + found[0], old + found[1]
    assert new > 100
    assert old > 40
    assert counted.pending <= new


def test_the_horizon_is_remembered_and_whole_epochs_are_forgotten() -> None:
    """A token is known for the horizon at least, and for one epoch more at most."""
    for offset in (0, 7, 99, 12345):
        counted = CountedTokens(90)  # epochs of six
        token = token_array(b"0123456789abcdef")
        counted.add(0, np.array([offset]), token)
        known = [bool(counted.seen(0, np.array([offset + back]), token)[0]) for back in range(1, 200)]
        last = sum(known)
        assert known == [True] * last + [False] * (199 - last)
        assert 90 <= last < 96
        assert not counted.seen(1, np.array([offset]), token).any()


def test_a_batch_over_the_end_of_an_epoch() -> None:
    """Within one batch the same token is known at an earlier offset and forgotten at a later one."""
    counted = CountedTokens(30)
    token = b"0123456789abcdef"
    counted.add(0, np.array([1]), token_array(token))
    counted.add(0, np.array([25]), token_array(b"another token..."))
    seen = counted.seen(0, np.array([30, 31, 32, 33, 60]), token_array(*[token] * 5))
    assert seen.tolist() == [True, True, False, False, False]


def test_what_does_not_fit_is_refused() -> None:
    """Horizons out of range, arrays of other shapes and offsets that go back are refused by name."""
    for horizon in (0, -1, 10**9 + 1, 2.5):
        with pytest.raises(InvalidInput, match="horizon = "):
            CountedTokens(horizon)  # type: ignore[arg-type]
    counted = CountedTokens(30)
    with pytest.raises(InvalidInput, match=r"tokens: shape \(1, 15\) of uint8: must be \(1, 16\)"):
        counted.seen(0, np.array([1]), np.zeros((1, 15), np.uint8))
    with pytest.raises(InvalidInput, match="must be"):
        counted.add(0, np.array([1, 2]), np.zeros((1, 16), np.uint8))
    counted.add(0, np.array([10]), np.zeros((1, 16), np.uint8))
    with pytest.raises(InvalidInput, match="must increase"):
        counted.add(0, np.array([5]), np.ones((1, 16), np.uint8))
    nothing = np.empty((0, 16), np.uint8)
    counted.add(0, np.empty(0, np.int64), nothing)
    assert counted.seen(0, np.empty(0, np.int64), nothing).shape == (0,)
    assert counted.pending == 1


def test_tokens_that_need_not_lie_side_by_side_in_memory() -> None:
    """A view with strides is read like a copy of it."""
    rng = np.random.default_rng(4)
    wide = rng.integers(0, 256, (20, 40), np.uint8)
    counted = CountedTokens(100)
    counted.add(0, np.arange(10), wide[::2, 3:19])
    seen = counted.seen(0, np.arange(10, 30), np.ascontiguousarray(wide[:, 3:19]))
    assert seen.tolist() == [True, False] * 10


def test_memory_grows_with_what_is_counted_and_is_bounded() -> None:
    """The filter is small at first and has at most 3.8 bytes an offset of the horizon."""
    horizon = 150_000
    counted = CountedTokens(horizon)
    rng = np.random.default_rng(5)
    sizes = []
    for start in range(0, 2 * horizon, 1000):
        tokens = rng.integers(0, 256, (1000, 16), np.uint8)
        offsets = np.arange(start, start + 1000)
        assert not counted.seen(0, offsets, tokens).any()
        counted.add(0, offsets, tokens)
        sizes.append(counted.nbytes)
    assert sizes[0] < 60_000
    assert sizes == sorted(sizes)
    assert sizes[-1] <= 3.8 * horizon
    assert counted.pending <= 16 * (horizon // 15)  # what nobody can ask for any more is dropped
    assert CountedTokens().nbytes == 0


def test_the_filter_never_forgets_and_rarely_errs() -> None:
    """What was put in is found in its slot; another token has a slot's bit less than once in 16,000 times."""
    rng = np.random.default_rng(6)
    capacity = 3000
    kept = TokenFilter(capacity)
    tokens = [keys(rng, capacity) for _ in range(16)]
    for slot, some in enumerate(tokens):
        kept.insert(some, slot)
    for slot, some in enumerate(tokens):
        assert (kept.slots_of(some) >> slot & 1).all()
    others = kept.slots_of(keys(rng, 100_000))
    bits = np.unpackbits(others.view(np.uint8)).sum()
    assert bits / 1_600_000 < 1 / 16_000
    kept.clear(0b101)
    assert not (kept.slots_of(np.concatenate(tokens)) & 0b101).any()
    assert (kept.slots_of(tokens[1]) >> 1 & 1).all()


@pytest.mark.parametrize("fixed", [slice(0, 12), slice(4, 16), slice(0, 0)])
def test_alike_tokens_are_no_worse_for_the_filter(fixed: slice) -> None:
    """Tokens that differ in a few bytes only, in any place, are spread as well as random ones."""
    count = 3000
    rng = np.random.default_rng(7)
    raw = np.zeros((2 * count, 16), np.uint8)
    free = np.ones(16, np.bool_)
    free[fixed] = False
    free[np.flatnonzero(free)[4:]] = False
    raw[:, free] = rng.permutation(2 * count).astype(np.uint32).view(np.uint8).reshape(-1, 4)
    some = raw.view("S16")[:, 0]
    wrong = 0
    for _ in range(20):  # filters with multipliers of their own
        kept = TokenFilter(count)
        kept.insert(some[:count], 0)
        wrong += int(np.count_nonzero(kept.slots_of(some[count:])))
    assert wrong / (20 * count) < 1 / 4000


def test_pending_tokens_are_a_set() -> None:
    """However many are asked at once, the answer is a Python set's, also for tokens that end in zeros."""
    rng = np.random.default_rng(8)
    pending = PendingTokens()
    known: set[bytes] = set()
    half = np.zeros((400, 16), np.uint8)
    half[:, :8] = 7
    half[:, 14] = np.arange(400) % 256
    half[:, 13] = np.arange(400) // 256
    pool = np.concatenate([keys(rng, 1600), half.view("S16")[:, 0]])
    for start in range(0, 2000, 100):
        part = pool[rng.permutation(2000) if start == 0 else slice(0, 2000)]
        pool = part
        pending.add(pool[start : start + 100])
        known.update(token.tobytes() for token in pool[start : start + 100].view("V16"))
        for count in (0, 1, 3, 1500):
            asked = pool[rng.integers(0, 2000, count)]
            expected = [token.tobytes() in known for token in asked.view("V16")]
            assert pending.contains(asked).tolist() == expected
    assert len(pending) == 2000
    assert (sort_tokens(pool) == np.sort(pool)).all()


def test_runs_stay_few_and_are_seldom_rewritten() -> None:
    """Each run is larger than all smaller ones together, and a token is written log2(n) + 1 times at most."""
    rng = np.random.default_rng(9)
    for most in (2, 50):
        sizes: list[int] = []
        written = total = 0
        for _ in range(2000):
            chosen = to_merge(sizes, over=False)
            if chosen:
                joined = sum(sizes[index] for index in chosen)
                written += joined
                sizes = [size for index, size in enumerate(sizes) if index not in chosen] + [joined]
            ordered = sorted(sizes)
            assert all(size > sum(ordered[:at]) for at, size in enumerate(ordered))
            size = int(rng.integers(1, most))
            sizes.append(size)
            written, total = written + size, total + size
        assert sum(sizes) == total
        assert written <= total * (np.log2(total) + 1)
    assert to_merge([], over=True) == to_merge([5], over=True) == []
    assert sorted(to_merge([3, 900, 2], over=True)) == [0, 1, 2]


def test_a_merge_is_a_sort() -> None:
    """Several sources in order give one in order, with nothing lost, whatever the lengths of the blocks."""
    rng = np.random.default_rng(10)
    for _ in range(30):
        every = keys(rng, int(rng.integers(0, 600)))
        parts = np.array_split(every, int(rng.integers(1, 6)))
        sources = [
            iter([block for block in np.array_split(sort_tokens(part), 1 + len(part) // 50) if len(block)])
            for part in parts
        ]
        found = list(merged(sources))
        together = np.concatenate(found) if found else every[:0]
        assert together.tobytes() == np.sort(every).tobytes()
