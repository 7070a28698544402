"""Tables and releases for the tests of joined releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import dpublish as dp
from dpublish.declare.schema import Schema
from dpublish.methods.base import Output
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.releases.joined_histograms.release import JoinedRelease

SCHEMA = """
[dataset]
name = "people"
neighbours = "add-remove-one"
target = "ill"

[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 20

[columns.region]
kind = "categorical"
levels = ["n", "e", "s", "w"]
outside = "drop"

[columns.city]
kind = "categorical"
levels = ["n1", "n2", "e1", "e2", "s1", "s2", "w1", "w2"]
outside = "drop"

[columns.seen]
kind = "date"
lower = 2020-01-01
upper = 2020-12-31
bins = 12

[columns.dose]
kind = "real"
lower = 0.0
upper = 10.0
bins = 10
missing = true

[columns.ill]
kind = "boolean"
outside = "drop"
"""


def schema(text: str = SCHEMA) -> Schema:
    return Schema.from_toml(text)


def codes_of(rows: int, seed: int = 0) -> list[Any]:
    """Coded rows: city follows region, dose follows age, illness follows age; the day follows
    nothing."""
    rng = np.random.default_rng(seed)
    age = np.minimum(19, rng.poisson(8, rows))
    region = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    city = 2 * region + (rng.random(rows) < 0.3)
    dose = np.where(
        rng.random(rows) < 0.15, 10, np.clip(age // 2 + rng.integers(-1, 2, rows), 0, 9)
    )
    ill = (rng.random(rows) < 1 / (1 + np.exp(4 - 0.4 * age))).astype(np.int64)
    return [age, region, city, rng.integers(0, 12, rows), dose, ill]


def planned(cost: Cost, *, text: str = SCHEMA, **settings: Any) -> tuple[dp.JoinedHistograms, Plan]:
    method = dp.JoinedHistograms(**settings)
    return method, method.plan(schema(text), cost)


def released(content: Output, plan: Plan) -> JoinedRelease:
    """A release in memory, as the gate would seal it."""
    assert plan.domain is not None
    manifest = {
        "format": "dpublish-release",
        "format_version": 1,
        "kind": plan.kind,
        "method": plan.method,
        "dataset": plan.schema.name,
        "publishable": False,
        "created": "2024-01-01T00:00:00Z",
        "parameters": dict(plan.parameters),
        "privacy": {
            "cost": plan.cost.to_json(),
            "neighbours": plan.schema.neighbours,
            "unit": plan.schema.unit.describe(),
            "statement": "for tests",
        },
        "domain": (content.domain or plan.domain).to_json(),
        "target": plan.schema.target,
        "schema_digest": plan.schema.digest,
        "facts": dict(content.facts),
        "plan": {"facts": {}, "sentences": [], "warnings": []},
        "receipt": {},
        "versions": {"dpublish": dp.__version__},
    }
    return JoinedRelease(
        manifest, {name: pl.DataFrame(dict(columns)) for name, columns in content.tables.items()}
    )


def made(
    rows: int = 20_000, *, seed: int = 1, cost: Cost | None = None, **settings: Any
) -> JoinedRelease:
    method, plan = planned(cost or Cost.pure(1), **settings)
    return released(method.run(SeededNoise(seed), codes_of(rows), plan), plan)
