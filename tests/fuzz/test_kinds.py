"""Altered releases of every kind, with hashes that agree: each is refused with a `BundleError`, or
answers and has a page.

Whoever gets a release file from a stranger opens it. What is wrong with it must show as a clear
error of this library, never as a failure from deep inside.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.catalogue import RELEASES
from dpublish.errors import BundleError, PublishError
from dpublish.releases.base import Release, make_release
from fuzz.test_bundles import VALUES, places

SCHEMA = """
[dataset]
name = "clinic"
size = 300
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 5
[columns.weight]
kind = "real"
lower = 0
upper = 200
precision = 0.5
[columns.ill]
kind = "boolean"
outside = "other"
[columns.town]
kind = "categorical"
levels = ["north", "south", "west"]
outside = "other"
"""
BASKETS = (
    '[dataset]\nname = "b"\nneighbours = "add-remove-one"\nnominal_size = 300\n[items]\n'
    'universe = ["x", "y", "z"]\n'
)
PREDICATES = (
    "age >= 40",
    "age + weight >= 100",
    "ill",
    "town = 'north'",
    "x",
    "weight between 50 and 60",
)
LINE = np.array([[0.0, 0], [0, 1], [0, 2], [0, 9]])
APART = np.abs(np.subtract.outer(LINE[:, 1], LINE[:, 1]))
ABILITIES: tuple[Callable[[Any], Any], ...] = (
    lambda release: release.marginal("age"),
    lambda release: release.sql("select count(*) as n from release"),
    lambda release: release.to_frame(),
    lambda release: release.to_schema(dp.Schema.from_toml(SCHEMA)),
    lambda release: release.sample(20, seed=1),
    lambda release: release.predict(pl.DataFrame({"age": [1, 50], "town": ["north", None]})),
    lambda release: release.top_itemsets(3),
    lambda release: release.quantile_limits(0.5),
    lambda release: release.assign(("p", "q")),
    lambda release: release.assign("p"),
    lambda release: release.cost_of([("p", "q"), (0, 1)]),
    lambda release: release.cost_of([1, 0, 2, 1], distances=APART),
    *(lambda release, text=text: release.estimate(text) for text in PREDICATES),
)


def people(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 99, rows)
    town = rng.choice(["north", "south", "west"], rows)
    return pl.DataFrame(
        {
            "age": age,
            "weight": rng.normal(70, 12, rows).round(1),
            "ill": rng.random(rows) < age / 120,
            "town": town,
        }
    )


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    path = tmp_path_factory.mktemp("kinds")
    (path / "s.toml").write_text(SCHEMA)
    (path / "b.toml").write_text(BASKETS)
    (path / "baskets.txt").write_text("x y\nx\nx z\n" * 100)
    people(200, 2).write_csv(path / "public.csv")
    budget = dp.Budget(epsilon=99)
    rows = dp.Curator(
        people(300, 1), path / "s.toml", ledger=f"sqlite:///{path}/a.ledger", budget=budget
    )
    baskets = dp.Curator(
        path / "baskets.txt", path / "b.toml", ledger=f"sqlite:///{path}/b.ledger", budget=budget
    )
    made = [
        rows.publish(method, epsilon=3, seed=1)
        for method in (
            dp.Histogram(columns=["age", "ill"]),
            dp.JoinedHistograms(),
            dp.GeneralizedTable(columns=["age", "town"]),
            dp.ImportanceWeights(public=str(path / "public.csv"), columns=["age", "town"]),
            dp.IntervalTree(columns=["age", "weight"]),
            dp.Halfspaces(by="sectors", columns=["age", "weight"]),
            dp.MultiplicativeWeights(queries="marginals:2", columns=["age", "ill"], bins=5),
            dp.Workload(queries="marginals:2", columns=["age", "ill"], bins=5, answer="direct"),
            dp.PrivateClassifier(target="ill", features=["age", "town"]),
        )
    ]
    (path / "d.toml").write_text(
        SCHEMA.replace("upper = 99", "upper = 99\ndiscover = true").replace(
            '"west"]', '"west"]\ndiscover = true'
        )
    )
    start = dp.Curator(
        people(300, 1), path / "d.toml", ledger=f"sqlite:///{path}/d.ledger", budget=budget
    )
    made.append(start.publish(dp.Discovery(edges=4), epsilon=9, seed=1))
    made.append(baskets.publish(dp.SetPartition(), epsilon=3, seed=1))
    names = ["p", "q", "r", "s"]
    ledger = f"sqlite:///{path}/c.ledger"
    made.append(
        dp.optimize.min_cut(
            [("p", "q"), ("r", "s")],
            vertices=names,
            epsilon=3,
            ledger=ledger,
            budget=budget,
            name="g",
        )
    )
    return {release.kind: release for release in made}


@pytest.fixture(scope="module")
def solutions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """One release of every problem: they are one kind, with tables and facts of their own."""
    path = tmp_path_factory.mktemp("solutions")
    pay: dict[str, Any] = {
        "epsilon": 3,
        "ledger": f"sqlite:///{path}/a.ledger",
        "budget": dp.Budget(epsilon=99, delta=0.1),
    }
    metric = dp.optimize.Metric.euclidean(LINE)
    names, sets = list("pqrs"), {"one": ["p", "q"], "two": ["q", "r", "s"]}
    return {
        "min-cut": dp.optimize.min_cut([("p", "q")], vertices=4, **pay),
        "vertex-cover": dp.optimize.vertex_cover(
            [("p", "q")], vertices=names, weights=[1, 9, 2, 2], size_share=0.1, **pay
        ),
        "set-cover": dp.optimize.set_cover(
            ["p", "r"], sets=sets, costs=[1, 2], rule="any-weights", delta=0.001, **pay
        ),
        "k-median": dp.optimize.k_median(
            ["p"], k=2, metric=metric, labels=names, positions=LINE, **pay
        ),
        "public-projects": dp.optimize.public_projects(
            ["p"], k=2, resources=names, worth="facility", metric=metric, **pay
        ),
    }


def test_every_kind_is_here(originals: dict[str, Release]) -> None:
    assert set(originals) == set(RELEASES)


def spoilt_manifest(dice: random.Random, manifest: Any) -> Any:
    """Most alterations in what the kind itself states."""
    changed = json.loads(json.dumps(manifest))
    for _ in range(dice.randint(1, 2)):
        root = changed.get(dice.choice(["facts", "facts", "facts", "plan", "domain", ""]), changed)
        found = list(places(root)) if isinstance(root, dict | list) else []
        if not found:
            continue
        parent, key = dice.choice(found)
        if dice.random() < 0.2:
            del parent[key]
        elif (
            isinstance(parent[key], int | float)
            and not isinstance(parent[key], bool)
            and dice.random() < 0.5
        ):
            parent[key] = dice.choice([parent[key] + 1, -parent[key], parent[key] * 1000, 0, 0.5])
        else:
            parent[key] = copy.deepcopy(dice.choice(VALUES))
    return changed


def spoilt_tables(dice: random.Random, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """One table with rows lost, doubled or in another order, a column lost, of another type, or
    with odd numbers in it."""
    if not tables:  # a kind without any has one now
        return {"odd": pl.DataFrame({"a": [1]})}
    name = dice.choice(sorted(tables))
    frame = tables[name]
    column = dice.choice(frame.columns)
    kind = dice.randrange(6)
    if kind == 0:
        frame = frame.head(dice.randrange(frame.height + 1))
    elif kind == 1:
        frame = pl.concat([frame, frame.tail(dice.randint(1, 3))])
    elif kind == 2:
        frame = frame.reverse()
    elif kind == 3:
        frame = frame.drop(column)
    elif kind == 4:
        frame = frame.with_columns(
            pl.col(column).cast(dice.choice([pl.String, pl.Float64, pl.Int32]), strict=False)
        )
    elif frame.height and frame.schema[column].is_numeric():
        odd = dice.choice([0, 1, 255, 1 << 31, 1 << 52, -5, float("nan"), float("inf"), 1e300])
        place = pl.int_range(pl.len()) == dice.randrange(frame.height)
        value = pl.lit(odd).cast(frame.schema[column], strict=False)
        frame = frame.with_columns(
            pl.when(place).then(value).otherwise(pl.col(column)).alias(column)
        )
    return {**tables, name: frame}


def use(release: Release, page: Path) -> None:
    """Everything that an analyst may do. An `AttributeError` that names the class is a kind without
    that ability."""
    release.summary()
    release._repr_html_()
    for ability in (*ABILITIES, lambda given: given.report(page)):
        lacks = ""
        try:
            with contextlib.suppress(PublishError):
                ability(release)
        except AttributeError as error:
            lacks = str(error)
        assert not lacks or type(release).__name__ in lacks, lacks


def run(original: Release, folder: Path, rounds: int, seed: int = 7) -> int:
    dice = random.Random(zlib.crc32(original.kind.encode()) + seed)
    opened = 0
    for number in range(rounds):
        manifest, tables = original.manifest, original.tables
        if number % 3:
            manifest = spoilt_manifest(dice, manifest)
        else:
            tables = spoilt_tables(dice, tables)
        try:
            release = make_release(manifest, tables)
        except BundleError as error:
            refused = str(error)
        else:
            opened += 1
            use(release, folder / "page.html")
            continue
        assert 10 <= len(refused) <= 1000
    return opened


@pytest.mark.parametrize("kind", sorted(RELEASES))
def test_altered_releases_of_every_kind(
    originals: dict[str, Release], tmp_path: Path, kind: str
) -> None:
    use(originals[kind], tmp_path / "page.html")
    opened = run(originals[kind], tmp_path, rounds=90)
    assert 0 < opened < 90


@pytest.mark.parametrize(
    ("kind", "table", "column"),
    [
        ("generalized-table", "regions", "count"),
        ("halfspaces", "counts", "count"),
        ("interval-tree", "counts", "count"),
        ("itemsets", "partitions", "count"),
        ("joined-histograms", "columns", "count"),
    ],
)
def test_the_lowest_whole_number_is_no_count(
    originals: dict[str, Release], kind: str, table: str, column: str
) -> None:
    """It is its own absolute value, so that a limit on absolute values lets it pass."""
    tables, odd = originals[kind].tables, [-(1 << 63)]
    numbers = pl.Series(column, odd + tables[table][column].to_list()[1:], dtype=pl.Int64)
    with pytest.raises(BundleError, match="not believable"):
        make_release(
            originals[kind].manifest, {**tables, table: tables[table].with_columns(numbers)}
        )


def test_altered_solutions_of_every_problem(solutions: dict[str, Release], tmp_path: Path) -> None:
    for release in solutions.values():
        use(release, tmp_path / "page.html")
        assert 0 < run(release, tmp_path, rounds=60) < 60


@pytest.mark.parametrize("problem", ["k-median", "public-projects"])
def test_a_solution_without_sites_is_refused(solutions: dict[str, Release], problem: str) -> None:
    """Found by a long run: there is no nearest of no sites, which `cost_of` came to only when it
    was asked."""
    release = solutions[problem]
    manifest = {**release.manifest, "facts": {**release.manifest["facts"], "k": 0}}
    with pytest.raises(BundleError, match="'k' must be a whole number from 1"):
        make_release(manifest, {**release.tables, "chosen": release.tables["chosen"].clear()})


@pytest.mark.nightly
def test_many_more_altered_solutions(solutions: dict[str, Release], tmp_path: Path) -> None:
    for release in solutions.values():
        run(release, tmp_path, rounds=1000, seed=9)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("kind", sorted(RELEASES))
def test_many_more_altered_releases_of_every_kind(
    originals: dict[str, Release], tmp_path: Path, kind: str, part: int
) -> None:
    run(originals[kind], tmp_path, rounds=1000, seed=8 + 10 * part)
