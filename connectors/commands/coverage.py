"""``ldp-stream coverage``: how often intervals hold the truth, by simulation."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import InvalidInput

if TYPE_CHECKING:
    from ...studies.coverage import Cell

__all__ = ["coverage"]

_METHODS = ("sn", "dc10", "dc20", "higrad")
_ERRORS = ("gauss", "t3")
_STEPS = ("power", "corrected", "adaptive", "adaptive-open")
_REPLICATIONS, _REPORTS = 400, 10_000
_QUICK_REPLICATIONS, _QUICK_REPORTS = 100, 2_000


def coverage(
    method: Annotated[
        list[str] | None, typer.Option(metavar="M", help=f"Of {', '.join(_METHODS)}. Default: all.")
    ] = None,
    tau: Annotated[list[float] | None, typer.Option(metavar="T", help="Default: .5 and .9.")] = None,
    epsilon: Annotated[
        list[str] | None, typer.Option(metavar="E", help='A number or "none". Default: 1 and 4.')
    ] = None,
    d: Annotated[list[int] | None, typer.Option("--d", metavar="D", help="Slopes. Default: 3.")] = None,
    errors: Annotated[
        list[str] | None, typer.Option(metavar="F", help="gauss or t3. Default: gauss.")
    ] = None,
    spread: Annotated[
        list[float] | None,
        typer.Option(metavar="S", help="Of the errors, in half ranges of the target. Default: .2."),
    ] = None,
    n: Annotated[
        list[int] | None, typer.Option("--n", metavar="N", help=f"Reports. Default: {_REPORTS:,}.")
    ] = None,
    steps: Annotated[str, typer.Option(metavar="RULE", help=f"Of {', '.join(_STEPS)}.")] = "adaptive",
    replications: Annotated[
        int | None,
        typer.Option(min=2, metavar="R", help=f"Default: {_REPLICATIONS}.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of each cell.")] = 1,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"{_QUICK_REPLICATIONS} replications of {_QUICK_REPORTS:,} reports unless given."
        ),
    ] = False,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the table.")] = None,
) -> None:
    """Simulate campaigns with a known truth and count how often 95% intervals hold it.

    Each option that names the grid may be given several times; a cell is one
    combination. Channels have default settings; all features are uniform on
    their bounds. A row has the coverage of the intercept and of the slopes with
    Monte Carlo errors, the mean width of a slope's interval in half ranges of the
    target, the root mean square error, and its ratio to the asymptotic bound.
    "rel" is the bound for a fitted value over the spread: below .1 the sets are
    made for it. Steps: "power" as in a campaign by default, "corrected" with the
    corrections of the average, "adaptive" with a pilot and a known horizon,
    "adaptive-open" without a horizon.

    Examples
    --------
    ldp-stream coverage --quick
    ldp-stream coverage --method sn --tau .5 --epsilon 2 --epsilon none
    ldp-stream coverage --n 100000 --json cells.json --plot cells.png
    """
    from .coverage_table import CoverageTable
    from .files_out import check_writable
    from .plots import check_plot

    if json is not None:
        check_writable(json, "--json")
    if plot is not None:
        check_plot(plot)
    default_n, default_replications = (
        (_QUICK_REPORTS, _QUICK_REPLICATIONS) if quick else (_REPORTS, _REPLICATIONS)
    )
    cells = _cells(
        _named("--method", method or list(_METHODS), _METHODS),
        tau or [0.5, 0.9],
        [_epsilon(text) for text in epsilon or ["1", "4"]],
        d or [3],
        _named("--errors", errors or ["gauss"], _ERRORS),
        spread or [0.2],
        n or [default_n],
        _named("--steps", [steps], _STEPS),
    )
    table = CoverageTable()
    code = _run(cells, replications or default_replications, seed, table)
    table.show()
    if json is not None:
        table.write(json)
    if plot is not None:
        from .coverage_plot import draw_coverage

        draw_coverage(table.results, plot)
        typer.echo(f"The picture is in {plot}.")
    raise typer.Exit(code)


def _named(option: str, given: list[str], known: tuple[str, ...]) -> list[str]:
    for name in given:
        if name not in known:
            raise InvalidInput(f"{option} = {name!r}: must be one of {', '.join(known)}")
    return given


def _epsilon(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f'--epsilon = {text!r}: must be a number > 0 or "none"') from None


def _cells(*grid: list[Any]) -> list[Cell]:
    """Return the combinations, the ones that differ in the method next to each other; checks all values."""
    from ..._validate import integer_in, positive
    from ...studies.coverage import Cell
    from ...studies.plan import FEWEST_REPORTS

    found = []
    methods, *rest = grid
    for tau, epsilon, d, errors, spread, n, steps in product(*rest):
        integer_in(1, 1000, **{"--d": d})
        integer_in(FEWEST_REPORTS, 10**9, **{"--n": n})
        positive(**{"--spread": spread})
        for name in methods:
            if steps == "adaptive-open" and name == "higrad":
                raise InvalidInput("--steps = 'adaptive-open': a HiGrad tree has a horizon, so not higrad")
            cell = Cell(name, tau, epsilon, d, errors, spread, n, steps)
            _ = cell.campaign  # refuses tau, epsilon and d that no campaign may have
            found.append(cell)
    return found


def _run(cells: list[Cell], replications: int, seed: int, table: Any) -> int:
    """Simulate the cells, until a signal says stop; return the exit code."""
    from ...studies.coverage import simulate
    from .console import note
    from .progress import ReportProgress
    from .stopping import StopSignals

    total = sum(cell.n for cell in cells)
    with StopSignals() as stop, ReportProgress("simulating") as progress:
        done = 0
        for cell in cells:
            table.add(cell, simulate(cell, replications, seed))
            done += cell.n
            progress.advance(cell.n * replications, done / total)
            if stop.number is not None:
                break
    note(progress.summary())
    return stop.exit_code
