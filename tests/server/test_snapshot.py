"""Snapshots: the whole state, nothing but the state, and nothing that was altered."""

from __future__ import annotations

import hashlib
import pickle
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldp_stream.campaign import Campaign
from ldp_stream.client.reporter import Reporter
from ldp_stream.errors import CampaignMismatch, InvalidSnapshot, LdpStreamError
from ldp_stream.plan import BLOCK
from ldp_stream.server import snapshot
from ldp_stream.server.aggregator import Aggregator
from ldp_stream.server.snapshot import FORMAT_VERSION, pack, unpack
from tests.server.streams import LIVE, LONG_ROUNDS, campaign, fed, reports

PLANS: dict[str, Campaign] = {
    "live": campaign(rounds=LIVE),
    "rounds": campaign(rounds=LONG_ROUNDS),
    "at the box": campaign(rounds=LONG_ROUNDS, radius=0.03),
    "vectors": campaign(channel={"kind": "none"}, epsilon=None, rounds=LONG_ROUNDS),
    "no burn-in": campaign(burn_in=0, rounds=LIVE),
}
OF = PLANS["rounds"]


@pytest.fixture(scope="module")
def data() -> bytes:
    """Return the snapshot of 1,500 reports."""
    return fed(OF, reports(OF, 1500)).snapshot()


# ---------------------------------------------------------------------- going on


@pytest.mark.parametrize("of", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("cut", [0, 1, 9, 10, 777, 2000, 3 * BLOCK, 5 * BLOCK + 1])
def test_a_restored_server_goes_on_as_if_it_had_never_stopped(of: Campaign, cut: int) -> None:
    """Restored in the middle of a block or of a round, it says and becomes the same, bit for bit."""
    batch = reports(of, 7 * BLOCK)
    server = fed(of, batch[:cut])
    restored = Aggregator.restore(of, server.snapshot())
    for left in (0, 1, 500, len(batch) - cut):
        for one in (server, restored):
            one.ingest_many(
                batch[server.n_reports : server.n_reports] if left == 0 else batch[cut : cut + left]
            )
        cut += left
        assert restored.parameters() == server.parameters()
        assert restored.estimate().as_dict() == server.estimate().as_dict()
        assert restored.fitted({"size": 2}) == server.fitted({"size": 2})
        assert restored.snapshot() == server.snapshot()
    assert server.snapshot() == fed(of, batch).snapshot()


@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, 900), max_size=5))
def test_any_number_of_stops_changes_nothing(cuts: list[int]) -> None:
    """A stream that is stopped and restored any number of times ends in the state of one that was not."""
    batch = reports(OF, 900)
    server, done = Aggregator(OF), 0
    for cut in sorted(cuts):
        server.ingest_many(batch[done:cut])
        server, done = Aggregator.restore(OF, server.snapshot()), cut
    server.ingest_many(batch[done:])
    assert server.snapshot() == fed(OF, batch).snapshot()


@pytest.mark.parametrize("of", [PLANS["live"], PLANS["rounds"]], ids=["live", "rounds"])
def test_a_study_goes_on_across_a_stop(of: Campaign) -> None:
    """When devices answer the server, stopping in the middle leaves every later report the same."""

    def study(stops: set[int]) -> bytes:
        server, devices = Aggregator(of), Reporter.simulated(of, seed=3)
        for i in range(600):
            if i in stops:
                server = Aggregator.restore(of, server.snapshot())
            server.ingest(devices.report({"size": i % 8 - 2, "flag": i % 2}, i % 31 - 5, server.parameters()))
        return server.snapshot()

    assert study({1, 55, 56, 400}) == study(set())


def test_a_restored_server_shares_nothing_with_the_first() -> None:
    """After restoring, the two go their own ways."""
    server = fed(OF, reports(OF, 300))
    kept = server.snapshot()
    restored = Aggregator.restore(OF, kept)
    restored.ingest_many(reports(OF, 700, seed=5))
    assert server.snapshot() == kept


def test_every_partition_is_restored() -> None:
    """The serving partition's number, its state and those taken over come back."""
    of = campaign(partitions=3, rounds=LONG_ROUNDS)
    servers = []
    for number in (2, 0):
        server = Aggregator(of, partition=number)
        server.ingest_many(reports(of, 400 + number, seed=number))
        servers.append(server)
    servers[0].merge(servers[1])
    restored = Aggregator.restore(of, servers[0].snapshot())
    assert (restored.partition, restored.n_reports) == (2, 802)
    assert restored.parameters() == servers[0].parameters()
    assert restored.estimate().as_dict() == servers[0].estimate().as_dict()


# ---------------------------------------------------------------------- nothing altered gets in


def test_another_campaign_is_refused(data: bytes) -> None:
    """A snapshot of a campaign that differs in anything is refused by name of the digest."""
    for other in (
        campaign(name="other", rounds=LONG_ROUNDS),
        campaign(),
        campaign(rounds=LONG_ROUNDS, tau=0.31),
    ):
        with pytest.raises(CampaignMismatch, match=f"digest = '{OF.digest}': must be '{other.digest}'"):
            Aggregator.restore(other, data)


def test_every_flipped_bit_is_found(data: bytes) -> None:
    """One flipped bit anywhere, head or body, makes a snapshot unreadable."""
    rng = np.random.default_rng(1)
    places = {*range(50 * 8), *rng.integers(0, 8 * len(data), 1500).tolist()}
    for place in places:
        altered = bytearray(data)
        altered[place >> 3] ^= 1 << (place & 7)
        with pytest.raises(InvalidSnapshot):
            Aggregator.restore(OF, bytes(altered))


