"""Methods by name, with settings read from text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import pytest

from dpublish.catalogue import methods
from dpublish.errors import PlanError
from dpublish.methods import registry
from dpublish.methods.base import Mechanism
from dpublish.methods.histogram.mechanism import Histogram
from dpublish.methods.registry import method_from_settings, method_named


@pytest.mark.parametrize("name", methods("release"))
def test_a_name_is_the_class_name_in_kebab_case(name: str) -> None:
    method = method_named(name)
    assert issubclass(method, Mechanism)
    assert re.sub(r"(?<!^)(?=[A-Z])", "-", method.__name__).lower() == name == method.method


def test_a_method_is_found_by_its_name_in_the_literature() -> None:
    assert method_named("mwem") is method_named("multiplicative-weights")


def test_settings_get_the_types_of_the_fields() -> None:
    method = method_from_settings(
        "histogram",
        {
            "columns": "age, education-num",
            "bins": "8",
            "threshold-factor": "1/3",
            "threshold": "none",
        },
    )
    assert method == Histogram(
        columns=("age", "education-num"), bins=8, threshold_factor="1/3", threshold=None
    )


@dataclass(frozen=True, kw_only=True)
class Everything(Mechanism):
    """One field of every type that a method may have."""

    method = kind = "everything"
    names: Sequence[str] = ()
    share: Fraction | float | int | str = 1
    loud: bool = False
    rule: Literal["first", "second"] = "first"
    where: str | None = None
    times: int | None = None
    tries: Sequence[int] | None = None
    separator: str | None = None

    def plan(self, schema: Any, cost: Any) -> Any: ...
    def statistic(self, plan: Any) -> Any: ...
    def run(self, noise: Any, numbers: Any, plan: Any) -> Any: ...


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "method_named", lambda name, door: Everything)


@pytest.mark.usefixtures("everything")
def test_every_type_of_field() -> None:
    given = {
        "names": "a,b,",
        "share": "0.1",
        "loud": "Yes",
        "rule": "second",
        "where": "x=y",
        "times": "3",
        "tries": "1, 2",
        "separator": " ",
    }
    made = method_from_settings("everything", given)
    assert made == Everything(
        names=("a", "b"),
        share="0.1",
        loud=True,
        rule="second",
        where="x=y",
        times=3,
        tries=(1, 2),
        separator=" ",
    )


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("loud", "perhaps", "true or false"),
        ("rule", "secnd", "Did you mean 'second'?"),
        ("times", "1.5", "whole number"),
        ("tries", "1,two", "whole number"),
        ("tims", "1", "Did you mean 'times'?"),
    ],
)
def test_wrong_settings(key: str, text: str, expected: str) -> None:
    with pytest.raises(PlanError, match=re.escape(expected)):
        method_from_settings("everything", {key: text})


def test_unknown_method() -> None:
    with pytest.raises(PlanError, match="Did you mean 'histogram'"):
        method_named("histogramm")
