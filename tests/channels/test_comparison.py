"""One conformance suite for all kinds of channels: mean, moments, ranges, and the same draws from a seed.

Privacy and laws are proved for each kind by what fits it: enumeration of a finite law (``test_conformance``
for CQX, ``test_face_exponential``), whole-number distances (``test_laplace``), enumeration of cells
(``test_scalar``), a density's ratio (``test_privunit``).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from ldp_stream.channels.base import CategoryPayload, VectorPayload
from ldp_stream.channels.face_exponential import FaceExponential
from ldp_stream.channels.kinds import FiniteChannel, Mechanism
from ldp_stream.channels.no_privacy import NoPrivacy
from ldp_stream.client.entropy import SimulatedEntropy
from tests.channels.comparison import (
    BIASED,
    CHANNELS,
    UNBIASED,
    contributions,
    dense,
    sample,
    support,
    typical,
)

every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)
N = 2000


def _z_scores(channel: Mechanism, mean: list[float], g: list[float], seed: int) -> float:
    """Return the largest distance of a sample's means from ``mean``, in standard errors."""
    rows = sample(channel, g, N, seed)
    errors = np.maximum(rows.std(axis=0), 1e-9) / math.sqrt(N)
    return float(np.max(np.abs(rows.mean(axis=0) - mean) / errors))


@pytest.mark.parametrize("name", UNBIASED)
def test_decoded_reports_have_the_contribution_as_their_mean(name: str) -> None:
    """Within 4.5 standard errors at a corner of each face and inside; a mean 12 errors off is rejected."""
    channel = UNBIASED[name]
    points = contributions(channel, interior=1)
    for seed, g in enumerate([points[0], points[-2], points[-1]]):
        assert _z_scores(channel, g, g, seed) < 4.5
    if not isinstance(channel, NoPrivacy):
        off = 12 * sample(channel, g, N, 9).std(axis=0) / math.sqrt(N)
        assert _z_scores(channel, (np.array(g) + off).tolist(), g, 9) > 4.5


@pytest.mark.parametrize("name", BIASED)
def test_a_biased_channel_states_its_bias(name: str) -> None:
    """A sample's mean is g plus the stated shift, and not g."""
    channel = BIASED[name]
    for seed, g in enumerate(contributions(channel, interior=1)[-2:]):
        shift = channel.mean_shift(g)
        assert _z_scores(channel, [x + s for x, s in zip(g, shift, strict=True)], g, seed) < 4.5
        assert _z_scores(channel, g, g, seed) > 6


@every_channel
def test_second_moments_are_those_of_the_convention(channel: Mechanism) -> None:
    """Reports of contributions with P(f = 1) = tau and uniform slopes have the stated mean squares."""
    entropy = SimulatedEntropy(5)
    squares = (
        np.array(
            [
                dense(channel, channel.decode(channel.privatize(g, entropy)))  # type: ignore[arg-type]
                for g in typical(channel, 3 * N, 6).tolist()
            ]
        )
        ** 2
    )
    errors = np.maximum(squares.std(axis=0) / math.sqrt(len(squares)), 1e-3 * squares.mean(axis=0))
    assert np.all(np.abs(squares.mean(axis=0) - channel.second_moments) < 4.5 * errors)
    assert channel.second_moment == pytest.approx(np.mean(channel.second_moments), rel=1e-12)


WITH_WORST = {name: channel for name, channel in CHANNELS.items() if hasattr(channel, "worst_second_moment")}


@pytest.mark.parametrize("name", WITH_WORST)
def test_no_contribution_has_a_larger_mean_square(name: str) -> None:
    """At every corner and inside a sample's E||g~||^2 is at most the stated one, reached at one."""
    channel = WITH_WORST[name]
    stated = channel.worst_second_moment
    largest, error = 0.0, 0.0
    for seed, g in enumerate(contributions(channel, interior=2)):
        lengths = (sample(channel, g, N // 4, seed) ** 2).sum(axis=1)
        own = float(lengths.std()) / math.sqrt(len(lengths))
        assert lengths.mean() < stated * (1 + 1e-9) + 4.5 * own
        if lengths.mean() > largest:
            largest, error = float(lengths.mean()), own
    if not isinstance(channel, FaceExponential):  # its statement is a bound
        assert largest > stated * (1 - 1e-6) - 4.5 * error


@every_channel
def test_payloads_are_in_the_range_that_a_server_takes(channel: Mechanism) -> None:
    """Categories lie below the alphabet's size, values within the limits, at every corner."""
    entropy = SimulatedEntropy(3)
    for g in contributions(channel):
        for _ in range(20):
            payload = channel.privatize(g, entropy)
            if isinstance(channel, FiniteChannel):
                assert isinstance(payload, CategoryPayload)
                assert payload.block < channel.n_blocks
                assert payload.category < channel.categories(payload.block)
            else:
                assert isinstance(payload, VectorPayload)
                assert len(payload.values) == len(channel.limits) == channel.p
                assert all(abs(x) <= limit for x, limit in zip(payload.values, channel.limits, strict=True))


@every_channel
def test_a_seed_fixes_the_report(channel: Mechanism) -> None:
    """Equal channels and seeds give equal payloads, another seed another, unless nothing is drawn."""
    g = contributions(channel)[-1]
    payloads = [
        [channel.privatize(g, entropy) for _ in range(40)] for entropy in map(SimulatedEntropy, (1, 1, 2))
    ]
    assert payloads[0] == payloads[1]
    assert (payloads[0] == payloads[2]) == isinstance(channel, NoPrivacy)
    assert support(channel).p == channel.p
