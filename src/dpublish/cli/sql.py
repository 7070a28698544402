"""`dpublish sql`: a SELECT over the weighted rows of a release."""

from __future__ import annotations

from typing import Annotated

import typer

from dpublish.cli.options import Json, ReleaseFile, ShownRows


def sql(
    release: ReleaseFile,
    text: Annotated[str, typer.Argument(metavar="SELECT", help="SQL over the table 'release'.")],
    rows: ShownRows = 50,
    json: Json = False,
) -> None:
    """Run SQL over the table 'release'. Counts, sums and averages are weighted; they carry no error bars ('query' does)."""
    from dpublish.cli import screen
    from dpublish.cli.opened import open_for

    frame = open_for(release, "sql").sql(text)
    if json:
        screen.write_json(screen.frame_json(frame))
    else:
        screen.frame_grid(frame, most=rows)
