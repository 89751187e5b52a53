"""PrivUnitG: ratio of densities, mean and moments by quadrature, sampler against law."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from ldp_stream.channels.base import VectorPayload
from ldp_stream.channels.privunit import PrivUnitG
from ldp_stream.errors import InvalidInput
from tests.channels.comparison import MIDPOINTS, MIXED, contributions, sample

CHANNELS = {
    f"epsilon {epsilon:g}, {len(intervals)} slopes": PrivUnitG(epsilon, tau, intervals)
    for epsilon, tau, intervals in [
        (0.01, 0.5, MIDPOINTS),
        (1.0, 0.5, MIDPOINTS),
        (4.0, 0.8, MIXED),
        (12.0, 0.2, MIXED * 2),
        (2.0, 0.5, ()),
        (500.0, 0.5, MIDPOINTS),
    ]
}
every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS)


@every_channel
def test_densities_of_any_two_inputs_differ_by_at_most_epsilon(channel: PrivUnitG) -> None:
    """At reports of all kinds, corners and interior points: the log ratio is at most epsilon (1 + 1e-12)."""
    points = contributions(channel)
    drawn = np.random.default_rng(1).normal(size=(60, channel.p)) * channel.scale
    reports = [*drawn.tolist(), *(10 * channel.scale * np.array(points[:8])).tolist()]
    largest = 0.0
    for report in reports:
        densities = [channel.density(g, VectorPayload(tuple(report))) for g in points]
        largest = max(largest, math.log(max(densities) / min(densities)))
    assert largest <= channel.epsilon * (1 + 1e-12)
    cap = channel.cap
    assert math.log(cap.inside / cap.outside) == pytest.approx(min(channel.epsilon, 64.0), rel=1e-12)


def _pieces(channel: PrivUnitG, power: int) -> float:
    """Return E[A^power] by quadrature on both sides of gamma."""
    cap = channel.cap
    outside, inside = (
        integrate.quad(lambda x: x**power * stats.norm.pdf(x), *ends, epsabs=0, epsrel=1e-11)[0]
        for ends in ((-12.0, cap.gamma), (cap.gamma, cap.gamma + 15.0))
    )
    return float(cap.outside * outside + cap.inside * inside)


@pytest.mark.parametrize("channel", list(CHANNELS.values())[:-1], ids=list(CHANNELS)[:-1])
def test_mass_mean_and_square_of_the_law_are_those_stated(channel: PrivUnitG) -> None:
    """Quadrature: the density has mass 1, mean m (so decoding has mean v) and the stated mean square."""
    assert _pieces(channel, 0) == pytest.approx(1.0, rel=1e-8)
    assert _pieces(channel, 1) == pytest.approx(channel.cap.mean, rel=1e-7)
    assert _pieces(channel, 2) == pytest.approx(channel.cap.square, rel=1e-8)
    assert channel.scale * channel.cap.mean == pytest.approx(channel.radius, rel=1e-14)


@every_channel
def test_the_split_is_nearly_the_best(channel: PrivUnitG) -> None:
    """No split of 1,000 has a mean square that is 1% smaller."""
    epsilon, kind = min(channel.epsilon, 64.0), type(channel.cap)
    caps = [kind(epsilon * i / 1000, epsilon - epsilon * i / 1000) for i in range(1001)]
    best = min((channel.p - 1 + cap.square) / cap.mean**2 for cap in caps)
    assert (channel.p - 1 + channel.cap.square) / channel.cap.mean**2 < 1.01 * best


def _along(channel: PrivUnitG, corner: list[float], n: int, seed: int) -> list[float]:
    """Return <V, v> of reports from a contribution of the largest length, whose v is its direction."""
    direction = np.array(corner) / np.linalg.norm(corner)
    return list(sample(channel, corner, n, seed) @ direction / channel.scale)


def _cdf(channel: PrivUnitG, x: np.ndarray[tuple[int], np.dtype[np.float64]]) -> object:
    cap = channel.cap
    below = cap.outside * stats.norm.cdf(np.minimum(x, cap.gamma))
    return below + cap.inside * (stats.norm.cdf(np.maximum(x, cap.gamma)) - stats.norm.cdf(cap.gamma))


@pytest.mark.parametrize("channel", list(CHANNELS.values())[1:4], ids=list(CHANNELS)[1:4])
def test_the_sampler_follows_the_law_and_no_other(channel: PrivUnitG) -> None:
    """Kolmogorov-Smirnov along v accepts the law and rejects another epsilon's; across v it is normal."""
    corner = max(contributions(channel), key=lambda g: math.hypot(*g))
    drawn = _along(channel, corner, 6000, 3)
    assert stats.kstest(drawn, lambda x: _cdf(channel, x)).pvalue > 1e-3
    other = PrivUnitG(channel.epsilon * 0.5, channel.tau, channel.intervals)
    assert stats.kstest(drawn, lambda x: _cdf(other, x)).pvalue < 1e-3
    across = np.zeros(channel.p)
    across[:2] = corner[1], -corner[0]
    rest = sample(channel, corner, 6000, 4) @ across / np.linalg.norm(across) / channel.scale
    assert stats.kstest(rest, stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(1.1 * rest, stats.norm.cdf).pvalue < 1e-3


@pytest.mark.parametrize("intervals", [MIDPOINTS, MIXED, ((-1.0, 1.0), (-0.001, 1.0)), ((-0.01, 0.005),)])
def test_mean_shares_are_those_of_a_lattice(intervals: tuple[tuple[float, float], ...]) -> None:
    """E[x_j^2/(1 + sum x^2)] agrees with the midpoint rule on a lattice of the slopes to 1e-3."""
    channel = PrivUnitG(2.0, 0.5, intervals)
    steps = (np.arange(60) + 0.5) / 60
    axes = [low + (high - low) * steps for low, high in intervals]
    squares = np.array([[1.0, *(x * x for x in row)] for row in itertools.product(*axes)])
    shares = (squares / squares.sum(axis=1, keepdims=True)).mean(axis=0)
    expected = channel.scale**2 * (1 + (channel.cap.square - 1) * shares)
    assert channel.second_moments == pytest.approx(expected.tolist(), rel=1e-3)
    total = math.fsum(channel.second_moments)
    assert total == pytest.approx(channel.worst_second_moment, rel=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1e-7}, "epsilon"),
        ({"tau": 1.0}, "tau"),
        ({"intervals": ((0.5, 1.0),)}, "intervals"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, object], message: str) -> None:
    """The message names the parameter."""
    with pytest.raises(InvalidInput, match=message):
        PrivUnitG(**{"epsilon": 1.0, "tau": 0.5, "intervals": (), **changes})  # type: ignore[arg-type]
