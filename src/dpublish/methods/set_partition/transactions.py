"""Transactions as private numbers: what a set-valued method asks for, and how it is handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.declare.statistic import Private, Statistic
from dpublish.declare.taxonomy import OTHER_ITEM, Taxonomy
from dpublish.errors import PlanError
from dpublish.methods.field_types import Interval, require_pure
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Settings


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


@dataclass(frozen=True, repr=False)
class Baskets(Private):
    """Non-empty transactions. Private. Record r holds `items[offsets[r]:offsets[r + 1]]`: codes,
    distinct and ascending."""

    offsets: NDArray[np.int64]
    items: NDArray[Any]

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


def described_schema(schema: Schema, basket: str | None) -> Schema:
    """The schema with its unit described in transactions: whom the guarantee protects. Baskets of
    several rows need a unit column: one row of the file is not a transaction."""
    if basket is not None and schema.unit.column is None:
        raise PlanError(
            f"With basket = '{basket}' a transaction is many rows, so the unit cannot be one row. "
            f"Add unit = '{basket}' "
            "(or the column that identifies a person) and max_rows_per_unit = 1 to [dataset]; it "
            "then counts transactions."
        )
    unit = TransactionUnit(column=schema.unit.column, max_rows=schema.unit.max_rows)
    return replace(schema, unit=unit)


# What the methods for set-valued data share: reading a request, the noisy number of transactions,
# and the public tables of a taxonomy.

Number = Fraction | float | int | str
Share = Annotated[Number, Interval(0, below=1)]
DEFAULT_COUNT_SHARE = Fraction(1, 50)


def check_request(schema: Schema, cost: Cost, what: str) -> None:
    check_items(schema, what)
    require_pure(cost, f"{what} costs")


def check_items(schema: Schema, what: str) -> None:
    if schema.items is None:
        raise PlanError(
            f"{what} needs set-valued data: a schema with [items]. '{schema.name}' declares "
            f"columns."
        )


@dataclass(frozen=True, kw_only=True)
class ItemSettings(Settings):
    """How many items there are, how far one unit moves counts of records, and what is paid for the
    number of transactions and for everything else."""

    items: int
    sensitivity: Fraction
    count_epsilon: Fraction
    partition_epsilon: Fraction


def taxonomy_tables(taxonomy: Taxonomy, names: Sequence[str]) -> dict[str, dict[str, NDArray[Any]]]:
    """The items in the taxonomy's order, and its nodes: public facts that a reader of the release
    needs."""
    ordered = np.array([names[place] for place in taxonomy.order], dtype=np.str_)
    return {
        "items": {"name": ordered},
        "nodes": {
            "start": taxonomy.start,
            "stop": taxonomy.stop,
            "children": np.diff(taxonomy.child_offset),
        },
        "children": {"child": taxonomy.child},
    }