def test_every_truncation_is_found(data: bytes) -> None:
    """A snapshot that was cut short, or has bytes too many, is unreadable."""
    rng = np.random.default_rng(2)
    for length in {*range(100), len(data) - 1, *rng.integers(0, len(data), 400).tolist()}:
        with pytest.raises(InvalidSnapshot):
            Aggregator.restore(OF, data[:length])
    with pytest.raises(InvalidSnapshot):
        Aggregator.restore(OF, data + b"\0")


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 2**16 - 1])
def test_another_version_is_named(data: bytes, version: int) -> None:
    """A snapshot of another format version is refused with both versions, before anything is read."""
    altered = data[:8] + struct.pack("<H", version) + data[10:]
    with pytest.raises(
        InvalidSnapshot, match=f"format version {version}, this package reads {FORMAT_VERSION}"
    ):
        Aggregator.restore(OF, altered)


@settings(max_examples=200)
@given(noise=st.binary(max_size=300), keep=st.integers(0, 60))
def test_random_bytes_are_refused(data: bytes, noise: bytes, keep: int) -> None:
    """Whatever the bytes, what is no snapshot raises the package's own error and nothing else."""
    with pytest.raises(InvalidSnapshot):
        Aggregator.restore(OF, data[:keep] + noise)


def seal(content: bytes) -> bytes:
    """Return content under a head that fits it, as only somebody who means to would write."""
    body = zlib.compress(content)
    return struct.pack("<8sH32s", b"ldpstate", FORMAT_VERSION, hashlib.sha256(body).digest()) + body


@settings(max_examples=200)
@given(content=st.binary(max_size=80))
def test_sealed_nonsense_is_refused(content: bytes) -> None:
    """Even under a right checksum, what is no state raises the package's own error."""
    with pytest.raises(InvalidSnapshot):
        Aggregator.restore(OF, seal(content))
    with pytest.raises(InvalidSnapshot):
        Aggregator.restore(OF, seal(struct.pack("<I", len(content)) + content))


@pytest.mark.parametrize(
    "header",
    ["[]", "{}", '{"facts":[],"shapes":{}}', '{"facts":{},"shapes":[]}', '{"facts":{},"shapes":{"a":[-1]}}'],
)
def test_a_sealed_header_of_the_wrong_form_is_refused(header: str) -> None:
    """A header that is JSON, but not facts and shapes, is refused."""
    with pytest.raises(InvalidSnapshot):
        unpack(seal(struct.pack("<I", len(header)) + header.encode()))


def changed(facts: dict[str, Any], arrays: dict[str, Any], how: str) -> None:
    """Spoil one part of an unpacked state."""
    part = facts["partitions"][0]
    if how.startswith("drop "):
        del (arrays if how[5:] in arrays else facts)[how[5:]]
    elif how == "infinite counts":
        arrays["0.0.counts"] = np.array([np.inf, 0.0])
    elif how == "half the moments":
        arrays["0.0.moments"] = arrays["0.0.moments"][1:]
    elif how == "wide gradients":
        arrays["0.0.gradients"] = np.zeros((5, 17))
    elif how == "no partition":
        facts["partitions"] = []
    elif how == "partition 9":
        part["partition"] = 9
    elif how == "a list for a part":
        facts["partitions"] = [[1, 2]]


@pytest.mark.parametrize(
    "how",
    [
        "drop partitions",
        "drop 0.betas",
        "drop 0.0.anchor",
        "infinite counts",
        "half the moments",
        "wide gradients",
        "no partition",
        "partition 9",
        "a list for a part",
    ],
)
def test_a_sealed_state_that_cannot_be_is_refused(data: bytes, how: str) -> None:
    """A well-formed file whose parts are missing or do not fit the campaign is refused."""
    facts, arrays = unpack(data)
    changed(facts, arrays, how)
    with pytest.raises(InvalidSnapshot):
        Aggregator.restore(OF, pack(facts, arrays))


# ---------------------------------------------------------------------- what it is made of


def test_facts_and_arrays_survive_the_bytes() -> None:
    """Every float keeps its bits, infinities, NaN and -0.0 included, and every shape its zeros."""
    values = np.array([[0.1, -0.0, np.inf], [np.nan, 5e-324, -1e308]])
    arrays = {"a": values, "empty": np.zeros((0, 3)), "scalar": np.array(2.5)}
    facts, found = unpack(pack({"n": 2**60, "name": "é"}, arrays))
    assert facts == {"n": 2**60, "name": "é"}
    assert {name: (a.shape, a.tobytes()) for name, a in found.items()} == {
        name: (a.shape, a.tobytes()) for name, a in arrays.items()
    }


def test_no_pickle_is_involved(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading needs no pickle, and a pickle is no snapshot."""

    def refuse(*_: object) -> None:
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    Aggregator.restore(OF, data)
    assert not any("pickle" in name for name in vars(snapshot))
    with pytest.raises(LdpStreamError):
        Aggregator.restore(OF, pickle.dumps(OF))


def test_the_size_does_not_grow_with_the_stream() -> None:
    """The snapshot after 10^6 reports is about as large as after 10^3 to 10^4."""
    of = campaign(rounds=LONG_ROUNDS, radius=1e4)
    server, sizes = Aggregator(of), {}
    batch = reports(of, 45_000)
    for stop in range(1000, 10_001, 1000):
        server.ingest_many(batch[stop - 1000 : stop])
        sizes[stop] = len(server.snapshot())
    while server.n_reports < 1_000_000:
        server.ingest_many(batch)
        sizes[server.n_reports] = len(server.snapshot())
    early = max(size for n, size in sizes.items() if n <= 10_000)
    late = max(size for n, size in sizes.items() if n > 100_000)
    assert late <= 1.5 * early
    assert late < 8 * 3 * BLOCK + 20_000
