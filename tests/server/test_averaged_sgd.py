"""A chain: the same state for every split, equal to the naive walk, exact where textbook sums are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ldp_stream.plan import BLOCK, StepRule, Window, block_stop, is_checkpoint
from ldp_stream.server.averaged_sgd import Chain
from tests.server import naive

Array = NDArray[np.float64]

STEPS = StepRule(gain=3.0, exponent=0.75, delay=5.0, second_moment=1.5)
POWER = StepRule(gain=2.0, exponent=0.6, delay=0.0, second_moment=1.5)
WIDE, NARROW = 1e9, 0.4

sizes = st.sampled_from([0, 1, 2, 7, 40, 300, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
pieces = st.lists(st.tuples(st.sampled_from(["one", "batch"]), sizes), max_size=8)


def full_blocks(last: int) -> list[int]:
    """Return where blocks end that hold the most events, not at a checkpoint, up to ``last``."""
    stops = [0]
    while stops[-1] < last:
        stops.append(block_stop(stops[-1]))
    return [stop for stop in stops[:-1] if not is_checkpoint(stop)]


END = full_blocks(8 * BLOCK)[0]  # the first count at which a block ends because it is full


def gradients(n: int, p: int, seed: int = 1) -> Array:
    """Return gradients of which, as of CQX's, some coordinates are exactly 0."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, p)) < 0.6, rng.standard_normal((n, p)), 0.0)


def append(chain: Chain, rows: Array) -> None:
    """Fold rows one event at a time, by their nonzero coordinates as a channel decodes them."""
    for row in rows:
        coordinates = np.flatnonzero(row).tolist()
        chain.append(coordinates, row[coordinates].tolist())


def fed(chain: Chain, rows: Array, cut: list[tuple[str, int]] | None = None) -> Chain:
    """Fold rows as the cut says; what it leaves goes in as one batch."""
    done = 0
    for how, size in cut or []:
        piece = rows[done : done + size]
        append(chain, piece) if how == "one" else chain.extend(piece)
        done += len(piece)
    chain.extend(rows[done:])
    return chain


def bits(chain: Chain) -> dict[str, bytes]:
    """Return everything that the chain says, to the last bit."""
    window = chain.window()
    answers = {"iterate": np.array(chain.iterate), "mean": chain.mean()}
    if window is not None:
        answers |= {"window mean": window.mean, "V": window.random_scaling, "length": np.array(window.length)}
    return {name: array.tobytes() for name, array in {**chain.state(), **answers}.items()}


@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_numpy_accumulates_one_addition_after_the_other(width: int) -> None:
    """``numpy.add.accumulate`` along events makes the same additions as a loop, also for complex pairs."""
    rows = np.random.default_rng(width).standard_normal((3000, 2 * width)) * 10.0 ** np.arange(2 * width)
    expected, total = np.empty_like(rows), np.zeros(2 * width)
    for i, row in enumerate(rows):
        total = total + row
        expected[i] = total
    assert np.add.accumulate(rows, axis=0).tobytes() == expected.tobytes()
    pairs = np.add.accumulate(rows.view(np.complex128), axis=0)
    assert pairs.view(np.float64).tobytes() == expected.tobytes()
    column = np.add.accumulate(rows[:, 0])
    assert column.tobytes() == np.ascontiguousarray(expected[:, 0]).tobytes()


@pytest.mark.parametrize("radius", [WIDE, NARROW, 0.02])
@pytest.mark.parametrize(("p", "steps", "burn_in"), [(1, POWER, 0.5), (2, STEPS, 0.0), (3, STEPS, 0.1)])
@settings(max_examples=8)
@given(cut=pieces, n=st.sampled_from([0, 1, 9, 500, END - 1, END, END + 1, END + 900]))
def test_every_split_gives_the_same_bits(
    p: int, steps: StepRule, burn_in: float, radius: float, cut: list[tuple[str, int]], n: int
) -> None:
    """However a stream is cut into batches and single events, state and answers keep every bit."""
    rows = gradients(n, p)
    whole = fed(Chain(p, steps, radius, Window(burn_in)), rows)
    assert bits(fed(Chain(p, steps, radius, Window(burn_in)), rows, cut)) == bits(whole)


