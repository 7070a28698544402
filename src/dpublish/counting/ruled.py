"""Rows without those that break a declared rule, for whatever is counted of them.

A row is looked at by itself: its cells of the columns that a rule names are coded over parts that
no rule cuts, and the row is left out if the codes lie in a cell that breaks the rule. So this is a
map of rows to rows or nothing, whatever statistic reads them, and whichever columns it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import EncodedBatch, Encoder
from dpublish.declare.rules import MAX_RULE_CELLS, cells_where, exact_domain
from dpublish.declare.schema import Schema
from dpublish.errors import SchemaError
from dpublish.sources.sources import Source


def rule_columns(schema: Schema) -> list[str]:
    """The columns that some rule names."""
    return list(dict.fromkeys(name for rule in schema.rules for name in rule.columns))


def without_broken(source: Any, schema: Schema) -> Any:
    """The rows that break no rule of the schema."""
    return RuledRows(source, schema) if schema.rules else source


class RuledRows(Source):
    """A source without the rows that break a rule. Raises `SchemaError` for rules that tie too many
    values together, which public facts decide."""

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._names, self._rules = source, source.columns(), schema.rules
        self._exact = exact_domain(schema.rules, schema.columns, schema.name)
        self._encoder = Encoder(self._exact)
        self._broken = [cells_where(rule, self._exact) for rule in schema.rules]
        self.texts_only, self.names_are_metadata = source.texts_only, source.names_are_metadata

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        extra = [name for name in self._exact.names if name not in columns]
        for frame in self._source.batches([*columns, *extra]):
            yield frame.filter(pl.Series(~self._breaks(frame))).select(columns)

    def coded(
        self, encoder: Encoder, unit: str | None = None
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        wider = self._wider(encoder.domain)
        if wider is None:
            yield from super().coded(encoder, unit)
            return
        for batch, units in self._source.coded(Encoder(wider), unit):
            yield EncodedBatch(batch.codes[: len(encoder.domain.axes)], batch.keep), units

    def count_rows(self) -> int:
        return sum(frame.height for frame in self.batches(self._exact.names[:1]))

    def rows_hint(self) -> int | None:
        return self._source.rows_hint()

    def _breaks(self, frame: pl.DataFrame) -> NDArray[np.bool_]:
        """Which rows break a rule. Of a cell without a code nothing is known."""
        out = np.zeros(frame.height, dtype=np.bool_)
        found = [
            self._encoder.encode_column(place, frame.get_column(name))
            for place, name in enumerate(self._exact.names)
        ]
        for rule in self._broken:
            assert rule is not None, "the exact domain has the columns of all rules"
            broken = rule.cells[tuple(found[place][0] for place in rule.places)]
            for place in rule.places:
                known = found[place][1]
                broken = broken if known is None else broken & known
            out |= broken
        return out

    def _wider(self, domain: Domain) -> Domain | None:
        """The domain with the rules, and the columns of theirs that it lacks, so that the codes of
        a row say whether it breaks one; None where they cannot."""
        extra = [axis for axis in self._exact.axes if axis.name not in domain.names]
        wider = Domain((*domain.axes, *extra), self._rules)
        if any(_drops(axis) for axis in extra):  # another column's rows are not to be left out
            return None
        for rule in self._rules:
            named = [wider.axis(name).cardinality for name in rule.columns]
            if np.prod(named, dtype=np.float64) > MAX_RULE_CELLS:
                return None
            found = cells_where(rule, wider)
            if found is None or found.cut.any():
                return None
        return wider


def _drops(axis: Axis) -> bool:
    return not (axis.other or (axis.missing and axis.outside == "clip"))


def require_rules(source: Source, schema: Schema) -> None:
    """Refuse, before anything is spent, rules that cannot be looked up, and columns that are not
    there."""
    if not schema.rules:
        return
    source.require(rule_columns(schema), schema_name=schema.name)
    exact = exact_domain(schema.rules, schema.columns, schema.name)
    for rule in schema.rules:
        found = cells_where(rule, exact)
        if found is None or found.cut.any():
            raise SchemaError(f"The rule '{rule.describe()}' cannot be told from single values.")
