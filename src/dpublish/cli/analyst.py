"""`dpublish show | query | sql | export | predict | report | page`: what an analyst asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dpublish.cli import screen
from dpublish.cli.options import ReleaseFile, ShownRows, asks, names_of
from dpublish.requests.base import Format

if TYPE_CHECKING:
    from dpublish.estimate import Estimate
    from dpublish.requests.analyst import Answers, Exported, Predicted, Shown, Table, Written


class Conditions(TyperCommand):
    """A condition that starts with a minus (`-2 * age > 40`) is no option: the space that is put
    before it keeps the parser
    of options away, and that of conditions ignores it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if _condition(word) else word for word in args])


def _condition(word: str) -> bool:
    return (
        word.startswith("-") and not word.startswith("--") and any(sign in word for sign in "<>=")
    )


@asks("analyst.Show")
def show(shown: Shown, release: ReleaseFile) -> None:
    """Show what a release holds, what it cost, what it promises and who signed it. With --json: the
    manifest and signatures."""
    opened = shown.release
    manifest = opened.manifest
    signers = [one.describe() for one in opened.signatures] or ["nobody"]
    screen.facts(
        [*_facts(manifest), *(("signed by", one) for one in signers)],
        title=f"{manifest['method']} of '{manifest['dataset']}'",
    )
    screen.say("")
    screen.say(opened.privacy, style=None if manifest["publishable"] else "bold red")
    if manifest.get("domain"):
        screen.grid(["column", "kind", "codes", "values"], _columns(manifest), right=(2,))
    for sentence in manifest["plan"]["sentences"]:
        screen.say(f"  {sentence}")
    screen.notes(manifest["plan"].get("warnings", ()))


def _facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    from dpublish.privacy.cost import Cost

    lines = [
        *manifest.get("about", {}).items(),
        ("kind", str(manifest["kind"])),
        ("made", str(manifest["created"])),
        ("cost", Cost.from_json(manifest["privacy"]["cost"]).describe()),
        ("protects", f"{manifest['privacy']['unit']} ({manifest['privacy']['neighbours']})"),
        (
            "publishable",
            "yes" if manifest["publishable"] else "NO: made with fixed noise, for tests",
        ),
    ]
    lines += [
        (f"table '{name}'", f"{facts['rows']:,} rows, {facts['bytes']:,} bytes")
        for name, facts in manifest["files"].items()
    ]
    total = manifest["facts"].get("total")
    if isinstance(total, dict) and total.get("value") is not None:
        lines.append(("total", f"{total['value']:,} rows ({total['kind']})"))
    receipt = manifest["receipt"]
    return [*lines, ("paid by", f"ledger {receipt['ledger_id']}, entry {receipt['seq']}")]


def _columns(manifest: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    from dpublish.declare.domain import Domain

    rows: list[tuple[str, str, str, str]] = []
    for axis in Domain.from_json(manifest["domain"]).axes:
        labels = [axis.wording.labels.get(one, one) for one in axis.labels]
        shown = ", ".join(labels[:4]) + (f", ... {labels[-1]}" if len(labels) > 4 else "")
        name = f"{axis.name} ({axis.wording.title})" if axis.wording.title else axis.name
        rows.append((name, axis.kind, f"{axis.cardinality:,}", shown))
    return rows


@asks(
    "analyst.Query", exit_code=lambda found: 2 if getattr(found, "failures", ()) else 0, by=names_of
)
def query(
    found: Answers | Table,
    release: ReleaseFile,
    conditions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PREDICATE]...",
            help="A condition, for example \"age >= 40 and sex = 'F'\"; or mean(income), sum(...), "
            "share(condition), median(...), quantile(income, 0.9), ratio(sex = 'F', sex = 'M'), "
            "difference(income, sex = 'M', sex = 'F').",
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="COLUMN", help="Count by these columns instead. Repeatable, or a,b."
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="CONDITION", help="The rows that means, sums and shares are over."
        ),
    ] = None,
    level: Annotated[
        float,
        typer.Option(
            "--level", metavar="SHARE", min=0.5, max=0.9999, help="Confidence of the intervals."
        ),
    ] = 0.95,
    rows: ShownRows = 50,
) -> None:
    """Count rows that meet a condition, with a standard error and an interval. Free: a release can
    be asked for ever.

    Weighted public rows answer with the share of rows that meet a condition, or with the mean of an
    expression such as age.
    """
    from dpublish.requests.analyst import Table

    if isinstance(found, Table):
        screen.frame_grid(found.frame, most=rows)
        for line in (*found.notes, *found.warnings):
            screen.say(line)
        return
    # weighted rows answer with shares and means, all other kinds with counts
    heading = " or ".join(sorted({one.measure for _, one in found.answers}, reverse=True))
    screen.grid(
        [
            "condition",
            "estimate" if heading == "count" else heading,
            "std. error",
            f"{100 * level:.4g}% interval",
        ],
        [(text, *_three(one)) for text, one in found.answers],
        right=(1, 2, 3),
    )
    for text, one in found.answers:
        # what an interval rests on, and does not cover; a warning repeats the note of what is only
        # assumed
        note = one.note if one.basis != "assumed" else ""
        for line in filter(None, (note, *one.warnings)):
            screen.say(f"{text}: {line}")
    for text, error in found.failures:
        screen.note(f"{text}: {error}")


