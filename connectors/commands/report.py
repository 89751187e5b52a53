"""``ldp-stream report``: act as devices, at fixed parameters or at those that a service publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .kafka_choice import KafkaConfig, KafkaOption, KafkaServers, WaitSeconds, read_settings
from .options import (
    CampaignFile,
    Delimiter,
    Format,
    RejectsOutput,
    RowFiles,
    RowFormat,
    Seed,
    Strict,
    Target,
    Tlc,
)

__all__ = ["report"]


def report(
    campaign: CampaignFile,
    rows: RowFiles,
    parameters: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The parameters message, as JSON.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the reports here, one a line; - is standard output.",
            show_default=False,
        ),
    ] = None,
    target: Target = None,
    binary: Annotated[
        bool, typer.Option("--binary", help="The compact binary form: 37 bytes a report, 39 in a file.")
    ] = False,
    kafka: KafkaServers = None,
    kafka_option: KafkaOption = None,
    kafka_config: KafkaConfig = None,
    wait_seconds: WaitSeconds = 60.0,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With --kafka: the column that names each row's user, who reports once. Across runs a user "
            "is the same one only with the same --seed. Default: every row is a user.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(metavar="R", help="With --kafka: at most so many reports a second.", show_default=False),
    ] = None,
    tlc: Tlc = False,
    layout: RowFormat = Format.AUTO,
    delimiter: Delimiter = ",",
    rejects: RejectsOutput = None,
    strict: Strict = False,
    seed: Seed = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Make at most so many reports.", show_default=False)
    ] = None,
) -> None:
    r"""Act as devices: make one private report of each row, at the parameters given.

    To a file, all at the same parameters. Many reports at one point are one
    step, as long as all of theirs together. A step that is too long overshoots,
    so only so many are safe: the length of the round. The command says how
    many, and warns when there are more. To go on, ingest them and make the next
    reports at new parameters; 'replay' does all this by itself.

    With --kafka to the topic that 'serve' reads, each report at the newest
    parameters that it has published; where a round has enough, the next one is
    waited for.

    No ledger is kept here: making reports of the same rows again spends their
    users' privacy again.

    Examples
    --------
    ldp-stream parameters trips.toml --out p.json
    ldp-stream report trips.toml rows.csv --target minutes --limit 12 \
        --parameters p.json --out reports.jsonl
    ldp-stream report trips.toml rows.csv --target minutes \
        --kafka localhost:9092
    """
    from ...errors import InvalidInput
    from .raw_rows import RowChoice
    from .report_file import report_to_file
    from .report_kafka import report_to_kafka
    from .stored import load_campaign

    definition = load_campaign(campaign)
    source = RowChoice([str(path) for path in rows], target, tlc, layout, delimiter, strict, rejects)
    if kafka is None:
        if user is not None or rate is not None or kafka_option or kafka_config:
            raise InvalidInput("--user, --rate, --kafka-option, --kafka-config: need --kafka")
        if parameters is None or out is None:
            raise InvalidInput("--parameters and --out, or --kafka: must be given")
        report_to_file(definition, source, parameters, out, binary=binary, seed=seed, limit=limit)
    else:
        if parameters is not None or out is not None:
            raise InvalidInput("--parameters, --out: not with --kafka, which has topics for both")
        settings = read_settings(kafka, kafka_option, kafka_config, wait_seconds)
        report_to_kafka(
            definition, source, settings, binary=binary, seed=seed, limit=limit, user=user, rate=rate
        )
