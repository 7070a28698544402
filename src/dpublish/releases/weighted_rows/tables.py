"""Tables of weighted rows: means by group, and counts of combinations of values, each with what its
interval rests on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.errors import QueryError
from dpublish.estimate import Basis, Estimate, check_level
from dpublish.query.aggregates import both
from dpublish.query.constants import bare, shown
from dpublish.query.predicate import Node, parse_select
from dpublish.query.sql_groups import AGGREGATES, groups_of
from dpublish.releases.weighted_rows.aggregates import (
    Rows,
    count_of,
    quantile_of,
    rows_of,
    sum_of,
)
from dpublish.releases.weighted_rows.intervals import (
    Limits,
    Question,
    held,
    label_condition,
    value_condition,
)

if TYPE_CHECKING:
    from dpublish.query.sql_groups import Grouped
    from dpublish.releases.weighted_rows.release import WeightedRowsRelease

MAX_GROUPS = 100_000


@dataclass(frozen=True)
class RowsSay:
    """What weighted rows say of the lines of a SELECT (`query.sql_limits.Says`): the rows of a line
    are a condition in words, None for all of them."""

    release: WeightedRowsRelease

    def rows(self, asked: Grouped, lines: pl.DataFrame) -> list[str | None]:
        given = [] if asked.where is None else [f"({_words(asked.where)})"]
        keys = [
            _words(one) if isinstance(one, exp.Column) else f"({_words(one)})"
            for one in asked.groups.values()
        ]
        found = lines.select(list(asked.groups)).iter_rows() if keys else [()]
        return [
            " and ".join([*map(value_condition, keys, values), *given]) or None for values in found
        ]

    def more(self, asked: Grouped, lines: pl.DataFrame) -> pl.DataFrame:
        """A line for every level that was counted and that no public row has, where the query
        groups by one column."""
        (name, key), *others = asked.groups.items() if asked.groups else [("", None)]
        absent = self.release.unseen.get(key.name, []) if isinstance(key, exp.Column) else []
        if others or not absent:
            return lines.clear()
        found = pl.DataFrame({name: pl.Series(absent).cast(lines.schema[name])})
        return pl.concat([lines.clear(), found], how="diagonal")

    def count(self, rows: str | None, level: float) -> Estimate:
        return count_of(self.release, rows, level)

    def known(self, tree: Any, rows: str | None) -> str:
        present = f"({_words(tree)}) is not null"
        return present if rows is None else f"{rows} and {present}"

    def aggregate(self, kind: str, tree: Any, rows: str | None, level: float) -> Estimate:
        if kind == "mean":
            return self.release.estimate(_words(tree), where=rows, level=level)
        return sum_of(self.release, _words(tree), rows, level)

    def quantile(self, tree: Any, share: float, rows: str | None, level: float) -> Estimate:
        if not isinstance(bare(tree), exp.Column):
            raise QueryError(f"a quantile is that of a column of numbers, not of '{shown(tree)}'")
        return quantile_of(self.release, bare(tree).name, share, rows, level)


def levels_without_a_line(release: WeightedRowsRelease, query: str) -> list[str]:
    """Levels of columns that a query groups by, as conditions, for which its answer has no line."""
    tree = parse_select(query, release.rows.columns)
    keys = groups_of(tree)
    if len(keys) == 1 and all(isinstance(one, exp.Count) for one in tree.find_all(*AGGREGATES)):
        return []
    named = {one.name.lower() for key in keys for one in key.find_all(exp.Column)}
    return [
        label_condition(name, level)
        for name, levels in release.unseen.items()
        for level in levels
        if name.lower() in named
    ]


def _words(tree: Any) -> str:
    return str(tree.sql(dialect="postgres", identify=True))


def grouped_means(
    release: WeightedRowsRelease, expression: str, by: str, level: float
) -> pl.DataFrame:
    values, present, _ = release._values(expression)
    groups = release._column(by)
    labels = groups.unique().sort(nulls_last=True).to_list()
    if len(labels) > MAX_GROUPS:
        raise QueryError(
            f"Column '{by}' has {len(labels)} values; at most {MAX_GROUPS} groups are shown."
        )
    found: list[dict[str, Any]] = []
    for label in labels:
        chosen = _same(groups, label)
        if release.sample_weight[present & chosen].sum() > 0.0:
            question = release._question(
                expression, label_condition(by, label), values, present, chosen
            )
            one = release._mean(values, present & chosen, level, question)
            found.append(
                {
                    by: label,
                    "mean": one.value,
                    "standard_error": one.standard_error,
                    "low": one.low,
                    "high": one.high,
                    "basis": one.basis,
                    "effective_rows": one.details["effective_rows"],
                }
            )
    return pl.DataFrame(found, infer_schema_length=None)


def count_table(release: WeightedRowsRelease, columns: Sequence[str], level: float) -> pl.DataFrame:
    if not columns:
        raise QueryError(f"Name at least one column. Columns: {', '.join(release.rows.columns)}.")
    frame = release.rows.select([release._column(name) for name in columns])
    if len(columns) == 1 and (absent := release.unseen.get(columns[0])):
        more = pl.DataFrame({columns[0]: pl.Series(absent).cast(frame.schema[columns[0]])})
        groups = pl.concat([frame, more])
    else:
        groups = frame
    groups = groups.unique(maintain_order=False).sort(by=list(columns), nulls_last=True)
    if groups.height > MAX_GROUPS:
        raise QueryError(
            f"A table of {', '.join(columns)} has {groups.height} cells; at most {MAX_GROUPS} are "
            f"shown at once."
        )
    found, rows = [], rows_of(release, check_level(level))
    everyone = np.ones(frame.height, dtype=np.bool_)
    for labels in groups.iter_rows(named=True):
        alike = [_same(frame.get_column(name), label) for name, label in labels.items()]
        values = np.logical_and.reduce(alike).astype(np.float64)
        condition = " and ".join(label_condition(*pair) for pair in labels.items())
        question = release._question(condition, None, values, everyone, None)
        one = release._mean(values, everyone, rows.level, question, share=True)
        value, low, high = rows.of(one.value, one.low, one.high)
        found.append(
            {
                **labels,
                "count": value,
                "standard_error": rows.error(one.value, one.standard_error),
                "low": low,
                "high": high,
                "basis": one.basis,
            }
        )
    return pl.DataFrame(found, infer_schema_length=None)


Count = tuple[float, float, float, Basis]
"""Value, low, high, and what they rest on."""


@dataclass(frozen=True)
class Condition:
    """A condition in words, the public rows that meet it, and the condition as it is asked of the
    counted tables if they know all that it names."""

    text: str
    rows: NDArray[np.bool_]
    asked: Node | None


def read_conditions(release: WeightedRowsRelease, texts: Sequence[str]) -> list[Condition | None]:
    """Conditions, for which the public rows are read once; None for what is none."""
    try:
        columns = release._evaluated(*texts)
    except QueryError:
        if len(texts) < 2:
            return [None] * len(texts)
        middle = len(texts) // 2
        return [
            one
            for part in (texts[:middle], texts[middle:])
            for one in read_conditions(release, part)
        ]
    found: list[Condition | None] = []
    for text, column in zip(texts, columns, strict=True):
        rows = column.fill_null(False).to_numpy() if column.dtype == pl.Boolean else None
        found.append(None if rows is None else Condition(text, rows, _asked(release, text, rows)))
    return found


def any_of(release: WeightedRowsRelease, text: str, parts: Sequence[Condition]) -> Condition:
    """A condition that says that one of some others is met."""
    rows = np.logical_or.reduce([one.rows for one in parts])
    return Condition(text, rows, _asked(release, text, rows))


def _asked(release: WeightedRowsRelease, text: str, rows: NDArray[np.bool_]) -> Node | None:
    question = release._question(text, None, rows.astype(np.float64), np.ones_like(rows), None)
    return None if question is None else question.condition


def counts_of(
    release: WeightedRowsRelease, conditions: Sequence[Condition], level: float
) -> list[Count | None]:
    """How many private rows meet each condition: what `estimate` says. None where no public row
    meets it and nothing was counted."""
    weight = release.sample_weight
    flags = np.array([one.rows for one in conditions], dtype=np.float64)
    shares, met = flags @ (weight / weight.sum()), flags @ (weight > 0.0) > 0.0
    found, rows = [], rows_of(release, level)
    for one, share, some in zip(conditions, shares.tolist(), met, strict=True):
        if release.limits is None or one.asked is None:
            found.append(_by_weights(release, one.rows, rows))
        else:
            limits = release.limits.limits(Question(condition=one.asked), rows.level)
            found.append(_counted(rows, share, limits, silent=not some))
    return found


def cross_counts(
    release: WeightedRowsRelease,
    firsts: Sequence[Condition],
    seconds: Sequence[Condition],
    level: float,
) -> list[Count | None]:
    """The same of each of some conditions about one column together with each of others about a
    later one, row by row of the table."""
    weight = release.sample_weight
    tops, besides = (
        np.array([one.rows for one in side], dtype=np.float64) for side in (firsts, seconds)
    )
    shares = ((tops * (weight / weight.sum())) @ besides.T).ravel()
    met = ((tops * (weight > 0.0)) @ besides.T).ravel() > 0.0
    rows = rows_of(release, level)
    asked = [[one.asked for one in side if one.asked is not None] for side in (firsts, seconds)]
    if release.limits is not None and [len(firsts), len(seconds)] == [*map(len, asked)]:
        crossed = release.limits.crossed(asked[0], asked[1], rows.level)
        return [
            _counted(rows, share, limits, silent=not some)
            for share, limits, some in zip(shares.tolist(), crossed, met, strict=True)
        ]
    found: list[Count | None] = []
    pairs = itertools.product(firsts, seconds)
    for (first, second), share, some in zip(pairs, shares.tolist(), met, strict=True):
        if release.limits is None or first.asked is None or second.asked is None:
            found.append(_by_weights(release, first.rows & second.rows, rows))
        else:
            question = Question(condition=both(first.asked, second.asked))
            limits = release.limits.limits(question, rows.level)
            found.append(_counted(rows, share, limits, silent=not some))
    return found


def _counted(rows: Rows, share: float, limits: Limits, *, silent: bool) -> Count:
    return *rows.of(*held(share, limits, silent=silent)), limits.basis


def _by_weights(
    release: WeightedRowsRelease, chosen: NDArray[np.bool_], rows: Rows
) -> Count | None:
    if not (release.sample_weight[chosen] > 0.0).any():
        return None
    one = release._mean(
        chosen.astype(np.float64), np.ones_like(chosen), rows.level, None, share=True
    )
    return *rows.of(one.value, one.low, one.high), one.basis or "assumed"


def group_means(
    release: WeightedRowsRelease, expression: str, groups: Sequence[Condition], level: float
) -> list[Estimate | None]:
    """What `mean` says of the rows of each group; None where it has no answer."""
    values, present, measure = release._values(expression)
    assert measure == "mean"
    found: list[Estimate | None] = []
    for one in groups:
        inside = present & one.rows
        if release.sample_weight[inside].sum() > 0.0:
            question = release._question(expression, one.text, values, present, one.rows)
            found.append(release._mean(values, inside, level, question))
        else:
            found.append(None)
    return found


def _same(column: pl.Series, label: Any) -> NDArray[np.bool_]:
    return np.asarray(column.eq_missing(label).to_numpy())
