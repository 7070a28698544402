"""Frequent items, pairs and larger sets of transactions, each counted with noise of its own.

In: transactions over a declared item universe (private). Out: noisy supports of the items, of pairs
and of larger sets among the most frequent ones. What is worth counting is found by a first, noisier
look; long transactions weigh less instead of being cut. PrivBasis (Li, Qardaji, Su and Cao 2012) is
the anchor of the idea: few items first, then sets among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Annotated, Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.draws import noisy_counts
from dpublish.methods.field_types import Interval
from dpublish.methods.frequent_itemsets.cells import (
    Cells,
    ItemCells,
    Itemset,
    PairCells,
    SetCells,
    packed,
)
from dpublish.methods.frequent_itemsets.plan import (
    FOCUS_ITEMS,
    KEEP,
    PAIR_SHARE,
    FrequentSettings,
    Step,
    forecast_of,
    most_for_pairs,
    one_round,
    sentences_of,
    share_of,
    warnings_of,
)
from dpublish.methods.set_partition.transactions import (
    DEFAULT_COUNT_SHARE,
    Baskets,
    Transactions,
    check_items,
    described_schema,
    item_names,
)
from dpublish.models.noisy_counts import Touched, best_cap, norm_bound, weights
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost
from dpublish.privacy.gaussian import budget_of_counts
from dpublish.privacy.plan import Plan

BITS = 64
"""Items among which pairs and larger sets are looked for: a transaction is a word of their bits."""
MAX_EDGES = 100
"""Pairs that larger sets are put together from."""
MAX_GRID = 1 << 16
ROUNDS = 5
"""At most: items and pairs ranked and counted, larger sets counted."""
MAX_UNITS = 1 << 46
MIN_SCALE, MAX_SCALE = Fraction(1, 10**6), Fraction(10**12)
"""Noise scales stay below so many units, and within what a release may state."""
RANK_SHARE, PAIR_RANK_SHARE, LARGER_SHARE = Fraction(3, 10), Fraction(46, 100), Fraction(3, 10)
"""Of what items get: for ranking them. Of what pairs get: for ranking pairs. Of what is left for
counting pairs: as much again for larger sets. Chosen on generated baskets
(benchmarks/defaults/baskets.py)."""
MIN_LOOK, MAX_LOOK, LOOK_ROWS = Fraction(2, 100), Fraction(3, 100), 2000
"""The share of a histogram of touched items, twice that of sets: less where there are many
transactions to see."""
LEAST_PAIRS, PAIR_ROWS = Fraction(3, 100), 50
"""The same for pairs, by the transactions for each of them."""


def noisy_supports(noise: Noise, baskets: Baskets, settings: FrequentSettings) -> list[Round]:
    """The mechanism. Rank all items and keep the best; measure them; rank the pairs of the best 64
    and keep the best; measure those; measure the larger sets that they suggest."""
    rounds: list[Round] = []
    kept: Sequence[Itemset] = [(item,) for item in range(settings.items)]
    if settings.rank_items is not None:
        rounds.append(measure(noise, ItemCells(baskets, kept), settings, settings.rank_items))
        kept = rounds[-1].best(settings.keep)
    items = measure(noise, ItemCells(baskets, kept), settings, settings.count_items)
    rounds.append(items)
    if settings.count_pairs is None:
        return rounds
    bits = [item for (item,) in items.best(BITS)]
    records = packed(baskets, bits, settings.items)
    some: Cells = PairCells(records, bits)
    if settings.rank_pairs is not None:
        rounds.append(measure(noise, some, settings, settings.rank_pairs))
        some = SetCells(records, bits, rounds[-1].best(settings.pairs_kept))
    pairs = measure(noise, some, settings, settings.count_pairs)
    rounds.append(pairs)
    if settings.count_larger is not None:
        likely = likely_sets(items, pairs, settings.pairs_kept, settings.largest)
        kept = likely[: settings.larger_kept]
        if kept:
            step = settings.count_larger
            rounds.append(measure(noise, SetCells(records, bits, kept), settings, step))
    return rounds


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one round publishes: noisy weighted counts of some itemsets, in units of 1 / grid, and
    the scale (Laplace) or variance (Gaussian) of their noise in transactions."""

    sets: Sequence[Itemset]
    counts: Ints
    cap: int
    scale: Fraction
    touched: Touched
    rank: bool

    def best(self, most: int) -> list[Itemset]:
        """The itemsets of the largest noisy counts; of equal ones the first."""
        order = np.argsort(-self.counts, kind="stable")[:most]
        return [self.sets[int(place)] for place in order]


