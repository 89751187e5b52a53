"""The CQX channel by exact enumeration: its law, its privacy, its public blocks, its unbiased decoder.

The same checks are then given wrong channels, which they must reject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from ldp_stream.channels.base import CategoryPayload, Decoded, RandomBits
from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.randomized_response import RESOLUTION_BITS, RandomizedResponse
from tests.channels.configurations import CHANNELS, FROM_ZERO, MIDPOINT, TO_ZERO
from tests.channels.enumeration import (
    Vector,
    check_private,
    check_public_blocks,
    check_total,
    check_unbiased,
    contribution,
    enumerate_sampler,
    inputs,
    public_blocks,
    sampled_law,
    stated_law,
)
from tests.channels.reference import Reference

every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
SMALL = {name: channel for name, channel in CHANNELS.items() if channel.q**channel.s < 20}
every_small_channel = pytest.mark.parametrize("channel", SMALL.values(), ids=SMALL)


def _reference(channel: CQX) -> Reference:
    return Reference(
        channel.epsilon,
        channel.tau,
        channel.intervals,
        channel.q,
        channel.s,
        channel.intercept,
        channel.shear,
    )


# ---------------------------------------------------------------------- what the channel states


@every_channel
def test_the_stated_law_is_private_and_decoded_without_bias(channel: CQX) -> None:
    """At corners, interior and grid points: sum 1, ratio <= e^epsilon exactly, mean g to 1e-12."""
    points = inputs(channel)
    laws = [stated_law(channel, g) for g in points]
    check_total(laws)
    check_public_blocks(laws, public_blocks(channel))
    check_private(laws, channel.epsilon)
    check_unbiased(zip(points, laws, strict=True), channel.decode, channel.p)


@every_channel
def test_the_privacy_is_used_up(channel: CQX) -> None:
    """The worst ratio is pi/rho itself, so the channel adds no more noise than epsilon asks for."""
    laws = [stated_law(channel, g) for g in inputs(channel)]
    responses = [RandomizedResponse(channel.epsilon, channel.categories(b)) for b in public_blocks(channel)]
    assert check_private(laws, channel.epsilon) == max(r.pi / r.rho for r in responses)


@every_channel
def test_the_stated_law_is_the_definition(channel: CQX) -> None:
    """Every probability agrees with the slow reference to 1e-14, category by category."""
    reference = _reference(channel)
    for g in inputs(channel, interior=2, corners=4)[::3]:
        for number, block in enumerate(reference.blocks):
            stated = channel.law(g, number)
            assert len(stated) == channel.categories(number)
            assert channel.coordinates(number) == block
            for mine, theirs in zip(stated, reference.law(g, block), strict=True):
                assert abs(float(mine - theirs)) < 1e-14


@every_channel
def test_decoded_values_are_the_definition_rounded_once(channel: CQX) -> None:
    """Every decoded value is the reference's, but for 4 2^-53 in a grid point, divided like it."""
    reference = _reference(channel)
    smallest = min(map(reference.inclusion, range(channel.p)))
    for number, block in enumerate(reference.blocks):
        pi, rho = reference.chances(channel.categories(number))
        allowed = 4 * 2.0**-53 / float((pi - rho) * smallest)
        for category in range(channel.categories(number)):
            coordinates, values = channel.decode(CategoryPayload(number, category))
            decoded = dict(zip(coordinates, values, strict=True))
            assert set(coordinates) >= set(block)
            for j, theirs in enumerate(reference.decode(block, category)):
                assert abs(float(Fraction(decoded.get(j, 0.0)) - theirs)) <= allowed


DYADIC = {
    name: channel for name, channel in CHANNELS.items() if channel.tau in (0.25, 0.5, 0.75) and channel.q < 5
}


@pytest.mark.parametrize("channel", DYADIC.values(), ids=DYADIC)
def test_the_definition_is_exactly_unbiased(channel: CQX) -> None:
    """In rationals, with the rounded pi, the decoded mean is g itself: no tolerance at any epsilon."""
    reference = _reference(channel)
    for face in (0, 1):
        slopes = [lower + (upper - lower) * 0.375 for lower, upper in channel.intervals]
        slopes = [round(64 * slope) / 64 for slope in slopes]  # so that g is a product without rounding
        g = contribution(channel.tau, face, slopes)
        mean = [Fraction(0)] * channel.p
        for number, share in public_blocks(channel).items():
            block = reference.blocks[number]
            for category, chance in enumerate(reference.law(g, block)):
                for j, value in enumerate(reference.decode(block, category)):
                    mean[j] += share * chance * value
        assert mean == list(map(Fraction, g))


def test_the_largest_alphabet_is_private() -> None:
    """The law sums to 1 and is private with K = 2^16, the most that is allowed, in a block of 16."""
    channel = CQX(6.0, 0.8, (MIDPOINT, FROM_ZERO, TO_ZERO) * 5, q=2, s=16)
    assert channel.categories(0) == 1 << 16
    ends = [upper for _, upper in channel.intervals]
    laws = [
        stated_law(channel, contribution(0.8, face, slopes))
        for face, slopes in ((1, [*ends[:-1], -0.7]), (0, ends))
    ]
    check_total(laws)
    check_private(laws, channel.epsilon)


