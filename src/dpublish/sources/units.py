"""When two cells name the same unit: text is stripped of surrounding blanks and of a zero fraction
("7.0" is "7").

A double of 2^53 and beyond, also one spelled with an exponent or as inf, names nobody: it may be
several ids rounded to one. So may a single of 2^24 or a half of 2^11 and beyond, a text with
U+FFFD, which stands for bytes that could not be decoded, and one of more than `LONGEST_ID` bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from dpublish.declare.encode import EXACT_WHOLE, as_text
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.sources.objects import spelled_floats
from dpublish.sources.texts import UNREADABLE

LONGEST_ID = 1 << 10
"""Bytes of the longest text that names a unit: ids of all rows are held at once."""

_EXACT = {"Float16": 1 << 11, "Float32": 1 << 24}
_ROUNDED = r"^-?([0-9](\.[0-9]+)?e\+[0-9]+|inf)$"


def unit_values(units: pl.Series) -> pl.Series:
    """Unit ids with null for what is not an id, in a type whose equality does not depend on other
    rows."""
    kind = units.dtype
    if kind in (pl.Categorical, pl.Enum):
        units = units.cast(pl.String)  # category numbers depend on which other values occur
    if units.dtype == pl.String:
        short = pl.select(pl.when(units.str.len_bytes() <= LONGEST_ID).then(units)).to_series()
        stripped = short.str.strip_chars(BLANKS).str.replace(ZERO_FRACTION, "${1}")
        nobody = (
            (stripped.str.len_bytes() == 0)
            | stripped.str.contains(_ROUNDED)
            | stripped.str.contains(UNREADABLE)
        )
        return stripped.set(nobody, None).alias(units.name)
    if kind.is_float():
        known = units.fill_nan(None)
        return known.set(known.abs() >= _EXACT.get(str(kind), EXACT_WHOLE), None)
    if kind in (pl.Date, pl.Datetime, pl.Time):
        return as_text(units)
    if kind.is_nested() or kind in (pl.Object, pl.Unknown, pl.Null, pl.Duration):
        return pl.Series(units.name, [None] * len(units), dtype=pl.Int64)
    return units


def join_units(parts: Sequence[pl.Series]) -> pl.Series:
    """One column of unit ids from batches whose types may differ."""
    parts = [unit_values(part) for part in parts if len(part)]
    filled = {part.dtype for part in parts if part.null_count() < len(part)}
    if not parts:
        return pl.Series([], dtype=pl.Int64)
    if len(filled) <= 1:
        kind = next(iter(filled), pl.Int64())
        return pl.concat(
            [part if part.dtype == kind else part.cast(kind, strict=False) for part in parts]
        )
    return pl.concat([spelled_units(part).cast(pl.String, strict=False) for part in parts])


def spelled_units(units: pl.Series) -> pl.Series:
    """Ids as text, so that the hash of a unit does not depend on the type that the ids of others
    led to. Bytes stay bytes."""
    if units.dtype in (pl.String, pl.Binary):
        return units
    if units.dtype.is_float():
        return spelled_floats(units + 0.0)  # minus zero equals zero
    return unit_values(units.cast(pl.String))
