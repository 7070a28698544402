"""Set-valued data by top-down partitioning (DiffPart): transactions in, itemsets with noisy counts
out.

In: transactions over a declared item universe (private). Out: the itemsets whose noisy count passed
a public threshold, with those counts, and the noisy counts of the partitions that led to them. None
of the 2^items combinations is enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.declare.taxonomy import Taxonomy, context_free, written
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.basic_itemsets.mechanism import MAX_ITEMS, item_deviation
from dpublish.methods.set_partition.engine import (
    QUANTA,
    Partitioning,
    Rules,
    Threshold,
    likely_splits,
)
from dpublish.methods.set_partition.request import (
    DEFAULT_COUNT_SHARE,
    Number,
    base_facts,
    check_request,
    described_schema,
    noisy_total,
    share_of,
    taxonomy_tables,
)
from dpublish.methods.set_partition.transactions import Baskets, Transactions, item_names
from dpublish.methods.thresholds import MAX_THRESHOLD, laplace_deviation, survival_probability
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

STEP_BITS = 2
LEAF_BITS = 5
DEFAULT_MAX_PARTITIONS = 4_000_000


@dataclass(frozen=True, kw_only=True)
class SetPartition(Mechanism):
    """Itemsets with noisy counts, found by partitioning the records along a public taxonomy of the
    items.

    Input: transactions, each a set of declared items. Neighbours: add-remove-one or replace-one, of
    a unit's c transactions.
    Output: itemsets and partitions with noisy counts above public thresholds; any itemset of the
    universe may appear.
    Privacy: epsilon-DP (theorem 1 of set_partition.proof.md): every record meets one chain of
    counts that adds up to epsilon.
    Relies on: `Noise.sparse_laplace` and `Noise.laplace` being exact; transactions per unit bounded
    by c before the run.
    Shows / hides: itemsets well above the threshold; hides which rare combinations occur.
    Accuracy: a published count has noise of scale c / epsilon to 2c / epsilon; rare itemsets are
    missing; `plan` states both.

    Parameters
    ----------
    column : the column that holds the items: a list, text with several items, or (with `basket`)
        one item a row.
    basket : the column that says which rows make up one transaction, when there is one item a row.
    separator : what separates the items of a text; blanks when left out.
    fanout : how many nodes the context-free taxonomy groups a level.
    taxonomy : your own taxonomy instead: nested groups of item names, as Python or JSON. Never made
        from the data.
    typical_items : budgets are shared out as if no transaction had more items than this (at least
        2; None: the paper's worst case, every item at once). Longer transactions are counted too,
        with ever smaller budgets. A public guess.
    max_items : cut every transaction to its first so many items, in the order of the declared
        universe. What is then counted are cut transactions: whole ones seldom repeat when they are
        long, and only what repeats can be published.
    false_partitions : how many empty sub-partitions may pass by noise, on average, each time a
        partition is split (below 1).
    false_itemsets : how many absent itemsets may be published, on average, each time a last split
        is made.
    c1, c2 : the paper's constants instead: thresholds sqrt(2) c1 / budget for itemsets, sqrt(2) c2
        height / budget for parts.
    count_share : share of epsilon for a noisy number of transactions, which bounds what is missing.
    max_partitions : stop splitting when noisy answers ask for more partitions than this.
    """

    method: ClassVar[str] = "set-partition"
    kind: ClassVar[str] = "itemsets"

    column: str = "items"
    basket: str | None = None
    separator: str | None = None
    fanout: int = 10
    taxonomy: str | Mapping[str, object] | None = None
    typical_items: int | None = 16
    max_items: int | None = None
    false_partitions: Number = Fraction(1, 10)
    false_itemsets: Number = Fraction(1, 2)
    c1: Number | None = None
    c2: Number | None = None
    count_share: Number = DEFAULT_COUNT_SHARE
    max_partitions: int = DEFAULT_MAX_PARTITIONS

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        check_request(schema, cost, "Set partitioning")
        schema = described_schema(schema, self.basket)
        share = share_of(self.count_share)
        if self.max_partitions < 1:
            raise PlanError(f"max_partitions must be at least 1, not {self.max_partitions}.")
        _check_whole(self.typical_items, "typical_items", 2)
        _check_whole(self.max_items, "max_items", 1)
        taxonomy = self._tree(schema)
        facts = base_facts(schema, cost, share, taxonomy.items)
        rules = self._rules(facts)
        self._check_thresholds(taxonomy, rules)
        facts.update(self._expectations(taxonomy, rules))
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters={
                "column": self.column,
                "basket": self.basket,
                "separator": self.separator,
                "fanout": self.fanout,
                "taxonomy": self.taxonomy
                if self.taxonomy is None or isinstance(self.taxonomy, str)
                else dict(self.taxonomy),
                "typical_items": self.typical_items,
                "max_items": self.max_items,
                "false_partitions": str(exact(self.false_partitions, "false_partitions")),
                "false_itemsets": str(exact(self.false_itemsets, "false_itemsets")),
                "c1": None if self.c1 is None else str(exact(self.c1, "c1")),
                "c2": None if self.c2 is None else str(exact(self.c2, "c2")),
                "count_share": str(share),
                "max_partitions": self.max_partitions,
            },
            facts=facts,
            sentences=_sentences(facts, schema, cost, self.max_items),
            warnings=_warnings(facts, schema, share, self.max_items),
        )

    def statistic(self, plan: Plan) -> Transactions:
        return Transactions(self.column, self.basket, self.separator, self.max_items)

    def run(self, noise: Noise, numbers: Baskets, plan: Plan) -> Output:
        return noisy_itemsets(
            noise, numbers, plan, taxonomy=self._tree(plan.schema), rules=self._rules(plan.facts)
        )

    @property
    def _expected_items(self) -> int | None:
        """How many items budgets are shared out for."""
        if self.typical_items is None or self.max_items is None:
            return self.typical_items
        return max(2, min(self.typical_items, self.max_items))

    def _tree(self, schema: Schema) -> Taxonomy:
        names = item_names(schema)
        return (
            context_free(len(names), self.fanout)
            if self.taxonomy is None
            else written(self.taxonomy, names)
        )

    def _rules(self, facts: Mapping[str, Any]) -> Rules:
        epsilon, sensitivity = Fraction(facts["partition_epsilon"]), Fraction(facts["sensitivity"])
        unit = 2 * QUANTA * sensitivity / epsilon  # the noise scale of one quantum
        shares = [_limit(value, name) for value, name in self._limits()]
        if shares[0] >= 1:
            raise PlanError(
                f"false_partitions must be below 1, or false partitions would multiply; given "
                f"{float(shares[0]):g}."
            )
        constants = [
            None if value is None else _limit(value, name)
            for value, name in ((self.c2, "c2"), (self.c1, "c1"))
        ]
        rules = [
            _threshold(unit, share, constant)
            for share, constant in zip(shares, constants, strict=True)
        ]
        return Rules(
            epsilon=epsilon,
            sensitivity=sensitivity,
            partition_threshold=rules[0],
            leaf_threshold=rules[1],
            step_bits=STEP_BITS,
            leaf_bits=LEAF_BITS,
            max_partitions=self.max_partitions,
            typical_items=self._expected_items,
        )

    def _limits(self) -> tuple[tuple[Number, str], tuple[Number, str]]:
        return (self.false_partitions, "false_partitions"), (self.false_itemsets, "false_itemsets")

    def _check_thresholds(self, taxonomy: Taxonomy, rules: Rules) -> None:
        """With the paper's constants an expansion may beget more false partitions than it ends:
        refuse that."""
        first = QUANTA // likely_splits(taxonomy, rules.typical_items)
        if self.c2 is None or taxonomy.nodes == 1:
            return
        widths = np.diff(taxonomy.child_offset)
        for width, height in sorted(
            {(int(w), int(h)) for w, h in zip(widths, taxonomy.height, strict=True)}
        ):
            scale = rules.sensitivity / rules.epsilon_of(first)
            false = ((1 << width) - 1) * survival_probability(
                scale, rules.partition_threshold(first, width, height)
            )
            if false >= 1:
                least = math.log((1 << width) - 1) / math.sqrt(2) / height
                raise PlanError(
                    f"c2 = {self.c2} lets about {false:,.1f} empty parts pass at every split of "
                    f"{width} children: they "
                    f"would multiply without end. Leave c2 out, take c2 = "
                    f"{math.ceil(10 * least) / 10:g}, or a smaller fanout."
                )

    def _expectations(self, taxonomy: Taxonomy, rules: Rules) -> dict[str, Any]:
        single = taxonomy.nodes == 1
        first = 2 * QUANTA if single else QUANTA // likely_splits(taxonomy, rules.typical_items)
        width, height = int(taxonomy.child_offset[1]), int(taxonomy.height[0])
        scale = rules.sensitivity / rules.epsilon_of(first)
        threshold = (rules.leaf_threshold if single else rules.partition_threshold)(
            first, width, height
        )
        widest = taxonomy.widest
        leaf: dict[str, Any] = {}
        for name, quanta in (("best", 2 * QUANTA), ("worst", QUANTA)):
            leaf[f"{name}_itemset_scale"] = str(rules.sensitivity / rules.epsilon_of(quanta))
            leaf[f"{name}_itemset_threshold"] = rules.leaf_threshold(quanta, widest, 1)
        if threshold >= MAX_THRESHOLD or leaf["worst_itemset_threshold"] >= MAX_THRESHOLD:
            raise PlanError(
                f"epsilon = {float(rules.epsilon):g} is too small for {taxonomy.items:,} items: "
                f"no count would pass."
            )
        return {
            **leaf,
            "nodes": taxonomy.nodes,
            "levels": int(taxonomy.height[0]),
            "first_scale": float(scale),
            "first_threshold": threshold,
            "first_visible": threshold + 1 + math.ceil(float(scale) * math.log(10)),
            "itemset_standard_deviation": laplace_deviation(Fraction(leaf["worst_itemset_scale"])),
        }


def noisy_itemsets(
    noise: Noise, numbers: Baskets, plan: Plan, *, taxonomy: Taxonomy, rules: Rules
) -> Output:
    """The mechanism: a noisy number of transactions, then the partitioning."""
    total = noisy_total(noise, numbers, plan)
    outcome = Partitioning(noise, numbers, taxonomy, rules).run()
    partitions, itemsets = outcome.partitions, outcome.itemsets
    return Output(
        facts={
            "items": taxonomy.items,
            "total": total,
            "max_total": None,
            "max_items": plan.parameters["max_items"],
            "laws": [
                {"threshold": threshold, "scale": str(scale)} for threshold, scale in outcome.laws
            ],
            "truncated": outcome.truncated,
        },
        tables={
            **taxonomy_tables(taxonomy, item_names(plan.schema)),
            "partitions": partitions,
            "itemsets": itemsets,
            "members": {"item": outcome.members},
        },
    )


def _threshold(unit: Fraction, limit: Fraction, constant: Fraction | None) -> Threshold:
    """The rule for one kind of count. Floats are fine: a threshold is a public integer."""

    def threshold(quanta: int, width: int, height: int) -> int:
        scale = unit / quanta
        if constant is not None:
            return max(
                0, math.ceil(math.sqrt(2) * float(constant) * max(1, height) * float(scale)) - 1
            )
        return automatic_threshold(scale, (1 << width) - 1, float(limit))

    known: dict[tuple[int, int, int], int] = {}

    def remembered(quanta: int, width: int, height: int) -> int:
        key = (quanta, width, height)
        if key not in known:
            known[key] = threshold(*key)
        return known[key]

    return remembered


def automatic_threshold(scale: Fraction, cells: int, limit: float) -> int:
    """About the least threshold at which at most `limit` of `cells` empty cells are expected to
    pass."""
    base = survival_probability(scale, -1)
    if cells * base <= limit:
        return 0
    return max(0, math.ceil(float(scale) * math.log(cells * base / limit)) - 1)


def _limit(value: Number, name: str) -> Fraction:
    number = exact(value, name)
    if number <= 0:
        raise PlanError(f"{name} must be above 0, not {value}.")
    return number


def _check_whole(value: int | None, name: str, least: int) -> None:
    if value is not None and (
        isinstance(value, bool) or not isinstance(value, int) or value < least
    ):
        raise PlanError(
            f"{name} must be a whole number of at least {least}, or left out; given {value}."
        )


def _sentences(
    facts: Mapping[str, Any], schema: Schema, cost: Cost, max_items: int | None
) -> tuple[str, ...]:
    worst, best = (float(Fraction(facts[f"{which}_itemset_scale"])) for which in ("worst", "best"))
    cut = (
        ()
        if max_items is None
        else (
            f"Every transaction is cut to its first {max_items:,} declared item(s); counts are of "
            f"cut transactions.",
        )
    )
    small = (
        ()
        if not 2 <= facts["items"] <= MAX_ITEMS
        else (
            f"With so few items, basic-itemsets leaves nothing out: at this cost it would count "
            f"any one item with a standard "
            f"deviation of "
            f"{item_deviation(facts['items'], Fraction(facts['best_itemset_scale'])):,.4g}. "
            f"Compare.",
        )
    )
    return (
        f"Itemsets over {facts['items']:,} declared items, by a taxonomy of {facts['nodes']:,} "
        f"groups "
        f"in {facts['levels']} level(s).",
        f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
        *cut,
        f"The first split needs about {facts['first_visible']:,} transactions on a side to see it "
        f"(noise scale {facts['first_scale']:,.4g}); later splits need fewer.",
        f"Published counts have noise of scale {best:,.4g} to {worst:,.4g}; only sets of items "
        f"that more than "
        f"{facts['best_itemset_threshold']:,} to {facts['worst_itemset_threshold']:,} "
        f"transactions hold, and nothing besides, "
        "are published.",
        *small,
    )


def _warnings(
    facts: Mapping[str, Any], schema: Schema, share: Fraction, max_items: int | None
) -> tuple[str, ...]:
    out = []
    if share == 0:
        out.append(
            "No number of transactions is published, so intervals have no upper bound "
            "(count_share = 0)."
        )
    size = schema.size_or_nominal
    if size is None:
        return tuple(out)
    size *= schema.unit.max_rows
    needed = facts["worst_itemset_threshold"] + 1
    if facts["first_visible"] > size:
        out.append(
            f"The first split needs about {facts['first_visible']:,} transactions and the schema "
            f"speaks of {size:,}: expect an "
            "empty release. Raise epsilon, declare fewer items or take a larger fanout."
        )
    elif size < needed * facts["items"]:
        advice = (
            "declare fewer items"
            if max_items is not None
            else "declare fewer items, or set max_items (2 or 3)"
        )
        out.append(
            f"There are {size / facts['items']:,.1f} transactions for each declared item, and an "
            f"itemset needs about "
            f"{needed:,} of its own: at most {size // needed:,} itemsets can be published, and "
            f"far fewer if transactions "
            f"seldom repeat. Expect most items to be missing: raise epsilon, {advice}."
        )
    return tuple(out)
