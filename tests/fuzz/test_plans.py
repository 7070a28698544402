"""2,000 odd requests a run: random settings of every method, random schemas and costs, without any
data.

Each is a plan that costs at most what was asked and survives JSON, or is refused with a clear error
of this library.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import json
import random
import types
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
import pytest

from dpublish.catalogue import methods
from dpublish.declare.columns import Column
from dpublish.declare.schema import ItemUniverse, PrivacyUnit, Schema
from dpublish.errors import InputError, PlanError, SchemaError
from dpublish.methods.online.median.mechanism import MedianMechanism
from dpublish.methods.online.multiplicative_weights.mechanism import OnlineMultiplicativeWeights
from dpublish.methods.registry import method_named
from dpublish.methods.solvers.inputs import Lists, lists_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.public_projects.mechanism import PublicProjects
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

CASES = 2_000
MANY = 200_000
REFUSALS = (InputError, PlanError, SchemaError)
SOLVERS: tuple[Any, ...] = (MinCut, VertexCover, SetCover, KMedian, PublicProjects)
ONLINE: tuple[Any, ...] = (MedianMechanism, OnlineMultiplicativeWeights)
EVERY: tuple[Any, ...] = (*(method_named(name) for name in methods("release")), *ONLINE, *SOLVERS)
NAMES = ["a", "b", "c", "who", "nobody"]
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        2,
        7,
        1 << 31,
        1 << 63,
        1 << 70,
        10**30,
        -0.0,
        0.5,
        1.5,
        1e308,
        -1e308,
        5e-324,
    ),
    *(
        float("nan"),
        float("inf"),
        Decimal("0.5"),
        Decimal("NaN"),
        Fraction(1, 3),
        Fraction(-1, 3),
        Fraction(10**40),
    ),
    *(
        "",
        "x",
        "1",
        "1/2",
        "1/0",
        "-3",
        "1e400",
        "1e-400",
        "\x00",
        "é",
        "a" * 500,
        b"x",
        np.int64(3),
        np.float64(0.5),
        1j,
    ),
    *(
        [],
        {},
        (),
        [[]],
        [1, 2],
        ["a", "a"],
        ["a", 1],
        [None],
        {"a": 1},
        {1: "a"},
        {"a", "b"},
        object(),
        len,
        range(3),
    ),
]
AMOUNTS: list[Any] = [
    "1/2",
    "1/10",
    0.25,
    0.01,
    Fraction(1, 20),
    1,
    2,
    "1/1000",
    "0.9",
    3.0,
    Decimal("0.1"),
]
WHOLE: list[Any] = [1, 2, 3, 4, 8, 16, 100, 1000]
QUERIES = [
    "marginals:1",
    "marginals:2",
    "ranges",
    "prefixes",
    "marginals:9",
    "halfspaces",
    "marginals:x",
    "marginals",
]
FRAME = pl.DataFrame({"a": [True, False, True], "b": [1, 2, 3], "c": [0.5, 1.0, 2.0]})
METRIC = Metric.matrix(np.abs(np.subtract.outer(np.arange(5), np.arange(5))))


def random_schema(dice: random.Random) -> Schema:
    """Public facts of a small table or of baskets; some lack what a method needs."""
    columns: dict[str, Column] = {}
    for name in dice.sample(["a", "b", "c"], dice.randint(0, 3)):
        kind: Any = dice.choice(["categorical", "ordinal", "boolean", "integer", "real", "date"])
        facts: dict[str, Any] = {"missing": dice.random() < 0.3}
        if kind in ("categorical", "ordinal"):
            facts["levels"] = tuple(dice.sample(["x", "y", "1", "é", "true"], dice.randint(1, 5)))
        elif kind == "boolean":
            facts["levels"] = ("false", "true")
        elif kind == "date":
            facts.update(
                lower=dt.date(1900, 1, 1), upper=dt.date(dice.choice([1900, 2020]), 12, 31)
            )
        elif kind == "integer":
            facts.update(lower=-dice.choice([0, 5, 2**40]), upper=dice.choice([0, 9, 2**31]))
        else:
            facts.update(lower=-dice.choice([0.0, 1e-9, 1e300]), upper=dice.choice([1.0, 1e300]))
        if kind in ("date", "integer", "real") and dice.random() < 0.5:
            facts["bins"] = dice.choice([1, 2, 5, 1000])
        columns[name] = Column(
            name=name, kind=kind, outside=dice.choice(["other", "drop"]), **facts
        )
    unit = (
        PrivacyUnit(column="who", max_rows=dice.choice([1, 2, 50]))
        if dice.random() < 0.25
        else PrivacyUnit()
    )
    size = dice.choice([None, 1, 2, 10, 1000, 10**6, 10**12])
    neighbours: Any = dice.choice(["replace-one", "add-remove-one"])
    return Schema(
        name="fuzz",
        columns=columns,
        items=ItemUniverse(items=("bread", "milk", "eggs")) if dice.random() < 0.2 else None,
        neighbours=neighbours,
        unit=unit,
        target=dice.choice([None, None, "a", "b", "nobody"]),
        **{"size" if neighbours == "replace-one" else "nominal_size": size},
    )


def friendly_schema(dice: random.Random, *, baskets: bool) -> Schema:
    """Public facts with which most methods can work."""
    columns = {
        "a": Column(name="a", kind="boolean", levels=("false", "true"), outside="drop"),
        "b": Column(
            name="b", kind="integer", lower=0, upper=9, bins=dice.choice([2, 5]), outside="drop"
        ),
        "c": Column(
            name="c", kind="real", lower=0.0, upper=2.0, bins=dice.choice([2, 4]), outside="drop"
        ),
    }
    size = dice.choice([10, 1000, 100_000])
    added = dice.random() < 0.5
    return Schema(
        name="fuzz",
        columns={} if baskets else columns,
        items=ItemUniverse(items=("bread", "milk", "eggs")) if baskets else None,
        neighbours="add-remove-one" if added else "replace-one",
        target="a" if dice.random() < 0.7 and not baskets else None,
        unit=PrivacyUnit(column="who", max_rows=2) if dice.random() < 0.2 else PrivacyUnit(),
        **{"nominal_size" if added else "size": size},
    )


def random_cost(dice: random.Random) -> Cost:
    amount = dice.choice(
        ["1", "1/2", "3", "1", "2", "1/1000", "50", "1e-9", "1e9", "1e-200", "1e200"]
    )
    kind = dice.randrange(5)
    if kind < 3:
        return Cost.pure(amount)
    return (
        Cost.zcdp(amount)
        if kind == 3
        else Cost.approximate(amount, dice.choice(["1e-6", "1/2", "1e-30", "1e-300"]))
    )


def right(dice: random.Random, name: str, hint: Any) -> Any:
    """A value of the declared type, in or out of range."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    choice = dice.choice(choices)
    origin = get_origin(choice)
    if name == "queries":
        return dice.choice(QUERIES)
    if name in ("public", "public_data", "alternatives"):
        return (
            [FRAME]
            if name == "alternatives" and dice.random() < 0.5
            else ()
            if name == "alternatives"
            else FRAME
        )
    if choice is type(None):
        return None
    if origin is Literal:
        return dice.choice(get_args(choice))
    if Fraction in choices and choice in (Fraction, float, str, int):
        return dice.choice(AMOUNTS)
    if choice is int:
        return dice.choice(WHOLE)
    if choice is float:
        return dice.choice([0.5, 0.9, 0.95, 2.0])
    if choice is str:
        return dice.choice([*NAMES, "x y"])
    if choice is Metric:
        return METRIC
    if choice is Lists:
        return lists_of([[0, 1], [1, 2], [dice.randrange(4)]])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {dice.choice(NAMES): dice.choice([1, "1/2", ["x", "y"], {"top": ["x", "y"]}])}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = get_args(choice)[0]
        if inner is str:
            if dice.random() < 0.6:
                return dice.sample(["a", "b", "c"], dice.randint(1, 3))
            return dice.sample([*NAMES, "a*b", "a:b"], dice.randint(0, 4))
        if inner is int or Fraction in get_args(inner):
            return [
                dice.choice(WHOLE if inner is int else AMOUNTS) for _ in range(dice.randint(0, 4))
            ]
        return dice.sample(["p", "q", "r", "s"], dice.randint(1, 4))
    return dice.choice(ODD)


