"""The public functions: through the ledger, into a release, and back; what rows may look like; what
a release answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.counting.graphs import (
    compute,
    item_numbers,
    open_structure,
    read_lists,
    read_names,
)
from dpublish.declare.schema import Schema
from dpublish.methods.solvers.inputs import AgentLists, GraphEdges, PresentItems
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.releases.base import make_release

SCHEMA = Schema(name="x", neighbours="add-remove-one")


@pytest.fixture
def pay(tmp_path: Path) -> dict[str, Any]:
    return {
        "epsilon": 1,
        "ledger": str(tmp_path / "a.ledger"),
        "budget": dp.Budget(epsilon=20, delta="0.01"),
        "seed": 1,
    }


class Graph:
    """As much of a networkx graph as is read."""

    def __init__(self, nodes: list[str], edges: list[tuple[str, str]]) -> None:
        self._nodes, self._edges = nodes, edges

    def nodes(self) -> list[str]:
        return self._nodes

    def edges(self) -> list[tuple[str, str]]:
        return self._edges


def test_vertex_cover(pay: dict[str, Any]) -> None:
    graph = Graph(list("abcd"), [("a", "b"), ("a", "c")])
    release = dp.optimize.vertex_cover(graph, vertices=graph.nodes(), size_share="1/2", **pay)
    assert sorted(release.order) == list("abcd")
    first = release.order[0]
    other = next(v for v in "abcd" if v != first)
    assert release.assign((first, other)) == release.assign((other, first)) == first
    assert release.size is not None
    assert 1 <= release.cost_of(graph.edges()) <= 2
    assert not release.publishable
    with pytest.raises(dp.QueryError, match="public names"):
        release.assign(("a", "z"))
    with pytest.raises(dp.QueryError, match="has no chosen"):
        release.chosen  # noqa: B018
    with pytest.raises(dp.PlanError, match="private edges"):
        dp.optimize.vertex_cover([("a", "b")], **pay)
    with pytest.raises(dp.PlanError, match=r"graph\.nodes"):
        dp.optimize.min_cut(graph, **pay)


def test_weighted_vertex_cover(pay: dict[str, Any]) -> None:
    release = dp.optimize.vertex_cover(
        np.array([[0, 1], [0, 2], [1, 3]]), vertices=4, weights=[1, 2, 8, "1/2"], **pay
    )
    assert sorted(release.order) == [0, 1, 2, 3]
    assert release.public == [3, 0, 1, 2]
    assert release.cost_estimate is not None
    assert release.public_cost_estimate is not None


def test_min_cut_and_its_verifier(pay: dict[str, Any]) -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
    release = dp.optimize.min_cut(edges, vertices=list("abcd"), **pay)
    one, other = release.sides
    assert sorted(one + other) == list("abcd")
    assert release.cost_of(edges) == sum((u in one) != (v in one) for u, v in edges)
    assert release.plot(edges=edges) is not None


def test_k_median_and_its_verifier(pay: dict[str, Any]) -> None:
    points = np.array([[0.0, 0], [0, 1], [5, 5], [5, 6]])
    metric = dp.optimize.Metric.euclidean(points)
    release = dp.optimize.k_median(
        ["a", "c", "c", "nowhere"], k=2, metric=metric, labels=list("abcd"), positions=points, **pay
    )
    assert len(set(release.chosen)) == 2
    matrix = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    assert release.cost_of([1, 0, 2, 0], distances=matrix) >= 0
    assert "x" in release.to_frame().columns
    assert release.to_json()["problem"] == "k-median"


def test_set_cover_and_its_verifier(pay: dict[str, Any]) -> None:
    sets = {"s": ["x", "y"], "t": ["y", "z"], "u": ["z"]}
    release = dp.optimize.set_cover(
        ["x", "z"], sets=sets, delta="1e-6", costs=[1, 5, 100000], rule="any-weights", **pay
    )
    assert release.assign("x") == "s"
    assert release.assign("z") in ("t", "u")
    assert release.cost_of(["x"]) == 1
    with pytest.raises(dp.PlanError, match="not in the universe"):
        dp.optimize.set_cover(["x"], sets=sets, universe=["x", "y"], delta="1e-6", **pay)


def test_public_projects_with_a_function(pay: dict[str, Any]) -> None:
    rows = pl.DataFrame({"likes": [0, 1, 1], "secret": ["a", "b", "c"]})
    release = dp.optimize.public_projects(
        rows,
        k=1,
        resources=3,
        worth=lambda row, chosen: float(row["likes"] in chosen),
        columns=["likes"],
        examples=[{"likes": 0}],
        **pay,
    )
    assert release.chosen[0] in (0, 1, 2)
    again = dp.open_release(release.path)  # type: ignore[arg-type]
    assert again.verify().ok


def test_what_resources_are_worth(pay: dict[str, Any]) -> None:
    """The verifier of each valuation, worked out by hand."""
    lists = [["a", "b"], ["b"], ["c"], []]
    release = dp.optimize.public_projects(lists, k=2, resources=["a", "b", "c"], **pay)
    assert release.cost_of(lists) == sum(bool(set(row) & set(release.chosen)) for row in lists)
    line = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    metric = dp.optimize.Metric.matrix(line)
    release = dp.optimize.public_projects(
        np.array([0, 3, 3]), k=1, resources=4, worth="facility", metric=metric, **pay
    )
    (site,) = release.chosen
    assert release.cost_of([1, 0, 0, 2], distances=line) == pytest.approx(
        1 - site / 3 + 2 * (1 - (3 - site) / 3)
    )
    with pytest.raises(dp.QueryError, match="distances"):
        release.cost_of([1, 0, 0, 2])

    def likes(row: Any, chosen: Any) -> float:
        return 0.5 * (row["first"] in chosen) + 0.25 * (row["second"] in chosen)

    rows = pl.DataFrame({"first": [0, 1], "second": [2, 2]})
    release = dp.optimize.public_projects(
        rows, k=2, resources=3, worth=likes, columns=["first", "second"], **pay
    )
    assert release.manifest["facts"]["worth"] == "likes"
    assert "not tested" in release.manifest["plan"]["warnings"][0]
    assert release.cost_of(rows.to_dicts(), valuation=likes) == sum(
        likes(r, set(release.chosen)) for r in rows.to_dicts()
    )
    with pytest.raises(dp.QueryError, match="valued by 'likes'"):
        release.cost_of(rows.to_dicts())


def test_the_budget_is_spent_once_a_key_and_not_beyond(tmp_path: Path) -> None:
    pay: dict[str, Any] = {
        "epsilon": 1,
        "ledger": str(tmp_path / "b.ledger"),
        "budget": dp.Budget(epsilon=1),
    }
    first = dp.optimize.min_cut([(0, 1)], vertices=3, key="one", **pay)
    second = dp.optimize.min_cut([(0, 1)], vertices=3, key="one", **pay)
    assert first.to_frame().equals(second.to_frame())
    with pytest.raises(dp.BudgetExceeded):
        dp.optimize.min_cut([(0, 1)], vertices=3, again=True, **pay)


def test_rows_are_read_by_public_names() -> None:
    source = open_structure([("a", "b"), ("b", "a"), ("a", "a"), ("a", "?"), ("c", "b")], "edges")
    edges = compute(GraphEdges(3, ("a", "b", "c")), source, SCHEMA, key=bytes(16))
    assert list(zip(edges.heads.tolist(), edges.tails.tolist(), strict=True)) == [(0, 1), (1, 2)]
    counts = compute(
        PresentItems(3), open_structure(np.array([0, 2, 2, 9, -1]), "items"), SCHEMA, key=bytes(16)
    )
    assert counts.tolist() == [1, 0, 2]
    present = compute(
        PresentItems(3, None, distinct=True),
        open_structure(["2", " 2", "x"], "items"),
        SCHEMA,
        key=bytes(16),
    )
    assert present.tolist() == [0, 0, 1]
    lists = compute(
        AgentLists(3),
        open_structure(pl.DataFrame({"b": ["0 1,1", None, "7", "2;0"]}), "lists"),
        SCHEMA,
        key=b"",
    )
    assert lists.starts.tolist() == [0, 2, 2, 2, 4]
    assert lists.items.tolist() == [0, 1, 0, 2]
    assert repr(lists) == "Lists(private)"
    assert repr(edges) == "Edges(private)"
    assert item_numbers(pl.Series([1.0, 1.5, None]), 3, None).tolist() == [1, -1, -1]


def test_plain_files(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("# comment\n0 1\n1 2 extra\nlonely\n\n")
    edges = compute(GraphEdges(3), open_structure(path, "edges"), SCHEMA, key=bytes(16))
    assert len(edges) == 2
    assert read_names(path) == ["0 1", "1 2 extra", "lonely"]
    assert read_lists(path)[1] == ["1", "2", "extra"]
    with pytest.raises(dp.InputError, match="no file"):
        open_structure(tmp_path / "none.txt", "edges")
    with pytest.raises(dp.InputError, match="2 column"):
        open_structure(pl.DataFrame({"a": [1]}), "edges")


def test_an_empty_input_is_solved_too(pay: dict[str, Any]) -> None:
    """Whether there are rows at all is private, so no solver may fail without any."""
    metric = dp.optimize.Metric.matrix([[0, 1], [1, 0]])
    assert dp.optimize.k_median([], k=1, metric=metric, **pay).chosen
    assert dp.optimize.vertex_cover([], vertices=3, **pay).order
    assert dp.optimize.vertex_cover(
        [], vertices=3, weights=[1, 2, 3], size_share="1/2", **pay
    ).order
    assert dp.optimize.min_cut([], vertices=3, **pay).sides
    assert dp.optimize.set_cover([], sets=[["a"], ["a", "b"]], delta="1e-6", **pay).order
    assert dp.optimize.public_projects([], k=1, resources=2, **pay).chosen


def test_a_broken_release_is_refused(pay: dict[str, Any]) -> None:
    release = dp.optimize.min_cut([(0, 1)], vertices=3, **pay)
    frame = release.to_frame()
    for broken in (
        frame.with_columns(side=pl.lit(True)),
        frame.head(2),
        frame.with_columns(vertex=pl.Series([0, 0, 1])),
        frame.with_columns(vertex=pl.Series([0, 1, 7])),
        frame.drop("side"),
    ):
        with pytest.raises(dp.BundleError):
            make_release(release.manifest, {"sides": broken})
    with pytest.raises(dp.BundleError, match="not known"):
        make_release(
            {**release.manifest, "facts": {**release.manifest["facts"], "problem": "tsp"}},
            {"sides": frame},
        )


def test_other_names_of_sites_are_another_request() -> None:
    """A key comes with the same request or is refused: names decide which rows are at which
    site."""
    metric = Metric.matrix(np.abs(np.subtract.outer(np.arange(3), np.arange(3))))
    names = (None, ["a", "b", "c"], ["a", "c", "b"], [" a", "b", "c"])
    plans = [
        KMedian(metric=metric, k=1, labels=labels).plan(SCHEMA, dp.Cost.pure(1)) for labels in names
    ]
    found = [plan.parameters["structure"] for plan in plans]
    assert len(set(found)) == 3
    assert found[1] == found[3]


def test_numbers_of_numpy_and_names_that_are_tuples(pay: dict[str, Any]) -> None:
    """A grid's vertices are tuples: rows that name them must be found, in pairs as in a graph."""
    grid = [((0, 0), (0, 1)), ((0, 1), (1, 1))]
    large = {**pay, "epsilon": 400, "ledger": f"{pay['ledger']}2", "budget": dp.Budget(epsilon=900)}
    cut = dp.optimize.min_cut(grid, vertices=[(0, 0), (0, 1), (1, 1), (1, 0)], **large)
    assert ["(1, 0)"] in cut.sides
    assert cut.cost_of(grid) == 0
    cover = dp.optimize.vertex_cover(grid, vertices=[(0, 0), (0, 1), (1, 1)], **pay)
    assert cover.cost_of(grid) == cover.cost_of([("(0, 0)", "(0,  1)"), ("(0, 1)", "(1, 1)")]) >= 1
    places = [(0, 0), (5, 5)]
    sites = dp.optimize.k_median(
        [(5, 5)] * 9, k=1, metric=Metric.euclidean(places), labels=places, **large
    )
    assert sites.chosen == ["(5, 5)"]
    assert len(dp.optimize.vertex_cover([(0, 1)], vertices=np.int64(3), **pay).order) == 3
    sets = dp.optimize.set_cover(
        [0], sets=[[0.0, "1"], np.array([1])], universe=np.int64(2), delta="1e-6", **pay
    )
    assert sets.assign(0) == 0


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([["a"]], "holds 'a'"),
        ([[0.5]], "holds '0.5'"),
        ([0, 1], "list of elements"),
        (["ab"], "list of elements"),
    ],
)
def test_sets_that_are_none(pay: dict[str, Any], sets: Any, text: str) -> None:
    with pytest.raises(dp.PlanError, match=text):
        dp.optimize.set_cover([0], sets=sets, universe=3, delta="1e-6", **pay)


def test_vertices_that_are_no_number(pay: dict[str, Any]) -> None:
    with pytest.raises(dp.PlanError, match="whole number or a list"):
        dp.optimize.min_cut([(0, 1)], vertices=3.0, **pay)  # type: ignore[arg-type]
