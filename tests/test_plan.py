"""The public plan: step sizes, checkpoints, blocks, the averaging window, and rounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ldp_stream.plan import (
    BLOCK,
    CHECKPOINTS,
    RoundSchedule,
    StepRule,
    Window,
    block_stop,
    is_checkpoint,
)
from ldp_stream.tree import ChainTree

RULE = StepRule(gain=3.0, exponent=0.75, delay=1000.0, second_moment=4.683)


# ---------------------------------------------------------------------- steps


@given(
    st.floats(0.01, 100),
    st.just(0.75) | st.floats(0.51, 0.99),
    st.floats(0, 1e5),
    st.floats(0.01, 1e6),
    st.integers(1, 10**12),
)
def test_steps_are_rule_a(gain: float, exponent: float, delay: float, v: float, i: int) -> None:
    """eta_i = gain (i + delay v)^-exponent/sqrt(v), checked with 50 digits; .75 is made of square roots."""
    rule = StepRule(gain, exponent, delay, v)
    assert rule.from_roots == (exponent == 0.75)
    with mpmath.workdps(50):
        place = i + mpmath.mpf(delay) * mpmath.mpf(v)
        exact = mpmath.mpf(gain) * place ** -mpmath.mpf(exponent) / mpmath.sqrt(mpmath.mpf(v))
        assert abs(rule.at(i) / exact - 1) < 1e-14


def test_the_default_steps_by_hand() -> None:
    """3 (1 + 4683)^-.75/sqrt(4.683) and the same at i = 100,000."""
    assert RULE.at(1) == pytest.approx(3 * 4684**-0.75 / math.sqrt(4.683), rel=1e-14)
    assert RULE.at(100_000) == pytest.approx(3 * 104_683**-0.75 / math.sqrt(4.683), rel=1e-14)
    assert RULE.scale == 3 / math.sqrt(4.683)
    assert RULE.offset == 4683.0


@given(st.integers(1, 10**15))
def test_steps_do_not_grow(i: int) -> None:
    """A later step is never longer, so a round is safest judged at its start."""
    assert RULE.at(i) >= RULE.at(i + 1) > 0


# ---------------------------------------------------------------------- checkpoints and blocks


def test_checkpoints_grow_by_a_quarter() -> None:
    """0, 1, 2, .., then each is 5/4 of the last one, rounded down, past every count that can occur."""
    assert CHECKPOINTS[:12] == (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
    for before, after in itertools.pairwise(CHECKPOINTS):
        assert after == max(before + 1, before * 5 // 4)
    assert CHECKPOINTS[-1] >= 1 << 63
    assert len(CHECKPOINTS) < 250


@given(st.integers(0, 1 << 62))
def test_a_block_is_short_and_crosses_no_checkpoint(start: int) -> None:
    """It ends after start, at most BLOCK events on, and at or before the next checkpoint."""
    stop = block_stop(start)
    assert start < stop <= start + BLOCK
    assert stop == start + BLOCK or is_checkpoint(stop)
    following = next(checkpoint for checkpoint in CHECKPOINTS if checkpoint > start)
    assert stop <= following


def test_blocks_cut_the_count_at_every_checkpoint() -> None:
    """Walking from block to block meets each checkpoint up to 10^6."""
    seen, place = {0}, 0
    while place < 1_000_000:
        place = block_stop(place)
        seen.add(place)
    assert {checkpoint for checkpoint in CHECKPOINTS if checkpoint <= 1_000_000} <= seen


def test_is_checkpoint_says_which() -> None:
    """True at the listed counts and nowhere else."""
    listed = set(CHECKPOINTS)
    assert [is_checkpoint(n) for n in range(5000)] == [n in listed for n in range(5000)]


# ---------------------------------------------------------------------- the averaging window


@given(st.integers(0, 10**12), st.floats(0, 0.999))
def test_the_window_starts_at_the_last_checkpoint_within_the_burn_in(n: int, burn_in: float) -> None:
    """It leaves out a checkpoint's count, at most burn_in n, and the next checkpoint would be beyond it."""
    start = Window(burn_in).start(n)
    assert is_checkpoint(start)
    assert start <= burn_in * n
    assert start < max(n, 1)
    following = next(checkpoint for checkpoint in CHECKPOINTS if checkpoint > start)
    assert following > burn_in * n or following > math.floor(burn_in * n)


@given(st.integers(1, 10**15), st.sampled_from([0.05, 0.1, 0.25, 0.5, 0.9]))
def test_a_long_window_leaves_out_nearly_the_burn_in(n: int, burn_in: float) -> None:
    """For large counts it leaves out more than 4/5 of burn_in n, less 1 for whole numbers."""
    left_out = Window(burn_in).start(n)
    assert 0.8 * burn_in * n - 1 < left_out + 1
    if burn_in * n > 1000:
        assert 0.798 * burn_in * n < left_out <= burn_in * n


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_the_window_never_moves_back(n: int, count: int) -> None:
    """With more events the window starts no earlier; without burn-in it starts at the beginning."""
    assert Window(0.1, count).start(n) <= Window(0.1, count).start(n + 1)
    assert Window().start(n) == 0


