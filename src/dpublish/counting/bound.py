"""At most c rows a unit, chosen at random but by a rule that looks at nothing beyond the unit's own
rows and a key.

For every fixed key the choice is a function of one unit's rows alone, so changing one unit changes
at most its own c kept rows: the step is stable whatever the key, and a recorded key can be
replayed. Units are equal when their values are, text being stripped of surrounding blanks and of a
zero fraction ("7.0" is "7"). A row without a unit, that is with a null, blank or NaN in the unit
column or with a list or structure there, belongs to nobody whom the guarantee could protect, and is
dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.counting.kernels import choose_rows
from dpublish.sources.units import spelled_units, unit_values

KEY_BYTES = 16


def keep_rows(
    units: pl.Series | NDArray[Any] | Sequence[Any], c: int, key: bytes
) -> NDArray[np.bool_]:
    """Which rows to keep: of each unit the `c` whose index within the unit has the smallest keyed
    hash."""
    if c < 1 or len(key) != KEY_BYTES:
        raise ValueError("keep_rows needs c of at least 1 and a key of 16 bytes")
    series = unit_values(units if isinstance(units, pl.Series) else pl.Series(units))
    low, high = (int.from_bytes(half, "little") for half in (key[:8], key[8:]))
    frame = series.alias("unit").to_frame().with_row_index("row")
    # a unit is labelled by its first row; the label finds the unit's rows but never enters the hash
    labels = frame.select(pl.col("row").first().over("unit")).to_series().cast(pl.Int64).to_numpy()
    first = np.flatnonzero(labels == np.arange(labels.size))
    identity = np.zeros(labels.size, dtype=np.uint64)
    identity[first] = spelled_units(series.gather(first)).hash(seed=0).to_numpy()
    present = series.is_not_null().to_numpy()
    return choose_rows(
        labels, identity, present, min(c, len(series) + 1), np.uint64(low), np.uint64(high)
    )
