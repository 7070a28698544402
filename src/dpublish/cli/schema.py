"""`dpublish schema draft | discover | check | show`: the public facts that a release rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli import screen
from dpublish.cli.options import (
    Again,
    Data,
    Database,
    Delta,
    Ledger,
    LedgerName,
    NewBudget,
    NewBudgetDelta,
    Overwrite,
    SchemaFile,
    SecondBudget,
    asks,
)

if TYPE_CHECKING:
    from dpublish.curator.check import DataCheck
    from dpublish.declare.columns import Column
    from dpublish.declare.schema import Schema
    from dpublish.requests.schemas import Checked, Discovered, Drafted, SchemaShown, SchemaText

app = typer.Typer(
    help="Write, check and show schemas: the public facts that a release rests on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SchemaPath = Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema file (TOML).")]


@app.command("draft")
@asks(
    "schemas.Draft",
    note="This draft was read off private rows: keep it private. Replace its levels and bounds by "
    "what you know without looking at the data, then delete the [draft] table.",
)
def draft(
    made: Drafted,
    data: Data,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the data set; the file name when left out."
        ),
    ] = None,
    database: Database = None,
    sheet: Annotated[
        str | None,
        typer.Option("--sheet", metavar="NAME", help="Sheet of a workbook that has several."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where to write it; stdout when left out."
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Guess a schema from the rows, as a private starting point.

    The draft is derived from the data: it is as private as the data, and 'release' refuses it until
    a person has replaced
    its levels and bounds by public knowledge and has deleted the [draft] table.
    """
    if made.toml is not None:
        with screen.output():
            print(made.toml, end="")
    else:
        screen.say(f"Draft written to {out}")


SchemaOut = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Where to write it; stdout when left out."),
]


@app.command("from-codebook")
@asks("schemas.FromCodebook")
def from_codebook(
    found: SchemaText,
    codebook: Annotated[Path, typer.Argument(metavar="CODEBOOK", help="A code book.")],
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the data set; the file name when left out."
        ),
    ] = None,
    out: SchemaOut = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a schema from a code book. No row is read, so it needs no stamp and is not private.

    Reads code books in JSON and CSV, Frictionless Table Schema, Croissant, DDI, and labels of SPSS
    and Stata (.sps, .do; .sav and .dta with pyreadstat).
    """
    _show_text(found)


@app.command("discover")
@asks("schemas.Discover")
def discover(
    made: Discovered,
    data: Data,
    schema: SchemaFile,
    ledger: Ledger,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon", "-e", metavar="NUMBER", help="Cost, as 0.1 or 1/10. Read exactly."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the schema.")
    ],
    delta: Delta = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME", help="Only this column. Repeatable."),
    ] = None,
    edges: Annotated[
        int | None,
        typer.Option("--edges", metavar="N", help="Find edges of about N bins of equal size too."),
    ] = None,
    max_levels: Annotated[
        int | None,
        typer.Option("--max-levels", metavar="N", help="At most N levels per column."),
    ] = None,
    database: Database = None,
    budget: NewBudget = None,
    budget_delta: NewBudgetDelta = None,
    second_budget: SecondBudget = False,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The same key again gives the same bytes."),
    ] = None,
    name: LedgerName = "default",
    release_out: Annotated[
        Path | None,
        typer.Option(
            "--release", metavar="FILE", help="Where to keep the release; beside the schema."
        ),
    ] = None,
    overwrite: Overwrite = False,
    again: Again = False,
) -> None:
    """Find levels, bounds and edges for a part of a budget, where there is no code book.

    SCHEMA declares the columns to look into with discover = true. What enough people have in common
    is found, with noise; the new schema cites the receipt and is not private. 'dpublish plan
    --method discovery' says before how many people a level needs.
    """
    screen.say(f"Schema written to {made.out}", style="green")
    screen.facts(
        [
            *made.released.release.summary().items(),
            ("budget left", made.released.left.remaining.describe()),
        ]
    )
    for one in made.unfound:
        screen.note(f"Nothing was found of column '{one}': it still says discover = true.")


@app.command("new")
@asks("schemas.NewSchema")
def new(
    found: SchemaText,
    template: Annotated[
        str,
        typer.Option(
            "--template", "-t", metavar="NAME", help="survey, hospital, register or baskets."
        ),
    ],
    out: SchemaOut = None,
    overwrite: Overwrite = False,
) -> None:
    """Write a schema to start from, for a survey, hospital stays, a register or baskets."""
    _show_text(found)


def _show_text(made: SchemaText) -> None:
    if made.out is None:
        with screen.output():
            print(made.toml, end="")
    else:
        screen.say(f"Schema written to {made.out}", style="green")
    if made.untold:
        shown = ", ".join(made.untold[:8]) + (", ..." if len(made.untold) > 8 else "")
        screen.note(f"Neither levels nor bounds are given for {len(made.untold)}: {shown}.")


@app.command("check")
@asks("schemas.CheckSchema", exit_code=lambda found: 2 if found.problems else 0)
def check(
    found: Checked,
    path: SchemaPath,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DATA", help="Also check that this file has the declared columns."
        ),
    ] = None,
) -> None:
    """Check that a schema is complete: kinds, levels, bounds, unit, no draft stamp. Exit code 2
    when it is not."""
    if found.problems or found.schema is None:
        number = "1 problem" if len(found.problems) == 1 else f"{len(found.problems)} problems"
        screen.say(f"{path}: {number}", style="bold red")
        for problem in found.problems:
            screen.say(f"  {problem}")
    else:
        screen.say(
            f"{path}: complete. {len(found.schema.columns)} columns, {_unit_words(found.schema)}.",
            style="green",
        )
        screen.notes(found.notes)


@asks(
    "schemas.CheckData",
    note="This was read off private rows: it is as private as they are, and no release.",
    exit_code=lambda found: 0 if found.ok else 2,
)
def check_data(
    found: DataCheck,
    data: Data,
    schema: SchemaFile,
    database: Database = None,
    at_least: Annotated[
        float,
        typer.Option(
            "--at-least",
            metavar="SHARE",
            help="Part of the filled cells of a column that must be read as declared values.",
        ),
    ] = 0.9,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write it as JSON, for you alone."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Look at all rows, and say what a release would read of them. For the curator's eyes alone.

    Per column: how many cells are read, missing, outside, dropped or clipped, with examples; rows
    dropped in all; units; encoding and delimiter. Nothing is spent, and what it prints is as
    private
    as the rows. Exit code 2 when something would not be read. A release never reads its result.
    """
    screen.grid(
        [
            "column",
            "kind",
            "read",
            "blank",
            "unreadable",
            "outside",
            "dropped",
            "clipped",
            "others",
        ],
        [
            (
                one.name,
                one.kind,
                *(
                    f"{count:,}"
                    for count in (
                        one.read,
                        one.blank,
                        one.unreadable,
                        one.outside,
                        one.dropped,
                        one.clipped,
                    )
                ),
                ", ".join(one.examples[:3]),
            )
            for one in found.columns
        ],
        right=(2, 3, 4, 5, 6, 7),
    )
    lines = [("rows", f"{found.rows:,}"), ("rows dropped", f"{found.dropped_rows:,}")]
    if found.format is not None:
        from dpublish.curator.formats import delimiter_name

        mark = found.format.delimiter
        cut = "one column" if mark is None else f"cut at {delimiter_name(mark)}s"
        lines.append(("file as found", f"{found.format.encoding}, {cut}"))
    if found.unit is not None:
        unit = found.unit
        lines += [
            (
                "units",
                f"{unit.units:,} in column '{unit.column}', at most {unit.largest:,} rows each",
            ),
            ("units with too many rows", f"{unit.crowded:,} ({unit.unused_rows:,} rows not used)"),
            ("rows without a unit", f"{unit.nameless_rows:,}"),
        ]
    screen.facts(lines)
    screen.notes(found.notes)
    for line in found.problems:
        screen.say(f"  PROBLEM: {line}", style="bold red")
    if found.ok:
        screen.say("Every column is read as declared.", style="green")