# ---------------------------------------------------------------------- rounds

rules = st.builds(
    StepRule,
    st.floats(0.1, 10),
    st.just(0.75) | st.floats(0.51, 0.99),
    st.floats(0, 2000),
    st.floats(0.1, 100),
)
trees = st.sampled_from(
    [ChainTree(), ChainTree((7,), (0,)), ChainTree((2, 2), (1000, 3000)), ChainTree((3,), (10**6,))]
)
schedules = st.builds(
    RoundSchedule,
    st.lists(rules, min_size=1, max_size=3).map(tuple),
    trees,
    st.just(0.0) | st.floats(0.01, 1.99),
    st.floats(0.1, 100),
)


@given(schedules, st.integers(0, 10**9))
def test_a_round_is_the_longest_that_is_stable(schedule: RoundSchedule, start: int) -> None:
    """N eta curvature <= stability at its first step, and not with one more report a chain; at least 1."""
    length = schedule.length(start)
    if schedule.stability == 0:
        assert length == 1
        return
    chains, events = schedule.tree.stretch(start // len(schedule.steps))
    each, rest = divmod(length, chains * len(schedule.steps))
    assert rest == 0
    eta = max(Fraction(rule.at(events + 1)) for rule in schedule.steps)
    limit = Fraction(schedule.stability) * (1 + Fraction(1, 10**12))
    assert each == 1 or each * eta * Fraction(schedule.curvature) <= limit
    assert (each + 1) * eta * Fraction(schedule.curvature) * (1 + Fraction(1, 10**12)) > Fraction(
        schedule.stability
    )


@given(schedules, st.lists(st.integers(0, 3000), min_size=1, max_size=5))
def test_advancing_is_the_naive_loop(schedule: RoundSchedule, arrivals: list[int]) -> None:
    """After any batches of reports, number and start are those of going round by round from 0."""
    number = start = n = 0
    for more in arrivals:
        n += more
        number, start = schedule.advance(number, start, n)
    naive_number = naive_start = 0
    while naive_start + schedule.length(naive_start) <= n:
        naive_start += schedule.length(naive_start)
        naive_number += 1
    assert (number, start) == (naive_number, naive_start)


def test_default_rounds_by_hand() -> None:
    """With the default steps, N eta 10 <= .3 gives rounds of 12 reports at first and of 125 after 100,000."""
    schedule = RoundSchedule((RULE,), ChainTree(), stability=0.3, curvature=10.0)
    assert schedule.length(0) == math.floor(0.03 / RULE.at(1)) == 12
    assert schedule.length(100_000) == math.floor(0.03 / RULE.at(100_001)) == 125
    assert (
        RoundSchedule((RULE,), ChainTree((4,), (0,)), stability=0.3, curvature=10.0).length(400_000)
        == 4 * 125
    )


@pytest.mark.parametrize("v", [0.65, 0.7333, 1.9, 4.683, 50.0])
@pytest.mark.parametrize("chains", [1, 4])
def test_default_rounds_stay_short_and_grow_up_to_a_billion(v: float, chains: int) -> None:
    """Every round of 10^9 reports has N eta curvature <= .3 a chain; none is shorter than the last."""
    rule = StepRule(gain=3.0, exponent=0.75, delay=1000.0, second_moment=v)
    tree = ChainTree((chains,), (0,)) if chains > 1 else ChainTree()
    schedule = RoundSchedule((rule,), tree, stability=0.3, curvature=10.0)
    start, last, rounds = 0, 0, 0
    while start < 10**9:
        length = schedule.length(start)
        assert length >= last
        assert length / chains * rule.at(start // chains + 1) * 10 <= 0.3 * (1 + 1e-12)
        start, last, rounds = start + length, length, rounds + 1
    assert last > 100 * schedule.length(0)
    assert rounds < 100_000


@given(schedules, st.integers(0, 10**9), st.integers(0, 10**9))
def test_rounds_never_get_shorter(schedule: RoundSchedule, start: int, more: int) -> None:
    """A round that begins later is at least as long, whatever v and the step rule."""
    assert schedule.length(start) <= schedule.length(start + more)


@given(schedules)
def test_rounds_grow_without_end(schedule: RoundSchedule) -> None:
    """N grows as n^exponent: late enough, 2.05^(1/exponent) times the reports nearly double it."""
    assume(schedule.stability > 0)
    chains = len(schedule.steps) * schedule.tree.leaves
    start = 10**9
    while schedule.length(start) < 40 * chains:
        start *= 2
    start += 10 * chains * math.ceil(max(rule.offset for rule in schedule.steps))
    later = math.ceil(start * 2.05 ** (1 / min(rule.exponent for rule in schedule.steps)))
    assert schedule.length(later) >= 1.9 * schedule.length(start)
