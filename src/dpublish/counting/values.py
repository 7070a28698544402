"""What single columns hold, for paid discovery: texts with the number of units that have each, and
counts along an axis.

A cell is spelled as a level would be written: without surrounding blanks and a zero fraction. What
could not stand in a schema, on a page or in a terminal is no text: blanks, more than `LONGEST`
letters, letters that could not be decoded or that are not printed, and the names of levels that a
column has unasked. A unit with more texts than it may have rows counts for those whose keyed hash
is smallest: a function of the texts of that unit alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from dpublish.arrays import Ints
from dpublish.counting.bound import unit_hashes
from dpublish.counting.cells import count_in_tables
from dpublish.declare.columns import MISSING, OTHER
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import as_text
from dpublish.declare.schema import Schema
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.declare.statistic import ColumnReader, ContingencyTables, Statistic
from dpublish.sources.objects import spelled_floats
from dpublish.sources.sources import Source
from dpublish.sources.units import spelled_units, unit_values

LONGEST = 100
"""Letters of the longest text that can become a level."""

_PRINTED = r"^(?:[^\p{C}\p{Z}\x{FFFD}]| )+$"


def compute(
    statistic: Statistic,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Callable[[int], None] | None = None,
) -> ColumnReader:
    """A reader of the columns that were asked for."""

    def counts(axis: Axis) -> Ints:
        asked = ContingencyTables(Domain((axis,)), ((0,),))
        found = count_in_tables(asked, source, schema, key=key, progress=progress)
        return found.tables[(0,)].ravel()

    return ColumnReader(lambda name: unit_texts(source, schema, name, key), counts)


def unit_texts(
    source: Source, schema: Schema, name: str, key: bytes
) -> tuple[tuple[str, ...], Ints]:
    """The texts of a column, sorted, and how many units have each."""
    unit = schema.unit.column
    seen = pl.DataFrame(schema={"text": pl.String, "units": pl.Int64})
    pairs: list[pl.DataFrame] = []
    for frame in source.batches([name] if unit in (None, name) else [name, str(unit)]):
        texts = level_texts(frame.get_column(name)).alias("text")
        if unit is None:
            new = texts.drop_nulls().value_counts(name="units").cast({"units": pl.Int64})
            seen = pl.concat([seen, new]).group_by("text").agg(pl.col("units").sum())
        else:
            ids = spelled_units(unit_values(frame.get_column(unit))).alias("unit")
            pairs.append(pl.DataFrame([ids, texts]).drop_nulls().unique())
            pairs = [pl.concat(pairs).unique()]
    if pairs:
        chosen = (
            pairs[0]
            .with_columns(pl.Series("hash", unit_hashes(pairs[0].get_column("text"), key)))
            .sort("unit", "hash", "text")
            .group_by("unit", maintain_order=True)
            .head(schema.unit.max_rows)
        )
        seen = chosen.get_column("text").value_counts(name="units")
    found = seen.sort("text")
    return tuple(found.get_column("text").to_list()), np.array(
        found.get_column("units").to_list(), dtype=np.int64
    )


def level_texts(cells: pl.Series) -> pl.Series:
    """Cells as levels would be written; null for what is none."""
    kind = cells.dtype
    if kind.is_float():
        texts = spelled_floats(cells.cast(pl.Float64).fill_nan(None))
    elif kind.is_integer() or kind in (pl.Boolean, pl.String, pl.Categorical, pl.Enum):
        texts = cells.cast(pl.String)
    elif kind.is_decimal() or kind in (pl.Date, pl.Datetime, pl.Time):
        texts = as_text(cells)
    else:
        return pl.Series([None] * len(cells), dtype=pl.String)
    plain = texts.str.strip_chars(BLANKS).str.replace(ZERO_FRACTION, "${1}")
    good = (
        (plain.str.len_chars() <= LONGEST)
        & plain.str.contains(_PRINTED)
        & ~plain.is_in([OTHER, MISSING])
    )
    return pl.select(pl.when(good).then(plain)).to_series()
