"""Baskets: frequent-itemsets beside the obvious alternatives, in the same run.

    python -m benchmarks.baselines.baskets --data DIR [--runs 10] [--json FILE]

The alternatives: every transaction cut at random to m items, and Laplace noise of scale m on the
count of each item (the best m is picked with the truth in hand, which nobody could do); for pairs,
half of the budget for 60 items, then all their pairs with transactions cut to four of them;
set-partition, the paper's method; and, for few items, basic-itemsets. Beside the default stands
frequent-itemsets with pairs = 0, which its plan names for counts of items alone: the cut counts
nothing else either. `items_covered` and `pairs_covered` are how often intervals at 95% of the top
items and pairs hold, and `width` how many standard deviations of the noise an item's is wide, less
its allowance.

`DIR` holds files with one transaction per line (`retail.txt.gz`, `kosarak_70k.txt.gz`, ...).
Without it the baskets are generated.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benchmarks.baselines.standing import ERROR, named, standard_error
from benchmarks.defaults.baskets import FAMILIES, Truth, generated, schema_of
from numpy.typing import NDArray

from dpublish.methods.basic_itemsets.mechanism import MAX_ITEMS, BasicItemsets
from dpublish.methods.frequent_itemsets.mechanism import FrequentItemsets
from dpublish.methods.set_partition.mechanism import SetPartition
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.itemsets.release import ItemsetRelease

FILES = (
    "retail", "kosarak_70k", "msnbc_sets", "groceries", "msweb", "bms_webview1", "t10i4d100k",
)  # fmt: skip
COVERS = ("frequent-itemsets", "set-partition", "basic-itemsets")
NEARER = {"pairs = 0": "pairs = 0 brings", "frequent-itemsets": "errors from frequent-itemsets"}
"""What plans name for counts of items, and in which words."""
FEW = {"n": 20_000, "d": 8, "mean": 2.5, "tail": 0.5, "zipf": 0.9, "habits": 0.3}
"""Baskets of so few items that all sets of them can be counted."""
CUTS = (1, 2, 5, 10, 16, 24, 32, 48)
WIDE_CUTS = 16
"""The alternative as it was first measured went up to cuts of 16; wider ones are shown apart."""


def read(path: Path) -> tuple[Baskets, int]:
    with gzip.open(path, "rt") as lines:
        rows = [np.unique(np.array(line.split(), dtype=np.int64)) for line in lines if line.strip()]
    names, items = np.unique(np.concatenate(rows), return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum([row.size for row in rows])])
    return Baskets(offsets, items.astype(np.int32)), names.size


def sources(folder: Path | None) -> Iterator[tuple[str, Baskets, int]]:
    if folder is None:
        for name, facts in FAMILIES.items():
            yield name, generated(seed=11, **facts), facts["d"]
        yield "eight items", generated(seed=11, **FEW), FEW["d"]
        return
    for name in FILES:
        path = folder / f"{name}.txt.gz"
        if path.exists():
            baskets, items = read(path)
            yield name, baskets, items


def shuffled(baskets: Baskets, rng: np.random.Generator) -> Baskets:
    """The same transactions, each with its items in a random order."""
    lengths = np.diff(baskets.offsets)
    rows = np.repeat(np.arange(lengths.size), lengths)
    return Baskets(baskets.offsets, baskets.items[np.argsort(rows + rng.random(rows.size))])


def cut(baskets: Baskets, most: int) -> Baskets:
    """Every transaction cut to its first `most` items."""
    lengths = np.diff(baskets.offsets)
    place = np.arange(baskets.items.size) - np.repeat(baskets.offsets[:-1], lengths)
    offsets = np.concatenate([[0], np.cumsum(np.minimum(lengths, most))])
    return Baskets(offsets, baskets.items[place < most])


def error(values: NDArray[Any], truth: Truth) -> float:
    return float(np.abs(np.maximum(values, 0)[truth.top] - truth.counts[truth.top]).mean())


def overlap(values: NDArray[Any], truth: Truth) -> int:
    return len({*np.argsort(-values, kind="stable")[:50]} & {*truth.top[:50]})


def cut_items(
    baskets: Baskets, items: int, truth: Truth, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Error and overlap of every cut, one row each."""
    out, mixed = [], shuffled(baskets, rng)
    for most in CUTS:
        counts = np.bincount(cut(mixed, most).items, minlength=items)
        values = counts + rng.laplace(scale=most, size=items)
        out.append((error(values, truth), overlap(values, truth)))
    return np.array(out)


def best_cuts(runs: list[NDArray[np.float64]]) -> dict[str, float]:
    """The cut of up to 16 items with the least mean error, and that of all: nobody could know
    them."""
    errors = np.mean(runs, axis=0)
    best = int(np.argmin(errors[: CUTS.index(WIDE_CUTS) + 1, 0]))
    widest = int(np.argmin(errors[:, 0]))
    return {
        "cut": CUTS[best],
        "items": float(errors[best, 0]),
        "top": float(errors[best, 1]),
        "any_cut": CUTS[widest],
        "items_any_cut": float(errors[widest, 0]),
    }


