"""Adult in the coding of the arules package, split by sex as in the paper, and the ACS excerpts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from dpublish.declare.encode import encode_frame
from dpublish.declare.schema import Schema
from dpublish.models.public_rows import PublicSet, encode_public

LABELS = (
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "income",
)
CUTS = {
    "age": [0, 26, 46, 66, 100],
    "hours-per-week": [0, 26, 41, 61, 168],
    "capital-gain": [0, 1, 7299, 99999],
    "capital-loss": [0, 1, 1888, 99999],
}


@dataclass(frozen=True)
class Split:
    """Private codes, public rows, and the answer `truth` on the private ones."""

    schema: Schema
    private: list[np.ndarray]
    public: PublicSet
    frame: pl.DataFrame

    @property
    def size(self) -> int:
        return len(self.private[0])

    def resampled(self, seed: int) -> list[np.ndarray]:
        rows = np.random.default_rng(seed).integers(0, self.size, self.size)
        return [column[rows] for column in self.private]


def adult_schema(frame: pl.DataFrame) -> str:
    """Twelve columns of arules without sex: eleven. Levels are the code book's; '?' is a value of
    its own where it occurs."""
    text = (
        '[dataset]\nname = "adult"\nneighbours = "add-remove-one"\nnominal_size = 21000\n'
        'target = "income"\n'
    )
    for name in LABELS:
        levels = sorted(value for value in frame[name].unique().to_list())
        text += (
            f'[columns."{name}"]\nkind = "categorical"\nlevels = {json.dumps(levels)}\n'
            f'outside = "drop"\n'
        )
    for name, edges in CUTS.items():
        text += f'[columns."{name}"]\nkind = "integer"\nedges = {edges}\noutside = "clip"\n'
    return text


def adult(data: Path, seed: int = 0) -> Split:
    """D: 90 % of men and 10 % of women of the 32,561 rows with a known income. E: the rest."""
    frame = pl.read_csv(data / "adult.csv.gz", infer_schema_length=None).filter(
        pl.col("split") == "train"
    )
    draw = np.random.default_rng(seed).random(frame.height)
    inside = np.where((frame["sex"] == "Male").to_numpy(), draw < 0.9, draw < 0.1)
    schema = Schema.from_toml(adult_schema(frame))
    domain = schema.domain(list(schema.columns))
    private = frame.filter(pl.Series(inside)).select(domain.names)
    public = encode_public(
        "skewed", frame.filter(pl.Series(~inside)).select(domain.names), domain.axes
    )
    return Split(
        schema,
        [np.asarray(codes) for codes in encode_frame(private, domain).codes],
        public,
        private,
    )


def acs(data: Path) -> Split:
    """D: Massachusetts. E: the national excerpt."""
    names = [
        "SEX",
        "MSP",
        "HISP",
        "RAC1P",
        "NOC",
        "HOUSING_TYPE",
        "OWN_RENT",
        "EDU",
        "PINCP_DECILE",
        "DVET",
        "DPHY",
        "DREM",
    ]
    private, public = (
        pl.read_csv(data / f"acs_{name}2019.csv.gz", infer_schema_length=0).select([*names, "AGEP"])
        for name in ("ma", "national")
    )
    text = (
        f'[dataset]\nname = "acs"\nneighbours = "add-remove-one"\nnominal_size = {private.height}\n'
    )
    for name in names:
        levels = sorted(set(private[name].to_list()) | set(public[name].to_list()))
        text += (
            f'[columns.{name}]\nkind = "categorical"\nlevels = {json.dumps(levels)}\noutside '
            f'= "drop"\n'
        )
    text += '[columns.AGEP]\nkind = "integer"\nlower = 0\nupper = 99\nbins = 10\n'
    schema = Schema.from_toml(text)
    domain = schema.domain([*names, "AGEP"])
    return Split(
        schema,
        [np.asarray(codes) for codes in encode_frame(private, domain).codes],
        encode_public("national", public, domain.axes),
        private,
    )
