"""The benchmark program itself: it runs, and its rows say what they compare."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ldp_stream import Aggregator
from ldp_stream.channels.base import CategoryPayload
from ldp_stream.connectors.kafka_options import KafkaSettings
from ldp_stream.connectors.service.tokens import CountedTokens
from ldp_stream.inference.critical_values import self_normalized
from ldp_stream.server.admission import Admission
from tests.benchmarks import coverage_study, harness, quantile, service
from tests.kafka_broker import Reachable


def test_every_benchmark_runs_at_a_small_size(broker: Reachable, tmp_path: Path) -> None:
    """At a thousandth of the size every row is there, and the JSON has the table's columns."""
    rows = quantile.rows(scale=0.001) + coverage_study.rows(scale=0.001)
    rows += service.rows(KafkaSettings(broker.bootstrap), scale=0.001)
    harness.show(rows)
    harness.write(rows, tmp_path / "bench.json")
    written = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert len(written) == 15
    for row in written:
        assert set(row) == {
            "name",
            "figure",
            "unit",
            "compared_with",
            "compared_figure",
            "ratio",
            "aim",
            "met",
        }
        assert row["figure"] > 0
        assert row["ratio"] == row["figure"] / row["compared_figure"]


@pytest.mark.parametrize(("figure", "met"), [(0.9, True), (1.1, False)])
def test_a_row_says_whether_its_aim_is_met(figure: float, met: bool) -> None:
    """The aim is an upper limit on the figure or on the ratio."""
    assert harness.Row.of("a", "us", figure, "b", 2.0, figure=1.0).met is met
    assert harness.Row.of("a", "us", figure, "b", 1.0, ratio=1.0).met is met


def test_the_plain_loop_computes_what_the_package_computes() -> None:
    """The program that a batch is timed against gives the same V, so the comparison is fair."""
    contract = quantile.campaign().model_copy(update={"burn_in": 0.0})
    batch = quantile.random_batch(contract, 3000, seed=3)
    mechanism = contract.levels[0].mechanism
    table = np.zeros((6, 2, 6))
    for block in range(6):
        for category in range(2):
            coordinates, values = mechanism.decode(CategoryPayload(block, category))  # type: ignore[arg-type]
            table[block, category, list(coordinates)] = values
    server = Aggregator(contract)
    server.ingest_many(batch)
    V = quantile.plain_loop(contract, batch, table) / 3000.0**2
    a = np.array([0.3, 1.0, -0.5, 0.0, 0.2, -1.0])
    half = self_normalized(0.95) * np.sqrt(a @ V @ a / 3000)
    weights = dict(zip(contract.scale.names, a.tolist(), strict=True))
    assert server.estimate().contrast(weights).width / 2 == pytest.approx(half, rel=1e-9)


def test_made_messages_all_count() -> None:
    """The messages that the service is timed with are good ones, whatever the place they start at."""
    contract = quantile.campaign()
    fold = Admission(Aggregator(contract), CountedTokens())
    for first, n in ((0, 5000), (5000, 700), (5700, 3)):
        assert fold.fold(range(first, first + n), service.messages(contract, first, n, seed=1)) == []
    assert fold.server.n_reports == 5703
