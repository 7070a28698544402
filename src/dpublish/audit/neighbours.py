"""All neighbouring pairs of tiny inputs, for audits that try every one.

A data set is a tuple of rows from a small universe. Rows of a data set are a multiset: each is
listed once, in the order of the universe, unless `ordered` asks for every order (then the audit
also finds answers that depend on row order).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Row = TypeVar("Row")
Pair = tuple[tuple[Row, ...], tuple[Row, ...]]


def add_remove(
    universe: Sequence[Row], *, max_rows: int, ordered: bool = False
) -> Iterator[Pair[Row]]:
    """Pairs (D, D + one row), for every D of fewer than `max_rows` rows."""
    for size in range(max_rows):
        for rows in _data_sets(universe, size, ordered):
            for row in universe:
                yield rows, _with(universe, rows, row, ordered)


def replace_one(
    universe: Sequence[Row], *, rows: int, ordered: bool = False
) -> Iterator[Pair[Row]]:
    """Pairs that differ in one row, for every data set of `rows` rows; each pair once."""
    for rest in _data_sets(universe, rows - 1, ordered):
        for one, other in itertools.combinations(universe, 2):
            yield _with(universe, rest, one, ordered), _with(universe, rest, other, ordered)


def add_remove_unit(
    universe: Sequence[Row], *, units: int, max_rows_per_unit: int
) -> Iterator[Pair[tuple[int, Row]]]:
    """Pairs of (unit, row) data sets, D and D with all rows of one more unit."""
    holdings = [h for h in _holdings(universe, max_rows_per_unit) if h]
    for count in range(units):
        for held in itertools.combinations_with_replacement(holdings, count):
            for extra in holdings:
                yield _units(held), _units((*held, extra))


def replace_one_unit(
    universe: Sequence[Row], *, units: int, max_rows_per_unit: int
) -> Iterator[Pair[tuple[int, Row]]]:
    """Pairs of (unit, row) data sets that differ in all rows of the last unit."""
    holdings = _holdings(universe, max_rows_per_unit)
    for held in itertools.combinations_with_replacement(holdings, units - 1):
        for one, other in itertools.combinations(holdings, 2):
            yield _units((*held, one)), _units((*held, other))


def row_pairs(relation: str, universe: Sequence[Row], *, rows: int) -> Iterator[Pair[Row]]:
    """All pairs of up to `rows` rows that are neighbours under a relation."""
    if relation == "replace-one":
        return replace_one(universe, rows=rows)
    return add_remove(universe, max_rows=rows)


def unit_pairs(
    relation: str, universe: Sequence[Row], *, units: int, max_rows_per_unit: int
) -> Iterator[Pair[tuple[int, Row]]]:
    """The same of up to `units` units, as (unit, row)."""
    pairs = replace_one_unit if relation == "replace-one" else add_remove_unit
    return pairs(universe, units=units, max_rows_per_unit=max_rows_per_unit)


def rows_of(units: Iterable[tuple[int, Row]]) -> tuple[Row, ...]:
    """A (unit, row) data set without saying whose the rows are."""
    return tuple(row for _, row in units)


def _data_sets(universe: Sequence[Row], size: int, ordered: bool) -> Iterator[tuple[Row, ...]]:
    if ordered:
        return itertools.product(universe, repeat=size)
    return itertools.combinations_with_replacement(universe, size)


def _with(
    universe: Sequence[Row], rows: tuple[Row, ...], row: Row, ordered: bool
) -> tuple[Row, ...]:
    if ordered:
        return (*rows, row)
    return tuple(sorted((*rows, row), key=universe.index))


def _holdings(universe: Sequence[Row], most: int) -> list[tuple[Row, ...]]:
    return [
        held
        for size in range(most + 1)
        for held in itertools.combinations_with_replacement(universe, size)
    ]


def _units(held: Sequence[tuple[Row, ...]]) -> tuple[tuple[int, Row], ...]:
    return tuple((unit, row) for unit, rows in enumerate(held) for row in rows)
