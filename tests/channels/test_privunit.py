"""PrivUnitG: its law is private without reservation and unbiased; the device's sampler follows it."""

from __future__ import annotations

import math
from itertools import permutations
from random import Random

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import kstest, norm

from ldp_stream.channels.base import RandomBits, VectorPayload
from ldp_stream.channels.privunit import PrivUnitG
from ldp_stream.channels.support import Support
from ldp_stream.client.entropy import SimulatedEntropy
from ldp_stream.errors import InvalidInput

MIDPOINT, FROM_ZERO, UNEVEN = (-1.0, 1.0), (0.0, 1.0), (-1.0, 0.3)
EPSILONS = [1e-6, 0.1, 1.0, 2.0, 4.0, 10.0, 40.0, 64.0]
CHANNELS = [
    PrivUnitG(1.0, 0.5, (MIDPOINT,) * 3),
    PrivUnitG(4.0, 0.9, (FROM_ZERO, UNEVEN)),
    PrivUnitG(0.3, 0.2, (MIDPOINT, FROM_ZERO)),
    PrivUnitG(8.0, 0.5, (MIDPOINT,)),
    PrivUnitG(2.0, 0.7, ()),
]
every_channel = pytest.mark.parametrize("channel", CHANNELS)


def _inputs(channel: PrivUnitG) -> list[tuple[float, ...]]:
    """Return the corners of the support and points inside its faces."""
    support, random = Support(channel.tau, channel.intervals), Random(1)
    inside = [
        (a, *(a * random.uniform(*interval) for interval in channel.intervals))
        for a in support.faces
        for _ in range(4)
    ]
    return [*support.corners(), *inside]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("d", [0, 3, 20])
def test_the_two_densities_differ_by_at_most_e_to_the_epsilon(epsilon: float, d: int) -> None:
    """With 60 digits a/b <= e^eps without tolerance; hardly anything is left unused."""
    cap = PrivUnitG(epsilon, 0.5, (MIDPOINT,) * d).cap
    with mpmath.workdps(60):
        pi = mpmath.mpf(cap.kept) / 2**62
        below = mpmath.ncdf(mpmath.mpf(cap.gamma))
        ratio = mpmath.log(pi / (1 - below) / ((1 - pi) / below))
        assert ratio <= mpmath.mpf(epsilon)
        assert epsilon - ratio < 1e-12 + 2.0**-62 / float(1 - pi)


@every_channel
def test_the_density_of_a_report_hardly_depends_on_the_input(channel: PrivUnitG) -> None:
    """Over all pairs of inputs and many payloads the ratio is at most e^eps, and nearly so at some."""
    entropy, inputs = SimulatedEntropy(2), _inputs(channel)
    payloads = [channel.privatize(g, entropy) for g in inputs for _ in range(50)]
    far = [VectorPayload(tuple(50 * channel.limits[0] * x for x in g)) for g in inputs]
    largest = 0.0
    for payload in payloads + far:
        densities = [channel.density(g, payload) for g in inputs]
        largest = max(largest, max(densities) / min(densities))
    assert math.log(largest) <= channel.epsilon * (1 + 1e-12)
    assert math.log(largest) >= channel.epsilon * (1 - 1e-9)


def _line(channel: PrivUnitG, g: tuple[float, ...]) -> tuple[float, float, float]:
    """Return the length of w, and (a - b) and b, of a contribution."""
    return math.hypot(*g) / channel.radius, channel.cap.inside - channel.cap.outside, channel.cap.outside


def _density_along(channel: PrivUnitG, g: tuple[float, ...], s: float) -> float:
    """Return the density of <U, w>/|w| at s, a plain evaluation of the module's law."""
    size, gain, outside = _line(channel, g)
    rest = math.sqrt(max(0.0, 1 - size * size))
    gap = channel.cap.gamma - s * size
    share = float(norm.sf(gap / rest)) if rest > 1e-9 else float(gap <= 0)
    return float(norm.pdf(s)) * (outside + gain * share)


def _weighted(s: float, k: int, channel: PrivUnitG, g: tuple[float, ...]) -> float:
    return float(s**k) * _density_along(channel, g, s)


