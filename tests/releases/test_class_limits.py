"""Limits of synthetic weights hold for every condition, whether or not the release was made for
it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.domain import Axis, Domain
from dpublish.releases.synthetic.intervals import ClassLimits
from dpublish.releases.synthetic.release import BOUNDS, MADE_FOR, NOTHING
from dpublish.workloads.query_classes import QueryClass, query_class

DOMAIN = Domain(
    (
        Axis("age", "integer", edges=(0, 10, 20, 30, 40, 50), missing=True),
        Axis("sex", "categorical", levels=("f", "m")),
        Axis("town", "categorical", levels=("x", "y", "z"), other=True),
        Axis("ill", "boolean", levels=("false", "true")),
    )
)
CLASSES = (
    "marginals:1",
    "marginals:2",
    "marginals:3",
    "intervals",
    "intervals:age",
    "parities:2",
    "halfspaces:20",
    "random:30",
    "predicates:age >= 15;sex = 'f' and ill;town = 'x' or age < 20",
)
ROWS = 1000


def near(rng: np.random.Generator, truth: Any, chosen: QueryClass) -> tuple[Any, float]:
    """Weights that are far from the truth but for the class: what a release may hold, and the
    smallest bound it may state."""
    weights = truth.astype(float)
    table = chosen.table(DOMAIN) / chosen.unit
    # a direction that no query sees, as far as weights stay above 0
    unseen = rng.normal(size=truth.size)
    unseen -= np.linalg.pinv(table) @ (table @ unseen)
    if np.abs(unseen).max() > 1e-6:
        weights = weights + unseen * min(weights[unseen < 0] / -unseen[unseen < 0], default=0.0)
    weights = np.maximum(weights + rng.normal(size=truth.size) * rng.choice([0.0, 0.5]), 0.0)
    weights *= ROWS / weights.sum()
    return weights, float(np.abs(table @ (weights - truth)).max()) + 1e-6


@pytest.mark.parametrize("text", CLASSES)
@pytest.mark.parametrize("size", ["exact", "most", "unknown"])
def test_limits_hold_for_random_sets_of_cells(text: str, size: str) -> None:
    rng, chosen = np.random.default_rng(3), query_class(text)
    for _ in range(8):
        kept = ROWS if size == "exact" else int(rng.integers(ROWS // 2, ROWS))
        truth = rng.multinomial(kept, rng.dirichlet(np.full(DOMAIN.size, rng.choice([0.05, 1.0]))))
        weights, bound = near(rng, truth, chosen)
        most = np.inf if size == "unknown" else float(ROWS)
        limits = ClassLimits(
            DOMAIN, chosen, weights, bound, least=float(ROWS) if size == "exact" else 0.0, most=most
        )
        counts = truth.reshape(DOMAIN.shape)
        for _ in range(40):
            places = sorted(rng.choice(4, rng.integers(1, 5), replace=False).tolist())
            shape = [DOMAIN.shape[place] for place in places]
            found = counts.sum(axis=tuple(axis for axis in range(4) if axis not in places))
            inside = rng.random(shape) < rng.choice([0.1, 0.5, 0.9])
            cut = (rng.random(shape) < 0.2) & ~inside
            low, high = limits.of(places, inside, inside | cut)
            least, most_of = found[inside].sum(), found[inside | cut].sum()
            assert low <= least + 1e-6, (places, inside, cut)
            assert high >= most_of - 1e-6, (places, inside, cut)
        for places in ([0], [3, 1], [2, 0], [0, 1, 2, 3]):
            found = np.einsum(counts, [0, 1, 2, 3], places)
            low_table, high_table = limits.table(places)
            assert (low_table <= found + 1e-6).all()
            assert (high_table >= found - 1e-6).all()


def test_sums_of_few_queries_have_few_bounds() -> None:
    weights = np.full(DOMAIN.size, ROWS / DOMAIN.size)
    per_age = ROWS / 6
    pairs = ClassLimits(DOMAIN, query_class("marginals:1"), weights, 5.0, least=ROWS, most=ROWS)
    two = np.isin(np.arange(6), (1, 4))
    assert pairs.of([0], two, two) == pytest.approx((2 * per_age - 10, 2 * per_age + 10))
    assert pairs.of([0], ~two, ~two) == pytest.approx((4 * per_age - 10, 4 * per_age + 10))
    runs = ClassLimits(DOMAIN, query_class("intervals:age"), weights, 5.0, least=ROWS, most=ROWS)
    run = np.isin(np.arange(6), (1, 2, 3))
    assert runs.of([0], run, run) == pytest.approx((3 * per_age - 5, 3 * per_age + 5))
    assert runs.of([0], ~run, ~run) == pytest.approx((3 * per_age - 5, 3 * per_age + 5))
    for text in ("parities:1", "predicates:ill = false"):
        one = ClassLimits(DOMAIN, query_class(text), weights, 5.0, least=ROWS, most=ROWS)
        for flags in (np.array([True, False]), np.array([False, True])):
            assert one.of([3], flags, flags) == pytest.approx((ROWS / 2 - 5, ROWS / 2 + 5))


SCHEMA = """
[dataset]
name = "twins"
size = 4000
[columns.a]
kind = "boolean"
outside = "drop"
[columns.d]
kind = "boolean"
outside = "drop"
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
"""


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, 4000)
    return pl.DataFrame({"a": a, "d": a, "age": np.where(rng.random(4000) < 0.5, 30, 61)})


def published(rows: pl.DataFrame, path: Path, method: Any, schema: str = SCHEMA) -> Any:
    curator = dp.Curator(
        rows,
        dp.Schema.from_toml(schema),
        ledger=f"sqlite:///{path}/a.ledger",
        budget=dp.Budget(epsilon=99),
    )
    return curator.publish(method, epsilon=9, seed=5, out=path / "made.dpr")


def held(estimate: Any, true: int) -> bool:
    return bool(
        estimate.low <= true <= estimate.high and estimate.low <= estimate.value <= estimate.high
    )


@pytest.mark.parametrize("method", [dp.MultiplicativeWeights, dp.Net])
def test_a_question_that_the_release_was_not_made_for(
    rows: pl.DataFrame, tmp_path: Path, method: Any
) -> None:
    release = published(rows, tmp_path, method(queries="marginals:1", columns=["a", "d"]))
    true = int(rows["a"].sum())
    one, both = release.estimate("a"), release.estimate("a and d")
    assert one.note == MADE_FOR
    assert one.high - one.low <= 2 * release.error_bound * (1 + 1e-9)
    assert both.note == BOUNDS
    assert held(one, true)
    assert held(both, true)
    unlike = release.estimate("(a and not d) or (d and not a)")
    assert (unlike.low, unlike.high, unlike.note) == (0, 4000, NOTHING)
    assert unlike.to_json()["note"] == NOTHING
    table = release.marginal("a", "d")
    exact = [4000 - true, 0, 0, true]
    assert all(
        low <= count <= high
        for low, high, count in zip(table["low"], table["high"], exact, strict=True)
    )


def test_a_bin_that_is_cut_may_hold_all_its_rows_on_either_side(
    rows: pl.DataFrame, tmp_path: Path
) -> None:
    release = published(
        rows, tmp_path, dp.MultiplicativeWeights(queries="intervals", columns=["age"])
    )
    for condition in (
        "age = 30",
        "age between 30 and 34",
        "age between 35 and 39",
        "age >= 61",
        "age > 61",
        "age < 30",
    ):
        assert held(release.estimate(condition), rows.filter(pl.sql_expr(condition)).height), (
            condition
        )
    assert release.estimate("age = 30").note == BOUNDS
    assert release.estimate("age between 30 and 39").note == MADE_FOR


def test_a_number_of_rows_that_is_a_guess_limits_nothing(
    rows: pl.DataFrame, tmp_path: Path
) -> None:
    schema = SCHEMA.replace("size = 4000", 'nominal_size = 100\nneighbours = "add-remove-one"')
    release = published(
        rows, tmp_path, dp.MultiplicativeWeights(queries="parities:1", columns=["a", "d"]), schema
    )
    assert held(release.estimate("a and d"), int(rows["a"].sum()))
    assert release.marginal("a", "d")["high"].max() >= int(rows["a"].sum())
    page = release.report(tmp_path / "page.html").read_text()
    assert "How to use it" in page


@pytest.mark.parametrize(
    ("queries", "example"),
    [
        ("marginals:1", "a = 'false'"),
        ("intervals", "age < 10"),
        ("predicates:age >= 40;a and d", "age >= 40"),
        ("random:9", None),
    ],
)
def test_the_page_shows_a_question_of_the_class(
    rows: pl.DataFrame, tmp_path: Path, queries: str, example: str | None
) -> None:
    import html

    release = published(rows, tmp_path, dp.MultiplicativeWeights(queries=queries))
    page = html.unescape(release.report(tmp_path / "page.html").read_text())
    if example is None:
        assert "one of them, with the bound" not in page
    else:
        line = next(line for line in page.splitlines() if "one of them, with the bound" in line)
        assert example in line
        assert release.estimate(example).note == MADE_FOR