def measure(noise: Noise, cells: Cells, settings: FrequentSettings, step: Step) -> Round:
    """One round: a noisy histogram of how many cells a transaction touches, the cap that it
    suggests, and noisy counts in which a transaction above the cap weighs less."""
    budget, grid = settings.budget, settings.grid
    touched = cells.touched()
    edges = np.array(cells.edges, dtype=np.int64)
    by_number = np.bincount(touched, minlength=int(edges[-1]) + 1)[1:].astype(np.int64)
    counts = np.add.reduceat(by_number, np.concatenate([[0], edges[:-1]]))
    noisy = noisy_counts(noise, budget, counts, label="touched", share=step.touched)
    histogram = Touched(budget.law, cells.edges, tuple(noisy.tolist()), budget.scale(step.touched))
    size = budget.deviation(step.counts) / math.sqrt(2 if budget.law == "laplace" else math.pi / 2)
    tolerance = float(step.tolerance)
    cap = best_cap(histogram, size, focus=min(step.focus, edges[-1]), tolerance=tolerance)
    exact = cells.weighted(touched, weights(budget.law, cap, grid, int(edges[-1])))
    bound = norm_bound(budget.law, cap, grid)
    sensitivity = budget.sensitivity * bound
    answers = noisy_counts(
        noise, budget, exact, share=step.counts, sensitivity=sensitivity, label="supports"
    )
    units = grid if budget.law == "laplace" else grid**2
    scale = budget.scale_for(sensitivity, step.counts) / units
    return Round(
        sets=cells.sets, counts=answers, cap=cap, scale=scale, touched=histogram, rank=step.rank
    )


def likely_sets(items: Round, pairs: Round, most: int, largest: int) -> list[Itemset]:
    """Sets of three and more items all pairs of which are among the best, the likeliest first.

    Given one of its items the others are taken to be independent; the item that says most counts.
    """
    single = {items.sets[n][0]: max(1, int(c)) for n, c in enumerate(items.counts)}
    best = {frozenset(pair) for pair in pairs.best(min(most, MAX_EDGES))}
    counts = {frozenset(pairs.sets[n]): max(0, int(c)) for n, c in enumerate(pairs.counts)}
    both = {pair: count for pair, count in counts.items() if pair in best}
    near: dict[int, set[int]] = {}
    for pair in both:
        one, other = pair
        near.setdefault(one, set()).add(other)
        near.setdefault(other, set()).add(one)
    found: dict[Itemset, float] = {}
    level = [tuple(sorted(pair)) for pair in both]
    for _ in range(3, largest + 1):
        grown = {
            (*items_, more)
            for items_ in level
            for more in set.intersection(*(near[item] for item in items_))
            if more > items_[-1]
        }
        level = sorted(grown)
        for members in level:
            least = min(both[frozenset(pair)] for pair in combinations(members, 2))
            guesses = (
                single[pivot]
                * math.prod(
                    both[frozenset((pivot, other))] / single[pivot]
                    for other in members
                    if other != pivot
                )
                for pivot in members
            )
            found[members] = min(least, max(guesses))
    seen = [members for members, guess in found.items() if guess > 0]
    return sorted(seen, key=lambda members: (-found[members], members))


