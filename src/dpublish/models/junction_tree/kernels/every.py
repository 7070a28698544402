"""All compiled loops of junction trees, under the names of `plain`."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace


@cache
def compiled() -> SimpleNamespace:
    """Loaded when first asked for."""
    from dpublish.models.junction_tree import plain
    from dpublish.models.junction_tree.kernels import cliques, margins, shrink

    return SimpleNamespace(
        sum_cells=cliques.sum_cells,
        scale_cells=cliques.scale_cells,
        scale_and_sum=cliques.scale_and_sum,
        factors=cliques.factors,
        fit_axis=margins.fit_axis,
        best_size=shrink.best_size,
        departures=shrink.departures,
        smooth_counts=plain.smooth_counts,  # compiling it takes longer than it ever saves
    )
