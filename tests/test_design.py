"""The design of the channel: choice, figures, alternatives, and ``kind = "auto"`` in a campaign."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from ldp_stream.campaign import Campaign
from ldp_stream.campaign_parts import CQXChannel
from ldp_stream.channels.cqx import CQX
from ldp_stream.channels.search import Criterion, candidates
from ldp_stream.design import design_channel
from ldp_stream.errors import InvalidCampaign, InvalidInput

MIDPOINT, FROM_ZERO = (-1.0, 1.0), (0.0, 1.0)
CRITERIA: tuple[Criterion, ...] = ("expected", "worst")


def _figure(channel: CQX, criterion: Criterion) -> float:
    return math.fsum(channel.second_moments) if criterion == "expected" else channel.worst_second_moment


def _fixed(epsilon: float, tau: float, d: int) -> list[CQX]:
    """Return every uniform (q, s) of up to 2^12 categories with q below 13."""
    return [
        CQX(epsilon, tau, (MIDPOINT,) * d, q, s)
        for s in range(1, d + 2)
        for q in range(2, 13)
        if 2 * q ** (s - 1) <= 1 << 12 and q**s <= 1 << 12
    ]


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("d", [1, 4, 20])
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0, 10.0])
def test_no_fixed_design_is_better(epsilon: float, d: int, criterion: Criterion) -> None:
    """On a coarse grid of epsilon, d and tau, the choice is at least as good as every uniform (q, s)."""
    for tau in (0.05, 0.5, 0.75):
        best = candidates(epsilon, [tau], (MIDPOINT,) * d, criterion)[0]
        least = min(_figure(channel, criterion) for channel in _fixed(epsilon, tau, d))
        assert best.figure <= least * (1 + 1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_figures_are_the_channels_own(criterion: Criterion) -> None:
    """Each searched design's figure is what its channel states, mean over the levels."""
    intervals, taus = (MIDPOINT, FROM_ZERO, (-0.5, 1.0)), (0.25, 0.9)
    found = candidates(2.0, taus, intervals, criterion)
    assert len({(one.shear, one.intercept is None) for one in found}) == 4
    for one in found[::3]:
        channels = [CQX(2.0, tau, intervals, one.q, one.s, one.intercept, one.shear) for tau in taus]
        assert one.figure == pytest.approx(sum(_figure(c, criterion) for c in channels) / 2, rel=1e-12)
    assert [one.figure for one in found] == sorted(one.figure for one in found)


@pytest.mark.parametrize(
    ("epsilon", "d", "tau", "gain"), [(8.0, 20, 0.9, 0.64), (4.0, 8, 0.9, 0.73), (2.0, 3, 0.9, 0.80)]
)
def test_the_intercept_in_every_block_gains_what_is_said(
    epsilon: float, d: int, tau: float, gain: float
) -> None:
    """At extreme levels the chosen design always includes the intercept and beats uniform blocks by far."""
    found = candidates(epsilon, [tau], (MIDPOINT,) * d)
    uniform = next(one for one in found if one.intercept is None)
    assert found[0].intercept == 1.0
    assert found[0].figure / uniform.figure == pytest.approx(gain, abs=0.01)


@pytest.mark.parametrize(("d", "gain"), [(1, 0.655), (20, 0.352)])
def test_shear_gains_what_is_said(d: int, gain: float) -> None:
    """One-sided slopes at the median: shear leaves that share of the best other's second moment."""
    found = candidates(0.5, [0.5], (FROM_ZERO,) * d)
    plain = next(one for one in found if not one.shear)
    assert found[0].shear
    assert found[0].figure / plain.figure == pytest.approx(gain, abs=0.005)


def test_the_optimum_over_all_channels_is_reached_at_one_one_sided_slope() -> None:
    """At small epsilon it is ((sqrt 5 + 1)/2)^2 coth(eps/2)^2/4: the least of any channel on the vertices."""
    best = candidates(0.5, [0.5], (FROM_ZERO,))[0]
    least = ((math.sqrt(5) + 1) / 2) ** 2 / 4 / math.tanh(0.25) ** 2
    assert least <= best.figure <= 1.001 * least


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(
    "intervals",
    [(MIDPOINT,) * 9, (MIDPOINT, FROM_ZERO) * 10, [(-k / 20, 1 - k / 40) for k in range(20)]],
    ids=["nine", "twenty of two kinds", "twenty of their own"],
)
def test_it_answers_within_a_second(intervals: list[tuple[float, float]], criterion: Criterion) -> None:
    """Up to twenty features take less than a second, comparison channels included."""
    for epsilon in (0.5, 10.0):
        used = []
        for _ in range(2):  # the better of two, since the machine may be busy
            start = time.process_time()
            design_channel(epsilon, intervals, 0.9, criterion)
            used.append(time.process_time() - start)
        assert min(used) < 1


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_table_holds_every_kind_and_is_sorted(criterion: Criterion) -> None:
    """Every channel and the default design are there, by their figure; the biased one is never offered."""
    found = design_channel(1.0, 3, 0.75, criterion)
    kinds = {row.channel.kind for row in found.alternatives}
    assert kinds == {"cqx", "laplace", "face_exponential", "piecewise", "hybrid", "privunit_g"}
    assert CQXChannel() in [row.channel for row in found.alternatives]
    figures = [row.figure(criterion) for row in found.alternatives]
    assert figures == sorted(figures)
    least = min(row.figure(criterion) for row in found.alternatives if row.unbiased)
    assert found.best.figure(criterion) == least
    assert all(row.unbiased for row in found.better)
    for row in found.alternatives:
        channel = row.channel.mechanism(1.0, 0.75, (MIDPOINT,) * 3)
        assert row.expected == pytest.approx(math.fsum(channel.second_moments), rel=1e-12)
        assert row.worst == pytest.approx(channel.worst_second_moment, rel=1e-12)


