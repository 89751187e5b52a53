"""``ldp-stream estimate``: what a checkpoint has learnt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import JsonOutput, Level, PlotFile

if TYPE_CHECKING:
    from ...server.estimate import Estimate

__all__ = ["check_answer", "estimate", "give_answer"]


def estimate(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="The checkpoint.", show_default=False)
    ],
    level: Level = 0.95,
    as_json: JsonOutput = False,
    plot: PlotFile = None,
) -> None:
    """Show a checkpoint's coefficients with confidence intervals, in the user's units.

    The campaign stands in the checkpoint; its file is not needed.

    Examples
    --------
    ldp-stream estimate state.ckpt
    ldp-stream estimate state.ckpt --level 0.9 --json
    ldp-stream estimate state.ckpt --plot coefficients.png
    """
    from .stored import read_checkpoint

    check_answer(level, plot)
    stored = read_checkpoint(checkpoint)
    give_answer(stored.server.estimate(level), as_json, plot)


def check_answer(level: float, plot: Path | None) -> None:
    """Refuse a level or a plot that could not be given, before the work is done."""
    from ..._validate import probability

    probability(level=level)
    if plot is not None:
        from .plots import check_plot

        check_plot(plot)


def give_answer(answer: Estimate, as_json: bool, plot: Path | None) -> None:
    """Print an estimate as a table or as JSON, and draw it if asked."""
    if as_json:
        import json

        from .console import warn_if_not_private

        warn_if_not_private(answer.campaign)
        typer.echo(json.dumps(answer.as_dict(), indent=2))
    else:
        from .tables import print_estimate

        print_estimate(answer)
    if plot is not None:
        from .console import note
        from .plots import draw_estimate

        draw_estimate(answer, plot)
        note(f"the plot is in {plot}")
