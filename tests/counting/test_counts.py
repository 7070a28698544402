"""Exact counts against `collections.Counter`, through every path that counting can take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.counting import cells as counting
from dpublish.counting.bound import codes_said, keep_rows
from dpublish.counting.cells import coded_rows, count_cells, count_in_tables
from dpublish.counting.compute import compute
from dpublish.declare.columns import Column
from dpublish.declare.domain import Domain
from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.declare.statistic import CellCounts, CodedRows, ContingencyTables, SparseCounts
from dpublish.errors import SchemaError
from dpublish.sources.sources import open_source

KEY = bytes(range(16))


def make(
    cardinalities: list[int], *, outside: str = "drop", unit: PrivacyUnit | None = None
) -> tuple[Schema, Domain]:
    columns = {
        f"c{i}": Column(
            name=f"c{i}", kind="integer", lower=0, upper=cardinality - 1, outside=outside
        )  # type: ignore[arg-type]
        for i, cardinality in enumerate(cardinalities)
    }
    schema = Schema(name="t", columns=columns, unit=unit or PrivacyUnit())
    return schema, schema.domain(list(columns))


def table(cardinalities: list[int], rows: int, seed: int) -> pl.DataFrame:
    """Codes, some of which lie beyond the declared values."""
    generator = np.random.default_rng(seed)
    data: dict[str, Any] = {}
    for i, cardinality in enumerate(cardinalities):
        values = (generator.zipf(1.4, rows) - 1) % (cardinality + max(1, cardinality // 8))
        data[f"c{i}"] = values.astype(
            [np.int64, np.uint8, np.int32][i % 3] if cardinality < 200 else np.int64
        )
    data["who"] = generator.integers(0, max(1, rows // 3), rows)
    return pl.DataFrame(data)


def by_hand(frame: pl.DataFrame, domain: Domain) -> SparseCounts:
    counter: Counter[int] = Counter()
    for row in frame.select(domain.names).iter_rows():
        if all(value < size for value, size in zip(row, domain.shape, strict=True)):
            counter[
                sum(value * stride for value, stride in zip(row, domain.strides, strict=True))
            ] += 1
    cells = sorted(counter)
    return SparseCounts(
        np.array(cells, dtype=np.uint64),
        np.array([counter[cell] for cell in cells], dtype=np.int64),
    )


def assert_same(found: SparseCounts, expected: SparseCounts) -> None:
    assert found.cells.dtype == np.uint64
    assert found.counts.dtype == np.int64
    assert np.array_equal(found.cells, expected.cells)
    assert np.array_equal(found.counts, expected.counts)


SHAPES = [
    [3],
    [2, 1, 5],
    [74, 9, 16],
    [100, 42, 300, 1000],
    [250] * 7,
    [2**15 - 1] * 4,
    [2] * 63,
    [70_000, 65_000, 65_000, 31_000],
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("rows", [0, 1, 5_000])
def test_counts_equal_a_plain_counter(shape: list[int], rows: int) -> None:
    schema, domain = make(shape)
    frame = table(shape, rows, seed=len(shape))
    assert_same(count_cells(open_source(frame), schema, domain, key=KEY), by_hand(frame, domain))


@pytest.mark.parametrize("shape", [[74, 9], [100, 42, 300, 1000]], ids=str)
def test_units_are_bounded_after_rows_are_dropped(
    shape: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 777)
    schema, domain = make(shape, unit=PrivacyUnit(column="who", max_rows=2))
    frame = table(shape, 5_000, seed=4)
    inside = frame.filter(
        pl.all_horizontal(
            pl.col(n) < size for n, size in zip(domain.names, domain.shape, strict=True)
        )
    )
    said = codes_said([inside[name].to_numpy() for name in domain.names], domain.shape)
    kept = inside.filter(pl.Series(keep_rows(inside["who"], said, 2, KEY)))
    assert kept.height < inside.height < frame.height
    assert_same(count_cells(open_source(frame), schema, domain, key=KEY), by_hand(kept, domain))
    rows = coded_rows(open_source(frame), schema, domain, key=KEY)
    assert all(
        np.array_equal(codes, kept[name].to_numpy())
        for name, codes in zip(domain.names, rows, strict=True)
    )
    everything = tuple(range(len(shape)))
    asked = ContingencyTables(domain, (everything[:2],))
    (counts,) = count_in_tables(asked, open_source(frame), schema, key=KEY).tables.values()
    assert counts.sum() == kept.height


@pytest.mark.parametrize("unit", [None, "who"])
def test_many_tables_in_one_pass_are_the_tables_one_by_one(
    unit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "_BLOCK", 97)
    monkeypatch.setattr(counting, "_ROWS_A_THREAD", 100)
    shape = [7, 300, 2, 70_000]
    schema, domain = make(shape, unit=PrivacyUnit(column=unit, max_rows=3 if unit else 1))
    frame = table(shape, 3_000, seed=6)
    tables = ((0,), (0, 1), (1, 2), (2, 0, 1), (0, 1, 2), (1,), (3, 2))
    groups = {1: np.arange(300) % 4, 3: np.arange(70_000) // 10_000}
    rows = coded_rows(open_source(frame), schema, domain, key=KEY)
    for asked in (ContingencyTables(domain, tables), ContingencyTables(domain, tables, groups)):
        found = count_in_tables(asked, open_source(frame), schema, key=KEY).tables
        sizes = [
            int(asked.groups[i].max()) + 1 if i in asked.groups else n for i, n in enumerate(shape)
        ]
        said = [asked.groups[i][c] if i in asked.groups else c for i, c in enumerate(rows)]
        for columns in tables:
            expected = np.zeros([sizes[column] for column in columns], dtype=np.int64)
            np.add.at(expected, tuple(said[column] for column in columns), 1)
            assert np.array_equal(found[columns], expected)
    empty = count_in_tables(asked, open_source(frame.clear()), schema, key=KEY).tables
    assert all(not counts.any() for counts in empty.values())
    with pytest.raises(SchemaError, match="cells together"):
        count_in_tables(
            ContingencyTables(domain, ((1, 3), (3, 1, 0))), open_source(frame), schema, key=KEY
        )


def test_a_unit_column_can_also_be_counted() -> None:
    schema, domain = make([5], unit=PrivacyUnit(column="c0", max_rows=2))
    frame = pl.DataFrame({"c0": [0, 0, 0, 1, None]})
    assert count_cells(open_source(frame), schema, domain, key=KEY).counts.tolist() == [2, 1]


def test_coded_rows_keep_order_types_and_drop_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 2)
    schema, domain = make([3, 300])
    frame = pl.DataFrame({"c0": [0, 1, 2, 3, None], "c1": [299, 5, 300, 1, 2]})
    first, second = coded_rows(open_source(frame), schema, domain, key=KEY)
    assert (first.tolist(), second.tolist()) == ([0, 1], [299, 5])
    assert (first.dtype, second.dtype) == (np.uint8, np.uint16)
    empty = coded_rows(open_source(frame.clear()), schema, domain, key=KEY)
    assert [column.dtype for column in empty] == [np.uint8, np.uint16]


def test_needs_are_answered_and_progress_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 100)
    schema, domain = make([3])
    frame = pl.DataFrame({"c0": [0, 1, 1] * 100})
    pulses: list[int] = []
    counts = compute(
        CellCounts(domain), open_source(frame), schema, key=KEY, progress=pulses.append
    )
    assert isinstance(counts, SparseCounts)
    assert counts.counts.tolist() == [100, 200]
    rows = compute(CodedRows(domain), open_source(frame), schema, key=KEY, progress=pulses.append)
    assert isinstance(rows, list)
    assert rows[0].size == 300
    assert set(pulses) == {0}


def test_the_frame_is_left_as_it_was() -> None:
    """Codes may be the frame's own memory, which counting must not write to."""
    schema, domain = make([200, 200, 200])
    frame = pl.DataFrame({name: np.arange(150, dtype=np.uint8) for name in domain.names})
    before = frame.clone()
    count_cells(open_source(frame), schema, domain, key=KEY)
    coded_rows(open_source(frame), schema, domain, key=KEY)
    assert frame.equals(before)
