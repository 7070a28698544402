"""`dpublish predict`: a published classifier at work on rows of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpublish.cli.options import Json, ReleaseFile


def predict(
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
    json: Json = False,
) -> None:
    """Predict the target of rows of your own with a published classifier. Free: it only reads the
    release.

    The rows get a predicted class and the probability of every class. Where they have the target
    too, accuracy is shown: a figure about these rows, to be kept to yourself if they are private.
    """
    from dpublish.analyse.predict import predict_rows
    from dpublish.cli import screen
    from dpublish.cli.opened import open_for
    from dpublish.models.public_rows import read_public
    from dpublish.outputs import keep_apart
    from dpublish.present.export import format_of, write_table

    form = format_of(out)
    keep_apart(out, rows, release)
    opened = open_for(release, "predict")
    # cells go from CSV to CSV as they are: an id of 007 must still name its row; Parquet has
    # columns with types
    labels = (
        None
        if form == "csv"
        else [axis.name for axis in (*opened.features.axes, opened.target) if not axis.numeric]
    )
    found = predict_rows(opened, read_public(rows, labels, what="rows to predict"))
    write_table(found.frame, out, to=form)
    if json:
        figures = {"labelled": found.labelled, "accuracy": found.accuracy, "area": found.area}
        screen.write_json({"out": out, "format": form, "rows": found.frame.height, **figures})
        return
    screen.say(f"Wrote {found.frame.height:,} rows with predictions to {out}")
    if found.accuracy is not None:
        area = "" if found.area is None else f", area under the curve {found.area:.3f}"
        screen.say(
            f"Of {found.labelled:,} rows with a known '{opened.target.name}': accuracy "
            f"{found.accuracy:.3f}{area}"
        )
