"""Query lists and linear conditions beside the obvious alternatives, in the same run.

    python -m benchmarks.baselines.queries [--data DIR] [--runs 10] [--json FILE]

Lists: mean error of all cells of pairs of four columns, and of a table of 2 x 2, through
`workload`, beside Laplace noise on the marginals and multiplicative weights. Linear conditions:
20 halfspaces a run over two and three columns through `halfspaces`, beside its sectors, joined
histograms and rows of an interval tree at the same epsilon. `DIR` holds adult.csv.gz; else the
table is generated.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import logging
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benchmarks.baselines.standing import figures, named

import dpublish as dp

WORDS = ("sex", "race", "income", "relationship")
NUMBERS = {"age": (17, 90), "hours-per-week": (1, 99), "education-num": (1, 16)}
Row = dict[str, Any]
COVERS = ("workload", "multiplicative-weights", "net", "halfspaces")


def table(data: Path | None) -> pl.DataFrame:
    if data is not None:
        read = pl.read_csv(data / "adult.csv.gz", infer_schema_length=None)
        return read.select(*WORDS, *NUMBERS)
    draw = np.random.default_rng(11)
    size, kind = 40_000, draw.choice(3, 40_000, p=[0.6, 0.3, 0.1])
    words = {
        name: [
            f"{name}{(int(k) + int(extra)) % levels}" for k, extra in zip(kind, noise, strict=True)
        ]
        for name, levels in zip(WORDS, (2, 5, 2, 6), strict=True)
        for noise in [draw.geometric(0.6, size) - 1]
    }
    middle = {"age": 38, "hours-per-week": 40, "education-num": 10}
    numbers = {
        name: np.clip(draw.normal(middle[name] + 3 * kind, (high - low) / 7), low, high).astype(int)
        for name, (low, high) in NUMBERS.items()
    }
    return pl.DataFrame({**words, **numbers})


def schema_of(frame: pl.DataFrame) -> dp.Schema:
    levels = {name: sorted(frame[name].unique().to_list()) for name in WORDS}
    columns = "".join(
        f'[columns.{name}]\nkind = "categorical"\nlevels = {json.dumps(found)}\n'
        for name, found in levels.items()
    )
    columns += "".join(
        f'[columns.{name}]\nkind = "integer"\nlower = {low}\nupper = {high}\n'
        for name, (low, high) in NUMBERS.items()
    )
    return dp.Schema.from_toml(
        f'[dataset]\nname = "b"\nneighbours = "replace-one"\nsize = {frame.height}\n{columns}'
    )


def publish(frame: pl.DataFrame, method: Any, seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        budget = dp.Budget(epsilon=1)
        owner = dp.Curator(
            frame,
            schema_of(frame),
            ledger=Path(folder) / "l",
            budget=budget,
            store=Path(folder) / "s",
        )
        return owner.publish(method, epsilon=1, seed=seed)


def cell_error(frame: pl.DataFrame, release: Any, names: tuple[str, ...]) -> float:
    """Of all cells of declared levels of all pairs of columns."""
    errors = []
    for pair in itertools.combinations(names, 2):
        said = release.marginal(*pair)
        truth = {(a, b): n for a, b, n in frame.group_by(pair).len().iter_rows()}
        declared = [set(frame[name].unique()) for name in pair]
        errors += [
            abs(count - truth.get((a, b), 0))
            for a, b, count in said.select(said.columns[:3]).iter_rows()
            if a in declared[0] and b in declared[1]
        ]
    return float(np.mean(errors))


def lists(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    for names in (WORDS, ("sex", "income")):
        ways = {
            "default": dp.Workload(columns=names),
            "measured directly": dp.Workload(columns=names, answer="direct"),
            "multiplicative weights": dp.MultiplicativeWeights(columns=names),
        }
        if len(names) == 2:
            ways["net"] = dp.Net(columns=names)
        pairs = len(list(itertools.combinations(names, 2)))
        found: dict[str, list[float]] = {}
        told: dict[str, list[str]] = {}
        for what, method in ways.items():
            number = runs * (4 if pairs == 1 else 1) if what == "default" else min(runs, 3)
            releases = [publish(frame, method, seed) for seed in range(number)]
            found[what] = [cell_error(frame, release, names) for release in releases]
            told[what] = named(releases[0], {"workload": "take workload"})
        # one row is exchanged in each of the marginals: a scale of two times their number
        p = math.exp(-1 / (2 * pairs))
        plain = {"Laplace on the marginals": round(2 * p / (1 - p * p), 2)}
        task = f"pairs of {len(names)} columns: rows a cell is off, "
        yield computed(f"{task}workload", "workload", found, plain)
        for what in ("multiplicative weights", "net"):
            if what in found:
                name = what.replace(" ", "-")
                own = {"default": found[what], "workload": found["default"]}
                row = computed(f"{task}{name} by name", name, own, plain)
                yield {**row, "named": told[what]}


def computed(task: str, method: str, found: dict[str, list[float]], plain: dict[str, float]) -> Row:
    """A row of measured figures beside computed ones."""
    row = {"task": task, "methods": [method], **figures(found), **plain}
    return {**row, "runs": {**row["runs"], **dict.fromkeys(plain, 0)}}


def halfspaces(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    for names in (("age", "hours-per-week"), tuple(NUMBERS)):
        values = frame.select(names).to_numpy().astype(float)
        draw = np.random.default_rng(0)
        found: dict[str, list[float]] = {}
        for seed in range(min(runs, 10)):
            tree = publish(frame, dp.Halfspaces(columns=names), seed)
            joined = publish(frame, dp.Halfspaces(columns=names, by="joined"), seed)
            sectors = publish(frame, dp.Halfspaces(columns=names, by="sectors"), seed)
            rows = publish(frame, dp.IntervalTree(columns=names), seed).sample(len(values), seed=1)
            drawn = rows.select(names).to_numpy().astype(float)
            run: dict[str, list[float]] = {}
            for _ in range(20):
                weights = np.round(draw.normal(size=len(names)) / values.std(axis=0), 6)
                bound = round(float(weights @ values[draw.integers(len(values))]), 6)
                terms = (f'({w:.6f}) * "{n}"' for w, n in zip(weights, names, strict=True))
                text = f"{' + '.join(terms)} >= {bound:.6f}"
                truth = float((values @ weights >= bound - 1e-9).sum())
                said = {
                    "default": tree.estimate(text).value,
                    "sectors": sectors.estimate(text).value,
                    "joined histograms": joined.estimate(text).value,
                    "synthetic rows of a tree": float((drawn @ weights >= bound - 1e-9).sum()),
                }
                for what, value in said.items():
                    run.setdefault(what, []).append(abs(value - truth))
            for what, errors in run.items():
                found.setdefault(what, []).append(float(np.mean(errors)))
        yield {
            "task": f"halfspaces over {len(names)} columns: rows a count is off",
            "methods": ["halfspaces"],
            "named": named(tree, {"joined histograms": "by = 'joined' is"}),
            **figures(found),
        }


def command(words: str | None, tasks: Callable[[argparse.Namespace], Iterable[Any]]) -> None:
    """The command line of a module: tasks that give rows, each for a number of runs."""
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=words)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    with contextlib.redirect_stderr(io.StringIO()):  # every ledger says that it was made
        for task in tasks(given):
            for row in task(given.runs):
                rows.append(row)
                print(row, flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    command(
        __doc__,
        lambda given: [
            lambda runs, task=task: task(table(given.data), runs) for task in (lists, halfspaces)
        ],
    )


if __name__ == "__main__":
    main()
