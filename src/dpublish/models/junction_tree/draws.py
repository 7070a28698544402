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
    sizes = np.bincount(keys, minlength=rows)
    offsets: Floats = np.asarray(generator.random(rows))
    ends = np.cumsum(conditional, axis=1)
    ends /= ends[:, -1:]
    # of the rows of a key, the r-th has its spot at (r + offset) / size: so many lie below each end
    below = np.clip(np.ceil(ends * sizes[:, None] - offsets[:, None]), 0, sizes[:, None])
    below[:, -1] = sizes
    counts = np.diff(below, axis=1, prepend=0.0).astype(np.int64)
    small = np.uint8 if values <= 1 << 8 else np.uint16 if values <= 1 << 16 else np.int64
    drawn = np.repeat(np.tile(np.arange(values, dtype=small), rows), counts.ravel())
    stops = np.cumsum(sizes)
    for start, stop in zip((stops - sizes).tolist(), stops.tolist(), strict=True):
        if stop - start > 1:
            generator.shuffle(drawn[start:stop])
    # short whole numbers are sorted by their digits, in time proportional to the rows
    order = np.argsort(keys.astype(np.uint16) if rows <= 1 << 16 else keys, kind="stable")
    out = np.empty(len(keys), dtype=np.int64)
    out[order] = drawn
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
