"""A thread that sends a log of reports to a topic while the service runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ldp_stream.connectors.kafka import KafkaSink, KeyedValue
from tests.connectors.service.serving import Stand

PIECE = 100  # messages that are sent at once


class Writer:
    """Sends a log to a topic from a thread of its own, as far as it is allowed to."""

    def __init__(self, stand: Stand, log: Sequence[bytes], pause: float = 0.005) -> None:
        self._stand = stand
        self._log = log
        self._pause = pause
        self._allowed = threading.Semaphore(0)
        self._left = len(log)
        self._ended = threading.Event()
        self.fault: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def allow(self, n: int | None = None) -> None:
        """Let it send n more messages, or all that are left."""
        n = self._left if n is None else min(n, self._left)
        self._left -= n
        self._allowed.release(n)

    def done(self) -> None:
        """Wait until all is sent."""
        self._thread.join(120)
        assert not self._thread.is_alive()
        assert self.fault is None

    def _run(self) -> None:
        try:
            with KafkaSink(self._stand.settings, self._stand.topics.reports, timeout=60.0) as sink:
                for first in range(0, len(self._log), PIECE):
                    piece = self._log[first : first + PIECE]
                    for _ in piece:
                        self._allowed.acquire()
                    if self._ended.is_set():
                        return
                    sink.write(KeyedValue(None, message, 0) for message in piece)
                    time.sleep(self._pause)
                sink.flush()
        except Exception as error:  # shown by the test that waits for this thread
            self.fault = error

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._allowed.release(PIECE)
        self._thread.join(60)
