"""``ldp-stream audit``: whether a campaign holds what it claims, and what to expect of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .options import CampaignFile, JsonOutput, Level

if TYPE_CHECKING:
    from ...audit import Audit

__all__ = ["audit"]

_DOES_NOT_HOLD = 1


def audit(
    campaign: CampaignFile,
    level: Level = 0.95,
    spread: Annotated[
        float,
        typer.Option(metavar="S", help="Planned spread of the target around its fit, in half target ranges."),
    ] = 0.2,
    width: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="Count the reports that an interval of this width needs.",
            show_default="5% of the target's range",
        ),
    ] = None,
    reports: Annotated[
        str, typer.Option(metavar="N,N,..", help="Numbers of reports at which widths are shown.")
    ] = "10000,100000,1000000",
    as_json: JsonOutput = False,
) -> None:
    """Check a campaign's privacy and unbiasedness exactly, and plan its intervals.

    Epsilon and bias come from the enumerated law of the channel. Widths are what
    the asymptotic formula expects: features that fill their bounds, errors that
    are normal. Exit code 1 when the campaign does not hold what it claims.

    Examples
    --------
    ldp-stream audit trips.toml
    ldp-stream audit trips.toml --width 0.1 --spread 0.3 --json
    """
    from ...audit import audit as examine
    from .console import note, warn_if_not_private
    from .stored import load_campaign

    counts = _counts(reports)
    definition = load_campaign(campaign)
    found = examine(definition, level=level, spread=spread, reports=counts, width=width)
    warn_if_not_private(definition)
    if as_json:
        import json

        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        _print(found)
    if not found.holds:
        for problem in found.problems:
            note(f"DOES NOT HOLD: {problem}")
        raise typer.Exit(_DOES_NOT_HOLD)


def _counts(text: str) -> list[int]:
    from ..._validate import integer_in
    from ...errors import InvalidInput

    found = []
    for part in text.split(","):
        try:
            found.append(integer_in(1, 10**15, **{"--reports": float(part)}))
        except ValueError:
            raise InvalidInput(
                f"--reports = {text!r}: must be whole numbers from 1 to 10^15 with commas between"
            ) from None
    return found


def _print(found: Audit) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from .console import plain, results

    console = results()
    answer = found.as_dict()
    campaign = found.campaign
    verdict = "holds what it claims" if found.holds else "DOES NOT HOLD what it claims"
    console.print(f"{campaign.name}: {verdict}", style="bold" if found.holds else "bold red", soft_wrap=True)
    exact, bias = answer["epsilon_exact"], answer["max_bias"]
    lines = [
        ("epsilon", "none" if campaign.epsilon is None else f"{campaign.epsilon!r} claimed"),
        ("exact", "unlimited" if exact is None else f"{exact:.15g}"),
        ("bias", "not enumerated" if bias is None else f"{bias:.3g} at most, in the working scale"),
        ("categories", " or ".join(map(str, answer["categories"])) or "none: a report is a vector"),
        ("report", f"{found.report_bytes} bytes in the compact form"),
    ]
    for what, text in lines:
        console.print(f"  {what:<10} {text}", soft_wrap=True)
    for tau, needed in found.reports_for_width.items():
        console.print(
            f"tau = {tau:g}: expected width of {100 * found.level:g}% intervals, spread {found.spread:g}"
        )
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        table.add_column("coefficient", overflow="fold")
        for n in found.width_at:
            table.add_column(f"{n:,} reports", justify="right", no_wrap=True)
        table.add_column(f"reports for {found.width:g}", justify="right", no_wrap=True)
        for name, count in needed.items():
            widths = (f"{widths[tau][name]:.3g}" for widths in found.width_at.values())
            table.add_row(Text(plain(name)), *widths, f"{count:,}")
        console.print(table)
