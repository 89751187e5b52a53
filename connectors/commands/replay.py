"""``ldp-stream replay``: raw rows through simulated devices to an estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .estimate import check_answer, give_answer
from .options import (
    CampaignFile,
    Delimiter,
    Format,
    JsonOutput,
    Level,
    PlotFile,
    RejectsOutput,
    RowFiles,
    RowFormat,
    Seed,
    Strict,
    Target,
    Tlc,
)

__all__ = ["replay"]


def replay(
    campaign: CampaignFile,
    rows: RowFiles,
    target: Target = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save state and position here; go on from it if it is there.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        float, typer.Option("--checkpoint-every", min=0.0, metavar="S", help="Seconds between two saves.")
    ] = 5.0,
    tlc: Tlc = False,
    layout: RowFormat = Format.AUTO,
    delimiter: Delimiter = ",",
    rejects: RejectsOutput = None,
    strict: Strict = False,
    seed: Seed = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Stop at so many reports, those of the checkpoint included.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rows read at once; does not change the result.")
    ] = 8192,
    level: Level = 0.95,
    as_json: JsonOutput = False,
    plot: PlotFile = None,
) -> None:
    """Send raw rows through simulated devices and show what is learnt.

    Each row is a user's: a simulated device makes one private report of it, at
    the parameters of the round in force, and the server folds it. The raw rows
    are read here, in one place; in a real collection they never leave the
    devices.

    A row that cannot be used is counted by its reason. That cleaning looks at
    raw data before the study and is not protected.

    With a checkpoint, a run that was stopped (Ctrl-C too) goes on where it
    stood when the same command is given again. The randomness of report i
    depends on the seed and i alone, so with --seed it ends in the same state,
    bit for bit, as a run that was never stopped.

    Examples
    --------
    ldp-stream replay trips.toml rows.csv --target minutes
    ldp-stream replay trips.toml rows.csv --target minutes --checkpoint s.ckpt
    zcat rows.gz | ldp-stream replay trips.toml - --target minutes --json
    ldp-stream replay trips.toml yellow_*.csv.gz --tlc --rejects bad.jsonl
    """
    from .console import warn_if_not_private
    from .files_out import check_writable, open_rejects
    from .raw_rows import open_rows
    from .replaying import Replay
    from .saving import Saver
    from .stored import load_campaign

    check_answer(level, plot)
    if rejects is not None:
        check_writable(rejects, "--rejects")
    definition = load_campaign(campaign)
    paths = [str(path) for path in rows]
    with (
        open_rows(
            paths, definition, target, tlc=tlc, layout=layout, delimiter=delimiter, strict=strict
        ) as source,
        Saver(checkpoint, definition, every) as saver,
        open_rejects(rejects, append=saver.found is not None) as kept,
    ):
        run = Replay(definition, source, saver, seed, kept)
        warn_if_not_private(definition)
        problem = run.go(batch, limit)
    give_answer(run.server.estimates(level), as_json, plot)
    if problem is not None:
        raise problem
    run.say_what_happened()
    raise typer.Exit(run.exit_code)
