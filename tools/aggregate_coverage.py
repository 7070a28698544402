"""How often limits of means, sums, shares, ratios, quantiles and differences hold the truth.

    python tools/aggregate_coverage.py --runs 200 --out docs/coverage.md

A population of 3,000 people is generated, in which income depends on sex, age and region, and
illness on age. For every seed it is published by each method, and the questions (the
first twenty were written down before any of this worked) are asked at 95%. The table shows how many of the intervals hold the
truth.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp

ROWS = 3_000
SCHEMA = f"""
[dataset]
name = "survey"
neighbours = "replace-one"
size = {ROWS}
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
[columns.sex]
kind = "categorical"
levels = ["F", "M"]
[columns.income]
kind = "integer"
edges = [0, 10000, 20000, 30000, 45000, 60000, 80000, 120000, 500000]
[columns.region]
kind = "categorical"
levels = ["north", "east", "south", "west"]
outside = "drop"
[columns.ill]
kind = "boolean"
outside = "drop"
"""
METHODS: dict[str, Any] = {
    "histogram": dp.Histogram(columns=["age", "sex", "income"]),
    "joined-histograms": dp.JoinedHistograms(),
    "generalized-table": dp.GeneralizedTable(columns=["age", "sex", "income"]),
    "interval-tree": dp.IntervalTree(columns=["income"]),
}
EPSILON = 4
_EDGES = "edges = [0, 10000, 20000, 30000, 45000, 60000, 80000, 120000, 500000]"
_BOUNDS = "lower = 0\nupper = 499999"
"""An interval tree finds its own bins."""


@dataclass(frozen=True)
class Question:
    """A call of a release, and the truth about the rows."""

    text: str
    ask: Callable[[Any], Any]
    truth: Callable[[pl.DataFrame], float]
    columns: frozenset[str]


def _mean(column: str, where: pl.Expr | None = None) -> Callable[[pl.DataFrame], float]:
    def truth(rows: pl.DataFrame) -> float:
        some = rows if where is None else rows.filter(where)
        return float(some[column].cast(pl.Float64).mean())

    return truth


F, M = pl.col("sex") == "F", pl.col("sex") == "M"


def _quantile(share: float, where: pl.Expr | None = None) -> Callable[[pl.DataFrame], float]:
    def truth(rows: pl.DataFrame) -> float:
        some = (rows if where is None else rows.filter(where))["income"].sort().to_numpy()
        return float(some[int(np.ceil(share * len(some))) - 1])

    return truth


def _q(text: str, truth: Callable[[pl.DataFrame], float], *columns: str) -> Question:
    return Question(text, lambda release: eval(f"release.{text}"), truth, frozenset(columns))


def _sql(text: str, truth: Callable[[pl.DataFrame], float], *columns: str) -> Question:
    def ask(release: Any) -> Any:
        line = release.sql(text, level=0.95).row(0, named=True)
        return dp.Estimate(
            line["m"], 0.0, line["m_low"], line["m_high"], 0.95, note=line.get("m_note") or ""
        )

    return Question(f"sql({text!r})", ask, truth, frozenset(columns))


QUESTIONS = (
    _q("mean('income')", _mean("income"), "income"),
    _q("mean('age')", _mean("age"), "age"),
    _q("mean('income', where=\"sex = 'F'\")", _mean("income", F), "income", "sex"),
    _q("mean('income', where=\"sex = 'M'\")", _mean("income", M), "income", "sex"),
    _q("mean('income', where='age < 35')", _mean("income", pl.col("age") < 35), "income", "age"),
    _q(
        "mean('age', where=\"income between 20000 and 59999\")",
        _mean("age", pl.col("income").is_between(20000, 59999)),
        "income",
        "age",
    ),
    _q("sum('income')", lambda rows: float(rows["income"].sum()), "income"),
    _q(
        "sum('income', where=\"sex = 'F'\")",
        lambda rows: float(rows.filter(F)["income"].sum()),
        "income",
        "sex",
    ),
    _q("share(\"sex = 'F'\")", lambda rows: float((rows["sex"] == "F").mean()), "sex"),
    _q(
        "share('income >= 45000', where=\"sex = 'F'\")",
        lambda rows: float((rows.filter(F)["income"] >= 45000).mean()),
        "income",
        "sex",
    ),
    _q(
        "share('ill', where='age >= 60')",
        lambda rows: float(rows.filter(pl.col("age") >= 60)["ill"].mean()),
        "ill",
        "age",
    ),
    _q(
        "ratio(\"sex = 'F'\", \"sex = 'M'\")",
        lambda rows: rows.filter(F).height / rows.filter(M).height,
        "sex",
    ),
    _q("median('income')", _quantile(0.5), "income"),
    _q("quantile('income', 0.9)", _quantile(0.9), "income"),
    _q("median('income', where=\"sex = 'M'\")", _quantile(0.5, M), "income", "sex"),
    _q(
        "difference('income', \"sex = 'M'\", \"sex = 'F'\")",
        lambda rows: _mean("income", M)(rows) - _mean("income", F)(rows),
        "income",
        "sex",
    ),
    _q(
        "difference('ill', 'age >= 60', 'age < 60')",
        lambda rows: (
            _mean("ill", pl.col("age") >= 60)(rows) - _mean("ill", pl.col("age") < 60)(rows)
        ),
        "ill",
        "age",
    ),
    _q(
        "mean('income / 12', where=\"region = 'north'\")",
        lambda rows: _mean("income", pl.col("region") == "north")(rows) / 12,
        "income",
        "region",
    ),
    _sql(
        "select sex, avg(income) as m from release where sex = 'F' group by sex",
        _mean("income", F),
        "income",
        "sex",
    ),
    _sql(
        "select case when age < 40 then 'young' else 'old' end as k, avg(income) as m from release "
        "group by case when age < 40 then 'young' else 'old' end order by k desc limit 1",
        _mean("income", pl.col("age") < 40),
        "income",
        "age",
    ),
    _sql(
        "select sex, avg(income) as m from release where sex = 'M' group by sex",
        _mean("income", M),
        "income",
        "sex",
    ),
    _sql("select count(*) as m from release", lambda rows: float(rows.height)),
    _sql(
        "select sex, count(*) as m from release where income >= 120000 and sex = 'F' group by sex",
        lambda rows: float(rows.filter(F & (pl.col("income") >= 120_000)).height),
        "income",
        "sex",
    ),
    _q(
        "estimate(\"sex = '(other)'\")",
        lambda rows: float(rows.filter(~F & ~M).height),
        "sex",
    ),
)


def population(seed: int = 7) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6.0, 7.5, ROWS), 0, 99).astype(np.int64)
    sex = rng.choice(["F", "M"], ROWS, p=[0.48, 0.52])
    region = rng.choice(["north", "east", "south", "west"], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    pay = np.exp(10.2 + 0.012 * age + 0.45 * (sex == "M") + 0.2 * (region == "north"))
    income = np.clip(pay * np.exp(rng.normal(0, 0.5, ROWS)), 0, 499_999).astype(np.int64)
    ill = rng.random(ROWS) < 0.05 + 0.004 * age
    return pl.DataFrame({"age": age, "sex": sex, "income": income, "region": region, "ill": ill})


def releases(name: str, rows: pl.DataFrame, runs: int) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        schema = Path(folder) / "survey.toml"
        text = SCHEMA.replace(_EDGES, _BOUNDS) if name == "interval-tree" else SCHEMA
        schema.write_text(text, encoding="utf-8")
        curator = dp.Curator(
            rows,
            dp.Schema.read(schema),
            ledger=f"sqlite:///{folder}/a.ledger",
            budget=dp.Budget(epsilon=EPSILON * (runs + 1)),
        )
        for seed in range(runs):
            yield curator.publish(METHODS[name], epsilon=EPSILON, seed=seed)


def measured(name: str, runs: int) -> dict[str, tuple[int, int, int]]:
    """For every question that the release has the columns for: how many intervals hold the truth,
    how many there are, and how many answers have no limits but a note."""
    rows = population()
    found: dict[str, list[int]] = {}
    for release in releases(name, rows, runs):
        columns = set(getattr(release, "columns", None) or release.domain.names)
        for question in QUESTIONS:
            if not question.columns <= columns:
                continue
            one = question.ask(release)
            counts = found.setdefault(question.text, [0, 0, 0])
            if one.low is None or one.high is None:
                assert one.note, question.text
                counts[2] += 1
                continue
            truth = question.truth(rows)
            assert one.low <= one.value <= one.high, (question.text, one)
            counts[0] += one.low <= truth <= one.high
            counts[1] += 1
    return {text: (held, asked, noted) for text, (held, asked, noted) in found.items()}


def page(runs: int) -> str:
    lines = [
        "# How often limits hold",
        "",
        "<!-- written by tools/aggregate_coverage.py -->",
        "",
        f"{runs} seeded releases of one generated population of {ROWS:,} rows by each method "
        f"(epsilon = {EPSILON}), {len(QUESTIONS)} questions, limits at 95%. Limits that rest on bins or on "
        "columns that were not counted together hold more often than they promise: they allow for "
        "everything that the release cannot tell. `-`: the release has no such column; *note*: no "
        "limits, and a note that says why.",
        "",
    ]
    tables = {name: measured(name, runs) for name in METHODS}
    lines += [f"| question | {' | '.join(METHODS)} |", f"| --- |{' ---: |' * len(METHODS)}"]
    for question in QUESTIONS:
        cells = []
        for name in METHODS:
            held, asked, noted = tables[name].get(question.text, (0, 0, 0))
            cells.append(f"{held / asked:.1%}" if asked else "*note*" if noted else "-")
        shown = question.text.replace("|", "\\|")
        lines.append(f"| `{shown}` | {' | '.join(cells)} |")
    held = sum(one[0] for table in tables.values() for one in table.values())
    asked = sum(one[1] for table in tables.values() for one in table.values())
    lines += ["", f"Together {held:,} of {asked:,} intervals hold ({held / asked:.1%})."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = page(given.runs)
    if given.out is None:
        print(text)
    else:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
