"""How often intervals of regression coefficients from a release hold those of the population.

    python tools/regression_coverage.py --populations 240 --runs 60 --out docs/regression-coverage.md

Rows are drawn from a population whose coefficients are known (from two million rows of it),
published, and the regression is fitted to the release. Two populations: one in which the model of joined histograms holds
(pairs of columns are all there is), and one in which it need not (an interaction that no pair
shows). Beside the bootstrap's intervals stand those of a regression on synthetic rows as if
they were real ones.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp

ROWS = 4_000
EPSILON = 0.5
SCHEMA = f"""
[dataset]
name = "clinic"
neighbours = "replace-one"
size = {ROWS}
[columns.age]
kind = "integer"
lower = 0
upper = 9
[columns.ward]
kind = "categorical"
levels = ["a", "b", "c"]
outside = "drop"
[columns.smoker]
kind = "boolean"
outside = "drop"
[columns.ill]
kind = "boolean"
outside = "drop"
"""
FORMULA = "ill ~ age + ward"
TERMS = ("age", "ward = b", "ward = c")
POPULATIONS = {
    "pairs are all there is": 0.0,
    "an interaction that no pair shows": 1.0,
}


def drawn(seed: int, interaction: float, rows: int = ROWS) -> pl.DataFrame:
    """Rows in which age matters as much in every ward, or (`interaction`) the more in one."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 10, rows)
    ward = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    smoker = rng.random(rows) < 0.5
    score = -2.0 + 0.25 * age + 0.6 * (ward == "b") - 0.4 * (ward == "c")
    score = score + interaction * np.where(ward == "a", 1.0, -1.0) * (age - 4.5) / 4.5
    ill = rng.random(rows) < 1 / (1 + np.exp(-score))
    return pl.DataFrame({"age": age, "ward": ward, "smoker": smoker, "ill": ill})


def release_of(rows: pl.DataFrame, seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clinic.toml"
        path.write_text(SCHEMA, encoding="utf-8")
        curator = dp.Curator(
            rows,
            dp.Schema.read(path),
            ledger=f"sqlite:///{folder}/a.ledger",
            budget=dp.Budget(epsilon=2 * EPSILON),
        )
        return curator.publish(dp.JoinedHistograms(target="ill"), epsilon=EPSILON, seed=seed)


def naive(release: Any, rows: int) -> dict[str, tuple[float, float]]:
    """Intervals of a regression on synthetic rows, as software would print them for real ones."""
    return fitted(release.sample(rows, seed=0))


def fitted(frame: pl.DataFrame) -> dict[str, tuple[float, float]]:
    matrix = np.stack(
        [
            np.ones(frame.height),
            frame["age"].to_numpy(),
            (frame["ward"] == "b").to_numpy(),
            (frame["ward"] == "c").to_numpy(),
        ],
        axis=1,
    ).astype(np.float64)
    target, beta = frame["ill"].to_numpy().astype(np.float64), np.zeros(4)
    for _ in range(25):
        chance = 1 / (1 + np.exp(-(matrix @ beta)))
        bend = (matrix * (chance * (1 - chance))[:, None]).T @ matrix
        beta = beta + np.linalg.solve(bend, matrix.T @ (target - chance))
    error = np.sqrt(np.diag(np.linalg.inv(bend)))
    names = ["(intercept)", *TERMS]
    return {
        name: (beta[k] - 1.96 * error[k], beta[k] + 1.96 * error[k]) for k, name in enumerate(names)
    }


def measured(interaction: float, populations: int, runs: int) -> dict[str, dict[str, float]]:
    truths = {
        name: sum(ends) / 2 for name, ends in fitted(drawn(1, interaction, 2_000_000)).items()
    }
    found: dict[str, list[tuple[bool, float, bool]]] = {name: [] for name in TERMS}
    for seed in range(populations):
        release = release_of(drawn(seed, interaction), seed)
        table = release.regress(FORMULA, runs=runs, seed=seed).table
        plain = naive(release, ROWS)
        for name in TERMS:
            truth = truths[name]
            line = table.filter(pl.col("term") == name).row(0, named=True)
            low, high = plain[name]
            held = line["low"] <= truth <= line["high"]
            found[name].append((held, line["high"] - line["low"], low <= truth <= high))
    return {
        name: {
            "truth": truths[name],
            "coverage": float(np.mean([one[0] for one in lines])),
            "width": float(np.mean([one[1] for one in lines])),
            "naive": float(np.mean([one[2] for one in lines])),
        }
        for name, lines in found.items()
    }


def share(held: float, populations: int) -> str:
    """A share with its standard error; none is stated as exact because all intervals held."""
    near = min(max(held, 0.5 / populations), 1 - 0.5 / populations)
    return f"{held:.0%} ± {math.sqrt(near * (1 - near) / populations):.1%}"


def page(populations: int, runs: int) -> str:
    lines = [
        "# How often intervals of regressions hold",
        "",
        "<!-- written by tools/regression_coverage.py -->",
        "",
        f"`release.regress({FORMULA!r})` of joined histograms (epsilon = {EPSILON}, {ROWS:,} rows, "
        f"target `ill`), {populations} populations each, {runs} bootstrap runs, intervals at 95%. "
        "Beside it: a regression on as many synthetic rows as if they were real ones, whose "
        "intervals know nothing of the noise and of the model. After ±: the standard error of a share.",
        "",
        "| population | term | truth | intervals that hold | mean width | on synthetic rows |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, interaction in POPULATIONS.items():
        for term, one in measured(interaction, populations, runs).items():
            lines.append(
                f"| {name} | `{term}` | {one['truth']:.2f} | {share(one['coverage'], populations)} | "
                f"{one['width']:.2f} | {share(one['naive'], populations)} |"
            )
    lines += [
        "",
        "Treating synthetic rows as real ones gives intervals that are too narrow: use "
        "`bootstrap`, `regress` and the estimates with limits instead. The bootstrap rests on the "
        "model: where columns depend on each other in ways that were not counted, it is as wrong as "
        "the model is, and `regress` warns of pairs that were not counted together. Where fewer "
        "than 95% hold by more than chance explains, take limits at 95% for limits at the least "
        "share of the table.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--populations", type=int, default=240)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = page(given.populations, given.runs)
    if given.out is None:
        print(text)
    else:
        given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
