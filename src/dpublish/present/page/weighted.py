"""What a page can answer about weighted public rows: columns, two of them, means by group."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any

import numpy as np

from dpublish.errors import PublishError
from dpublish.present.page.lookup import (
    MAX_LABELS,
    MAX_LISTED,
    Cells,
    Lookups,
    column_facts,
    condition,
    group_condition,
    grouped,
)
from dpublish.present.page.summaries import LEVEL, summary, summary_by_group
from dpublish.present.report import bin_lengths, level_label
from dpublish.releases.weighted_rows.notes import note_of
from dpublish.releases.weighted_rows.tables import RowsSay, cross_counts

MAX_ASKED = 4_000
"""Cells of all cross-tables together."""
ROWS_A_CELL = 2_000
"""Public rows that cost as much as a cell, where every cell is worked out from all of them."""
UNSEEN = "Where no public row is, the weights say nothing, and there is no upper limit"
_ENDS = ("value", "low", "high")


def weighted_lookups(release: Any) -> Lookups:
    """Columns by their bins and levels, cross-tables as far as `MAX_ASKED` goes, and means by
    group."""
    says, axes = RowsSay(release), release.features.axes
    columns, singles, summaries, by_group = [], [], {}, []
    for axis in axes:
        labels, wheres, answers = [], [], []
        for code in range(min(axis.cardinality, MAX_LISTED)):
            text = condition(axis, code, code)
            try:
                answers.append(says.count(text, LEVEL) if text else None)
            except PublishError:
                answers.append(None)
            labels.append(level_label(axis, axis.labels[code]))
            wheres.append(text)
        kept = [place for place, one in enumerate(answers) if one is not None]
        found = [one for one in answers if one is not None]
        if not found:
            continue
        numbers = [np.array([getattr(one, name) for one in found]) for name in _ENDS]
        notes = list(dict.fromkeys(one.note for one in found if one.note))
        lengths, per = bin_lengths(axis)
        drawn = [round(float(lengths[at]), 6) if at < lengths.size else 1.0 for at in kept]
        singles.append(
            Cells.of(
                (axis.name,),
                [[labels[at] for at in kept]],
                numbers,
                note=" ".join(f"{note.rstrip('.').capitalize()}." for note in notes),
                where=[wheres[at] for at in kept],
                lengths=drawn,
                per=per,
            )
        )
        columns.append(column_facts(axis))
        if lines := summary(release, axis):
            summaries[axis.name] = lines
    for axis, other in itertools.permutations(axes, 2):
        if axis.name in summaries and other.cardinality <= MAX_LABELS:
            groups = [
                (level_label(other, label), condition(other, code, code))
                for code, label in enumerate(other.labels)
            ]
            by_group += summary_by_group(release, axis, other.name, groups)
    crossed: list[Cells] = []
    pairs, asked = list(itertools.combinations(range(len(axes)), 2)), 0.0
    each = 1.0 if release.limits is not None else 1.0 + len(release.sample_weight) / ROWS_A_CELL
    for pair in pairs:
        sides = [_side(release, place) for place in pair]
        asked += each * math.prod(map(len, sides))
        if asked > MAX_ASKED:
            break
        with contextlib.suppress(PublishError):  # it is one of those that are missing then
            if all(sides):
                crossed.append(_cross(release, tuple(axes[at].name for at in pair), sides))
    left = len(pairs) - len(crossed)
    missing = [f"{left} of {len(pairs)} pairs of columns; ask for them."] if left else []
    return Lookups(
        columns, singles, crossed=crossed, missing=missing, summaries=summaries, by_group=by_group
    )


def _side(release: Any, place: int) -> list[tuple[str, str]]:
    axis = release.features.axes[place]
    masses = np.bincount(release._codes[place], release.sample_weight, axis.cardinality)
    groups = grouped(release, axis, masses.astype(np.float64))
    return [(label, text) for label, codes in groups if (text := group_condition(axis, codes))]


def _cross(release: Any, names: tuple[str, ...], sides: Any) -> Cells:
    first, second = ([text for _, text in side] for side in sides)
    found = cross_counts(release, first, second, LEVEL)
    known = [(0.0, 0.0, math.inf) if one is None else one[:3] for one in found]
    bases = dict.fromkeys(one[3] for one in found if one is not None)
    notes = [note_of(basis, release.variant) for basis in bases] + [UNSEEN] * (None in found)
    return Cells.of(
        names,
        [[label for label, _ in side] for side in sides],
        [np.array(end) for end in zip(*known, strict=True)],
        counted=list(bases) == ["counted"] and None not in found,
        note=" ".join(f"{note.rstrip('.').capitalize()}." for note in notes),
    )