@dataclass(frozen=True, kw_only=True)
class FrequentItemsets(Mechanism):
    """Noisy supports of frequent items, pairs and larger sets: the method to take for baskets.

    Input: transactions, each a set of declared items. Neighbours: add-remove-one or replace-one, of
    a unit's c transactions.
    Output: noisy weighted counts of items, of pairs and of larger sets among the most frequent, and
    noisy histograms of how many of them a transaction touches.
    Privacy: epsilon-DP, or rho-zCDP with Gaussian noise (theorem 1 of frequent_itemsets.proof.md).
    Relies on: `Noise.laplace` and `Noise.gaussian` being exact; transactions per unit bounded by c
    before the run.
    Shows / hides: supports well above the noise; an item that was not kept reads 0.
    Accuracy: noise of scale c C / (share epsilon) where C is about as many kept items as long
    transactions hold; long ones count with a smaller weight, which only lowers counts. `plan` says
    what to expect.

    Parameters
    ----------
    column, basket, separator : where the items are; see `SetPartition`.
    typical_items : how many items a transaction holds on average. A public guess that only the
        plan's forecast rests on.
    keep : how many items are counted again after the first look, which ranks them. Universes of up
        to three times as many are counted at once, and, unless you change this number, so are
        all where there are few transactions.
    pairs : how many pairs are counted. They are found among the 64 most frequent items.
    larger : how many larger sets are counted; 0 for none.
    max_size : how many items the largest set has.
    weight_grid : weights are whole multiples of 1 / weight_grid; chosen by the plan when left out.

    Examples
    --------
    >>> FrequentItemsets(column="basket", max_size=3).keep
    200
    """

    column: str = "items"
    basket: str | None = None
    separator: str | None = None
    typical_items: Annotated[int, Interval(1)] = 6
    keep: Annotated[int, Interval(1)] = KEEP
    pairs: Annotated[int, Interval(0, 2016)] = 75
    larger: Annotated[int, Interval(0, 1000)] = 40
    max_size: Annotated[int, Interval(2, 8)] = 5
    weight_grid: Annotated[int | None, Interval(1, MAX_GRID)] = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[FrequentSettings]:
        check_items(schema, "Counting frequent itemsets")
        schema = described_schema(schema, self.basket)
        budget = budget_of_counts(cost, schema.relation, self._touched(schema))
        if budget.amount <= 0:
            raise PlanError("Counting frequent itemsets costs an epsilon or a rho above 0.")
        settings = self._settings(len(item_names(schema)), budget, schema)
        forecast = forecast_of(settings, schema, self.typical_items)
        alone = None
        if settings.count_pairs is not None:
            items = replace(self, pairs=0)._settings(settings.items, budget, schema)
            alone = forecast_of(items, schema, self.typical_items)["item_error"]
            forecast["item_error_without_pairs"] = alone
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "column": self.column,
                "basket": self.basket,
                "separator": self.separator,
                "typical_items": self.typical_items,
                "keep": self.keep,
                "pairs": self.pairs,
                "larger": self.larger,
                "max_size": self.max_size,
                "weight_grid": self.weight_grid,
            },
            settings=settings,
            forecast=forecast,
            sentences=sentences_of(settings, forecast, schema, cost, self.typical_items, alone),
            warnings=warnings_of(settings, forecast, schema),
        )

    def _touched(self, schema: Schema) -> int:
        """The most numbers that one unit can change: all supports of all rounds, a bin of each
        histogram for every transaction that comes or goes, and the total."""
        sets = len(item_names(schema)) + self.keep + BITS * BITS + self.pairs + self.larger
        return sets + ROUNDS * schema.relation.rows + 1

    def statistic(self, plan: Plan[FrequentSettings]) -> Transactions:
        return Transactions(self.column, self.basket, self.separator)

    def run(self, noise: Noise, numbers: Baskets, plan: Plan[FrequentSettings]) -> Output:
        settings = plan.settings
        per_unit = plan.schema.relation.linf
        total = noisy_number(noise, settings.budget, numbers.records, per_unit, settings)
        rounds = noisy_supports(noise, numbers, settings)
        sets = [members for one in rounds for members in one.sets]
        return Output(
            facts={
                "items": settings.items,
                "total": total,
                "law": settings.budget.law,
                "grid": settings.grid,
                "rounds": [
                    {
                        "rank": one.rank,
                        "cap": one.cap,
                        "scale": str(one.scale),
                        "edges": list(one.touched.edges),
                        "touched": list(one.touched.counts),
                        "touched_scale": str(one.touched.scale),
                    }
                    for one in rounds
                ],
            },
            tables={
                "items": {"name": np.array(item_names(plan.schema), dtype=np.str_)},
                "supports": {
                    "size": np.array([len(members) for members in sets], dtype=np.int32),
                    "count": np.concatenate([one.counts for one in rounds]),
                    "round": np.repeat(
                        np.arange(len(rounds), dtype=np.int32), [len(one.sets) for one in rounds]
                    ),
                },
                "members": {
                    "item": np.array(
                        [item for members in sets for item in sorted(members)], dtype=np.int32
                    )
                },
            },
        )

    def _settings(self, items: int, budget: BudgetSplit, schema: Schema) -> FrequentSettings:
        look = share_of(LOOK_ROWS, budget, schema, MIN_LOOK, MAX_LOOK)
        at_once = one_round(items, self.keep, budget, schema)
        counted_items = items if at_once else self.keep
        pairs, rank_pairs = self._pair_steps(counted_items, budget, schema, look / 2)
        larger = None
        if pairs is not None and counted_items > 2 and self.larger and self.max_size > 2:
            larger = Step(touched=look / 2, counts=pairs.counts * LARGER_SHARE)
        total = DEFAULT_COUNT_SHARE / 2
        spent = total + sum(
            step.touched + step.counts for step in (pairs, rank_pairs, larger) if step is not None
        )
        rest, rank_items = 1 - spent, None
        if not at_once:
            rank_items = Step(
                touched=look,
                counts=(rest - 2 * look) * RANK_SHARE,
                rank=True,
                focus=self.keep,
            )
            rest -= rank_items.touched + rank_items.counts
        counted = Step(touched=look, counts=rest - look, focus=min(FOCUS_ITEMS, items))
        named = {
            "rank_items": rank_items,
            "count_items": counted,
            "rank_pairs": rank_pairs,
            "count_pairs": pairs,
            "count_larger": larger,
        }
        steps = {name: step for name, step in named.items() if step is not None}
        cells = max(items, BITS * BITS // 2)
        shares = [total, *(part for one in steps.values() for part in (one.touched, one.counts))]
        widest = budget.scale(min(shares)) * cells
        narrowest = budget.scale(max(shares))
        if not MIN_SCALE <= narrowest <= widest <= MAX_SCALE:
            size = "small" if widest > MAX_SCALE else "large"
            raise PlanError(
                f"The cost is too {size} for {items:,} items: no release could hold such noise."
            )
        units = math.sqrt(float(widest)) if budget.law == "gaussian" else float(widest)
        grid = self.weight_grid or min(MAX_GRID, 1 << max(0, int(math.log2(MAX_UNITS / units))))
        return FrequentSettings(
            items=items,
            grid=grid,
            total_share=total,
            shares={
                f"{name}_{part}": share
                for name, step in steps.items()
                for part, share in (("touched", step.touched), ("counts", step.counts))
            },
            budget=budget,
            keep=self.keep,
            pairs_kept=self.pairs,
            larger_kept=self.larger,
            largest=self.max_size,
            **named,  # type: ignore[arg-type]
        )

    def _pair_steps(
        self, items: int, budget: BudgetSplit, schema: Schema, look: Fraction
    ) -> tuple[Step | None, Step | None]:
        """How pairs are counted, and ranked. With many transactions for each pair of few items they
        get a smaller share, and with few transactions a larger one if there are more than kept."""
        if items < 2 or self.pairs == 0:
            return None, None
        every = min(items, BITS) * (min(items, BITS) - 1) // 2
        most = PAIR_SHARE if every <= self.pairs else most_for_pairs(budget, schema)
        share = share_of(PAIR_ROWS * items * items, budget, schema, LEAST_PAIRS, most)
        if every <= self.pairs or share < Fraction(1, 10):
            return Step(touched=look, counts=share), None
        return (
            Step(touched=look, counts=share * (1 - PAIR_RANK_SHARE)),
            Step(
                touched=look,
                counts=share * PAIR_RANK_SHARE,
                rank=True,
                focus=self.pairs,
            ),
        )


def noisy_number(
    noise: Noise, budget: BudgetSplit, number: int, per_unit: Fraction, settings: FrequentSettings
) -> dict[str, Any]:
    """The number of non-empty transactions, which one unit moves by at most c under either
    relation."""
    share = settings.total_share
    values = np.array([number], dtype=np.int64)
    answer = noisy_counts(noise, budget, values, share=share, sensitivity=per_unit, label="total")
    scale = budget.scale_for(per_unit, share)
    return {"kind": "noisy", "value": int(answer[0]), "scale": str(scale)}
