"""Transactions as private numbers: what a set-valued method asks for, and how it is handed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.declare.statistic import Statistic
from dpublish.declare.taxonomy import OTHER_ITEM
from dpublish.errors import PlanError


@dataclass(frozen=True)
class Transactions(Statistic):
    """A statistic: the kept transactions as item codes. Answered by `Baskets`.

    `column` holds the items: a list, or text with several items, or (when `basket` names the column
    that says which rows belong to one transaction) one item per row. `separator` splits text;
    blanks when it is None. With `max_items` every transaction is cut to its first so many items, in
    the declared order.
    """

    column: str
    basket: str | None = None
    separator: str | None = None
    max_items: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the data must have, besides that of the privacy unit."""
        return (self.column,) if self.basket is None else (self.basket, self.column)


@dataclass(frozen=True)
class Baskets:
    """Non-empty transactions. Private. Record r holds `items[offsets[r]:offsets[r + 1]]`: codes,
    distinct and ascending."""

    offsets: NDArray[np.int64]
    items: NDArray[Any]

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "Baskets(private)"

    @property
    def records(self) -> int:
        return int(self.offsets.size) - 1


@dataclass(frozen=True, kw_only=True)
class TransactionUnit(PrivacyUnit):
    """The same unit, described in terms of transactions: `max_rows` counts transactions, whatever
    the rows of the file are."""

    def describe(self) -> str:
        if self.column is None:
            return "one transaction"
        most = "one of them is" if self.max_rows == 1 else f"{self.max_rows} of them are"
        return f"all transactions that share one value of '{self.column}' (at most {most} used)"


def item_names(schema: Schema) -> tuple[str, ...]:
    """The declared items, with '(other)' at the end when undeclared items are counted under it."""
    assert schema.items is not None
    names = schema.items.items
    return (
        (*names, OTHER_ITEM)
        if schema.items.outside == "other" and OTHER_ITEM not in names
        else names
    )


def transaction_unit(schema: Schema, basket: str | None) -> TransactionUnit:
    """Whom the guarantee protects. Baskets of several rows need a unit column: one row of the file
    is not a transaction."""
    if basket is not None and schema.unit.column is None:
        raise PlanError(
            f"With basket = '{basket}' a transaction is many rows, so the unit cannot be one row. "
            f"Add unit = '{basket}' "
            "(or the column that identifies a person) and max_rows_per_unit = 1 to [dataset]; it "
            "then counts transactions."
        )
    return TransactionUnit(column=schema.unit.column, max_rows=schema.unit.max_rows)
