"""``make bench``: run all benchmarks, print the table, write it to ``bench.json``."""

from __future__ import annotations

from pathlib import Path

from . import harness, quantile

__all__ = ["main"]


def main() -> None:
    """Run, print and write."""
    rows = quantile.rows()
    harness.show(rows)
    harness.write(rows, Path("bench.json"))


if __name__ == "__main__":
    main()