def test_a_large_block_is_unbiased() -> None:
    """The decoded mean is g to 1e-12 with K = 2^10 categories in one block of 10 coordinates."""
    channel = CQX(6.0, 0.8, (MIDPOINT, FROM_ZERO, TO_ZERO) * 3, q=2, s=10)
    points = inputs(channel, corners=1, interior=1)[::7]
    check_unbiased(((g, stated_law(channel, g)) for g in points), channel.decode, channel.p)


def test_a_wide_channel_by_one_block_of_each_class() -> None:
    """With 24 features of three kinds, blocks of the same intervals behave alike: one of each is enough."""
    channel = CQX(3.0, 0.85, (MIDPOINT, FROM_ZERO, TO_ZERO) * 8, q=2, s=3)
    classes: dict[tuple[object, ...], int] = {}
    for block in range(channel.n_blocks):
        kinds = [channel.intervals[j - 1] if j else "intercept" for j in channel.coordinates(block)]
        classes.setdefault(tuple(kinds), block)
    assert len(classes) == 3**3 + 3**2
    points = inputs(channel, corners=1, interior=3)
    for block in classes.values():
        laws = [stated_law(channel, g, only=block) for g in points]
        check_total(laws)
        check_private(laws, channel.epsilon)
        inside = channel.coordinates(block)
        weighted = [
            [g[j] * channel.p / channel.s if j in inside else 0.0 for j in range(channel.p)] for g in points
        ]
        check_unbiased(zip(weighted, laws, strict=True), channel.decode, channel.p)


def test_a_very_fine_grid_is_private_and_unbiased() -> None:
    """The same holds with one slope on a grid of 2^12 points."""
    channel = CQX(9.0, 0.5, (FROM_ZERO,), q=1 << 12, s=1)
    points = [[0.5, 0.123], [-0.5, -0.4999]]
    laws = [stated_law(channel, g) for g in points]
    check_total(laws)
    check_private(laws, channel.epsilon)
    check_unbiased([(points[0], laws[0])], channel.decode, channel.p)


# ---------------------------------------------------------------------- what the sampler does


@every_small_channel
def test_the_sampler_has_exactly_the_stated_law(channel: CQX) -> None:
    """Followed along every branch of its draws, the sampler has the stated law, rational for rational."""
    for g in inputs(channel, interior=2, corners=2)[::4]:
        sampled = sampled_law(channel, g)
        stated = {payload: chance for payload, chance in stated_law(channel, g).items() if chance}
        assert sampled == stated


@every_small_channel
def test_draws_do_not_depend_on_the_record(channel: CQX) -> None:
    """Block, one draw a slope, keep or not, which other: every input and branch of a block asks the same."""
    found: dict[int, set[tuple[str, ...]]] = {}
    for g in inputs(channel, interior=2, corners=2)[::4]:
        for block, draws in enumerate_sampler(channel, g).draws.items():
            found.setdefault(block, set()).update(draws)
    for block, asked in found.items():
        slopes = sum(j > 0 for j in channel.coordinates(block))
        rounding = (f"bits({RESOLUTION_BITS})",) * slopes
        response = (f"bits({RESOLUTION_BITS})", f"below({channel.categories(block) - 1})")
        if channel.intercept is None:
            design = [f"below({channel.n_blocks})"]
        else:
            first = channel.intercept_blocks
            count = first if block < first else channel.n_blocks - first
            design = [f"bits({RESOLUTION_BITS})", f"below({count})"]
        assert asked == {(*design, *rounding, *response)}


# ---------------------------------------------------------------------- wrong decoders are rejected


def _wrong(channel: CQX, **mistake: Any) -> Callable[..., Decoded]:
    """Return the reference's decoder with a mistake in it."""
    reference = _reference(channel)

    def decode(payload: CategoryPayload) -> Decoded:
        values = reference.decode(channel.coordinates(payload.block), payload.category, **mistake)
        return Decoded(tuple(range(channel.p)), tuple(map(float, values)))

    return decode


ONE_SIDED = CHANNELS["pairs, mixed centres"]


def _check_decoder(channel: CQX, decode: Callable[..., Decoded]) -> None:
    check_unbiased(((g, stated_law(channel, g)) for g in inputs(channel)), decode, channel.p)


def test_the_reference_decoder_passes() -> None:
    """Without a mistake, the decoder that the next tests break passes the check."""
    _check_decoder(ONE_SIDED, _wrong(ONE_SIDED))


