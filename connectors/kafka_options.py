"""Where Kafka is and how to reach it: addresses, options of kafka-python, and secrets that are never shown.

An option is given as ``NAME=VALUE`` or in a TOML file; ``env:NAME`` and ``file:PATH`` stand for the value of
an environment variable and the content of a file. Passwords can be given in no other way, and are wrapped, so
that no repr, message or log line shows them (kafka-python logs its configuration at level DEBUG).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .._validate import non_negative
from ..errors import InvalidInput, MissingExtra

__all__ = ["KafkaSettings", "Secret", "kafka_module", "options_of", "parse_options"]

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]/]+):([0-9]{1,5})")
_PASSWORDS = frozenset({"sasl_plain_password", "ssl_password"})
_PROXIES = frozenset({"proxy_url", "socks5_proxy"})  # may hold a user's password
_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_OWN = frozenset(  # what the connector sets
    {
        "acks",
        "allow_auto_create_topics",
        "auto_offset_reset",
        "bootstrap_servers",
        "bootstrap_timeout_ms",
        "enable_auto_commit",
        "group_id",
        "kafka_client",
        "key_deserializer",
        "key_serializer",
        "transactional_id",
        "value_deserializer",
        "value_serializer",
    }
)
_TEXT_BY_DEFAULT = frozenset(  # those without a default that are text
    {"group_instance_id", "compression_type", "client_id", "sasl_mechanism", "sasl_plain_username"}
    | {"sasl_kerberos_name", "sasl_kerberos_domain_name", "ssl_ciphers"}
    | {*_FILES, *_PASSWORDS, *_PROXIES}
)
_WHOLE_BY_DEFAULT = frozenset({"receive_buffer_bytes", "send_buffer_bytes"})
_CLIENTS = ("KafkaConsumer", "KafkaProducer", "KafkaAdminClient")
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class Secret(str):
    """Text that kafka-python can use as it is, and that shows as ``***`` wherever it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return three stars."""
        return "'***'"

    def __str__(self) -> str:
        """Return three stars."""
        return "***"

    def __format__(self, specification: str) -> str:
        """Return three stars."""
        return format("***", specification)


def kafka_module(name: str = "kafka") -> Any:
    """Import a module of kafka-python.

    Raises
    ------
    MissingExtra
        If kafka-python is not installed.
    """
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(
            "Kafka needs kafka-python, which is not installed: pip install 'ldp-stream[kafka]'"
        ) from None


@dataclass(frozen=True)
class KafkaSettings:
    """Where Kafka is and how to reach it.

    Parameters
    ----------
    servers
        Brokers to begin with, ``HOST:PORT[,HOST:PORT...]``.
    options
        Options of kafka-python, each passed to every client that knows it. Passwords are wrapped in
        :class:`Secret`; no repr shows any value.
    wait_seconds
        How long to wait for a broker that is not there yet, in seconds.

    Raises
    ------
    InvalidInput
        If an address is malformed, no client knows an option, the connector sets it itself, or a file that
        an option names is not there.
    MissingExtra
        If kafka-python is not installed.

    Examples
    --------
    >>> KafkaSettings("localhost:9092", {"ssl_password": "hush"})
    KafkaSettings(servers='localhost:9092', wait_seconds=60.0)
    """

    servers: str
    options: Mapping[str, object] = field(default_factory=dict, repr=False)
    wait_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Check everything, and wrap what is secret."""
        for address in self.servers.split(","):
            found = _ADDRESS.fullmatch(address)
            if found is None or not 1 <= int(found[1]) <= 65535:
                raise InvalidInput(f"servers = {self.servers!r}: must be HOST:PORT[,HOST:PORT...]")
        non_negative(wait_seconds=self.wait_seconds)
        for name in self.options:
            _default(name)
        for name in _FILES:
            path = self.options.get(name)
            if path is not None and not (isinstance(path, str) and Path(path).is_file()):
                raise InvalidInput(f"{name} = {path!r}: no such file")
        wrapped = {name: _wrapped(name, value) for name, value in self.options.items()}
        object.__setattr__(self, "options", MappingProxyType(wrapped))

    def hide(self, text: str) -> str:
        """Return a text with every secret in it replaced by three stars."""
        for value in self.options.values():
            if isinstance(value, Secret) and value:
                text = text.replace(value, "***")
        return text


def options_of(settings: KafkaSettings, client: str) -> dict[str, object]:
    """Return the options that one client of kafka-python knows, by its class's name."""
    known = getattr(kafka_module(), client).DEFAULT_CONFIG
    return {name: value for name, value in settings.options.items() if name in known}