@app.command("show")
@asks("schemas.ShowSchema")
def show(shown: SchemaShown, path: SchemaPath) -> None:
    """Show a schema as dpublish reads it, with every default filled in."""
    schema = shown.schema
    screen.facts(
        [
            ("data set", schema.name),
            ("protects", _unit_words(schema)),
            (
                "size" if schema.neighbours == "replace-one" else "nominal_size",
                "not declared" if schema.size_or_nominal is None else f"{schema.size_or_nominal:,}",
            ),
            ("target", schema.target or "none"),
            ("draft", "yes: derived from rows, cannot be released" if schema.draft else "no"),
            ("digest", schema.digest),
        ]
    )
    if schema.items is not None:
        screen.say(f"{len(schema.items.items):,} items; others: {schema.items.outside}")
        return
    screen.grid(
        ["column", "kind", "values", "missing", "outside"],
        [
            (
                column.name,
                column.kind,
                _values(column),
                "level" if column.missing else "-",
                column.outside,
            )
            for column in schema.columns.values()
        ],
    )
    for rule in schema.rules:
        screen.say(f"  Rule: {rule.describe()}{f' ({rule.source})' if rule.source else ''}")
    for total in schema.totals:
        screen.say(f"  Total: {total.describe()}")


def _unit_words(schema: Schema) -> str:
    return f"{schema.unit.describe()} ({schema.neighbours})"


def _values(column: Column) -> str:
    if not column.numeric:
        shown = ", ".join(column.levels[:6])
        return shown + (f", ... ({len(column.levels)} levels)" if len(column.levels) > 6 else "")
    if column.edges is not None:
        ends = f"{column.edges[0]} to {column.edges[-1]}"
        return f"{len(column.edges) - 1} bins with given edges, {ends}"
    bounds = f"{_bound(column.lower)} to {_bound(column.upper)}"
    if column.bins is not None:
        widths = " that widen by a factor" if column.spacing == "log" else ""
        return f"{bounds} in {column.bins} bins{widths}"
    return bounds + (
        f" in steps of {float(column.precision):g}" if column.precision is not None else ""
    )


def _bound(value: object) -> str:
    return "?" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
