"""The CQX channel as a value: its design, what it refuses, its second moments, its sampler's frequencies."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from scipy.stats import chi2

from ldp_stream.channels.base import CategoryPayload
from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.randomized_response import RandomizedResponse
from ldp_stream.client.entropy import SimulatedEntropy, SystemEntropy
from ldp_stream.errors import InvalidInput
from tests.channels.configurations import CHANNELS, FROM_ZERO, MIDPOINT, TO_ZERO, UNEVEN
from tests.channels.enumeration import Law, contribution, inputs, stated_law

every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)


# ---------------------------------------------------------------------- the sampler, by its frequencies


def _p_value(counts: Counter[CategoryPayload], law: Law) -> float:
    """Return the chi-square p-value of counts of whole payloads (block, category) under a law."""
    n = sum(counts.values())
    expected = {payload: n * float(chance) for payload, chance in law.items()}
    statistic = sum(
        (counts[CategoryPayload(*payload)] - mean) ** 2 / mean for payload, mean in expected.items()
    )
    return float(chi2.sf(statistic, len(expected) - 1))


def _tilted(law: Law) -> Law:
    """Return the law with every other payload 2% more likely and the rest 2% less."""
    weights = {
        payload: chance * Fraction(102 if sum(payload) % 2 else 98, 100) for payload, chance in law.items()
    }
    total = sum(weights.values())
    return {payload: weight / total for payload, weight in weights.items()}


def _less_kept(channel: CQX, g: list[float]) -> Law:
    """Return the law that the channel would have if the truth were kept 2% less often."""
    chances: dict[tuple[int, int], Fraction] = {}
    for (block, category), chance in stated_law(channel, g).items():
        response = RandomizedResponse(channel.epsilon, channel.categories(block))
        truth = (chance * channel.n_blocks - response.rho) / (response.pi - response.rho)
        pi = response.pi * Fraction(98, 100)
        rho = (1 - pi) / (response.categories - 1)
        chances[block, category] = (rho + (pi - rho) * truth) / channel.n_blocks
    return chances


@pytest.mark.parametrize(
    ("name", "face", "share", "n"),
    [
        ("no features", 1, 0.0, 100_000),
        ("worked example", 0, 0.3, 150_000),
        ("one one-sided feature, whole block", 1, 0.7, 120_000),
        ("extreme level, mixed centres", 0, 0.85, 150_000),
        ("pairs, mixed centres", 1, 0.6, 200_000),
    ],
)
def test_the_sampler_follows_the_law(name: str, face: int, share: float, n: int) -> None:
    """Whole payloads drawn with a fixed seed fit the stated law, and neither of two laws off by 2%."""
    channel = CHANNELS[name]
    g = contribution(channel.tau, face, [low + share * (high - low) for low, high in channel.intervals])
    entropy = SimulatedEntropy(11)
    counts = Counter(channel.privatize(g, entropy) for _ in range(n))
    law = stated_law(channel, g)
    assert set(counts) == {CategoryPayload(*payload) for payload in law}
    assert _p_value(counts, law) > 0.01
    assert _p_value(counts, _tilted(law)) < 1e-4
    assert _p_value(counts, _less_kept(channel, g)) < 1e-4


class _Recorder:
    """Passes draws on and notes which were asked for."""

    def __init__(self, seed: int) -> None:
        self.entropy = SimulatedEntropy(seed)
        self.asked: list[int] = []

    def bits(self, k: int, /) -> int:
        """Return k bits and note k."""
        self.asked.append(k)
        return self.entropy.bits(k)

    def below(self, n: int, /) -> int:
        """Return a number of [0, n) by rejection, noting every try."""
        while (value := self.bits((n - 1).bit_length())) >= n:
            pass
        return value


@pytest.mark.parametrize("name", ["worked example", "pairs, three points", "triples", "whole block"])
def test_how_much_entropy_is_used_depends_on_the_entropy_alone(name: str) -> None:
    """With rejections counted, equal random bits mean equal requests for bits, whatever the record."""
    channel = CHANNELS[name]
    records = [
        contribution(channel.tau, face, [low + share * (high - low) for low, high in channel.intervals])
        for face, share in itertools.product((0, 1), (0.0, 0.31, 1.0))
    ]
    lengths = set()
    for seed in range(200):
        recorders = [_Recorder(seed) for _ in records]
        payloads = [channel.privatize(g, random) for g, random in zip(records, recorders, strict=True)]
        assert len({tuple(recorder.asked) for recorder in recorders}) == 1
        assert len({payload.block for payload in payloads}) == 1
        lengths.add(len(recorders[0].asked))
    assert len(lengths) > 1 or channel.n_blocks == 1  # rejections do occur


# ---------------------------------------------------------------------- second moments


def _integrated(channel: CQX) -> list[float]:
    """Return E g~_j^2 with P(f = 1) = tau and uniform slopes, from ``law`` and ``decode`` alone.

    The law of a category is piecewise linear in each slope, with kinks at the grid points, so the trapezoid
    rule on the kinks is exact. Coordinate j's moment does not depend on the other slopes, which stay at a
    corner.
    """
    moments = [0.0] * channel.p
    for face, weight in ((0, 1 - channel.tau), (1, channel.tau)):
        for j in range(channel.p):
            for g, share in _trapezoid(channel, face, j):
                for (block, category), chance in stated_law(channel, g).items():
                    coordinates, values = channel.decode(CategoryPayload(block, category))
                    if j in coordinates:
                        moments[j] += weight * share * float(chance) * values[coordinates.index(j)] ** 2
    return moments


def _trapezoid(channel: CQX, face: int, j: int) -> list[tuple[list[float], float]]:
    """Return contributions and weights that integrate over slope j of one face."""
    corner = contribution(channel.tau, face, [upper for _, upper in channel.intervals])
    if j == 0:
        return [(corner, 1.0)]
    lower, upper = channel.intervals[j - 1]
    a = corner[0]
    own = min(a * lower, a * upper), max(a * lower, a * upper)
    anchor = channel.anchors[j - 1]
    ends = [
        b * (end - anchor) + a * anchor for b in (-channel.tau, 1 - channel.tau) for end in (lower, upper)
    ]
    kinks = {own[0], own[1]}
    for low, high in (own, (min(ends), max(ends))):
        kinks |= {low + k * (high - low) / (channel.q - 1) for k in range(channel.q)}
    inside = sorted(kink for kink in kinks if own[0] <= kink <= own[1])
    nodes: defaultdict[float, float] = defaultdict(float)
    for left, right in itertools.pairwise(inside):
        nodes[left] += (right - left) / (own[1] - own[0]) / 2
        nodes[right] += (right - left) / (own[1] - own[0]) / 2
    return [([*corner[:j], node, *corner[j + 1 :]], share) for node, share in nodes.items()]


@every_channel
def test_second_moments_are_the_integral_of_law_and_decoder(channel: CQX) -> None:
    """Exact integration over both faces and uniform slopes gives each coordinate's to 1e-9."""
    assert channel.second_moments == pytest.approx(_integrated(channel), rel=1e-9)
    assert channel.second_moment == pytest.approx(math.fsum(channel.second_moments) / channel.p, rel=1e-14)


