"""Options of kafka-python given as text, secrets that nobody sees, and waiting for a broker."""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaConsumer

from ldp_stream.connectors.kafka import KafkaSink, KafkaSource
from ldp_stream.connectors.kafka_clients import open_client, translated, wait_for_broker
from ldp_stream.connectors.kafka_options import KafkaSettings, Secret, options_of, parse_options
from ldp_stream.errors import BrokerUnavailable, InvalidInput, MissingExtra
from tests.connectors.kafka_support import forget_refused_connections, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka_broker import Broker, Reachable

HUSH = "correct-horse-battery"


@pytest.fixture
def closed_port() -> Iterator[str]:
    """Address where nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound but not listening: nobody else gets it
        yield f"127.0.0.1:{held.getsockname()[1]}"
    forget_refused_connections()


# ---------------------------------------------------------------------- options


def test_each_value_has_the_type_that_kafka_python_has() -> None:
    """Text becomes whole numbers, numbers, truth values, versions or stays text, by the option."""
    assert parse_options(
        [
            "security_protocol=SASL_SSL",
            "ssl_check_hostname=FALSE",
            "retry_backoff_ms=250",
            "retries=7",
            "api_version=4.1",
            "receive_buffer_bytes=65536",
            "sasl_plain_username=a=b",
            "compression_type=gzip",
        ]
    ) == {
        "security_protocol": "SASL_SSL",
        "ssl_check_hostname": False,
        "retry_backoff_ms": 250,
        "retries": 7.0,
        "api_version": (4, 1),
        "receive_buffer_bytes": 65536,
        "sasl_plain_username": "a=b",
        "compression_type": "gzip",
    }


def test_the_file_has_the_same_options_and_the_command_line_wins(tmp_path: Path) -> None:
    """A TOML file's values are checked in the same way; what is given beside it replaces them."""
    path = tmp_path / "kafka.toml"
    path.write_text('security_protocol = "SSL"\nretry_backoff_ms = 5\nretries = 3\ncheck_crcs = false\n')
    assert parse_options(["retry_backoff_ms=9"], path) == {
        "security_protocol": "SSL",
        "retry_backoff_ms": 9,
        "retries": 3.0,
        "check_crcs": False,
    }


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("retry_backof_ms=1", "option 'retry_backof_ms': kafka-python knows no such option"),
        ("group_id=g", "option 'group_id': is set by the connector itself"),
        ("bootstrap_servers=h:1", "option 'bootstrap_servers': is set by the connector itself"),
        ("value_deserializer=x", "option 'value_deserializer': is set by the connector itself"),
        ("enable_auto_commit=true", "is set by the connector itself"),
        ("auto_offset_reset=latest", "is set by the connector itself"),
        ("retry_backoff_ms=soon", "retry_backoff_ms = 'soon': must be a whole number"),
        ("retry_backoff_ms=1.5", "retry_backoff_ms = '1.5': must be a whole number"),
        ("retries=often", "retries = 'often': must be a number"),
        ("check_crcs=maybe", "check_crcs = 'maybe': must be true or false"),
        ("api_version=new", "api_version = 'new': must be a version such as 4.1"),
        ("selector=x", "selector = 'x': must be set from Python"),
        ("ssl_context=x", "ssl_context = 'x': must be set from Python"),
        ("security_protocol", "option 'security_protocol': must be NAME=VALUE"),
        ("=x", "option '': must be NAME=VALUE"),
        (
            "sasl_plain_username=env:NO_SUCH",
            "sasl_plain_username = 'env:NO_SUCH': no such environment variable",
        ),
        ("ssl_password=file:/no/such", "ssl_password = 'file:/no/such': the file cannot be read"),
    ],
)
def test_a_wrong_option_is_refused_by_name(option: str, message: str) -> None:
    """The message names the option, what was given and what is allowed, in one line."""
    with pytest.raises(InvalidInput) as caught:
        parse_options([option])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_option_given_twice_is_refused() -> None:
    """Which of two values counts must not be a guess."""
    with pytest.raises(InvalidInput, match="option 'retries': given twice"):
        parse_options(["retries=1", "retries=2"])


@pytest.mark.parametrize(
    "text", ["check_crcs = 1", "retry_backoff_ms = 1.5", "retries = [1]", "x = 1", "a = "]
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str) -> None:
    """Values of the wrong type, unknown options and broken TOML do not pass."""
    path = tmp_path / "kafka.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput):
        parse_options([], path)
    with pytest.raises(InvalidInput, match=r"none\.toml: cannot be read as TOML"):
        parse_options([], tmp_path / "none.toml")


