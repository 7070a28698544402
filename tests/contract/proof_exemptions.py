"""What covered code uses and no proof needs to cover, with the reason. A name that ends in a dot stands for all of a module."""

from __future__ import annotations

EXEMPT = {
    "words, names and forecasts for people, made from public facts; no draw depends on them": (
        "dpublish.cost.show",
        "dpublish.mechanisms.optimize.lower_bounds.",
        "dpublish.mechanisms.optimize.planning.digest_of",
        "dpublish.mechanisms.optimize.planning.label_column",
        "dpublish.mechanisms.optimize.planning.solution_plan",
        "dpublish.mechanisms.queries.common.some_queries",
        "dpublish.mechanisms.sets.basic_itemsets.item_deviation",
        "dpublish.mechanisms.sets.set_partition._sentences",
        "dpublish.mechanisms.sets.set_partition._warnings",
        "dpublish.mechanisms.tables.projected_plan.expectations",
        "dpublish.mechanisms.tables.projected_plan.warnings_for",
        "dpublish.mechanisms.tables.thresholds.laplace_deviation",
        "dpublish.mechanisms.weighting.planning.error_table",
        "dpublish.mechanisms.weighting.planning.forecast",
        "dpublish.mechanisms.weighting.wording.",
    ),
    "reads or refuses public settings, before anything is planned": (
        "dpublish.mechanisms.field_types.",
        "dpublish.mechanisms.optimize.k_median._is_map",
        "dpublish.mechanisms.optimize.planning.amounts",
    ),
    "reads public rows and earlier releases, never private rows": ("dpublish.mechanisms.weighting.public_sets.",),
    "works on reports that were randomised before they arrived": (
        "dpublish.local.estimates.",
        "dpublish.local.base.Tally",
        "dpublish.local.base.count_codes",
        "dpublish.local.base.report_codes",
        "dpublish.local.base.tallied",
        "dpublish.local.biased.count_set_bits",
        "dpublish.local.conjunctions.ConjunctionEstimates",
        "dpublish.local.hitters.Hitter",
        "dpublish.local.hitters._extend",
        "dpublish.local.walsh.transform",
    ),
}


def is_exempt(name: str) -> bool:
    listed = [entry for entries in EXEMPT.values() for entry in entries]
    return name in listed or any(entry.endswith(".") and name.startswith(entry) for entry in listed)