@every_channel
def test_the_worst_second_moment_is_the_largest_of_the_support(channel: CQX) -> None:
    """By enumeration, E ||g~||^2 reaches it at a corner and exceeds it nowhere."""
    corners = [
        contribution(channel.tau, face, row)
        for face in (0, 1)
        for row in itertools.product(*channel.intervals)
    ]
    found = []
    for g in [*corners, *inputs(channel, interior=3, corners=0)[::3]]:
        moment = 0.0
        for (block, category), chance in stated_law(channel, g).items():
            _, values = channel.decode(CategoryPayload(block, category))
            moment += float(chance) * math.fsum(value * value for value in values)
        found.append(moment)
    assert max(found) == pytest.approx(channel.worst_second_moment, rel=1e-9)
    assert max(found[: len(corners)]) == pytest.approx(channel.worst_second_moment, rel=1e-9)


@pytest.mark.parametrize("d", [0, 1, 3, 10])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_second_moments_of_vertex_grids_in_closed_form(d: int, epsilon: float) -> None:
    """With midpoints, tau = 1/2, q = 2, s = 1 all are (d + 1) ((e^eps + 1)/(e^eps - 1))^2/4."""
    channel = CQX(epsilon, 0.5, (MIDPOINT,) * d, q=2, s=1)
    expected = (d + 1) / 4 / math.tanh(epsilon / 2) ** 2
    assert channel.second_moments == pytest.approx([expected] * (d + 1), rel=1e-12)


def test_the_worked_value_of_the_second_moment() -> None:
    """At d = 3, midpoints, tau = .5, epsilon = 1, CQX(2, 1) it is v = 4.683."""
    assert CHANNELS["worked example"].second_moment == pytest.approx(4.683, abs=5e-4)


# ---------------------------------------------------------------------- the public design


@every_channel
def test_the_design_counts_blocks_and_categories(channel: CQX) -> None:
    """Of C(p, s) blocks the first C(p - 1, s - 1) have the intercept and K = 2 q^(s-1), the others q^s."""
    assert channel.p == len(channel.intervals) + 1
    assert channel.n_blocks == math.comb(channel.p, channel.s)
    assert channel.intercept_blocks == sum(
        channel.coordinates(block)[0] == 0 for block in range(channel.n_blocks)
    )
    for block in range(channel.n_blocks):
        with_intercept = channel.coordinates(block)[0] == 0
        assert with_intercept == (block < channel.intercept_blocks)
        expected = 2 * channel.q ** (channel.s - 1) if with_intercept else channel.q**channel.s
        assert channel.categories(block) == expected


