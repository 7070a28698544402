"""Exact counts against `collections.Counter`, through every path that counting can take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.counting import cells as counting
from dpublish.counting.bound import keep_rows
from dpublish.counting.cells import coded_rows, compute, count_cells
from dpublish.declare.columns import Column
from dpublish.declare.domain import Domain
from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.errors import SchemaError
from dpublish.methods.base import CellCounts, CodedRows, SparseCounts
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
def test_small_pieces_blocks_and_threads_change_nothing(
    shape: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, domain = make(shape)
    frame = table(shape, 20_000, seed=9)
    expected = by_hand(frame, domain)
    monkeypatch.setattr(counting, "_ROWS_A_THREAD", 100)
    monkeypatch.setattr(counting, "_WORKERS", 3)
    monkeypatch.setattr(counting, "_BLOCK", 64)
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 1_234)
    for piece in (100, 1_000, 3_000, 1 << 20):
        monkeypatch.setattr(counting, "PIECE_ROWS", piece)
        for direct in (0, 1 << 20):
            monkeypatch.setattr(counting, "DIRECT_CELLS", direct)
            assert_same(count_cells(open_source(frame), schema, domain, key=KEY), expected)
            assert_same(count_cells(open_source(frame.lazy()), schema, domain, key=KEY), expected)


def test_many_rows_in_one_cell_do_not_overflow_a_narrow_counter() -> None:
    """Counters are 64 bits wide: start them just below 2^31 and 2^32 and they pass over."""
    _, domain = make([4])
    counter = counting._DirectCounter(domain, counting._CellBuilder(domain), counting._Threads())
    counter._counts = [np.array([2**31 - 2, 2**32 - 2, 2**40, 0], dtype=np.int64)]
    counter.add([np.array([0] * 5 + [1] * 5 + [2] * 5 + [3], dtype=np.uint8)], None)
    assert counter.finish().counts.tolist() == [2**31 + 3, 2**32 + 3, 2**40 + 5, 1]
    half = SparseCounts(np.array([7], dtype=np.uint64), np.array([2**31 - 1], dtype=np.int64))
    assert counting._merged(half, half).counts.tolist() == [2**32 - 2]


def test_cell_numbers_near_two_to_the_63_are_exact() -> None:
    shape = [2**21, 2**21, 2**21]
    schema, domain = make(shape)
    assert domain.size == 1 << 63
    frame = pl.DataFrame({f"c{i}": [2**21 - 1, 0, 2**21 - 1] for i in range(3)})
    assert count_cells(open_source(frame), schema, domain, key=KEY).cells.tolist() == [0, 2**63 - 1]


def test_a_domain_beyond_two_to_the_63_is_refused() -> None:
    schema, domain = make([2**21, 2**21, 2**21, 2])
    with pytest.raises(SchemaError, match="2\\^63"):
        count_cells(
            open_source(pl.DataFrame({n: [0] for n in domain.names})), schema, domain, key=KEY
        )
    with pytest.raises(SchemaError, match="at least one column"):
        count_cells(open_source(pl.DataFrame({"x": [0]})), schema, Domain(()), key=KEY)


@pytest.mark.parametrize("shape", [[74, 9], [100, 42, 300, 1000]], ids=str)
def test_units_are_bounded_before_rows_are_dropped(
    shape: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpublish.sources.sources._BATCH_ROWS", 777)
    schema, domain = make(shape, unit=PrivacyUnit(column="who", max_rows=2))
    frame = table(shape, 5_000, seed=4)
    kept = frame.filter(pl.Series(keep_rows(frame["who"], 2, KEY)))
    assert kept.height < frame.height
    assert_same(count_cells(open_source(frame), schema, domain, key=KEY), by_hand(kept, domain))
    rows = coded_rows(open_source(frame), schema, domain, key=KEY)
    inside = kept.filter(
        pl.all_horizontal(
            pl.col(n) < size for n, size in zip(domain.names, domain.shape, strict=True)
        )
    )
    assert all(
        np.array_equal(codes, inside[name].to_numpy())
        for name, codes in zip(domain.names, rows, strict=True)
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
