"""Wrong arguments of an analyst's calls: a sentence, never an exception from deep inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import InputError, QueryError, SchemaError
from every_kind import TABLE, every_kind

Call = Callable[[Any], object]
ANY: dict[str, Call] = {
    "a condition that is no text": lambda release: release.estimate(3),
    "a condition that ends": lambda release: release.estimate("a ="),
    "a function": lambda release: release.estimate("lower(a) = 'x'"),
    "a case": lambda release: release.estimate("1 = case when a = 'x' then 1 end"),
    "a square": lambda release: release.estimate("income * income > 5"),
    "rows that are no number": lambda release: release.sample("x"),
    "half a row": lambda release: release.sample(2.5),
    "fewer than no rows": lambda release: release.sample(-1),
    "a plot of a number": lambda release: release.plot(3),
    "a page named as a picture": lambda release: release.report("a.png"),
}
TABLES: dict[str, Call] = {
    "a table of a number": lambda release: release.marginal(3),
    "a table of nothing": lambda release: release.marginal(None),
    "a table of a list of numbers": lambda release: release.marginal([3]),
    "an empty list": lambda release: release.marginal([]),
    "a level that is a text": lambda release: release.marginal("a", level="x"),
    "no level": lambda release: release.estimate("a = 'x'", level=None),
    "a level above 1": lambda release: release.estimate("a = 'x'", level=2),
}


@pytest.fixture(scope="module")
def releases() -> dict[str, Any]:
    made = every_kind()
    return {
        "histogram": made["histogram"],
        "joined": made["joined"],
        "tree": made["tree"],
        "weights": made["synthetic"],
    }


@pytest.mark.parametrize("kind", ["histogram", "joined", "tree", "weights"])
@pytest.mark.parametrize("what", ANY)
def test_every_kind_explains_itself(releases: dict[str, Any], kind: str, what: str) -> None:
    with pytest.raises(QueryError):
        ANY[what](releases[kind])


@pytest.mark.parametrize("kind", ["histogram", "joined", "weights"])
@pytest.mark.parametrize("what", TABLES)
def test_tables_explain_themselves(releases: dict[str, Any], kind: str, what: str) -> None:
    with pytest.raises(QueryError):
        TABLES[what](releases[kind])


@pytest.mark.parametrize("kind", ["histogram", "joined", "weights"])
def test_a_list_of_names_means_the_names(releases: dict[str, Any], kind: str) -> None:
    assert releases[kind].marginal(["a", "b"]).equals(releases[kind].marginal("a", "b"))


TREE: list[Call] = [
    lambda tree: tree.quantile("x"),
    lambda tree: tree.quantile([0.5]),
    lambda tree: tree.quantile(2),
    lambda tree: tree.quantile_limits(None),
    lambda tree: tree.cdf("x"),
    lambda tree: tree.cdf_limits(["x"]),
]


@pytest.mark.parametrize("place", range(len(TREE)))
def test_numbers_of_an_interval_tree(releases: dict[str, Any], place: int) -> None:
    with pytest.raises(QueryError):
        TREE[place](releases["tree"])


def test_functions_are_named(releases: dict[str, Any]) -> None:
    with pytest.raises(QueryError, match=r"'LOWER\(a\)' computes something from a column"):
        releases["histogram"].estimate("lower(a) = 'x'")


def test_schemas_and_budgets_of_another_type(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="must be a text in TOML, not int"):
        dp.Schema.from_toml(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"dp.Budget\(epsilon=1\), not int"):
        dp.Curator(
            pl.DataFrame(), dp.Schema.from_toml(TABLE), ledger=tmp_path / "a.ledger", budget=3
        )  # type: ignore[arg-type]