def test_another_kind_is_offered_where_it_wins() -> None:
    """At a small epsilon, an extreme level and one-sided slopes Hybrid has a smaller worst case."""
    found = design_channel(0.25, (FROM_ZERO,) * 3, 0.05, "worst")
    assert [row.channel.kind for row in found.better][:1] == ["hybrid"]
    assert found.best.worst < found.chosen.worst
    assert design_channel(0.25, (FROM_ZERO,) * 3, 0.05).better == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 3, 0.5), "epsilon = 0"),
        ((1.0, -1, 0.5), "features = -1"),
        ((1.0, 2.5, 0.5), "features = 2.5"),
        ((1.0, 3, 1.0), "tau = 1"),
        ((1.0, 3, ()), "tau: must be"),
        ((1.0, [(0.5, 1.0)], 0.5), r"intervals\[0\]"),
        ((1.0, 3, 0.5, "mean"), "criterion = 'mean'"),
    ],
)
def test_nonsense_is_refused(arguments: tuple[Any, ...], message: str) -> None:
    """The error names the argument and what is allowed."""
    with pytest.raises(InvalidInput, match=message):
        design_channel(*arguments)


# ---------------------------------------------------------------------- in a campaign

BASE: dict[str, Any] = {
    "kind": "quantile",
    "name": "x",
    "tau": 0.9,
    "epsilon": 4.0,
    "target": {"lower": 0, "upper": 1},
    "features": {"a": {"lower": -1, "upper": 1}, "b": {"lower": 0, "upper": 1, "centre": 0}},
}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("tau", [0.9, [0.1, 0.5]])
def test_auto_is_resolved_before_the_campaign_is_frozen(criterion: Criterion, tau: Any) -> None:
    """The campaign holds the chosen design, as if it had been written, in its canonical JSON and digest."""
    campaign = Campaign(**{**BASE, "tau": tau}, channel={"kind": "auto", "criterion": criterion})
    taus = tau if isinstance(tau, list) else [tau]
    chosen = design_channel(4.0, campaign.scale.intervals, taus, criterion).chosen.channel
    assert campaign.channel == chosen
    assert "auto" not in campaign.canonical
    written = Campaign(**{**BASE, "tau": tau}, channel=chosen.model_dump())
    assert written.digest == campaign.digest
    assert Campaign.model_validate_json(campaign.canonical) == campaign


def test_new_fields_at_their_defaults_are_not_in_the_canonical_json() -> None:
    """A campaign that says intercept = None and shear = False is the one that does not mention them."""
    plain = Campaign(**BASE, channel={"kind": "cqx", "q": 2, "s": 2})
    same = Campaign(**BASE, channel={"kind": "cqx", "q": 2, "s": 2, "intercept": None, "shear": False})
    assert plain.digest == same.digest
    assert "shear" not in plain.canonical
    other = Campaign(**BASE, channel={"kind": "cqx", "q": 2, "s": 2, "intercept": 1, "shear": True})
    assert '"channel":{"intercept":1.0,"kind":"cqx","q":2,"s":2,"shear":true}' in other.canonical


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channel": {"kind": "auto", "criterion": "mean"}}, "channel.criterion = 'mean'"),
        ({"channel": {"kind": "auto", "q": 3}}, "channel.q: unknown key"),
        ({"channel": {"kind": "auto"}, "epsilon": None}, "epsilon: missing"),
        ({"channel": {"kind": "auto"}, "tau": 2}, "tau = 2"),
        ({"channel": {"kind": "auto"}, "features": {"a": {"lower": 0}}}, "features.a.upper: missing"),
        ({"channel": {"kind": "cqx", "intercept": 1}}, "intercept = 1.0: must be below 1"),
        ({"channel": {"kind": "cqx", "intercept": 2}}, "channel.intercept = 2"),
        ({"channel": {"kind": "cqx", "shear": 1}}, "channel.shear = 1"),
    ],
)
def test_a_wrong_definition_is_refused(change: dict[str, Any], message: str) -> None:
    """What is wrong is named, whether the channel is to be chosen or not."""
    with pytest.raises(InvalidCampaign) as caught:
        Campaign.model_validate({**BASE, **change})
    assert message in str(caught.value).replace("channel.cqx.", "channel.")