def test_each_client_gets_the_options_that_it_knows() -> None:
    """A consumer's option does not reach the producer, and the other way round."""
    settings = KafkaSettings("h:1", {"check_crcs": False, "compression_type": "gzip", "client_id": "me"})
    assert options_of(settings, "KafkaConsumer") == {"check_crcs": False, "client_id": "me"}
    assert options_of(settings, "KafkaProducer") == {"compression_type": "gzip", "client_id": "me"}
    assert options_of(settings, "KafkaAdminClient") == {"client_id": "me"}


@pytest.mark.parametrize(
    "servers", ["", "localhost", "h:0", "h:65536", "h:x", ":1", "h:1,", "h:1 ,g:2", "a/b:1"]
)
def test_malformed_addresses_are_refused(servers: str) -> None:
    """Every address must be HOST:PORT with a port that exists."""
    with pytest.raises(InvalidInput, match=r"must be HOST:PORT\[,HOST:PORT...\]"):
        KafkaSettings(servers)


def test_good_addresses_and_bad_settings() -> None:
    """Names, IPv4 and IPv6 pass; a negative wait, and files that are not there, do not."""
    assert KafkaSettings("a.b-c:1,127.0.0.1:65535,[::1]:9092").servers.count(",") == 2
    with pytest.raises(InvalidInput, match="wait_seconds = -1"):
        KafkaSettings("h:1", wait_seconds=-1)
    with pytest.raises(InvalidInput, match="ssl_cafile = '/no/such': no such file"):
        KafkaSettings("h:1", {"ssl_cafile": "/no/such"})


# ---------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("sasl_plain_password", HUSH),
        ("ssl_password", HUSH),
        ("proxy_url", f"socks5://me:{HUSH}@h:1"),
        ("socks5_proxy", f"socks5://me:{HUSH}@h:1"),
    ],
)
def test_a_secret_in_the_open_is_refused_without_showing_it(tmp_path: Path, name: str, given: str) -> None:
    """On the command line and in the file a password must be a reference; the refusal does not print it."""
    path = tmp_path / "kafka.toml"
    path.write_text(f'{name} = "{given}"')
    for arguments in (([f"{name}={given}"],), ([], path)):
        with pytest.raises(InvalidInput) as caught:
            parse_options(*arguments)
        assert str(caught.value) == f"{name}: a secret must be given as env:NAME or file:PATH"


def test_a_secret_is_read_and_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """References give the exact text, without one newline at a file's end, and no way to print shows it."""
    monkeypatch.setenv("HUSH", HUSH)
    path = tmp_path / "secret"
    path.write_text(HUSH + " \n\n")
    options = parse_options(["sasl_plain_password=env:HUSH", f"ssl_password=file:{path}"])
    settings = KafkaSettings("h:1", options)
    assert settings.options == {"sasl_plain_password": HUSH, "ssl_password": HUSH + " \n"}
    for shown in (
        repr(settings),
        str(settings),
        f"{settings}",
        repr(options),
        f"{options}",
        str(settings.options),
    ):
        assert HUSH not in shown
    secret = settings.options["sasl_plain_password"]
    assert isinstance(secret, Secret)
    assert f"{secret} {secret:>5} {secret!r} {secret!s}" == "***   *** '***' ***"
    assert settings.hide(f"wrong password {HUSH}!") == "wrong password ***!"
    assert HUSH not in repr(KafkaSettings("h:1", {"sasl_plain_password": HUSH}).options)


def test_a_value_from_outside_is_not_printed_by_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable's content of the wrong type, or empty, is named by the variable only."""
    monkeypatch.setenv("HUSH", HUSH)
    with pytest.raises(InvalidInput, match="retry_backoff_ms = 'env:HUSH': must be a whole number"):
        parse_options(["retry_backoff_ms=env:HUSH"])
    monkeypatch.setenv("HUSH", "")
    with pytest.raises(InvalidInput, match="sasl_plain_password = 'env:HUSH': is empty"):
        parse_options(["sasl_plain_password=env:HUSH"])


