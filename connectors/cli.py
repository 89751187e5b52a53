"""``ldp-stream``: the command line, which puts sources, core and outputs together.

The commands are in ``commands/``, one module each; what is slow to import, they import when they run.

Exit codes: 0; 1 for a campaign that does not hold what it claims (``audit``); 2 for wrong input, with one
line on standard error; 130 and 143 after SIGINT and SIGTERM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ..errors import LdpStreamError
from .commands.audit import audit
from .commands.campaign_check import check
from .commands.campaign_new import new
from .commands.console import plain
from .commands.coverage import coverage
from .commands.demo import demo
from .commands.design import design
from .commands.estimate import estimate
from .commands.ingest import ingest
from .commands.parameters import parameters
from .commands.replay import replay
from .commands.report import report
from .commands.sample import sample
from .commands.serve import serve

__all__ = ["app", "main"]

_WRONG_INPUT = 2
_INTERRUPTED = 130
_BROKEN_PIPE = 141
_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False, context_settings=_SETTINGS
)
campaign = typer.Typer(rich_markup_mode="rich", context_settings=_SETTINGS)
for _command in (demo, sample, design, audit, replay, serve, report, ingest, parameters, estimate, coverage):
    app.command()(_command)
app.add_typer(campaign, name="campaign")
campaign.command()(check)
campaign.command()(new)


def _version(asked: bool) -> None:
    if asked:
        from .. import __version__

        typer.echo(f"ldp-stream {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Private quantiles, with confidence intervals, from a stream of locally private reports.

    Examples
    --------
    ldp-stream demo
    ldp-stream campaign check trips.toml
    ldp-stream replay trips.toml rows.csv --target minutes --checkpoint s.ckpt
    ldp-stream estimate s.ckpt --json
    ldp-stream serve trips.toml --kafka HOST:PORT --checkpoint s.ckpt
    """
    del version
    _help_if_alone(context)


@campaign.callback(invoke_without_command=True)
def _campaign(context: typer.Context) -> None:
    """Check a campaign's file, or draft one.

    Examples
    --------
    ldp-stream campaign check trips.toml
    ldp-stream campaign new --from-csv rows.csv --target minutes --out trips.toml
    """
    _help_if_alone(context)


def _help_if_alone(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        text = context.get_help()  # empty where it was printed already
        if text:
            typer.echo(text)
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments
        What follows the program's name; None takes it from the process.

    Returns
    -------
    int
        The exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a name that the encoding lacks is no reason to fail
    try:
        code = app(args=arguments, prog_name="ldp-stream", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (KeyboardInterrupt, typer.Abort):
        return _INTERRUPTED
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        print(f"ldp-stream: {plain(message)}", file=sys.stderr)
        return _WRONG_INPUT
    return code if isinstance(code, int) else 0


def _message(error: Exception) -> str | None:
    """Return what to say about wrong input or a file that cannot be used; None for a fault of the program."""
    if isinstance(error, LdpStreamError | OSError):
        return str(error)
    describe = getattr(error, "format_message", None)  # the errors of options and arguments, in every typer
    return None if describe is None else str(describe())
