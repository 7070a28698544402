"""Tables of weighted rows: means by group, and counts of combinations of values, each with what its
interval rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.errors import QueryError
from dpublish.estimate import Estimate
from dpublish.releases.weighted_rows.questions import label_condition

if TYPE_CHECKING:
    from dpublish.releases.weighted_rows.release import WeightedRowsRelease

MAX_GROUPS = 100_000


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
