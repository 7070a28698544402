"""Census and clinical tables that no default was chosen on, in the form of `tables.Table`.

Levels and bounds are those of the code books, or round numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from . import areas
from .tables import GRID, Column, Table, generate

ADULT = {"age": (17, 90), "hours-per-week": (1, 99), "capital-gain": (0, 100_000)}
ADULT |= {"capital-loss": (0, 4500), "education-num": (1, 16)}
ACS = "AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT INDP_CAT EDU DVET DREM DPHY DEYE DEAR"
CLINICAL = {"AGE": (20, 100), "S_AD_ORIT": (0, 260), "D_AD_ORIT": (0, 190), "K_BLOOD": (2, 9)}
CLINICAL |= {"NA_BLOOD": (110, 170), "ALT_BLOOD": (0, 3), "AST_BLOOD": (0, 3)}
CLINICAL |= {"L_BLOOD": (0, 30), "ROE": (0, 140), "S_AD_KBRIG": (0, 260), "D_AD_KBRIG": (0, 190)}


def levels(series: pl.Series) -> Column:
    texts = series.cast(pl.String).fill_null("?")
    known = sorted(texts.unique().to_list())
    return Column(texts.replace_strict(known, list(range(len(known)))).to_numpy(), len(known))


def number(series: pl.Series, low: float, high: float) -> Column:
    """Scaled to [0, 1] by public bounds; what is missing is put in the middle."""
    values = series.cast(pl.Float64, strict=False).fill_null((low + high) / 2).to_numpy()
    return Column(np.clip((values - low) / (high - low), 0, 1))


def load(folder: Path) -> Iterator[Table]:
    for name in ("acs_ma2019", "acs_national2019"):
        raw = pl.read_csv(folder / f"{name}.csv.gz", infer_schema_length=0)
        raw = raw.with_columns((pl.col("AGEP").cast(pl.Int64) // 5).cast(pl.String).alias("AGEP"))
        for target, kept, positive in (
            ("OWN_RENT", pl.col("OWN_RENT").is_in(["1", "2"]), pl.col("OWN_RENT") == "2"),
            ("DREM", pl.col("DREM").is_in(["1", "2"]), pl.col("DREM") == "1"),
        ):
            rows = raw.filter(kept)
            columns = [levels(rows[one]) for one in ACS.split() if one != target]
            labels = rows.select(positive.cast(pl.Int64)).to_series().to_numpy()
            yield Table(f"{name} {target}", tuple(columns), labels)
    adult = pl.read_csv(folder / "adult.csv.gz", infer_schema_length=None)
    names = [one for one in adult.columns if one not in ("income", "split", "fnlwgt")]
    columns = [
        number(adult[one], *ADULT[one]) if one in ADULT else levels(adult[one]) for one in names
    ]
    yield Table("adult", tuple(columns), (adult["income"] == ">50K").cast(pl.Int64).to_numpy())
    clinic = pl.read_csv(
        folder / "mi_complications.csv.gz", null_values="?", infer_schema_length=None
    )
    columns = [
        number(clinic[one], *CLINICAL[one]) if one in CLINICAL else levels(clinic[one])
        for one in clinic.columns[1:112]
    ]
    for target in ("ZSN", "LET_IS"):
        labels = (clinic[target].fill_null(0) > 0).cast(pl.Int64).to_numpy()
        yield Table(f"mi {target}", tuple(columns), labels)
    image = pl.read_csv(folder / "satellite.csv.gz")
    columns = [number(image[one], 0, 160) for one in image.columns[:-1]]
    cotton = (image["class"] == "cotton crop").cast(pl.Int64).to_numpy()
    yield Table("satellite cotton", tuple(columns), cotton)


def clinical() -> Table:
    """A generated stand-in of 267 rows and 44 numbers, drawn with a seed that nothing else has."""
    return generate("generated 267 x 44", 267_044, **GRID["267 x 44 numbers"])


def report(
    tables: Iterable[Table],
    word: str,
    seeds: int,
    epsilon: float,
    *,
    with_joined: bool = False,
    with_both: bool = False,
) -> None:
    import dpublish as dp
    from dpublish.privacy.cost import Cost

    inverses = (1.0, 0.1, 0.01, 0.001)
    print(
        f"epsilon {epsilon:g}, {seeds} splits: mean AUC\n{'':26} projected  classifier     joined"
        f"       both   dpl C=1   dpl best  no privacy  warned"
    )
    for table in tables:
        if word not in table.name:
            continue
        seen = range(seeds)
        ours = [
            np.mean([areas.projected(table, seed, epsilon) for seed in seen]),
            np.mean([areas.classifier(table, seed, epsilon) for seed in seen]),
            np.mean([areas.joined(table, seed, epsilon) for seed in seen])
            if with_joined
            else np.nan,
            np.mean([areas.both(table, seed, epsilon) for seed in seen]) if with_both else np.nan,
        ]
        theirs = []
        for inverse in inverses:
            found = [areas.diffprivlib(table, seed, epsilon, inverse) for seed in seen]
            theirs.append(np.nan if None in found else np.mean(found))  # type: ignore[arg-type]
        open_area = np.mean([areas.no_privacy(table, seed) for seed in seen])
        schema = table.schema(len(table.split(0)[0]))
        warned = [
            name
            for name, method in (("p", dp.ProjectedHistogram()), ("c", dp.PrivateClassifier()))
            if method.plan(schema, Cost.pure(epsilon)).warnings
        ]
        values = [*ours, theirs[0], max(theirs), open_area]
        shown = " ".join(f"{value:10.3f}" for value in values)
        print(f"{table.name:26}{shown}  {'+'.join(warned) or '-'}", flush=True)
