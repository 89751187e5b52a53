"""Rounds of the plan's length cost nothing, longer ones do; so with reports within the accepted staleness.

All comparisons are between studies of the same users and the same noise, so they are much sharper than the
studies themselves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ldp_stream import Aggregator
from ldp_stream.report_batch import ReportBatch
from tests.statistical.rounds import Comparison, RoundStudy, simulate

STUDIES = {epsilon: RoundStudy(epsilon, n=30_000, replications=150) for epsilon in (1.0, 4.0)}

simulated = cache(simulate)  # each study is simulated once


@pytest.mark.parametrize(("late", "share"), [(0, 1.0), (3, 1.0), (5, 0.3), (2, None)])
def test_the_simulation_is_the_server(late: int, share: float | None) -> None:
    """The server, given the same reports, makes the same rounds of the same coefficients and intervals."""
    study = RoundStudy(epsilon=2.0, n=3000, replications=2, late=late)
    study = replace(study, in_bursts=True) if share is None else replace(study, share=share)
    campaign, found = study.campaign(), simulate(study, seed=3, keep=True)
    assert found.blocks is not None
    assert found.categories is not None
    for r in range(study.replications):
        server = Aggregator(campaign)
        for number, (start, stop) in enumerate(zip(found.starts, (*found.starts[1:], study.n), strict=True)):
            now = server.parameters()
            assert (now.round, now.n) == (number, start)
            np.testing.assert_allclose(now.chains[0].beta, found.points[number][r], rtol=0, atol=1e-12)
            size = stop - start
            server.ingest_many(
                ReportBatch(
                    campaign.digest_prefix,
                    np.full(size, number, np.uint32),
                    np.zeros(size, np.uint16),
                    np.zeros((size, 16), np.uint8),
                    block=np.ascontiguousarray(found.blocks[start:stop, r]),
                    category=np.ascontiguousarray(found.categories[start:stop, r]),
                )
            )
        answer = server.estimate(0.95)
        for j, name in enumerate(("intercept", "x1", "x2")):
            assert answer[name].value == pytest.approx(found.mean[r, j], abs=1e-12)
            assert answer[name].width / 2 == pytest.approx(found.half_widths[r, j], rel=1e-9)


@pytest.mark.parametrize("epsilon", STUDIES)
def test_rounds_of_the_plan_are_as_good_as_rounds_of_one(epsilon: float) -> None:
    """The plan's rounds leave the error and the coverage of fresh parameters for each report."""
    study = STUDIES[epsilon]
    fresh = simulated(replace(study, length=1), seed=1)
    assert 0.88 < fresh.coverage < 0.97
    found = Comparison.of(simulated(study, seed=1), fresh)
    assert found.harmless
    assert abs(found.error - 1) < 4 * found.error_se + 0.01
    assert abs(found.coverage) < 4 * found.coverage_se


@pytest.mark.parametrize(("epsilon", "length"), [(1.0, 10_000), (4.0, 10_000), (4.0, 1000)])
def test_the_same_check_rejects_long_rounds(epsilon: float, length: int) -> None:
    """Rounds of 10,000 reports, and at epsilon 4 of 1,000, have over three times the plan's error."""
    study = STUDIES[epsilon]
    found = Comparison.of(simulated(replace(study, length=length), seed=1), simulated(study, seed=1))
    assert not found.harmless
    assert found.error - 4 * found.error_se > 3


@pytest.mark.parametrize("in_bursts", [False, True], ids=["constant", "bursts"])
@pytest.mark.parametrize("epsilon", STUDIES)
def test_reports_within_the_accepted_staleness_are_harmless(epsilon: float, in_bursts: bool) -> None:
    """All reports as late as a campaign accepts by default, or up to it, leave error and coverage alone."""
    study = STUDIES[epsilon]
    late = replace(study, late=study.campaign().rounds.max_staleness, in_bursts=in_bursts)
    assert Comparison.of(simulated(late, seed=1), simulated(study, seed=1)).harmless


def test_the_accepted_staleness_is_the_largest_stable_one() -> None:
    """Delays up to k rounds are stable whatever their pattern if (k + 1) N eta lambda <= 3/2."""
    rounds = STUDIES[1.0].campaign().rounds
    assert (
        (rounds.max_staleness + 1) * rounds.stability <= 1.5 < (rounds.max_staleness + 2) * rounds.stability
    )


def test_at_the_guessed_curvature_the_accepted_staleness_costs_little() -> None:
    """With the curvature of the public guess, all reports as late as accepted cost under a quarter more."""
    study = RoundStudy(epsilon=1.0, n=10_000, replications=300, sigma=0.04)
    accepted = study.campaign().rounds.max_staleness
    assert study.curvature == pytest.approx(study.campaign().rounds.curvature, rel=0.01)
    base = simulate(study, seed=1)
    found, later = (
        Comparison.of(simulate(replace(study, late=late), seed=1), base) for late in (accepted, 2 * accepted)
    )
    assert found.error + 2 * found.error_se < 1.25
    assert abs(found.coverage) < 4 * found.coverage_se
    assert later.error - 4 * later.error_se > 1.25


def test_the_same_check_rejects_reports_much_later() -> None:
    """When every report is 32 rounds late the error is over half as large again."""
    study = STUDIES[1.0]
    found = Comparison.of(simulated(replace(study, late=32), seed=1), simulated(study, seed=1))
    assert not found.harmless
    assert found.error - 4 * found.error_se > 1.5


def test_a_few_reports_may_be_much_later() -> None:
    """A tenth of the reports up to 32 rounds late, the rest in time, is harmless."""
    study = STUDIES[1.0]
    some = replace(study, late=32, share=0.1)
    assert Comparison.of(simulated(some, seed=1), simulated(study, seed=1)).harmless
