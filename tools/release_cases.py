"""One small request of every method, relation and variant: what two states of the code are compared
by.

Only names that are a contract are used here (`dpublish as dp`, the command line), so that the same
requests can be put to any state of the code. The tables are made up from fixed seeds; the noise is
seeded by whoever runs a case.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROWS = 600
ITEMS = ("bread", "milk", "beer", "wine")
RELATIONS = ("replace-one", "add-remove-one")
SIZE = {"replace-one": "size", "add-remove-one": "nominal_size"}
COLUMNS = """
[columns.a]
kind = "categorical"
levels = ["x", "y"]
[columns.b]
kind = "categorical"
levels = ["no", "yes"]
[columns.grade]
kind = "ordinal"
levels = ["low", "middle", "high"]
[columns.income]
kind = "integer"
lower = 0
upper = 1000
bins = 8
[columns.height]
kind = "real"
lower = 0
upper = 2
bins = 4
[columns.since]
kind = "date"
lower = 2020-01-01
upper = 2023-12-31
bins = 4
[columns.smokes]
kind = "boolean"
missing = true
"""
_NAMES = ("a", "b", "grade", "income", "height", "since", "smokes")
BITS = "".join(f'[columns.{name}]\nkind = "boolean"\noutside = "drop"\n' for name in ("p", "q"))
ANY = (
    "a = 'x'",
    "a = 'x' and b = 'yes'",
    "grade >= 'middle'",
    "income >= 300 and a = 'y'",
    "smokes = true",
)
RANGES = ("income >= 300", "income between 100 and 250", "income < 50 or income > 900")
PLANES = ("income + 500 * height >= 800", "income >= 300")
SETS = ("bread", "bread and milk", "beer and not (wine or milk)")
COUNTS = "select a, count(*) from release group by a order by a"


@dataclass(frozen=True)
class Case:
    """A request to `Curator.publish`, and the questions that its release is asked."""

    name: str
    method: str
    schema: str
    table: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, str] = field(default_factory=lambda: {"epsilon": "4"})
    questions: Sequence[str] = ANY
    by: str = "a"
    sql: Sequence[str] = (COUNTS,)

    @property
    def words(self) -> list[str]:
        """The settings as the command line takes them."""
        texts = {
            key: ",".join(value) if isinstance(value, list) else str(value)
            for key, value in self.settings.items()
        }
        return [word for key, text in texts.items() for word in ("--set", f"{key}={text}")]

    @property
    def asked(self) -> list[str]:
        """The questions that speak of published columns only."""
        kept = self.settings.get("columns") or _NAMES
        left_out = [name for name in _NAMES if name not in kept]
        return [
            one
            for one in self.questions
            if not any(re.search(rf"\b{name}\b", one) for name in left_out)
        ]

    def mechanism(self) -> Any:
        import dpublish as dp

        return getattr(dp, "".join(part.capitalize() for part in self.method.split("-")))(
            **self.settings
        )


@dataclass(frozen=True)
class Session:
    """An online session and its questions; a list is a linear query."""

    name: str
    method: str
    schema: str
    table: str
    settings: Mapping[str, Any]
    questions: Sequence[Any]


def people(relation: str, *, per_unit: int = 1, target: str = "", rows: int = ROWS) -> str:
    """A schema of the made-up people, who may have several rows."""
    size = rows // per_unit
    unit = f'unit = "who"\nmax_rows_per_unit = {per_unit}\n' if per_unit > 1 else ""
    goal = f'target = "{target}"\n' if target else ""
    return (
        f'[dataset]\nname = "people"\nneighbours = "{relation}"\n{SIZE[relation]} = {size}\n'
        f"{unit}{goal}{COLUMNS}"
    )


def bits(relation: str, *, rows: int = ROWS) -> str:
    return f'[dataset]\nname = "bits"\nneighbours = "{relation}"\n{SIZE[relation]} = {rows}\n{BITS}'


def baskets(relation: str, *, rows: int = ROWS) -> str:
    held = ", ".join(f'"{item}"' for item in ITEMS)
    return (
        f'[dataset]\nname = "baskets"\nneighbours = "{relation}"\n{SIZE[relation]} = {rows}\n'
        f"[items]\nuniverse = [{held}]\n"
    )


def write_tables(folder: Path, *, rows: int = ROWS) -> None:
    """All tables that the cases name, private and public."""
    rng = random.Random(1)
    (folder / "people.csv").write_text(_people(rng, rows, units=rows))
    (folder / "visits.csv").write_text(_people(rng, rows, units=rows // 2))
    (folder / "volunteers.csv").write_text(_people(rng, 200, units=200))
    (folder / "guests.csv").write_text(_people(rng, 150, units=150))
    (folder / "bits.csv").write_text(
        "p,q\n" + "".join(f"{rng.choice(_TRUTH)},{rng.choice(_TRUTH[:3])}\n" for _ in range(rows))
    )
    shares = (0.6, 0.4, 0.2, 0.1)
    lines = [
        [item for item, share in zip(ITEMS, shares, strict=True) if rng.random() < share]
        for _ in range(rows)
    ]
    (folder / "baskets.csv").write_text(
        "items\n" + "".join(f"{' '.join(line) or ITEMS[0]}\n" for line in lines)
    )


_TRUTH = ("true", "false", "true", "yes")


def _people(rng: random.Random, number: int, *, units: int) -> str:
    lines = ["who,a,b,grade,income,height,since,smokes"]
    for place in range(number):
        a = rng.choice("xy")
        b = "yes" if rng.random() < (0.8 if a == "x" else 0.3) else "no"
        grade = rng.choices(("low", "middle", "high"), (3, 2, 1 + 2 * (b == "yes")))[0]
        income = min(1000, max(0, round(rng.gauss(400 + 100 * (b == "yes"), 200))))
        since = f"{rng.randint(2020, 2023)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        smokes = rng.choice(("true", "false", "false", ""))
        lines.append(
            f"{place % units},{a},{b},{grade},{income},{round(2 * rng.random(), 3)},{since},{smokes}"
        )
    return "\n".join(lines) + "\n"


def cases() -> list[Case]:
    """Every release method with every relation it knows, and every variant of it."""
    found = [*_histograms(), *_joined(), *_weights(), *_learnt(), *_sets(), *_queries()]
    return [*found, *_discoveries()]


def _histograms() -> Iterator[Case]:
    small, several = ["a", "b", "income"], people("replace-one", per_unit=2)
    goal: Any = {
        "questions": ("b = 'yes'",),
        "by": "b",
        "sql": ("select b, count(*) from release group by b order by b",),
    }
    for relation in RELATIONS:
        text = people(relation)
        yield Case(
            f"histogram {relation}", "histogram", text, "people.csv", {"columns": small}, by="a,b"
        )
        yield Case(
            f"projected {relation}",
            "projected-histogram",
            text,
            "people.csv",
            {"target": "b", "k": 2},
            **goal,
        )
        yield Case(
            f"generalized {relation}",
            "generalized-table",
            text,
            "people.csv",
            {"columns": small, "target": "b"},
        )
        yield Case(
            f"histogram {relation} units",
            "histogram",
            people(relation, per_unit=2),
            "visits.csv",
            {"columns": ["a", "smokes"]},
        )
    yield Case(
        "histogram wide", "histogram", people("add-remove-one"), "people.csv", {"threshold": 2}
    )
    yield Case(
        "projected units",
        "projected-histogram",
        several,
        "visits.csv",
        {"target": "b", "k": 1},
        **goal,
    )
    for score in ("gini", "information-gain"):
        settings = {"columns": small, "target": "b", "score": score, "fanout": 2}
        yield Case(f"generalized {score}", "generalized-table", several, "visits.csv", settings)


def _discoveries() -> Iterator[Case]:
    for relation in RELATIONS:
        text = f'[dataset]\nname = "people"\nneighbours = "{relation}"\n{SIZE[relation]} = {ROWS}\n'
        text += '[columns.grade]\nkind = "categorical"\ndiscover = true\n'
        text += '[columns.income]\nkind = "integer"\ndiscover = true\n'
        cost = {"epsilon": "4", "delta": "1e-6"}
        yield Case(
            f"discovery {relation}", "discovery", text, "people.csv", {}, cost, (), by="", sql=()
        )


def _joined() -> Iterator[Case]:
    for relation in RELATIONS:
        text = people(relation, target="b")
        asked = (*ANY, "a = 'x' and grade = 'low' and income < 500")
        yield Case(
            f"joined {relation}", "joined-histograms", text, "people.csv", questions=asked, by="a,b"
        )
        yield Case(
            f"joined {relation} rho",
            "joined-histograms",
            text,
            "people.csv",
            cost={"rho": "1/2"},
            questions=asked,
        )
    settings = {
        "columns": ["a", "b", "grade", "smokes"],
        "target": "none",
        "rounds": 2,
        "workload": ["a*grade*smokes"],
    }
    cost = {"epsilon": "6", "delta": "1e-6"}
    yield Case(
        "joined delta rounds",
        "joined-histograms",
        people("add-remove-one"),
        "people.csv",
        settings,
        cost,
    )
    yield Case(
        "joined units",
        "joined-histograms",
        people("replace-one", per_unit=2, target="b"),
        "visits.csv",
        {"noise": "laplace"},
    )


def _weights() -> Iterator[Case]:
    asked = (*ANY[:3], "income")
    few = {"columns": ["a", "b", "grade"], "public": "volunteers.csv"}
    for relation in RELATIONS:
        yield Case(
            f"weights {relation}",
            "importance-weights",
            people(relation),
            "people.csv",
            {"public": "volunteers.csv"},
            questions=asked,
        )
    text = people("replace-one")
    for variant, cost in (
        ("output", {"epsilon": "4"}),
        ("objective", {"epsilon": "4"}),
        ("gaussian", {"rho": "1"}),
    ):
        settings = {**few, "variant": variant, "regularization": "1/4"}
        yield Case(
            f"weights {variant}",
            "importance-weights",
            text,
            "people.csv",
            settings,
            cost,
            questions=asked,
        )
    settings = {**few, "variant": "gaussian", "pairs": ["a*b"], "publish": "hash"}
    cost = {"epsilon": "4", "delta": "1e-6"}
    yield Case(
        "weights delta",
        "importance-weights",
        people("add-remove-one"),
        "people.csv",
        settings,
        cost,
        questions=asked,
    )
    yield Case(
        "weights alternatives",
        "importance-weights",
        text,
        "people.csv",
        {**few, "alternatives": ["guests.csv"]},
        questions=asked,
    )
    yield Case(
        "weights uniform units",
        "importance-weights",
        people("add-remove-one", per_unit=2),
        "visits.csv",
        {"columns": ["a", "b", "grade"], "public": "uniform", "public_size": 100, "pairs": ["a*b"]},
        questions=asked,
    )


def _learnt() -> Iterator[Case]:
    for relation, change in itertools.product(RELATIONS, ("output", "objective")):
        settings = {"features": ["a", "grade", "income"], "target": "b", "perturbation": change}
        yield Case(
            f"classifier {relation} {change}",
            "private-classifier",
            people(relation),
            "people.csv",
            settings,
        )
    yield Case(
        "classifier units",
        "private-classifier",
        people("add-remove-one", per_unit=2),
        "visits.csv",
        {"features": ["a", "grade"], "target": "b", "perturbation": "output", "loss": "huber"},
    )


def _sets() -> Iterator[Case]:
    methods = ("set-partition", "basic-itemsets", "frequent-itemsets")
    for relation, method in itertools.product(RELATIONS, methods):
        settings = {"separator": " "} | ({"fanout": 2} if method == "set-partition" else {})
        yield Case(
            f"{method} {relation}",
            method,
            baskets(relation),
            "baskets.csv",
            settings,
            questions=SETS,
            by="bread",
            sql=(),
        )


def _queries() -> Iterator[Case]:
    for relation in RELATIONS:
        text, several = people(relation), people(relation, per_unit=2)
        line, plane = {"columns": ["income"]}, {"columns": ["income", "height"]}
        sums = ("select count(*) from release where income < 400",)
        yield Case(
            f"tree {relation}",
            "interval-tree",
            text,
            "people.csv",
            line,
            questions=RANGES,
            by="income",
            sql=sums,
        )
        yield Case(
            f"plane {relation}",
            "interval-tree",
            text,
            "people.csv",
            plane,
            questions=RANGES,
            by="income",
            sql=sums,
        )
        for tree in ("dyadic", "binary-search"):
            settings = {**line, "tree": tree, **({"max_cells": 64} if tree == "dyadic" else {})}
            name = f"tree {tree} {relation} units"
            yield Case(
                name,
                "interval-tree",
                several,
                "visits.csv",
                settings,
                questions=RANGES,
                by="income",
                sql=sums,
            )
        yield Case(
            f"halfspaces {relation}",
            "halfspaces",
            text,
            "people.csv",
            plane,
            questions=PLANES,
            by="income",
            sql=(),
        )
        cells = {"columns": ["a", "b", "grade"], "queries": "marginals:2"}
        yield Case(
            f"mwem {relation}", "multiplicative-weights", text, "people.csv", {**cells, "rounds": 4}
        )
        direct = {**cells, "answer": "direct"}
        yield Case(f"workload {relation}", "workload", text, "people.csv", direct, by="a,b", sql=())
        asked = ("p = true", "p = true and q = false")
        count = ("select p, count(*) from release group by p order by p",)
        yield Case(
            f"net {relation}",
            "net",
            bits(relation),
            "bits.csv",
            {"queries": "marginals:1", "points": 6},
            questions=asked,
            by="p",
            sql=count,
        )
    some: Any = {"sql": ("select count(*) from release",)}
    yield Case(
        "tree looks",
        "interval-tree",
        text,
        "people.csv",
        {**line, "look_share": "1/4"},
        questions=RANGES,
        by="income",
        **some,
    )
    yield Case(
        "tree dates",
        "interval-tree",
        text,
        "people.csv",
        {"columns": ["since"]},
        questions=("since < '2021-01-01'",),
        by="since",
        **some,
    )
    settings = {"columns": ["income", "height"], "k": 2, "projections": 3}
    yield Case(
        "halfspaces sectors",
        "halfspaces",
        several,
        "visits.csv",
        settings,
        questions=PLANES,
        by="income",
        sql=(),
    )
    cells = {"columns": ["a", "b", "smokes"], "queries": "marginals:3"}
    yield Case(
        "mwem units", "multiplicative-weights", several, "visits.csv", {**cells, "rounds": 3}
    )
    exponential = {"queries": "marginals:2", "points": 5, "rule": "exponential"}
    yield Case(
        "net exponential",
        "net",
        bits("add-remove-one"),
        "bits.csv",
        exponential,
        questions=("p = true",),
        by="p",
        sql=(),
    )


def sessions() -> list[Session]:
    """Both online methods, both relations, and all kinds of hypotheses."""
    asked = (
        "p = true",
        "q = true",
        "p = true and q = true",
        [0, 0.5, 1, 0.25],
        "p = false or q = false",
        "p = true",
    )
    found = []
    for relation in RELATIONS:
        for name in ("median-mechanism", "online-multiplicative-weights"):
            settings = {"max_hard": 4, "max_queries": 20, "accuracy": "1/10"}
            found.append(
                Session(f"{name} {relation}", name, bits(relation), "bits.csv", settings, asked)
            )
    listed = {
        "max_hard": 3,
        "max_queries": 20,
        "hypotheses": "listed",
        "database_size": 12,
        "accuracy": "1/4",
    }
    found.append(
        Session(
            "median-mechanism listed",
            "median-mechanism",
            bits("replace-one"),
            "bits.csv",
            listed,
            asked[:3],
        )
    )
    return found


SURVEY = """
[survey]
name = "commute"
epsilon = 9
[questions.likes]
method = "binary"
epsilon = 1
[questions.kary]
method = "kary"
column = "a"
levels = ["x"]
epsilon = 1
[questions.unary]
method = "unary"
column = "grade"
levels = ["low", "middle", "high"]
epsilon = 1
[questions.hashing]
method = "hashing"
column = "grade"
levels = ["low", "middle", "high"]
epsilon = 1
[questions.hadamard]
method = "hadamard"
column = "grade"
levels = ["low", "middle", "high"]
epsilon = 1
[questions.common]
method = "heavy-hitters"
column = "grade"
levels = ["low", "middle", "high"]
epsilon = 2
[questions.income]
method = "mean"
lower = 0
upper = 1000
epsilon = 1
[questions.habits]
method = "conjunctions"
attributes = ["likes", "smokes"]
width = 2
epsilon = 1
"""
