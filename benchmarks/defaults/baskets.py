"""The constants of frequent-itemsets, chosen on generated baskets alone.

    python -m benchmarks.defaults.baskets [--tables 24] [--runs 3] [--seed 1]
    python -m benchmarks.defaults.baskets --few --only FEW_CELLS UNCUT_CELLS --runs 8
    python -m benchmarks.defaults.baskets --pairs [--tables 30] [--runs 3] [--seed 777]

Tables are drawn at random: 5,000 to 500,000 baskets over 50 to 20,000 items of Zipf exponents 0.7
to 1.4, with lognormal, geometric or heavy-tailed lengths, and with habits (items that come
together) in none to six of ten baskets. Each constant is moved by itself around its value. A
setting is scored by the mean error of the counts of the 100 most frequent items, as a multiple of
that with the constants as they are (the geometric mean over tables), and by how many of the 50
most frequent pairs are found, at epsilon = 1, pure and with delta = 1e-6. With `--few`: 1,000 to
20,000 baskets over 3 to 200 items, at a pure epsilon of 0.3, 1 or 3. With `--pairs`: 3,000 to
60,000 baskets over 30 to 1,000 items, and beside it what the cut of benchmarks.baselines finds with
all of a pure epsilon = 1 for pairs, and for items. No real data is read here.
`FAMILIES` are eight tables with names, for benchmarks.baselines.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpublish as dp
from dpublish.methods.frequent_itemsets import mechanism, plan
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.models import noisy_counts
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

FAMILIES: dict[str, dict[str, Any]] = {
    "supermarket": {"n": 90_000, "d": 16_000, "mean": 10, "tail": 0.8, "zipf": 1.0, "habits": 0.5},
    "clicks": {"n": 70_000, "d": 20_000, "mean": 7, "tail": 1.3, "zipf": 1.3, "habits": 0.3},
    "portal": {
        "n": 70_000,
        "d": 20_000,
        "mean": 8,
        "tail": 1.3,
        "zipf": 1.4,
        "habits": 0.3,
        "curious": 0.7,
    },
    "market hall": {
        "n": 90_000,
        "d": 16_000,
        "mean": 10,
        "tail": 0.8,
        "zipf": 1.1,
        "habits": 0.3,
        "curious": 0.8,
    },
    "small shop": {"n": 10_000, "d": 170, "mean": 4.5, "tail": 0.7, "zipf": 0.9, "habits": 0.4},
    "web visits": {"n": 60_000, "d": 500, "mean": 2.5, "tail": 0.9, "zipf": 0.9, "habits": 0.3},
    "news": {"n": 900_000, "d": 17, "mean": 1.9, "tail": 0.6, "zipf": 0.7, "habits": 0.1},
    "transit": {"n": 400_000, "d": 1_012, "mean": 5, "tail": 0.6, "zipf": 0.8, "habits": 0.6},
}
MOVED = {
    "RANK_TOLERANCE": ("3", "8", "20", "50"),
    "COUNT_TOLERANCE": ("1", "2", "4", "8"),
    "PAIR_SHARE": ("10/100", "15/100", "20/100", "26/100"),
    "RANK_SHARE": ("2/10", "3/10", "4/10"),
    "PAIR_RANK_SHARE": ("30/100", "46/100", "60/100"),
    "FEW_ROWS": ("0", "2500", "5000", "10000"),
    "FEW_CELLS": ("0", "20", "60", "200"),
    "UNCUT_CELLS": ("0", "4", "8"),
}
MAX_HELD = 1_500_000
"""Items in all baskets of a table together."""


def drawn_family(seed: int) -> dict[str, Any]:
    """What a table is made of, drawn at random."""
    rng = np.random.default_rng(seed)
    mean = float(np.exp(rng.uniform(np.log(2), np.log(15))))
    rows = np.exp(rng.uniform(np.log(5_000), np.log(500_000)))
    return {
        "n": int(min(rows, MAX_HELD / mean)),
        "d": int(np.exp(rng.uniform(np.log(50), np.log(20_000)))),
        "mean": mean,
        "tail": float(rng.uniform(0.5, 1.3)),
        "zipf": float(rng.uniform(0.7, 1.4)),
        "habits": float(rng.uniform(0, 0.6)),
        "curious": float(rng.choice([1.0, 1.0, 0.7])),
        "lengths": str(rng.choice(["lognormal", "geometric", "heavy"])),
    }


def generated(
    *,
    n: int,
    d: int,
    mean: float,
    tail: float,
    zipf: float,
    habits: float,
    seed: int,
    curious: float = 1.0,
    lengths: str = "lognormal",
) -> Baskets:
    """Baskets of Zipfian items and of habits (sets of two to five items that come together), with
    lengths of a law. In long baskets (twice the median) items are less skewed by the factor
    `curious`: rarer items are bought by those who buy much."""
    rng = np.random.default_rng(seed)
    if lengths == "geometric":
        sizes = rng.geometric(1 / mean, n).astype(np.float64)
    elif lengths == "heavy":  # Pareto: its mean is the scale times 1.8 / 0.8
        sizes = mean * 0.8 / 1.8 * (1 + rng.pareto(1.8, n))
    else:
        sizes = np.round(rng.lognormal(np.log(mean) - tail**2 / 2, tail, n))
    held_items = np.clip(sizes, 1, max(1, 2 * d // 3)).astype(np.int64)
    share = 1 / np.arange(1, d + 1) ** zipf
    chance = np.cumsum(share / share.sum())
    number = max(5, min(d, 400))
    patterns = np.full((number, 5), -1)
    for row, size in enumerate(rng.integers(2, 6, number)):
        members = np.unique(_drawn(rng, chance, int(size)))
        patterns[row, : members.size] = members
    popular = 1 / np.arange(1, number + 1) ** 0.8
    habit_chance = np.cumsum(popular / popular.sum())
    rows, items = [], []
    for _ in range(2):
        chosen = patterns[_drawn(rng, habit_chance, n)]
        taken = (rng.random(n) < habits)[:, None] & (rng.random(chosen.shape) < 0.7)
        row, place = np.nonzero((chosen >= 0) & taken & (held_items[:, None] > 1))
        rows.append(row)
        items.append(chosen[row, place])
    held = sum(np.bincount(row, minlength=n) for row in rows)
    rest = np.maximum(held_items - held, np.where(held == 0, 1, 0))
    flat = 1 / np.arange(1, d + 1) ** (zipf * curious)
    long = held_items > 2 * np.median(held_items)
    for group, law in ((~long, chance), (long, np.cumsum(flat / flat.sum()))):
        row = np.repeat(np.arange(n), np.where(group, rest, 0))
        rows.append(row)
        items.append(_drawn(rng, law, row.size))
    order = rng.permutation(d)
    keys = np.unique(np.concatenate(rows).astype(np.int64) * d + order[np.concatenate(items)])
    sizes = np.bincount(keys // d, minlength=n)
    return Baskets(np.concatenate([[0], np.cumsum(sizes)]), (keys % d).astype(np.int32))


def _drawn(rng: np.random.Generator, chance: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    return np.minimum(np.searchsorted(chance, rng.random(size)), chance.size - 1)


def schema_of(items: int, transactions: int) -> dp.Schema:
    names = ", ".join(f'"{item}"' for item in range(items))
    return dp.Schema.from_toml(
        f'[dataset]\nname = "made-up"\nneighbours = "add-remove-one"\n'
        f"nominal_size = {transactions}\n[items]\nuniverse = [{names}]\n"
    )


class Truth:
    """The exact counts of items, and the 50 most frequent pairs among the 150 most frequent."""

    def __init__(self, baskets: Baskets, items: int) -> None:
        self.counts = np.bincount(baskets.items, minlength=items)
        self.top = np.argsort(-self.counts, kind="stable")[:100]
        bits = np.argsort(-self.counts, kind="stable")[:150]
        place = np.full(items, -1)
        place[bits] = np.arange(bits.size)
        both = np.zeros((bits.size, bits.size), dtype=np.int64)
        rows = np.repeat(np.arange(baskets.records), np.diff(baskets.offsets))
        kept = place[baskets.items] >= 0
        from scipy.sparse import csr_matrix

        held = csr_matrix(
            (np.ones(int(kept.sum())), (rows[kept], place[baskets.items[kept]])),
            shape=(baskets.records, bits.size),
        )
        both = np.triu((held.T @ held).toarray(), 1)
        flat = np.argsort(-both.ravel(), kind="stable")[:50]
        flat = flat[both.ravel()[flat] > 0]  # few items have fewer pairs
        self.pairs = {
            frozenset((int(bits[k // bits.size]), int(bits[k % bits.size]))): both.ravel()[k]
            for k in flat
        }


def score(rounds: list[mechanism.Round], grid: int, truth: Truth) -> tuple[float, int]:
    """Mean error of the counts of the top items; how many of the top pairs are found."""
    items = np.zeros(truth.counts.size)
    pairs: dict[frozenset[int], float] = {}
    for one in rounds:
        values = np.maximum(one.counts / grid * one.touched.factor(one.cap), 0)
        if one.rank:
            continue
        for members, value in zip(one.sets, values, strict=True):
            if len(members) == 1:
                items[members[0]] = value
            elif len(members) == 2:
                pairs[frozenset(members)] = value
    found = set(sorted(pairs, key=lambda pair: -pairs[pair])[:50])
    error = float(np.abs(items[truth.top] - truth.counts[truth.top]).mean())
    return error, len(found & set(truth.pairs))


def few_family(seed: int) -> dict[str, Any]:
    """A small table of few items."""
    rng = np.random.default_rng(seed)
    items = int(np.exp(rng.uniform(np.log(3), np.log(200))))
    usual = drawn_family(seed)
    return {
        **usual,
        "n": int(np.exp(rng.uniform(np.log(1_000), np.log(20_000)))),
        "d": items,
        "mean": min(usual["mean"], 1 + items / 4),
    }


def paired_family(seed: int) -> dict[str, Any]:
    """A table that is small for counting pairs."""
    rng = np.random.default_rng(seed)
    usual = drawn_family(seed)
    return {
        **usual,
        "n": int(np.exp(rng.uniform(np.log(3_000), np.log(60_000)))),
        "d": int(np.exp(rng.uniform(np.log(30), np.log(1_000)))),
        "mean": min(usual["mean"], 8),
    }


def constant(name: str) -> Any:
    return next(one for one in (plan, mechanism, noisy_counts) if hasattr(one, name))


def scores(
    tables: Sequence[tuple[Baskets, int, Truth]], costs: Sequence[Cost], runs: int
) -> NDArray[np.float64]:
    """Error of items and number of pairs, one row a table; costs take turns."""
    out = []
    for (baskets, items, truth), cost in zip(tables, itertools.cycle(costs), strict=False):
        made = mechanism.FrequentItemsets().plan(schema_of(items, baskets.records), cost).settings
        found = [
            score(mechanism.noisy_supports(SeededNoise(seed), baskets, made), made.grid, truth)
            for seed in range(runs)
        ]
        out.append(np.mean(found, axis=0))
    return np.array(out)


def beside_the_cut(tables: Sequence[tuple[Baskets, int, Truth]], runs: int) -> None:
    """How many of the top pairs are found, and the error of items, by FEW_FOR_PAIRS, beside what
    cutting baskets gives for either."""
    from benchmarks.baselines.baskets import best_cuts, cut_items, cut_pairs

    rngs = [np.random.default_rng(seed) for seed in range(runs)]
    cuts = [
        (
            best_cuts([cut_items(*table, rng) for rng in rngs])["items"],
            np.mean([cut_pairs(*table, rng) for rng in rngs]),
        )
        for table in tables
    ]
    items, pairs = np.array(cuts).T
    print(f"cut: {pairs.mean():.2f} of the top 50 pairs of {len(tables)} tables")
    pure, delta = Cost.pure(1), Cost.approximate(1, Fraction(1, 10**6))
    tried = {"laplace": (pure, (0, 2_000, 3_500, 5_000)), "gaussian": (delta, (0, 250, 500, 1_000))}
    for law, (cost, values) in tried.items():
        usual = plan.FEW_FOR_PAIRS[law]
        for value in values:
            plan.FEW_FOR_PAIRS[law] = value
            found = scores(tables, [cost], runs)
            ratio = np.exp(np.log(found[:, 0] / items).mean())
            print(
                f"{law}, FEW_FOR_PAIRS = {value}: items {ratio:.3f} of the cut, pairs "
                f"{found[:, 1].mean():.2f}, behind it by more than two in "
                f"{(found[:, 1] < pairs - 2).sum()}",
                flush=True,
            )
        plan.FEW_FOR_PAIRS[law] = usual


def where_pairs_are_lost(tables: Sequence[tuple[Baskets, int, Truth]], runs: int) -> None:
    """How often fewer than 35 of the top 50 pairs are found, where the plan says so and where not,
    at epsilon 0.3, 1 and 3."""
    costs = [Cost.pure(epsilon) for epsilon in ("3/10", "1", "3")]
    found = scores(tables, costs, runs)[:, 1]
    warned = [
        any(
            "pairs are lost" in text
            for text in mechanism.FrequentItemsets()
            .plan(schema_of(items, baskets.records), cost)
            .warnings
        )
        for (baskets, items, _), cost in zip(tables, itertools.cycle(costs), strict=False)
    ]
    for said in (True, False):
        few = found[np.array(warned) == said] < 35
        print(f"{'warned' if said else 'silent'}: {few.sum()} of {few.size} with fewer than 35")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=24)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--few", action="store_true", help="small tables of few items")
    parser.add_argument("--pairs", action="store_true", help="small tables beside the cut")
    parser.add_argument("--only", nargs="*", default=list(MOVED), help="constants")
    given = parser.parse_args()
    tables = []
    family = few_family if given.few else paired_family if given.pairs else drawn_family
    for number in range(given.tables):
        facts = family(1000 * given.seed + number)
        baskets = generated(seed=number, **facts)
        tables.append((baskets, facts["d"], Truth(baskets, facts["d"])))
    if given.pairs:
        tables = [table for table in tables if len(table[2].pairs) == 50]
        beside_the_cut(tables, given.runs)
        where_pairs_are_lost(tables, given.runs)
        return
    costs = {"pure": [Cost.pure(1)], "delta": [Cost.approximate(1, Fraction(1, 10**6))]}
    if given.few:
        costs = {"pure": [Cost.pure(epsilon) for epsilon in ("3/10", "1", "3")]}
    for law, some in costs.items():
        usual = scores(tables, some, given.runs)
        print(f"{law}, as it is: {usual[:, 1].mean():.2f} pairs", flush=True)
        for name in given.only:
            before = getattr(constant(name), name)
            for value in MOVED[name]:
                setattr(constant(name), name, Fraction(value))
                found = scores(tables, some, given.runs)
                logs = np.log(found[:, 0] / usual[:, 0])
                print(
                    f"{law}, {name} = {value}: items {np.exp(logs.mean()):.3f} "
                    f"(+- {logs.std() / len(logs) ** 0.5:.3f}), pairs {found[:, 1].mean():.2f}",
                    flush=True,
                )
            setattr(constant(name), name, before)


if __name__ == "__main__":
    main()
