"""``ldp-stream design``: which channel serves a campaign best, and what the others would cost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import JsonOutput

if TYPE_CHECKING:
    from ...design import ChannelDesign

__all__ = ["Figure", "design"]


class Figure(StrEnum):
    """What is minimised."""

    EXPECTED = "expected"
    WORST = "worst"


def design(
    campaign: Annotated[
        Path | None,
        typer.Argument(metavar="CAMPAIGN", help="A campaign (TOML or JSON).", show_default=False),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="Privacy of one report.", show_default=False)
    ] = None,
    tau: Annotated[
        float | None, typer.Option(metavar="T", help="Quantile level.", show_default=False)
    ] = None,
    features: Annotated[
        int | None, typer.Option(metavar="N", help="Features, centred at midpoints.", show_default=False)
    ] = None,
    criterion: Annotated[
        Figure,
        typer.Option(help="Variance expected at the optimum, or the largest second moment of all inputs."),
    ] = Figure.EXPECTED,
    as_json: JsonOutput = False,
) -> None:
    """Choose the channel with the smallest noise, and compare it with others.

    For a campaign's file, or for --epsilon, --tau and --features. The file's own
    channel is not changed: put the line that is printed into it, or write
    channel = { kind = "auto" }.

    Examples
    --------
    ldp-stream design trips.toml
    ldp-stream design --epsilon 2 --tau 0.9 --features 6 --json
    """
    found = _found(campaign, epsilon, tau, features, criterion)
    if as_json:
        import json

        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        _print(found)


def _found(
    path: Path | None, epsilon: float | None, tau: float | None, features: int | None, criterion: Figure
) -> ChannelDesign:
    from ...design import design_channel
    from ...errors import InvalidInput
    from .stored import load_campaign

    given = {"--epsilon": epsilon, "--tau": tau, "--features": features}
    if path is None:
        missing = [name for name, value in given.items() if value is None]
        if missing:
            raise InvalidInput(f"{', '.join(missing)}: missing, as there is no CAMPAIGN")
        assert epsilon is not None
        assert tau is not None
        assert features is not None
        return design_channel(epsilon, features, tau, criterion.value)
    doubled = [name for name, value in given.items() if value is not None]
    if doubled:
        raise InvalidInput(f"{', '.join(doubled)}: must be absent, as CAMPAIGN says it")
    definition = load_campaign(path)
    if definition.epsilon is None:
        raise InvalidInput(f'{path}: the channel "none" has no epsilon to design for')
    taus = [level.tau for level in definition.levels]
    return design_channel(definition.epsilon, definition.scale.intervals, taus, criterion.value)


def _print(found: ChannelDesign) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from .campaign_text import channel_text
    from .console import results

    console = results()
    taus = ", ".join(f"{tau:g}" for tau in found.taus)
    console.print(
        f"epsilon = {found.epsilon:g}, tau = {taus}, {len(found.intervals)} features: smallest "
        f"{found.criterion} second moment",
        style="bold",
        soft_wrap=True,
    )
    console.print(f"channel = {channel_text(found.chosen.channel)}", soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("channel", overflow="fold")
    for heading in ("expected", "worst", "times the chosen"):
        table.add_column(heading, justify="right", no_wrap=True)
    least = found.chosen.figure(found.criterion)
    for row in found.alternatives:
        table.add_row(
            channel_text(row.channel) + ("" if row.unbiased else "  biased"),
            f"{row.expected:.4g}",
            f"{row.worst:.4g}",
            f"{row.figure(found.criterion) / least:.3f}" if row.unbiased else "-",
            style="bold" if row is found.chosen else None,
        )
    console.print(table)
    if found.better:
        console.print(
            f"Another kind of channel does better: channel = {channel_text(found.best.channel)}",
            soft_wrap=True,
        )
