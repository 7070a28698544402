"""`dpublish schema draft | check | show`: the public facts that a release rests on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Data, Database, Json, Overwrite, source_of

if TYPE_CHECKING:
    from dpublish.declare.columns import Column
    from dpublish.declare.schema import Schema

app = typer.Typer(
    help="Write, check and show schemas: the public facts that a release rests on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SchemaPath = Annotated[Path, typer.Argument(metavar="SCHEMA", help="A schema file (TOML).")]


@app.command("draft")
def draft(
    data: Data,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the data set; the file name when left out."
        ),
    ] = None,
    database: Database = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where to write it; stdout when left out."
        ),
    ] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Guess a schema from the rows, as a private starting point.

    The draft is derived from the data: it is as private as the data, and 'release' refuses it until
    a person has replaced its levels and bounds by public knowledge and has deleted the [draft]
    table.
    """
    from dpublish.cli import screen
    from dpublish.curator.draft import draft as draft_of
    from dpublish.errors import InputError
    from dpublish.outputs import keep_apart

    if out is not None and not overwrite and out.exists():
        # it may be a schema that a person has gone through, which a draft is not
        raise InputError(
            f"'{out}' exists already. Give another name, or ask for it with --overwrite."
        )
    if out is not None:
        keep_apart(out, data if database is None else None)
    source = source_of(data, database)
    fallback = Path(data).name.split(".")[0] if database is None else "query"
    with screen.muted():
        text = draft_of(source, name=name or fallback).to_toml()
    if out is not None:
        _write(out, text)
    if json:
        screen.write_json({"draft": True, "out": out, "toml": None if out is not None else text})
    elif out is None:
        with screen.output():
            print(text, end="")
    else:
        screen.say(f"Draft written to {out}")
    screen.note(
        "This draft was read off private rows: keep it private. Replace its levels and bounds by "
        "what you know without "
        "looking at the data, then delete the [draft] table."
    )


@app.command("check")
def check(
    path: SchemaPath,
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DATA", help="Also check that this file has the declared columns."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check that a schema is complete: kinds, levels, bounds, unit, no draft stamp. Exit code 2
    when it is not."""
    from dpublish.cli import screen
    from dpublish.declare.schema import Schema

    schema, problems = Schema.examine(path)
    if schema is not None:
        problems += _problems(schema)
        if data is not None:
            problems += _absent_columns(schema, data)
    if json:
        screen.write_json(
            {
                "schema": None if schema is None else schema.name,
                "ok": not problems,
                "problems": problems,
            }
        )
    elif problems or schema is None:
        screen.say(f"{path}: {len(problems)} problem(s)", style="bold red")
        for problem in problems:
            screen.say(f"  {problem}")
    else:
        screen.say(
            f"{path}: complete. {len(schema.columns)} columns, {_unit_words(schema)}.",
            style="green",
        )
    if problems:
        raise typer.Exit(2)


@app.command("show")
def show(path: SchemaPath, json: Json = False) -> None:
    """Show a schema as dpublish reads it, with every default filled in."""
    from dpublish.cli import screen
    from dpublish.declare.schema import Schema

    schema = Schema.read(path)
    if json:
        screen.write_json({**schema.to_dict(), "digest": schema.digest})
        return
    size = "size" if schema.neighbours == "replace-one" else "nominal_size"
    screen.facts(
        [
            ("data set", schema.name),
            ("protects", _unit_words(schema)),
            (
                size,
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
    rows = [
        (
            column.name,
            column.kind,
            _values(column),
            "level" if column.missing else "-",
            column.outside,
        )
        for column in schema.columns.values()
    ]
    screen.grid(["column", "kind", "values", "missing", "outside"], rows)


def _problems(schema: Schema) -> list[str]:
    """Everything that would stop a release, not just the first."""
    from dpublish.declare.domain import resolve_axis
    from dpublish.errors import SchemaError

    problems = []
    if schema.draft:
        problems.append(
            "The [draft] table is still there: levels and bounds were read off the rows."
        )
    for column in schema.columns.values():
        try:
            resolve_axis(column, schema_name=schema.name, default_bins=1)
        except SchemaError as error:
            problems.append(str(error))
    return problems


def _absent_columns(schema: Schema, data: str) -> list[str]:
    from dpublish.sources.sources import open_source

    source = open_source(data)
    present = source.columns()
    wanted = [*schema.columns, *([schema.unit.column] if schema.unit.column else [])]
    # names of the data are not quoted, not even as a hint: in a file without a header line they are
    # a person's row
    absent = [
        f"The data has no column named exactly '{name}'." for name in wanted if name not in present
    ]
    return absent + [
        f"The data has more than one column named '{name}'."
        for name in wanted
        if source.repeats(name)
    ]


def _unit_words(schema: Schema) -> str:
    return f"{schema.unit.describe()} ({schema.neighbours})"


def _values(column: Column) -> str:
    if not column.numeric:
        shown = ", ".join(column.levels[:6])
        return shown + (f", ... ({len(column.levels)} levels)" if len(column.levels) > 6 else "")
    if column.edges is not None:
        return (
            f"{len(column.edges) - 1} bins with given edges, {column.edges[0]} to "
            f"{column.edges[-1]}"
        )
    bounds = f"{_bound(column.lower)} to {_bound(column.upper)}"
    if column.bins is not None:
        return f"{bounds} in {column.bins} bins"
    return bounds + (
        f" in steps of {float(column.precision):g}" if column.precision is not None else ""
    )


def _bound(value: object) -> str:
    return "?" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _write(path: Path, text: str) -> None:
    """For its owner alone, whatever the umask: what was read off the rows is as private as they
    are."""
    from dpublish.errors import InputError
    from dpublish.owned import replace_owned

    try:
        replace_owned(path, text.encode())
    except OSError as error:
        raise InputError(f"Cannot write '{path}' ({error.strerror}).") from None
