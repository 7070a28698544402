"""What no row could ever say, by public facts: names that the data cannot write, and columns whose
type has no such cells.

Both are refused before anything is spent. A type is a public fact where it stands in the metadata
of a file, a table or a polars frame (`Source.kind`). Text files, databases and pandas frames have
none: there every cell is read by itself.
"""

from __future__ import annotations

import polars as pl

from dpublish.counting.compute import require_countable
from dpublish.counting.graphs import COMMENT, PlainFile
from dpublish.counting.ruled import require_rules
from dpublish.declare.calendar import WORDS
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, SchemaError
from dpublish.methods.base import Statistic
from dpublish.methods.set_partition.transactions import Transactions
from dpublish.methods.solvers.inputs import AgentLists, GraphEdges, PresentItems
from dpublish.sources.sources import Source


def require_expressible(statistic: Statistic, source: Source, schema: Schema) -> None:
    """Looks at the names, at the kind of data and at how it is to be read; at no row."""
    require_countable(statistic, source)
    require_rules(source, schema)
    if isinstance(source, PlainFile):
        lost = next(
            (name for name in getattr(statistic, "labels", None) or () if COMMENT.search(name)),
            None,
        )
        if lost is not None:
            raise PlanError(
                f"No row of a plain text file can name '{lost}': its # would start a comment. "
                f"Give the rows as CSV, or use "
                "another name."
            )
    if (
        isinstance(statistic, Transactions)
        and statistic.basket is None
        and source.texts_only
        and schema.items is not None
    ):
        cut = statistic.separator
        parted = (
            name
            for name in schema.items.items
            if (len(name.split()) > 1 if cut is None else cut in name)
        )
        lost = next(parted, None)
        where = "blanks" if cut is None else f"'{cut}'"
        if lost is not None:
            raise PlanError(
                f"No row can hold the item '{lost}': texts are cut into items at {where}. "
                f"Separate items by something that no "
                "item holds and say so, as with separator = ';' (--set separator=';'), or give "
                "the rows as lists (Parquet, "
                "Arrow, a data frame)."
            )


def require_readable(
    statistic: Statistic | None, source: Source, schema: Schema, domain: Domain | None
) -> None:
    """Refuse columns whose type holds nothing that is asked for: each of their rows would be
    missing, and be paid for."""
    wanted: list[tuple[str, str]] = (
        [] if schema.unit.column is None else [(schema.unit.column, "a unit")]
    )
    if domain is not None:
        wanted += [(axis.name, axis.kind) for axis in domain.axes]
    if isinstance(statistic, Transactions):
        wanted += [(statistic.column, "a list of items")] + (
            [] if statistic.basket is None else [(statistic.basket, "a basket")]
        )
    elif isinstance(statistic, GraphEdges | PresentItems | AgentLists):
        what = "a list of names" if isinstance(statistic, AgentLists) else "a name"
        wanted += [
            (name, what)
            for name in source.columns()[: 2 if isinstance(statistic, GraphEdges) else 1]
        ]
    for name, what in wanted:
        kind = source.kind(name)
        if kind is not None and (isinstance(kind, str) or not _holds(kind, what)):
            raise SchemaError(
                f"Column '{name}' holds {str(kind).lower()}, of which nothing can be read as "
                f"{what}. Store it as "
                f"{f'{WORDS[what]} or as ' if what in WORDS else ''}text. Nothing was spent."
            )


def _holds(kind: pl.DataType, what: str) -> bool:
    """Whether some cell of this type may be read as `what`. A column of nulls may: all of its cells
    are missing."""
    if what.startswith("a list") and isinstance(kind, pl.List | pl.Array):
        kind = kind.inner if isinstance(kind.inner, pl.DataType) else kind.inner()
    text = kind in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    number = kind.is_numeric() or kind == pl.Boolean
    date = kind in (pl.Date, pl.Datetime, pl.Time)
    if what in ("integer", "real"):
        return text or number
    if what in ("date", "timestamp"):
        return text or kind in (pl.Date, pl.Datetime)
    if what == "time":
        return text or kind in (pl.Time, pl.Datetime)
    named = what in ("a unit", "a basket", "a name", "a list of names") and kind == pl.Binary
    return text or number or date or named
