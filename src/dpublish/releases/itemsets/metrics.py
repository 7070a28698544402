"""Utility metrics of set-valued releases (Chen et al. 2011), for curators on data they are allowed
to look at.

They compare a release with the true transactions, so their results are not private: for tests, for
public data, and for a curator's own eyes. Never publish them with a release, and never choose a
setting by them on the data that is released.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import QueryError
from dpublish.releases.itemsets.mining import Itemset, WeightedSets, rows_with, support_table

SANITY_SHARE = 0.001
SMALL_UNIVERSE = 20


def support_of(sets: WeightedSets, items: Iterable[int]) -> float:
    """The weight of the rows that hold all of the items."""
    return float(sets.weights[rows_with(sets, tuple(items))].sum())


def supports(sets: WeightedSets, queries: Sequence[Iterable[int]]) -> NDArray[np.float64]:
    """`support_of` every query. Of a small universe all supports are worked out at once: queries
    then cost nothing."""
    if sets.items <= SMALL_UNIVERSE:
        table = support_table(sets)
        return table[[sum(1 << int(item) for item in set(query)) for query in queries]]
    return np.array([support_of(sets, query) for query in queries], dtype=np.float64)


def relative_errors(
    truth: WeightedSets,
    release: WeightedSets,
    queries: Sequence[Iterable[int]],
    *,
    sanity: float = SANITY_SHARE,
) -> NDArray[np.float64]:
    """|Q(release) - Q(truth)| / max(Q(truth), sanity * records) of every counting query.

    Exact, so as private as `truth`: not for publishing where that is private.
    """
    if not 0 < sanity <= 1:
        raise QueryError(
            f"The sanity bound is a share of the records, above 0 and at most 1; given {sanity!r}."
        )
    bound = sanity * float(truth.weights.sum())
    exact, noisy = supports(truth, queries), supports(release, queries)
    floor = np.maximum(np.maximum(exact, bound), np.finfo(np.float64).tiny)
    return np.asarray(np.abs(noisy - exact) / floor, dtype=np.float64)


def top_similarity(truth: Mapping[Itemset, float], release: Mapping[Itemset, float]) -> float:
    """One minus the mean relative error of the supports of the true top itemsets; one that is
    missing counts as zero.

    1 means that both lists agree, supports and all. It falls below 0 when supports are far too
    large. As private as `truth`: not for publishing where that is private.
    """
    if not truth:
        raise QueryError("There is no itemset to compare.")
    losses = [abs(release.get(items, 0.0) - support) / support for items, support in truth.items()]
    return 1.0 - sum(losses) / len(losses)
