"""Paid discovery: levels, bounds and edges for a part of a budget, and the schema they make."""

from __future__ import annotations

import datetime as dt
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.counting.values import LONGEST, level_texts, unit_texts
from dpublish.declare.domain import public_grid
from dpublish.declare.relation import Relation
from dpublish.declare.schema import Schema
from dpublish.errors import BundleError, InputError, PlanError, SchemaError
from dpublish.methods.discovery.mechanism import Discovery, text_threshold
from dpublish.releases.base import make_release
from dpublish.sources.sources import open_source

START = """
[dataset]
name = "visits"
neighbours = "add-remove-one"
nominal_size = 4000
[columns.town]
kind = "categorical"
discover = true
title = "Where they live"
[columns.age]
kind = "integer"
discover = true
[columns.cost]
kind = "real"
missing = true
discover = true
[columns.day]
kind = "date"
discover = true
"""
UNITS = START.replace("nominal_size", 'unit = "who"\nmax_rows_per_unit = 2\nnominal_size')


def rows(n: int = 4000) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    days = [dt.date(2023, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 365, n)]
    towns = rng.choice(["Ulm 2", "Ulm 11", "Bonn"], n, p=[0.4, 0.4, 0.2]).tolist()
    towns[:3] = ["only me", "\x1b[31mred", "x" * 101]
    return pl.DataFrame(
        {
            "who": [f"P{i // 2}" for i in range(n)],
            "town": towns,
            "age": rng.integers(18, 95, n),
            "cost": rng.lognormal(5, 1, n),
            "day": days,
        }
    )


def curator(tmp_path: Path, start: str = START, data: Any = None) -> dp.Curator:
    return dp.Curator(
        rows() if data is None else data,
        Schema.from_toml(start),
        ledger=tmp_path / "a.ledger",
        budget=dp.Budget(epsilon=100, delta="1e-3"),
        store=tmp_path / "store",
    )


@pytest.mark.parametrize("start", [START, UNITS])
def test_a_schema_is_found_that_cites_its_receipt(tmp_path: Path, start: str) -> None:
    owner = curator(tmp_path, start)
    made = owner.publish(Discovery(edges=6), epsilon=4, delta="1e-9", key="first", seed=1)
    schema = made.to_schema(owner.schema)
    town, age, cost, day = schema.columns.values()
    assert town.levels == ("Bonn", "Ulm 2", "Ulm 11")  # in natural order; rare and odd ones not
    assert town.wording.title == "Where they live"
    assert town.wording.source == "discovered, receipt first (made with a fixed seed)"
    assert (age.lower, age.upper) == (10, 100)
    assert 0 <= float(str(cost.lower)) <= 20
    assert 1000 <= float(str(cost.upper)) <= 5000
    assert cost.missing
    assert (day.lower, day.upper) == (dt.date(2023, 1, 1), dt.date(2023, 12, 31))
    assert age.edges is not None
    assert 4 <= len(age.edges) <= 9
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert owner.ledger.status().spent.delta == Fraction(1, 10**9)
    counted = dp.Curator(rows(), again, ledger=owner.ledger, store=tmp_path / "store")
    assert counted.publish(dp.Histogram(columns=["town", "age"]), epsilon=1).publishable


def test_nothing_is_released_under_a_schema_that_still_wants_discovery(tmp_path: Path) -> None:
    owner = curator(tmp_path)
    with pytest.raises(SchemaError, match="discover = true: bounds are still to be found"):
        owner.publish(dp.Histogram(columns=["age"]), epsilon=1)
    assert owner.ledger.status().spent.epsilon == 0


def test_a_universe_needs_no_delta(tmp_path: Path) -> None:
    start = START.split("[columns.town]")[0] + (
        '[columns.town]\nkind = "categorical"\ndiscover = true\n'
        'levels = ["Bonn", "Ulm 2", "Ulm 11", "Rome", "Oslo"]\n'
    )
    owner = curator(tmp_path, start)
    made = owner.publish(Discovery(), epsilon=1, seed=1)
    assert made.to_schema(owner.schema).columns["town"].levels == ("Bonn", "Ulm 2", "Ulm 11")
    with pytest.raises(PlanError, match="Nothing here needs a delta"):
        owner.plan(Discovery(), epsilon=1, delta="1e-9")


def test_what_cannot_be_found_is_refused_before_payment(tmp_path: Path) -> None:
    owner = curator(tmp_path)
    with pytest.raises(PlanError, match="needs a delta"):
        owner.publish(Discovery(), epsilon=1)
    with pytest.raises(PlanError, match="does not say discover"):
        curator(tmp_path, START.replace("discover = true\ntitle", 'levels=["a"]\ntitle')).plan(
            Discovery(columns=["town"]), epsilon=1
        )
    complete = Schema.from_toml('[dataset]\nname = "x"\n[columns.a]\nkind = "boolean"')
    with pytest.raises(PlanError, match="nothing to find"):
        Discovery().plan(complete, dp.Cost.pure(1))
    text = owner.plan(Discovery(), epsilon="0.01", delta="1e-9").text()
    assert "are needed for anything to be found" in text


