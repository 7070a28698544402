"""Write a release as a plain table for other tools."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dpublish.errors import InputError, QueryError, did_you_mean
from dpublish.outputs import as_path, keep_apart, written_to

if TYPE_CHECKING:
    import polars as pl

    from dpublish.releases.histogram.release import HistogramRelease

FORMATS = ("csv", "parquet")
Format = Literal["csv", "parquet"]
_ESCAPED = [("\\", "\\\\"), ('"', '\\"'), *((chr(code), f"\\u{code:04x}") for code in range(32))]
"""What JSON writes in another way inside a text; backslashes first."""


def export_release(
    release: HistogramRelease,
    path: str | Path,
    *,
    to: Format = "csv",
    synthetic: bool = False,
    n: int | None = None,
    seed: int | None = None,
    where: str | None = None,
) -> Path:
    """Write the weighted cells, or `synthetic` rows (`n` of them, those that satisfy `where`), as
    CSV or Parquet."""
    if to not in FORMATS:
        raise QueryError(
            f"Cannot export to '{to}'.{did_you_mean(str(to), FORMATS)} Formats: "
            f"{', '.join(FORMATS)}."
        )
    if not synthetic and (n is not None or seed is not None or where is not None):
        raise QueryError(
            "n, seed and where belong to synthetic rows. Ask for synthetic rows, or leave them out."
        )
    given: dict[str, Any] = {} if where is None else {"where": where}
    if given and "where" not in inspect.signature(release.sample).parameters:
        raise QueryError(
            f"A release of kind '{release.kind}' draws no rows under a condition. Draw some and "
            f"choose."
        )
    if release.path is not None:
        keep_apart(path, release.path)
    return write_table(
        release.sample(n, seed=seed, **given) if synthetic else release.to_frame(), path, to=to
    )


def format_of(path: Path) -> Format:
    """What the end of a file's name says."""
    form = path.suffix.removeprefix(".").lower()
    if form not in FORMATS:
        raise InputError(
            f"'{path}' does not say which format to write. End it in .csv or .parquet."
        )
    return cast(Format, form)


def write_table(frame: pl.DataFrame, path: str | Path, *, to: Format) -> Path:
    """Write a frame; a file that is there is overwritten."""
    import polars as pl
    import polars.selectors as cs

    path = as_path(path)
    with written_to(path), path.open("wb") as file:
        if to == "csv":
            lists = frame.select(cs.by_dtype(pl.List(pl.String))).columns
            frame.with_columns(_as_json(name) for name in lists).write_csv(file)
        else:
            frame.write_parquet(file, compression="zstd")
    return path


def _as_json(name: str) -> pl.Expr:
    """A list of texts as one cell: a CSV cell holds no list, and items may hold blanks and
    commas."""
    import polars as pl

    quoted = pl.element()
    for sign, written in _ESCAPED:
        quoted = quoted.str.replace_all(sign, written, literal=True)
    joined = pl.col(name).list.eval('"' + quoted + '"').list.join(", ")
    return ("[" + joined + "]").alias(name)
