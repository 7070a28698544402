"""What the paper measures, on one data set at a time."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.methods.basic_itemsets.mechanism import BasicItemsets
from dpublish.methods.set_partition.mechanism import SetPartition
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.itemsets.intervals import Cells, consistent_weights, generations
from dpublish.releases.itemsets.mining import (
    SANITY_SHARE,
    WeightedSets,
    support_table,
    supports,
    top_itemsets,
    top_of_table,
    top_similarity,
)

from .data import DataSet

BUDGETS = (0.5, 0.75, 1.0, 1.25)
SUBSETS = (20, 40, 60, 80, 100)
FANOUTS = (4, 6, 8, 10, 12, 16)
TOPS = (20, 40, 60, 80, 100)


def release(
    data: DataSet,
    budget: float,
    seed: int,
    *,
    fanout: int = 10,
    basic: str = "",
    plain: bool = False,
    **settings: Any,
) -> WeightedSets:
    """Published itemsets with consistent weights, or with their noisy counts (`plain`).

    `basic`: "signed" keeps negative counts, "as data" drops them, as a data set of copies must.
    """
    method = BasicItemsets(count_share=0) if basic else SetPartition(fanout=fanout, **settings)
    plan = method.plan(data.schema, Cost.pure(Fraction(str(budget))))
    content = method.run(SeededNoise(seed), data.baskets, plan)
    tables = content.tables
    offsets = np.concatenate([[0], np.cumsum(tables["itemsets"]["size"], dtype=np.int64)])
    weights = tables["itemsets"]["count"].astype(np.float64)
    if basic == "as data":
        weights = np.maximum(weights, 0)
    if not plain and not basic:
        parts, sets = (
            Cells(*(tables[t][c] for c in ("parent", "mask", "count", "law")))
            for t in ("partitions", "itemsets")
        )
        weights = consistent_weights(
            parts, sets, generations(parts.parent), float(content.facts["total"]["value"])
        )
    return WeightedSets(offsets, tables["members"]["item"], weights, data.items)


def mined(sets: WeightedSets, number: int, basic: str = "") -> list[tuple[tuple[int, ...], float]]:
    return top_of_table(support_table(sets), number) if basic else top_itemsets(sets, number)


def queries(data: DataSet, percent: int, number: int, seed: int) -> list[tuple[int, ...]]:
    """Itemsets of uniform length up to a share of the longest record, items drawn from the
    universe."""
    rng = np.random.default_rng([seed, percent])
    most = max(1, min(data.items, round(data.longest * percent / 100)))
    return [
        tuple(rng.choice(data.items, size=int(rng.integers(1, most + 1)), replace=False))
        for _ in range(number)
    ]


def errors(truth: np.ndarray, noisy: np.ndarray, records: int) -> float:
    return float((np.abs(noisy - truth) / np.maximum(truth, SANITY_SHARE * records)).mean())


def relative_error(
    data: DataSet, asked: dict[str, list[tuple[int, ...]]], runs: int, budget: float, **how: Any
) -> dict[str, float]:
    records, exact = data.baskets.records, {key: data.truth(list_) for key, list_ in asked.items()}
    sums = dict.fromkeys(asked, 0.0)
    for seed in range(runs):
        sets = release(data, budget, seed, **how)
        for key, list_ in asked.items():
            sums[key] += errors(exact[key], supports(sets, list_), records) / runs
    return sums


def figure3(data: DataSet, runs: int, number: int) -> dict[str, Any]:
    asked = {str(percent): queries(data, percent, number, 1) for percent in SUBSETS}
    out: dict[str, Any] = {
        "DiffPart": {str(b): relative_error(data, asked, runs, b) for b in BUDGETS}
    }
    out["as published"] = {"1.0": relative_error(data, asked, runs, 1.0, plain=True)}
    if data.items <= 20:
        for kind in ("as data", "signed"):
            out[f"Basic {kind}"] = {
                str(b): relative_error(data, asked, runs, b, basic=kind) for b in BUDGETS
            }
    return out


def timed(data: DataSet, fanout: int = 10) -> float:
    """Processor time of the mechanism, the least of three runs after one to warm up."""
    method = SetPartition(fanout=fanout)
    plan = method.plan(data.schema, Cost.pure(1))
    spent = []
    for seed in range(4):
        start = time.process_time()
        method.run(SeededNoise(seed), data.baskets, plan)
        spent.append(time.process_time() - start)
    return min(spent[1:])


def figure4(data: DataSet) -> dict[str, Any]:
    sizes = [data.baskets.records * share // 5 for share in (1, 2, 3, 4, 5)]
    out: dict[str, Any] = {"records": {str(size): timed(data.head(size)) for size in sizes}}
    if data.name == "stm-like":
        shares = [data.items * share // 5 for share in (1, 2, 3, 4, 5)]
        most = data.restricted(shares[0], data.baskets.records).baskets.records
        out["items"] = {str(items): timed(data.restricted(items, most)) for items in shares}
        out["items_records"] = most
    return out


def figure5(data: DataSet, runs: int, number: int) -> dict[str, Any]:
    asked = {"60": queries(data, 60, number, 2)}
    return {
        str(b): {str(f): relative_error(data, asked, runs, b, fanout=f)["60"] for f in FANOUTS}
        for b in BUDGETS
    }


def figure6(data: DataSet, runs: int, number: int, *, fixed: bool = False) -> dict[str, Any]:
    """Queries of up to ten items, or (`fixed`, the paper's words) of ten items each."""
    out: dict[str, Any] = {}
    for items in (200, 400, 600, 800, 1012):
        part = data.restricted(items, data.baskets.records // 4)
        rng = np.random.default_rng(3)
        sizes = [10] * number if fixed else rng.integers(1, 11, size=number)
        asked = {"10": [tuple(rng.choice(items, size=int(n), replace=False)) for n in sizes]}
        out[str(items)] = {str(b): relative_error(part, asked, runs, b)["10"] for b in BUDGETS}
    return out


def figure7(data: DataSet, runs: int, number: int) -> dict[str, Any]:
    asked = {"60": queries(data, 60, number, 4)}
    sizes = [data.baskets.records * share // 5 for share in (1, 2, 3, 4, 5)]
    parts = [data.head(size) for size in sizes]
    return {
        str(size): {str(b): relative_error(part, asked, runs, b)["60"] for b in BUDGETS}
        for size, part in zip(sizes, parts, strict=True)
    }


def similarity(
    data: DataSet, truth: list[Any], runs: int, budget: float, **how: Any
) -> dict[str, float]:
    means = dict.fromkeys(map(str, TOPS), 0.0)
    for seed in range(runs):
        found = mined(release(data, budget, seed, **how), max(TOPS), how.get("basic", ""))
        for top in TOPS:
            means[str(top)] += top_similarity(dict(truth[:top]), dict(found[:top])) / runs
    return means


def figure8(data: DataSet, runs: int) -> dict[str, Any]:
    truth = top_itemsets(data.sets, max(TOPS))
    out: dict[str, Any] = {str(budget): similarity(data, truth, runs, budget) for budget in BUDGETS}
    out["as published, B = 1"] = similarity(data, truth, runs, 1.0, plain=True)
    if data.items <= 20:
        out["Basic signed, B = 1"] = similarity(data, truth, runs, 1.0, basic="signed")
    return out


def sparse(data: DataSet, runs: int) -> dict[str, Any]:
    """What large universes allow at B = 1: how many records repeat at all, and what cutting them
    buys."""
    truth = top_itemsets(data.sets, 100)
    offsets, items = data.baskets.offsets, np.ascontiguousarray(data.baskets.items)
    times = np.array(
        list(Counter(items[a:b].tobytes() for a, b in itertools.pairwise(offsets)).values())
    )
    out: dict[str, Any] = {
        "records": data.baskets.records,
        "items": data.items,
        "mean_size": items.size / data.baskets.records,
        "share_in_sets_of_15_or_more": float(times[times >= 15].sum() / times.sum()),
    }
    for name, most, settings in (
        ("worst case budgets", None, {"typical_items": None}),
        ("default", None, {}),
        *((f"max_items = {most}", most, {"max_items": most}) for most in (1, 2, 3, 4, 6)),
    ):
        cut = data if most is None else data.cut(most)
        rows = []
        for seed in range(runs):
            found, plain = (
                release(cut, 1.0, seed, plain=plain, **settings) for plain in (False, True)
            )
            top = top_itemsets(found, 100)
            rows.append(
                [
                    plain.weights.size,
                    plain.weights.sum() / data.baskets.records,
                    top_similarity(dict(truth[:20]), dict(top[:20])),
                    top_similarity(dict(truth), dict(top)),
                    len(set(dict(top)) & set(dict(truth))),
                ]
            )
        names = ("itemsets", "share_of_records", "top_20", "top_100", "of_the_true_100")
        out[name] = dict(zip(names, map(float, np.mean(rows, axis=0)), strict=True))
    return out
