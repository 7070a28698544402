"""Questions to weighted rows, as far as they can be put to the counted tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.models.linear_features import FloatArray
from dpublish.query.constants import bare
from dpublish.query.predicate import Node, columns_of, parse_predicate, parse_sql
from dpublish.releases.joined_histograms.cover import cover_codes
from dpublish.releases.weighted_rows.intervals import Question, code_ranges

Codes = Sequence[NDArray[Any]]


def read_question(
    expression: str, where: str | None, axes: tuple[Axis, ...], known: Collection[str]
) -> Question | None:
    """A condition on weighted columns, or a numeric one alone; None for formulas and other columns.
    `known` are all names."""
    domain = Domain(axes)
    try:
        trees = [parse_sql(text) for text in (expression, where) if text is not None]
        named = {column.name for tree in trees for column in tree.find_all(exp.Column)}
        if any(name in known and name not in domain.names for name in named):
            return None
        within = None if where is None else parse_predicate(where, domain)
        alone = bare(trees[0])
        if isinstance(alone, exp.Column) and alone.name in domain.names:
            place = domain.names.index(alone.name)
            if axes[place].kind in ("integer", "real"):
                return Question(column=place, where=within)
        return Question(condition=parse_predicate(expression, domain), where=within)
    except QueryError:
        return None


def means_the_same(
    question: Question,
    axes: tuple[Axis, ...],
    codes: Codes,
    values: FloatArray,
    chosen: NDArray[np.bool_] | None,
) -> bool:
    """Whether a question says of the codes of public rows what SQL said of the rows themselves.

    It does not where rows hold values beyond the bounds that the schema moved to the nearest bin.
    """
    parts: list[tuple[Node, NDArray[Any]]] = []
    if question.condition is not None:
        parts.append((question.condition, values > 0.0))
    if question.where is not None and chosen is not None:
        parts.append((question.where, chosen))
    for node, found in parts:
        columns = sorted(columns_of(node))
        cover = cover_codes(
            node,
            Domain(axes),
            columns,
            [np.asarray(codes[c]).astype(np.int64) for c in columns],
            len(values),
        )
        # a number that is '(other)' still has its value in public rows, and none in the tables
        known = ~np.any(
            [axes[c].numeric & (codes[c] == axes[c].other_code) for c in columns]
            or [np.zeros(len(values))],
            axis=0,
        )
        if np.any(known & ((cover.inside & ~found) | (~cover.touched & found))):
            return False
    if question.column is not None:
        axis, places = axes[question.column], np.asarray(codes[question.column]).astype(np.int64)
        low, high = (ends[places] for ends in code_ranges(axis))
        return not bool(np.any((values < low) | (values > high)))
    return True


def label_condition(name: str, label: Any) -> str:
    """The rows whose value is `label`, as a condition."""
    return value_condition('"' + name.replace('"', '""') + '"', label)


def value_condition(column: str, label: Any) -> str:
    """The same of a column, or another expression, as SQL spells it."""
    if label is None:
        return f"{column} is null"
    if isinstance(label, bool):
        return f"{column} = {'true' if label else 'false'}"
    if isinstance(label, int | float):
        return f"{column} = {label!r}"
    return f"{column} = '" + str(label).replace("'", "''") + "'"
