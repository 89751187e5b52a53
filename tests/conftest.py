"""Settings that hold for every test: fixed hypothesis examples, no display, and no silent skips in CI."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # inherited by the processes that tests start

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


class SkipsFail:
    """Plugin that reports a skipped test, or a skipped module, as a failed one."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn the skip of one test into a failure."""
        report = yield
        _fail_if_skipped(report)
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Turn the skip of a whole module into an error of its collection."""
        report = yield
        _fail_if_skipped(report)
        return report


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Change the outcome in place; an expected failure, which pytest also counts as skipped, stays one."""
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"LDP_STREAM_NO_SKIPS is set and this was skipped: {reason}"


def pytest_configure(config: pytest.Config) -> None:
    """Refuse skips when LDP_STREAM_NO_SKIPS=1, as CI sets it."""
    if os.environ.get("LDP_STREAM_NO_SKIPS") == "1":
        config.pluginmanager.register(SkipsFail(), "skips-fail")
