"""The text of a query class is read back as the class it came from."""

from __future__ import annotations

import pytest

from dpublish.errors import PlanError
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
