"""Clients of kafka-python, opened with a wait for a broker that is not there yet.

kafka-python waits longer and longer between its tries, up to 30 s, and says nothing. Here each try is short
and a broker is noticed within about a second of its start; every few seconds it is said what is waited for.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import BrokerUnavailable, InvalidInput
from .kafka_options import KafkaSettings, kafka_module, options_of

__all__ = ["Say", "open_client", "silent", "translated", "wait_for_broker"]

Say = Callable[[str], None]
"""Takes a line for a person."""

_SAY_SECONDS = 3.0
_TRY_SECONDS = (
    1.0,
    2.0,
    3.0,
)  # of the first tries and all later ones: slow lines make handshakes long
_DEFAULTS: dict[str, object] = {"reconnect_backoff_max_ms": 1000, "request_timeout_ms": 10_000}


def silent(text: str) -> None:
    """Say nothing."""


def never() -> bool:
    """Return False: nobody asks to stop."""
    return False


def wait_for_broker(settings: KafkaSettings, say: Say = silent, stopping: Callable[[], bool] = never) -> None:
    """Return when a broker answers.

    Parameters
    ----------
    settings
        Where it is, and how long to wait.
    say
        Told every few seconds what is waited for.
    stopping
        Asked every few seconds whether to give up.

    Raises
    ------
    BrokerUnavailable
        If none answers within ``settings.wait_seconds``, it refuses, or ``stopping`` says so.
    InvalidInput
        If kafka-python does not accept an option.
    """
    open_client(settings, "KafkaConsumer", say, stopping).close(autocommit=False, timeout_ms=1000)


def open_client(
    settings: KafkaSettings,
    client: str,
    say: Say = silent,
    stopping: Callable[[], bool] = never,
    **own: object,
) -> Any:
    """Return a connected client; parameters and errors as of :func:`wait_for_broker`.

    Parameters
    ----------
    client
        Name of the class of kafka-python.
    own
        What the connector sets: further arguments, which win over the user's options only where the user may
        not set them.
    """
    started = time.monotonic()
    next_line = started + _SAY_SECONDS
    tries = 0
    while True:
        left = started + settings.wait_seconds - time.monotonic()
        seconds = max(0.2, min(_TRY_SECONDS[min(tries, len(_TRY_SECONDS) - 1)], left))
        tries += 1
        with translated(settings, opening=True):
            if (opened := _try(settings, client, seconds, own)) is not None:
                return opened
        now = time.monotonic()
        if now - started >= settings.wait_seconds:
            raise BrokerUnavailable(
                f"no Kafka broker answers at {settings.servers} after {settings.wait_seconds:g} s"
                f"{_reason(settings)}"
            )
        if stopping():
            raise BrokerUnavailable(f"stopped while waiting for Kafka at {settings.servers}")
        if now >= next_line:
            say(f"waiting for Kafka at {settings.servers}, {now - started:.0f} s so far")
            next_line = now + _SAY_SECONDS


def _try(settings: KafkaSettings, client: str, seconds: float, own: dict[str, object]) -> Any:
    """Return a client, or None if no broker answered in time; leaves nothing behind then."""
    kafka, errors = kafka_module(), kafka_module("kafka.errors")
    maker = getattr(kafka, client)
    networks = []

    def network(**configs: Any) -> Any:
        networks.append(maker.DEFAULT_CONFIG["kafka_client"](**configs))
        return networks[-1]

    options = options_of(settings, client)
    if own.get("group_id") is None:
        options.pop("group_instance_id", None)  # kafka-python takes it only with a group
    arguments = {
        **_DEFAULTS,
        **own,
        **options,
        "bootstrap_servers": settings.servers.split(","),
        "bootstrap_timeout_ms": int(seconds * 1000),
        "kafka_client": network,
    }
    try:
        return maker(**arguments)
    except BaseException as error:
        for left_open in networks:
            left_open.close()
        if isinstance(error, errors.KafkaTimeoutError):
            return None
        raise


@contextmanager
def translated(settings: KafkaSettings, *, opening: bool = False) -> Iterator[None]:
    """Turn errors of kafka-python into the package's own, without any secret in their messages.

    Parameters
    ----------
    settings
        Whose secrets to hide.
    opening
        Whether a client is being made: errors of Python itself then say that an option is wrong.
    """
    errors = kafka_module("kafka.errors")
    try:
        yield
    except errors.KafkaConfigurationError as error:
        raise InvalidInput(f"Kafka options: {settings.hide(str(error))}") from None
    except errors.KafkaError as error:
        raise BrokerUnavailable(f"Kafka at {settings.servers}: {settings.hide(str(error))}") from None
    except (OSError, ValueError, TypeError, AssertionError, RuntimeError) as error:
        if not opening or isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"Kafka options: {settings.hide(str(error))}") from None


def _reason(settings: KafkaSettings) -> str:
    """Say what is at the first address, as far as one attempt to connect tells."""
    if {"proxy_url", "socks5_proxy"} & set(settings.options):
        return ""
    host, _, port = settings.servers.split(",")[0].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=1.0):
            return ": something listens there, but it does not answer as expected; are the TLS options right?"
    except OSError as error:
        return f": {error.strerror or error}"
