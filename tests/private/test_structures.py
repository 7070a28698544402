"""Edges, items and lists: each row is read by itself, whatever type the other rows give its column."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpublish.errors import InputError, PlanError
from dpublish.mechanisms.optimize.inputs import AgentLists, AgentRows, GraphEdges, Lists, PresentItems
from dpublish.mechanisms.optimize.metric import Metric
from dpublish.mechanisms.optimize.set_cover import SetCover
from dpublish.private.structures import answer_need, open_structure, spelled
from dpublish.schema import Schema

SCHEMA = Schema(name="t", neighbours="add-remove-one")
LABELS = ("5", "6", "7")


def items(data: object) -> list[int]:
    need = PresentItems(size=3, labels=LABELS, distinct=False)
    return list(answer_need(need, open_structure(data, "items"), SCHEMA, key=bytes(16)))


@pytest.mark.parametrize("odd", [None, 2.5, float("nan"), "x"])
def test_one_odd_item_drops_no_other(odd: object) -> None:
    assert items(pd.DataFrame({"item": [5, 6]})) == [1, 1, 0]
    assert items(pd.DataFrame({"item": [5, 6, odd]})) == [1, 1, 0]
    assert items([5, 6, odd]) == [1, 1, 0]


@pytest.mark.parametrize("zipped", [False, True])
def test_one_line_of_a_plain_file_is_one_row(zipped: bool, tmp_path: Path) -> None:
    """Whatever characters it holds that some programs take for line ends."""
    path = tmp_path / ("a.txt.gz" if zipped else "a.txt")
    text = "5\n6\r5\r5\x0b5\x0c5\x1c5\x1e5\x855\u20285\r\n7\r\n".encode()
    path.write_bytes(gzip.compress(text) if zipped else text)
    assert items(path) == [1, 1, 1]
    assert open_structure(path, "lists").count_rows() == 3


def test_one_odd_edge_drops_no_other() -> None:
    need = GraphEdges(size=3, labels=LABELS)
    for data in (
        pd.DataFrame({"source": [5, 6, None], "target": [6, 7, 5]}),
        [(5, 6), (6, 7), (5,), 3, None],
        np.array([[5.0, 6.0], [6.0, 7.0], [np.nan, 5.0]]),
    ):
        edges = answer_need(need, open_structure(data, "edges"), SCHEMA, key=bytes(16))
        assert len(edges) == 2, type(data)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 2, 2)])
def test_an_array_that_holds_no_pairs_is_refused_without_its_size(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="has two columns, one row an edge"):
        open_structure(np.zeros(shape, dtype=np.int64), "edges")


def test_lists_of_numbers_are_read_cell_by_cell() -> None:
    need = AgentLists(size=3, labels=LABELS)
    plain = answer_need(need, open_structure(pd.DataFrame({"items": [5, 6]}), "lists"), SCHEMA, key=bytes(16))
    mixed = answer_need(need, open_structure(pd.DataFrame({"items": [5, 6, None]}), "lists"), SCHEMA, key=bytes(16))
    assert plain.items.tolist() == mixed.items.tolist() == [0, 1]


def test_a_valuation_sees_the_same_row_whatever_the_others_are() -> None:
    need = AgentRows(columns=("a",))
    alone = answer_need(need, open_structure(pd.DataFrame({"a": [5]}), "items"), SCHEMA, key=bytes(16))
    joined = answer_need(need, open_structure(pd.DataFrame({"a": [5, None]}), "items"), SCHEMA, key=bytes(16))
    assert repr(alone[0]) == repr(joined[0])


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
