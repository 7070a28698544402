"""What the paper measures, on one data set at a time."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.cost import Cost
from dpublish.mechanisms.sets.basic_itemsets import BasicItemsets
from dpublish.mechanisms.sets.set_partition import SetPartition
from dpublish.noise.source import SeededNoise
from dpublish.public.mining import WeightedSets, top_itemsets
from dpublish.public.set_consistency import consistent_weights
from dpublish.public.set_intervals import Cells, generations
from dpublish.public.set_metrics import SANITY_SHARE, top_similarity

from .data import DataSet

BUDGETS = (0.5, 0.75, 1.0, 1.25)
SUBSETS = (20, 40, 60, 80, 100)
FANOUTS = (4, 6, 8, 10, 12, 16)
TOPS = (20, 40, 60, 80, 100)


def release(
    data: DataSet, budget: float, seed: int, *, fanout: int = 10, basic: str = "", plain: bool = False, **settings: Any
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
        parts, sets = (Cells(*(tables[t][c] for c in ("parent", "mask", "count", "law"))) for t in ("partitions", "itemsets"))
        weights = consistent_weights(parts, sets, generations(parts.parent), float(content.facts["total"]["value"]))
    return WeightedSets(offsets, tables["members"]["item"], weights, data.items)


def queries(data: DataSet, percent: int, number: int, seed: int) -> list[tuple[int, ...]]:
    """Itemsets of uniform length up to a share of the longest record, items drawn from the universe."""
    rng = np.random.default_rng([seed, percent])
    most = max(1, min(data.items, round(data.longest * percent / 100)))
    return [tuple(rng.choice(data.items, size=int(rng.integers(1, most + 1)), replace=False)) for _ in range(number)]


def supports(sets: WeightedSets, asked: list[tuple[int, ...]]) -> np.ndarray:
    if sets.items <= 20:  # all supports at once: sums over supersets
        masks = np.zeros(sets.offsets.size - 1, dtype=np.int64)
        rows = np.repeat(np.arange(masks.size), np.diff(sets.offsets))
        np.bitwise_or.at(masks, rows, 1 << sets.members.astype(np.int64))
        table = np.bincount(masks, weights=sets.weights, minlength=1 << sets.items)
        for bit in range(sets.items):
            view = table.reshape(-1, 2, 1 << bit)
            view[:, 0] += view[:, 1]
        return table[[sum(1 << int(item) for item in query) for query in asked]]
    out = np.zeros(len(asked))
    for place, query in enumerate(asked):
        ordered = sorted(query, key=lambda item: sets.holders(item).size)
        rows = sets.holders(ordered[0])
        for item in ordered[1:]:
            if rows.size == 0:
                break
            rows = np.intersect1d(rows, sets.holders(item), assume_unique=True)
        out[place] = sets.weights[rows].sum()
    return out


def errors(truth: np.ndarray, noisy: np.ndarray, records: int) -> float:
    return float((np.abs(noisy - truth) / np.maximum(truth, SANITY_SHARE * records)).mean())


def relative_error(
    data: DataSet, asked: dict[str, list[tuple[int, ...]]], runs: int, budget: float, **how: Any
) -> dict[str, float]:
    records, exact = data.baskets.records, {key: supports(data.sets, list_) for key, list_ in asked.items()}
    sums = dict.fromkeys(asked, 0.0)
    for seed in range(runs):
        sets = release(data, budget, seed, **how)
        for key, list_ in asked.items():
            sums[key] += errors(exact[key], supports(sets, list_), records) / runs
    return sums


def figure3(data: DataSet, runs: int, number: int) -> dict[str, Any]:
    asked = {str(percent): queries(data, percent, number, 1) for percent in SUBSETS}
    out: dict[str, Any] = {"DiffPart": {str(b): relative_error(data, asked, runs, b) for b in BUDGETS}}
    out["as published"] = {"1.0": relative_error(data, asked, runs, 1.0, plain=True)}
    if data.items <= 20:
        for kind in ("as data", "signed"):
            out[f"Basic {kind}"] = {str(b): relative_error(data, asked, runs, b, basic=kind) for b in BUDGETS}
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
    return {str(b): {str(f): relative_error(data, asked, runs, b, fanout=f)["60"] for f in FANOUTS} for b in BUDGETS}


def figure6(data: DataSet, runs: int, number: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for items in (200, 400, 600, 800, 1012):
        part = data.restricted(items, data.baskets.records // 4)
        rng = np.random.default_rng(3)
        asked = {"10": [tuple(rng.choice(items, size=int(rng.integers(1, 11)), replace=False)) for _ in range(number)]}
        out[str(items)] = {str(b): relative_error(part, asked, runs, b)["10"] for b in BUDGETS}
    return out


def figure7(data: DataSet, runs: int, number: int) -> dict[str, Any]:
    asked = {"60": queries(data, 60, number, 4)}
    sizes = [data.baskets.records * share // 5 for share in (1, 2, 3, 4, 5)]
    return {str(size): {str(b): relative_error(data.head(size), asked, runs, b)["60"] for b in BUDGETS} for size in sizes}


def figure8(data: DataSet, runs: int) -> dict[str, Any]:
    truth = top_itemsets(data.sets, max(TOPS))
    out: dict[str, Any] = {}
    for budget in BUDGETS:
        means = dict.fromkeys(map(str, TOPS), 0.0)
        for seed in range(runs):
            found = top_itemsets(release(data, budget, seed), max(TOPS))
            for top in TOPS:
                means[str(top)] += top_similarity(dict(truth[:top]), dict(found[:top])) / runs
        out[str(budget)] = means
    found = top_itemsets(release(data, 1.0, 0, plain=True), max(TOPS))
    out["as published, B = 1"] = {str(top): top_similarity(dict(truth[:top]), dict(found[:top])) for top in TOPS}
    return out


def thresholds(data: DataSet, runs: int) -> dict[str, Any]:
    """How the automatic thresholds compare: top-100 similarity at B = 1 for several bounds on false survivors."""
    truth = dict(top_itemsets(data.sets, 100))
    out: dict[str, Any] = {}
    for parts in ("1/100", "1/10", "1/2", "9/10"):
        for sets in ("1/10", "1/2", "2", "8"):
            got = []
            for seed in range(runs):
                found = release(data, 1.0, seed, false_partitions=parts, false_itemsets=sets)
                got.append(top_similarity(truth, dict(top_itemsets(found, 100))))
            out[f"{parts} {sets}"] = float(np.mean(got))
    return out
