"""When plans of multiplicative weights, of the net and of joined histograms name workload, checked
on generated tables and lists.

    python -m benchmarks.defaults.list_warnings [--cases 60] [--first 0] [--ways NAME ...]

Tables of 2 to 6 columns and 200 to 60,000 rows, epsilon 0.1 to 3; lists of all pairs of columns, or
of random conjunctions. For each the mean error of a query by both, in rows. A warning is right
where workload has the smaller error, and harmful where the method's own is smaller by 5%. Where a
method cannot answer a list, or workload takes that very method, there is no case.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benchmarks.baselines.standing import named
from numpy.typing import NDArray

import dpublish as dp
from dpublish.errors import PlanError
from dpublish.privacy.cost import Cost

WAYS = ("multiplicative-weights", "net", "joined-histograms")
ANSWERS = 60
WORDS = {"list": "take workload, which", "pairs": "workload counts all"}


def table(draw: np.random.Generator) -> tuple[pl.DataFrame, dp.Schema]:
    """Columns that depend on a kind that nobody sees, some more, some less."""
    count, rows = int(draw.choice([2, 2, 3, 4, 6])), int(200 * 300 ** draw.random())
    kind, columns, text = draw.integers(0, 4, rows), {}, ""
    for place in range(count):
        levels = int(draw.integers(2, 9))
        law = draw.dirichlet(np.full(levels, draw.choice([0.3, 1, 5])), 4)
        law = law[0] + draw.random() * (law - law[0])
        upto = law.cumsum(axis=1)
        drawn = (draw.random(rows)[:, None] > upto[kind]).sum(axis=1).clip(0, levels - 1)
        name = f"c{place}"
        columns[name] = [f"v{code}" for code in drawn.tolist()]
        known = json.dumps([f"v{code}" for code in range(levels)])
        text += f'[columns.{name}]\nkind = "categorical"\nlevels = {known}\noutside = "drop"\n'
    head = f'[dataset]\nname = "w"\nneighbours = "replace-one"\nsize = {rows}\n'
    return pl.DataFrame(columns), dp.Schema.from_toml(head + text)


def conjunctions(frame: pl.DataFrame, schema: dp.Schema, draw: np.random.Generator) -> list[str]:
    """Random conjunctions, each of values of one to three columns."""
    out = []
    for _ in range(int(draw.choice([5, 20, 100]))):
        names = draw.choice(frame.columns, min(len(frame.columns), draw.integers(1, 4)), False)
        parts = []
        for name in names.tolist():
            levels = schema.column(name).levels or ()
            some = draw.choice(levels, draw.integers(1, len(levels)), False).tolist()
            parts.append(f"{name} in ({', '.join(repr(one) for one in sorted(some))})")
        out.append(" and ".join(parts))
    return sorted(set(out))


def true_counts(frame: pl.DataFrame, texts: list[str]) -> NDArray[np.float64]:
    with pl.SQLContext(t=frame, eager=True) as context:
        chosen = ", ".join(f"sum(CASE WHEN {text} THEN 1 ELSE 0 END) AS q{i}"
                           for i, text in enumerate(texts))  # fmt: skip
        return context.execute(f"SELECT {chosen} FROM t").to_numpy()[0].astype(float)


def cells(schema: dp.Schema) -> list[str]:
    """All cells of all pairs of columns, as conditions."""
    return [
        f"{a} = {x!r} and {b} = {y!r}"
        for a, b in itertools.combinations(schema.columns, 2)
        for x in schema.column(a).levels or ()
        for y in schema.column(b).levels or ()
    ]


def error(
    frame: pl.DataFrame,
    schema: dp.Schema,
    method: Any,
    epsilon: str,
    texts: list[str],
    truth: NDArray[np.float64],
    seeds: range,
) -> float:
    errors = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            owner = dp.Curator(
                frame,
                schema,
                ledger=Path(folder) / "l",
                budget=dp.Budget(epsilon=epsilon),
                store=Path(folder) / "s",
            )
            release = owner.publish(method, epsilon=epsilon, seed=seed)
        said = np.array([release.estimate(text).value for text in texts])
        errors.append(float(np.abs(said - truth).mean()))
    return float(np.mean(errors))


def case(number: int, runs: int, wanted: list[str]) -> dict[str, Any]:
    draw = np.random.default_rng([25, number])
    frame, schema = table(draw)
    epsilon = str(draw.choice(["1/10", "3/10", "1", "3"]))
    cost = Cost.pure(epsilon)
    pairs = bool(draw.random() < 0.5)
    texts = cells(schema) if pairs else conjunctions(frame, schema, draw)
    queries = "marginals:2" if pairs else "predicates:" + "; ".join(texts)
    truth = true_counts(frame, texts)
    ways: dict[str, Any] = {
        "multiplicative-weights": dp.MultiplicativeWeights(queries=queries),
        "net": dp.Net(queries=queries),
    }
    if pairs:
        ways["joined-histograms"] = dp.JoinedHistograms()
    # a list of few queries needs more runs to tell errors from luck
    runs = max(runs, min(10, ANSWERS // len(texts)))
    seeds = range(100 * number, 100 * number + runs)
    listed = dp.Workload(queries=queries)
    taken = listed.plan(schema, cost).settings.chosen
    out: dict[str, Any] = {
        "case": number,
        "rows": frame.height,
        "columns": len(frame.columns),
        "cells": int(np.prod([len(schema.column(name).levels or ()) for name in frame.columns])),
        "queries": len(texts),
        "pairs": pairs,
        "epsilon": float(cost.epsilon),
        "taken": taken,
        "workload": error(frame, schema, listed, epsilon, texts, truth, seeds),
    }
    for way, method in ways.items():
        if way == taken or way not in wanted:
            continue
        try:
            plan = method.plan(schema, cost)
        except PlanError:
            continue
        own = error(frame, schema, method, epsilon, texts, truth, seeds)
        facts = {
            name: float(value)
            for name in ("rounds", "answer_scale", "error_bound", "points", "resolution")
            if (value := getattr(plan.settings, name, None)) is not None
        }
        facts |= {k: v for k, v in plan.forecast.items() if k in ("direct_scale", "pair_error")}
        out[way] = {"error": own, "warns": bool(named(plan, WORDS)), **facts}
    return out


def tally(found: list[dict[str, Any]]) -> None:
    for way in WAYS:
        cases = [(one[way]["warns"], one[way]["error"], one["workload"])
                 for one in found if way in one]  # fmt: skip
        warned = [(own, other) for warns, own, other in cases if warns]
        silent = [(own, other) for warns, own, other in cases if not warns]
        right = sum(other < own for own, other in warned)
        share = f"{right / len(warned):.0%}" if warned else "none"
        print(
            f"{way}: {len(cases)} cases, {len(warned)} warnings, {right} right ({share}), "
            f"{sum(own < 0.95 * other for own, other in warned)} where it wins by 5%; without a "
            f"warning it is behind in {sum(other < own for own, other in silent)} of {len(silent)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    found = []
    for number in range(given.first, given.first + given.cases):
        with contextlib.redirect_stderr(io.StringIO()):  # every ledger says that it was made
            found.append(case(number, given.runs, given.ways))
        print(json.dumps(found[-1]), flush=True)
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n")
    tally(found)


if __name__ == "__main__":
    main()
