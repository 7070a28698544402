"""The text of a query class is read back as the class it came from."""

from __future__ import annotations

import pytest

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.workload.mechanism import Workload
from dpublish.privacy.cost import Cost
from dpublish.workloads.query_classes import Predicates, query_class


@pytest.mark.parametrize(
    "listed",
    [
        ["town = 'a;b'", "age > 3"],
        ["town = 'it''s; so'", "town = 'x'"],
        ['"a;b" = 1', "town in (';', '\"')"],
        ["town = ';'"],
    ],
)
def test_semicolons_inside_quotes_belong_to_the_predicate(listed: list[str]) -> None:
    asked = Predicates(listed)
    assert query_class(asked.text()) == asked
    assert asked.predicates == tuple(listed)


def test_semicolons_outside_quotes_separate_predicates() -> None:
    found = query_class("predicates: age > 3 ; ; town = 'a;b';")
    assert found == Predicates(["age > 3", "town = 'a;b'"])


@pytest.mark.parametrize("text", ["age > 3; age < 5", "town = 'x", 'town = "x', "", "  ", ";"])
def test_what_would_not_be_found_again_in_the_text_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        Predicates([text])
    with pytest.raises(PlanError):
        Predicates(["age > 3", text])


def test_a_list_of_two_kinds_and_a_linear_condition_are_told_where_to_go() -> None:
    with pytest.raises(PlanError, match="A list is of one class"):
        query_class("marginals:2; intervals:age")
    schema = Schema.from_toml(
        '[dataset]\nname = "s"\nneighbours = "replace-one"\nsize = 100\n'
        + "".join(f'[columns.{n}]\nkind = "integer"\nlower = 0\nupper = 9\n' for n in "ab")
    )
    with pytest.raises(PlanError, match="answered by the method halfspaces"):
        Workload(queries="predicates:2 * a + b >= 7").plan(schema, Cost.pure(1))