def parse_options(
    options: Iterable[str], config_file: str | os.PathLike[str] | None = None
) -> dict[str, object]:
    """Read options given as text.

    Parameters
    ----------
    options
        Each ``NAME=VALUE``; they win over the file. VALUE may be ``env:NAME`` or ``file:PATH`` (one newline
        at the end of the file is left out), and must be for passwords.
    config_file
        A TOML file of the same options at its top level.

    Returns
    -------
    dict
        Values of the type that kafka-python has for each.

    Raises
    ------
    InvalidInput
        If an option is unknown, malformed, given twice, of the wrong type, or not to be set; a password is
        given in the open; a variable or a file is not there. No message shows a value from either.
    MissingExtra
        If kafka-python is not installed.

    Examples
    --------
    >>> parse_options(["security_protocol=SSL", "fetch_max_wait_ms=100", "check_crcs=false"])
    {'security_protocol': 'SSL', 'fetch_max_wait_ms': 100, 'check_crcs': False}
    >>> parse_options(["sasl_plain_password=hush"])
    Traceback (most recent call last):
    ...
    ldp_stream.errors.InvalidInput: sasl_plain_password: a secret must be given as env:NAME or file:PATH
    """
    given: dict[str, object] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name:
            raise InvalidInput(f"option {name!r}: must be NAME=VALUE")
        if name in given:
            raise InvalidInput(f"option {name!r}: given twice")
        given[name] = text
    return {name: _value(name, text) for name, text in {**_read_file(config_file), **given}.items()}


def _read_file(path: str | os.PathLike[str] | None) -> dict[str, object]:
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{os.fspath(path)}: cannot be read as TOML: {error}") from None


def _value(name: str, given: object) -> object:
    """Return a value in its type, following a reference to a variable or a file."""
    default = _default(name)
    shown = given
    if isinstance(given, str) and given.startswith(("env:", "file:")):
        value: object = _referred(name, given)
    else:
        value = given
        if name in _PASSWORDS or (name in _PROXIES and isinstance(given, str) and "@" in given):
            raise InvalidInput(f"{name}: a secret must be given as env:NAME or file:PATH")
    return _wrapped(name, _typed(name, value, default, shown))


def _referred(name: str, reference: str) -> str:
    kind, _, where = reference.partition(":")
    if kind == "env":
        if where not in os.environ:
            raise InvalidInput(f"{name} = {reference!r}: no such environment variable")
        text = os.environ[where]
    else:
        try:
            text = Path(where).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise InvalidInput(f"{name} = {reference!r}: the file cannot be read") from None
        text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise InvalidInput(f"{name} = {reference!r}: is empty")
    return text


def _typed(name: str, value: object, default: object, shown: object) -> object:
    """Return the value in the type of kafka-python's default."""
    wanted: type = str
    if name == "api_version":
        wanted = tuple
    elif name not in _TEXT_BY_DEFAULT:
        wanted = int if name in _WHOLE_BY_DEFAULT else type(default)
    if wanted is str and isinstance(value, str):
        return value
    if wanted is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _TRUTH:
            return _TRUTH[value.lower()]
    if wanted in (int, float) and isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError):
            return int(str(value)) if wanted is int else float(value)
    if wanted is tuple and isinstance(value, str) and re.fullmatch(r"\d+(\.\d+){1,2}", value):
        return tuple(int(part) for part in value.split("."))
    allowed = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}
    say = allowed.get(wanted, "a version such as 4.1" if wanted is tuple else "set from Python")
    raise InvalidInput(f"{name} = {shown!r}: must be {say}")


def _wrapped(name: str, value: object) -> object:
    if isinstance(value, Secret) or not isinstance(value, str):
        return value
    return Secret(value) if name in _PASSWORDS or (name in _PROXIES and "@" in value) else value


def _default(name: str) -> object:
    """Return kafka-python's default of an option; refuse one that is unknown or not to be set."""
    if name in _OWN:
        raise InvalidInput(f"option {name!r}: is set by the connector itself")
    defaults = _defaults()
    if name not in defaults:
        raise InvalidInput(f"option {name!r}: kafka-python knows no such option")
    return defaults[name]


@cache
def _defaults() -> dict[str, object]:
    kafka = kafka_module()
    found: dict[str, object] = {}
    for client in _CLIENTS:
        for name, value in getattr(kafka, client).DEFAULT_CONFIG.items():
            found[name] = value if found.get(name) is None else found[name]
    return found