@pytest.mark.parametrize("radius", [WIDE, NARROW])
def test_asking_changes_nothing(radius: float) -> None:
    """Answers given on the way, after single events, leave the state as it is without them."""
    rows = gradients(END + 30, 3)
    chain, quiet = Chain(3, STEPS, radius, Window(0.1)), Chain(3, STEPS, radius, Window(0.1))
    for i, row in enumerate(rows):
        append(chain, row[None])
        if i % 100 < 3 or i >= END - 3:
            bits(chain)
    assert bits(chain) == bits(fed(quiet, rows))


@pytest.mark.parametrize("cut", [1, 7, 8, 150, 1903, END - 1, END, END + 1, END + BLOCK // 2])
def test_the_projection_may_bind_anywhere_in_a_batch(cut: int) -> None:
    """Cut before, at or after an event that hits the box, batches leave the bits of single events."""
    n = END + BLOCK - 5
    rows = 8 * gradients(n, 2)
    single = Chain(2, STEPS, NARROW, Window(0.1))
    append(single, rows)
    iterates = naive.walk(rows, [STEPS.at(i) for i in range(1, n + 1)], NARROW)
    at_the_box = (np.abs(iterates) == NARROW).any(axis=1)
    assert 0.1 < at_the_box[:100].mean() < 0.9
    assert 0.02 < at_the_box[-BLOCK:].mean() < 0.9
    assert bits(fed(Chain(2, STEPS, NARROW, Window(0.1)), rows, [("batch", cut), ("one", 1)])) == bits(single)


@pytest.mark.parametrize("radius", [WIDE, NARROW, 0.02])
@pytest.mark.parametrize("steps", [STEPS, POWER])
def test_iterates_are_those_of_the_definition(steps: StepRule, radius: float) -> None:
    """Every iterate is the one of b - eta g, projected, and no iterate leaves the box."""
    n = 1500
    rows = gradients(n, 3)
    expected = naive.walk(rows, [steps.at(i) for i in range(1, n + 1)], radius)
    chain, found = Chain(3, steps, radius, Window(0.1)), []
    for row in rows:
        chain.extend(row[None])
        found.append(chain.iterate)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert np.abs(found).max() <= radius


@pytest.mark.parametrize("burn_in", [0.0, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
def test_average_and_scaling_matrix_are_those_of_the_definition(p: int, burn_in: float) -> None:
    """The window's length, mean and V equal the full-array formulas at 1e-12, at every kind of count."""
    stops = [1, 2, 3, 8, 9, 10, 99, 150, 1000, 1903, 2378, 2379, END - 1, END, END + 1, END + BLOCK + 7]
    n = stops[-1]
    rows = gradients(n, p)
    iterates = naive.walk(rows, [STEPS.at(i) for i in range(1, n + 1)], NARROW)
    chain = Chain(p, STEPS, NARROW, Window(burn_in))
    done = 0
    for stop in stops:
        chain.extend(rows[done:stop])
        done = stop
        window = chain.window()
        assert window is not None
        mean, V = naive.average(iterates[naive.window_start(stop, burn_in) : stop])
        assert (chain.n, window.length) == (stop, stop - naive.window_start(stop, burn_in))
        np.testing.assert_allclose(window.mean, mean, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(window.random_scaling, V, rtol=1e-11, atol=1e-12 * max(V.max(), 1e-3))
        assert window.mean.tobytes() == chain.mean().tobytes()


@settings(max_examples=25)
@given(n=st.integers(1, 60_000), burn_in=st.sampled_from([0.0, 0.1, 0.3]))
def test_the_window_starts_at_the_last_checkpoint_before_the_burn_in(n: int, burn_in: float) -> None:
    """The average is over exactly the events after the last checkpoint that is at most burn_in n."""
    values = np.random.default_rng(2).integers(-1000, 1000, 60_000)[:n]  # b_i, as whole numbers of 2^-10
    moves = np.diff(values, prepend=0) / 1024.0
    chain = Chain(1, StepRule(1.0, 0.75, 0.0, 1.0), WIDE, Window(burn_in))
    chain.extend(-moves[:, None] / np.array([chain_step(i) for i in range(1, n + 1)])[:, None])
    start = naive.window_start(n, burn_in)
    window = chain.window()
    assert window is not None
    assert window.length == n - start
    exact = int(values[start:].sum()) / 1024 / (n - start)
    assert window.mean[0] == pytest.approx(exact, rel=1e-9, abs=1e-9)


def chain_step(i: int) -> float:
    """Return i^-.75."""
    return 1.0 / (math.sqrt(i) * math.sqrt(math.sqrt(i)))


def exact_sums(iterates: Array) -> tuple[list[float], list[list[float]]]:
    """Return m_n and V_n of float iterates near 1000, each entry rounded once: whole-number arithmetic.

    b - 1000 is an exact float, a whole multiple of 2^-43, and V does not change when a constant is taken off.
    """
    n, p = iterates.shape
    scaled = (iterates - 1000.0) * 2.0**43
    whole = scaled.astype(np.int64)
    assert (whole == scaled).all()
    sums = [np.cumsum(whole[:, j].astype(object)) for j in range(p)]  # S_s as unbounded integers
    s = np.arange(1, n + 1).astype(object)
    squares = n * (n + 1) * (2 * n + 1) // 6
    weighted = [int((s * S).sum()) for S in sums]
    total = [int(S[-1]) for S in sums]
    mean = [(total[j] + 1000 * n * 2**43) / (n * 2**43) for j in range(p)]
    V = []
    for j in range(p):
        row = []
        for k in range(p):  # n^2 sum_s (S_s - s m)(S_s - s m)' of the scaled integers, m = total/n
            product = int((sums[j] * sums[k]).sum())
            numerator = n * n * product - n * (weighted[j] * total[k] + total[j] * weighted[k])
            row.append((numerator + squares * total[j] * total[k]) / (n**4 * 2**86))
        V.append(row)
    return mean, V


def textbook(iterates: Array) -> Array:
    """Return V from float64 sums of s^2 m_s m_s', s^2 m_s and s^2, the sums of the literature's recursion."""
    n = len(iterates)
    s = np.arange(1, n + 1, dtype=np.float64)[:, None]
    means = np.add.accumulate(iterates, axis=0) / s
    A = np.array([[np.add.accumulate(s[:, 0] ** 2 * a * b)[-1] for a in means.T] for b in means.T])
    B = np.add.accumulate(s**2 * means, axis=0)[-1]
    C = np.add.accumulate(s**2)[-1, 0]
    m = means[-1]
    return np.asarray((A - np.outer(B, m) - np.outer(m, B) + C * np.outer(m, m)) / float(n) ** 2)


@pytest.mark.parametrize("burn_in", [0.0, 0.1])
def test_a_million_steps_near_a_thousand_keep_eight_digits(burn_in: float) -> None:
    """Near coefficients of 10^3, 10^6 steps keep 1e-8 in mean and every entry of V; textbook sums do not."""
    n, p = 1_000_000, 2
    steps = StepRule(gain=3.0, exponent=0.75, delay=1000.0, second_moment=1.5)
    rows = np.random.default_rng(5).standard_normal((n, p)) @ np.array([[1.0, 0.5], [0.0, 1.0]])
    rows[0] = -1000.0 / steps.at(1)  # the first event jumps there
    chain = Chain(p, steps, WIDE, Window(burn_in))
    chain.extend(rows)
    window = chain.window()
    assert window is not None

    place = np.arange(1, n + 1, dtype=np.float64) + steps.offset
    eta = steps.scale / (np.sqrt(place) * np.sqrt(np.sqrt(place)))
    iterates = np.add.accumulate(rows * -eta[:, None], axis=0)
    assert iterates[-1].tolist() == chain.iterate
    iterates = iterates[naive.window_start(n, burn_in) :]
    mean, V = exact_sums(iterates)
    assert window.length == len(iterates)
    np.testing.assert_allclose(window.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(window.random_scaling, V, rtol=1e-8)
    assert (np.abs(textbook(iterates) / V - 1) > 1e-7).all()


def test_the_exact_oracle_is_the_definition() -> None:
    """The exact sums equal the full-array formula where that has digits to spare, and see small changes."""
    iterates = 1000 + np.round(np.random.default_rng(1).standard_normal((500, 2)) * 2**20) / 2**20
    mean, V = exact_sums(iterates)
    expected = naive.average(iterates - 1000)
    np.testing.assert_allclose(np.array(mean) - 1000, expected[0], rtol=1e-9)
    np.testing.assert_allclose(V, expected[1], rtol=1e-11)
    iterates[250] += 2.0**-10
    assert (np.abs(np.array(exact_sums(iterates)[1]) / V - 1) > 1e-7).all()


def test_wild_gradients_stay_in_the_box() -> None:
    """With steps a million times the box, both ways, batches equal single events and the naive walk."""
    rows = np.random.default_rng(3).choice([-1e6, -1e-3, 0.0, 1e-3, 1e6], (3000, 3))
    single = Chain(3, POWER, 3.0, Window(0.1))
    append(single, rows)
    whole = fed(Chain(3, POWER, 3.0, Window(0.1)), rows)
    expected = naive.walk(rows, [POWER.at(i) for i in range(1, 3001)], 3.0)
    np.testing.assert_allclose(
        whole.mean(), naive.average(expected[naive.window_start(3000, 0.1) :])[0], rtol=1e-9
    )
    assert bits(whole) == bits(single)


@pytest.mark.parametrize("n", [0, 1, 8, 9, 1000, 2378, 3000, END - 1, END, END + 5])
@pytest.mark.parametrize("radius", [WIDE, NARROW])
def test_a_restored_chain_goes_on_bit_for_bit(radius: float, n: int) -> None:
    """A chain restored from another's state says the same at once and after more events."""
    rows = gradients(END + BLOCK, 3)
    first = fed(Chain(3, STEPS, radius, Window(0.1)), rows[:n])
    second = Chain(3, STEPS, radius, Window(0.1))
    second.extend(rows[-77:])  # what it held before is forgotten
    second.restore(first.state())
    assert bits(second) == bits(first)
    first.extend(rows[n:])
    append(second, rows[n:])
    assert bits(second) == bits(first)


def test_a_state_shares_nothing_with_its_chain() -> None:
    """A state that was taken does not change when its chain, or one restored from it, goes on."""
    rows = gradients(3000, 2)
    chain = fed(Chain(2, STEPS, NARROW, Window(0.1)), rows[:1500])
    state = chain.state()
    before = {name: array.copy() for name, array in state.items()}
    chain.extend(rows[1500:])
    other = Chain(2, STEPS, NARROW, Window(0.1))
    other.restore(state)
    other.extend(rows[1500:])
    assert all((state[name] == before[name]).all() for name in state)


def test_the_state_stays_small() -> None:
    """What a chain keeps of 10^6 events is no larger than what it may keep of 10^4."""
    chain = Chain(2, STEPS, WIDE, Window(0.1))
    rows, sizes = gradients(10_000, 2), []
    for _ in range(100):
        chain.extend(rows)
        sizes.append(sum(array.size for array in chain.state().values()))
    assert max(sizes) < 2 * BLOCK + 15 * (16 + 5) + 10  # gradients of one block, and a segment a checkpoint
    assert max(sizes[50:]) <= 1.5 * max(sizes[:10])


def test_before_the_first_event() -> None:
    """A new chain stands at 0 and has no window."""
    chain = Chain(2, STEPS, WIDE, Window(0.1))
    assert (chain.n, chain.iterate, chain.mean().tolist(), chain.window()) == (
        0,
        [0.0, 0.0],
        [0.0, 0.0],
        None,
    )


@given(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 500))
@settings(max_examples=30)
def test_a_window_that_leaves_out_a_count(n: int, count: int, seed: int) -> None:
    """It averages from the last checkpoint not after the count on, and is empty at a checkpoint before."""
    rows = np.random.default_rng(seed).normal(size=(n, 2))
    chain = fed(Chain(2, STEPS, WIDE, Window(count=count)), rows)
    start = max(c for c in naive.checkpoints(n) if c <= min(count, n))
    iterates = naive.walk(rows, [STEPS.at(i) for i in range(1, n + 1)], WIDE)
    window = chain.window()
    assert (0 if window is None else window.length) == n - start
    if n > start:
        np.testing.assert_allclose(chain.mean(), iterates[start:].mean(axis=0), rtol=1e-11, atol=1e-13)


def test_a_chain_goes_on_where_another_stopped() -> None:
    """Started at an iterate and with its events before, it is the rest of a chain that went on."""
    rows = np.random.default_rng(8).normal(size=(5000, 3))
    whole = fed(Chain(3, STEPS, WIDE, Window()), rows)
    parent = fed(Chain(3, STEPS, WIDE, Window()), rows[:1234])
    child = fed(Chain(3, STEPS, WIDE, Window(), 1234, parent.iterate), rows[1234:])
    np.testing.assert_allclose(child.iterate, whole.iterate, rtol=1e-12)
    both = [(1234, parent.mean()), (3766, child.mean())]
    np.testing.assert_allclose(sum(n * mean for n, mean in both) / 5000, whole.mean(), rtol=1e-12)
