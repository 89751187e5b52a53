"""A slow, obvious server of a campaign: one event at a time, every iterate kept, sums as they are defined.

It shares no code with ``ldp_stream.server``: the step rule, the checkpoints, the window, the rounds, the
average and the random scaling matrix are written again here, straight from their definitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldp_stream.campaign import Campaign
from ldp_stream.report_batch import ReportBatch

Array = NDArray[np.float64]


def step(campaign: Campaign, i: int) -> float:
    """Return eta_i = gain (i + delay v)^-exponent / sqrt(v)."""
    rule, v = campaign.steps, campaign.levels[0].mechanism.second_moment
    return float(rule.gain * (i + rule.delay * v) ** -rule.exponent / math.sqrt(v))


def walk(gradients: Array, steps: list[float], radius: float, start: Sequence[float] | None = None) -> Array:
    """Return every iterate b_1..b_n, shape (n, p), each projected on the box |b_j| <= radius."""
    b = [0.0] * gradients.shape[1] if start is None else list(start)
    iterates = []
    for gradient, eta in zip(gradients.tolist(), steps, strict=True):
        for j, g in enumerate(gradient):
            b[j] = min(max(b[j] - eta * g, -radius), radius)
        iterates.append(list(b))
    return np.array(iterates).reshape(-1, gradients.shape[1])


def checkpoints(last: int) -> list[int]:
    """Return the checkpoints up to ``last``: 0, 1, 2, .., each 5/4 of the one before, at least one more."""
    found = [0]
    while (following := max(found[-1] + 1, math.floor(found[-1] * 1.25))) <= last:
        found.append(following)
    return found


def window_start(n: int, burn_in: float) -> int:
    """Return how many events are left out: the last checkpoint that is at most ``burn_in`` n."""
    return max(c for c in checkpoints(n) if c <= burn_in * n)


def average(iterates: Array) -> tuple[Array, Array]:
    """Return m_n and V_n = n^-2 sum_s s^2 (m_s - m_n)(m_s - m_n)', m_s the mean of the first s iterates."""
    n = len(iterates)
    s = np.arange(1, n + 1)[:, None]
    gaps = np.cumsum(iterates, axis=0) / s - iterates.mean(axis=0)
    return iterates.mean(axis=0), (s * gaps).T @ (s * gaps) / n**2


def decoded(campaign: Campaign, batch: ReportBatch) -> Array:
    """Return the decoded gradients of a batch, shape (n, p), one report at a time."""
    rows = np.zeros((len(batch), campaign.levels[0].mechanism.p))
    for row, report in zip(rows, batch, strict=True):
        coordinates, values = campaign.levels[0].mechanism.decode(report.payload)  # type: ignore[arg-type]
        row[list(coordinates)] = values
    return rows


def rounds(campaign: Campaign, n: int) -> list[int]:
    """Return where rounds begin, up to n reports: N of them with N eta curvature <= stability, at least 1."""
    starts = [0]
    while True:
        eta = step(campaign, starts[-1] + 1)
        length = 1
        while (length + 1) * eta * campaign.rounds.curvature <= campaign.rounds.stability:
            length += 1
        if starts[-1] + length > n:
            return starts
        starts.append(starts[-1] + length)


class NaiveServer:
    """All iterates of one partition after a batch of reports."""

    def __init__(self, campaign: Campaign, batch: ReportBatch) -> None:
        self.campaign = campaign
        steps = [step(campaign, i) for i in range(1, len(batch) + 1)]
        self.iterates = walk(decoded(campaign, batch), steps, campaign.radius)

    def iterate(self, n: int) -> Array:
        """Return b_n."""
        return self.iterates[n - 1] if n else np.zeros(self.iterates.shape[1])

    def window(self, n: int) -> Array:
        """Return the iterates that count after n reports."""
        return self.iterates[window_start(n, self.campaign.burn_in) : n]
