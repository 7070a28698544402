"""Systematic draws: every value occurs as often as expected, give or take one, within every set of
rows with the same key."""

from __future__ import annotations

import numpy as np

from dpublish.models.junction_tree.consistency import Floats, Ints


def draw(keys: Ints, conditional: Floats, generator: np.random.Generator) -> Ints:
    """One value per row, from the distribution in the row of `conditional` that its key names, by
    systematic sampling."""
    rows, values = conditional.shape
    if values == 1 or not len(keys):
        return np.zeros(len(keys), dtype=np.int64)
    mixed = generator.permutation(len(keys))
    order = mixed[np.argsort(keys[mixed], kind="stable")]
    sizes = np.bincount(keys, minlength=rows)
    starts = np.cumsum(sizes) - sizes
    sorted_keys = keys[order]
    ranks = np.arange(len(keys)) - starts[sorted_keys]
    offsets: Floats = np.asarray(generator.random(rows))
    spots = (ranks + offsets[sorted_keys]) / sizes[sorted_keys]
    ends = np.cumsum(conditional, axis=1)
    ends /= ends[:, -1:]
    found = np.searchsorted(
        (ends + np.arange(rows)[:, None]).ravel(), sorted_keys + spots, side="right"
    )
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = np.clip(found - sorted_keys * values, 0, values - 1)
    return out


def draw_levels(
    within: Floats, group_of: Ints, group: Ints, label: Ints, generator: np.random.Generator
) -> Ints:
    """Levels within groups, by P(level | group, label). All groups share one cumulative table, each
    a stretch of it."""
    by_group = np.argsort(group_of, kind="stable")
    sizes = np.bincount(group_of)
    widest = int(sizes.max())
    if widest == 1:
        alone: Ints = by_group[group]
        return alone
    starts = np.cumsum(sizes) - sizes
    place = np.arange(len(group_of)) - starts[group_of[by_group]]
    conditional = np.zeros((len(sizes), within.shape[1], widest))
    conditional[group_of[by_group], :, place] = within[by_group]
    picked = draw(group * within.shape[1] + label, conditional.reshape(-1, widest), generator)
    levels: Ints = by_group[starts[group] + np.minimum(picked, sizes[group] - 1)]
    return levels