@every_channel
def test_the_law_is_unbiased(channel: PrivUnitG) -> None:
    """By quadrature of the law along w, which is all that depends on g: total 1, mean g, and mean square."""
    for g in _inputs(channel):
        size = _line(channel, g)[0]
        edge = channel.cap.gamma / size
        total, mean, square = (
            quad(_weighted, -12, 14, args=(k, channel, g), points=[edge], limit=400)[0] for k in range(3)
        )
        assert total == pytest.approx(1, abs=1e-9)
        assert mean / channel.cap.mean == pytest.approx(size, abs=1e-9)
        assert square == pytest.approx(1 + channel.cap.gamma * channel.cap.mean * size**2, abs=1e-8)


def test_the_stated_density_is_the_law() -> None:
    """In two dimensions the density integrates to 1 and to the mean g, over a fine grid of payloads."""
    channel = PrivUnitG(1.5, 0.6, (UNEVEN,))
    g, scale = (0.4, -0.25), channel.radius / channel.cap.mean
    ticks = np.arange(-8, 8.0001, 0.1)
    weights = norm.pdf(ticks) * 0.1
    density = np.array(
        [[channel.density(g, VectorPayload((x * scale, y * scale))) for y in ticks] for x in ticks]
    )
    chances = density * np.outer(weights, weights)
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    assert scale * float(ticks @ chances.sum(1)) == pytest.approx(g[0], abs=1e-8)
    assert scale * float(ticks @ chances.sum(0)) == pytest.approx(g[1], abs=1e-8)


@pytest.mark.parametrize(("epsilon", "d"), [(0.5, 3), (1.0, 9), (4.0, 9), (8.0, 20)])
def test_on_the_sphere_it_is_the_published_mechanism(epsilon: float, d: int) -> None:
    """Algorithm and optimal split of the source, evaluated plainly, give the same worst mean square.

    There the normal vector has variance 1/p, and the error is (E alpha^2 + (p - 1)/p)/m^2, minimised over
    the part of epsilon that the side gets.
    """
    channel, p = PrivUnitG(epsilon, 0.5, (MIDPOINT,) * d), d + 1

    def published(side: float) -> float:
        chance, q = 1 / (1 + math.exp(-side)), 1 / (1 + math.exp(side - epsilon))
        gamma, sigma = norm.ppf(q), 1 / math.sqrt(p)
        mean = sigma * norm.pdf(gamma) * (chance / (1 - q) - (1 - chance) / q)
        upper, lower = (1 + gamma * norm.pdf(gamma) / (1 - q)), (1 - gamma * norm.pdf(gamma) / q)
        square = sigma**2 * (chance * upper + (1 - chance) * lower)
        return float((square + sigma**2 * (p - 1)) / mean**2)

    best = min(published(epsilon * i / 4000) for i in range(1, 4000))
    worst = channel.worst_second_moment / channel.radius**2
    assert worst == pytest.approx(best, rel=2e-4)
    assert worst >= best * (1 - 1e-6)


@every_channel
def test_second_moments_are_those_of_the_law(channel: PrivUnitG) -> None:
    """The convention's average over stratified slopes, and no corner above the worst, which one attains."""
    cap, scale = channel.cap, channel.radius / channel.cap.mean
    shares = (np.arange(1000) + 0.5) / 1000
    for j, value in enumerate(channel.second_moments):
        low, high = channel.intervals[j - 1] if j else (1.0, 1.0)
        square = channel.tau * (1 - channel.tau) * float(np.mean((low + (high - low) * shares) ** 2))
        assert value == pytest.approx(scale**2 + cap.gamma / cap.mean * square, rel=1e-6)
    lengths = [channel.p * scale**2 + cap.gamma / cap.mean * math.hypot(*g) ** 2 for g in _inputs(channel)]
    assert channel.second_moment == pytest.approx(np.mean(channel.second_moments))
    assert max(lengths) == pytest.approx(channel.worst_second_moment, rel=1e-7)
    assert max(lengths) <= channel.worst_second_moment


def _sample(channel: PrivUnitG, g: tuple[float, ...], n: int, seed: int) -> NDArray[np.float64]:
    entropy = SimulatedEntropy(seed)
    return np.array([channel.privatize(g, entropy).values for _ in range(n)])


