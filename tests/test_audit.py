"""The audit: exact epsilon and bias, sizes, the plan of widths, and campaigns that do not hold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ldp_stream.audit import audit
from ldp_stream.campaign import Campaign
from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.randomized_response import RandomizedResponse
from ldp_stream.errors import InvalidInput
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.planning import expected_width, reports_for

BASE: dict[str, Any] = {
    "kind": "quantile",
    "name": "x",
    "tau": 0.75,
    "epsilon": 2.0,
    "target": {"lower": 0, "upper": 4},
    "features": {"a": {"lower": -2, "upper": 2}, "b": {"lower": 0, "upper": 1, "centre": 0}},
}


def _campaign(**changes: Any) -> Campaign:
    return Campaign.model_validate({**BASE, **changes})


CHANNELS: list[dict[str, Any]] = [
    {"kind": "cqx"},
    {"kind": "cqx", "q": 3, "s": 2},
    {"kind": "cqx", "q": 2, "s": 2, "intercept": 1.0, "shear": True},
    {"kind": "cqx", "q": 4, "s": 1, "intercept": 0.3, "shear": True},
    {"kind": "cqx", "q": 2, "s": 3},
    {"kind": "auto"},
]


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("epsilon", [1e-6, 0.7, 2.0, 6.0])
def test_sound_campaigns_hold(channel: dict[str, Any], epsilon: float) -> None:
    """The exact epsilon is the claimed one, to the resolution of the sampler and never above; no bias."""
    found = audit(_campaign(channel=channel, epsilon=epsilon))
    assert found.holds
    (level,) = found.levels
    assert level.epsilon_exact <= epsilon * (1 + 2e-16)
    assert level.epsilon_exact == pytest.approx(epsilon, rel=1e-9)
    assert level.max_bias is not None
    assert level.max_bias <= max(1e-12, 1e-15 / epsilon)
    mechanism = found.campaign.levels[0].mechanism
    assert isinstance(mechanism, CQX)
    possible = {mechanism.categories(b) for b in range(mechanism.n_blocks) if mechanism.design.probability(b)}
    assert set(level.categories) == possible
    assert found.report_bytes == 37


def test_a_wide_campaign_is_audited_by_classes_of_blocks() -> None:
    """With 30 features, 4,495 blocks, a few representatives are enumerated, and hold."""
    features = {f"x{j}": {"lower": 0, "upper": 1, "centre": j % 3 / 2} for j in range(30)}
    found = audit(_campaign(features=features, channel={"kind": "cqx", "s": 3, "intercept": 0.5}))
    assert found.holds
    assert found.levels[0].max_bias < 1e-12  # type: ignore[operator]


@pytest.mark.parametrize("kind", ["laplace", "piecewise", "hybrid", "privunit_g"])
def test_channels_of_vectors_hold_by_their_formula(kind: str) -> None:
    """Their epsilon is the claimed one and their bias is not enumerated."""
    answer = audit(_campaign(channel={"kind": kind})).as_dict()
    assert answer["holds"]
    assert answer["epsilon_exact"] == pytest.approx(2.0, rel=1e-6)
    assert answer["max_bias"] is None
    assert answer["report_bytes"] == 33 + 8 * 3


def test_the_bias_of_face_exponential_is_found() -> None:
    """It is the largest exact mean shift, and no failure, as the channel does not claim to be unbiased."""
    found = audit(_campaign(channel={"kind": "face_exponential"}))
    assert found.holds
    assert found.levels[0].max_bias > 0.1  # type: ignore[operator]


def test_a_pi_that_is_too_large_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more in 2^62 for the true category is seen, in a campaign of two levels at each."""
    monkeypatch.setattr(RandomizedResponse, "pi", property(lambda own: Fraction(own.keep + 1, 1 << 62)))
    monkeypatch.setattr(RandomizedResponse, "rho", property(lambda own: (1 - own.pi) / (own.categories - 1)))
    found = audit(_campaign(tau=[0.25, 0.5]))
    assert not found.holds
    assert [problem[:10] for problem in found.problems] == ["tau = 0.25", "tau = 0.5:"]
    assert all("above the claimed 2.0" in problem for problem in found.problems)


def test_a_decoder_with_a_wrong_design_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dividing by a wrong inclusion probability is a bias."""
    monkeypatch.setattr(CQX, "_intercept_values", (-1.0, 1.0))
    found = audit(_campaign())
    assert any("decoded mean is off" in problem for problem in found.problems)


def test_without_privacy_nothing_is_claimed() -> None:
    """The reference channel holds, and its epsilon is unlimited."""
    answer = audit(_campaign(channel={"kind": "none"}, epsilon=None)).as_dict()
    assert (answer["holds"], answer["epsilon"], answer["epsilon_exact"]) == (True, None, None)


# ---------------------------------------------------------------------- the plan


def test_the_width_is_the_formula_without_features() -> None:
    """An intercept at the median: 2 cv E sqrt(v) half sqrt(v_0)/(phi sqrt(n)), E sqrt(v) from simulation."""
    campaign = _campaign(features={}, tau=0.5, burn_in=0)
    drawn = np.random.default_rng(5).standard_normal((4000, 400))
    walk = np.cumsum(drawn, axis=1) / 20
    bridge = walk - np.arange(1, 401) / 400 * walk[:, -1:]
    root = float(np.sqrt((bridge**2).mean(axis=1)).mean())
    density = 1 / math.sqrt(2 * math.pi) / 0.2
    moment = campaign.levels[0].mechanism.second_moment
    expected = 2 * self_normalized(0.95) * root * 2 * math.sqrt(moment / 10_000) / density
    assert expected_width(campaign, 10_000, 0.5)["intercept"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    "inference",
    [{"kind": "sn"}, {"kind": "dc", "chains": 10}, {"kind": "higrad", "segments": [1000, 1000, 1000]}],
)
def test_reports_for_a_width_give_that_width(inference: dict[str, Any]) -> None:
    """At the number of reports that a width needs, the expected width is it, or smaller where it is early."""
    campaign = _campaign(inference=inference, tau=[0.5, 0.9])
    for tau in (0.5, 0.9):
        for name, n in reports_for(campaign, 0.05, tau, level=0.9, spread=0.3).items():
            width = expected_width(campaign, n, tau, level=0.9, spread=0.3)[name]
            assert width == pytest.approx(0.05, rel=1e-3)
        for name, n in reports_for(campaign, 1e6, tau).items():
            assert expected_width(campaign, n, tau)[name] < 1e6


def test_more_partitions_and_chains_narrow_the_plan() -> None:
    """Pooled chains have smaller critical values: expected widths fall towards the normal interval's."""
    widths = [expected_width(_campaign(partitions=k), 1e6, 0.75)["a"] for k in (1, 4, 64)] + [
        expected_width(_campaign(inference={"kind": "dc", "chains": 900}), 1e6, 0.75)["a"]
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-2] == pytest.approx(widths[-1], rel=0.02)


@pytest.mark.parametrize("argument", [{"level": 1.0}, {"spread": 0.0}, {"width": -1.0}, {"reports": [0]}])
def test_nonsense_is_refused(argument: dict[str, Any]) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidInput):
        audit(_campaign(), **argument)
