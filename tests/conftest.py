"""What holds for every test: fixed hypothesis examples, no display, no silent skips in CI; Kafka brokers."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.kafka_broker import Broker, Reachable

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


@pytest.fixture(scope="session")
def broker() -> Iterator[Reachable]:
    """Kafka broker that the tests of this process share: the one at LDP_STREAM_KAFKA, else one of its own."""
    from tests import kafka_broker, kafka_ways

    try:
        with kafka_broker.shared() as reachable:
            yield reachable
    except kafka_ways.NoBroker as missing:
        pytest.skip(str(missing))


@pytest.fixture
def own_broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """Kafka broker of this test alone, freshly started, which it may stop, kill and start again.

    ``@pytest.mark.parametrize("own_broker", [{"log.segment.ms": "100"}], indirect=True)`` adds settings.
    """
    from tests import kafka_broker, kafka_ways

    try:
        with kafka_broker.Broker(getattr(request, "param", None)) as own:
            yield own
    except kafka_ways.NoBroker as missing:
        pytest.skip(str(missing))


@pytest.fixture
def unique_name(request: pytest.FixtureRequest) -> str:
    """Name for a campaign or topic that no other test uses; without LDP_STREAM_KAFKA the same in each run."""
    seed = request.node.nodeid + (uuid.uuid4().hex if "LDP_STREAM_KAFKA" in os.environ else "")
    return "t-" + hashlib.sha256(seed.encode()).hexdigest()[:10]
