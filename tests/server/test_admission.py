"""Which messages of a log count: against the plain rule, message by message, and however the log is cut."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ldp_stream import Aggregator, Campaign, Reporter
from ldp_stream.codec import encode_report, report_to_json
from ldp_stream.reports import CategoryReport, Report, VectorReport
from ldp_stream.server.admission import Admission, Reason, route_many
from tests.server.plain_fold import EPOCHS, PlainFold, plain_fold
from tests.server.streams import campaign

HORIZON = 300  # epochs of 20 offsets


class Tokens:
    """Counted tokens in a dict."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self._epoch = -(-horizon // EPOCHS)
        self._counted: dict[tuple[int, bytes], int] = {}

    def seen(
        self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Look each token up."""
        counted = [self._counted.get((partition, bytes(token)), -(10**9)) for token in tokens]
        return np.asarray(offsets // self._epoch - np.array(counted) <= EPOCHS)

    def add(self, partition: int, offsets: NDArray[np.int64], tokens: NDArray[np.uint8]) -> None:
        """Remember each token's epoch."""
        for offset, token in zip(offsets.tolist(), tokens, strict=True):
            self._counted[partition, bytes(token)] = offset // self._epoch


def _forged(report: Report, draw: np.random.Generator, of: Campaign) -> Report:
    """Return the report with one field changed to something that no honest device sends."""
    changes: list[dict[str, Any]] = [
        {"digest": "0" * 16},
        {"chain": (report.chain + 1) % (of.chains + 1)},
        {"chain": of.chains},
        {"round": report.round + int(draw.integers(1, 4))},
        {"round": max(report.round - int(draw.integers(6, 30)), 0)},
        {"token": draw.bytes(16).hex()},
    ]
    if isinstance(report, CategoryReport):
        changes += [{"block": of.levels[0].mechanism.p * 50}, {"category": 60_000}]
    else:
        changes += [{"values": (2.0, *report.values[1:])}, {"values": (0.5, *report.values)}]
    return report.model_copy(update=changes[int(draw.integers(len(changes)))])


def log(of: Campaign, n: int, seed: int, bad: float, partition: int = 0) -> list[tuple[int, bytes]]:
    """Return a log as it arises: devices answer rounds that are mostly new, some messages are bad.

    Offsets have gaps; a message may be a repetition of an earlier one, forged, or random bytes.
    """
    draw = np.random.default_rng(seed)
    devices = Reporter.simulated(of, seed=seed)
    fold = PlainFold(Aggregator(of, partition=partition), HORIZON)
    answered = [fold.server.parameters()]
    found: list[tuple[int, bytes]] = []
    offset = 0
    for _ in range(n):
        offset += 1 + int(draw.integers(200)) * (draw.random() < 0.01)
        back = min(int(draw.integers(4)), len(answered))
        x, y = {"size": draw.uniform(-2, 6), "flag": float(draw.integers(2))}, draw.uniform(-10, 30)
        report = devices.report(x, y, answered[-back or -1])
        message = (encode_report if draw.random() < 0.8 else report_to_json)(report)
        if draw.random() < bad:
            which = draw.integers(4)
            if which == 0:
                message = draw.bytes(int(draw.choice([0, 5, 37, 60])))
            elif which == 1 and found:
                message = found[-int(draw.integers(1, min(len(found), 400) + 1))][1]
            else:
                message = encode_report(_forged(report, draw, of))
        fold.take(offset, message)
        found.append((offset, message))
        if fold.server.round != answered[-1].round:
            answered.append(fold.server.parameters())
    return found


def pieces(n: int, seed: int) -> Iterator[tuple[int, int]]:
    """Yield cuts of n messages: single ones, small and large batches."""
    draw = np.random.default_rng(seed)
    cuts = [0]
    while cuts[-1] < n:
        cuts.append(min(n, cuts[-1] + int(draw.choice([1, 2, 7, 50, 400, 5000]))))
    yield from pairwise(cuts)


def _admit(of: Campaign, messages: list[tuple[int, bytes]], seed: int, partition: int = 0) -> PlainFold:
    """Return what the fast rule makes of a log, in the shape of the plain one."""
    admission = Admission(Aggregator(of, partition=partition), Tokens(HORIZON))
    found = PlainFold(admission.server, HORIZON)
    for first, stop in pieces(len(messages), seed):
        offsets = [offset for offset, _ in messages[first:stop]]
        refusals = admission.fold(offsets, [message for _, message in messages[first:stop]])
        assert all(refusal.detail.isprintable() for refusal in refusals)
        found.refused += [(offsets[refusal.place], refusal.reason) for refusal in refusals]
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rounds": {"stability": 0.3, "curvature": 10.0, "max_staleness": 1}},
        {"rounds": {"stability": 0, "max_staleness": 30}},
        {"partitions": 3},
        {"epsilon": None, "channel": {"kind": "none"}},
        {"inference": {"kind": "dc", "chains": 5}, "partitions": 2},
        {"inference": {"kind": "higrad", "segments": [200, 150, 100]}, "tau": [0.2, 0.7]},
        {"channel": {"kind": "piecewise"}},
        {"channel": {"kind": "face_exponential"}},
    ],
    ids=["plain", "strict", "live", "partitions", "none", "dc", "higrad, two levels", "piecewise", "face"],
)
def test_the_fast_rule_is_the_plain_rule(changes: dict[str, Any], seed: int) -> None:
    """Whatever the log and its cut, the same messages count, for the same reasons, to the same state."""
    of = campaign(**changes)
    partition = of.partitions - 1
    messages = log(of, 1500, seed, bad=0.15, partition=partition)
    plain = plain_fold(of, messages, HORIZON, partition)
    fast = _admit(of, messages, seed, partition)
    assert fast.refused == plain.refused
    assert fast.server.snapshot() == plain.server.snapshot()
    assert plain.server.n_reports > 800


