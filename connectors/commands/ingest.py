"""``ldp-stream ingest``: fold files of reports into a checkpoint."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import CampaignOrCheckpoint, RejectsOutput, Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...server.aggregator import Aggregator
    from ..outputs import RejectsFile

__all__ = ["ingest"]

_STDIN = "-"


def ingest(
    source: CampaignOrCheckpoint,
    reports: Annotated[
        list[Path],
        typer.Argument(
            metavar="REPORTS...",
            help="Files of reports, JSON lines (also gzip) or binary; - is standard input.",
            show_default=False,
        ),
    ],
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the state is kept; gone on from if it is there. Default: the checkpoint given first.",
            show_default=False,
        ),
    ] = None,
    rejects: RejectsOutput = None,
    strict: Strict = False,
) -> None:
    """Fold files of reports, as 'report' makes them, into a checkpoint.

    A report counts once: a token that occurs twice in the files of one run is
    refused. Tokens are not kept after the run, so a file that is ingested again
    counts again; the Kafka service keeps the tokens for good.

    What is not a report of the campaign is counted by its reason. The checkpoint
    is saved once, at the end: a run that is stopped changes nothing.

    Examples
    --------
    ldp-stream ingest trips.toml reports.jsonl --checkpoint state.ckpt
    ldp-stream ingest state.ckpt more.jsonl more.bin --rejects bad.jsonl
    """
    from ...errors import CampaignMismatch, InvalidInput
    from ..base import Checkpoint
    from ..checkpoints import FileCheckpoint
    from .console import counted, note, say_rejected, warn_if_not_private
    from .files_out import check_writable, open_rejects
    from .replaying import need_one_partition
    from .stopping import Stopped, StopSignals
    from .stored import is_checkpoint, load_either, open_checkpoint

    paths = [str(path) for path in reports]
    if _STDIN in paths and len(paths) > 1:
        raise InvalidInput(f"REPORTS = {paths!r}: must be files, or '-' alone")
    if checkpoint is None:
        if not is_checkpoint(source):
            raise InvalidInput("--checkpoint: missing; it names the file in which the state is kept")
        checkpoint = source
    check_writable(checkpoint, "--checkpoint")
    if rejects is not None:
        check_writable(rejects, "--rejects")
    start = load_either(source)
    need_one_partition(start.campaign)
    with FileCheckpoint(checkpoint) as store, open_rejects(rejects) as kept, StopSignals() as stop:
        found = store.load()
        if found is not None and not checkpoint.samefile(source):
            if start.server.n_reports:
                raise InvalidInput(
                    f"--checkpoint = {str(checkpoint)!r}: is there already, as is {source}; give one"
                )
            stored = open_checkpoint(checkpoint, found)
            if stored.campaign != start.campaign:
                raise CampaignMismatch(
                    f"{checkpoint}: is a checkpoint of campaign {stored.campaign.name}, not of "
                    f"{start.campaign.name}; choose another file"
                )
            start = stored
        warn_if_not_private(start.campaign)
        before = start.server.n_reports
        try:
            with stop.interruptible():
                rejected = _fold(start.server, paths, kept, strict)
        except Stopped:
            note("stopped by a signal; nothing was saved")
            raise typer.Exit(stop.exit_code) from None
        store.save(Checkpoint(start.campaign.canonical, start.server.snapshot(), start.position))
    say_rejected(rejected, "report")
    total = start.server.n_reports
    note(f"{counted(total - before, 'report')} folded, {total:,} in {checkpoint}")


def _fold(server: Aggregator, paths: Sequence[str], kept: RejectsFile | None, strict: bool) -> Counter[str]:
    """Fold every good report of the files, in order; count the others by reason."""
    from ...codec import decode_report
    from ...errors import InvalidReport, UnusableRow
    from ..base import Reject
    from ..line_files import text_of
    from .report_files import read_reports

    rejected: Counter[str] = Counter()
    tokens: set[str] = set()
    for path in paths:
        for number, content in read_reports(path):
            try:
                report = decode_report(content)
                if report.token in tokens:
                    raise InvalidReport("token: occurred before in this run")
                server.ingest(report)
                tokens.add(report.token)
            except InvalidReport as error:
                reject = Reject(str(error), number, text_of(content), path)
                if strict:
                    raise UnusableRow(str(reject)) from None
                rejected[reject.reason] += 1
                if kept is not None:
                    kept.write([reject])
    return rejected
