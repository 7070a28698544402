"""Baskets: what plans of frequent-itemsets, set-partition and basic-itemsets name."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.baselines.baskets import error, released
from benchmarks.defaults.alternatives.common import Case, Sentence, log_uniform, says
from benchmarks.defaults.baskets import Truth, generated, schema_of

from dpublish.methods.basic_itemsets.mechanism import BasicItemsets
from dpublish.methods.frequent_itemsets.mechanism import FrequentItemsets
from dpublish.methods.set_partition.mechanism import SetPartition
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.privacy.cost import Cost

EPSILONS = ("3/10", "1", "3")


def table(
    draw: np.random.Generator, least: int, most: int, rows: tuple[int, int] = (1_000, 30_000)
) -> tuple[Baskets, int]:
    """Baskets over `least` to `most` items; of `rows`, the fewest and the most."""
    items = int(log_uniform(draw, least, most + 1))
    baskets = generated(
        n=int(log_uniform(draw, *rows)),
        d=items,
        mean=min(log_uniform(draw, 1.5, 8), 1 + items / 4),
        tail=float(draw.uniform(0.5, 1.0)),
        zipf=float(draw.uniform(0.7, 1.3)),
        habits=float(draw.uniform(0, 0.6)),
        lengths=str(draw.choice(["lognormal", "geometric", "heavy"])),
        seed=int(draw.integers(1 << 30)),
    )
    return baskets, items


def item_error(
    method: Any, baskets: Baskets, items: int, truth: Truth, cost: Cost, seed: int
) -> float:
    """Mean error of the counts of the (up to 100) most frequent items."""
    counts = released(method, baskets, items, cost, seed).item_counts(top=items)
    values = np.zeros(items)
    values[[int(name) for name in counts["item"]]] = counts["count"].to_numpy()
    return error(values, truth)


def missed_pairs(
    method: Any, baskets: Baskets, items: int, truth: Truth, cost: Cost, seed: int
) -> float:
    """How many of the (up to 50) most frequent pairs are not among the 50 that are found."""
    found = released(method, baskets, items, cost, seed).top_itemsets(50, min_size=2, max_size=2)
    pairs = {frozenset(map(int, pair)) for pair in found["items"].to_list()}
    return float(len(set(truth.pairs) - pairs))


def items_case(
    method: Any,
    other: Any,
    words: str,
    least: int,
    most: int,
    draw: np.random.Generator,
    rows: tuple[int, int] = (1_000, 30_000),
) -> Case:
    cost = Cost.pure(str(draw.choice(EPSILONS)))
    baskets, items = table(draw, least, most, rows)
    truth = Truth(baskets, items)

    def errors(seed: int) -> tuple[float, float]:
        own, named = (item_error(one, baskets, items, truth, cost, seed) for one in (method, other))
        return own, named

    plan = method.plan(schema_of(items, baskets.records), cost)
    facts = {"items": items, "baskets": baskets.records, "epsilon": float(cost.epsilon)}
    if "item_error_without_pairs" in plan.forecast:
        said = plan.forecast
        facts["forecast"] = round(said["item_error"] / said["item_error_without_pairs"], 3)
    return Case(warned=says(plan, words), errors=errors, facts=facts)


def pairs_case(draw: np.random.Generator) -> Case:
    """A delta, for pairs that are lost in noise."""
    epsilon = str(draw.choice(EPSILONS))
    baskets, items = table(draw, 30, 300)
    truth, method = Truth(baskets, items), FrequentItemsets()
    pure, delta = Cost.pure(epsilon), Cost.approximate(epsilon, "1e-9")

    def errors(seed: int) -> tuple[float, float]:
        own, named = (
            missed_pairs(method, baskets, items, truth, cost, seed) for cost in (pure, delta)
        )
        return own, named

    plan = method.plan(schema_of(items, baskets.records), pure)
    facts = {"items": items, "baskets": baskets.records, "epsilon": float(pure.epsilon)}
    return Case(warned=says(plan, "pairs are lost in noise"), errors=errors, facts=facts)


def _alone(draw: np.random.Generator) -> Case:
    return items_case(
        FrequentItemsets(), FrequentItemsets(pairs=0), "pairs = 0 brings", 3, 400, draw
    )


def _many(draw: np.random.Generator) -> Case:
    """Where pairs cost little: their share shrinks as baskets become many."""
    rows = (30_000, 400_000)
    return items_case(
        FrequentItemsets(), FrequentItemsets(pairs=0), "pairs = 0 brings", 3, 20, draw, rows
    )


def _partition(draw: np.random.Generator) -> Case:
    return items_case(
        SetPartition(), FrequentItemsets(), "errors from frequent-itemsets", 3, 60, draw
    )


def _basic(draw: np.random.Generator) -> Case:
    return items_case(
        BasicItemsets(), FrequentItemsets(), "errors from frequent-itemsets", 3, 14, draw
    )


SENTENCES = (
    Sentence(
        method="frequent-itemsets", names="pairs = 0 for counts of items", case=_alone, cases=24
    ),
    Sentence(
        method="frequent-itemsets",
        names="pairs = 0, many baskets of few items",
        case=_many,
        cases=16,
        most=8,
    ),
    Sentence(method="frequent-itemsets", names="a delta for pairs", case=pairs_case, cases=12),
    Sentence(method="set-partition", names="frequent-itemsets", case=_partition, cases=16),
    Sentence(method="basic-itemsets", names="frequent-itemsets", case=_basic, cases=20, again=1),
)
