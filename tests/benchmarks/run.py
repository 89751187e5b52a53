"""``make bench``: run all benchmarks, print the table, write it to ``bench.json``."""

from __future__ import annotations

from pathlib import Path

from ldp_stream.connectors.kafka_options import KafkaSettings
from tests.kafka_broker import shared

from . import coverage_study, harness, quantile, service

__all__ = ["main"]


def main() -> None:
    """Run, print and write."""
    rows = quantile.rows() + coverage_study.rows()
    with shared() as broker:
        rows += service.rows(KafkaSettings(broker.bootstrap))
    harness.show(rows)
    harness.write(rows, Path("bench.json"))


if __name__ == "__main__":
    main()
