"""The settings of a run over baskets, all of them public, and what is to be expected of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpublish.declare.schema import Schema
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Settings, hidden

RANK_TOLERANCE, COUNT_TOLERANCE = Fraction(20), Fraction(4)
"""Chosen on generated baskets (benchmarks/defaults/baskets.py), as all constants here."""
KEEP = 200
"""Items that are counted again, unless another number is asked for."""
ONE_ROUND = 3
"""Universes of up to so many times `keep` are counted at once, without a first look."""
FEW_ROWS, FEW_GAUSSIAN = Fraction(5_000), Fraction(3, 10)
"""So are larger ones where there are few transactions: for each standard deviation that a count has
at the whole cost, and times the logarithm of how many times `keep` there are. Under Gaussian noise,
which grows with the root of a cap, such a part of it."""
PAIR_SHARE, MOST_PAIRS = Fraction(20, 100), Fraction(1, 2)
FEW_FOR_PAIRS = {"laplace": 3_500, "gaussian": 500}
"""Of all: for pairs. If there are more than are kept they get more, up to the second number, in
proportion to how many fewer transactions there are than five times these for each standard
deviation that a count has at the whole cost (benchmarks/defaults/baskets.py --pairs)."""
PAIR_NOISE = {"laplace": 3_500, "gaussian": 1_000}
"""Transactions for each such deviation below which the plan warns that pairs are lost in noise."""
WORTH_NAMING = 1.1
"""From here on the plan says what pairs cost the counts of items: times as much error."""
FOCUS_ITEMS, FOCUS_SETS = 100, 50
"""Among how many cells the weight that is taken off is thought to be spread."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One round: shares of the budget for the histogram of touched cells and for the counts, and
    what the cap is chosen by."""

    touched: Fraction
    counts: Fraction
    focus: int = FOCUS_SETS
    rank: bool = False

    @property
    def tolerance(self) -> Fraction:
        """How much of the loss is forgiven when the cap is chosen: an order needs less than a
        count."""
        return RANK_TOLERANCE if self.rank else COUNT_TOLERANCE


@dataclass(frozen=True, kw_only=True)
class FrequentSettings(Settings):
    """What a run works with, all of it public. A step that is None is left out."""

    items: int
    grid: int
    total_share: Fraction
    shares: dict[str, Fraction]
    budget: BudgetSplit = hidden()
    keep: int = hidden()
    pairs_kept: int = hidden()
    larger_kept: int = hidden()
    largest: int = hidden()
    rank_items: Step | None = hidden()
    count_items: Step = hidden()
    rank_pairs: Step | None = hidden()
    count_pairs: Step | None = hidden()
    count_larger: Step | None = hidden()


def share_of(
    rows: int, budget: BudgetSplit, schema: Schema, least: Fraction, most: Fraction
) -> Fraction:
    """A share that shrinks as the declared number of transactions exceeds rows / epsilon."""
    size = schema.size_or_nominal
    if size is None or budget.law != "laplace":
        return most
    needed = Fraction(rows) / (size * budget.amount)
    return max(least, min(most, Fraction(round(1000 * needed), 1000)))


def most_for_pairs(budget: BudgetSplit, schema: Schema) -> Fraction:
    """The share of pairs, where there are not many transactions for each of them."""
    size = schema.size_or_nominal
    if size is None:
        return PAIR_SHARE
    few = FEW_FOR_PAIRS[budget.law] * budget.deviation(Fraction(1)) / (size * schema.unit.max_rows)
    return max(PAIR_SHARE, min(MOST_PAIRS, Fraction(round(100 * min(few, 1.0)), 100)))


def one_round(items: int, keep: int, budget: BudgetSplit, schema: Schema) -> bool:
    """Whether all items are counted at once: there are few, or, unless another number is to be
    kept, few transactions, so that a first look could not tell their order."""
    if items <= ONE_ROUND * keep:
        return True
    if keep != KEEP:
        return False
    rows = schema.rows_or_nominal
    if rows is None:
        return False
    few = float(FEW_ROWS * (1 if budget.law == "laplace" else FEW_GAUSSIAN))
    few *= budget.deviation(Fraction(1)) * math.log(items / keep)
    return rows < few


def forecast_of(settings: FrequentSettings, schema: Schema, typical: int) -> dict[str, Any]:
    """The expected error of an item count, and the smallest support that is likely to be seen.

    Lengths are taken to fall off exponentially around the typical one, so that the cap at which
    noise and loss are even is L ln(n share epsilon / K). Where that is more than there are items,
    nothing is cut and nothing lost.
    """
    budget, step = settings.budget, settings.count_items
    rows = 100_000 if schema.rows_or_nominal is None else schema.rows_or_nominal
    unit = budget.deviation(step.counts)
    focus = min(step.focus, settings.items)
    cap = typical * math.log(max(math.e, rows / (unit * focus * float(step.tolerance))))
    cap = min(max(cap, 1.0), float(settings.items))
    grown = cap if budget.law == "laplace" else math.sqrt(cap)
    spread = unit * grown
    seen = spread
    if settings.rank_items is not None:
        first = budget.deviation(settings.rank_items.counts)
        wide = typical if budget.law == "laplace" else math.sqrt(typical)
        tail = math.log(max(2.0, settings.items / settings.keep))
        seen = max(seen, first * wide * (tail if budget.law == "laplace" else math.sqrt(2 * tail)))
    return {
        "expected_cap": cap,
        "item_standard_deviation": spread,
        "item_error": spread * (math.sqrt(0.5) if budget.law == "laplace" else 0.8)
        + (typical * unit / 2 if cap < settings.items else 0.0),
        "smallest_support": 2 * seen,
    }


def sentences_of(
    settings: FrequentSettings,
    forecast: dict[str, Any],
    schema: Schema,
    cost: Cost,
    typical: int,
    alone: float | None,
) -> tuple[str, ...]:
    found = "all" if settings.rank_items is None else f"the {settings.keep:,} most frequent"
    sets = "" if settings.count_pairs is None else f", then {settings.pairs_kept} pairs among them"
    more = (
        "" if settings.count_larger is None else f", then up to {settings.larger_kept} larger sets"
    )
    return (
        f"Supports of {found} of {settings.items:,} declared items{sets}{more}.",
        f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
        f"If transactions hold about {typical} items (typical_items), an item count is off by "
        f"about {forecast['item_error']:,.3g}, and supports above about "
        f"{forecast['smallest_support']:,.3g} can be seen. An item that is not counted reads 0.",
        *(
            ()
            if alone is None or forecast["item_error"] < WORTH_NAMING * alone
            else (
                f"Pairs and larger sets take their share: if you need the counts of items alone, "
                f"pairs = 0 brings that error to about {alone:,.3g}.",
            )
        ),
        "Long transactions count with a smaller weight. Intervals allow for what that takes away, "
        "and say how much of them that is.",
    )


def warnings_of(
    settings: FrequentSettings, forecast: dict[str, Any], schema: Schema
) -> tuple[str, ...]:
    rows = schema.rows_or_nominal
    if rows is None:
        return ()
    if forecast["smallest_support"] <= rows / 2:
        return _of_pairs(settings, rows)
    return (
        f"The smallest support that can be seen is about {forecast['smallest_support']:,.3g}, and "
        f"the schema speaks of {rows:,} transactions: expect little but noise. Raise epsilon.",
    )


def _of_pairs(settings: FrequentSettings, rows: int) -> tuple[str, ...]:
    budget = settings.budget
    few = PAIR_NOISE[budget.law] * budget.deviation(Fraction(1))
    if settings.rank_pairs is None or rows >= few:
        return ()
    better = "Raise epsilon"
    if budget.law == "laplace":
        better += "; a delta, such as 1e-9, found more in three of four such tables"
    return (
        f"With {rows:,} transactions at this cost many pairs are lost in noise: of the 50 most "
        f"frequent pairs of made-up baskets fewer than 35 were found. {better}.",
    )
