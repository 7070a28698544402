"""Edges, items and lists: each row is read by itself, whatever type the other rows give its
column."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpublish.counting.graphs import compute, open_structure, read_names, read_sets, spelled
from dpublish.curator.expressible import require_expressible, require_readable
from dpublish.declare.schema import ItemUniverse, Schema
from dpublish.errors import InputError, PlanError, SchemaError
from dpublish.methods.base import Statistic
from dpublish.methods.set_partition.transactions import Transactions
from dpublish.methods.solvers.inputs import (
    AgentLists,
    AgentRows,
    GraphEdges,
    Lists,
    PresentItems,
    names_of,
)
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.planning import numbered
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.quiet import quiet_native_code
from dpublish.sources.sources import open_source

SCHEMA = Schema(name="t", neighbours="add-remove-one")
LABELS = ("5", "6", "7")


def items(data: object) -> list[int]:
    statistic = PresentItems(size=3, labels=LABELS, distinct=False)
    return list(compute(statistic, open_structure(data, "items"), SCHEMA, key=bytes(16)))


@pytest.mark.parametrize("odd", [None, 2.5, float("nan"), "x"])
def test_one_odd_item_drops_no_other(odd: object) -> None:
    assert items(pd.DataFrame({"item": [5, 6]})) == [1, 1, 0]
    assert items(pd.DataFrame({"item": [5, 6, odd]})) == [1, 1, 0]
    assert items([5, 6, odd]) == [1, 1, 0]


def test_bytes_that_are_no_text_drop_no_other() -> None:
    """Parquet files of some programs hold texts as bytes."""
    column = pl.Series("item", [b"5", b" 6 ", b"\xff\xfe", None], dtype=pl.Binary)
    assert items(column.to_frame()) == [1, 1, 0]
    lists = compute(
        AgentLists(3, LABELS), open_structure(column.to_frame(), "lists"), SCHEMA, key=bytes(16)
    )
    assert lists.items.tolist() == [0, 1]
    whole = compute(
        PresentItems(8), open_structure(column.to_frame(), "items"), SCHEMA, key=bytes(16)
    )
    assert whole.tolist() == [0, 0, 0, 0, 0, 1, 1, 0]
    rows = compute(AgentRows(("item",)), open_source(column.to_frame()), SCHEMA, key=bytes(16))
    assert [row["item"] for row in rows] == [5, 6, "\ufffd\ufffd", None]


def test_lists_that_python_cannot_hold_drop_no_other() -> None:
    times = pl.Series("at", [[0], [0, 2**62], None]).cast(pl.List(pl.Datetime("us")))
    with quiet_native_code():
        rows = compute(AgentRows(("at",)), open_source(times.to_frame()), SCHEMA, key=bytes(16))
    assert [row["at"] for row in rows] == [[dt.datetime(1970, 1, 1)], None, None]


@pytest.mark.parametrize("odd", [None, {"a": None}, {"a": 1}])
def test_a_structure_names_nothing_and_is_refused_by_its_type(odd: object) -> None:
    cells = pl.Series("item", [{"a": 1}, odd], dtype=pl.Struct({"a": pl.Int64}))
    for statistic in (PresentItems(3), PresentItems(3, LABELS)):
        source = open_structure(cells.to_frame(), "items")
        assert compute(statistic, source, SCHEMA, key=bytes(16)).tolist() == [0, 0, 0]
        with pytest.raises(SchemaError, match="Nothing was spent"):
            require_readable(statistic, source, SCHEMA, None)


@pytest.mark.parametrize("zipped", [False, True])
def test_one_line_of_a_plain_file_is_one_row(zipped: bool, tmp_path: Path) -> None:
    """Whatever characters it holds that some programs take for line ends."""
    path = tmp_path / ("a.txt.gz" if zipped else "a.txt")
    text = "5\n6\r5\r5\x0b5\x0c5\x1c5\x1e5\x855\u20285\r\n7\r\n".encode()
    path.write_bytes(gzip.compress(text) if zipped else text)
    assert items(path) == [1, 0, 1]
    assert open_structure(path, "lists").count_rows() == 3


def test_one_odd_edge_drops_no_other() -> None:
    statistic = GraphEdges(size=3, labels=LABELS)
    for data in (
        pd.DataFrame({"source": [5, 6, None], "target": [6, 7, 5]}),
        [(5, 6), (6, 7), (5,), 3, None],
        np.array([[5.0, 6.0], [6.0, 7.0], [np.nan, 5.0]]),
    ):
        edges = compute(statistic, open_structure(data, "edges"), SCHEMA, key=bytes(16))
        assert len(edges) == 2, type(data)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 2)])
def test_an_array_that_holds_no_pairs_is_refused_without_its_size(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="has two columns, one row per edge"):
        open_structure(np.zeros(shape, dtype=np.int64), "edges")


def test_lists_of_numbers_are_read_cell_by_cell() -> None:
    statistic = AgentLists(size=3, labels=LABELS)
    plain = compute(
        statistic, open_structure(pd.DataFrame({"items": [5, 6]}), "lists"), SCHEMA, key=bytes(16)
    )
    mixed = compute(
        statistic,
        open_structure(pd.DataFrame({"items": [5, 6, None]}), "lists"),
        SCHEMA,
        key=bytes(16),
    )
    assert plain.items.tolist() == mixed.items.tolist() == [0, 1]


def test_a_valuation_sees_the_same_row_whatever_the_others_are() -> None:
    statistic = AgentRows(columns=("a",))
    alone = compute(
        statistic, open_structure(pd.DataFrame({"a": [5]}), "items"), SCHEMA, key=bytes(16)
    )
    joined = compute(
        statistic, open_structure(pd.DataFrame({"a": [5, None]}), "items"), SCHEMA, key=bytes(16)
    )
    assert repr(alone[0]) == repr(joined[0])


NAMES = ("whole milk", "tea", "C#")


def lists(data: object, names: tuple[str, ...] = NAMES) -> list[list[int]]:
    found = compute(
        AgentLists(len(names), names), open_structure(data, "lists", names), SCHEMA, key=bytes(16)
    )
    return [found.items[start:end].tolist() for start, end in itertools.pairwise(found.starts)]


def test_names_with_blanks_are_found_in_every_kind_of_data(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "# who wants what\nwhole milk, tea\nwhole  milk;C#  # a regular\ntea\n"
    )
    (tmp_path / "a.csv").write_text('items\n"whole milk, tea"\nwhole  milk;C#\ntea\n')
    rows = [["whole milk", "tea"], "whole  milk;C#", ("tea",)]
    for data in (tmp_path / "a.txt", tmp_path / "a.csv", rows, pd.DataFrame({"items": rows})):
        assert lists(data) == [[0, 1], [0, 2], [1]], type(data)
    for line in ("New  York\n", "New York # one of them\n"):
        (tmp_path / "b.txt").write_text(line)
        statistic = PresentItems(size=2, labels=("York", "New York"))
        assert list(
            compute(statistic, open_structure(tmp_path / "b.txt", "items"), SCHEMA, key=bytes(16))
        ) == [0, 1]
    (tmp_path / "c.txt").write_text("New York, Boston\nBoston\tNew York\nYork,Boston\n")
    towns = ("New York", "Boston", "York")
    edges = compute(
        GraphEdges(3, towns),
        open_structure(tmp_path / "c.txt", "edges", towns),
        SCHEMA,
        key=bytes(16),
    )
    assert (edges.heads.tolist(), edges.tails.tolist()) == ([0, 1], [1, 2])


def test_public_names_alone_decide_where_texts_are_cut() -> None:
    assert lists(["a b,c;d"], ("a", "b", "c", "d")) == [[0, 1, 2, 3]]
    assert lists(["a b,c;d"], ("a b", "b", "c", "d")) == [[0, 2, 3]]
    assert lists(["a b,c;d"], ("a b,c", "b", "c", "d")) == [[0, 3]]
    assert lists(["a b,c;d\tb"], ("a b,c;d", "b", "c", "d")) == [[0, 1]]


def test_public_names_are_stripped_and_spelled_as_rows_are() -> None:
    assert names_of([" a ", "b\tc", 5, 5.0, np.float64(6), 2.5, ("x", 1)]) == [
        "a",
        "b c",
        "5",
        "5",
        "6",
        "2.5",
        "('x', 1)",
    ]
    with pytest.raises(PlanError, match="'a' is listed twice"):
        numbered(["a", "b", "a "], "vertices")
    with pytest.raises(PlanError, match="a name is empty"):
        numbered(["a", " "], "vertices")


@pytest.mark.parametrize(
    ("statistic", "name", "text"),
    [
        (PresentItems(2, ("a", "#b")), "a.txt", "its # would start a comment"),
        (GraphEdges(2, ("a", "room #5")), "a.edges", "its # would start a comment"),
        (Transactions("items"), "a.txt", "'whole milk': texts are cut into items at blanks"),
        (Transactions("items", separator="l"), "a.csv", "cut into items at 'l'"),
    ],
)
def test_names_that_no_row_could_write_are_refused(
    statistic: Statistic, name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text("items\n")
    items = Schema(
        name="t", items=ItemUniverse(items=("tea", "whole milk")), neighbours="add-remove-one"
    )
    for fine in (
        PresentItems(2, ("a", "b#")),
        Transactions("items", separator=","),
        Transactions("items", basket="b"),
    ):
        require_expressible(fine, open_structure(path, "items"), items)
    frame = open_structure(pl.DataFrame({"items": [["x"]]}), "items")
    require_expressible(statistic, frame, items)
    with pytest.raises(PlanError, match=text):
        require_expressible(statistic, open_structure(path, "items"), items)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s1 x y\n# more\ns2 y  # last\n", {"s1": ["x", "y"], "s2": ["y"]}),
        ("old port: x y\ns2: y\ns3:\n", {"old port": ["x", "y"], "s2": ["y"], "s3": []}),
        ("s1: New York, x\ns2: x\n", {"s1": ["New York", "x"], "s2": ["x"]}),
    ],
)
def test_sets_by_name(text: str, found: dict[str, list[str]], tmp_path: Path) -> None:
    (tmp_path / "sets.txt").write_text(text)
    assert read_sets(tmp_path / "sets.txt") == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A x\nA y\n", "the first word of a line names the set; 'A' names two"),
        ("A: x\nA: y\n", "what precedes the colon of a line names the set; 'A' names two"),
        ("A: x\nB y\n", "'B y' has none"),
        ("A x, y\n", "holds a comma or semicolon"),
    ],
)
def test_sets_that_could_be_misread_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "sets.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_sets(tmp_path / "sets.txt")


def test_names_files_keep_comments_apart_from_names(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("# towns\nNew  York\nC#\n\n")
    assert read_names(tmp_path / "names.txt") == ["New York", "C#"]
    (tmp_path / "names.txt").write_text("room #5\n")
    with pytest.raises(InputError, match="is '#' part of the name in 'room #5'"):
        read_names(tmp_path / "names.txt")


def test_spelling_does_not_depend_on_the_type() -> None:
    assert spelled(pl.Series([5.0, 2.5, None, float("nan")])).to_list() == ["5", "2.5", None, None]
    assert spelled(pl.Series([5, 6])).to_list() == ["5", "6"]


def test_a_set_that_lists_an_element_twice_is_refused() -> None:
    """Its score would move by more than the proof allows."""
    twice = Lists(np.array([0, 5, 6]), np.array([0, 0, 0, 0, 0, 1]))
    with pytest.raises(PlanError, match="twice"):
        SetCover(sets=twice, elements=2)._check(2, 2)


def test_tiny_distances_must_be_symmetric_too() -> None:
    distances = np.full((9, 9), 1e-10)
    np.fill_diagonal(distances, 0)
    distances[0, 1:5] = 0
    with pytest.raises(PlanError, match="symmetric"):
        Metric.matrix(distances)


def test_a_mark_before_the_first_line_belongs_to_no_name(tmp_path: Path) -> None:
    names, rows = tmp_path / "names.txt", tmp_path / "rows.txt"
    for file in (names, rows):
        file.write_bytes(b"\xef\xbb\xbfOslo\r\nRome\r\n")
    assert read_names(names) == ["Oslo", "Rome"]
    source = open_structure(rows, "items", ["Oslo", "Rome"])
    found = [cell for batch in source.batches(source.columns()) for cell in batch.to_series()]
    assert found == ["Oslo", "Rome"]
