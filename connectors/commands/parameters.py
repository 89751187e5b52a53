"""``ldp-stream parameters``: the message that devices answer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import CampaignOrCheckpoint

__all__ = ["parameters"]


def parameters(
    source: CampaignOrCheckpoint,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it here instead of on standard output.", show_default=False),
    ] = None,
) -> None:
    """Write the parameters at which devices make their reports now, as JSON.

    A campaign's file gives those of its first round, a checkpoint those of the
    round that it stands in.

    Examples
    --------
    ldp-stream parameters trips.toml --out p.json
    ldp-stream parameters state.ckpt
    """
    from ..outputs import write_whole
    from .console import warn_if_not_private
    from .files_out import check_writable
    from .stored import load_either

    if out is not None:
        check_writable(out, "--out")
    stored = load_either(source)
    warn_if_not_private(stored.campaign)
    text = stored.server.parameters().model_dump_json()
    if out is None:
        typer.echo(text)
    else:
        write_whole(out, text.encode() + b"\n")
