"""Write a release as a plain table for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dpublish.errors import QueryError, did_you_mean

if TYPE_CHECKING:
    from dpublish.public.releases.histogram import HistogramRelease

FORMATS = ("csv", "parquet")


def export_release(
    release: HistogramRelease,
    path: str | Path,
    *,
    to: Literal["csv", "parquet"] = "csv",
    synthetic: bool = False,
    n: int | None = None,
    seed: int | None = None,
) -> Path:
    """Write the weighted cells, or `synthetic` rows (`n` of them), as CSV or Parquet."""
    if to not in FORMATS:
        raise QueryError(f"Cannot export to '{to}'.{did_you_mean(str(to), FORMATS)} Formats: {', '.join(FORMATS)}.")
    if not synthetic and (n is not None or seed is not None):
        raise QueryError("n and seed belong to synthetic rows. Ask for synthetic rows, or leave them out.")
    import polars.selectors as cs

    path = Path(path)
    frame = release.sample(n, seed=seed) if synthetic else release.to_frame()
    try:
        with path.open("wb") as file:
            if to == "csv":
                frame.with_columns(cs.list().list.join(" ")).write_csv(file)  # a CSV cell holds no list
            else:
                frame.write_parquet(file, compression="zstd")
    except OSError as error:
        raise QueryError(f"'{path}' cannot be written: {error.strerror or type(error).__name__}.") from None
    return path
