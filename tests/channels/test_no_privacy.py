"""The non-private reference: the contribution passes unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from ldp_stream.channels.base import VectorPayload
from ldp_stream.channels.no_privacy import NoPrivacy
from ldp_stream.errors import InvalidInput


class _NoDraws:
    """Refuses to be asked."""

    def bits(self, k: int, /) -> int:
        """Fail."""
        raise AssertionError(f"a draw of {k} bits")

    def below(self, n: int, /) -> int:
        """Fail."""
        raise AssertionError(f"a draw below {n}")


def test_the_payload_is_the_contribution_and_decodes_to_it() -> None:
    """Nothing is drawn, nothing is changed, every coordinate is there."""
    channel = NoPrivacy(0.3, ((-1.0, 1.0), (0.0, 1.0)))
    payload = channel.privatize([0.7, -0.2, 0.1], _NoDraws())
    assert payload == VectorPayload((0.7, -0.2, 0.1))
    assert channel.decode(payload) == ((0, 1, 2), (0.7, -0.2, 0.1))
    assert channel.p == 3


@pytest.mark.parametrize("tau", [0.5, 0.9, 0.01])
@pytest.mark.parametrize("intervals", [(), ((-1.0, 1.0),), ((0.0, 1.0), (-1.0, 0.3))])
def test_second_moments_are_those_of_a_sample(tau: float, intervals: tuple[tuple[float, float], ...]) -> None:
    """Under P(f = 1) = tau and uniform slopes, a stratified sample of 10^5 gives the same mean squares."""
    channel = NoPrivacy(tau, intervals)
    shares = (np.arange(100_000) + 0.5) / 100_000
    face = tau * (1 - tau) ** 2 + (1 - tau) * tau**2
    squares = [float(np.mean((low + (high - low) * shares) ** 2)) for low, high in intervals]
    expected = [face, *(face * square for square in squares)]
    assert channel.second_moments == pytest.approx(expected, rel=1e-8)
    assert channel.second_moment == pytest.approx(np.mean(expected), rel=1e-8)


@pytest.mark.parametrize("tau", [0.0, 1.0, -0.1, float("nan")])
def test_a_level_outside_the_unit_interval_is_refused(tau: float) -> None:
    """The message names tau."""
    with pytest.raises(InvalidInput, match="tau = "):
        NoPrivacy(tau, ())