@every_channel
def test_the_sampler_follows_the_law_and_no_other(channel: PrivUnitG) -> None:
    """Kolmogorov-Smirnov along w accepts the law of g and rejects that of -g; across w it is normal."""
    g = _inputs(channel)[0]
    sample = _sample(channel, g, 8000, 3) * channel.cap.mean / channel.radius
    direction = np.array(g) / math.hypot(*g)
    along = sample @ direction
    size, _, _ = _line(channel, g)
    edge = channel.cap.gamma / size

    def uniform(points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the law's distribution function at the points."""
        grid = np.sort([*np.linspace(-8, 12, 2001), edge - 1e-9, edge + 1e-9])
        density = np.array([_density_along(channel, g, s) for s in grid])
        steps = np.diff(grid) * (density[1:] + density[:-1]) / 2
        return np.asarray(np.interp(points, grid, np.concatenate([[0], np.cumsum(steps)])))

    assert kstest(uniform(along), "uniform").pvalue > 0.001
    if channel.epsilon >= 1:
        assert kstest(uniform(-along), "uniform").pvalue < 1e-6
    if channel.p > 1:
        across = np.linalg.svd(direction[None])[2][1:]
        assert kstest((sample @ across.T).ravel(), "norm").pvalue > 0.001


def test_the_sample_has_the_stated_mean_and_mean_square() -> None:
    """Over 20,000 reports of a point inside a face, to five standard errors."""
    channel, g = PrivUnitG(2.0, 0.75, (MIDPOINT, FROM_ZERO)), (0.25, -0.125, 0.0)
    sample = _sample(channel, g, 20_000, 4)
    error = sample.std(0) / math.sqrt(len(sample))
    assert np.all(np.abs(sample.mean(0) - g) < 5 * error)
    assert np.all(np.abs(sample.mean(0) + g)[:2] > 5 * error[:2])
    squares = sample**2
    scale = channel.radius / channel.cap.mean
    expected = [scale**2 + channel.cap.gamma / channel.cap.mean * x * x for x in g]
    assert np.all(np.abs(squares.mean(0) - expected) < 5 * squares.std(0) / math.sqrt(len(sample)))


class _Recorder(RandomBits):
    """Hands out one extreme or seeded numbers and remembers what was asked."""

    def __init__(self, share: float | None = None, seed: int = 0) -> None:
        self.asked: list[int] = []
        self._share, self._random = share, Random(seed)

    def bits(self, k: int, /) -> int:
        """Return a number of k bits."""
        self.asked.append(k)
        drawn = self._random.getrandbits(k)
        return drawn if self._share is None else min(int(self._share * (1 << k)), (1 << k) - 1)

    def below(self, n: int, /) -> int:
        """Fail: nothing else is drawn."""
        raise AssertionError(f"a draw below {n}")


@every_channel
def test_the_draws_do_not_depend_on_the_input(channel: PrivUnitG) -> None:
    """Every contribution costs the same draws in the same order."""
    asked = set()
    for seed, g in enumerate(_inputs(channel)):
        recorder = _Recorder(seed=seed)
        channel.privatize(g, recorder)
        asked.add(tuple(recorder.asked))
    assert asked == {(62,) * (3 + 2 * channel.p)}


@every_channel
def test_reports_are_lattice_points_within_the_limits(channel: PrivUnitG) -> None:
    """Whatever the draws and the input: multiples of a public step, and none above the limits."""
    step = channel.radius / channel.cap.mean / 4096
    odd = [(1e300,) + (0.0,) * (channel.p - 1), (0.0,) * channel.p, (-5.0,) * channel.p]
    for share in (0.0, 2.0**-40, 0.5, 1 - 2.0**-40, 1.0, None):
        for g in [*_inputs(channel), *odd]:
            values = channel.privatize(g, _Recorder(share)).values
            assert all(abs(x) <= limit for x, limit in zip(values, channel.limits, strict=True))
            assert all(round(x / step) * step == pytest.approx(x, rel=1e-15, abs=0) for x in values)


def test_the_order_of_features_does_not_matter() -> None:
    """The law is that of the permuted contribution."""
    g = (0.5, -0.25, 0.125)
    channel = PrivUnitG(1.0, 0.5, (MIDPOINT, MIDPOINT))
    payload = (0.3, 1.5, -2.0)
    expected = channel.density(g, VectorPayload(payload))
    for order in permutations(range(3)):
        moved = channel.density([g[i] for i in order], VectorPayload(tuple(payload[i] for i in order)))
        assert moved == pytest.approx(expected, rel=1e-14)


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
