"""The text of a query class is read back as the class it came from."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.workload.mechanism import Workload
from dpublish.privacy.cost import Cost
from dpublish.workloads.query_classes import Intervals, MixedQueries, Predicates, query_class

SCHEMA = Schema.from_toml(
    '[dataset]\nname = "s"\nneighbours = "replace-one"\nsize = 100\n'
    + "".join(f'[columns.{n}]\nkind = "integer"\nlower = 0\nupper = 9\n' for n in "ab")
)


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


def test_a_list_of_several_classes_is_read_back_from_its_text() -> None:
    asked = query_class(
        "marginals:2; intervals:age;intervals: ;predicates:a > 1; b = 'x;marginals:1'"
    )
    assert isinstance(asked, MixedQueries)
    assert [one.text() for one in asked.members] == [
        "marginals:2",
        "intervals:age",
        "intervals",
        "predicates:a > 1;b = 'x;marginals:1'",
    ]
    assert query_class(asked.text()) == asked
    assert asked.unit == 1000
    assert MixedQueries([asked, "random:5"]).members[-1] == query_class("random:5")
    assert query_class(MixedQueries(["marginals:2"]).text()) == query_class("marginals:2")
    # a column of such a name stays what it was
    assert query_class("intervals:a;b") == Intervals("a;b")


def test_the_values_of_a_list_are_those_of_its_classes_in_one_unit() -> None:
    domain = SCHEMA.domain(["a", "b"])
    asked = MixedQueries(["intervals:a", "predicates:a < 4.5", "marginals:1", "random:3"])
    tables = [one.table(domain).astype(int) * (1000 // one.unit) for one in asked.members]
    assert np.array_equal(asked.table(domain), np.concatenate(tables))
    assert asked.size(domain) == sum(map(len, tables)) == len(list(asked.labels(domain)))


def test_what_is_no_list_is_told_how_to_write_one_and_a_linear_condition_where_to_go() -> None:
    with pytest.raises(PlanError, match="begins with its name and a colon"):
        query_class("marginals:2; age > 40")
    with pytest.raises(PlanError, match="one condition"):
        Predicates(["marginals:2"])
    with pytest.raises(PlanError, match="Give a list"):
        MixedQueries([])
    with pytest.raises(PlanError, match="answered by the method halfspaces"):
        Workload(queries="predicates:2 * a + b >= 7").plan(SCHEMA, Cost.pure(1))
