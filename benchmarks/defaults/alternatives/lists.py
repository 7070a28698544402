"""Lists of queries: when plans of multiplicative weights, of the net and of joined histograms name
workload. Where workload takes that very method there is no case, but for long lists, where the next
best of its ways stands for it."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import numpy as np
import polars as pl
from benchmarks.defaults.alternatives.common import Case, Sentence, log_uniform, published, says
from numpy.typing import NDArray

import dpublish as dp
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

EPSILONS = ("1/10", "3/10", "1", "3")
LONG = (200, 500)
"""Queries of lists that noise of its own for each makes too noisy."""


def table(
    draw: np.random.Generator, count: int, largest: int = 8
) -> tuple[pl.DataFrame, dp.Schema]:
    """200 to 20,000 rows; columns depend on a kind that nobody sees, some more, some less."""
    rows = int(log_uniform(draw, 200, 20_000))
    kind, columns, text = draw.integers(0, 4, rows), {}, ""
    for place in range(count):
        levels = int(draw.integers(2, largest + 1))
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


def conjunctions(
    frame: pl.DataFrame, schema: dp.Schema, draw: np.random.Generator, sizes: tuple[int, ...]
) -> list[str]:
    """Random conjunctions, each of values of one to three columns."""
    out = []
    for _ in range(int(draw.choice(sizes))):
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
        chosen = ", ".join(
            f"sum(CASE WHEN {text} THEN 1 ELSE 0 END) AS q{i}" for i, text in enumerate(texts)
        )
        return context.execute(f"SELECT {chosen} FROM t").to_numpy()[0].astype(float)


def pair_error(frame: pl.DataFrame, release: Any, names: list[str]) -> float:
    """Mean error of all cells of all pairs of some columns."""
    errors = []
    for pair in itertools.combinations(names, 2):
        said = release.marginal(*pair)
        truth = {(a, b): n for a, b, n in frame.group_by(pair).len().iter_rows()}
        errors += [
            abs(count - truth.get((a, b), 0))
            for a, b, count in said.select(said.columns[:3]).iter_rows()
        ]
    return float(np.mean(errors))


def list_case(
    way: str, draw: np.random.Generator, sizes: tuple[int, ...] = (5, 20, 60)
) -> Case | None:
    """All pairs of columns, or so many random conjunctions. Where workload takes that very way, and
    lists are long, the next best is what is left to name."""
    count = int(draw.choice([2, 3, 4])) if way == "multiplicative-weights" else 2
    frame, schema = table(draw, count, 8 if way == "multiplicative-weights" else 4)
    cost, pairs = Cost.pure(str(draw.choice(EPSILONS))), bool(draw.random() < 0.5)
    texts = [] if pairs else conjunctions(frame, schema, draw, sizes)
    queries = "marginals:2" if pairs else "predicates:" + "; ".join(texts)
    truth = None if pairs else true_counts(frame, texts)
    method: Any = dp.Net(queries=queries)
    if way == "multiplicative-weights":
        method = dp.MultiplicativeWeights(queries=queries)
    listed = dp.Workload(queries=queries)
    planned = listed.plan(schema, cost)
    chosen = planned.settings.chosen
    if chosen == way:
        if sizes != LONG:
            return None
        others = dict(planned.forecast["expected_errors"])
        del others[way]
        listed = dp.Workload(queries=queries, answer=min(others, key=lambda name: others[name]))

    def errors(seed: int) -> tuple[float, float]:
        found = []
        for one in (method, listed):
            release = published(one, schema, cost, frame, seed)
            if truth is None:
                found.append(pair_error(frame, release, frame.columns))
            else:
                said = np.array([release.estimate(text).value for text in texts])
                found.append(float(np.abs(said - truth).mean()))
        return found[0], found[1]

    plan = method.plan(schema, cost)
    facts = {
        "rows": frame.height,
        "columns": count,
        "queries": len(texts) or "pairs",
        "epsilon": float(cost.epsilon),
        "workload": chosen,
    }
    return Case(warned=says(plan, "take workload, which"), errors=errors, facts=facts)


def told_pairs(plan: Plan[Any], columns: int) -> int:
    """Up to how many pairs a plan of joined histograms names workload for."""
    if says(plan, "pairs of columns are all that is asked for, take workload"):
        some = re.search(r"at most ([\d,]+) pairs of columns are all", " ".join(plan.sentences))
        every = columns * (columns - 1) // 2
        return every if some is None else int(some[1].replace(",", ""))
    return 0


def joined_case(draw: np.random.Generator) -> Case:
    """Pairs of some of the columns, or of all, from joined histograms of all columns."""
    count = int(draw.choice([3, 4, 6, 8]))
    frame, schema = table(draw, count)
    asked = frame.columns[: int(draw.integers(2, count + 1))]
    cost = Cost.pure(str(draw.choice(EPSILONS)))
    method, listed = dp.JoinedHistograms(), dp.Workload(columns=asked)

    def errors(seed: int) -> tuple[float, float]:
        own, other = (
            pair_error(frame, published(one, schema, cost, frame, seed), asked)
            for one in (method, listed)
        )
        return own, other

    pairs, plan = len(asked) * (len(asked) - 1) // 2, method.plan(schema, cost)
    facts = {
        "rows": frame.height,
        "columns": count,
        "pairs": pairs,
        "told": told_pairs(plan, count),
        "epsilon": float(cost.epsilon),
    }
    return Case(warned=pairs <= facts["told"], errors=errors, facts=facts)


def _weights(draw: np.random.Generator) -> Case | None:
    return list_case("multiplicative-weights", draw)


def _long(draw: np.random.Generator) -> Case | None:
    return list_case("multiplicative-weights", draw, LONG)


def _net(draw: np.random.Generator) -> Case | None:
    return list_case("net", draw)


SENTENCES = (
    Sentence(method="multiplicative-weights", names="workload", case=_weights, cases=24),
    Sentence(method="net", names="workload", case=_net, cases=8, least=3, most=6),
    Sentence(
        method="multiplicative-weights",
        names="workload, long lists",
        case=_long,
        cases=12,
        least=3,
        most=4,
    ),
    Sentence(method="joined-histograms", names="workload for pairs", case=joined_case, cases=24),
)
