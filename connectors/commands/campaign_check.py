"""``ldp-stream campaign check``: read a campaign's file and say what it means."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from .options import CampaignFile

if TYPE_CHECKING:
    from rich.table import Table

    from ...campaign import Campaign

__all__ = ["check"]

_DEFAULTS = ("channel", "inference", "steps", "radius", "burn_in", "rounds", "partitions")


def check(campaign: CampaignFile) -> None:
    """Check a campaign's file and say what it means.

    Nonsense is refused in one line that names every bad field.

    Examples
    --------
    ldp-stream campaign check trips.toml
    """
    from .console import NOT_PRIVATE, plain, results
    from .stored import load_campaign
    from .tables import quantile_name

    definition = load_campaign(campaign)
    console = results()
    say = partial(console.print, soft_wrap=True)
    target = definition.target
    asked = " and ".join(f"the {quantile_name(at.tau)} (tau = {at.tau:g})" for at in definition.levels)
    say(f"{plain(str(campaign))}: a sound campaign" + ("" if definition.private else f", {NOT_PRIVATE}"))
    lines = [
        ("name", definition.name),
        ("digest", definition.digest),
        (
            "asks for",
            f"{asked} of a target from {target.lower:g} to {target.upper:g}",
        ),
        ("privacy", _privacy(definition)),
        ("channel", _channel(definition)),
        (
            "inference",
            _inference(definition),
        ),
        ("rounds", _rounds(definition)),
        ("defaults", _defaults(definition)),
    ]
    for what, text in lines:
        say(f"  {what:<10} {plain(text)}")
    console.print(_features(definition))


def _privacy(campaign: Campaign) -> str:
    from .console import NOT_PRIVATE

    if campaign.epsilon is None:
        return f'{NOT_PRIVATE}: the channel "none" sends what the user holds; a real device refuses it'
    odds = math.exp(min(campaign.epsilon, 700.0))
    return (
        f"epsilon = {campaign.epsilon:g}: no record makes a report more than {odds:.4g} times likelier "
        "than another record does"
    )


def _channel(campaign: Campaign) -> str:
    from ...channels.cqx import CQX
    from ...channels.face_exponential import FaceExponential
    from ...channels.laplace import DirectLaplace
    from ...channels.piecewise import Piecewise

    mechanism, kind, p = campaign.levels[0].mechanism, campaign.channel.kind, campaign.p
    if isinstance(mechanism, DirectLaplace):
        return f"{kind}, noise on all {p} coefficients, sensitivity of the {mechanism.support} support"
    if isinstance(mechanism, FaceExponential):
        return f"{kind}, grids of q = {mechanism.q} points, {mechanism.categories(0):,} categories; BIASED"
    if isinstance(mechanism, Piecewise):
        return f"{kind}, {mechanism.sampled} of the {p} coefficients in a report"
    if not isinstance(mechanism, CQX):
        return kind if kind == "none" else f"{kind}, a normal vector of {p} values in a report"
    sizes = sorted({mechanism.categories(0), mechanism.categories(mechanism.n_blocks - 1)})
    omega = float(mechanism.design.omega)
    always = "" if mechanism.intercept is None else f", the intercept in a share {omega:.3g} of the reports"
    shear = ", sheared slopes" if mechanism.shear else ""
    return (
        f"cqx, grids of q = {mechanism.q} points, blocks of s = {mechanism.s} of the {mechanism.p} "
        f"coefficients: {mechanism.n_blocks:,} blocks, {' or '.join(map(str, sizes))} categories in each"
        f"{always}{shear}"
    )


def _inference(campaign: Campaign) -> str:
    kind, tree = campaign.inference.kind, campaign.tree
    what = {
        "sn": "self-normalized intervals of one chain",
        "dc": f"divide and conquer: {tree.leaves} chains",
        "higrad": f"a tree of chains with {tree.leaves} leaves, full nodes at {list(tree.segments)} reports",
    }[kind]
    partitions = "" if campaign.partitions == 1 else " in each partition"
    settling = max(level.settling for level in campaign.levels)
    return f"{kind} ({what}{partitions}), none before a chain has {settling:,.0f} reports"


def _rounds(campaign: Campaign) -> str:
    length = campaign.round_schedule.length
    if campaign.rounds.stability == 0:
        return "every report is made at the newest parameters"
    return (
        f"reports at the same parameters: {length(0):,} at the start, {length(10**5):,} after 100,000, "
        f"{length(10**6):,} after 1,000,000 reports"
    )


def _defaults(campaign: Campaign) -> str:
    left = [name for name in _DEFAULTS if name not in campaign.model_fields_set]
    if not left:
        return "none, everything is given"
    values = campaign.model_dump(include=set(left))
    return "; ".join(f"{name} = {_value(values[name])}" for name in left)


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(entry)}" for key, entry in value.items()) + "}"
    return (
        f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def _features(campaign: Campaign) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from .console import plain

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("feature", overflow="fold")
    for heading in ("lower", "upper", "centre, also of a missing value"):
        table.add_column(heading, justify="right")
    for axis in campaign.scale.axes:
        table.add_row(
            Text(plain(axis.name)), *(f"{value:g}" for value in (axis.lower, axis.upper, axis.centre))
        )
    return table
