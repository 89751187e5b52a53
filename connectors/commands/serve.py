"""``ldp-stream serve``: the long-running consumer of a stream of reports."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from .kafka_choice import KafkaConfig, KafkaOption, KafkaServers, WaitSeconds
from .options import CampaignFile, Level, RejectsOutput

__all__ = ["serve"]

_NOT_SAVED = 1
_REFUSED = 2


def serve(
    campaign: CampaignFile,
    reports: Annotated[
        Path | None,
        typer.Argument(
            metavar="[REPORTS]",
            help="Instead of Kafka: a file of reports, JSON lines (also gzip); - is standard input.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="State, position and counted tokens; gone on from if it is there. Needed.",
            show_default=False,
        ),
    ] = None,
    kafka: KafkaServers = None,
    kafka_option: KafkaOption = None,
    kafka_config: KafkaConfig = None,
    wait_seconds: WaitSeconds = 300.0,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The consumer group. Default: the topics' common name.", show_default=False
        ),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Copies of each topic that is made. Default: the broker's.",
            show_default=False,
        ),
    ] = None,
    parameters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With REPORTS: keep the newest parameters here.", show_default=False
        ),
    ] = None,
    estimates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With REPORTS: keep the newest estimate here.", show_default=False),
    ] = None,
    rejects: RejectsOutput = None,
    horizon: Annotated[
        int,
        typer.Option(
            min=15,
            metavar="N",
            help="Offsets back to which a token counts once; fixed when the checkpoint is made.",
        ),
    ] = 10_000_000,
    save_seconds: Annotated[float, typer.Option(metavar="S", help="Seconds between two checkpoints.")] = 5.0,
    publish_seconds: Annotated[
        float, typer.Option(metavar="S", help="Seconds between two published estimates.")
    ] = 5.0,
    repeat_seconds: Annotated[
        float, typer.Option(metavar="S", help="Seconds after which the same parameters are sent again.")
    ] = 30.0,
    level: Level = 0.95,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object a line instead of text.")
    ] = False,
) -> None:
    r"""Serve a campaign: count reports, publish parameters and estimates, resume.

    Reads reports from Kafka (topic <name>-<digest>.reports), publishes the
    parameters that devices answer (.parameters), estimates (.estimates) and
    what cannot be used (.rejected). Topics that are not there are made.

    State, position and counted tokens are saved together. A service that is
    stopped, killed or cut off goes on exactly there when it is started again:
    nothing is lost and nothing counts twice. Stop it with Ctrl-C or SIGTERM.

    Examples
    --------
    ldp-stream serve trips.toml --kafka localhost:9092 --checkpoint state.ckpt
    ldp-stream serve trips.toml reports.jsonl --checkpoint state.ckpt \
        --parameters p.json
    ldp-stream serve trips.toml --kafka broker:9093 --checkpoint state.ckpt \
        --kafka-option security_protocol=SASL_SSL \
        --kafka-option sasl_mechanism=PLAIN \
        --kafka-option sasl_plain_username=me \
        --kafka-option sasl_plain_password=env:KAFKA_PASSWORD
    """
    from ...errors import InvalidInput, LdpStreamError
    from ..service.logs import JsonLog
    from ..service.settings import ServiceSettings
    from .files_out import check_writable
    from .kafka_choice import read_settings
    from .serving import FilePlaces, KafkaPlaces, Places, serve_until_stopped
    from .stopping import StopSignals
    from .stored import load_campaign

    definition = load_campaign(campaign)
    if (kafka is None) == (reports is None):
        raise InvalidInput("REPORTS, --kafka: one of the two must be given")
    if checkpoint is None:
        raise InvalidInput("--checkpoint: missing; it names the file in which the state is kept")
    check_writable(checkpoint, "--checkpoint")
    for path, option in ((parameters, "--parameters"), (estimates, "--estimates"), (rejects, "--rejects")):
        if path is not None:
            check_writable(path, option)
    settings = ServiceSettings(
        save_seconds=save_seconds,
        publish_seconds=publish_seconds,
        repeat_seconds=repeat_seconds,
        level=level,
    )
    places: Places
    if kafka is not None:
        if parameters or estimates or rejects:
            raise InvalidInput(
                "--parameters, --estimates, --rejects: go with REPORTS; Kafka has topics for them"
            )
        broker = read_settings(kafka, kafka_option, kafka_config, wait_seconds)
        places = KafkaPlaces(broker, group, replication)
    else:
        if kafka_option or kafka_config or group or replication:
            raise InvalidInput("--kafka-option, --kafka-config, --group, --replication: need --kafka")
        places = FilePlaces(str(reports), parameters, estimates, rejects)
    try:
        with ExitStack() as held:
            stop = held.enter_context(StopSignals())
            saved = serve_until_stopped(
                definition, places, checkpoint, horizon, settings, log_json, stop, held
            )
    except (LdpStreamError, OSError) as error:
        if not log_json:
            raise
        JsonLog()("error", "failed", str(error))
        raise typer.Exit(_REFUSED) from None
    if not saved:
        raise typer.Exit(_NOT_SAVED)
