"""The vectorised devices follow the channel's exact law, and the model's quantile is its truth."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.no_privacy import NoPrivacy
from ldp_stream.studies.devices import Devices, Piece, walk
from ldp_stream.studies.model import Errors, Model

CHANNELS = [
    CQX(1.0, 0.75, ((-1.0, 1.0), (-1.0, 1.0)), q=2, s=1),
    CQX(2.0, 0.75, ((0.0, 1.0), (-1.0, 0.5)), q=3, s=2),
    CQX(4.0, 0.75, ((-1.0, 1.0), (0.0, 1.0)), q=2, s=3),
]
DRAWS = 200_000


class _Fixed:
    """A model whose users are all alike: x = (.4, .3), y = 0."""

    p = 3

    def draw(self, shape: tuple[int, int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return X (T, p, C) and y (T, C)."""
        del rng
        X = np.ones((shape[0], 3, shape[1]))
        X[:, 1], X[:, 2] = 0.4, 0.3
        return X, np.zeros(shape)


def sent(channel: CQX, face: int, seed: int = 3) -> tuple[np.ndarray, Piece]:
    """Return how often each (block, category) is sent on a face, and the reports."""
    piece = Devices(_Fixed(), channel).draw(DRAWS, 1, np.random.default_rng(seed))  # type: ignore[arg-type]
    assert piece.block is not None
    assert piece.categories is not None
    counts = np.zeros((channel.n_blocks, 64))
    np.add.at(counts, (piece.block[:, 0], piece.categories[face][:, 0]), 1)
    return counts, piece


def distance(channel: CQX, face: int, counts: np.ndarray) -> float:
    """Return the standardised chi-square distance from the exact law."""
    g = [face - 0.75, 0.4 * (face - 0.75), 0.3 * (face - 0.75)]
    total, cells = 0.0, 0
    for block in range(channel.n_blocks):
        law = np.array([float(share) for share in channel.law(g, block)])
        expected = law * DRAWS / channel.n_blocks
        total += float(((counts[block, : len(law)] - expected) ** 2 / expected).sum())
        cells += len(law)
    freedom = cells - 1
    return float((total - freedom) / np.sqrt(2 * freedom))


@pytest.mark.parametrize("channel", CHANNELS, ids=str)
@pytest.mark.parametrize("face", [0, 1])
def test_reports_follow_the_exact_law(channel: CQX, face: int) -> None:
    """Counts of 200,000 reports are within 5 deviations of the law, those of 10% less epsilon are not."""
    counts, _ = sent(channel, face)
    assert abs(distance(channel, face, counts)) < 5
    weaker = CQX(0.9 * channel.epsilon, channel.tau, channel.intervals, channel.q, channel.s)
    assert distance(channel, face, sent(weaker, face)[0]) > 5


@pytest.mark.parametrize("channel", CHANNELS, ids=str)
def test_decoded_gradients_are_the_channels(channel: CQX) -> None:
    """What the chain gets on a face is the decoded category of that face."""
    from ldp_stream.channels.base import CategoryPayload

    piece = sent(channel, 0)[1]
    assert piece.block is not None
    assert piece.categories is not None
    for t in range(50):
        for face, gradient in ((0, piece.zero[t, :, 0]), (1, piece.zero[t, :, 0] + piece.change[t, :, 0])):
            payload = CategoryPayload(int(piece.block[t, 0]), int(piece.categories[face][t, 0]))
            expected = np.zeros(3)
            coordinates, values = channel.decode(payload)
            expected[list(coordinates)] = values
            np.testing.assert_allclose(gradient, expected, atol=1e-12)


@pytest.mark.parametrize("errors", ["gauss", "t3"])
@pytest.mark.parametrize("tau", [0.25, 0.9])
def test_the_truth_is_the_quantile(errors: Errors, tau: float) -> None:
    """P(y <= X'theta | X) is tau where the spread is small and where it is large; a shift of .05 is seen."""
    model = Model(3, tau, 0.2, errors)
    X, y = model.draw((1000, 400), np.random.default_rng(1))
    fitted = np.einsum("tpc,p->tc", X, model.theta)
    wide = np.einsum("tpc,p->tc", X, model.gamma) > 1
    for where in (wide, ~wide):
        error = 4 * np.sqrt(tau * (1 - tau) / where.sum())
        assert abs((y <= fitted)[where].mean() - tau) < error
        assert abs((y <= fitted + 0.05)[where].mean() - tau) > error


@pytest.mark.parametrize("errors", ["gauss", "t3"])
def test_the_hessian_is_the_slope_of_the_gradient(errors: Errors) -> None:
    """A small move of the intercept changes the mean of X 1{y <= X'b} by H's first column."""
    model = Model(2, 0.75, 0.3, errors)
    X, y = model.draw((4000, 500), np.random.default_rng(2))
    fitted = np.einsum("tpc,p->tc", X, model.theta)
    moved = (y <= fitted + 0.02).astype(float) - (y <= fitted - 0.02)
    slope = np.einsum("tpc,tc->p", X, moved) / moved.size / 0.04
    np.testing.assert_allclose(slope, model.hessian()[0], atol=0.02)
    assert abs(slope[0] - 1.1 * model.hessian()[0, 0]) > 0.02


def test_a_walk_is_the_plain_recursion() -> None:
    """Chains follow b - eta g~ projected on the box, event by event."""
    devices = Devices(Model(2, 0.5, 0.2), NoPrivacy(0.5, ((-1.0, 1.0),) * 2))
    piece = devices.draw(60, 3, np.random.default_rng(4))
    start, steps, scale = np.zeros((3, 3)), np.full((3, 3), 0.4), np.linspace(1, 0.5, 60)
    points, gradients, last = walk(piece, start, steps, 0.6, scale)
    for c in range(3):
        b = np.zeros(3)
        for t in range(60):
            np.testing.assert_allclose(points[t, :, c], b, atol=1e-13)
            X = piece.X[t, :, c]
            g = X * ((piece.y[t, c] <= X @ b) - 0.5)
            np.testing.assert_allclose(gradients[t, :, c], g, atol=1e-13)
            b = np.clip(b - 0.4 * scale[t] * g, -0.6, 0.6)
        np.testing.assert_allclose(last[:, c], b, atol=1e-13)
    assert np.abs(points).max() == 0.6
