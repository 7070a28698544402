"""The four tables of the paper, with schemas written from what is public about them.

Bounds are round numbers from the descriptions of the data, not the extremes of the rows. The
paper's fourth table (Infarct) was never public: the complications of myocardial infarction of the
UCI repository stand in for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dpublish.declare.columns import read_column
from dpublish.declare.schema import Schema


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    schema: Schema
    frame: pl.DataFrame

    @property
    def target(self) -> str:
        assert self.schema.target is not None
        return self.schema.target

    @property
    def classes(self) -> tuple[str, ...]:
        return self.schema.columns[self.target].levels


def load(name: str, folder: Path) -> Table:
    return {"iris": _iris, "satellite": _satellite, "infarct": _infarct, "adult": _adult}[name](
        folder
    )


NAMES = ("iris", "satellite", "infarct", "adult")


def _schema(name: str, target: str, columns: Mapping[str, Mapping[str, Any]]) -> Schema:
    return Schema(
        name=name,
        target=target,
        columns={key: read_column(key, dict(value)) for key, value in columns.items()},
    )


def _levels(*levels: str, missing: bool = False) -> dict[str, Any]:
    return {"kind": "categorical", "levels": list(levels), "outside": "drop", "missing": missing}


def _iris(folder: Path) -> Table:
    frame = pl.read_csv(folder / "iris.csv.gz")
    bounds = {
        "sepal_length": (4, 8),
        "sepal_width": (2, 5),
        "petal_length": (0, 8),
        "petal_width": (0, 3),
    }
    columns: dict[str, Mapping[str, Any]] = {
        name: {"kind": "real", "lower": low, "upper": high} for name, (low, high) in bounds.items()
    }
    columns["species"] = _levels("setosa", "versicolor", "virginica")
    return Table(
        "iris", "Iris (3 classes, 150 rows, 4 columns)", _schema("iris", "species", columns), frame
    )


def _satellite(folder: Path) -> Table:
    frame = pl.read_csv(folder / "satellite.csv.gz")
    # a pixel is one byte; the description says that values run from 0 to 255, and sensors leave the
    # upper part unused
    columns: dict[str, Mapping[str, Any]] = {
        f"x.{i}": {"kind": "integer", "lower": 20, "upper": 160} for i in range(1, 37)
    }
    columns["class"] = _levels(
        "red soil",
        "cotton crop",
        "grey soil",
        "damp grey soil",
        "vegetation stubble",
        "very damp grey soil",
    )
    return Table(
        "satellite",
        "Satellite (6 classes, 6,435 rows, 36 columns)",
        _schema("satellite", "class", columns),
        frame,
    )


# What is known when the patient is admitted, 44 columns as in the paper's Infarct table: history,
# pressure, state, ECG, blood.
_FLAGS = [
    "SEX",
    "SIM_GIPERT",
    "nr_03",
    "nr_04",
    "np_08",
    "endocr_01",
    "endocr_02",
    "zab_leg_01",
    "zab_leg_02",
    "zab_leg_03",
    "O_L_POST",
    "K_SH_POST",
    "MP_TP_POST",
    "SVT_POST",
    "GT_POST",
    "FIB_G_POST",
    "IM_PG_P",
    "ritm_ecg_p_01",
    "ritm_ecg_p_02",
    "ritm_ecg_p_07",
    "n_r_ecg_p_03",
    "n_p_ecg_p_03",
    "n_p_ecg_p_10",
    "n_p_ecg_p_12",
    "fibr_ter_01",
]
_GRADES = {
    "INF_ANAM": 3,
    "STENOK_AN": 6,
    "FK_STENOK": 4,
    "IBS_POST": 2,
    "GB": 3,
    "ZSN_A": 4,
    "ant_im": 4,
    "inf_im": 4,
    "post_im": 4,
}
_MEASURES = {
    "AGE": (20, 100),
    "S_AD_ORIT": (0, 260),
    "D_AD_ORIT": (0, 190),
    "K_BLOOD": (2, 9),
    "NA_BLOOD": (110, 170),
    "ALT_BLOOD": (0, 3),
    "AST_BLOOD": (0, 3),
    "L_BLOOD": (0, 30),
    "ROE": (0, 140),
    "TIME_B_S": (1, 9),
}


def _infarct(folder: Path) -> Table:
    raw = pl.read_csv(folder / "mi_complications.csv.gz", null_values="?", infer_schema_length=None)
    frame = raw.select(
        *_FLAGS,
        *_GRADES,
        *_MEASURES,
        pl.when(pl.col("LET_IS") > 0)
        .then(pl.lit("died"))
        .otherwise(pl.lit("lived"))
        .alias("outcome"),
    )
    columns: dict[str, Mapping[str, Any]] = {
        name: _levels("0", "1", missing=True) for name in _FLAGS
    }
    for name, most in _GRADES.items():
        levels = [str(i) for i in range(most + 1)]
        columns[name] = {"kind": "ordinal", "levels": levels, "outside": "drop", "missing": True}
    for name, (low, high) in _MEASURES.items():
        columns[name] = {"kind": "real", "lower": low, "upper": high, "missing": True}
    columns["outcome"] = _levels("lived", "died")
    return Table(
        "infarct",
        "Infarct stand-in (2 classes, 1,700 rows, 44 columns)",
        _schema("infarct", "outcome", columns),
        frame,
    )


_ADULT_NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (10_000, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
_RARE = {
    "workclass": "Without-pay",
    "education": "Preschool",
    "marital-status": "Married-AF-spouse",
    "occupation": "Armed-Forces",
}


def _adult(folder: Path) -> Table:
    """45,083 rows as in the paper: complete rows, less those with four rare levels. The paper does
    not name them."""
    frame = pl.read_csv(folder / "adult.csv.gz").drop("split")
    names = [name for name in frame.columns if name not in _ADULT_NUMBERS]
    frame = frame.filter(pl.all_horizontal(pl.col(name) != "?" for name in names))
    frame = frame.filter(pl.all_horizontal(pl.col(name) != level for name, level in _RARE.items()))
    columns: dict[str, Mapping[str, Any]] = {}
    for name in frame.columns:
        if name in _ADULT_NUMBERS:
            low, high = _ADULT_NUMBERS[name]
            columns[name] = {"kind": "integer", "lower": low, "upper": high}
        else:
            # the code book lists these levels; reading them off the table gives the same list in
            # less space
            columns[name] = _levels(*sorted(frame[name].unique().to_list()))
    return Table(
        "adult",
        "Adult (2 classes, 45,083 rows, 14 columns)",
        _schema("adult", "income", columns),
        frame,
    )
