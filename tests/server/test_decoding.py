"""Decoding of columns: what the channel's own ``decode`` gives, whatever the path."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_stream.campaign import Campaign
from ldp_stream.channels.kinds import FiniteChannel
from ldp_stream.errors import InvalidReport
from ldp_stream.report_batch import ReportBatch
from ldp_stream.server import decoding
from ldp_stream.server.decoding import BatchDecoder
from tests.server import naive
from tests.server.streams import campaign, reports

SEVEN = {f"x{j}": {"lower": 0, "upper": 1, "centre": j / 7} for j in range(7)}
CAMPAIGNS = {
    "one coordinate": campaign(),
    "two coordinates": campaign(channel={"kind": "cqx", "q": 3, "s": 2}),
    "all coordinates": campaign(channel={"kind": "cqx", "q": 5, "s": 3}),
    "odd sizes": campaign(features=SEVEN, channel={"kind": "cqx", "q": 3, "s": 4}),
    "too many to tabulate": campaign(features=SEVEN, channel={"kind": "cqx", "q": 9, "s": 4}),
    "grid points": campaign(features=SEVEN, channel={"kind": "face_exponential", "q": 3}),
    "vectors": campaign(channel={"kind": "none"}, epsilon=None),
    "wide vectors": campaign(channel={"kind": "laplace"}),
}


def every_payload(of: Campaign) -> ReportBatch:
    """Return one report for each (block, category) of the campaign's channel."""
    channel = of.levels[0].mechanism
    assert isinstance(channel, FiniteChannel)
    pairs = [(b, c) for b in range(channel.n_blocks) for c in range(channel.categories(b))]
    block, category = np.array(pairs).T
    n = len(pairs)
    return ReportBatch(
        of.digest_prefix,
        np.zeros(n, np.uint32),
        np.zeros(n, np.uint16),
        np.zeros((n, 16), np.uint8),
        block=block.astype(np.uint32),
        category=category.astype(np.uint16),
    )


@pytest.mark.parametrize("of", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_columns_decode_as_single_reports_do(of: Campaign) -> None:
    """A batch's gradients are the bits of the channel's ``decode``, from columns and from objects."""
    batch = reports(of, 2000)
    decoder = BatchDecoder(of.levels[0].mechanism)
    expected = naive.decoded(of, batch)
    assert decoder.decode(batch).tobytes() == expected.tobytes()
    assert decoder.decode_reports(list(batch)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["one coordinate", "two coordinates", "all coordinates", "odd sizes"])
def test_the_table_and_the_payloads_of_a_batch_give_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every payload of a channel decodes to the same bits with a table of all and with one of what occurs."""
    of = CAMPAIGNS[name]
    batch = every_payload(of)
    tabulated = BatchDecoder(of.levels[0].mechanism).decode(batch)
    monkeypatch.setattr(decoding, "_MOST_ENTRIES", 0)
    assert BatchDecoder(of.levels[0].mechanism).decode(batch).tobytes() == tabulated.tobytes()
    assert tabulated.tobytes() == naive.decoded(of, batch).tobytes()


@pytest.mark.parametrize("of", CAMPAIGNS.values(), ids=CAMPAIGNS)
def test_an_empty_batch_decodes_to_nothing(of: Campaign) -> None:
    """No reports make no gradients, of the right width."""
    assert BatchDecoder(of.levels[0].mechanism).decode(reports(of, 5)[:0]).shape == (
        0,
        of.levels[0].mechanism.p,
    )


@pytest.mark.parametrize("name", [name for name in CAMPAIGNS if "vectors" not in name])
@pytest.mark.parametrize("place", [0, 3, 8])
def test_the_first_payload_outside_the_alphabet_is_named(name: str, place: int) -> None:
    """A category beyond its block's alphabet, or a block that does not exist, is refused with its place."""
    of = CAMPAIGNS[name]
    channel = of.levels[0].mechanism
    assert isinstance(channel, FiniteChannel)
    for last in {0, channel.n_blocks - 1}:
        for block, category in [
            (last, channel.categories(last)),
            (channel.n_blocks, 0),
            (2**32 - 1, 2**16 - 1),
        ]:
            batch = reports(of, 9)
            assert batch.block is not None
            assert batch.category is not None
            batch.block[place:], batch.category[place:] = block, category
            message = (
                rf"reports\[{place}\]: block = {block}, category = {category}: outside the channel's alphabet"
            )
            with pytest.raises(InvalidReport, match=message):
                BatchDecoder(channel).check(batch)
            report = list(batch)[place]
            assert not BatchDecoder(channel).admits(report)
            assert f"block = {block}, category = {category}" in BatchDecoder(channel).refusal(report)


def test_the_last_payload_of_each_block_is_in_the_alphabet() -> None:
    """Every payload that the channel can make is admitted, one by one."""
    for name in ["one coordinate", "two coordinates", "odd sizes"]:
        of = CAMPAIGNS[name]
        decoder = BatchDecoder(of.levels[0].mechanism)
        assert all(decoder.admits(report) for report in every_payload(of))