def test_columns_of_which_nothing_is_found_stay_open(tmp_path: Path) -> None:
    owner = curator(tmp_path, data=rows(40))
    made = owner.publish(Discovery(), epsilon=1, delta="1e-9", seed=1)
    schema = made.to_schema(owner.schema)
    assert schema.columns["town"].discover
    assert made.summary()["town"] == "nothing was found"
    with pytest.raises(InputError, match="digest differs"):
        made.to_schema(Schema.from_toml(START.replace("visits", "others")))


def test_texts_are_those_that_can_stand_in_a_schema() -> None:
    odd = ["a", " a ", "1.0", "", "  ", None, "\x07", "a\u202eb", "a\u2028b", "\ufffd", "(other)"]
    cells = pl.Series([*odd, "y" * LONGEST, "y" * (LONGEST + 1), "é ü"])
    assert level_texts(cells).to_list() == [
        *("a", "a", "1"), *[None] * 8, "y" * LONGEST, None, "é ü",
    ]  # fmt: skip
    assert level_texts(pl.Series([1.0, 2.5, None])).to_list() == ["1", "2.5", None]
    assert level_texts(pl.Series([[1], [2]])).to_list() == [None, None]


def test_a_unit_counts_for_its_own_texts_alone_and_for_a_bounded_number_of_them() -> None:
    """Whatever others have, and in whatever order rows and batches come."""
    schema = Schema.from_toml(UNITS)
    mine = [("me", text) for text in "abcdef"] + [("me", "a")] * 5
    others = [(f"P{i}", text) for i in range(30) for text in "abc"]

    def counted(pairs: list[tuple[str, str]]) -> dict[str, int]:
        frame = pl.DataFrame(pairs, schema=["who", "town"], orient="row")
        texts, counts = unit_texts(open_source(frame), schema, "town", bytes(16))
        return dict(zip(texts, counts.tolist(), strict=True))

    alone, without = counted(mine), counted(others)
    assert sum(alone.values()) == 2
    assert set(alone.values()) == {1}
    together = counted([*others, *reversed(mine)])
    assert {t: n - without.get(t, 0) for t, n in together.items() if n != without.get(t)} == alone


@pytest.mark.parametrize("relation", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize("c", [1, 3])
def test_the_threshold_keeps_its_delta(relation: Any, c: int) -> None:
    """By the exact law of discrete Laplace noise, in fractions around exp."""
    for epsilon, delta in ((Fraction(1), Fraction(1, 8)), (Fraction(1, 10), Fraction(1, 10**9))):
        found = Relation(relation, c)
        threshold = text_threshold(found, epsilon, delta)
        r = np.exp(-float(epsilon / found.l1))
        assert c * r**threshold / (1 + r) <= float(delta) * (1 + 1e-9)
        least = threshold - 1 - float(found.l1 / epsilon) / 32
        assert c * r**least / (1 + r) > float(delta)


def test_exact_laws_of_texts_meet_the_claim_and_no_smaller_delta() -> None:
    """In base 4 with epsilon 1: a text of one person passes threshold 2 with (1/4)^2 / (5/4)."""

    def mechanism(noise: Any, texts: tuple[str, ...]) -> Any:
        values = sorted(set(texts))
        counts = np.array([texts.count(value) for value in values], dtype=np.int64)
        return noise.partitions(
            values, counts, threshold=2, sensitivity=Fraction(1), epsilon=Fraction(1)
        )

    pairs = list(audit.neighbours.add_remove(("x", "y"), max_rows=3))
    chance = Fraction(1, 20)
    assert audit.exact(mechanism, pairs, epsilon=1, delta=chance, base=4).passed
    assert not audit.exact(
        mechanism, pairs, epsilon=1, delta=chance - Fraction(1, 10**6), base=4
    ).passed


def test_grids_are_public_and_stay_inside_declared_bounds() -> None:
    columns = Schema.from_toml(
        '[dataset]\nname = "x"\n[columns.a]\nkind = "integer"\nlower = 3\nupper = 77\n'
        'discover = true\n[columns.b]\nkind = "real"\ndiscover = true\n'
    ).columns
    assert public_grid(columns["a"]) == (3, 5, 10, 20, 50, 78)
    grid = public_grid(columns["b"])
    assert grid[0] == -5e15
    assert 2e-6 in grid


def test_altered_discoveries_are_refused(tmp_path: Path) -> None:
    made = curator(tmp_path).publish(Discovery(edges=4), epsilon=4, delta="1e-9", seed=1)
    whole = json.loads(json.dumps(made.manifest))
    assert make_release(whole, {}).summary() == made.summary()
    changes: list[tuple[int, str, Any]] = [
        (0, "levels", ["a\x1b", "b", "c"]), (0, "levels", ["a", "a", "b"]), (0, "counts", [1]),
        (0, "counts", [10**30] * 3), (0, "name", "age"), (0, "kind", "ordinal"),
        (1, "lower", 10.5), (1, "lower", None), (1, "edges", [1]), (1, "upper", 1),
        (2, "upper", "high"), (3, "lower", "2023-13-01"), (1, "threshold", 0),
    ]  # fmt: skip
    for place, key, value in changes:
        bad = json.loads(json.dumps(whole))
        bad["facts"]["columns"][place][key] = value
        with pytest.raises(BundleError):
            make_release(bad, {})
