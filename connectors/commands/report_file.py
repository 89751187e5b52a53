"""Reports into a file, all at one parameters message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import typer
from pydantic import ValidationError

from ...campaign import Campaign
from ...client.reporter import Reporter
from ...codec import first_problem
from ...errors import CampaignMismatch, InvalidInput
from ...reports import Parameters, Report
from .console import counted, note, say_rejected, warn_if_not_private
from .files_out import check_writable
from .raw_rows import RowChoice
from .report_files import write_reports
from .stopping import Stopped, StopSignals

__all__ = ["report_to_file"]

_ROWS = 4096


def report_to_file(
    campaign: Campaign,
    rows: RowChoice,
    parameters: Path,
    out: Path,
    *,
    binary: bool,
    seed: int | None,
    limit: int | None,
) -> None:
    """Make one report a row at the parameters in a file, and say how many are safe."""
    message = _read_parameters(parameters, campaign)
    to_stdout = str(out) == "-"
    if binary and to_stdout:
        raise InvalidInput("--out = '-': binary reports need a file")
    if not to_stdout:
        check_writable(out, "--out")
    devices = Reporter.simulated(campaign, None if seed is None else _own_seed(seed, message))
    safe = campaign.round_schedule.length(message.n)
    rejected: Counter[str] = Counter()
    made = 0
    with rows.open(campaign) as source, rows.open_rejects() as kept, StopSignals() as stop:

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

        warn_if_not_private(campaign)
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
