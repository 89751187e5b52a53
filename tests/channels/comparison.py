"""Every kind of channel with the same contract, and what the conformance suite needs to know about each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.face_exponential import FaceExponential
from ldp_stream.channels.kinds import Mechanism
from ldp_stream.channels.laplace import DirectLaplace
from ldp_stream.channels.no_privacy import NoPrivacy
from ldp_stream.channels.piecewise import Piecewise
from ldp_stream.channels.privunit import PrivUnitG
from ldp_stream.channels.support import Support
from ldp_stream.client.entropy import SimulatedEntropy

Array = NDArray[np.float64]

MIXED = ((-1.0, 1.0), (0.0, 1.0), (-1.0, 0.25))
MIDPOINTS = ((-1.0, 1.0),) * 3

UNBIASED: dict[str, Mechanism] = {
    "cqx": CQX(1.0, 0.5, MIDPOINTS, q=2, s=1),
    "cqx, pairs": CQX(3.0, 0.8, MIXED, q=3, s=2),
    "none": NoPrivacy(0.8, MIXED),
    "laplace": DirectLaplace(1.0, 0.5, MIDPOINTS),
    "laplace, uneven": DirectLaplace(4.0, 0.8, MIXED),
    "laplace, blind": DirectLaplace(2.0, 0.25, MIXED, "blind"),
    "piecewise": Piecewise(1.0, 0.5, MIDPOINTS),
    "piecewise, uneven, two": Piecewise(6.0, 0.8, MIXED),
    "piecewise, no features": Piecewise(0.5, 0.7, ()),
    "hybrid": Piecewise(1.5, 0.5, MIDPOINTS, hybrid=True),
    "hybrid, two-valued": Piecewise(1.0, 0.3, MIXED, k=2, hybrid=True),
    "privunit": PrivUnitG(1.0, 0.5, MIDPOINTS),
    "privunit, uneven": PrivUnitG(5.0, 0.8, MIXED),
    "privunit, no features": PrivUnitG(2.0, 0.4, ()),
}
BIASED: dict[str, FaceExponential] = {
    "face": FaceExponential(1.0, 0.5, MIDPOINTS),
    "face, uneven": FaceExponential(4.0, 0.8, MIXED, q=4),
    "face, no features": FaceExponential(2.0, 0.3, ()),
}
CHANNELS: dict[str, Mechanism] = {**UNBIASED, **BIASED}


def support(channel: Mechanism) -> Support:
    """Return the support of the channel's contributions."""
    return Support(channel.tau, channel.intervals)


def contributions(channel: Mechanism, interior: int = 4) -> list[list[float]]:
    """Return all corners of both faces and some interior contributions of each."""
    drawn = np.random.default_rng(17)
    own = support(channel)
    found = [list(corner) for corner in own.corners()]
    for a, _ in itertools.product(own.faces, range(interior)):
        found.append([a, *(a * drawn.uniform(*interval) for interval in channel.intervals)])
    return found


def dense(channel: Mechanism, decoded: tuple[tuple[int, ...], Sequence[float]]) -> list[float]:
    """Return a decoded report with its zeros."""
    row = [0.0] * channel.p
    for j, value in zip(*decoded, strict=True):
        row[j] = value
    return row


def sample(channel: Mechanism, g: Sequence[float], n: int, seed: int) -> Array:
    """Return n decoded reports of a contribution, shape (n, p)."""
    entropy = SimulatedEntropy(seed)
    decode = channel.decode
    rows = [dense(channel, decode(channel.privatize(g, entropy))) for _ in range(n)]  # type: ignore[arg-type]
    return np.array(rows)


def typical(channel: Mechanism, n: int, seed: int) -> Array:
    """Return n contributions by the convention of second moments, shape (n, p)."""
    drawn = np.random.default_rng(seed)
    face = (drawn.random(n) < channel.tau) - channel.tau
    slopes = [face * drawn.uniform(low, high, n) for low, high in channel.intervals]
    return np.column_stack([face, *slopes])
