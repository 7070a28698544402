"""What a page can answer: tables of numbers that the release itself worked out.

The page only looks numbers up; no statistics are done in a browser. Counts are stored as whole
numbers, rounded as Python prints them, so that what a reader sees is what the release says.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, spelled
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import PublishError
from dpublish.present.charts import visible
from dpublish.present.page.summaries import LEVEL, summary, summary_by_group
from dpublish.present.report import axis_title, bin_lengths, level_label, said_of_bins
from dpublish.query.constants import quoted, quoted_text

if TYPE_CHECKING:
    import polars as pl


MAX_LABELS = 12
"""Rows and columns of a cross-table; longer columns are grouped."""
MAX_LISTED = 400
"""Values of a single column that are listed, the largest first."""
MAX_STEPS = 12
"""Parts that the ranges of an ordered column begin and end at."""
MAX_CELLS = 1 << 17
"""Cells of a table that is worked out in order to be grouped."""
MAX_ITEMSETS, MAX_RULES = 300, 100
MAX_ADDED = 6
"""Cells whose limits are added up; a larger group is bounded by what its columns say of it."""
Groups = list[tuple[str, list[int]]]
"""A label and the codes that it stands for."""


@dataclass(frozen=True)
class Cells:
    """One table: labels by column, and for each combination the number and its limits."""

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    value: Sequence[int | None]
    low: Sequence[int | None]
    high: Sequence[int | None]
    counted: bool = True
    note: str = ""
    where: Sequence[str] = ()
    """The condition that asks for each row, where one can be written."""
    lengths: Sequence[float] = ()
    per: str = ""
    """How long rows of each bin are drawn where bins differ in width, and what that shows."""

    @classmethod
    def of(
        cls,
        columns: tuple[str, ...],
        labels: Sequence[Sequence[str]],
        numbers: Sequence[Floats],
        **rest: Any,
    ) -> Cells:
        """A table of the arrays value, low and high."""
        value, low, high = (printed(one.ravel()) for one in numbers)
        return cls(columns, tuple(tuple(one) for one in labels), value, low, high, **rest)

    def to_json(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "columns": self.columns,
            "labels": [[visible(label) for label in side] for side in self.labels],
            "v": self.value,
            "l": self.low,
            "h": self.high,
        }
        more = {
            "uncounted": not self.counted,
            "note": self.note,
            "where": self.where,
            "s": self.lengths if self.per else (),
            "per": self.per,
        }
        return facts | {key: value for key, value in more.items() if value}


@dataclass(frozen=True)
class Lookups:
    """All tables of a page. `ranges` are by column: for every pair of steps one number."""

    columns: Sequence[Mapping[str, Any]] = ()
    singles: Sequence[Cells] = ()
    ranges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    crossed: Sequence[Cells] = ()
    lists: Sequence[Cells] = ()
    missing: Sequence[str] = ()
    """Tables that the page does not have, and why."""
    summaries: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    """Mean and quantiles of columns of numbers, as they are printed."""
    by_group: Sequence[Mapping[str, Any]] = ()
    """The same in the groups of another column, where the two were counted together."""


def lookups(release: Any, by: Sequence[str] = ()) -> Lookups:
    """Everything that the page can look up about a release, whatever its kind."""
    domain = getattr(release, "domain", None)
    if hasattr(release, "top_itemsets"):
        return Lookups(lists=_baskets(release))
    if hasattr(release, "shape") and hasattr(release, "ranges"):
        return _tree_lookups(release)
    if isinstance(domain, Domain) and domain.axes and hasattr(release, "marginal"):
        return _table_lookups(release, domain, by)
    if hasattr(release, "sample_weight") and "rows" in release.tables:
        from dpublish.present.page.weighted import weighted_lookups

        return weighted_lookups(release)
    return Lookups()


# -- tables of a domain


def _table_lookups(release: Any, domain: Domain, by: Sequence[str]) -> Lookups:
    singles = [one for axis in domain.axes if (one := _single(release, axis)) is not None]
    shown = [domain.axis(one.columns[0]) for one in singles]
    ranges = {axis.name: found for axis in shown if (found := _ranges(release, axis)) is not None}
    crossed, missing = [], []
    for first, second in itertools.combinations(shown, 2):
        try:
            crossed.append(_cross(release, (first, second)))
        except PublishError as error:
            missing.append(f"{first.name} by {second.name}: {error}")
    if by:
        crossed.append(_cross(release, tuple(domain.axis(name) for name in by)))
    columns = [column_facts(axis) for axis in shown]
    summaries = {axis.name: lines for axis in shown if (lines := summary(release, axis))}
    by_group = []
    for axis, other in itertools.permutations(shown, 2):
        if axis.name in summaries and counted_together(release, (axis.name, other.name)):
            groups = [
                (label, group_condition(other, codes)) for label, codes in grouped(release, other)
            ]
            by_group += summary_by_group(release, axis, other.name, groups)
    return Lookups(
        columns, singles, ranges, crossed, missing=missing, summaries=summaries, by_group=by_group
    )


def column_facts(axis: Axis) -> dict[str, Any]:
    """A column, in the words of the schema where it has any."""
    said = {"title": visible(axis_title(axis)), "about": visible(axis.wording.description)}
    words = {key: text for key, text in said.items() if text and text != axis.name}
    return {"name": axis.name, "kind": axis.kind, "ordered": axis.ordered, **words}


def _single(release: Any, axis: Axis) -> Cells | None:
    if axis.cardinality > MAX_CELLS:
        return None
    frame = release.marginal(axis.name, level=LEVEL)
    value, low, high = _numbers(frame)
    kept = np.arange(value.size)
    note = ""
    if value.size > MAX_LISTED:
        kept = np.sort(np.argsort(-value, kind="stable")[:MAX_LISTED])
        note = f"The {MAX_LISTED} largest of {value.size:,} values."
    lengths, _ = bin_lengths(axis)
    drawn = [round(float(lengths[code]), 6) if code < lengths.size else 1.0 for code in kept]
    return Cells.of(
        (axis.name,),
        [[level_label(axis, axis.labels[int(code)]) for code in kept]],
        [one[kept] for one in (value, low, high)],
        note=" ".join((note, *release.basis_notes(frame))).strip(),
        where=[condition(axis, int(code), int(code)) for code in kept],
        lengths=drawn,
        per=said_of_bins(axis),
    )


def _ranges(release: Any, axis: Axis) -> dict[str, Any] | None:
    """Every range of an ordered column between at most `MAX_STEPS` parts."""
    if not axis.ordered or axis.base < 2 or not hasattr(release, "estimate"):
        return None
    parts = [codes for _, codes in contiguous(axis, MAX_STEPS) if codes[-1] < axis.base]
    spans = itertools.combinations_with_replacement(parts, 2)
    texts = [condition(axis, first[0], last[-1]) for first, last in spans]
    if not all(texts):
        return None
    found = [release.estimate(text, level=LEVEL) for text in texts]
    ends = ([getattr(one, end) for one in found] for end in ("value", "low", "high"))
    return table_of_ranges(axis, parts, texts, ends)


def table_of_ranges(
    axis: Axis, parts: Sequence[Sequence[int]], texts: Sequence[str], ends: Iterable[Any]
) -> dict[str, Any]:
    """Value, low and high of every range between two parts, in the order of `combinations`."""
    return {
        "from": [axis.label(part[0]) for part in parts],
        "to": [axis.label(part[-1]) for part in parts],
        **dict(zip("vlh", map(printed, ends), strict=True)),
        "where": texts,
    }


def _cross(release: Any, axes: tuple[Axis, ...]) -> Cells:
    """A table of two columns or more, grouped to at most `MAX_LABELS` values each.

    A group adds up cells. The limits of a few cells are added up too, each at so much of the level
    that all of them hold together at the level that is stated. Of a larger group no more is said
    than that it has at most as many rows as each of its parts has alone.
    """
    cells = math.prod(axis.cardinality for axis in axes)
    names = tuple(axis.name for axis in axes)
    if cells > MAX_CELLS:
        raise PublishError(f"{cells:,} combinations are too many for a page.")
    groups = [grouped(release, axis) for axis in axes]
    sizes = functools.reduce(
        np.multiply.outer, [np.array([len(codes) for _, codes in one]) for one in groups]
    )
    most = int(sizes[sizes <= MAX_ADDED].max(initial=1))
    frame = release.marginal(*names, level=1 - (1 - LEVEL) / most)
    value, low, high = (
        _summed(one.reshape([axis.cardinality for axis in axes]), groups) for one in _numbers(frame)
    )
    large = sizes > MAX_ADDED
    if large.any():
        low[large] = 0.0
        alone = 1 - (1 - LEVEL) / len(axes)
        for place, (axis, one) in enumerate(zip(axes, groups, strict=True)):
            tops = np.array([_top(release, axis, codes, alone) for _, codes in one])
            shape = [-1 if at == place else 1 for at in range(len(axes))]
            bound = np.broadcast_to(tops.reshape(shape), high.shape)
            high[large] = np.minimum(high if place else np.inf, bound)[large]
    high = np.minimum(high, release.max_rows)
    counted = counted_together(release, names)
    notes = [] if counted else [UNCOUNTED]
    if most > 1:
        notes.append("Limits of groups are sums of those of finer cells, and so wider than usual.")
    if large.any():
        notes.append("Of groups of many values only an upper limit is known.")
    return Cells.of(
        names,
        [[label for label, _ in one] for one in groups],
        (value, low, high),
        counted=counted,
        note=" ".join((*notes, *release.basis_notes(frame))),
    )


def _top(release: Any, axis: Axis, codes: Sequence[int], level: float) -> float:
    """The most rows that a group of values has, by its column alone; no limit if it cannot be
    asked for."""
    text = group_condition(axis, codes)
    return float(release.estimate(text, level=level).high) if text else math.inf


UNCOUNTED = (
    "These columns were not counted together: the numbers come from a model that knows each of "
    "them, and the limits hold whatever their true relation is, or give or take the model's "
    "published error."
)


def counted_together(release: Any, names: Sequence[str]) -> bool:
    """Whether one counted table holds all these columns; a model knows the others."""
    tables = getattr(release, "joined", None)
    if tables is None:
        return True
    features = set(names) - {getattr(release, "target", None)}
    return len(features) <= 1 or any(features <= set(table) for table in tables)


def grouped(release: Any, axis: Axis, sizes: Floats | None = None) -> Groups:
    """At most `MAX_LABELS` groups of values: neighbours where values have an order, otherwise the
    largest ones and all others."""
    if axis.cardinality <= MAX_LABELS:
        return [(level_label(axis, label), [code]) for code, label in enumerate(axis.labels)]
    if axis.ordered:
        return contiguous(axis, MAX_LABELS)
    if sizes is None:
        sizes = _numbers(release.marginal(axis.name, level=LEVEL))[0]
    value = sizes[: axis.base]
    apart = range(axis.base, axis.cardinality)
    largest = sorted(np.argsort(-value, kind="stable")[: MAX_LABELS - 1 - len(apart)].tolist())
    rest = [code for code in range(axis.base) if code not in largest]
    return [
        *((level_label(axis, axis.labels[code]), [code]) for code in largest),
        (f"all {len(rest)} others", rest),
        *((axis.labels[code], [code]) for code in apart),
    ]


def contiguous(axis: Axis, most: int) -> Groups:
    """Neighbouring values in parts of about the same length; other and missing values by
    themselves."""
    apart = axis.cardinality - axis.base
    parts = np.array_split(np.arange(axis.base), max(1, min(most - apart, axis.base)))
    joined = [(_span(axis, int(part[0]), int(part[-1])), part.tolist()) for part in parts]
    return joined + [(axis.labels[code], [code]) for code in range(axis.base, axis.cardinality)]


def _span(axis: Axis, start: int, stop: int) -> str:
    first, last = axis.label(start), axis.label(stop)
    if start == stop:
        return first
    if not axis.numeric:
        return f"{first} to {last}"
    if axis.kind == "real":
        closing = "]" if stop == axis.base - 1 else ")"
        return f"[{axis.edges[start]:g}, {axis.edges[stop + 1]:g}{closing}"
    return f"{first.split('..')[0]}..{last.split('..')[-1]}"


def condition(axis: Axis, first: int, last: int) -> str:
    """A condition for the codes from `first` to `last`; empty where there are no words for it."""
    name = quoted(axis.name)
    if first == axis.missing_code:
        return f"{name} is null"
    if last >= axis.base or '"' in axis.name:
        return ""
    if not axis.numeric:
        levels = [quoted_text(level) for level in axis.levels[first : last + 1]]
        return f"{name} = {levels[0]}" if len(levels) == 1 else f"{name} in ({', '.join(levels)})"
    if axis.kind in CALENDAR:
        start = axis.label(first).split("..")[0]
        return f"{name} >= '{start}' and {name} <= '{axis.label(last).split('..')[-1]}'"
    if axis.kind == "integer":
        return f"{name} >= {axis.edges[first]} and {name} < {axis.edges[last + 1]}"
    closing = "<=" if last == axis.base - 1 else "<"
    low, high = (repr(float(edge)) for edge in (axis.edges[first], axis.edges[last + 1]))
    return f"{name} >= {low} and {name} {closing} {high}"


def group_condition(axis: Axis, codes: Sequence[int]) -> str:
    """A condition for any set of codes: neighbours, or a list of levels."""
    if codes[-1] - codes[0] == len(codes) - 1:
        return condition(axis, codes[0], codes[-1])
    if axis.numeric or codes[-1] >= axis.base or '"' in axis.name:
        return ""
    return f"{quoted(axis.name)} in ({', '.join(quoted_text(axis.levels[code]) for code in codes)})"


# -- trees over numbers, and baskets


def _tree_lookups(release: Any) -> Lookups:
    """Ranges of each column of an interval tree, and boxes of each two."""
    grids = release.shape.grids
    sides = [_parts(grid) for grid in grids]
    labels = [
        [_written(grid, *part) for part in side] for grid, side in zip(grids, sides, strict=True)
    ]
    columns, singles, crossed, summaries = [], [], [], {}
    ranges: dict[str, dict[str, Any]] = {}
    worded = Domain.from_json(release.manifest["domain"]).axes
    everything = [(float(grid.lower), _last(grid, grid.positions)) for grid in grids]
    for place, (grid, parts) in enumerate(zip(grids, sides, strict=True)):
        spans = [
            (first[0], last[1]) for first, last in itertools.combinations_with_replacement(parts, 2)
        ]
        ends = _asked(release, [_box(everything, {place: span}) for span in spans])
        shown, alone = labels[place], _alone(len(parts))
        numbers = [one[alone] for one in ends]
        if len(grids) == 1 and release.missing is not None:
            none = release.without_value(level=LEVEL)
            shown = [*shown, "(missing)"]
            more = (none.value, none.low, none.high)
            numbers = [np.append(one, end) for one, end in zip(numbers, more, strict=True)]
        singles.append(Cells.of((grid.name,), [shown], numbers))
        ranges[grid.name] = {
            "from": [_value(grid, first) for first, _ in parts],
            "to": [_value(grid, last) for _, last in parts],
            **dict(zip("vlh", map(printed, ends), strict=True)),
            "where": [
                f"{quoted(grid.name)} between {_constant(grid, low)} and {_constant(grid, high)}"
                for low, high in spans
            ],
        }
        columns.append({**column_facts(worded[place]), "ordered": True})
        if grid.kind not in CALENDAR and (lines := summary(release, worded[place])):
            summaries[grid.name] = lines
    for at, to in itertools.combinations(range(len(grids)), 2):
        boxes = [_box(everything, {at: one, to: two}) for one in sides[at] for two in sides[to]]
        names = (grids[at].name, grids[to].name)
        both = [labels[at], labels[to]]
        crossed.append(Cells.of(names, both, _asked(release, boxes)))
    by_group = []
    for (_, axis), (to, other) in itertools.permutations(enumerate(worded), 2):
        if axis.name in summaries:
            where = ranges[other.name]["where"]
            asked = [where[at] for at in _alone(len(sides[to]))]
            groups = list(zip(labels[to], asked, strict=True))
            by_group += summary_by_group(release, axis, other.name, groups)
    return Lookups(columns, singles, ranges, crossed, summaries=summaries, by_group=by_group)


def _alone(parts: int) -> list[int]:
    """Where the ranges of a single part stand among all ranges."""
    spans = itertools.combinations_with_replacement(range(parts), 2)
    return [at for at, (first, last) in enumerate(spans) if first == last]


def _asked(
    release: Any, boxes: Sequence[Sequence[tuple[float, float]]]
) -> tuple[Floats, Floats, Floats]:
    corners = np.array(boxes, dtype=np.float64)
    return _numbers(release.ranges(corners[:, :, 0], corners[:, :, 1], level=LEVEL))


def _box(
    everything: Sequence[tuple[float, float]], sides: Mapping[int, tuple[float, float]]
) -> list[tuple[float, float]]:
    return [sides.get(place, whole_side) for place, whole_side in enumerate(everything)]


def _parts(grid: Any) -> list[tuple[float, float]]:
    """The first and the last value of at most `MAX_STEPS` parts of a column."""
    parts = min(MAX_STEPS, grid.positions)
    steps = [round(at * grid.positions / parts) for at in range(parts + 1)]
    return [
        (float(grid.lower + start * grid.step), _last(grid, end))
        for start, end in itertools.pairwise(steps)
    ]


def _last(grid: Any, position: int) -> float:
    """The last value before a position: whole numbers end one before it."""
    end = grid.lower + position * grid.step
    return float(end - 1) if grid.whole else float(min(end, grid.upper))


def _value(grid: Any, number: float) -> str:
    if grid.kind in CALENDAR:
        return spelled(grid.kind, int(number))
    return f"{int(number)}" if grid.whole else f"{number:g}"


def _constant(grid: Any, number: float) -> str:
    if grid.kind in CALENDAR:
        return f"'{_value(grid, number)}'"
    return f"{int(number)}" if grid.whole else repr(number)


def _written(grid: Any, low: float, high: float) -> str:
    return _value(grid, low) if low == high else f"{_value(grid, low)} to {_value(grid, high)}"


def _baskets(release: Any) -> list[Cells]:
    """Itemsets and rules to search."""
    found = []
    frame = release.top_itemsets(MAX_ITEMSETS, level=LEVEL)
    names = tuple(" + ".join(items) for items in frame["items"].to_list())
    if names:
        numbers = [frame[name].to_numpy() for name in ("estimate", "low", "high")]
        found.append(Cells.of(("Items bought together",), [names], numbers))
    rules = release.rules(MAX_ITEMSETS).head(MAX_RULES)
    if rules.height:
        labels = tuple(
            f"{' + '.join(given)} → {' + '.join(then)} "
            f"({100 * confidence:.0f}% of those, {lift:.2g} times the usual)"
            for given, then, confidence, lift in rules.select(
                "given", "then", "confidence", "lift"
            ).iter_rows()
        )
        answers = [
            release.support({*given, *then}, level=LEVEL)
            for given, then in rules.select("given", "then").iter_rows()
        ]
        numbers = [
            np.array([getattr(answer, name) for answer in answers], dtype=np.float64)
            for name in ("value", "low", "high")
        ]
        note = (
            "Limits are those of the number of baskets that hold all items of a rule. Percentages "
            "are estimates without limits of their own."
        )
        found.append(Cells.of(("Rules",), [labels], numbers, note=note))
    return found


# -- numbers as they are printed


def whole(number: float) -> int | None:
    """A count as Python prints it; None for no limit."""
    return int(f"{number:.0f}") if math.isfinite(number) else None


def printed(numbers: Floats) -> list[int | None]:
    return [whole(number) for number in np.asarray(numbers, dtype=np.float64).tolist()]


def _numbers(frame: pl.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Count, low and high of a frame whose last columns are count, standard error, low, high."""
    value, low, high = (frame.to_series(at).to_numpy() for at in (-4, -2, -1))
    return value.astype(np.float64), low.astype(np.float64), high.astype(np.float64)


def _summed(table: Floats, groups: Sequence[Groups]) -> Floats:
    for place, one in enumerate(groups):
        parts = [table.take(codes, axis=place).sum(axis=place) for _, codes in one]
        table = np.stack(parts, axis=place)
    return table
