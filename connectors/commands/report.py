"""``ldp-stream report``: act as devices at fixed parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from ...campaign import Campaign
    from ...reports import Parameters, Report

__all__ = ["report"]

_ROWS = 4096


def report(
    campaign: CampaignFile,
    rows: RowFiles,
    parameters: Annotated[
        Path, typer.Option(metavar="FILE", help="The parameters message, as JSON.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Write the reports here, one a line; - is standard output.",
            show_default=False,
        ),
    ],
    target: Target = None,
    binary: Annotated[
        bool, typer.Option("--binary", help="Write the compact binary form: 39 bytes a report.")
    ] = False,
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
    r"""Act as devices: make one private report of each row, all at the same parameters.

    Many reports at one point are one step, as long as all of theirs together.
    A step that is too long overshoots, so only so many are safe: the length of
    the round. The command says how many, and warns when there are more. To go
    on, ingest them and make the next reports at new parameters; 'replay' does
    all this by itself.

    No ledger is kept here: making reports of the same rows again spends their
    users' privacy again.

    Examples
    --------
    ldp-stream parameters trips.toml --out p.json
    ldp-stream report trips.toml rows.csv --target minutes --limit 12 \
        --parameters p.json --out reports.jsonl
    ldp-stream report trips.toml rows.csv --target minutes \
        --parameters p.json --out reports.bin --binary
    """
    from ...client.reporter import Reporter
    from ...errors import InvalidInput
    from .console import counted, note, say_rejected, warn_if_not_private
    from .files_out import check_writable, open_rejects
    from .raw_rows import open_rows
    from .report_files import write_reports
    from .stopping import Stopped, StopSignals
    from .stored import load_campaign

    definition = load_campaign(campaign)
    message = _read_parameters(parameters, definition)
    to_stdout = str(out) == "-"
    if binary and to_stdout:
        raise InvalidInput("--out = '-': binary reports need a file")
    if not to_stdout:
        check_writable(out, "--out")
    if rejects is not None:
        check_writable(rejects, "--rejects")
    paths = [str(path) for path in rows]
    devices = Reporter.simulated(definition, None if seed is None else _own_seed(seed, message))
    safe = definition.round_schedule.length(message.n)
    rejected: Counter[str] = Counter()
    made = 0
    with (
        open_rows(
            paths, definition, target, tlc=tlc, layout=layout, delimiter=delimiter, strict=strict
        ) as source,
        open_rejects(rejects) as kept,
        StopSignals() as stop,
    ):

        def reports() -> Iterator[Report]:
            nonlocal made
            while limit is None or made < limit:
                size = _ROWS if limit is None else min(_ROWS, limit - made)
                batch = next(source.batches(size), None)
                if batch is None:
                    return
                rejected.update(reject.reason for reject in batch.rejected)
                if kept is not None:
                    kept.write(batch.rejected)
                for x, y in batch.items:
                    made += 1
                    yield devices.report(x, y, message)

        warn_if_not_private(definition)
        before = f"round {message.round}, after {counted(message.n, 'report')}"
        note(f"{before}: up to {safe:,} at these parameters are safe")
        try:
            with stop.interruptible():
                write_reports(out, reports(), binary)
        except Stopped:
            note("stopped by a signal" if to_stdout else "stopped by a signal; no reports were written")
            raise typer.Exit(stop.exit_code) from None
    say_rejected(rejected, "row")
    note(f"{counted(made, 'report')} made at one point, which act as one step")
    if made > safe:
        note(
            f"WARNING: {made:,} reports at one point, and {safe:,} are safe: "
            "the step may overshoot and spoil the estimate"
        )


def _read_parameters(path: Path, campaign: Campaign) -> Parameters:
    """Read a parameters message of the campaign; InvalidInput or CampaignMismatch says what is wrong."""
    from pydantic import ValidationError

    from ...codec import first_problem
    from ...errors import CampaignMismatch, InvalidInput
    from ...reports import Parameters

    try:
        message = Parameters.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(f"--parameters = {str(path)!r}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InvalidInput(f"{path}: is not a parameters message: {first_problem(error)}") from None
    if message.digest != campaign.digest_prefix:
        raise CampaignMismatch(
            f"{path}: is of campaign {message.digest}, not of {campaign.name} ({campaign.digest_prefix})"
        )
    return message


def _own_seed(seed: int, parameters: Parameters) -> int:
    """Return the seed of one round's devices: rounds and campaigns with one seed draw independently."""
    place = f"{seed}/{parameters.digest}/{parameters.partition}/{parameters.round}"
    return int.from_bytes(blake2b(place.encode(), digest_size=6).digest())
