"""Noise on every itemset of a small universe: the method that partitioning is compared with.

In: transactions over at most 20 declared items (private). Out: a noisy count for each of the
2^items - 1 itemsets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.declare.taxonomy import context_free
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.draws import laplace_deviation, noisy_total
from dpublish.methods.set_partition.engine import in_order
from dpublish.methods.set_partition.kernels import record_masks
from dpublish.methods.set_partition.transactions import (
    DEFAULT_COUNT_SHARE,
    Baskets,
    ItemSettings,
    Share,
    Transactions,
    check_request,
    described_schema,
    item_names,
    taxonomy_tables,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

MAX_ITEMS = 20
MANY_ITEMS = 10
"""From here on the noise of all itemsets of an item exceeds that of counting it alone
(benchmarks/defaults/alternatives)."""


def every_itemset(noise: Noise, numbers: Baskets, plan: Plan[BasicSettings]) -> Output:
    """The mechanism. Measure the number of transactions, and the count of every non-empty itemset;
    write them in order of size."""
    settings, names = plan.settings, item_names(plan.schema)
    total = noisy_total(noise, numbers.records, plan.settings.count_epsilon, plan.schema)
    counts = np.bincount(
        record_masks(numbers.items, numbers.offsets), minlength=1 << settings.items
    )[1:].astype(np.int64)
    noisy = noise.laplace(
        counts,
        sensitivity=settings.sensitivity,
        epsilon=settings.partition_epsilon,
        label="itemset",
    )
    masks = np.arange(1, 1 << settings.items, dtype=np.int32)
    inside = (masks[:, None] >> np.arange(settings.items, dtype=np.int32)) & 1
    sizes = inside.sum(axis=1, dtype=np.int32)
    order, members = in_order(sizes, np.nonzero(inside)[1].astype(np.int32))
    root = {"parent": -1, "mask": 0, "count": 0, "law": -1, "next": 0, "next_law": 0}
    kinds = {"parent": np.int64, "count": np.int64}
    return Output(
        facts={
            "items": settings.items,
            "total": total,
            "max_total": None,
            "laws": [{"threshold": None, "scale": str(settings.scale)}],
            "truncated": False,
        },
        tables={
            **taxonomy_tables(context_free(settings.items, settings.items), names),
            "partitions": {
                name: np.array([value], dtype=kinds.get(name, np.int32))
                for name, value in root.items()
            },
            "itemsets": {
                "parent": np.zeros(masks.size, dtype=np.int64),
                "mask": masks[order],
                "size": sizes[order],
                "count": noisy[order],
                "law": np.zeros(masks.size, dtype=np.int32),
            },
            "members": {"item": members},
        },
    )


@dataclass(frozen=True, kw_only=True)
class BasicSettings(ItemSettings):
    """`scale` is that of the noise on the count of an itemset."""

    scale: Fraction


def item_deviation(items: int, scale: Fraction) -> float:
    """The standard deviation of the support of one item: a sum of 2^(items - 1) noisy counts."""
    return laplace_deviation(scale) * math.sqrt(2.0 ** (items - 1))


@dataclass(frozen=True, kw_only=True)
class BasicItemsets(Mechanism):
    """A noisy count for every itemset of a small universe, none left out.

    Input: transactions, each a set of at most 20 declared items. Neighbours: add-remove-one or
    replace-one, of c transactions.
    Output: all 2^items - 1 itemsets with noisy counts, which may be negative.
    Privacy: epsilon-DP (theorem 1 of basic_itemsets.proof.md).
    Relies on: `Noise.laplace` being exact; transactions per unit bounded by c before the run.
    Shows / hides: every itemset with error about c / epsilon; sums over many itemsets gather the
    noise of all of them.
    Accuracy: the support of k items adds up 2^(items - k) noisy counts; `plan` states the standard
    deviation for one item.

    Parameters
    ----------
    column, basket, separator : where the items are; see `SetPartition`.
    count_share : share of epsilon for a noisy number of transactions.

    Examples
    --------
    >>> BasicItemsets(column="basket", separator=",").separator
    ','
    """

    column: str = "items"
    basket: str | None = None
    separator: str | None = None
    count_share: Share = DEFAULT_COUNT_SHARE

    def plan(self, schema: Schema, cost: Cost) -> Plan[BasicSettings]:
        check_request(schema, cost, "Noise on every itemset")
        schema = described_schema(schema, self.basket)
        items = len(item_names(schema))
        if not 2 <= items <= MAX_ITEMS:
            raise PlanError(
                f"Noise on every itemset suits 2 to {MAX_ITEMS} items; '{schema.name}' declares "
                f"{items:,}. Use set-partition."
            )
        share = exact(self.count_share, "count_share")
        epsilon, sensitivity = cost.epsilon * (1 - share), schema.relation.l1
        scale = sensitivity / epsilon
        deviation = item_deviation(items, scale)
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "column": self.column,
                "basket": self.basket,
                "separator": self.separator,
                "count_share": str(share),
            },
            settings=BasicSettings(
                items=items,
                sensitivity=sensitivity,
                count_epsilon=cost.epsilon * share,
                partition_epsilon=epsilon,
                scale=scale,
            ),
            forecast={
                "itemset_standard_deviation": laplace_deviation(scale),
                "item_standard_deviation": deviation,
            },
            sentences=(
                f"Noisy counts of all {(1 << items) - 1:,} itemsets of {items} items.",
                f"Cost {cost.describe()}, protecting {schema.unit.describe()} "
                f"({schema.neighbours}).",
                f"Every itemset gets discrete Laplace noise of scale {float(scale):.4g}; the "
                f"support of a single item adds up "
                f"{1 << (items - 1):,} of them (standard deviation {deviation:,.4g}).",
            ),
            warnings=(
                (
                    "For counts of items and pairs expect smaller errors from frequent-itemsets: "
                    "sums over so many itemsets gather their noise.",
                )
                if items >= MANY_ITEMS
                else ()
            ),
        )

    def statistic(self, plan: Plan) -> Transactions:
        return Transactions(self.column, self.basket, self.separator)

    def run(self, noise: Noise, numbers: Baskets, plan: Plan[BasicSettings]) -> Output:
        return every_itemset(noise, numbers, plan)
