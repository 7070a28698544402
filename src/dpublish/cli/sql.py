"""`dpublish sql`: a SELECT over the weighted rows of a release."""

from __future__ import annotations

from typing import Annotated

import typer

from dpublish.cli.options import Json, ReleaseFile, ShownRows


def sql(
    release: ReleaseFile,
    text: Annotated[str, typer.Argument(metavar="SELECT", help="SQL over the table 'release'.")],
    level: Annotated[
        float | None,
        typer.Option(
            "--level",
            metavar="SHARE",
            min=0.5,
            max=0.9999,
            help="Add limits to count(*), sure to this degree.",
        ),
    ] = None,
    rows: ShownRows = 50,
    json: Json = False,
) -> None:
    """Run SQL over the table 'release'. Counts, sums and averages are weighted; with --level,
    counts have limits beside them.

    Limits are for count(*), alone or by columns, and for releases whose 'query' gives counts.
    """
    from dpublish.cli import screen
    from dpublish.cli.opened import open_for

    opened = open_for(release, "sql")
    frame = opened.sql(text, level=level)
    note = opened.sql_note(text)
    if json:
        extra = {"level": level, "note": note}
        screen.write_json(
            {
                **{name: value for name, value in extra.items() if value is not None},
                **screen.frame_json(frame),
            }
        )
    else:
        screen.frame_grid(frame, most=rows)
        if note is not None:
            screen.note(note)