def test_decoding_needs_a_block_and_a_category_only() -> None:
    """Equal payloads decode to the very same value, also beyond what is remembered."""
    channel = CHANNELS["pairs, mixed centres"]
    again = copy.deepcopy(channel)
    for block in range(channel.n_blocks):
        for category in range(channel.categories(block)):
            payload = CategoryPayload(block, category)
            assert channel.decode(payload) == channel.decode(payload) == again.decode(payload)


def test_a_channel_is_a_frozen_value() -> None:
    """Equal parameters make equal channels, which hash, copy and pickle as such, and cannot be changed."""
    channel = CQX(1.0, 0.5, (MIDPOINT, FROM_ZERO), 2, 2)
    same = CQX(1.0, 0.5, (MIDPOINT, FROM_ZERO), 2, 2)
    assert channel == same == pickle.loads(pickle.dumps(channel))
    assert hash(channel) == hash(same)
    assert channel != CQX(1.0, 0.5, (FROM_ZERO, MIDPOINT), 2, 2)
    with pytest.raises(FrozenInstanceError):
        channel.epsilon = 9.0  # type: ignore[misc]


def test_the_face_is_read_from_the_intercept_coordinate() -> None:
    """At a huge epsilon the intercept's category is the face and the slopes' decoded signs are those of g."""
    channel = CQX(300.0, 0.9, (MIDPOINT, FROM_ZERO), q=2, s=3)
    for face, slopes in itertools.product((0, 1), itertools.product((-1.0, 1.0), (0.0, 1.0))):
        g = contribution(0.9, face, slopes)
        decoded = channel.decode(channel.privatize(g, SystemEntropy()))
        assert decoded.coordinates == (0, 1, 2)
        assert decoded.values == pytest.approx(g, abs=1e-15)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CQX(0.0, 0.5, ()), "epsilon = 0"),
        (lambda: CQX(-1.0, 0.5, ()), "epsilon = -1"),
        (lambda: CQX(math.inf, 0.5, ()), "epsilon = inf"),
        (lambda: CQX(math.nan, 0.5, ()), "epsilon = nan"),
        (lambda: CQX(1.0, 0.0, ()), "tau = 0"),
        (lambda: CQX(1.0, 1.0, ()), "tau = 1"),
        (lambda: CQX(1.0, math.nan, ()), "tau = nan"),
        (lambda: CQX(1.0, 0.5, ((1.0, -1.0),)), r"intervals\[0\]"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT, (0.1, 1.0))), r"intervals\[1\]"),
        (lambda: CQX(1.0, 0.5, ((-1.1, 1.0),)), r"intervals\[0\]"),
        (lambda: CQX(1.0, 0.5, ((0.0, 0.0),)), r"intervals\[0\]"),
        (lambda: CQX(1.0, 0.5, ((math.nan, 1.0),)), r"intervals\[0\]"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,), q=1), "q = 1"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,), q=70_000), "q = 70000"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,), s=0), "s = 0"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,), s=3), "s = 3: must be a whole number from 1 to 2"),
        (lambda: CQX(1.0, 0.5, (), s=2), "s = 2: must be a whole number from 1 to 1"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 16, q=2, s=17), r"more than 2\^16 categories"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 3, q=257, s=2), r"more than 2\^16 categories"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 1200, q=65536, s=1000), r"more than 2\^16 categories"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 500, q=2, s=8), r"blocks of 501 coordinates, at most 2\^32"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 3, intercept=0.0), "intercept = 0"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 3, intercept=1e-20), "intercept = 1e-20"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 3, s=2, intercept=1.5), "intercept = 1.5"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,) * 3, s=2, intercept=math.nan), "intercept = nan"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,), s=2, intercept=0.5), "intercept = 0.5: must be 1"),
        (lambda: CQX(1.0, 0.5, (MIDPOINT,), s=1, intercept=1.0), "intercept = 1.0: must be below 1"),
        (lambda: CQX(1e-18, 0.5, (MIDPOINT,) * 3, q=16, s=3), "too small for the integer sampler"),
    ],
)
def test_nonsense_is_refused(make: Callable[[], CQX], message: str) -> None:
    """The error names the parameter, its value and what is allowed."""
    with pytest.raises(InvalidInput, match=message):
        make()


def test_the_limits_themselves_are_allowed() -> None:
    """2^16 categories in a block of each kind, a one-sided interval on either side, nearly 2^32 blocks."""
    assert CQX(1.0, 0.5, (FROM_ZERO, TO_ZERO, UNEVEN), q=256, s=2).categories(3) == 1 << 16
    assert CQX(1.0, 0.5, (MIDPOINT,) * 15, q=2, s=16).categories(0) == 1 << 16
    channel = CQX(1.0, 0.5, (MIDPOINT,) * 567, q=2, s=4)
    assert 4.2e9 < channel.n_blocks <= 1 << 32
    assert channel.coordinates(channel.n_blocks - 1) == (564, 565, 566, 567)
    payload = channel.privatize(contribution(0.5, 1, [0.5] * 567), SimulatedEntropy(1))
    assert len(channel.decode(payload).values) == 4
