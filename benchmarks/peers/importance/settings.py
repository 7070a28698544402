"""Two codings of Adult with 5,000 public rows that are three times as likely to be women's and half
as likely to be rich."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks" / "peers" / "joined")]

from benchmarks.papers.ji_elkan2013.data import adult_schema  # noqa: E402
from coded import coded, frame_of, schema_text  # noqa: E402

from dpublish.declare.encode import encode_frame  # noqa: E402
from dpublish.declare.schema import Schema  # noqa: E402

PUBLIC = 5_000
SPLIT = 2026
"""Which rows are public. Another number than the one that an earlier rule of the fit was chosen
on."""
SETTINGS = ("12 columns", "15 columns")


@dataclass(frozen=True)
class Setting:
    """Public rows as a frame, and the codes of all three parts of the table."""

    schema: Schema
    public: pl.DataFrame
    private_codes: list[NDArray[np.int64]]
    public_codes: list[NDArray[np.int64]]
    test_codes: list[NDArray[np.int64]]

    @property
    def names(self) -> list[str]:
        return list(self.schema.columns)

    @property
    def sizes(self) -> list[int]:
        return [axis.cardinality for axis in self.schema.domain(self.names).axes]


def setting(name: str, data: Path) -> Setting:
    """12 columns: the levels of the Ji and Elkan figures and sex. 15 columns: all, the numbers in
    32 bins, as in ../joined."""
    rng = np.random.default_rng(SPLIT)
    if name == "12 columns":
        frame = pl.read_csv(data / "adult.csv.gz", infer_schema_length=None)
        public = _biased(frame["sex"] == "Female", frame["income"] == ">50K", rng)
        rest = np.setdiff1d(np.arange(frame.height), public)
        test = rng.choice(rest, 8_000, replace=False)
        private = np.setdiff1d(rest, test)
        text = adult_schema(frame).replace("21000", str(len(private)))
        text += (
            '\n[columns.sex]\nkind = "categorical"\nlevels = ["Female", "Male"]\noutside = "drop"\n'
        )
        return _made(Schema.from_toml(text), frame[private], frame[public], frame[test])
    table = coded("adult", data)
    train, held = frame_of(table, table.train), frame_of(table, table.test)
    public = _biased(train["sex"] == "0", train["income"] == "1", rng)
    private = np.setdiff1d(np.arange(train.height), public)
    schema = Schema.from_toml(schema_text(table, size=len(private)))
    return _made(schema, train[private], train[public], held)


def _biased(women: pl.Series, rich: pl.Series, rng: np.random.Generator) -> NDArray[np.int64]:
    odds = np.where(women.to_numpy(), 3.0, 1.0) * np.where(rich.to_numpy(), 0.5, 1.0)
    return rng.choice(len(odds), PUBLIC, replace=False, p=odds / odds.sum())


def _made(
    schema: Schema, private: pl.DataFrame, public: pl.DataFrame, test: pl.DataFrame
) -> Setting:
    names = list(schema.columns)
    domain = schema.domain(names)

    def codes(frame: pl.DataFrame) -> list[NDArray[np.int64]]:
        return [
            np.asarray(column).astype(np.int64)
            for column in encode_frame(frame.select(names), domain).codes
        ]

    return Setting(schema, public, codes(private), codes(public), codes(test))


def tables_of(
    codes: Sequence[NDArray[np.int64]], sizes: Sequence[int], axes: Sequence[int]
) -> NDArray[np.int64]:
    """Counts of the table over `axes`, flat."""
    cells = np.zeros(len(codes[0]), dtype=np.int64)
    for place in axes:
        cells = cells * sizes[place] + codes[place]
    return np.bincount(cells, minlength=int(np.prod([sizes[place] for place in axes])))
