"""``ldp-stream campaign new``: a campaign's file from a few questions, or a first draft from a CSV file."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from .options import Delimiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from .campaign_text import Bounds, Draft

__all__ = ["new"]

T = TypeVar("T")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_LEAK = (
    "These bounds were read from data. If that data is private, they leak it: "
    "replace them by what is publicly known."
)


def new(
    from_csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Propose bounds from this CSV file; ask nothing.", show_default=False
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="NAME", help="The target's column.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The campaign's name.", show_default=False)
    ] = None,
    tau: Annotated[
        float | None, typer.Option(metavar="T", help="Quantile level.", show_default="0.5")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="Privacy of one report.", show_default="1.0")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it here instead of on standard output.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    delimiter: Delimiter = ",",
) -> None:
    """Write a campaign's file, from answers or as a draft from a CSV file.

    Bounds are public: everybody who takes part sees them. Bounds read from
    private data leak that data, so a draft is a starting point: put in what is
    publicly known before anybody is asked to take part.

    Examples
    --------
    ldp-stream campaign new --out trips.toml
    ldp-stream campaign new --from-csv rows.csv --target minutes --out trips.toml
    """
    from ...errors import InvalidInput
    from ..outputs import write_whole
    from .campaign_text import toml_text
    from .console import note
    from .files_out import check_writable

    if out is not None:
        check_writable(out, "--out")
        if out.exists() and not force:
            raise InvalidInput(f"--out = {str(out)!r}: is there already; --force replaces it")
    if from_csv is None:
        if target is not None:
            raise InvalidInput(f"--target = {target!r}: is of use with --from-csv only")
        draft = _asked(name, tau, epsilon)
    else:
        draft = _from_csv(
            from_csv,
            target,
            delimiter,
            name,
            0.5 if tau is None else tau,
            1.0 if epsilon is None else epsilon,
        )
    text = toml_text(draft)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text.encode())
        note(f"written to {out}; 'ldp-stream campaign check {out}' says what it means")


# ---------------------------------------------------------------------- from a file


def _from_csv(
    path: Path, target: str | None, delimiter: str, name: str | None, tau: float, epsilon: float
) -> Draft:
    from ...errors import InvalidInput
    from .campaign_text import Draft
    from .console import counted, note
    from .proposals import propose

    if target is None:
        raise InvalidInput("--target: missing; it names the target's column")
    proposal = propose(path, target, delimiter)
    for column, reason in proposal.left_out.items():
        note(f"left out: the column {column!r} {reason}")
    note(f"{counted(proposal.rows, 'row')} looked at")
    note(f"WARNING: {_LEAK}")
    if name is None:
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.partition(".")[0])[:80] or "campaign"
    return Draft(
        name, tau, epsilon, proposal.target, proposal.features, (f"A draft; the target is {target!r}.", _LEAK)
    )


# ---------------------------------------------------------------------- from answers


def _asked(name: str | None, tau: float | None, epsilon: float | None) -> Draft:
    from ..._validate import positive, probability
    from .campaign_text import Draft

    if name is None:
        name = _ask("name of the campaign", _named)
    if tau is None:
        tau = _ask("quantile level", lambda text: probability(tau=_number(text)), "0.5")
    if epsilon is None:
        epsilon = _ask("epsilon of one report", lambda text: positive(epsilon=_number(text)), "1")
    target = _ask_bounds("the target")
    features: dict[str, Bounds] = {}
    print("Features, one after another; an empty name ends them.", file=sys.stderr)
    while feature := _ask("name of the feature", str, ""):
        features[feature] = _ask_bounds(repr(feature), centred=True)
    return Draft(name, tau, epsilon, target, features)


def _named(text: str) -> str:
    from ...errors import InvalidInput

    if not _NAME.fullmatch(text):
        raise InvalidInput(f"name = {text!r}: must be 1 to 80 of the characters A-Z a-z 0-9 _ -")
    return text


def _ask_bounds(what: str, centred: bool = False) -> Bounds:
    from .campaign_text import Bounds

    lower = _ask(f"public lower bound of {what}", _between(-math.inf, math.inf))
    upper = _ask(f"public upper bound of {what}", _between(lower, math.inf))
    if not centred:
        return Bounds(lower, upper)
    middle = lower + (upper - lower) / 2
    question = f"public centre of {what}, which a missing value counts as"
    centre = _ask(question, _between(lower, upper, closed=True), f"{middle:g}")
    return Bounds(lower, upper, None if f"{centre:g}" == f"{middle:g}" else centre)


def _number(text: str) -> float:
    from ..._validate import finite
    from ...errors import InvalidInput

    try:
        return finite(answer=float(text))
    except ValueError:
        raise InvalidInput(f"answer = {text!r}: must be a finite number") from None


def _between(lower: float, upper: float, closed: bool = False) -> Callable[[str], float]:
    def read(text: str) -> float:
        from ...errors import InvalidInput

        value = _number(text)
        if not (lower <= value <= upper if closed else lower < value < upper):
            allowed = f"from {lower:g} to {upper:g}" if closed else f"above {lower:g}"
            raise InvalidInput(f"answer = {value:g}: must be {allowed}")
        return value

    return read


def _ask(question: str, read: Callable[[str], T], default: str | None = None) -> T:
    """Ask on standard error, again until the answer can be read; an empty one means the default, if any."""
    from ...errors import InvalidInput
    from .console import note

    while True:
        suffix = f" [{default}]" if default else ""
        print(f"{question}{suffix}: ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            raise InvalidInput("the answers ended too early; nothing was written")
        answer = line.strip() or default
        try:
            if answer is not None:
                return read(answer)
        except ValueError as error:
            note(f"  {error}")
