"""Where does a generalised table serve, and are its warnings right? Over made-up tables of 2 to 21
columns: how far off counts of one to three conditions are, beside a histogram of all columns (where
one can be had) and joined histograms, which its plan names.

    python -m benchmarks.defaults.regions [--shapes 40] [--first 0] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp
from dpublish.errors import PlanError
from dpublish.privacy.cost import Cost

from .tables import Table, generate

EPSILONS = (0.3, 1.0, 3.0)
MAX_CELLS = 20_000
"""Histograms of more cells are left out: they are long and far off."""


def shape(number: int) -> dict[str, Any]:
    rng = np.random.default_rng([2011, number])
    columns = int(np.exp(rng.uniform(np.log(2), np.log(21))))
    levels = 2 + np.minimum(rng.geometric(0.35, size=columns) - 1, 15)
    return {
        "rows": int(np.exp(rng.uniform(np.log(300), np.log(30_000)))),
        "levels": tuple(int(one) for one in levels),
        "informative": max(1, int(columns ** rng.uniform(0, 1))),
        "strength": float(rng.uniform(0.5, 3)),
        "base": float(rng.uniform(-2, 0)),
    }


def frame_of(table: Table) -> pl.DataFrame:
    columns = {f"c{i}": one.values.astype(str) for i, one in enumerate(table.columns)}
    return pl.DataFrame({**columns, "y": table.labels.astype(str)})


def error(frame: pl.DataFrame, schema: Any, method: Any, epsilon: float, seed: int) -> float:
    """The mean error of 40 counts, each with one to three conditions that some row fulfils."""
    draw = np.random.default_rng([seed, frame.height])
    with tempfile.TemporaryDirectory() as folder:
        curator = dp.Curator(
            frame, schema, ledger=f"sqlite:///{folder}/ledger", budget=dp.Budget(epsilon=epsilon)
        )
        release: Any = curator.publish(method, epsilon=epsilon, seed=seed)
        errors = []
        for _ in range(40):
            names = draw.choice(frame.columns, min(len(frame.columns), draw.integers(1, 4)), False)
            row = frame.row(int(draw.integers(frame.height)), named=True)
            said = release.estimate(" and ".join(f"{name} = '{row[name]}'" for name in names)).value
            truth = frame.filter(pl.all_horizontal(pl.col(n) == row[n] for n in names)).height
            errors.append(abs(said - truth))
    return float(np.mean(errors))


def measure(number: int, epsilon: float) -> dict[str, Any]:
    table = generate(f"shape {number}", number, **shape(number))
    frame, schema = frame_of(table), table.schema(len(table.labels))
    names = list(schema.columns)
    line: dict[str, Any] = {"shape": number, "epsilon": epsilon}
    for name, method in (
        ("regions", dp.GeneralizedTable(columns=names)),
        ("histogram", dp.Histogram(columns=names)),
        ("joined", dp.JoinedHistograms()),
    ):
        line[name] = None
        if name == "histogram" and math.prod(shape(number)["levels"]) > MAX_CELLS:
            continue
        try:
            line[name] = error(frame, schema, method, epsilon, number)
        except PlanError:
            continue
    return line


def judge(lines: list[dict[str, Any]]) -> None:
    """A warning, or a refusal of unnamed columns, is right where the method that it names does as
    well or better; where none is named there is nothing to compare with."""
    kinds: dict[str, list[float]] = {"warned": [], "refused": [], "none named": []}
    for line in lines:
        made = shape(line["shape"])
        schema = generate("shape", 0, **{**made, "rows": 10}).schema(made["rows"])
        cost = Cost.pure(line["epsilon"])
        plan = dp.GeneralizedTable(columns=list(schema.columns)).plan(schema, cost)
        kind, text = "warned", " ".join(plan.warnings)
        try:
            dp.GeneralizedTable().plan(schema, cost)
        except PlanError as refusal:
            kind, text = "refused", str(refusal)
        named = "joined" if "joined-histograms" in text else "histogram"
        kind = kind if "histogram" in text else "none named"
        kinds[kind].append((line[named] or line["joined"]) / line["regions"])
    for kind, found in kinds.items():
        if found:
            ratios = np.array(found)
            print(
                f"{kind}: {len(found)} tables, the other is as good or better in "
                f"{np.mean(ratios <= 1):.0%}, regions win by 5% in {np.sum(ratios > 1.05)}; error "
                f"of the other over theirs {np.min(ratios):.2f}, median {np.median(ratios):.2f}, "
                f"{np.max(ratios):.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = []
    for number in range(given.first, given.first + given.shapes):
        lines.append(measure(number, EPSILONS[number % len(EPSILONS)]))
        print(json.dumps(lines[-1]), flush=True)
    if given.out is not None:
        given.out.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    judge(lines)


if __name__ == "__main__":
    main()
