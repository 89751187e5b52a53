"""Intervals at the start of a stream: withheld until they are worth something."""

from __future__ import annotations

import math

import numpy as np

from ldp_stream import PrivateQuantileRegressor
from ldp_stream.inference.self_normalized import ChainAverage, pool
from ldp_stream.server.averaged_sgd import Chain

SLOPE, SIGMA, RUNS = 0.8, 0.15, 40


def learnt(n: int, seed: int) -> PrivateQuantileRegressor:
    """Return a model at epsilon 1 that has learnt n records of y = .8 x + noise, x uniform."""
    model = PrivateQuantileRegressor({"x": (-1, 1)}, (-1, 1), epsilon=1.0, seed=seed)
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, n)
    y = SLOPE * x + SIGMA * draw.standard_normal(n)
    for value, target in zip(x.tolist(), y.tolist(), strict=True):
        model.learn_one({"x": value}, target)
    return model


def covers_without_the_gate(chain: Chain) -> bool:
    """Return whether the formula alone would have covered the slope (.8 in the working scale, too)."""
    window = chain.window()
    assert window is not None
    average = pool([ChainAverage(window.length, window.mean, window.random_scaling)])
    return bool(abs(average.mean[1] - SLOPE) <= average.half_width([0.0, 1.0], 0.95))


def test_too_early_an_interval_would_be_wrong_and_is_withheld() -> None:
    """A tenth of the public count in, the formula's intervals hardly ever cover, so none is given."""
    early = math.ceil(learnt(0, 0).campaign.levels[0].settling / 10)
    covered = 0
    for seed in range(RUNS):
        model = learnt(early, seed)
        interval = model.confidence_interval("x")
        assert not interval.bounded
        covered += covers_without_the_gate(model._server._own.levels[0].chains[0])
    assert covered <= 0.1 * RUNS


def test_from_the_public_count_on_intervals_cover() -> None:
    """As soon as intervals are given, at least 80% of those of 95% cover (Monte Carlo error .05)."""
    settled = math.ceil(learnt(0, 0).campaign.levels[0].settling)
    found = [learnt(settled, seed).confidence_interval("x") for seed in range(RUNS)]
    assert all(interval.bounded for interval in found)
    assert sum(SLOPE in interval for interval in found) >= 0.8 * RUNS
    assert np.median([interval.width for interval in found]) < 1.0
