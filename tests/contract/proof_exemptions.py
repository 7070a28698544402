"""What covered code uses and no proof needs to cover, with the reason. A name that ends in a dot
stands for all of a module."""

from __future__ import annotations

EXEMPT = {
    "which files were paid for on this machine: names alone, and public": (
        "dpublish.ledger.state.is_remembered",
    ),
    "rows that are drawn from the schema: nobody gave them": (
        "dpublish.curator.rehearse.stand_in",
    ),
    "words, names and forecasts for people, made from public facts; no draw depends on them": (
        "dpublish.privacy.cost.show",
        "dpublish.methods.solvers.planning.cover_factor",
        "dpublish.methods.solvers.planning.cut_excess",
        "dpublish.methods.solvers.planning.missed",
        "dpublish.methods.solvers.planning.nothing_ruled_out",
        "dpublish.methods.solvers.planning.digest_of",
        "dpublish.methods.solvers.planning.label_column",
        "dpublish.methods.solvers.planning.solution_plan",
        "dpublish.methods.query_list.some_queries",
        "dpublish.methods.basic_itemsets.mechanism.item_deviation",
        "dpublish.methods.frequent_itemsets.plan.forecast_of",
        "dpublish.methods.frequent_itemsets.plan.sentences_of",
        "dpublish.methods.frequent_itemsets.plan.warnings_of",
        "dpublish.methods.basic_itemsets.mechanism.MANY_ITEMS",
        "dpublish.methods.set_partition.mechanism.forecast_of",
        "dpublish.methods.set_partition.mechanism._sentences",
        "dpublish.methods.set_partition.mechanism._warnings",
        "dpublish.methods.histogram.mechanism.THRESHOLD_FOLLOWS",
        "dpublish.methods.histogram.mechanism.noise_sentence",
        "dpublish.methods.histogram.mechanism.total_warnings",
        "dpublish.methods.histogram.mechanism.collapsed_warnings",
        "dpublish.methods.histogram.mechanism.drowned_warnings",
        "dpublish.methods.draws.visible_count",
        "dpublish.methods.projected_histogram.forecast.expectations",
        "dpublish.methods.projected_histogram.forecast.expected_sentences",
        "dpublish.methods.projected_histogram.forecast.choice_sentences",
        "dpublish.methods.projected_histogram.forecast.level_warnings",
        "dpublish.methods.projected_histogram.column_count.words_of_gamma",
        "dpublish.methods.projected_histogram.forecast.service_sentences",
        "dpublish.methods.projected_histogram.forecast.service_warnings",
        "dpublish.methods.projected_histogram.column_count._often",
        "dpublish.methods.joined_histograms.plan.quantile_noise",
        "dpublish.methods.joined_histograms.words.quantile_warning",
        "dpublish.methods.joined_histograms.words.unused_totals",
        "dpublish.methods.joined_histograms.plan.QUANTILE_NOISE",
        "dpublish.methods.projected_histogram.plan.ALL_COLUMNS",
        "dpublish.methods.projected_histogram.plan.FREE",
        "dpublish.methods.projected_histogram.forecast.warnings_for",
        "dpublish.methods.interval_tree.mechanism.typical_error",
        "dpublish.methods.draws.laplace_deviation",
        "dpublish.methods.importance_weights.planning.error_table",
        "dpublish.methods.importance_weights.planning.forecast",
        "dpublish.methods.importance_weights.plan.balanced_sentences",
        "dpublish.methods.importance_weights.plan.moment_sentences",
    ),
    "chooses from public facts among things to measure whose cost is proved for each; the "
    "mechanism itself checks that the shares add up": (
        "dpublish.methods.workload.lists.",
        "dpublish.methods.workload.plan.",
        "dpublish.methods.workload.strategy.asked_columns",
        "dpublish.methods.workload.strategy.parts_of",
        "dpublish.methods.workload.strategy.width_of",
    ),
    "names a hierarchy, or points, from published boxes alone; how a hierarchy adds up, and how "
    "many levels are paid for, is `Hierarchy`, which is covered": (
        "dpublish.models.hierarchical_counts.best_for_ranges",
        "dpublish.models.hierarchical_counts.best_for_weights",
        "dpublish.models.hierarchical_counts.spread_points",
    ),
    "reads or refuses public settings, before anything is planned": (
        "dpublish.methods.field_types.",
        "dpublish.methods.solvers.k_median.mechanism._is_map",
        "dpublish.methods.solvers.planning.amounts",
    ),
    "reads public rows and earlier releases, never private rows": (
        "dpublish.models.junction_tree.measured.read_measured",
        "dpublish.methods.importance_weights.public_sets.",
    ),
    "noise for tests and simulations; what is made with it is marked as not publishable": (
        "dpublish.noise.source.SeededNoise",
    ),
    "opens the ledger whose accounting is proved; which copies are trusted at first use is told "
    "in docs/ledger.md": ("dpublish.ledger.open_ledger",),
    "a place where tests stop a run; it does nothing in a release": (
        "dpublish.ledger.crashpoints.",
    ),
    "works on reports that were randomised before they arrived": (
        "dpublish.local.estimates.",
        "dpublish.local.base.Tally",
        "dpublish.local.base.count_codes",
        "dpublish.local.base.report_codes",
        "dpublish.local.base.tallied",
        "dpublish.local.unary.count_set_bits",
        "dpublish.local.conjunctions.ConjunctionEstimates",
        "dpublish.local.hitters.Hitter",
        "dpublish.local.hitters._extend",
        "dpublish.local.hashing.transform",
    ),
}


def is_exempt(name: str) -> bool:
    listed = [entry for entries in EXEMPT.values() for entry in entries]
    return name in listed or any(entry.endswith(".") and name.startswith(entry) for entry in listed)