def cut_pairs(baskets: Baskets, items: int, truth: Truth, rng: np.random.Generator) -> int:
    """How many of the top pairs the alternative finds."""
    first = np.bincount(cut(shuffled(baskets, rng), 10).items, minlength=items)
    kept = np.argsort(-(first + rng.laplace(scale=20, size=items)))[:60]
    place = np.full(items, -1)
    place[kept] = np.arange(kept.size)
    rows = np.repeat(np.arange(baskets.records), np.diff(baskets.offsets))
    inside = place[baskets.items] >= 0
    lengths = np.bincount(rows[inside], minlength=baskets.records)
    some = Baskets(np.concatenate([[0], np.cumsum(lengths)]), place[baskets.items[inside]])
    short = cut(shuffled(some, rng), 4)
    from scipy.sparse import csr_matrix

    held = csr_matrix(
        (np.ones(short.items.size), short.items, short.offsets), shape=(short.records, kept.size)
    )
    both = (held.T @ held).toarray()
    one, other = np.triu_indices(kept.size, 1)
    noisy = both[one, other] + rng.laplace(scale=12, size=one.size)
    best = np.argsort(-noisy)[:50]
    found = {frozenset((int(kept[one[k]]), int(kept[other[k]]))) for k in best}
    return len(found & set(truth.pairs))


def released(method: Any, baskets: Baskets, items: int, cost: Cost, seed: int) -> ItemsetRelease:
    plan = method.plan(schema_of(items, baskets.records), cost)
    output = method.run(SeededNoise(seed), baskets, plan)
    tables = {name: pl.DataFrame(dict(columns)) for name, columns in output.tables.items()}
    privacy = {"neighbours": "add-remove-one"}
    manifest = {"facts": dict(output.facts), "method": plan.method, "privacy": privacy}
    return ItemsetRelease(manifest, tables)


def ours(release: ItemsetRelease, items: int, truth: Truth) -> dict[str, float]:
    """Errors, pairs found, and how often intervals hold."""
    single = release.item_counts(top=min(items, 300))
    values = np.zeros(items)
    values[single["item"].cast(pl.Int64).to_numpy()] = single["count"].to_numpy()
    found = release.top_itemsets(50, min_size=2, max_size=2)["items"].to_list()
    pairs = {frozenset(map(int, pair)) for pair in found}
    answers = [(release.support([str(item)]), truth.counts[item]) for item in truth.top]
    answers += [(release.support(map(str, pair)), true) for pair, true in truth.pairs.items()]
    held = [answer.low <= true <= answer.high for answer, true in answers]
    widths = [
        (one.high - one.low - one.details["allowance"]) / one.standard_error
        for one, _ in answers[: len(truth.top)]
        if "allowance" in one.details and "not among" not in one.note and one.low > 0
    ]
    return {
        "items": error(values, truth),
        "top": overlap(values, truth),
        "pairs": len(pairs & set(truth.pairs)),
        "items_covered": float(np.mean(held[: len(truth.top)])),
        "pairs_covered": float(np.mean(held[len(truth.top) :])),
        "width": float(np.mean(widths)) if widths else 0.0,
    }


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="names of files or families")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    costs = {"pure": Cost.pure(1), "delta": Cost.approximate(1, Fraction(1, 10**6))}
    out: dict[str, Any] = {}
    for name, baskets, items in sources(given.data):
        if given.only and name not in given.only:
            continue
        truth = Truth(baskets, items)
        rngs = [np.random.default_rng(seed) for seed in range(given.runs)]
        lines: dict[str, dict[str, Any]] = {
            "cut and Laplace": best_cuts([cut_items(baskets, items, truth, rng) for rng in rngs])
        }
        lines["cut and Laplace"]["runs"] = given.runs
        pairs = [cut_pairs(baskets, items, truth, rng) for rng in rngs]
        lines["cut and Laplace"]["pairs"] = float(np.mean(pairs))
        lines["cut and Laplace"]["pairs_missed"] = len(truth.pairs) - float(np.mean(pairs))
        methods: dict[str, tuple[Any, Cost]] = {
            f"frequent-itemsets, {law}": (FrequentItemsets(), cost) for law, cost in costs.items()
        }
        methods["pairs = 0"] = (FrequentItemsets(pairs=0), costs["pure"])
        methods["set-partition"] = (SetPartition(), costs["pure"])
        if 2 <= items <= MAX_ITEMS:
            methods["basic-itemsets"] = (BasicItemsets(), costs["pure"])
        for label, (method, cost) in methods.items():
            paper = method.method != "frequent-itemsets"
            runs = min(given.runs, 2) if paper else given.runs
            scores = [
                ours(released(method, baskets, items, cost, seed), items, truth)
                for seed in range(runs)
            ]
            plan = method.plan(schema_of(items, baskets.records), cost)
            lines[label] = {
                **mean(scores),
                ERROR: standard_error([score["items"] for score in scores]),
                "pairs_missed": len(truth.pairs) - float(np.mean([one["pairs"] for one in scores])),
                "pairs_error": standard_error([score["pairs"] for score in scores]),
                "runs": runs,
                "named": named(plan, NEARER),
            }
        out[name] = {"transactions": baskets.records, "items": items, **lines}
        for label, line in lines.items():
            shown = ", ".join(
                f"{key} {value:.4g}" if isinstance(value, int | float) else f"{key} {value}"
                for key, value in line.items()
            )
            print(f"{name} ({items:,} items), {label}: {shown}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
