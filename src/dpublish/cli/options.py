"""Arguments and options that several commands share, and how their text is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpublish.errors import InputError

Json = Annotated[
    bool, typer.Option("--json", help="Write one JSON document to stdout (errors: to stderr).")
]
ReleaseFile = Annotated[
    Path, typer.Argument(metavar="RELEASE", help="A release: a .dpr file or a folder.")
]
SchemaFile = Annotated[
    Path, typer.Option("--schema", "-s", metavar="FILE", help="The schema (TOML).")
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="How to publish; 'histogram' when left out, of baskets 'frequent-itemsets'.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the method, for example 'columns=age,income'. Repeatable.",
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace the file that --out names, if there is one.")
]
SignWith = Annotated[
    Path | None,
    typer.Option(
        "--sign-with",
        metavar="FILE",
        envvar="DPUBLISH_SIGNING_KEY",
        help="Sign the release with this key, which 'dpublish key new' makes.",
    ),
]
Epsilon = Annotated[
    str | None,
    typer.Option("--epsilon", "-e", metavar="NUMBER", help="Cost, as 0.5 or 1/2. Read exactly."),
]
Delta = Annotated[
    str | None,
    typer.Option("--delta", metavar="NUMBER", help="Cost, for methods that need a delta."),
]
Rho = Annotated[
    str | None, typer.Option("--rho", metavar="NUMBER", help="Cost in zCDP, instead of epsilon.")
]
Ledger = Annotated[
    str,
    typer.Option(
        "--ledger",
        "-l",
        metavar="URL",
        help="The ledger: a path, sqlite:///FILE or postgresql://...",
    ),
]
NewBudget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="EPSILON",
        help="Create the ledger with this epsilon if it does not exist yet.",
    ),
]
NewBudgetDelta = Annotated[
    str | None,
    typer.Option(
        "--budget-delta",
        metavar="DELTA",
        help="Delta of a ledger that --budget creates; 0 when left out.",
    ),
]
Again = Annotated[
    bool,
    typer.Option("--again", help="Pay for a second answer to a request that was answered before."),
]
SecondBudget = Annotated[
    bool,
    typer.Option(
        "--second-budget",
        help="Let this ledger pay for people that another ledger pays for. Recorded for life.",
    ),
]
LedgerUrl = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A path, sqlite:///FILE or postgresql://...")
]
LedgerName = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Which budget of the ledger.")
]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A file: CSV, TSV, JSON lines (also .gz, .zst), Parquet, Arrow, Excel, SPSS, Stata or "
        "SAS; or 'sql:QUERY' together with --database.",
    ),
]
Database = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="Where to run a 'sql:QUERY'.")
]
Spark = Annotated[
    str | None,
    typer.Option(
        "--spark",
        metavar="URL",
        help="The cluster that reads a 'spark:TABLE' or 'spark:PATH': spark://host:7077, "
        "sc://host:15002, local[2].",
    ),
]
ShownRows = Annotated[
    int, typer.Option("--rows", metavar="N", min=1, help="At most this many rows on the screen.")
]


def settings_of(pairs: list[str] | None) -> dict[str, str]:
    out: dict[str, str] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(
                f"--set {pair}: write it as KEY=VALUE, for example --set columns=age,income."
            )
        if key.strip() in out:
            raise InputError(f"--set {key.strip()} is given twice.")
        out[key.strip()] = value
    return out
