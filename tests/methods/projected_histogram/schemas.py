"""Schemas that the tests of the projected histogram share."""

from __future__ import annotations

from dpublish.declare.schema import Schema
from dpublish.privacy.cost import Cost

ONE = Cost.pure(1)
COLUMNS = """
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.wage]
kind = "real"
lower = 0
upper = 1000
[columns.town]
kind = "categorical"
levels = ["A", "B", "C"]
[columns.member]
kind = "boolean"
[columns.ill]
kind = "categorical"
levels = ["no", "yes"]
"""


def schema_of(dataset: str = 'size = 5000\ntarget = "ill"', columns: str = COLUMNS) -> Schema:
    return Schema.from_toml(f'[dataset]\nname = "people"\n{dataset}\n{columns}')


BITS = "".join(
    f'[columns.{name}]\nkind = "categorical"\nlevels = ["0", "1"]\noutside = "drop"\n'
    for name in ("a", "b", "t")
)


def bits(dataset: str) -> Schema:
    return schema_of(f'target = "t"\n{dataset}', BITS)
