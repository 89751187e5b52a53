"""The coverage study's cost of a simulated report, many replications at once and one alone."""

from __future__ import annotations

from ldp_stream.studies.coverage import Cell, simulate

from .harness import Row, fastest

__all__ = ["rows"]

MICRO = 1e6
REPLICATIONS = 400


def rows(scale: float = 1.0) -> list[Row]:
    """Return the row of SN with adaptive steps; ``scale`` below 1 makes every size smaller."""
    n = max(int(10_000 * scale), 1000)
    replications = max(int(REPLICATIONS * scale), 4)
    cell = Cell("sn", 0.5, 2.0, 3, "gauss", 0.2, n)
    simulate(cell, 2, seed=1)  # tables and critical values are made once
    many, alone = fastest(
        [lambda: simulate(cell, replications, seed=1), lambda: simulate(cell, 1, seed=1)],
        5 if scale == 1.0 else 1,
    )
    figure, other = many / (n * replications) * MICRO, alone / n * MICRO
    name = f"simulated report, {replications} replications, d = 3"
    return [Row.of(name, "us", figure, "one replication alone", other, figure=1.0)]
