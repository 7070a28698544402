"""Set-valued data by top-down partitioning (DiffPart): transactions in, itemsets with noisy counts
out.

In: transactions over a declared item universe (private). Out: the itemsets whose noisy count passed
a public threshold, with those counts, and the noisy counts of the partitions that led to them. None
of the 2^items combinations is enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.declare.taxonomy import Taxonomy, context_free, written
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.basic_itemsets.mechanism import MAX_ITEMS, item_deviation
from dpublish.methods.draws import (
    MAX_THRESHOLD,
    laplace_deviation,
    noisy_total,
    survival_probability,
    visible_count,
)
from dpublish.methods.field_types import Interval
from dpublish.methods.set_partition.engine import (
    QUANTA,
    Partitioning,
    Rules,
    likely_splits,
)
from dpublish.methods.set_partition.transactions import (
    DEFAULT_COUNT_SHARE,
    Baskets,
    ItemSettings,
    Number,
    Share,
    Transactions,
    check_request,
    described_schema,
    item_names,
    taxonomy_tables,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden

STEP_BITS = 2
LEAF_BITS = 5
DEFAULT_MAX_PARTITIONS = 4_000_000
THEOREM_DELTA = 0.05
MOST_ITEMS = (1 << 31) - 1
"""More than a transaction can hold."""
FEW_ITEMS = 7
"""Universes of more items are better served by frequent-itemsets, as far as counts of items and
pairs go (benchmarks/defaults/set_partition_warning.py)."""


def noisy_itemsets(noise: Noise, numbers: Baskets, plan: Plan[PartitionSettings]) -> Output:
    """The mechanism. Measure the number of transactions; select partitions from the root of the
    taxonomy down, by noisy counts above public thresholds; measure the itemsets of the last."""
    taxonomy = plan.settings.taxonomy
    total = noisy_total(noise, numbers.records, plan.settings.count_epsilon, plan.schema)
    work = Partitioning(noise, numbers, taxonomy, plan.settings.rules)
    while work.waiting:
        work.split_next()
    outcome = work.count_itemsets()
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
            "partitions": outcome.partitions,
            "itemsets": outcome.itemsets,
            "members": {"item": outcome.members},
        },
    )


@dataclass(frozen=True, kw_only=True)
class PartitionSettings(ItemSettings):
    """What a partitioning works with: the public tree of items, and what governs a run."""

    taxonomy: Taxonomy = hidden()
    rules: Rules = hidden()


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
        one item per row.
    basket : the column that says which rows make up one transaction, when there is one item per
        row.
    separator : what separates the items of a text; blanks when left out.
    fanout : how many nodes the context-free taxonomy groups per level.
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

    Examples
    --------
    >>> SetPartition(column="basket", separator=",").fanout
    10
    """

    column: str = "items"
    basket: str | None = None
    separator: str | None = None
    fanout: int = 10
    taxonomy: str | Mapping[str, object] | None = None
    typical_items: Annotated[int | None, Interval(2)] = 16
    max_items: Annotated[int | None, Interval(1)] = None
    false_partitions: Annotated[Number, Interval(above=0)] = Fraction(1, 10)
    false_itemsets: Annotated[Number, Interval(above=0)] = Fraction(1, 2)
    c1: Annotated[Number | None, Interval(above=0)] = None
    c2: Annotated[Number | None, Interval(above=0)] = None
    count_share: Share = DEFAULT_COUNT_SHARE
    max_partitions: Annotated[int, Interval(1)] = DEFAULT_MAX_PARTITIONS

    def plan(self, schema: Schema, cost: Cost) -> Plan[PartitionSettings]:
        check_request(schema, cost, "Set partitioning")
        schema = described_schema(schema, self.basket)
        share = exact(self.count_share, "count_share")
        taxonomy = self._tree(schema)
        rules = self._rules(cost.epsilon * (1 - share), schema.relation.l1)
        self._check_thresholds(taxonomy, rules)
        settings = PartitionSettings(
            items=taxonomy.items,
            sensitivity=rules.sensitivity,
            count_epsilon=cost.epsilon * share,
            partition_epsilon=rules.epsilon,
            taxonomy=taxonomy,
            rules=rules,
        )
        forecast = forecast_of(taxonomy, rules)
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
            settings=settings,
            forecast=asdict(forecast),
            sentences=_sentences(settings, forecast, schema, cost, self.max_items),
            warnings=tuple(_warnings(settings, forecast, schema, self.max_items)),
        )

    def statistic(self, plan: Plan) -> Transactions:
        return Transactions(self.column, self.basket, self.separator, self.max_items)

    def run(self, noise: Noise, numbers: Baskets, plan: Plan[PartitionSettings]) -> Output:
        return noisy_itemsets(noise, numbers, plan)

    @property
    def _expected_items(self) -> int | None:
        """How many items budgets are shared out for."""
        if self.typical_items is None:
            return None
        most = MOST_ITEMS if self.max_items is None else self.max_items
        return max(2, min(self.typical_items, most))

    def _tree(self, schema: Schema) -> Taxonomy:
        names = item_names(schema)
        return (
            context_free(len(names), self.fanout)
            if self.taxonomy is None
            else written(self.taxonomy, names)
        )

    def _rules(self, epsilon: Fraction, sensitivity: Fraction) -> Rules:
        false_partitions = exact(self.false_partitions, "false_partitions")
        if false_partitions >= 1:
            raise PlanError(
                f"false_partitions must be below 1, or false partitions would multiply; given "
                f"{float(false_partitions):g}."
            )
        false_itemsets = exact(self.false_itemsets, "false_itemsets")
        c1, c2 = (
            None if value is None else exact(value, name)
            for value, name in ((self.c1, "c1"), (self.c2, "c2"))
        )
        unit = 2 * QUANTA * sensitivity / epsilon  # the noise scale of one quantum
        return Rules(
            epsilon=epsilon,
            sensitivity=sensitivity,
            partition_threshold=partial(_threshold, unit, false_partitions, c2),
            leaf_threshold=partial(_threshold, unit, false_itemsets, c1),
            step_bits=STEP_BITS,
            leaf_bits=LEAF_BITS,
            max_partitions=self.max_partitions,
            typical_items=self._expected_items,
        )

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
            false = ((1 << width) - 1) * survival_probability(
                rules.scale_of(first), rules.partition_threshold(first, width, height)
            )
            if false >= 1:
                least = math.log((1 << width) - 1) / math.sqrt(2) / height
                raise PlanError(
                    f"c2 = {self.c2} lets about {false:,.1f} empty parts pass at every split of "
                    f"{width} children: they "
                    f"would multiply without end. Leave c2 out, take c2 = "
                    f"{math.ceil(10 * least) / 10:g}, or a smaller fanout."
                )


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What to expect of a partitioning, for people. `first` is the split of all transactions."""

    best_itemset_scale: Fraction
    best_itemset_threshold: int
    worst_itemset_scale: Fraction
    worst_itemset_threshold: int
    nodes: int
    levels: int
    first_scale: float
    first_threshold: int
    first_visible: int
    itemset_standard_deviation: float
    itemset_error: float


def forecast_of(taxonomy: Taxonomy, rules: Rules) -> Forecast:
    """Worked out from public facts; refuses a cost at which no count could be published."""
    single = taxonomy.nodes == 1
    first = 2 * QUANTA if single else QUANTA // likely_splits(taxonomy, rules.typical_items)
    width, height = int(taxonomy.child_offset[1]), int(taxonomy.height[0])
    rule = rules.leaf_threshold if single else rules.partition_threshold
    threshold = rule(first, width, height)
    best, worst = (rules.leaf_threshold(q, taxonomy.widest, 1) for q in (2 * QUANTA, QUANTA))
    if threshold >= MAX_THRESHOLD or worst >= MAX_THRESHOLD:
        raise PlanError(
            f"epsilon = {float(rules.epsilon):g} is too small for {taxonomy.items:,} items: no "
            f"count would pass."
        )
    worst_scale = rules.scale_of(QUANTA)
    # later splits may have more children than the first, and pass only with more
    deepest = max(
        one(first, int(children), int(above))
        for one in ((rule,) if single else (rules.partition_threshold, rules.leaf_threshold))
        for children, above in zip(np.diff(taxonomy.child_offset), taxonomy.height, strict=True)
    )
    return Forecast(
        best_itemset_scale=rules.scale_of(2 * QUANTA),
        best_itemset_threshold=best,
        worst_itemset_scale=worst_scale,
        worst_itemset_threshold=worst,
        nodes=taxonomy.nodes,
        levels=height,
        first_scale=float(rules.scale_of(first)),
        first_threshold=threshold,
        first_visible=visible_count(rules.scale_of(first), threshold),
        itemset_standard_deviation=laplace_deviation(worst_scale),
        itemset_error=counting_error(rules, taxonomy, first, deepest, itemsets=1),
    )


def counting_error(
    rules: Rules, taxonomy: Taxonomy, first: int, threshold: int, *, itemsets: int
) -> float:
    """The paper's theorem 4.2: but for a chance of `THEOREM_DELTA`, a counting query that covers so
    many itemsets (of the data or of the release) is off by at most this.

    An itemset is lost where the noisy count of a partition around it is at most the threshold; its
    true count is then at most threshold plus noise. The paper takes one noise per itemset; here the
    chance is bounded over all splits of its chain. First splits have the widest noise, so that the
    bound holds for itemsets of up to `typical_items` items, with the largest threshold that any
    split could have at that noise.
    """
    chances = itemsets * likely_splits(taxonomy, rules.typical_items) / (2 * THEOREM_DELTA)
    reach = float(rules.scale_of(first)) * math.log(chances)
    return itemsets * (threshold + max(0.0, reach))


@lru_cache(maxsize=1 << 16)
def _threshold(
    unit: Fraction,
    limit: Fraction,
    constant: Fraction | None,
    quanta: int,
    width: int,
    height: int,
) -> int:
    """The rule for one kind of count. Floats are fine: a threshold is a public integer."""
    scale = unit / quanta
    if constant is not None:
        deviations = math.sqrt(2) * float(constant) * max(1, height)
        return max(0, math.ceil(deviations * float(scale)) - 1)
    return automatic_threshold(scale, (1 << width) - 1, float(limit))


def automatic_threshold(scale: Fraction, cells: int, limit: float) -> int:
    """About the least threshold at which at most `limit` of `cells` empty cells are expected to
    pass."""
    base = survival_probability(scale, -1)
    if cells * base <= limit:
        return 0
    return max(0, math.ceil(float(scale) * math.log(cells * base / limit)) - 1)


def _sentences(
    settings: PartitionSettings,
    forecast: Forecast,
    schema: Schema,
    cost: Cost,
    max_items: int | None,
) -> tuple[str, ...]:
    cut: tuple[str, ...] = ()
    small: tuple[str, ...] = ()
    typical = settings.rules.typical_items or settings.items
    longest = settings.items if max_items is None else min(settings.items, max_items)
    most = f" of up to {typical:,} items" if typical < longest else ""
    if max_items is not None:
        cut = (
            f"Every transaction is cut to its first {max_items:,} declared item(s); counts are of "
            f"cut transactions.",
        )
    if 2 <= settings.items <= MAX_ITEMS:
        deviation = item_deviation(settings.items, forecast.best_itemset_scale)
        small = (
            f"With so few items, basic-itemsets leaves nothing out: at this cost it would count "
            f"any one item with a standard deviation of {deviation:,.4g}. Compare.",
        )
    return (
        f"Itemsets over {settings.items:,} declared items, by a taxonomy of {forecast.nodes:,} "
        f"groups in {forecast.levels} level(s).",
        f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
        *cut,
        f"The first split needs about {forecast.first_visible:,} transactions on a side to see it "
        f"(noise scale {forecast.first_scale:,.4g}); later splits need fewer.",
        f"Published counts have noise of scale {float(forecast.best_itemset_scale):,.4g} to "
        f"{float(forecast.worst_itemset_scale):,.4g}; only sets of items that more than "
        f"{forecast.best_itemset_threshold:,} to {forecast.worst_itemset_threshold:,} transactions "
        f"hold, and nothing besides, are published.",
        f"The count of any one itemset{most} is off by at most {forecast.itemset_error:,.4g} in 95 "
        f"of 100 releases, lost itemsets included (theorem 4.2 of the paper).",
        *small,
    )


def _warnings(
    settings: PartitionSettings, forecast: Forecast, schema: Schema, max_items: int | None
) -> Iterator[str]:
    if settings.items > FEW_ITEMS:
        yield (
            "For counts of items, pairs and rules expect smaller errors from frequent-itemsets. "
            "This method publishes whole transactions, as far as they repeat."
        )
    if settings.count_epsilon == 0:
        yield (
            "No number of transactions is published, so intervals have no upper bound (count_share "
            "= 0)."
        )
    size = schema.rows_or_nominal
    if size is None:
        return
    needed = forecast.worst_itemset_threshold + 1
    if forecast.first_visible > size:
        yield (
            f"The first split needs about {forecast.first_visible:,} transactions and the schema "
            f"speaks of {size:,}: expect an "
            "empty release. Raise epsilon, declare fewer items or take a larger fanout."
        )
    elif size < needed * settings.items:
        advice = (
            "declare fewer items"
            if max_items is not None
            else "declare fewer items, or set max_items (2 or 3)"
        )
        yield (
            f"There are {size / settings.items:,.1f} transactions for each declared item, and an "
            f"itemset needs about {needed:,} of its own: at most {size // needed:,} itemsets can "
            f"be published, and far fewer if transactions seldom repeat. Expect most items to be "
            f"missing: raise epsilon, {advice}."
        )
