"""`cost_of` of every solver is the cost that the plan's bound speaks of: against brute force, and
as the mechanism counts."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import BundleError
from dpublish.methods.solvers.public_projects.mechanism import FacilityGains
from dpublish.releases.base import Release, make_release

WEIGHTS = [1000, 1, 1000, 1]


@pytest.fixture
def pay(tmp_path: Path) -> dict[str, Any]:
    return {
        "epsilon": 1,
        "ledger": str(tmp_path / "a.ledger"),
        "budget": dp.Budget(epsilon=900, delta="0.1"),
        "seed": 1,
    }


def weighted(pay: dict[str, Any], *, names: bool = False, **more: Any) -> Any:
    given = {"vertices": list("abcd") if names else 4, "weights": WEIGHTS, **more}
    edges = [("a", "b")] if names else [(0, 1)]
    return dp.optimize.vertex_cover(edges, **given, **pay)


def altered(
    release: Release, facts: dict[str, Any] | None = None, **tables: pl.DataFrame | None
) -> Release:
    changed = {**release.manifest["facts"], **(facts or {})}
    held = {
        name: frame for name, frame in {**release.tables, **tables}.items() if frame is not None
    }
    return make_release({**release.manifest, "facts": changed}, held)


@pytest.mark.parametrize("names", [False, True])
def test_the_weight_of_a_cover(pay: dict[str, Any], names: bool) -> None:
    release = weighted(pay, names=names)
    every = list(itertools.combinations(range(4), 2))
    for code in range(64):
        graph = [edge for place, edge in enumerate(every) if code >> place & 1]
        order = release.to_frame()["vertex"].to_list()
        used = {min(edge, key=order.index) for edge in graph}
        edges = [tuple("abcd"[v] for v in edge) for edge in graph] if names else graph
        assert release.cost_of(edges) == sum(WEIGHTS[v] for v in used)
        assert release.cost_of([(v, u) for u, v in edges] + edges) == sum(WEIGHTS[v] for v in used)
    assert release.cost_of([(0, 0), (0, 9)] if not names else [("a", "a"), ("a", "nobody")]) == 0


def test_the_bound_of_a_weighted_cover_holds_on_average(pay: dict[str, Any]) -> None:
    """Weight against the lightest cover by brute force. Heavy stars: their centre is light, every
    other cover heavy."""
    edges = [(1, 0), (1, 2), (3, 0), (3, 2)]
    covers = (chosen for size in range(5) for chosen in itertools.combinations(range(4), size))
    best = min(
        sum(WEIGHTS[v] for v in chosen)
        for chosen in covers
        if all(set(edge) & set(chosen) for edge in edges)
    )
    assert best == 2
    total = 0.0
    for seed in range(60):
        release = dp.optimize.vertex_cover(
            edges, vertices=4, weights=WEIGHTS, rule="schedule", **{**pay, "seed": seed}
        )
        total += release.cost_of(edges)
    assert best <= total / 60 <= release.bound["factor"] * best
    assert "never above 2002, the weight of all vertices" in release.bound["text"]
    assert "expected weight" in release.bound["text"]
    plain = dp.optimize.vertex_cover(edges, vertices=4, rule="schedule", **pay)
    assert "never above 4, all vertices" in plain.bound["text"]
    assert plain.weights is None
    assert plain.cost_of(edges) == len({min(edge, key=plain.order.index) for edge in edges})


def test_weights_are_in_the_file_and_on_the_page(pay: dict[str, Any], tmp_path: Path) -> None:
    release = weighted(pay, names=True, size_share="1/2", out=tmp_path / "w.dpr")
    again = dp.open_release(tmp_path / "w.dpr")
    assert isinstance(again, dp.optimize.SolutionRelease)
    assert again.verify().ok
    assert again.weights is not None
    assert again.weights.tolist() == WEIGHTS
    assert again.cost_of([("a", "c")]) == release.cost_of([("a", "c")]) == 1000
    page = release.report(tmp_path / "w.html").read_text()
    assert "public weight of all vertices" in page
    assert "a (weight 1,000)" in page
    assert "2,002" in page


def test_altered_weights_are_refused(pay: dict[str, Any]) -> None:
    release = weighted(pay)
    weights = release.tables["weights"]
    for wrong in (
        weights.head(3),
        weights.rename({"weight": "cost"}),
        weights.cast(pl.Int64),
        weights.with_columns(pl.lit(0.0).alias("weight")),
        weights.with_columns(pl.lit(float("nan")).alias("weight")),
        weights.with_columns(pl.lit(float("inf")).alias("weight")),
        weights.with_columns(pl.lit(None, dtype=pl.Float64).alias("weight")),
        weights.with_columns(pl.lit(1).alias("more")),
    ):
        with pytest.raises(BundleError, match=r"weights\.parquet"):
            altered(release, weights=wrong)
    with pytest.raises(BundleError, match="does not hold these tables"):
        altered(release, weights=None)
    with pytest.raises(BundleError, match="does not hold these tables"):
        altered(release, {"weighted": False})
    with pytest.raises(BundleError, match="true or false"):
        altered(release, {"weighted": "yes"})


def test_a_release_from_before_weights_were_stored(pay: dict[str, Any]) -> None:
    """It opens; a number of vertices is not given out as its weight."""
    release = weighted(pay)
    facts = {key: value for key, value in release.manifest["facts"].items() if key != "weighted"}
    old = make_release({**release.manifest, "facts": facts}, {"order": release.tables["order"]})
    assert isinstance(old, dp.optimize.SolutionRelease)
    assert old.assign((0, 1)) == release.assign((0, 1))
    with pytest.raises(dp.QueryError, match="weights were not stored"):
        old.cost_of([(0, 1)])


def test_a_cut_counts_every_edge_once(pay: dict[str, Any]) -> None:
    release = dp.optimize.min_cut([(0, 1)], vertices=4, **pay)
    one, other = release.sides
    across = [(u, v) for u in one for v in other]
    assert release.cost_of(across) == len(across)
    assert release.cost_of(across + [(v, u) for u, v in across]) == len(across)
    assert release.cost_of([(*edge, {"colour": 1}) for edge in across]) == len(across), (
        "as networkx gives edges"
    )
    assert release.cost_of([(0, 9), (0, 0)]) == 0
    named = dp.optimize.min_cut([("0", "1")], vertices=["0", "1", "2"], **pay)
    assert named.cost_of(list(itertools.combinations(range(3), 2))) == 2


@pytest.mark.parametrize("rule", ["exact", "weighted", "any-weights", "classes"])
def test_the_cost_of_sets(pay: dict[str, Any], rule: Any) -> None:
    sets, costs = [[0, 1, 2], [2, 3], [3, 4], [0, 4]], [4, 1, "5/2", 1]
    more = {} if rule in ("exact", "classes") else {"delta": "1e-6"}
    release = dp.optimize.set_cover(
        [0, 3], sets=sets, universe=5, costs=costs, rule=rule, **more, **pay
    )
    order = release.to_frame()
    part = release.tables["universe"]["part"].to_list()
    for code in range(32):
        present = [element for element in range(5) if code >> element & 1]
        used = set()
        for element in present:
            first = order.filter(pl.col("part") == part[element])["set"].to_list()
            used.add(next(number for number in first if element in sets[number]))
        assert release.cost_of([*present, *present, "nothing"]) == sum(
            float(Fraction(costs[number])) for number in used
        )


@pytest.mark.parametrize("cap", [None, 3.0])
def test_distances_count_as_they_did_for_the_release(
    pay: dict[str, Any], cap: float | None
) -> None:
    """Capped, rounded, and for facilities relative to the largest that counts, which is not the
    largest in the matrix."""
    points = np.array([[0.0, 0], [0, 1], [5, 5], [5, 6], [0, 6]])
    metric = dp.optimize.Metric.euclidean(points, cap=cap)
    matrix = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    demand = np.array([2, 0, 3, 1, 1])
    rows = np.array([metric.row(place) for place in range(5)])
    release = dp.optimize.k_median(np.repeat(np.arange(5), demand), k=2, metric=metric, **pay)
    wanted = int(demand @ rows[release.chosen].min(axis=0)) * metric.unit
    assert release.cost_of(demand, distances=matrix) == pytest.approx(wanted, rel=1e-12)

    projects = dp.optimize.public_projects(
        np.repeat(np.arange(5), demand), k=2, resources=5, worth="facility", metric=metric, **pay
    )
    gains, value = FacilityGains(demand, metric), 0
    for site in projects.chosen:
        value += int(gains.of(np.array([site]))[0])
        gains.take(site)
    assert projects.cost_of(demand, distances=matrix) == pytest.approx(
        value / metric.diameter, rel=1e-12
    )
    for problem in (release, projects):
        for wrong in (
            {"demand": demand[:4], "distances": matrix},
            {"demand": demand, "distances": matrix[:4]},
        ):
            with pytest.raises(dp.QueryError, match="5 counts"):
                problem.cost_of(wrong["demand"], distances=wrong["distances"])
        with pytest.raises(BundleError, match="'unit' must be a positive number"):
            altered(problem, {"unit": 0})
        with pytest.raises(BundleError, match="'diameter' must be a positive number"):
            altered(problem, {"diameter": "far"})


def test_facility_releases_without_distances_are_still_read(pay: dict[str, Any]) -> None:
    line = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    metric = dp.optimize.Metric.matrix(line)
    release = dp.optimize.public_projects(
        np.array([0, 3]), k=1, resources=4, worth="facility", metric=metric, **pay
    )
    facts = {
        key: value
        for key, value in release.manifest["facts"].items()
        if key not in ("unit", "diameter")
    }
    old = make_release({**release.manifest, "facts": facts}, release.tables)
    assert isinstance(old, dp.optimize.SolutionRelease)
    assert old.cost_of([1, 0, 0, 2], distances=line) == release.cost_of(
        [1, 0, 0, 2], distances=line
    )


def test_rows_of_agents_are_read_as_the_release_read_them(pay: dict[str, Any]) -> None:
    release = dp.optimize.public_projects([["a"], ["b"]], k=1, resources=["a", "bee"], **pay)
    (chosen,) = release.chosen
    assert release.cost_of([chosen, f"x; {chosen}", "nothing", [chosen, chosen]]) == 3

    def odd(row: Any, chosen: Any) -> float:
        return {"high": 7.0, "low": -7.0, "none": float("nan")}[row["v"]]

    rows = pl.DataFrame({"v": ["high", "low", "none", "absent"]})
    release = dp.optimize.public_projects(rows, k=1, resources=2, worth=odd, columns=["v"], **pay)
    assert release.cost_of(rows.to_dicts(), valuation=odd) == 1


@pytest.mark.parametrize("amount", ["1e-151", "1e151", 0, -1, float("nan"), "x", None])
def test_weights_and_costs_that_a_release_could_not_hold(amount: Any) -> None:
    from dpublish.methods.solvers.inputs import lists_of

    with pytest.raises(dp.PlanError, match=r"weight"):
        dp.optimize.plan(dp.optimize.VertexCover(vertices=2, weights=[1, amount]), epsilon=1)
    sets = lists_of([[0], [0]])
    with pytest.raises(dp.PlanError, match=r"cost"):
        dp.optimize.plan(
            dp.optimize.SetCover(sets=sets, elements=1, costs=[1, amount]), epsilon=1, delta="1e-6"
        )


def test_rows_are_named_as_they_were_for_the_release(pay: dict[str, Any]) -> None:
    """Texts of numbers, numbers of texts and zero fractions: a release counts such rows, so its
    verifier must."""
    edges = [("0", "1"), (" 1.0 ", "2"), (3.0, 0)]
    cover = dp.optimize.vertex_cover(edges, vertices=4, **pay)
    assert cover.cost_of(edges) == cover.cost_of([(0, 1), (1, 2), (0, 3)]) > 0
    assert cover.assign(("0", "1")) == cover.assign((0, 1))
    assert (
        cover.cost_of([("0", "9" * 5000), ("0", "²"), (0, None), (0, float("nan")), (0, True)]) == 0
    )
    named = dp.optimize.vertex_cover(edges, vertices=[0, 1, 2, 3], **pay)
    assert (
        named.cost_of([(0.0, 1.0), (1, 2), (0, 3)])
        == named.cost_of([("0", "1"), ("1", "2"), ("0", "3")])
        > 0
    )
    sets = dp.optimize.set_cover(["0", "1"], sets=[[0], [1, 2]], universe=3, delta="1e-6", **pay)
    assert sets.cost_of(["0", "1.0"]) == sets.cost_of([0, 1]) == 2
    projects = dp.optimize.public_projects([["0"]], k=2, resources=2, **pay)
    assert projects.cost_of([["0.0"], [1.0], "1 0", ["2"], [True]]) == 3
