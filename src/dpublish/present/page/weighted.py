"""What a page can answer about weighted public rows: columns, ranges of them, two of them, means by
group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpublish.declare.domain import Axis
from dpublish.present.page.lookup import (
    MAX_LISTED,
    MAX_STEPS,
    Cells,
    Groups,
    Lookups,
    column_facts,
    condition,
    contiguous,
    group_condition,
    grouped,
    table_of_ranges,
)
from dpublish.present.page.summaries import LEVEL, line, summary, table_of_lines
from dpublish.present.report import bin_lengths, level_label, said_of_bins
from dpublish.query.constants import quoted
from dpublish.releases.weighted_rows.aggregates import note_of
from dpublish.releases.weighted_rows.tables import (
    Condition,
    Count,
    any_of,
    counts_of,
    cross_counts,
    group_means,
    read_conditions,
)

MAX_ASKED = 20_000
"""Cells of all cross-tables together."""
ROWS_A_CELL = 600
"""Public rows that cost as much as a cell, where every cell is worked out from all of them."""
UNSEEN = "Where no public row is, the weights say nothing, and there is no upper limit"
Side = list[tuple[str, Condition]]
"""Groups of a column: a label and the rows that it stands for."""


def weighted_lookups(release: Any) -> Lookups:
    """Columns by their bins and levels with ranges of those that have an order, cross-tables as far
    as `MAX_ASKED` goes, and means by group."""
    columns, singles, ranges, summaries = [], [], {}, {}
    sides: dict[str, Side] = {}
    for place, axis in enumerate(release.features.axes):
        codes = list(range(min(axis.cardinality, MAX_LISTED)))
        levels = _side(release, axis, [(level_label(axis, axis.labels[at]), [at]) for at in codes])
        table = _single(release, axis, levels)
        if table is None:
            continue
        singles.append(table)
        columns.append(column_facts(axis))
        masses = np.bincount(release._codes[place], release.sample_weight, axis.cardinality)
        groups = grouped(release, axis, masses.astype(np.float64))
        same = len(groups) == axis.cardinality == len(levels)
        sides[axis.name] = levels if same else _side(release, axis, groups)
        if (found := _ranges(release, axis)) is not None:
            ranges[axis.name] = found
        if lines := summary(release, axis):
            summaries[axis.name] = lines
    by_group = [
        table
        for name, other in itertools.permutations(sides, 2)
        if name in summaries
        for table in _means(release, name, other, sides[other])
    ]
    crossed, missing = _all_crossed(release, sides)
    return Lookups(
        columns,
        singles,
        ranges,
        crossed,
        missing=missing,
        summaries=summaries,
        by_group=by_group,
    )


def _side(release: Any, axis: Axis, groups: Groups) -> Side:
    """The groups that a condition can be written for."""
    texts = [(label, text) for label, codes in groups if (text := group_condition(axis, codes))]
    read = read_conditions(release, [text for _, text in texts]) if texts else []
    return [(label, one) for (label, _), one in zip(texts, read, strict=True) if one is not None]


def _single(release: Any, axis: Axis, levels: Side) -> Cells | None:
    found = counts_of(release, [one for _, one in levels], LEVEL)
    kept = [
        (label, one.text, count)
        for (label, one), count in zip(levels, found, strict=True)
        if count is not None
    ]
    if not kept:
        return None
    labels, texts, counts = zip(*kept, strict=True)
    lengths, _ = bin_lengths(axis)
    places = {level_label(axis, label): at for at, label in enumerate(axis.labels)}
    drawn = [
        round(float(lengths[places[label]]), 6) if places[label] < lengths.size else 1.0
        for label in labels
    ]
    return Cells.of(
        (axis.name,),
        [labels],
        _ends(counts),
        note=_notes(release, counts),
        where=texts,
        lengths=drawn,
        per=said_of_bins(axis),
    )


def _ranges(release: Any, axis: Axis) -> dict[str, Any] | None:
    """Every range of an ordered column between at most `MAX_STEPS` parts."""
    if not axis.ordered or axis.base < 2:
        return None
    parts = [codes for _, codes in contiguous(axis, MAX_STEPS) if codes[-1] < axis.base]
    steps = _side(release, axis, [("", codes) for codes in parts])
    if len(steps) < len(parts):
        return None
    asked = [
        any_of(
            release,
            condition(axis, parts[first][0], parts[last][-1]),
            [one for _, one in steps[first : last + 1]],
        )
        for first, last in itertools.combinations_with_replacement(range(len(parts)), 2)
    ]
    found = counts_of(release, asked, LEVEL)
    texts = [one.text for one in asked]
    return {
        **table_of_ranges(axis, parts, texts, _ends(found)),
        "note": _notes(release, found),
    }


def _means(release: Any, name: str, other: str, side: Side) -> list[Any]:
    found = group_means(release, quoted(name), [one for _, one in side], LEVEL)
    call = f"mean({quoted(name)})"
    lines = [
        (label, one.text, [] if mean is None else [line("mean", call, mean)])
        for (label, one), mean in zip(side, found, strict=True)
    ]
    return table_of_lines(name, other, lines)


def _all_crossed(release: Any, sides: dict[str, Side]) -> tuple[list[Cells], list[str]]:
    crossed: list[Cells] = []
    pairs, asked = list(itertools.combinations(sides, 2)), 0.0
    each = 1.0 if release.limits is not None else len(release.sample_weight) / ROWS_A_CELL
    for first, second in pairs:
        both = (sides[first], sides[second])
        asked += max(1.0, each) * math.prod(map(len, both))
        if asked > MAX_ASKED:
            break
        if all(both):
            crossed.append(_cross(release, (first, second), both))
    left = len(pairs) - len(crossed)
    missing = [f"{left} of {len(pairs)} pairs of columns; ask for them."] if left else []
    return crossed, missing


def _cross(release: Any, names: tuple[str, str], both: tuple[Side, Side]) -> Cells:
    firsts, seconds = ([one for _, one in side] for side in both)
    found = cross_counts(release, firsts, seconds, LEVEL)
    return Cells.of(
        names,
        [[label for label, _ in side] for side in both],
        _ends(found),
        counted=all(one is not None and one[3] == "counted" for one in found),
        note=_notes(release, found),
    )


def _ends(found: Sequence[Count | None]) -> list[Any]:
    """Value, low and high of each; no upper limit where nothing is known."""
    known = [(0.0, 0.0, math.inf) if one is None else one[:3] for one in found]
    return [np.array(end, dtype=np.float64) for end in zip(*known, strict=True)]


def _notes(release: Any, found: Sequence[Count | None]) -> str:
    bases = dict.fromkeys(one[3] for one in found if one is not None)
    notes = [note_of(basis, release.variant) for basis in bases] + [UNSEEN] * (None in found)
    return " ".join(f"{note.rstrip('.').capitalize()}." for note in notes)
