"""What a cell means does not depend on the type that its column has because of another row.

pandas chooses one type for a column: whole numbers become doubles when a cell is missing, truths
become objects, and all become text beside a text. If codes followed, one row could move all others,
and no noise would hide that.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpublish.counting.bound import keep_rows, numbers_said
from dpublish.counting.graphs import _plain_rows, compute, open_structure
from dpublish.counting.transactions import compute as baskets
from dpublish.declare.encode import Encoder
from dpublish.declare.schema import Schema
from dpublish.methods.set_partition.transactions import Transactions
from dpublish.methods.solvers.inputs import AgentLists, Lists, PresentItems
from dpublish.sources.sources import open_source
from dpublish.sources.units import join_units

HEAD = '[dataset]\nname = "x"\nneighbours = "add-remove-one"\n[columns.v]\nmissing = true\n'
AXES = {
    "truths": 'kind = "categorical"\nlevels = ["True", "False"]\n',
    "labels": 'kind = "categorical"\nlevels = ["0", "1", "2", "0.5", "0.1", "1e-05", "1000000", '
    '"12345678901234567", "1e+16", '
    '"9300000000000000000", "9007199254740992", "9007199254740994.0", "9.007199254740992e+15", '
    '"2020-01-01", "2020-01-01 00:00:00", "2020-05-05 13:00:00.5", "9999-12-31 23:59:59", '
    '"0001-01-01 00:00:00", "inf"]\n',
    "boolean": 'kind = "boolean"\n',
    "integer": 'kind = "integer"\nlower = -5\nupper = 20\noutside = "other"\n',
    "real": 'kind = "real"\nlower = -5\nupper = 20\nbins = 50\noutside = "other"\n',
    "date": 'kind = "date"\nlower = 2019-01-01\nupper = 2021-01-01\noutside = "other"\n',
}
TIMES = ["2020-01-01", "2020-05-05 13:00:00.5"]
FAR = np.array(
    ["2020-01-01", "9999-12-31T23:59:59.5", "10000-01-01", "148108-01-01", "-0044-03-15"],
    dtype="datetime64[us]",
)
COLUMNS: dict[str, Any] = {
    "bool": [True, False],
    "int": [0, 1, 2, 7, 1_000_000, 12345678901234567],
    "long": [1, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, -(2**53), 9_999_999_999_999_999],
    "uint64": np.array([0, 1, 9300000000000000000], dtype=np.uint64),
    "float": [0.0, 1.0, 0.5, 0.1, 1e-5, 1e16, 2.0**53, 2.7, -0.5, -0.0, float("inf")],
    "float32": np.array([0.5, 0.1, 0.7, 1.0, 2.7, 1e-5], dtype=np.float32),
    "time": pd.to_datetime(TIMES, format="mixed"),
    "zone": pd.to_datetime(TIMES, format="mixed").tz_localize("Europe/Amsterdam"),
    "long double": np.array([0.5, 0.1, 1.0, 2.7], dtype=np.longdouble),
    "far": FAR,
    "far zone": pd.Series(FAR[:2]).dt.tz_localize("UTC").dt.tz_convert("America/New_York"),
    "far seconds": FAR.astype("datetime64[s]"),
    "text": ["True", "TRUE", "1", "0.5", " 1 ", "2020-01-01"],
    "categories": pd.Categorical([0, 1, 2]),
    "truths": pd.Categorical([True, False]),
    "nullable": pd.array([True, False], dtype="boolean"),
    "duration": pd.to_timedelta([1, 2], unit="D"),
}
NEWCOMERS = [
    None,
    float("nan"),
    "x",
    10**25,
    True,
    5,
    2.5,
    pd.NaT,
    dt.date(2020, 1, 1),
    decimal.Decimal("1.5"),
    [1],
]


def codes(cells: Any, axis: str) -> list[int]:
    encoder = Encoder(Schema.from_toml(HEAD + AXES[axis]).domain(["v"]))
    source = open_source(pd.DataFrame({"v": pd.Series(cells)}))
    return [code for batch, _ in source.coded(encoder) for code in batch.codes[0].tolist()]


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("column", COLUMNS)
def test_another_row_does_not_change_a_code(axis: str, column: str) -> None:
    cells = list(pd.Series(COLUMNS[column]))
    alone = codes(COLUMNS[column], axis)
    for newcomer in NEWCOMERS:
        assert codes([*cells, newcomer], axis)[: len(alone)] == alone, newcomer


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(
    "column", ["bool", "int", "long", "uint64", "float", "float32", "time", "zone", "text"]
)
def test_another_row_does_not_change_a_category(axis: str, column: str) -> None:
    """Categories are of one type as well, chosen by looking at all of them."""
    cells = list(pd.Series(COLUMNS[column]))
    alone = codes(pd.Series(COLUMNS[column]).astype("category"), axis)
    assert alone == codes(COLUMNS[column], axis)
    for newcomer in NEWCOMERS:
        if not isinstance(newcomer, list):
            assert (
                codes(pd.Series([*cells, newcomer]).astype("category"), axis)[: len(alone)] == alone
            ), newcomer


ITEMS = ("1", "5", "-5", "0.5", "0", "true", "2020-01-01", "00:00:00", "13:00:00.5", "x")


def records(cells: Any, separator: str | None, basket: bool) -> Counter[tuple[int, ...]]:
    frame = pd.DataFrame({"v": pd.Series(cells)}).assign(who=range(len(cells)), visit="a")
    unit = 'unit = "who"\nmax_rows_per_unit = 1\n' if basket else ""
    schema = Schema.from_toml(
        f'[dataset]\nname = "x"\nneighbours = "add-remove-one"\n{unit}[items]\nuniverse = '
        f"{list(ITEMS)}\n"
    )
    statistic = Transactions("v", "visit" if basket else None, separator)
    found = baskets(statistic, open_source(frame), schema, key=bytes(16))
    return Counter(
        tuple(part.tolist()) for part in np.split(found.items, found.offsets[1:-1]) if part.size
    )


@pytest.mark.parametrize("basket", [False, True])
@pytest.mark.parametrize("separator", [None, ".", "-"])
@pytest.mark.parametrize("column", [*COLUMNS, "negative"])
def test_another_row_does_not_change_a_transaction(
    column: str, separator: str | None, basket: bool
) -> None:
    """A number or a time is one item, in a column of its own type and among texts; only texts are
    cut."""
    given = {**COLUMNS, "negative": [1, 5, -5]}[column]
    alone = records(given, separator, basket)
    for newcomer in NEWCOMERS:
        after = records([*pd.Series(given), newcomer], separator, basket)
        assert alone <= after, newcomer
        assert (after - alone).total() <= 1, newcomer


def test_transactions_are_what_was_meant() -> None:
    assert records([1, 5, -5], None, basket=False) == Counter({(0,): 1, (1,): 1, (2,): 1})
    assert records([1, "1 5", 0.5, "0.5"], ".", basket=False) == Counter(
        {(0,): 1, (3,): 1, (1, 4): 1}
    )
    assert records([dt.datetime(2020, 1, 1), "2020-01-01 00:00:00"], None, basket=False) == Counter(
        {(6, 7): 1}
    )


@pytest.mark.parametrize("column", COLUMNS)
def test_another_row_does_not_change_who_is_named(column: str) -> None:
    schema = Schema(name="x", neighbours="add-remove-one")

    def named(cells: Any, statistic: PresentItems | AgentLists) -> Counter[Any]:
        shape: Any = "lists" if isinstance(statistic, AgentLists) else "items"
        source = open_structure(pd.DataFrame({"v": pd.Series(cells)}), shape, statistic.labels)
        found = compute(statistic, source, schema, key=bytes(16))
        if isinstance(found, Lists):
            return Counter(
                tuple(part.tolist()) for part in np.split(found.items, found.starts[1:-1])
            )
        return Counter(dict(enumerate(found.tolist())))

    for statistic in (
        PresentItems(99),
        PresentItems(len(ITEMS), ITEMS),
        AgentLists(99),
        AgentLists(len(ITEMS), ITEMS),
    ):
        alone = named(COLUMNS[column], statistic)
        for newcomer in NEWCOMERS:
            after = named([*pd.Series(COLUMNS[column]), newcomer], statistic)
            assert alone <= after, newcomer
            assert (after - alone).total() <= 1, newcomer


def test_what_is_read_is_what_was_meant() -> None:
    """Or else reading nothing at all would pass."""
    assert (
        codes([True, False, None], "truths") == codes(["True", "false", ""], "truths") == [0, 1, 3]
    )
    assert (
        codes([True, False], "integer")
        == codes([1, 0], "integer")
        == codes(["TRUE", "false "], "integer")
    )
    assert codes([True], "real") == codes([1.0], "real")
    levels = Schema.from_toml(HEAD + AXES["labels"]).domain(["v"]).axes[0]
    read = [
        levels.label(code)
        for code in codes([0.1, 1e16, float("inf"), 1_000_000, dt.datetime(2020, 1, 1)], "labels")
    ]
    assert read == ["0.1", "1e+16", "inf", "1000000", "2020-01-01 00:00:00"]


@pytest.mark.parametrize("newcomer", [None, "x"])
@pytest.mark.parametrize(
    "ids",
    [
        [7, 8, 9],
        [2**57 + 1, 2**57 + 3, 2**57 + 7],
        [
            2**53,
            2**53 + 2,
            9_000_000_000_000_000 + 10**15 - 2,
        ],  # Python spells these doubles without an exponent
        [0.5, 1.5, 2.5],
        [float("inf"), float("-inf")],
        pd.to_datetime(TIMES, format="mixed"),
        FAR[:2],
    ],
)
def test_units_stay_who_they_are(ids: Any, newcomer: Any) -> None:
    """Ids that a double rounds together name nobody, whether or not anything rounded them."""

    def kept(cells: Any) -> list[bool]:
        frame = pd.DataFrame({"id": pd.Series(cells)})
        units = [batch.get_column("id") for batch in open_source(frame).batches(["id"])]
        said = numbers_said(np.arange(len(frame), dtype=np.uint64))
        return [bool(keep) for keep in keep_rows(join_units(units), said, 1, bytes(16))]

    cells = list(pd.Series(ids)) * 3
    alone = kept(pd.Series(cells))
    assert kept([*cells, newcomer])[: len(alone)] == alone
    assert kept(pd.Series(cells).astype("category")) == alone
    assert kept(pd.Series([*cells, newcomer]).astype("category"))[: len(alone)] == alone
    assert sum(alone) == (
        0 if isinstance(cells[0], int | float) and cells[0] >= 2**53 else len(set(cells))
    )


def test_exact_ids_beyond_doubles_are_read_where_no_row_can_round_them() -> None:
    big = [2**57 + 1, 2**57 + 2, 2**57 + 2]
    assert open_source(pl.DataFrame({"id": big})).count_units("id") == 2
    assert open_source(pd.DataFrame({"id": [str(one) for one in big]})).count_units("id") == 2
    assert open_source(pd.DataFrame({"id": pd.array(big, dtype="Int64")})).count_units("id") == 2


@pytest.mark.parametrize("newcomer", [None, "n/a", 2.5, True])
def test_rows_for_a_function_have_the_same_values(newcomer: Any) -> None:
    columns: dict[str, list[Any]] = {
        "age": [41, 30],
        "member": [True, False],
        "height": [1.5, 2.0],
        "name": ["7", "ann"],
    }

    def rows(cells: dict[str, list[Any]]) -> list[dict[str, Any]]:
        source = open_source(
            pd.DataFrame({name: pd.Series(values) for name, values in cells.items()})
        )
        return [row for frame in source.batches(list(cells)) for row in _plain_rows(frame)]

    alone = rows(columns)
    assert alone == [
        {"age": 41, "member": True, "height": 1.5, "name": 7},
        {"age": 30, "member": False, "height": 2, "name": "ann"},
    ]
    assert rows({name: [*values, newcomer] for name, values in columns.items()})[:2] == alone
    assert [type(value) for value in alone[0].values()] == [int, bool, float, int]
