"""Counting in parts is counting at once: a cluster within this process, of any number of parts.

`Cluster` does what Spark promises and nothing more: it deals rows to partitions at random, hands
each partition over in batches, and brings equal values together when asked. tests/spark runs the
same engine on the real one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from dpublish.counting.compute import compute, require_countable
from dpublish.counting.engines import spark
from dpublish.declare.grid import TreeShape, grid_of
from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.declare.statistic import (
    CellCounts,
    CodedRows,
    ContingencyTables,
    GridPoints,
    SparseCounts,
)
from dpublish.errors import PlanError
from dpublish.methods.set_partition.transactions import Baskets, Transactions
from dpublish.methods.solvers.inputs import GraphEdges
from dpublish.sources.sources import open_source
from dpublish.sources.spark import SparkTable

KEY = bytes(range(16))
DATABASE = duckdb.connect()
DATABASE.execute("CREATE MACRO shiftleft(number, places) AS number << places")


class Cluster:
    """A frame in partitions."""

    def __init__(self, parts: list[pa.Table], seed: int) -> None:
        self.parts, self.seed = parts, seed
        self.columns = parts[0].column_names

    @classmethod
    def of(cls, frame: pl.DataFrame, parts: int, seed: int) -> Cluster:
        rng = np.random.default_rng(seed)
        dealt = rng.integers(0, parts, frame.height)
        whole = frame.to_arrow()
        return cls([whole.take(np.flatnonzero(dealt == part)) for part in range(parts)], seed)

    def chosen(self, names: Sequence[str]) -> Cluster:
        picked = [
            pa.table([part.column(n) for n in names], names=[f"c{i}" for i in range(len(names))])
            for part in self.parts
        ]
        return Cluster(picked, self.seed)

    def selectExpr(self, said: Sequence[str]) -> Cluster:
        return Cluster([_selected(part, said) for part in self.parts], self.seed)

    def mapInArrow(self, part: Callable[..., Any], schema: str) -> Cluster:
        kinds = {"int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
        fields = [tuple(field.split()) for field in schema.split(", ")]
        typed = pa.schema([(name, kinds[kind]) for name, kind in fields])
        made = []
        for table in self.parts:
            batches = iter(table.to_batches(max_chunksize=37) if table.num_rows else [])
            made.append(pa.Table.from_batches(list(part(batches)), schema=typed))
        return Cluster(made, self.seed)

    def repartition(self, column: str) -> Cluster:
        whole = pa.concat_tables(self.parts).combine_chunks()
        shuffled = whole.take(np.random.default_rng(self.seed).permutation(whole.num_rows))
        where = np.array([hash(x) % len(self.parts) for x in shuffled.column(column).to_pylist()])
        return Cluster(
            [shuffled.take(np.flatnonzero(where == p)) for p in range(len(self.parts))], self.seed
        )

    def sortWithinPartitions(self, column: str) -> Cluster:
        return Cluster([part.sort_by(column) for part in self.parts], self.seed)

    def summed(self) -> pa.Table:
        whole = pa.concat_tables(self.parts)
        return pl.DataFrame(pl.from_arrow(whole)).group_by(self.columns[:-1]).sum().to_arrow()


def _selected(rows: pa.Table, said: Sequence[str]) -> pa.Table:
    """What Spark's own arithmetic gives, in a database that has the same."""
    return DATABASE.from_arrow(rows).project(", ".join(said)).to_arrow_table()


class Table(SparkTable):
    def stored(self, names: Sequence[str]) -> dict[str, str]:
        known = {pa.int32(): "int", pa.int64(): "bigint", pa.float64(): "double"}
        rows = self.frame.parts[0]
        return {name: known.get(rows.schema.field(name).type, "other") for name in names}

    def chosen(self, names: Sequence[str]) -> Any:
        return self.frame.chosen(names)


class Engine(spark.Spark):
    """The engine, with its one use of Spark's own functions left out."""

    def _grouped(self, domain: Any, packing: Any) -> Any:
        (found,) = self._sums(CellCounts(domain), domain.names)
        return found

    def _kept(self, asked: Any, names: Any, schema: str) -> Any:
        kept = super()._kept(asked, names, schema)

        class Grouped:
            def groupBy(self, *_: str) -> Grouped:
                return self

            def agg(self, _: object) -> Grouped:
                return self

            def toArrow(self) -> pa.Table:
                return kept.summed()

        return Grouped()


@pytest.fixture(autouse=True)
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    class Functions:
        @staticmethod
        def sum(_: str) -> Any:
            class Named:
                def alias(self, _: str) -> None: ...

            return Named()

    monkeypatch.setitem(sys.modules, "pyspark", type(sys)("pyspark"))
    sql = type(sys)("pyspark.sql")
    sql.functions = Functions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)


