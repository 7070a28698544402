"""Public names that the data cannot write: refused before anything is spent, because no row could ever match them."""

from __future__ import annotations

from dpublish.counting.graphs import COMMENT, PlainFile
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Need
from dpublish.methods.set_partition.transactions import Transactions
from dpublish.sources.sources import Source


def require_expressible(need: Need, source: Source, schema: Schema) -> None:
    """Looks at the names, at the kind of data and at how it is to be read; at no row."""
    if isinstance(source, PlainFile):
        lost = next((name for name in getattr(need, "labels", None) or () if COMMENT.search(name)), None)
        if lost is not None:
            raise PlanError(
                f"No row of a plain text file can name '{lost}': its # would start a comment. Give the rows as CSV, or use "
                "another name."
            )
    if isinstance(need, Transactions) and need.basket is None and source.texts_only and schema.items is not None:
        if need.separator is None:
            lost = next((name for name in schema.items.items if len(name.split()) > 1), None)
            where = "blanks"
        else:
            separator = need.separator
            lost = next((name for name in schema.items.items if separator in name), None)
            where = f"'{separator}'"
        if lost is not None:
            raise PlanError(
                f"No row can hold the item '{lost}': texts are cut into items at {where}. Separate items by something that no "
                "item holds and say so, as with separator = ';' (--set separator=';'), or give the rows as lists (Parquet, "
                "Arrow, a data frame)."
            )
