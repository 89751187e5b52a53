"""The aggregator: a deterministic fold that trusts no report and joins only what is disjoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_stream.campaign import Campaign
from ldp_stream.client.reporter import Reporter
from ldp_stream.errors import CampaignMismatch, InvalidInput, InvalidReport, OverlappingState
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.plan import BLOCK
from ldp_stream.report_batch import ReportBatch
from ldp_stream.reports import CategoryReport, Report, VectorReport
from ldp_stream.server.aggregator import Aggregator
from tests.server import naive
from tests.server.streams import LIVE, LONG_ROUNDS, campaign, fed, feed, reports

CAMPAIGNS: dict[str, Campaign] = {
    "live": campaign(rounds=LIVE),
    "rounds": campaign(rounds=LONG_ROUNDS),
    "at the box": campaign(rounds=LONG_ROUNDS, radius=0.03),
    "no burn-in": campaign(rounds=LIVE, burn_in=0, radius=0.1, channel={"kind": "cqx", "q": 3, "s": 2}),
    "one feature": campaign(features={"x": {"lower": 0, "upper": 1}}, radius=0.05, steps={"exponent": 0.6}),
    "vectors": campaign(channel={"kind": "none"}, epsilon=None, radius=0.3, rounds=LONG_ROUNDS),
}
CATEGORIES, VECTORS = CAMPAIGNS["rounds"], CAMPAIGNS["vectors"]

cuts = st.lists(
    st.tuples(
        st.sampled_from(["one", "batch", "objects"]),
        st.one_of(st.sampled_from([0, 1, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1]), st.integers(0, 3000)),
    ),
    max_size=7,
)


# ---------------------------------------------------------------------- one state for every split


@pytest.mark.parametrize("of", CAMPAIGNS.values(), ids=CAMPAIGNS)
@settings(max_examples=8)
@given(cut=cuts, n=st.sampled_from([1, 700, 3 * BLOCK, 7 * BLOCK]))
def test_every_split_gives_the_same_snapshot(of: Campaign, cut: list[tuple[str, int]], n: int) -> None:
    """Single reports, lists, generators and columns, in any mixture, leave the same bytes of state."""
    batch = reports(of, n)
    assert fed(of, batch, cut).snapshot() == fed(of, batch).snapshot()


@pytest.mark.parametrize("of", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_questions_on_the_way_change_nothing(of: Campaign) -> None:
    """Asking for parameters, estimates and snapshots between reports leaves the state of never asking."""
    batch = reports(of, 900)
    server = Aggregator(of)
    for n in feed(server, batch, [("one", 1)] * 900):
        if n % 7 == 0:
            server.parameters()
            server.estimate()
            server.fitted({"size": 1.0})
        if n % 50 == 0:
            server.snapshot()
    assert server.snapshot() == fed(of, batch).snapshot()


@pytest.mark.parametrize("of", CAMPAIGNS.values(), ids=CAMPAIGNS)
@pytest.mark.parametrize("n", [1, 99, 100, 101, 1000, 2379, 4 * BLOCK + 3])
def test_the_average_is_that_of_the_naive_server(of: Campaign, n: int) -> None:
    """Coefficients and their intervals are the formulas on all iterates, in the user's units."""
    server = fed(of, reports(of, n), [("batch", n // 3), ("objects", 20), ("one", 5)])
    window = naive.NaiveServer(of, reports(of, n)).window(n)
    mean, V = naive.average(window)
    assert server.n_reports == n
    estimate = server.estimate(level=0.9)
    constant, a = of.scale.contrast({"intercept": 1.0})
    found = estimate["intercept"]
    np.testing.assert_allclose(found.value, constant + np.array(a) @ mean, rtol=1e-12)
    travelled = sum(of.levels[0].steps.at(i) for i in range(1, n + 1))
    held = (np.abs(mean) + 5.3227 * np.sqrt(np.diag(V) / len(window)) >= of.radius).any()
    if len(window) >= 100 and travelled >= 10 and not held:
        half = 5.3227 * np.sqrt(np.array(a) @ V @ np.array(a) / len(window))
        np.testing.assert_allclose(found.upper - found.value, half, rtol=2e-5)
    else:
        assert not found.bounded
        assert estimate.reason is not None


def test_reports_made_by_devices_are_folded() -> None:
    """Reports of simulated devices, answered at the server's parameters, are all accepted."""
    for of in CAMPAIGNS.values():
        server, devices = Aggregator(of), Reporter.simulated(of, seed=1)
        for i in range(120):
            x = {"size": i % 8 - 2, "flag": i % 2, "x": 0.5}
            server.ingest(devices.report(x, y=float(i % 30), parameters=server.parameters()))
        assert server.n_reports == 120


def test_fold_is_ingest_without_the_envelope() -> None:
    """A payload folded by itself leaves the state of the whole report."""
    batch = reports(CATEGORIES, 100)
    server = Aggregator(CATEGORIES)
    for i, report in enumerate(batch):
        if i % 3:
            server.fold(report.payload)
        else:
            server.ingest(report)
    assert server.snapshot() == fed(CATEGORIES, batch).snapshot()


# ---------------------------------------------------------------------- nothing wrong gets in

TOKEN = "ab" * 16


def category(**changes: Any) -> Report:
    """Return a category report of CATEGORIES, sound unless changed."""
    sound = {
        "digest": CATEGORIES.digest_prefix,
        "round": 0,
        "chain": 0,
        "block": 2,
        "category": 1,
        "token": TOKEN,
    }
    return CategoryReport(**{**sound, **changes})


def vector(**changes: Any) -> Report:
    """Return a vector report of VECTORS, sound unless changed."""
    sound = {
        "digest": VECTORS.digest_prefix,
        "round": 0,
        "chain": 0,
        "values": (0.1, -0.2, 0.3),
        "token": TOKEN,
    }
    return VectorReport(**{**sound, **changes})


BAD: dict[str, tuple[Campaign, Report, str]] = {
    "digest": (CATEGORIES, category(digest="0" * 16), "digest = '0000000000000000': must be"),
    "chain": (CATEGORIES, category(chain=1), "chain = 1: must be below 1"),
    "last chain": (CATEGORIES, category(chain=65535), "chain = 65535: must be below 1"),
    "block": (CATEGORIES, category(block=3), "block = 3, category = 1: outside the channel's alphabet"),
    "last block": (CATEGORIES, category(block=2**32 - 1), "block = 4294967295"),
    "category": (CATEGORIES, category(category=2), "block = 2, category = 2: outside the channel's alphabet"),
    "last category": (CATEGORIES, category(category=65535), "category = 65535"),
    "vector for category": (CATEGORIES, vector(digest=CATEGORIES.digest_prefix), "must be a category"),
    "category for vector": (VECTORS, category(digest=VECTORS.digest_prefix), "must be a vector of 3 values"),
    "vector's digest": (VECTORS, vector(digest="f" * 16), "digest = 'ffffffffffffffff'"),
    "vector's chain": (VECTORS, vector(chain=2), "chain = 2"),
    "short vector": (VECTORS, vector(values=(0.1, 0.2)), "must be a vector of 3 values"),
    "long vector": (VECTORS, vector(values=(0.1,) * 4), "must be a vector of 3 values"),
    "wild vector": (VECTORS, vector(values=(0.1, -1e300, 0.0)), "values"),
}


@pytest.mark.parametrize(("of", "bad", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("before", [0, 1, 40])
def test_a_bad_report_is_refused_and_named(of: Campaign, bad: Report, message: str, before: int) -> None:
    """Each field out of range is named, with its value, and the state stays as it was to the last byte."""
    server = fed(of, reports(of, before), [("one", before)])
    kept = fed(of, reports(of, before)).snapshot()
    with pytest.raises(InvalidReport, match=message):
        server.ingest(bad)
    assert (server.n_reports, server.snapshot()) == (before, kept)


@pytest.mark.parametrize(("place", "others"), [(0, 0), (0, 30), (1, 30), (30, 30)])
@pytest.mark.parametrize(("of", "bad", "message"), BAD.values(), ids=BAD)
def test_a_batch_with_one_bad_report_is_refused_whole(
    of: Campaign, bad: Report, message: str, place: int, others: int
) -> None:
    """No report of a refused batch is folded; the message names the bad one's place among the others."""
    server = fed(of, reports(of, 500))
    kept = server.snapshot()
    rows = list(reports(of, others, seed=2))
    rows.insert(place, bad)
    with pytest.raises(InvalidReport) as caught:
        server.ingest_many(row for row in rows)
    assert f"reports[{place}]" in str(caught.value)
    if place == 0:
        assert message in str(caught.value)
    assert server.snapshot() == kept


@pytest.mark.parametrize("of", [CATEGORIES, VECTORS])
def test_columns_of_another_campaign_or_kind_are_refused(of: Campaign) -> None:
    """Columns are refused whole for their digest or their kind, also when they are empty."""
    server = fed(of, reports(of, 50))
    kept = server.snapshot()
    for other in [VECTORS, CATEGORIES, campaign(name="another")]:
        batch = reports(other, 10)
        if other.digest != of.digest:
            with pytest.raises(InvalidReport, match="digest = "):
                server.ingest_many(batch)
            with pytest.raises(InvalidReport, match="digest = "):
                server.ingest_many(batch[:0])
        columns = (batch.round, batch.chain, batch.token, batch.block, batch.category, batch.values)
        renamed = ReportBatch(of.digest_prefix, *columns)
        if type(other.levels[0].mechanism) is not type(of.levels[0].mechanism):
            with pytest.raises(InvalidReport, match=r"must be (categories|vectors of 3 values)"):
                server.ingest_many(renamed)
    assert server.snapshot() == kept


def test_no_reports_change_nothing() -> None:
    """An empty list, an exhausted generator and an empty batch are folded without a trace."""
    batch = reports(CATEGORIES, 50)
    server = fed(CATEGORIES, batch)
    kept = server.snapshot()
    empty: list[ReportBatch | Iterable[Report]] = [[], iter(()), batch[:0], batch[50:]]
    for nothing in empty:
        server.ingest_many(nothing)
    assert (server.n_reports, server.snapshot()) == (50, kept)


def test_a_source_that_breaks_is_not_half_folded() -> None:
    """When an iterable of reports fails on the way, none of its reports is folded."""

    def broken() -> Iterator[Report]:
        yield from reports(CATEGORIES, 20)
        raise OSError("the disk is gone")

    server = fed(CATEGORIES, reports(CATEGORIES, 50))
    kept = server.snapshot()
    with pytest.raises(OSError, match="disk"):
        server.ingest_many(broken())
    assert server.snapshot() == kept


@pytest.mark.parametrize("ways", [("one", 60), ("objects", 60), ("batch", 60)])
def test_the_caller_may_reuse_what_was_folded(ways: tuple[str, int]) -> None:
    """Columns changed by their owner after they were handed over do not change the state."""
    for of in (CATEGORIES, VECTORS):
        batch = reports(of, 60)
        server = fed(of, batch, [ways])
        for column in (batch.block, batch.category, batch.values):
            if column is not None:
                column[:] = 0
        assert server.snapshot() == fed(of, reports(of, 60)).snapshot()


def test_tokens_are_not_looked_at() -> None:
    """The same token twice, or another round's number, makes no difference to the state."""
    batch = reports(CATEGORIES, 100)
    server = fed(CATEGORIES, batch)
    batch.token[:] = 7
    batch.round[:] = 12345
    assert fed(CATEGORIES, batch).snapshot() == server.snapshot()


def test_an_aggregator_serves_a_partition_that_exists() -> None:
    """A partition number outside the campaign's is refused."""
    of = campaign(partitions=3)
    assert [Aggregator(of, partition=k).partition for k in range(3)] == [0, 1, 2]
    for wrong in (-1, 3, 1.5, "x"):
        with pytest.raises(InvalidInput, match="partition = "):
            Aggregator(of, partition=wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- merging

SPLIT = campaign(partitions=4, rounds=LONG_ROUNDS, steps={"delay": 1}, radius=1e4)  # settles at once


def part(number: int, n: int, of: Campaign = SPLIT) -> Aggregator:
    """Return an aggregator of one partition with n reports of its own."""
    server = Aggregator(of, partition=number)
    server.ingest_many(reports(of, n, seed=100 + number))
    return server


def answers(server: Aggregator) -> tuple[Any, ...]:
    """Return what a merged aggregator says about the campaign as a whole."""
    x = {"size": 3.0, "flag": 1}
    return server.n_reports, server.estimate().as_dict(), server.estimate().quantile(x), server.fitted(x)


def joined(numbers: list[int], sizes: dict[int, int]) -> Aggregator:
    """Return the aggregator of the first partition after it took over the others one by one."""
    server = part(numbers[0], sizes[numbers[0]])
    for number in numbers[1:]:
        server.merge(part(number, sizes[number]))
    return server


def test_partitions_join_in_any_order() -> None:
    """Every order, and every grouping, of merging gives the same estimate to the last bit."""
    sizes = {0: 700, 1: 150, 2: 2500, 3: 60}
    expected = answers(joined([0, 1, 2, 3], sizes))
    assert expected[0] == sum(sizes.values())
    for order in ([3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]):
        assert answers(joined(order, sizes)) == expected
    pair = joined([2, 3], sizes)
    pair.merge(joined([1, 0], sizes))
    assert answers(pair) == expected


def test_a_merged_estimate_is_the_pooled_formula() -> None:
    """The mean is weighted by window lengths, W adds lambda_k^2 V_k/n_k, and short chains are left out."""
    sizes = {0: 700, 1: 150, 2: 2500, 3: 60}
    windows = []
    for number, n in sizes.items():
        batch = reports(SPLIT, n, seed=100 + number)
        windows.append(naive.NaiveServer(SPLIT, batch).window(n))
    used = [window for window in windows if len(window) >= 100]
    assert len(used) == 3
    total = sum(len(window) for window in used)
    mean = sum(len(window) * window.mean(axis=0) for window in used) / total
    W = sum((len(w) / total) ** 2 * naive.average(w)[1] / len(w) for w in used)
    constant, a = SPLIT.scale.contrast({"size": 1.0, "flag": -2.0})
    found = joined([0, 1, 2, 3], sizes).estimate(0.95).contrast({"size": 1.0, "flag": -2.0})
    np.testing.assert_allclose(found.value, constant + np.array(a) @ mean, rtol=1e-12)
    cv = self_normalized(0.95, [len(window) / total for window in used])
    assert cv < 6.7
    np.testing.assert_allclose(
        found.upper - found.value, cv * np.sqrt(np.array(a) @ W @ np.array(a)), rtol=1e-10
    )


def test_a_merged_aggregator_goes_on() -> None:
    """After merging, its own partition folds reports as before, and its snapshot restores and goes on too."""
    sizes = {1: 400, 3: 900}
    server, alone = joined([1, 3], sizes), part(1, 400)
    restored = Aggregator.restore(SPLIT, server.snapshot())
    more = reports(SPLIT, 300, seed=9)
    for one in (server, alone, restored):
        one.ingest_many(more[:150])
        for report in more[150:]:
            one.ingest(report)
    assert server.parameters() == alone.parameters() == restored.parameters()
    assert restored.snapshot() == server.snapshot()
    assert (server.n_reports, restored.partition) == (1600, 1)
    fresh = joined([3], sizes)
    fresh.merge(alone)
    assert answers(fresh) == answers(server)


def test_merging_copies() -> None:
    """The one that was taken over goes on by itself and changes nothing in the other."""
    server, other = part(0, 300), part(1, 300)
    server.merge(other)
    kept = server.snapshot()
    other.ingest_many(reports(SPLIT, 500, seed=3))
    server_again = part(0, 300)
    server_again.merge(part(1, 300))
    assert server.snapshot() == kept == server_again.snapshot()


def test_an_empty_aggregator_takes_over_its_own_partition() -> None:
    """A server without reports takes over another's state of its partition and goes on as that one."""
    server, other = Aggregator(SPLIT, partition=2), part(2, 333)
    server.merge(other)
    more = reports(SPLIT, 50, seed=8)
    server.ingest_many(more)
    other.ingest_many(more)
    assert server.snapshot() == other.snapshot()


REFUSED: dict[str, tuple[Callable[[], Aggregator], type[Exception], str]] = {
    "the same partition": (lambda: part(0, 10), OverlappingState, r"partitions \[0\]"),
    "a partition taken before": (lambda: part(1, 10), OverlappingState, r"partitions \[1\]"),
    "one new and two old": (
        lambda: joined([2, 0, 1], {0: 5, 1: 6, 2: 7}),
        OverlappingState,
        r"partitions \[0, 1\]",
    ),
    "another campaign": (
        lambda: part(2, 10, campaign(partitions=4, name="other")),
        CampaignMismatch,
        "digest = ",
    ),
}


@pytest.mark.parametrize(("other", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_overlap_and_strangers_are_refused(
    other: Callable[[], Aggregator], error: type[Exception], message: str
) -> None:
    """What both hold, or what is of another campaign, is refused, and neither side changes."""
    server, stranger = joined([0, 1], {0: 200, 1: 300}), other()
    kept = server.snapshot(), stranger.snapshot()
    with pytest.raises(error, match=message):
        server.merge(stranger)
    assert (server.snapshot(), stranger.snapshot()) == kept


def test_merging_itself_is_refused() -> None:
    """An aggregator that holds reports overlaps with itself."""
    server = part(0, 10)
    with pytest.raises(OverlappingState):
        server.merge(server)


def test_merging_waits_for_no_report() -> None:
    """Reports handed over one by one just before merging are part of what is merged, on both sides."""
    server, other = Aggregator(SPLIT, partition=0), Aggregator(SPLIT, partition=1)
    for k, aggregator in enumerate((server, other)):
        for report in reports(SPLIT, 150, seed=100 + k):
            aggregator.ingest(report)
    server.merge(other)
    assert answers(server) == answers(joined([0, 1], {0: 150, 1: 150}))


@pytest.mark.parametrize("wrong", ["report", None, 3, {"digest": "0" * 16}, b"\x01"])
def test_what_is_no_report_at_all_is_refused(wrong: object) -> None:
    """Something of another type is an InvalidReport that names the type, and nothing changes."""
    server = fed(CATEGORIES, reports(CATEGORIES, 5))
    before = server.snapshot()
    with pytest.raises(InvalidReport, match=f"is of type {type(wrong).__name__}"):
        server.ingest(wrong)  # type: ignore[arg-type]
    assert server.snapshot() == before
