"""`dpublish methods` as a user sees it."""

from __future__ import annotations

from cli.conftest import Command
from dpublish.catalogue import methods


def test_every_method_is_listed(dpublish: Command) -> None:
    shown = dpublish("methods")
    assert shown.code == 0
    assert [name for name in methods("release", "online", "solve") if name not in shown.out] == []
    document = dpublish("methods", "--json").document
    assert {method["name"] for method in document["release"]} == set(methods("release"))


def test_one_method_with_its_settings(dpublish: Command) -> None:
    shown = dpublish("methods", "histogram")
    assert "threshold_factor" in shown.out
    assert "epsilon-DP" in shown.out
    document = dpublish("methods", "mwem", "--json").document
    assert document["class"] == "MultiplicativeWeights"
    assert {"queries", "rounds"} <= {setting["name"] for setting in document["settings"]}


def test_an_unknown_method(dpublish: Command) -> None:
    shown = dpublish("methods", "histgram")
    assert (shown.code, shown.out) == (2, "")
    assert "Did you mean 'histogram'?" in shown.err
    shown = dpublish("methods", "median-mechanim")
    assert "Did you mean 'median-mechanism'?" in shown.err
    assert all(name in shown.err for name in (*methods("release"), "online-multiplicative-weights"))