def test_logs_of_these_tests_meet_every_reason() -> None:
    """The random logs hold every kind of bad message, so that the comparison means something."""
    of = campaign(partitions=3, inference={"kind": "dc", "chains": 2})
    refused = Counter(
        reason
        for seed in range(4)
        for _, reason in plain_fold(of, log(of, 1500, seed, bad=0.15, partition=2), HORIZON, 2).refused
    )
    assert set(refused) == set(Reason)
    assert min(refused.values()) >= 3


def test_a_good_log_counts_whole() -> None:
    """Where nobody cheats every message counts, also those that answer a round or two back."""
    of = campaign()
    messages = log(of, 3000, seed=9, bad=0.0)
    fast = _admit(of, messages, seed=1)
    assert fast.refused == []
    assert fast.server.n_reports == 3000


@pytest.mark.parametrize("start", [0, 7, 19])
@pytest.mark.parametrize(
    ("distance", "counts"), [(1, False), (20, False), (299, False), (300, False), (320, True), (400, True)]
)
def test_a_token_counts_again_only_beyond_the_horizon(start: int, distance: int, counts: bool) -> None:
    """A repeated report is refused up to the horizon, 300 offsets, and not beyond its last epoch, 320."""
    of = campaign(rounds={"stability": 0, "max_staleness": 1000})
    devices = Reporter.simulated(of, seed=3)
    message = encode_report(devices.report({"size": 1}, 2.0, Aggregator(of).parameters()))
    admission = Admission(Aggregator(of), Tokens(HORIZON))
    refusals = admission.fold([start, start + distance], [message, message])
    assert [refusal.reason for refusal in refusals] == [Reason.COUNTED_BEFORE] * (not counts)


def test_a_refused_report_does_not_use_up_its_token() -> None:
    """A report that is refused as too old leaves its token free for one that is in time."""
    of = campaign(rounds={"stability": 0, "max_staleness": 2})
    devices, server = Reporter.simulated(of, seed=3), Aggregator(of)
    start = server.parameters()
    late = devices.report({"size": 1}, 2.0, start)
    others = [encode_report(devices.report({"size": 1}, 2.0, start)) for _ in range(3)]
    good = encode_report(late.model_copy(update={"round": 3}))
    refusals = Admission(server, Tokens(HORIZON)).fold(range(5), [*others, encode_report(late), good])
    assert [(refusal.place, refusal.reason) for refusal in refusals] == [(3, Reason.TOO_OLD)]
    assert server.n_reports == 4


def test_tokens_with_equal_halves_are_told_apart() -> None:
    """Two tokens that agree in half of their bytes are two users."""
    of = campaign()
    devices, server = Reporter.simulated(of, seed=3), Aggregator(of)
    report = devices.report({"size": 1}, 2.0, server.parameters())
    tokens = ["00" * 8 + "11" * 8, "00" * 8 + "22" * 8, "33" * 8 + "11" * 8, "00" * 8 + "11" * 8]
    messages = [encode_report(report.model_copy(update={"token": token})) for token in tokens]
    refusals = Admission(server, Tokens(HORIZON)).fold(range(4), messages)
    assert [(refusal.place, refusal.reason) for refusal in refusals] == [(3, Reason.COUNTED_BEFORE)]


@pytest.mark.parametrize("partitions", [1, 2, 7, 1000, 65_536])
def test_routing_of_columns_is_the_campaigns(partitions: int) -> None:
    """Partition and chain of many tokens are those of each token's whole number."""
    of = campaign(partitions=partitions)
    tokens = [os.urandom(16) for _ in range(200)] + [bytes(16), b"\xff" * 16]
    found = route_many(of, np.frombuffer(b"".join(tokens), np.uint8).reshape(-1, 16))
    expected = [of.route(int.from_bytes(token)) for token in tokens]
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected


def test_nothing_is_folded_of_nothing() -> None:
    """No messages and only bad messages leave the state as it was."""
    of = campaign()
    admission = Admission(Aggregator(of), Tokens(HORIZON))
    before = admission.server.snapshot()
    assert admission.fold([], []) == []
    assert len(admission.fold(range(3), [b"", b"\x01" * 37, b"{}"])) == 3
    vector = VectorReport(digest=of.digest_prefix, round=0, chain=0, values=(0.5,), token="ab" * 16)
    assert admission.fold([9], [encode_report(vector)])[0].reason == Reason.NOT_A_REPORT
    assert admission.server.snapshot() == before
