"""The options of every command that talks to Kafka, and the settings that they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..kafka_options import KafkaSettings

__all__ = ["KafkaConfig", "KafkaOption", "KafkaServers", "WaitSeconds", "read_settings"]

KafkaServers = Annotated[
    str | None,
    typer.Option(
        "--kafka", metavar="HOST:PORT", help="Brokers to begin with, separated by commas.", show_default=False
    ),
]
KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An option of kafka-python, as often as needed; VALUE may be env:NAME or file:PATH, and must be "
        "for secrets.",
        show_default=False,
    ),
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A TOML file of such options.", show_default=False),
]
WaitSeconds = Annotated[
    float, typer.Option(metavar="S", help="How long to wait for a broker that is not there.")
]


def read_settings(
    servers: str, options: list[str] | None, config: Path | None, wait_seconds: float
) -> KafkaSettings:
    """Return the settings; InvalidInput or MissingExtra says what is wrong."""
    from ..kafka_options import KafkaSettings, parse_options

    return KafkaSettings(servers, parse_options(options or [], config), wait_seconds=wait_seconds)
