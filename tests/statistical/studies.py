"""Many replications of one study at once: naive devices, vectorised, and the package's server.

The truth is linear in the working scale,

    y = X'b + sigma (e - F^-1(tau)),   X = (1, x_1, .., x_d),   x_j uniform on [-1, 1],   e ~ F = N(0, 1),

so that X'b is the tau-quantile of y given x. Bounds are [-1, 1] and the target's range is too, so the user's
units are the working scale. Devices answer the latest coefficients of their own replication. What they send
is drawn here from the definition of the channel, CQX(2, 1): a uniform coordinate, its value rounded at random
to one of two grid points, and that category sent truly with probability e^eps/(e^eps + 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_stream.campaign import Campaign
from ldp_stream.report_batch import ReportBatch
from ldp_stream.server.aggregator import Aggregator
from tests.server.naive import step

Array = NDArray[np.float64]

_PIECE = 1000  # reports of each replication that are handed over together


@dataclass(frozen=True)
class Study:
    """One truth, one campaign, and how many reports and replications there are.

    ``lie`` is the probability with which a report about the intercept says the upper category whatever it
    should say: a channel that is not the one the server decodes. Replication r serves partition
    r mod ``partitions``.
    """

    truth: tuple[float, ...]
    sigma: float
    tau: float
    epsilon: float | None
    n: int
    replications: int
    lie: float = 0.0
    partitions: int = 1

    def campaign(self) -> Campaign:
        """Return the campaign: defaults, and every report at the latest coefficients."""
        protected = {"channel": {"kind": "none"}} if self.epsilon is None else {"epsilon": self.epsilon}
        return Campaign.model_validate(
            {
                "kind": "quantile",
                "name": "study",
                "tau": self.tau,
                "target": {"lower": -1, "upper": 1},
                "features": {f"x{j}": {"lower": -1, "upper": 1} for j in range(1, len(self.truth))},
                "rounds": {"stability": 0},
                "partitions": self.partitions,
                **protected,
            }
        )


def run(study: Study, seed: int) -> list[Aggregator]:
    """Return the server of each replication after its n reports."""
    campaign, rng = study.campaign(), np.random.default_rng(seed)
    servers = [Aggregator(campaign, partition=r % study.partitions) for r in range(study.replications)]
    b = np.zeros((study.replications, len(study.truth)))
    for start in range(0, study.n, _PIECE):
        size = min(_PIECE, study.n - start)
        steps = [step(campaign, i) for i in range(start + 1, start + size + 1)]
        make = _open_reports if study.epsilon is None else _private_reports
        columns = make(study, b, steps, rng)
        envelope = (campaign.digest_prefix, np.zeros(size, np.uint32), np.zeros(size, np.uint16))
        for r, server in enumerate(servers):
            payload: Any = {name: np.ascontiguousarray(column[:, r]) for name, column in columns.items()}
            server.ingest_many(ReportBatch(*envelope, np.zeros((size, 16), np.uint8), **payload))
    np.testing.assert_allclose([server.beta() for server in servers], b, rtol=1e-9, atol=1e-9)
    return servers


def _users(study: Study, b: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return X and 1{Y <= X'b} of one fresh user of each replication."""
    X = np.ones_like(b)
    X[:, 1:] = rng.uniform(-1, 1, (len(b), b.shape[1] - 1))
    noise = rng.standard_normal(len(b)) - NormalDist().inv_cdf(study.tau)
    Y = X @ np.array(study.truth) + study.sigma * noise
    fitted = (X * b).sum(axis=1)
    return X, np.asarray(fitted >= Y)


def _open_reports(study: Study, b: Array, steps: list[float], rng: np.random.Generator) -> dict[str, Array]:
    """Return the vectors of reports without privacy, (events, replications, p), and move b along."""
    sent = np.empty((len(steps), *b.shape))
    for values, eta in zip(sent, steps, strict=True):
        X, face = _users(study, b, rng)
        values[:] = X * (face - study.tau)[:, None]
        b[:] = np.clip(b - eta * values, -3, 3)
    return {"values": sent}


def _private_reports(
    study: Study, b: Array, steps: list[float], rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Return blocks and categories of CQX(2, 1) reports, (events, replications), and move b along."""
    assert study.epsilon is not None
    replications, p = b.shape
    tau, largest, rows = study.tau, max(study.tau, 1 - study.tau), np.arange(replications)
    truly = math.exp(study.epsilon) / (math.exp(study.epsilon) + 1)
    gain, otherwise = 2 * truly - 1, 1 - truly
    decoded = np.full((p, 2), [-largest * p / gain, largest * p / gain])
    decoded[0] = [p * (point - otherwise * (1 - 2 * tau)) / gain for point in (-tau, 1 - tau)]
    blocks = np.empty((len(steps), replications), np.uint32)
    categories = np.empty((len(steps), replications), np.uint16)
    for block, category, eta in zip(blocks, categories, steps, strict=True):
        X, face = _users(study, b, rng)
        block[:] = rng.integers(0, p, replications)
        g = X[rows, block] * (face - tau)
        uniform = rng.random((3, replications))
        true = np.where(block == 0, face, uniform[0] < (g + largest) / (2 * largest))
        category[:] = true ^ (uniform[1] > truly)
        category[(block == 0) & (uniform[2] < study.lie)] = 1
        b[rows, block] -= eta * decoded[block, category]
        np.clip(b, -3, 3, out=b)
    return {"block": blocks, "category": categories}