def _three(estimate: Estimate) -> tuple[str, str, str]:
    """The number, its standard error and its interval."""
    from dpublish.declare.calendar import UNITS

    error = _count(estimate.standard_error)
    kind = estimate.details.get("calendar")
    if kind is not None:
        value, low, high = estimate.written()
        return value, f"{error} {UNITS[kind]}", f"{low} to {high}"
    ends = f"{_count(estimate.low)} to {_count(estimate.high)}"
    if estimate.basis == "assumed":  # in brackets: what holds under an assumption
        ends = f"(if alike: {ends})"
    return _count(estimate.value), error, ends


def _count(value: float) -> str:
    if value == float("inf"):
        return "no bound"
    if abs(value) < 1e-9:  # what rounding leaves of nothing
        return "0"
    if abs(value) < 1:  # a share or a mean, not a count
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"


@asks("analyst.Sql")
def sql(
    found: Table,
    release: ReleaseFile,
    select: Annotated[str, typer.Argument(metavar="SELECT", help="SQL over the table 'release'.")],
    level: Annotated[
        float,
        typer.Option(
            "--level",
            metavar="SHARE",
            min=0.5,
            max=0.9999,
            help="How sure the limits of counts, sums and averages are.",
        ),
    ] = 0.95,
    rows: ShownRows = 50,
) -> None:
    """Run SQL over the table 'release'. Counts, sums and averages are the estimates of the release,
    with limits beside them and a note that says what those rest on, or why there are none.
    """
    from dpublish.requests.analyst import note_columns

    # notes are the same on most lines: they stand beneath
    screen.frame_grid(found.frame.drop(*note_columns(found.frame)), most=rows)
    for line in (*([found.note] if found.note else []), *found.notes):
        screen.note(line)


@asks("analyst.Export")
def export(
    made: Exported,
    release: ReleaseFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the table.")
    ],
    to: Annotated[
        Format | None,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="csv or parquet (from the name of --out when left out), or a record of the "
            "release: croissant, dcat, frictionless, registry, label, dpo.",
        ),
    ] = None,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Draw synthetic rows instead of weighted cells.")
    ] = False,
    number: Annotated[
        int | None,
        typer.Option(
            "--number",
            "-n",
            metavar="N",
            min=1,
            help="How many synthetic rows; the estimated total when left out.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Only synthetic rows that satisfy it (joined histograms).",
        ),
    ] = None,
) -> None:
    """Write weighted rows, or synthetic rows, as CSV or Parquet; or a record of the release for
    catalogues and officers. Free: it only post-processes the release.

    Records state what the manifest states, and list what nobody stated.
    """
    if made.form not in ("csv", "parquet"):
        screen.say(f"Wrote {' and '.join(str(path) for path in (made.out, *made.beside))}")
        if made.missing:
            screen.say(f"Not stated, and so left out: {', '.join(made.missing)}.")
        return
    weighted = f"weighted rows (column '{made.weight}')" if made.weight is not None else "the table"
    screen.say(f"Wrote {'synthetic rows' if synthetic else weighted} to {out}")


@asks("analyst.Predict")
def predict(
    found: Predicted,
    release: ReleaseFile,
    rows: Annotated[
        Path,
        typer.Argument(
            metavar="ROWS", help="Rows to predict: CSV, TSV (also .gz), Parquet or Arrow."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Where to write them, as .csv or .parquet."
        ),
    ],
) -> None:
    """Predict the target of rows of your own with a published classifier. Free: it only reads the
    release.

    The rows get a predicted class and the probability of every class. Where they have the target
    too, accuracy is shown: a
    figure about these rows, to be kept to yourself if they are private.
    """
    screen.say(f"Wrote {found.rows:,} rows with predictions to {out}")
    if found.accuracy is not None:
        area = "" if found.area is None else f", area under the curve {found.area:.3f}"
        screen.say(
            f"Of {found.labelled:,} rows with a known '{found.target}': accuracy "
            f"{found.accuracy:.3f}{area}"
        )


@asks("analyst.Report")
def report(
    made: Written,
    release: ReleaseFile,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="PAGE", help="Where to write the page, as NAME.html."),
    ],
) -> None:
    """Write a self-contained HTML page: what was published, the guarantee in words, distributions
    with error bars."""
    screen.say(f"Wrote {out}")


@asks("analyst.Page", by=lambda text: tuple(map(str.strip, text.split(","))) if text else ())
def page(
    made: Written,
    release: ReleaseFile,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="PAGE", help="Where to write the page, as NAME.html."),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMNS",
            help="Three columns or more that get a table of their own, as age,ward,sex.",
        ),
    ] = None,
) -> None:
    """Write the release as one HTML file that anyone can open and ask: no server, no network.

    Example: dpublish page adult.dpr --out adult.html
    """
    screen.say(f"Wrote {out}")
