"""The tables of the comparison, coded once: every method gets the same whole numbers, in the same
columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from shipped import SHIPPED

BINS = 32
TUNED_ON = ("adult", "acs_ma2019", "acs_national2019")
"""The tables that the defaults of dpublish were chosen on."""
FRESH = ("satellite", *SHIPPED)
"""Tables that no choice was made on."""
TABLES = (*TUNED_ON, *FRESH)
_ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
_ACS_BOUNDS = {
    "AGEP": (0, 99),
    "DENSITY": (0, 30_000),
    "POVPIP": (0, 501),
    "NPF": (0, 20),
    "NOC": (0, 15),
}


@dataclass(frozen=True)
class Coded:
    """Codes of the training and the held-out rows; one column each, the target last. `values` are
    the training rows before numbers went into bins: a number, or the code of a level. Columns
    without bounds are no numbers."""

    name: str
    columns: tuple[str, ...]
    levels: tuple[int, ...]
    bounds: tuple[tuple[int, int] | None, ...]
    whole: tuple[bool, ...]
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def target(self) -> str:
        return self.columns[-1]

    @property
    def ordered(self) -> tuple[bool, ...]:
        return tuple(bound is not None for bound in self.bounds)

    def to_codes(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Rows of values, as every method is measured on them."""
        parts = [
            column.astype(np.int64) if bound is None else _binned(column, *bound)[0]
            for column, bound in zip(values.T, self.bounds, strict=True)
        ]
        return np.stack(parts, axis=1)

    def to_values(self, codes: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        """Rows of codes, each number drawn evenly from its bin; where a code says that there is
        none, not a number."""
        generator = np.random.default_rng(seed)
        parts = []
        for column, bound, whole in zip(codes.T, self.bounds, self.whole, strict=True):
            if bound is None:
                parts.append(column.astype(np.float64))
                continue
            low, high = bound
            bins = min(BINS, high - low + 1)
            drawn = low + (column + generator.random(len(column))) * (high - low + 1) / bins
            drawn = np.floor(drawn) if whole else np.minimum(drawn, high)
            parts.append(np.where(column < bins, drawn, np.nan))
        return np.stack(parts, axis=1)


def coded(name: str, folder: Path) -> Coded:
    """Read and code a table. A fixed fifth of the rows is held out."""
    frame = pl.read_csv(folder / f"{name}.csv.gz", infer_schema=False)
    real: frozenset[str] = frozenset()
    if name in SHIPPED:
        shipped = SHIPPED[name]
        bounds, target = dict(shipped.bounds), shipped.target
        real = frozenset(bounds) - shipped.whole
    elif name == "adult":
        frame, bounds, target = frame.drop("split"), _ADULT_BOUNDS, "income"
    elif name == "satellite":
        # 36 brightnesses, bytes as the satellite sends them; whether the soil is damp is what is
        # predicted
        frame = frame.with_columns(pl.col("class").str.contains("damp").cast(pl.String)).rename(
            {"class": "damp"}
        )
        bounds, target = {column: (0, 255) for column in frame.columns if column != "damp"}, "damp"
    else:
        # high income is what is predicted, so that income itself is left out; so are the survey
        # weights
        high = pl.col("PINCP_DECILE").cast(pl.Int64, strict=False).fill_null(0) >= 8
        frame = frame.with_columns(high.cast(pl.String).alias("high_income"))
        frame = frame.drop("PINCP", "PINCP_DECILE", "PWGTP", "WGTP", "INDP")
        bounds, target = _ACS_BOUNDS, "high_income"
    frame = frame.select(*(column for column in frame.columns if column != target), target)
    parts, levels, values = [], [], []
    for column in frame.columns:
        codes, count, numbers = _code(frame[column], bounds.get(column))
        parts.append(codes)
        levels.append(count)
        values.append(numbers)
    rows, raw = np.stack(parts, axis=1), np.stack(values, axis=1)
    order = np.random.default_rng(20_240_101).permutation(len(rows))
    held = len(rows) // 5
    return Coded(
        name,
        tuple(frame.columns),
        tuple(levels),
        tuple(bounds.get(column) for column in frame.columns),
        tuple(column in bounds and column not in real for column in frame.columns),
        rows[order[held:]],
        rows[order[:held]],
        raw[order[held:]],
    )


def _code(
    series: pl.Series, bounds: tuple[int, int] | None
) -> tuple[NDArray[np.int64], int, NDArray[np.float64]]:
    if bounds is None:
        distinct = sorted(series.unique().to_list())
        codes = np.searchsorted(np.array(distinct), series.to_numpy().astype(str))
        return codes, len(distinct), codes.astype(np.float64)
    numbers = series.cast(pl.Float64, strict=False).to_numpy()
    codes, count = _binned(numbers, *bounds)
    return codes, count, numbers


def _binned(numbers: NDArray[np.float64], low: int, high: int) -> tuple[NDArray[np.int64], int]:
    missing = np.isnan(numbers)
    bins = min(BINS, high - low + 1)
    codes = np.clip((np.nan_to_num(numbers) - low) * bins / (high - low + 1), 0, bins - 1).astype(
        np.int64
    )
    return np.where(missing, bins, codes), bins + bool(missing.any())


def schema_text(table: Coded, *, size: int | None = None, raw: bool = False) -> str:
    """The schema of the coded table for dpublish: every code is a declared level. `raw`: of the
    table of values, where numbers have their bounds and no bins."""
    lines = [
        "[dataset]",
        f'name = "{table.name}"',
        'neighbours = "add-remove-one"',
        f'target = "{table.target}"',
    ]
    lines += [f"nominal_size = {size}"] if size else []
    for place, (column, count, bound) in enumerate(
        zip(table.columns, table.levels, table.bounds, strict=True)
    ):
        if raw and bound is not None:
            kind = "integer" if table.whole[place] else "real"
            lines += [f'[columns."{column}"]', f'kind = "{kind}"']
            lines += [f"lower = {bound[0]}", f"upper = {bound[1]}"]
            continue
        ordered = bound is not None
        lines += [
            f'[columns."{column}"]',
            f'kind = "{"ordinal" if ordered else "categorical"}"',
            'outside = "drop"',
        ]
        lines.append(f"levels = [{', '.join(str(code) for code in range(count))}]")
    return "\n".join(lines) + "\n"


def frame_of(table: Coded, rows: NDArray[Any]) -> pl.DataFrame:
    return pl.DataFrame({name: rows[:, i].astype(str) for i, name in enumerate(table.columns)})
