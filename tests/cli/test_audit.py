"""`dpublish audit` as a user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Command


def test_the_histogram_survives(shop: Path, dpublish: Command) -> None:
    tiers = [word for tier in ("exact", "replay", "sampled") for word in ("--tier", tier)]
    shown = dpublish("audit", "histogram", *tiers, "--samples", "200")
    assert shown.code == 0, shown.out
    assert shown.out.count("survived") == 18, (
        "three tiers, two relations; one row and several a person, and bins that are found"
    )
    assert "Survived is not verified" in shown.out


def test_the_command_line_survives_a_twin_run(shop: Path, dpublish: Command) -> None:
    shown = dpublish(
        "audit", "histogram", "--tier", "twin", "--neighbours", "add-remove-one", "--json"
    )
    assert shown.code == 0, shown.out
    assert len(shown.document["reports"]) == 3, (
        "one row and several a person, and bins that are found"
    )
    for report in shown.document["reports"]:
        assert report["neighbours"] == "add-remove-one"
        assert "tiny.dpr" in report["files"]


def test_json(shop: Path, dpublish: Command) -> None:
    document = dpublish("audit", "histogram", "--tier", "replay", "--json").document
    assert document["survived"] is True
    assert (
        sorted(report["neighbours"] for report in document["reports"])
        == ["add-remove-one"] * 3 + ["replace-one"] * 3
    )


def test_a_broken_histogram_is_found(
    shop: Path, dpublish: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half the noise that is due: the exact tier must see it, and the command must fail."""
    from fractions import Fraction

    monkeypatch.setattr("dpublish.declare.relation.Relation.l1", Fraction(1))
    shown = dpublish("audit", "histogram", "--tier", "exact")
    assert shown.code == 1
    assert "FAILED" in shown.out


def test_unknown_method(dpublish: Command) -> None:
    shown = dpublish("audit", "histgram")
    assert shown.code == 2
    assert "Did you mean 'histogram'?" in shown.err


def test_tiers_that_do_not_apply_say_why(shop: Path, dpublish: Command) -> None:
    shown = dpublish("audit", "kary", "--tier", "exact", "--tier", "replay")
    assert shown.code == 0, shown.err
    assert "not run" in shown.out
    document = dpublish("audit", "kary", "--tier", "replay", "--json").document
    assert document["survived"] is True
    assert document["reports"][0]["passed"] is None
    assert "do not see the value" in document["reports"][0]["reason"]


def test_neighbours_that_a_method_has_not(dpublish: Command) -> None:
    shown = dpublish("audit", "min-cut", "--neighbours", "replace-one")
    assert shown.code == 2
    assert "its neighbours are: add-remove-one" in shown.err


def test_solvers_and_online_methods(shop: Path, dpublish: Command) -> None:
    for method in ("public-projects", "online-multiplicative-weights", "mwem"):
        shown = dpublish("audit", method, "--tier", "replay")
        assert shown.code == 0, shown.out + shown.err
        assert "survived" in shown.out


def test_distributional_privacy_and_its_counter_example(shop: Path, dpublish: Command) -> None:
    """Private for neighbours, refuted for samples; a release, which never promised it, is not
    run."""
    shown = dpublish("audit", "mirrored-mod", "--samples", "200")
    assert shown.code == 1
    assert shown.out.count("FAILED") == 1
    assert shown.out.count("survived") == 3
    document = dpublish("audit", "mirrored-mod", "--tier", "distributional", "--json").document
    assert document["survived"] is False
    (report,) = document["reports"]
    assert (report["tier"], report["alpha"], report["rows"]) == ("distributional", "1/2", 24)
    assert report["lower_bound"] > report["beta"]
    assert dpublish("audit", "mirrored-mod", "--tier", "exact").code == 0
    other = dpublish("audit", "histogram", "--tier", "distributional", "--json").document
    assert other["survived"] is True
    assert "says nothing about two samples" in other["reports"][0]["reason"]