def made_up(seed: int) -> tuple[pl.DataFrame, Schema]:
    """A table with awkward cells, of types that vary with the seed."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(0, 300))
    words = ["1", " 1", "1.0", "2", "x", "", None, "true", "-0.0", "NA"]
    label: list[Any] = [words[i] for i in rng.integers(0, len(words), rows)]
    number: Any = [None if x == 0 else float(x) / 2 for x in rng.integers(-5, 30, rows)]
    who: Any = [
        None if x == 0 else f" {x}.0" if x % 3 == 0 else str(x) for x in rng.zipf(1.5, rows)
    ]
    if seed % 3 == 1:
        number = pl.Series(number, dtype=pl.Float64).cast(pl.Int32, strict=False)
        who = pl.Series([x and x.strip() for x in who], dtype=pl.String).cast(pl.Float64)
    elif seed % 3 == 2:
        number = [None if x is None else str(x) for x in number]
    items = [
        None if n == 0 else " ".join(str(x) for x in rng.integers(0, 9, n - 1))
        for n in rng.integers(0, 6, rows)
    ]
    frame = pl.DataFrame(
        {
            "unit": pl.Series(label, dtype=pl.String),  # a column may have the name of ours
            "number": number,
            "who": who,
            "items": pl.Series(items, dtype=pl.String),
            "one": pl.Series([str(x) for x in rng.integers(0, 9, rows)], dtype=pl.String),
            "basket": pl.Series([str(x) for x in rng.integers(0, 30, rows)], dtype=pl.String),
        },
        strict=False,
    )
    schema = Schema.from_toml(
        f"""
        [dataset]
        name = "made up"
        neighbours = "add-remove-one"
        unit = "who"
        max_rows_per_unit = {rng.integers(1, 4)}
        [columns.unit]
        kind = "categorical"
        levels = ["1", "2", "x"]
        missing = {"true" if seed % 2 else "false"}
        [columns.number]
        kind = "integer"
        lower = 0
        upper = 12
        outside = "clip"
        """
    )
    items = Schema.from_toml(
        '[dataset]\nname = "sets"\nneighbours = "add-remove-one"\n'
        '[items]\nuniverse = ["0", "1", "2", "3", "4", "5", "6"]\n'
    ).items
    return frame, replace(schema, items=items)


def sorted_rows(rows: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in rows), strict=True))


def sorted_baskets(found: Baskets) -> list[list[int]]:
    return sorted(
        found.items[a:b].tolist()
        for a, b in zip(found.offsets[:-1], found.offsets[1:], strict=True)
    )


def assert_equal(asked: Any, found: Any, expected: Any) -> None:
    if isinstance(expected, SparseCounts):
        assert found.cells.tolist() == expected.cells.tolist()
        assert found.counts.tolist() == expected.counts.tolist()
    elif isinstance(expected, Baskets):
        assert sorted_baskets(found) == sorted_baskets(expected)
    elif isinstance(asked, CodedRows):
        assert sorted_rows(found) == sorted_rows(expected)
        assert [column.dtype for column in found] == [column.dtype for column in expected]
    else:
        assert {key: table.tolist() for key, table in found.tables.items()} == {
            key: table.tolist() for key, table in expected.tables.items()
        }


def check(seed: int) -> None:
    frame, with_unit = made_up(seed)
    domain = with_unit.domain(["unit", "number"])
    shape = TreeShape.over([grid_of(with_unit.columns["number"], schema_name="made up")])
    for schema in (with_unit, replace(with_unit, unit=PrivacyUnit())):
        asked: list[Any] = [
            CellCounts(domain),
            ContingencyTables(domain, ((0,), (0, 1), (1, 0))),
            ContingencyTables(domain, ((0, 1),), {1: np.arange(domain.shape[1]) % 3}),
            CodedRows(domain),
            GridPoints(shape),
            Transactions("items", max_items=2 if seed % 2 else None),
        ]
        if schema.unit.column is not None:
            asked.append(Transactions("one", basket="basket"))
        for parts in [(1, 2, 8)[seed % 3]]:
            table = Table(Cluster.of(frame, parts, seed))
            for statistic in asked:
                expected = compute(statistic, open_source(frame), schema, key=KEY)
                found = Engine(table, schema, KEY).answer(statistic)
                assert_equal(statistic, found, expected)


@pytest.mark.parametrize("start", range(0, 100, 25))
def test_a_hundred_made_up_tables_count_the_same_in_parts(start: int) -> None:
    for seed in range(start, start + 25):
        check(seed)


@pytest.mark.nightly
def test_two_thousand_made_up_tables_count_the_same_in_parts() -> None:
    for seed in range(100, 2_000):
        check(seed)


def test_a_worker_holds_units_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_HELD_ROWS", 5)
    for seed in range(200, 206):
        check(seed)


def test_what_cannot_be_counted_in_parts_is_refused_before_payment() -> None:
    _, schema = made_up(0)
    table = Table(None)
    for asked in (GraphEdges(3), CodedRows(schema.domain(["unit"]), ordered=True)):
        with pytest.raises(PlanError, match=r"workers of Spark.*Nothing was spent"):
            require_countable(asked, table)
    require_countable(CodedRows(schema.domain(["unit"])), table)


def test_what_fails_on_a_worker_says_a_constant_text() -> None:
    from dpublish.sources.spark import _quietly

    def part(_: Any) -> Any:
        yield 1
        raise ValueError("secret row")

    with pytest.raises(RuntimeError, match=r"^A worker of dpublish failed\.$") as caught:
        list(_quietly(part, iter([])))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_worker_imports_neither_the_ledger_nor_noise() -> None:
    code = (
        "import sys, dpublish.counting.engines.spark as s; "
        "bad = [m for m in sys.modules if m.split('.')[:2] in "
        "(['dpublish', 'noise'], ['dpublish', 'ledger'], ['dpublish', 'curator'])]; "
        "sys.exit(', '.join(bad) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