def test_secrets_are_in_no_log_line_of_kafka_python(
    closed_port: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At level DEBUG every client logs much, the admin client all its options, but no password."""
    settings = settings_of(
        closed_port,
        wait_seconds=0.2,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="me",
        sasl_plain_password=HUSH,
    )
    with caplog.at_level(logging.DEBUG):
        for client in ("KafkaAdminClient", "KafkaConsumer", "KafkaProducer"):
            with pytest.raises(BrokerUnavailable) as caught:
                open_client(settings, client)
            assert HUSH not in str(caught.value)
    assert "'sasl_plain_password': '***'" in caplog.text
    assert HUSH not in caplog.text


def test_secrets_in_messages_of_kafka_python_are_hidden() -> None:
    """An error that repeats a password reaches the user with stars, whichever of its kinds it is."""
    settings = KafkaSettings("h:1", {"sasl_plain_password": HUSH})
    with (
        pytest.raises(InvalidInput, match=r"Kafka options: .*\*\*\*") as wrong,
        translated(settings, opening=True),
    ):
        raise ValueError(f"bad {HUSH}")
    assert HUSH not in str(wrong.value)
    with pytest.raises(ValueError, match="own"), translated(settings):
        raise ValueError("own")


def test_the_password_that_arrives_is_the_real_one() -> None:
    """The wrapped text is used as it is: SASL PLAIN sends the password, not the stars."""
    password = KafkaSettings("h:1", {"sasl_plain_password": HUSH}).options["sasl_plain_password"]
    assert isinstance(password, str)
    assert "\0".join(["me", password]).encode() == f"me\0{HUSH}".encode()
    assert password.encode() == HUSH.encode()


# ---------------------------------------------------------------------- waiting


def test_a_broker_that_is_not_there_is_waited_for_up_to_the_limit(closed_port: str) -> None:
    """Every few seconds a line says what is waited for; then a clear error ends it, and no thread stays."""
    said: list[str] = []
    threads = threading.active_count()
    start = time.monotonic()
    with pytest.raises(
        BrokerUnavailable, match=f"no Kafka broker answers at {closed_port} after 4 s: Connection"
    ):
        wait_for_broker(settings_of(closed_port, wait_seconds=4), said.append)
    assert 3.9 < time.monotonic() - start < 8
    assert said == [f"waiting for Kafka at {closed_port}, 3 s so far"]
    assert threading.active_count() == threads


def test_what_listens_but_is_no_broker_is_said() -> None:
    """Something that accepts and says nothing is not taken for a broker, and the error hints at TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = settings_of(f"127.0.0.1:{server.getsockname()[1]}", wait_seconds=1)
        with pytest.raises(BrokerUnavailable, match="something listens there, but it does not answer"):
            wait_for_broker(settings)


def test_waiting_ends_when_it_is_asked_to(closed_port: str) -> None:
    """A stop is noticed within seconds, however long the limit is."""
    start = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="stopped while waiting"):
        wait_for_broker(settings_of(closed_port, wait_seconds=600), stopping=lambda: True)
    assert time.monotonic() - start < 4


def test_an_option_of_members_does_not_disturb_those_without_a_group(broker: Reachable) -> None:
    """A fixed name for a group's member is passed to members only: kafka-python refuses it elsewhere."""
    wait_for_broker(settings_of(broker.bootstrap, group_instance_id="worker-0"))


def test_a_broker_is_noticed_soon_after_its_start(own_broker: Broker) -> None:
    """A wait of many seconds before does not delay the notice: it comes within about a second."""
    own_broker.stop()
    noticed: list[float] = []

    def wait() -> None:
        wait_for_broker(settings_of(own_broker.bootstrap))
        noticed.append(time.monotonic())

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(6)
    assert not noticed
    own_broker.start()
    started = time.monotonic()
    waiting.join(30)
    assert noticed[0] - started < 2.5
    forget_refused_connections()


def test_wrong_options_are_refused_without_waiting(closed_port: str) -> None:
    """What kafka-python itself refuses is the user's fault, said at once and not waited for."""
    start = time.monotonic()
    with pytest.raises(InvalidInput, match=r"Kafka options: .*fetch_max_wait_ms \(1000000\)"):
        wait_for_broker(settings_of(closed_port, fetch_max_wait_ms=1_000_000))
    assert time.monotonic() - start < 3


# ---------------------------------------------------------------------- without kafka-python


def test_without_kafka_python_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that needs the optional package says what to install."""
    settings = KafkaSettings("h:1")
    assert KafkaConsumer is not None
    monkeypatch.setitem(sys.modules, "kafka", None)
    for use in (
        lambda: wait_for_broker(settings),
        lambda: KafkaSource[bytes](settings, "t"),
        lambda: KafkaSink(settings, "t"),
    ):
        with pytest.raises(MissingExtra, match=r"pip install 'ldp-stream\[kafka\]'"):
            use()
