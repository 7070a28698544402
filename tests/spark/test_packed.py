"""What Spark packs into words is what the encoder reads, cell by awkward cell."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.counting.test_engines import assert_equal
from tests.counting.test_sql import AXES, KEEPING, RULES, schema_of

from dpublish.counting.compute import compute
from dpublish.counting.engines import packed
from dpublish.counting.engines.spark import Spark
from dpublish.declare.encode import Encoder
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CellCounts, CodedRows, ContingencyTables
from dpublish.sources.sources import open_source
from dpublish.sources.spark import SparkTable

KEY = bytes(16)
WHOLES = [0, 1, -1, 2, 5, 9, 10, 11, 99, 100, 101, 127, -128, None]
FRACTIONS = [0.0, -0.0, 0.5, -0.5, -1.0, -1.5, 0.99999999, 1.0, 10.0, 10.5, 11.0, -0.1, None]
FRACTIONS += [1e30, -1e30, 5e-324, float("nan"), float("inf"), float("-inf"), 2.0**53, 2.0**63]
DAYS = [0, -1, -719_162, -719_163, 2_932_896, 2_932_897, None]
CELLS: dict[str, pl.Series] = {
    "tinyint": pl.Series(WHOLES, dtype=pl.Int8),
    "smallint": pl.Series([*WHOLES, 32_767, -32_768], dtype=pl.Int16),
    "int": pl.Series([*WHOLES, 2**31 - 1, -(2**31), 1_000_000, 1_000_001], dtype=pl.Int32),
    "bigint": pl.Series([*WHOLES, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)], dtype=pl.Int64),
    "float": pl.Series(FRACTIONS, dtype=pl.Float32, strict=False),
    "double": pl.Series(FRACTIONS, dtype=pl.Float64),
    "boolean": pl.Series([True, False, None]),
    "date": pl.Series(
        [18_262, 18_261, 18_627, 18_628, *DAYS, 2**31 - 1, -(2**31), 18_321], dtype=pl.Int32
    ).cast(pl.Date),
}
WHOLE = {"narrow", "unit", "real", "thirds", "labels", "truth words", "unreadable", "flag"}
PACKED: dict[str, set[str]] = {
    **{kind: {*WHOLE, "zero fraction"} for kind in ("tinyint", "smallint", "int", "bigint")},
    **{kind: {"narrow", "unit"} for kind in ("float", "double")},
    "boolean": {*AXES},
    "date": {"days"},
}
"""Which axes are packed in a column of which type; the others are handed over as they are."""


def facts_of(rule: str) -> Schema:
    return schema_of({name: f"{axis}\n{rule}" for name, axis in AXES.items()})


def check(session: Any, stored: str, rule: str) -> None:
    cells = CELLS[stored]
    frame = pl.DataFrame(dict.fromkeys(AXES, cells))
    source = SparkTable(session.createDataFrame(frame.to_arrow()).coalesce(1))
    domain = facts_of(rule).domain(list(AXES))
    packing = packed.packing_of(domain, source.stored(domain.names))
    assert {domain.names[digit.place] for digit in packing.digits} == PACKED[stored]
    assert {domain.names[place] for place in packing.plain} == AXES.keys() - PACKED[stored]
    found = source.chosen(domain.names).selectExpr(packing.select()).toArrow()
    encoder = Encoder(domain)
    tables = packing.look_up(encoder)
    for digit in packing.digits:
        words = found.column(f"w{digit.word}").to_numpy()
        each = (words >> digit.shift) & ((1 << digit.bits) - 1)
        codes, keep = encoder.encode_column(digit.place, cells)
        expected = np.ones(codes.size, np.bool_) if keep is None else keep
        name = domain.names[digit.place]
        assert tables[digit.place][1][each].tolist() == expected.tolist(), (name, rule)
        here, there = codes[expected], tables[digit.place][0][each][expected]
        assert here.tolist() == there.tolist(), (name, rule)


@pytest.mark.parametrize("stored", CELLS)
def test_awkward_cells_are_packed_as_they_are_read(session: Any, stored: str) -> None:
    for rule in [KEEPING, *RULES]:
        check(session, stored, rule)


@pytest.mark.parametrize(
    ("before", "after", "stored"),
    [
        ("c[0-9]+ IS NULL", "FALSE", "int"),
        ("isnan", "isnull", "double"),
        ("floor", "rint", "double"),
        ("least", "greatest", "int"),
        ("greatest", "least", "date"),
        ("CAST[(]-1 AS BIGINT[)]", "CAST(-2 AS BIGINT)", "smallint"),
    ],
)
def test_each_part_of_the_arithmetic_is_needed(
    session: Any, monkeypatch: pytest.MonkeyPatch, before: str, after: str, stored: str
) -> None:
    proper = packed.Digit.sql

    def wrong(digit: packed.Digit, cell: str) -> str:
        return re.sub(before, after, proper(digit, cell))

    monkeypatch.setattr(packed.Digit, "sql", wrong)
    with pytest.raises((AssertionError, IndexError)):
        check(session, stored, KEEPING)


def made_up(seed: int) -> tuple[pl.DataFrame, Schema]:
    """A table of columns of types, and a schema of axes, that vary with the seed."""
    rng = np.random.default_rng(seed)
    rows, names = int(rng.integers(1, 400)), []
    columns: dict[str, pl.Series] = {}
    text = '[dataset]\nname = "made up"\nneighbours = "add-remove-one"\n'
    if seed % 2:
        text += f'unit = "who"\nmax_rows_per_unit = {rng.integers(1, 3)}\n'
    for number in range(int(rng.integers(1, 6))):
        stored = str(rng.choice(list(CELLS)))
        name = f"{number}` .{stored}"
        columns[name] = CELLS[stored].gather(rng.integers(0, len(CELLS[stored]), rows))
        names.append(name)
        axis = AXES[str(rng.choice([*AXES, *PACKED[stored]]))]
        text += f'[columns."{name}"]\n{axis}\n{rng.choice([*RULES, KEEPING, KEEPING])}\n'
    columns["who"] = pl.Series(rng.integers(0, 1 + rows // 2, rows))
    return pl.DataFrame(columns), Schema.from_toml(text)


def check_made_up(session: Any, seed: int) -> None:
    frame, schema = made_up(seed)
    domain = schema.domain(list(schema.columns))
    data = session.createDataFrame(frame.to_arrow()).repartition((1, 2, 8)[seed % 3])
    places = tuple(range(len(domain.axes)))
    tables = {*((place,) for place in places), places[:2]}
    asked: list[Any] = [ContingencyTables(domain, tuple(sorted(tables)))]
    asked += [CodedRows(domain), CellCounts(domain)] if domain.size < 1 << 63 else []
    for statistic in asked[seed % len(asked) :][:2]:
        expected = compute(statistic, open_source(frame), schema, key=KEY)
        found = Spark(SparkTable(data), schema, KEY).answer(statistic)
        assert_equal(statistic, found, expected)


def test_made_up_tables(session: Any) -> None:
    for seed in range(4):
        check_made_up(session, seed)


@pytest.mark.nightly
def test_a_hundred_more_made_up_tables(session: Any) -> None:
    for seed in range(4, 104):
        check_made_up(session, seed)
