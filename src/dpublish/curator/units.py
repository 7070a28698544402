"""Which column says whose rows belong together: guesses for drafts and checks, from names and rows.
For the curator's eyes alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import polars as pl

from dpublish.sources.sources import Source

_UNIT_WORDS: Final = (
    *("id", "patient", "person", "customer", "user", "household", "subject", "member"),
    *("respondent", "employee", "pupil", "student", "client", "participant"),
)
_ID_NAMES: Final = re.compile(r"(?:[a-z](?:Id|ID)|^(?:idno|pid|hid|uid|cid|sid|ssn|nr|key)$)")
MAX_CANDIDATES: Final = 4
MAX_TRAITS: Final = 12
AGREE: Final = 0.98
"""The part of ids of several rows within which a trait must not change, beyond chance."""


def named_as_unit(name: str) -> bool:
    """Whether a column is called as ids of people are."""
    words = name.lower().replace("-", "_").split("_")
    return any(word in _UNIT_WORDS for word in words) or bool(_ID_NAMES.search(name))


def largest_unit(source: Source, column: str) -> int:
    """The number of rows that 99 in 100 units do not exceed."""
    hashes = pl.concat([frame.to_series(0).hash() for frame in source.batches([column])])
    sizes = hashes.alias("unit").to_frame().group_by("unit").len().get_column("len")
    return int(sizes.quantile(0.99, "higher") or 1)


def repeated_id(source: Source, candidates: Sequence[str], traits: Sequence[str]) -> str | None:
    """The column whose values come several times each, and within which what people are does not
    change: a person's rows have one sex and one birthplace, rows with the same income do not.

    `traits` are columns of few values. One of them must be the same within nearly all ids of
    several rows, although two rows at random often differ in it.
    """
    for candidate in candidates[:MAX_CANDIDATES]:
        some = [name for name in traits if name != candidate][:MAX_TRAITS]
        if not some:
            return None
        frames = source.batches([candidate, *some])
        table = pl.concat([frame.select(pl.all().hash()) for frame in frames])
        groups = table.group_by(candidate).agg(pl.len().alias("#rows"), *(_same(n) for n in some))
        several = groups.filter(pl.col("#rows") > 1)
        if several.height < 0.1 * groups.height or several.height < 10:
            continue
        constant = [name for name in some if _holds(table, several, name)]
        if constant:
            return candidate
    return None


def _same(name: str) -> pl.Expr:
    return (pl.col(name).min() == pl.col(name).max()).alias(name)


def _holds(table: pl.DataFrame, several: pl.DataFrame, name: str) -> bool:
    """Whether ids agree in a trait, in which two rows at random differ in at least one case in
    five."""
    shares = table.get_column(name).value_counts(normalize=True).get_column("proportion")
    alike = float((shares * shares).sum())
    return alike <= 0.8 and float(several.get_column(name).mean() or 0) >= AGREE  # type: ignore[arg-type]
