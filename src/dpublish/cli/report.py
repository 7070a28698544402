"""`dpublish report`: one page about a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpublish.cli.options import Json, ReleaseFile


def report(
    release: ReleaseFile,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="PAGE", help="Where to write the page, as NAME.html."),
    ],
    json: Json = False,
) -> None:
    """Write a self-contained HTML page: what was published, the guarantee in words, distributions
    with error bars."""
    from dpublish.cli import screen
    from dpublish.cli.opened import open_for
    from dpublish.outputs import keep_apart

    keep_apart(out, release)
    open_for(release, "report").report(out)
    if json:
        screen.write_json({"out": out, "bytes": out.stat().st_size})
    else:
        screen.say(f"Wrote {out}")