def random_settings(dice: random.Random, method: Any) -> dict[str, Any]:
    hints = get_type_hints(method)
    given: dict[str, Any] = {}
    wrong, often = dice.random() < 0.4, dice.choice([0.1, 0.35])
    for field in dataclasses.fields(method):
        needed = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if needed or dice.random() < often:
            odd = wrong and dice.random() < 0.4
            given[field.name] = (
                dice.choice(ODD) if odd else right(dice, field.name, hints[field.name])
            )
    return given


def attempt(method: Any, settings: dict[str, Any], schema: Schema, cost: Cost) -> bool:
    """True when there is a plan. Refusals are short, in words, and have nothing behind them."""
    try:
        plan = method(**settings).plan(schema, cost)
    except REFUSALS as error:
        refused = error
    else:
        check(plan, method, cost)
        return True
    assert 10 <= len(str(refused)) <= 1500, str(refused)[:2000]
    assert refused.__cause__ is None
    return False


def check(plan: Plan, method: Any, cost: Cost) -> None:
    assert plan.method == method.method
    for amount in ("epsilon", "delta", "rho"):
        assert getattr(plan.cost, amount) <= getattr(cost, amount), (
            "a plan never costs more than was asked for"
        )
    written = json.dumps(plan.to_json(), allow_nan=False)
    assert json.dumps(json.loads(written)) == written, (
        "what a manifest would quote is what was planned"
    )
    assert plan.text()


def run(seed: int, rounds: int) -> dict[str, int]:
    """Plans made, by method. Methods take turns, so that each gets its share."""
    made: dict[str, int] = {}
    for number, method in zip(range(rounds), itertools.cycle(EVERY)):
        case = f"{seed}/{number}"
        settings, schema, cost = request(random.Random(case), method)
        try:
            worked = attempt(method, settings, schema, cost)
        except Exception as error:
            shown = f"case {case}: {method.__name__}(**{settings!r}) with {schema!r} at {cost!r}"
            raise AssertionError(f"{shown}: {error!r}") from error
        made[method.__name__] = made.get(method.__name__, 0) + worked
    return made


def request(dice: random.Random, method: Any) -> tuple[dict[str, Any], Schema, Cost]:
    settings, cost = random_settings(dice, method), random_cost(dice)
    if dice.random() < 0.3:
        return settings, random_schema(dice), cost
    if method in SOLVERS:
        return settings, Schema(name="fuzz", neighbours="add-remove-one"), cost
    baskets = method.method in ("frequent-itemsets", "set-partition", "basic-itemsets")
    schema = friendly_schema(dice, baskets=baskets)
    if method.method == "discovery":
        sought = Column(name="b", kind="integer", lower=0, upper=9, discover=True)
        schema = replace(schema, columns={**schema.columns, "b": sought})
    return settings, schema, cost


def test_odd_requests_are_planned_or_refused() -> None:
    made = run(seed=50, rounds=CASES)
    assert all(made.values()), (
        f"some methods were never planned, so little of them was looked at: {made}"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(20))
def test_many_more_odd_requests(part: int) -> None:
    run(seed=51 + part, rounds=MANY // 20)
