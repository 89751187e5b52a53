"""What the service publishes and when: each partition's parameters, and the estimate over all of them.

A round begins after a public number of accepted reports, so parameters are a function of the log; time only
decides that the newest are sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from ...server.published import estimates_to_json
from .outlets import Outlet
from .settings import ServiceSettings
from .state import ServiceState

__all__ = ["Publisher"]


class Publisher:
    """Sends what is new.

    Parameters
    ----------
    state
        What is published.
    outlet
        Where to.
    settings
        How often.
    clock
        Seconds that never go back.
    """

    def __init__(
        self, state: ServiceState, outlet: Outlet, settings: ServiceSettings, clock: Callable[[], float]
    ) -> None:
        self._state = state
        self._outlet = outlet
        self._settings = settings
        self._clock = clock
        self._rounds: dict[int, tuple[int, float]] = {}  # partition: the round last sent, when
        self._next_estimate = clock()
        self._sent: tuple[int, int] | None = None  # reports and refusals of the estimate last sent
        self._sent_at = 0.0

    def publish(self) -> None:
        """Send the parameters of every partition with a new round, and the estimate if it is time."""
        now = self._clock()
        for server in self._state.servers:
            number, when = self._rounds.get(server.partition, (-1, now))
            current = server.round
            if current != number or now - when >= self._settings.repeat_seconds:
                self._rounds[server.partition] = current, now
                self._outlet.parameters(server.parameters())
        if now >= self._next_estimate:
            self._next_estimate = now + self._settings.publish_seconds
            self.estimate()
        self._outlet.tend()

    def estimate(self) -> None:
        """Send the estimate, if it has changed or was last sent ``repeat_seconds`` ago."""
        now = self._clock()
        refused = self._state.by_reason()
        stand = self._state.n_reports, refused.total()
        if stand == self._sent and now - self._sent_at < self._settings.repeat_seconds:
            return
        self._sent, self._sent_at = stand, now
        estimates = self._state.pooled().estimates(self._settings.level)
        facts = {
            "rejected": dict(sorted((str(reason), count) for reason, count in refused.items())),
            "rounds": {str(server.partition): server.round for server in self._state.servers},
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._outlet.estimate(estimates_to_json(estimates, **facts))
