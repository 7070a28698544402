"""At most c rows a unit, chosen at random but by a rule that looks at nothing beyond the unit's own rows and a key.

For every fixed key the choice is a function of one unit's rows alone, so changing one unit changes at most its own c kept rows:
the step is stable whatever the key, and a recorded key can be replayed. Units are equal when their values are, text being
stripped of surrounding blanks and of a zero fraction ("7.0" is "7"). A row without a unit, that is with a null, blank or NaN in
the unit column or with a list or structure there, belongs to nobody whom the guarantee could protect, and is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.encode import BLANKS, ZERO_FRACTION
from dpublish.private.kernels.units import choose_rows

KEY_BYTES = 16


def keep_rows(units: pl.Series | NDArray[Any] | Sequence[Any], c: int, key: bytes) -> NDArray[np.bool_]:
    """Which rows to keep: of each unit the `c` whose index within the unit has the smallest keyed hash."""
    if c < 1 or len(key) != KEY_BYTES:
        raise ValueError("keep_rows needs c of at least 1 and a key of 16 bytes")
    series = unit_values(units if isinstance(units, pl.Series) else pl.Series(units))
    low, high = (int.from_bytes(half, "little") for half in (key[:8], key[8:]))
    frame = series.alias("unit").to_frame().with_row_index("row")
    # a unit is labelled by its first row; the label finds the unit's rows but never enters the hash
    labels = frame.select(pl.col("row").first().over("unit")).to_series().cast(pl.Int64).to_numpy()
    first = np.flatnonzero(labels == np.arange(labels.size))
    identity = np.zeros(labels.size, dtype=np.uint64)
    identity[first] = _spelled(series.gather(first)).hash(seed=0).to_numpy()
    present = series.is_not_null().to_numpy()
    return choose_rows(labels, identity, present, min(c, len(series) + 1), np.uint64(low), np.uint64(high))


def unit_values(units: pl.Series) -> pl.Series:
    """Unit ids with null for what is not an id, in a type whose equality does not depend on other rows."""
    kind = units.dtype
    if kind in (pl.Categorical, pl.Enum):
        units = units.cast(pl.String)  # category numbers depend on which other values occur
    if units.dtype == pl.String:
        stripped = units.str.strip_chars(BLANKS).str.replace(ZERO_FRACTION, "${1}")
        return stripped.set(stripped.str.len_bytes() == 0, None)
    if kind.is_float():
        return units.fill_nan(None)
    if kind.is_temporal():
        return units.to_physical()
    if kind.is_nested() or kind in (pl.Object, pl.Unknown, pl.Null):
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
        return pl.concat([part if part.dtype == kind else part.cast(kind, strict=False) for part in parts])
    return pl.concat([_spelled(part).cast(pl.String, strict=False) for part in parts])


def _spelled(units: pl.Series) -> pl.Series:
    """Ids as text, so that the hash of a unit does not depend on the type that the ids of others led to. Bytes stay bytes."""
    if units.dtype in (pl.String, pl.Binary):
        return units
    plus_zero = units + 0.0 if units.dtype.is_float() else units  # minus zero equals zero
    return unit_values(plus_zero.cast(pl.String))
