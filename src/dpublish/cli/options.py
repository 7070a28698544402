"""Arguments and options that several commands share, how their text is read, and how a command is
made of a request."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from dpublish.catalogue import load
from dpublish.cli import screen
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


def names_of(parts: list[str] | None) -> tuple[str, ...]:
    """Names that stand in one text or in several: `a,b` or `a` and `b`."""
    return tuple(name.strip() for part in parts or () for name in part.split(",") if name.strip())


Show = Callable[..., None]


def asks(
    request: str | Callable[[Mapping[str, Any]], str],
    *,
    steps: bool = False,
    note: str | None = None,
    exit_code: Callable[[Any], int] = lambda found: 0,
    **read: Callable[[Any], Any],
) -> Callable[[Show], Show]:
    """Make a command of the function that shows what came of a request.

    Its first parameter is the result; the others are arguments and options, and those that bear the
    name of a field of the request fill it. With --json the result is written instead, and nothing
    is shown.

    Parameters
    ----------
    request
        Module and class in `dpublish.requests`, which are loaded when the command runs; or what
        says them, where they depend on what was given.
    steps
        Whether work that reads no private row names its steps too.
    note, exit_code
        What is said, and how the command ends, whether the result was shown or written.
    read
        For options that are no value of their field yet, how to read them.
    """

    readers: dict[str, Callable[[Any], Any]] = {"settings": settings_of, **read}

    def command(show: Show) -> Show:
        @functools.wraps(show)
        def run(*, json: bool, **given: Any) -> None:
            fields = {
                name: readers.get(name, _as_field)(value)
                for name, value in given.items()
                if value is not None
            }
            asked = request if isinstance(request, str) else request(fields)
            found = answer_to(asked, fields, steps=steps, quiet=json)
            if json:
                screen.write_json(found.to_json())
            else:
                show(found, **given)
            if note is not None:
                screen.note(note)
            if exit_code(found):
                raise typer.Exit(exit_code(found))

        _, *declared = inspect.signature(show).parameters.values()
        declared.append(
            inspect.Parameter(
                "json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json
            )
        )
        run.__annotations__ = {**{one.name: one.annotation for one in declared}, "return": None}
        hints = run.__annotations__ = get_type_hints(run, include_extras=True)
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [one.replace(annotation=hints[one.name]) for one in declared]
        )
        return run

    return command


def answer_to(
    request: str, given: dict[str, Any], *, steps: bool = False, quiet: bool = False
) -> Any:
    """Run a request with those of the given values that it has a field for."""
    kind = load(f"dpublish.requests.{request.replace('.', ':')}")
    fields = kind.__dataclass_fields__
    asked = kind(**{name: value for name, value in given.items() if name in fields})
    if not steps:
        return asked.run(screen.Terminal(quiet=quiet))
    with screen.steps(quiet=quiet) as progress:
        return asked.run(screen.Terminal(progress=progress))


def _as_field(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
