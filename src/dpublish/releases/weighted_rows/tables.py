"""Tables of weighted rows: means by group, and counts of combinations of values, each with what its
interval rests on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.errors import QueryError
from dpublish.estimate import Basis, Estimate
from dpublish.query.aggregates import both
from dpublish.query.predicate import Node
from dpublish.releases.weighted_rows.intervals import (
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
        found = []
        for line in lines.select(list(asked.groups)).iter_rows() if keys else [()]:
            parts = [value_condition(key, value) for key, value in zip(keys, line, strict=True)]
            found.append(" and ".join([*parts, *given]) or None)
        return found

    def count(self, rows: str | None, level: float) -> Estimate:
        release = self.release
        if rows is None:
            raise QueryError(
                f"the release speaks of {release.private_rows:,.0f} rows, and does not say how far "
                "off that may be"
            )
        one = release.estimate(rows, level=level)
        value, error, low, high = (
            number * release.private_rows
            for number in (one.value, one.standard_error, one.low, one.high)
        )
        return replace(one, value=value, standard_error=error, low=low, high=high, measure="count")

    def known(self, tree: Any, rows: str | None) -> str:
        present = f"({_words(tree)}) is not null"
        return present if rows is None else f"{rows} and {present}"

    def aggregate(self, kind: str, tree: Any, rows: str | None, level: float) -> Estimate:
        if kind == "mean":
            return self.release.estimate(_words(tree), where=rows, level=level)
        # both have to hold: how many rows there are, and their mean
        each = 1 - (1 - level) / 2
        mean = self.release.estimate(_words(tree), where=rows, level=each)
        number = self.count(self.known(tree, rows), each)
        ends = [a * b for a in (mean.low, mean.high) for b in (number.low, number.high)]
        value, error = mean.value * number.value, mean.standard_error * number.value
        return replace(
            mean,
            value=value,
            standard_error=math.hypot(error, mean.value * number.standard_error),
            low=min(*ends, value),
            high=max(*ends, value),
            level=level,
            measure="sum",
        )


def _words(tree: Any) -> str:
    return str(tree.sql(dialect="postgres", identify=True))


def grouped_means(
    release: WeightedRowsRelease, expression: str, by: str, level: float
) -> pl.DataFrame:
    values, present, _ = release._values(expression)
    groups = release._column(by)
    found: list[dict[str, Any]] = []
    for label in _distinct(groups):
        chosen = _same(groups, label)
        if release.sample_weight[present & chosen].sum() > 0.0:
            question = release._question(
                expression, label_condition(by, label), values, present, chosen
            )
            one = release._mean(values, present & chosen, level, question)
            more = {"basis": one.basis, "effective_rows": one.details["effective_rows"]}
            found.append({by: label, "mean": one.value, **_figures(one), **more})
    return pl.DataFrame(found, infer_schema_length=None)


def count_table(release: WeightedRowsRelease, columns: Sequence[str], level: float) -> pl.DataFrame:
    if not columns:
        raise QueryError(f"Name at least one column. Columns: {', '.join(release.rows.columns)}.")
    frame = release.rows.select([release._column(name) for name in columns])
    groups = frame.unique(maintain_order=False).sort(by=list(columns), nulls_last=True)
    if groups.height > MAX_GROUPS:
        raise QueryError(
            f"A table of {', '.join(columns)} has {groups.height} cells; at most {MAX_GROUPS} are "
            f"shown at once."
        )
    found = []
    everyone = np.ones(frame.height, dtype=np.bool_)
    for labels in groups.iter_rows():
        inside = everyone.copy()
        for name, label in zip(columns, labels, strict=True):
            inside &= _same(frame.get_column(name), label)
        values = inside.astype(np.float64)
        condition = " and ".join(
            label_condition(*pair) for pair in zip(columns, labels, strict=True)
        )
        question = release._question(condition, None, values, everyone, None)
        one = release._mean(values, everyone, level, question, share=True)
        counts = {
            key: value * release.private_rows
            for key, value in {"count": one.value, **_figures(one)}.items()
        }
        found.append({**dict(zip(columns, labels, strict=True)), **counts, "basis": one.basis})
    return pl.DataFrame(found, infer_schema_length=None)


def cross_counts(
    release: WeightedRowsRelease, firsts: Sequence[str], seconds: Sequence[str], level: float
) -> list[tuple[float, float, float, Basis] | None]:
    """How many private rows meet each of some conditions together with each of others: value, low
    and high as `estimate` gives them, and the basis, row by row of the table.

    Where the counted tables know both, public rows are read once for all pairs; other pairs are
    asked one by one. None where no public row meets both and nothing was counted.
    """
    sides = [[_Side.read(release, text) for text in texts] for texts in (firsts, seconds)]
    weight = release.sample_weight
    tops, besides = (np.array([one.rows for one in side], dtype=np.float64) for side in sides)
    shares = ((tops * (weight / weight.sum())) @ besides.T).ravel()
    met = ((tops * (weight > 0.0)) @ besides.T).ravel() > 0.0
    found: list[tuple[float, float, float, Basis] | None] = []
    for at, (first, second) in enumerate(itertools.product(*sides)):
        if release.limits is not None and first.asked is not None and second.asked is not None:
            question = Question(condition=both(first.asked, second.asked))
            limits = release.limits.limits(question, level)
            ends, basis = held(float(shares[at]), limits, silent=not met[at]), limits.basis
        else:
            try:
                one = release.estimate(f"({first.text}) and ({second.text})", level=level)
            except QueryError:
                found.append(None)
                continue
            ends, basis = (one.value, one.low, one.high), one.basis or "assumed"
        value, low, high = (release.private_rows * end for end in ends)
        found.append((value, low, high, basis))
    return found


@dataclass(frozen=True)
class _Side:
    """A condition, the public rows that meet it, and the condition as it is asked of the counted
    tables if they know all that it names."""

    text: str
    rows: NDArray[np.bool_]
    asked: Node | None

    @classmethod
    def read(cls, release: WeightedRowsRelease, text: str) -> _Side:
        rows = release._condition(text)
        values, everyone = rows.astype(np.float64), np.ones(len(rows), dtype=np.bool_)
        question = release._question(text, None, values, everyone, None)
        return cls(text, rows, None if question is None else question.condition)


def _figures(one: Estimate) -> dict[str, float]:
    return {"standard_error": one.standard_error, "low": one.low, "high": one.high}


def _distinct(column: pl.Series) -> list[Any]:
    labels = column.unique().sort(nulls_last=True).to_list()
    if len(labels) > MAX_GROUPS:
        raise QueryError(
            f"Column '{column.name}' has {len(labels)} values; at most {MAX_GROUPS} groups are "
            f"shown."
        )
    return labels


def _same(column: pl.Series, label: Any) -> NDArray[np.bool_]:
    same = column.is_null() if label is None else (column == label).fill_null(False)
    return same.to_numpy()
