"""`dpublish export`: a release as an ordinary table."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from dpublish.cli.options import Json, ReleaseFile


class Format(StrEnum):
    csv = "csv"
    parquet = "parquet"


def export(
    release: ReleaseFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the table.")
    ],
    to: Annotated[
        Format | None,
        typer.Option(
            "--to", metavar="FORMAT", help="csv or parquet; from the name of --out when left out."
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
    json: Json = False,
) -> None:
    """Write weighted rows, or synthetic rows, as CSV or Parquet. Free: it only post-processes the
    release."""
    from dpublish.cli import screen
    from dpublish.cli.opened import open_for, weight_column
    from dpublish.errors import InputError
    from dpublish.outputs import keep_apart
    from dpublish.present.export import export_release

    form = to.value if to is not None else out.suffix.removeprefix(".").lower()
    if form not in Format.__members__:
        raise InputError(
            f"'{out}' does not say which format to write. Add --to csv or --to parquet."
        )
    if number is not None and not synthetic:
        raise InputError(
            "--number goes with --synthetic: weighted rows are as many as the release has cells."
        )
    if where is not None and not synthetic:
        raise InputError(
            "--where goes with --synthetic. For counts under a condition ask 'dpublish query'."
        )
    keep_apart(out, release)
    opened = open_for(release, "sample" if synthetic else "to_frame")
    export_release(
        opened,
        out,
        to=cast(Literal["csv", "parquet"], form),
        synthetic=synthetic,
        n=number,
        where=where,
    )
    weight = None if synthetic else weight_column(opened)
    if json:
        screen.write_json(
            {
                "out": out,
                "format": form,
                "synthetic": synthetic,
                "weight": weight,
                "bytes": out.stat().st_size,
            }
        )
    else:
        weighted = f"weighted rows (column '{weight}')" if weight is not None else "the table"
        kind = "synthetic rows" if synthetic else weighted
        screen.say(f"Wrote {kind} to {out}")
