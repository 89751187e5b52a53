"""The options that several commands share, as annotated types."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "CampaignFile",
    "CampaignOrCheckpoint",
    "Delimiter",
    "Format",
    "JsonOutput",
    "Level",
    "PlotFile",
    "RejectsOutput",
    "RowFiles",
    "RowFormat",
    "Seed",
    "Strict",
    "Target",
    "Tlc",
]


class Format(StrEnum):
    """How rows are written."""

    AUTO = "auto"
    CSV = "csv"
    JSONL = "jsonl"


CampaignFile = Annotated[
    Path, typer.Argument(metavar="CAMPAIGN", help="The campaign, TOML or JSON.", show_default=False)
]
CampaignOrCheckpoint = Annotated[
    Path,
    typer.Argument(
        metavar="CAMPAIGN_OR_CHECKPOINT",
        help="A campaign (TOML or JSON) or a checkpoint.",
        show_default=False,
    ),
]
RowFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="ROWS...",
        help="Files of raw rows: CSV with a header line, or JSON lines; plain or gzip; - is standard input.",
        show_default=False,
    ),
]
Target = Annotated[str | None, typer.Option(metavar="NAME", help="The target's column.", show_default=False)]
RowFormat = Annotated[
    Format, typer.Option("--format", help="auto: JSON lines for .jsonl and .ndjson, else CSV.")
]
Delimiter = Annotated[str, typer.Option(metavar="CHAR", help="What separates the fields of a CSV file.")]
Tlc = Annotated[
    bool,
    typer.Option(
        "--tlc", help="The files are NYC TLC yellow-taxi trip records (CSV, or Parquet with pyarrow)."
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first row that cannot be used.")]
RejectsOutput = Annotated[
    Path | None,
    typer.Option(
        "--rejects",
        metavar="FILE",
        help="Keep what could not be used here, as JSON lines. It holds raw data.",
        show_default=False,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Make reports repeatable, for studies; they protect nobody. Default: the system's randomness.",
        show_default=False,
    ),
]
Level = Annotated[float, typer.Option(metavar="P", help="Coverage of the intervals, between 0 and 1.")]
JsonOutput = Annotated[
    bool, typer.Option("--json", help="Print JSON on standard output, and nothing else there.")
]
PlotFile = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Also draw the coefficients: .png, .svg or .pdf (needs the extra 'plot').",
        show_default=False,
    ),
]
