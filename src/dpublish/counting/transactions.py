"""Transactions from rows: lists, texts with several items, or one item per row; coded, tidied and
bounded per unit.

Each row is read by itself and nothing about a row raises. An item outside the declared universe is
left out of its transaction or becomes '(other)', by the schema's rule; a transaction without any
item is no transaction. Text is stripped of blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Flags
from dpublish.counting.bound import Progress, joined, keep_rows, lists_said, reported, take_lists
from dpublish.counting.kernels import tidy_records
from dpublish.declare.encode import as_text
from dpublish.declare.schema import Schema
from dpublish.declare.spelling import BLANKS
from dpublish.declare.statistic import Statistic
from dpublish.declare.taxonomy import OTHER_ITEM
from dpublish.methods.set_partition.transactions import Baskets, Transactions, item_names
from dpublish.sources.objects import spelled_floats
from dpublish.sources.sources import Source
from dpublish.sources.units import join_units, unit_values

_DENSE = 1 << 24
_BLANKS_BETWEEN = (
    r"[\s\x1c-\x1f]+"  # Python counts these control characters among blanks and polars does not
)
_SHORT_CODES = 1 << 15

Codes = NDArray[np.int32]


def compute(
    statistic: Statistic,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Progress | None = None,
) -> Baskets:
    """The transactions that a set-valued method asked for."""
    assert isinstance(statistic, Transactions)
    read = _whole_rows if statistic.basket is None else _long_rows
    found, units = read(statistic, source, schema, ItemCoder(schema), progress)
    if units is None:
        return found
    keep = keep_rows(units, lists_said(found.items, found.offsets), schema.unit.max_rows, key)
    items, offsets = take_lists(found.items, found.offsets, np.flatnonzero(keep))
    return Baskets(offsets, items)


class ItemCoder:
    """Item names to codes: the position in the declared universe, or -1 for what is left out."""

    def __init__(self, schema: Schema) -> None:
        assert schema.items is not None
        names = item_names(schema)
        self._kind = pl.Enum(names)
        self.size = len(names)
        self._unknown = names.index(OTHER_ITEM) if schema.items.outside == "other" else -1
        numbers = {int(name): code for code, name in enumerate(names) if _is_number(name)}
        self._dense: Codes | None = None
        # a table finds no negative number, so where an item is one, numbers are looked up by their
        # text
        if (
            numbers
            and max(numbers) < _DENSE
            and not any(_is_number(name.removeprefix("-")) for name in names if name[:1] == "-")
        ):
            self._dense = np.full(max(numbers) + 1, self._unknown, dtype=np.int32)
            self._dense[list(numbers)] = list(numbers.values())

    def codes(self, values: pl.Series) -> Codes:
        """One code per value. Nulls and blanks are no items at all, whatever the rule for unknown
        items is."""
        kind = values.dtype
        if kind.is_integer() and self._dense is not None:
            return self._numbers(values, self._dense)
        if kind.is_float():
            values = spelled_floats(values)
        elif kind == pl.Boolean or kind.is_integer() or kind in (pl.Categorical, pl.Enum):
            values = values.cast(pl.String)
        elif kind in (pl.Date, pl.Datetime):
            values = as_text(values)  # as in a column of objects
        elif kind != pl.String:
            return np.full(len(values), -1, dtype=np.int32)
        stripped = values.str.strip_chars(BLANKS)
        known = stripped.cast(self._kind, strict=False).to_physical().cast(pl.Int32)
        if self._unknown >= 0:
            blank = stripped.is_null() | (stripped.str.len_bytes() == 0)
            known = known.fill_null(self._unknown).set(blank, None)
        return known.fill_null(-1).to_numpy().astype(np.int32, copy=False)

    def _numbers(self, values: pl.Series, dense: Codes) -> Codes:
        wide = (
            values.cast(pl.Int128).clip(-1, dense.size).cast(pl.Int64)
            if values.dtype in (pl.UInt64, pl.Int128)
            else values
        )
        numbers = wide.fill_null(0).to_numpy()
        inside = (numbers >= 0) & (numbers < dense.size)
        out = np.where(inside, dense[np.where(inside, numbers, 0)], np.int32(self._unknown))
        if values.null_count():
            out[values.is_null().to_numpy()] = -1
        return out.astype(np.int32, copy=False)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")


def _whole_rows(
    statistic: Transactions,
    source: Source,
    schema: Schema,
    coder: ItemCoder,
    progress: Progress | None,
) -> tuple[Baskets, pl.Series | None]:
    """The transactions, where each row is one, and their units, if they have any."""
    read = list(reported(whole_rows(statistic, source, schema.unit.column, coder), progress))
    codes = joined([values for values, _, _ in read], np.int32)
    lengths = joined([sizes for _, sizes, _ in read], np.int64)
    found, filled = tidy(codes, lengths, coder.size, statistic.max_items)
    if schema.unit.column is None:
        return found, None
    units = join_units([unit for _, _, unit in read if unit is not None])
    return found, units.filter(pl.Series(filled))


def whole_rows(
    statistic: Transactions, source: Source, unit: str | None, coder: ItemCoder
) -> Iterator[tuple[Codes, NDArray[np.int64], pl.Series | None]]:
    """The item codes of all rows of a batch, how many each row has, and whose rows they are."""
    names = [statistic.column, *([unit] if unit is not None and unit != statistic.column else [])]
    cut = source.cutting(statistic.column, lambda text: _cut(text, statistic.separator))
    for frame in cut.batches(names):
        values, sizes = _items_of(frame.get_column(statistic.column), statistic.separator)
        yield coder.codes(values), sizes, None if unit is None else frame.get_column(unit)


def _items_of(column: pl.Series, separator: str | None) -> tuple[pl.Series, NDArray[np.int64]]:
    """All items of a column in row order, and how many each row has."""
    kind = column.dtype
    if isinstance(kind, pl.Array):
        column, kind = column.arr.to_list(), pl.List(kind.inner)
    if kind in (pl.Categorical, pl.Enum):
        column, kind = column.cast(pl.String), pl.String()
    if kind == pl.String:
        text = column.str.replace_all(_BLANKS_BETWEEN, " ") if separator is None else column
        column = text.str.split(" " if separator is None else separator)
    elif not isinstance(
        kind, pl.List
    ):  # a column of plain values: each row is a transaction of one item
        return column, np.ones(len(column), dtype=np.int64)
    sizes = column.list.len().fill_null(0).to_numpy().astype(np.int64)
    # null and empty lists would each explode to one null
    return column.filter(pl.Series(sizes > 0)).explode(), sizes


def _cut(text: str, separator: str | None) -> list[str]:
    """One text as `_items_of` cuts a column of them."""
    if separator is None:
        return re.split(_BLANKS_BETWEEN, text)
    return text.split(separator) if separator else list(text)


def _long_rows(
    statistic: Transactions,
    source: Source,
    schema: Schema,
    coder: ItemCoder,
    progress: Progress | None,
) -> tuple[Baskets, pl.Series]:
    """The transactions and their units, where one is all rows of a unit that share the basket's
    value; rows without a basket belong to none."""
    unit, basket = schema.unit.column, statistic.basket
    assert unit is not None
    assert basket is not None
    names = list(dict.fromkeys([basket, unit, statistic.column]))
    read = [
        (
            unit_values(frame.get_column(unit)),
            unit_values(frame.get_column(basket)),
            coder.codes(frame.get_column(statistic.column)),
        )
        for frame in reported(source.batches(names), progress)
    ]
    rows = pl.DataFrame(
        {
            "unit": join_units([units for units, _, _ in read]),
            "basket": join_units([baskets for _, baskets, _ in read]),
            "code": joined([codes for _, _, codes in read], np.int32),
        }
    ).drop_nulls(["unit", "basket"])
    return basket_rows(rows, coder.size, statistic.max_items)


def basket_rows(
    rows: pl.DataFrame, universe: int, max_items: int | None
) -> tuple[Baskets, pl.Series]:
    """The transactions of rows with a unit, a basket and one item code each, and their units."""
    grouped = rows.group_by(["unit", "basket"], maintain_order=True).agg(pl.col("code"))
    lists = grouped.get_column("code")
    codes = lists.explode().cast(pl.Int32).to_numpy()
    found, filled = tidy(codes, lists.list.len().to_numpy().astype(np.int64), universe, max_items)
    return found, grouped.get_column("unit").filter(pl.Series(filled))


def tidy(
    codes: Codes, lengths: NDArray[np.int64], universe: int, max_items: int | None
) -> tuple[Baskets, Flags]:
    """The transactions that have an item, and which those are."""
    items = np.empty(codes.size, dtype=np.uint16 if universe <= _SHORT_CODES else np.int32)
    offsets = np.zeros(lengths.size + 1, dtype=np.int64)
    filled = np.empty(lengths.size, dtype=np.bool_)
    most = universe if max_items is None else max_items
    records = tidy_records(codes, lengths, most, items, offsets, filled)
    return Baskets(offsets[: records + 1], items[: offsets[records]]), filled