def test_a_decoder_that_forgets_the_sum_over_categories_is_rejected() -> None:
    """Leaving out rho V is seen where an interval is one-sided, or the level is not 1/2."""
    with pytest.raises(AssertionError, match="decoded mean is off"):
        _check_decoder(ONE_SIDED, _wrong(ONE_SIDED, forget_total=True))


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(1_000_000_001, 1_000_000_000)])
def test_a_decoder_with_wrong_inclusion_probabilities_is_rejected(factor: Fraction) -> None:
    """Dividing by a w that is wrong, even by one part in 10^9, is seen."""
    with pytest.raises(AssertionError, match="decoded mean is off"):
        _check_decoder(ONE_SIDED, _wrong(ONE_SIDED, factor=factor))


def test_a_decoder_that_forgets_the_anchor_is_rejected() -> None:
    """Leaving out r_j g~_0 of a sheared channel is seen."""
    channel = CHANNELS["sheared"]
    _check_decoder(channel, _wrong(channel))
    with pytest.raises(AssertionError, match="decoded mean is off"):
        _check_decoder(channel, _wrong(channel, forget_anchor=True))


# ---------------------------------------------------------------------- leaky channels are rejected


@dataclass(frozen=True)
class _Leaky:
    """The real channel with another way to make a payload."""

    channel: CQX
    make: Callable[[CQX, Vector, RandomBits], CategoryPayload]

    def privatize(self, g: Vector, random: RandomBits) -> CategoryPayload:
        """Return a payload that tells too much."""
        return self.make(self.channel, g, random)


def _more_likely_kept(channel: CQX, keep: Callable[[int], int]) -> CQX:
    """Return the channel with another integer T of pi = T/2^62, in sampler and law."""
    changed = replace(channel)
    responses = [RandomizedResponse(channel.epsilon, response.categories) for response in channel._responses]
    for response in responses:
        vars(response)["keep"] = keep(response.keep)
    vars(changed)["_responses"] = tuple(responses)
    return changed


@pytest.mark.parametrize("name", ["worked example", "pairs, mixed centres", "tiny epsilon", "whole block"])
def test_a_pi_rounded_up_is_rejected(name: str) -> None:
    """One more in 2^62 for the true category breaks the guarantee, and both laws show it."""
    channel = _more_likely_kept(CHANNELS[name], lambda keep: keep + 1)
    points = inputs(channel)
    for law_of in (stated_law, sampled_law):
        laws = [law_of(channel, g) for g in points[:: 1 if law_of is stated_law else 5]]
        check_total(laws)
        check_public_blocks(laws, public_blocks(channel))
        with pytest.raises(AssertionError, match=r"the ratio .* is above e"):
            check_private(laws, channel.epsilon)


def test_a_category_that_reveals_the_face_is_rejected() -> None:
    """A face that skips randomized response makes payloads that only one of two users can send."""

    def make(channel: CQX, g: Vector, random: RandomBits) -> CategoryPayload:
        block, category = channel.privatize(g, random)
        if channel.coordinates(block)[0] == 0:
            per_face = channel.categories(block) // 2
            category = category % per_face + per_face * int(g[0] > 0)
        return CategoryPayload(block, category)

    laws = [sampled_law(_Leaky(ONE_SIDED, make), g) for g in inputs(ONE_SIDED)[::5]]
    check_total(laws)
    with pytest.raises(AssertionError, match="impossible for some inputs"):
        check_private(laws, ONE_SIDED.epsilon)


def test_two_reports_are_rejected_at_the_budget_of_one() -> None:
    """Sending the more positive of two independent reports spends more than epsilon."""

    def make(channel: CQX, g: Vector, random: RandomBits) -> CategoryPayload:
        block = random.below(channel.n_blocks)
        response = RandomizedResponse(channel.epsilon, channel.categories(block))
        return CategoryPayload(block, max(response.draw(int(g[0] > 0), random) for _ in range(2)))

    channel = CHANNELS["no features"]
    laws = [sampled_law(_Leaky(channel, make), g) for g in inputs(channel)]
    with pytest.raises(AssertionError, match=r"the ratio .* is above e"):
        check_private(laws, channel.epsilon)


def test_a_block_chosen_by_the_data_is_rejected() -> None:
    """Preferring, on one face, the blocks with the intercept is seen in the blocks' law and in the ratio."""

    def make(channel: CQX, g: Vector, random: RandomBits) -> CategoryPayload:
        while True:
            payload = channel.privatize(g, random)
            if g[0] > 0 or payload.block == 0 or random.below(2):
                return payload
            random = _Once(random)

    channel = CHANNELS["one midpoint feature"]
    laws = [sampled_law(_Leaky(channel, make), g) for g in inputs(channel)]
    check_total(laws)
    with pytest.raises(AssertionError, match="the block depends"):
        check_public_blocks(laws, public_blocks(channel))
    with pytest.raises(AssertionError, match=r"the ratio .* is above e"):
        check_private(laws, channel.epsilon)


@dataclass(frozen=True)
class _Once:
    """Draws as before, except that the block is 0 now, so that the enumeration ends."""

    random: RandomBits

    def bits(self, k: int, /) -> int:
        """Return bits as before."""
        return self.random.bits(k)

    def below(self, n: int, /) -> int:
        """Return 0, the block with the intercept."""
        del n
        return 0
