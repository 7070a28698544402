"""Adult in the coding of the arules package, split by sex as in the paper, and the ACS excerpts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
CUTS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "age": ((26, 46, 66), ("Young", "Middle-aged", "Senior", "Old")),
    "hours-per-week": ((26, 41, 61), ("Part-time", "Full-time", "Over-time", "Workaholic")),
    "capital-gain": ((1, 7299), ("None", "Low", "High")),
    "capital-loss": ((1, 1888), ("None", "Low", "High")),
}
"""Where arules cuts numbers, and what it calls the parts: binary items, as in the paper."""


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


def adult_schema(levels: Mapping[str, Sequence[str]]) -> Schema:
    """Twelve columns of arules without sex: eleven. Levels are the code book's; '?' is a value of
    its own where it occurs."""
    text = (
        '[dataset]\nname = "adult"\nneighbours = "add-remove-one"\nnominal_size = 21000\n'
        'target = "income"\n'
    )
    for name, own in levels.items():
        text += (
            f'[columns."{name}"]\nkind = "categorical"\nlevels = {json.dumps(list(own))}\n'
            f'outside = "drop"\n'
        )
    return Schema.from_toml(text)


def adult(data: Path, seed: int = 0) -> Split:
    """D: 90 % of men and 10 % of women of the 32,561 rows with a known income. E: the rest."""
    frame = pl.read_csv(data / "adult.csv.gz", infer_schema_length=None).filter(
        pl.col("split") == "train"
    )
    draw = np.random.default_rng(seed).random(frame.height)
    inside = np.where((frame["sex"] == "Male").to_numpy(), draw < 0.9, draw < 0.1)
    frame = frame.with_columns(
        pl.Series(name, np.array(words)[np.searchsorted(cuts, frame[name], side="right")])
        for name, (cuts, words) in CUTS.items()
    )
    levels = {name: sorted(frame[name].unique().to_list()) for name in LABELS}
    levels |= {name: list(words) for name, (_, words) in CUTS.items()}
    return divided(adult_schema(levels), frame, inside)


def made_up(rows: int = 900, seed: int = 0) -> Split:
    """A small table with three of the columns and an income that follows from them, divided
    unevenly: what a test makes again, since Adult does not come with the sources."""
    rng = np.random.default_rng([2013, seed])
    levels = {"education": list("abcdef"), "occupation": list("abcde"), "hours-per-week": CUTS[
        "hours-per-week"][1], "income": ("<=50K", ">50K")}  # fmt: skip
    hidden = rng.normal(size=rows)
    columns = {
        name: np.clip((hidden + rng.normal(size=rows) + 2) / 4 * len(own), 0, len(own) - 1)
        for name, own in levels.items()
    }
    columns["income"] = (hidden + 0.5 * rng.normal(size=rows) > 0.8).astype(np.float64)
    frame = pl.DataFrame(
        {name: np.array(own)[columns[name].astype(np.int64)] for name, own in levels.items()}
    )
    return divided(adult_schema(levels), frame, rng.random(rows) < 1 / (1 + np.exp(-hidden)))


def divided(schema: Schema, frame: pl.DataFrame, inside: np.ndarray) -> Split:
    """The rows `inside` as private ones, the others as public ones."""
    domain = schema.domain(list(schema.columns))
    private = frame.filter(pl.Series(inside)).select(domain.names)
    public = frame.filter(pl.Series(~inside)).select(domain.names)
    return Split(
        schema,
        [np.asarray(codes) for codes in encode_frame(private, domain).codes],
        encode_public("skewed", public, domain.axes),
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
