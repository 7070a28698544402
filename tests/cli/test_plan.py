"""`dpublish plan` as a user sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import SCHEMA, Command

PLAN = ("plan", "--schema", "shop.toml", "--size", "400")


def test_plan_in_words_and_numbers(shop: Path, dpublish: Command) -> None:
    shown = dpublish(*PLAN, "--epsilon", "1/2", "--set", "columns=city,member")
    assert shown.code == 0
    assert "Counts over city x member: 8 cells." in shown.out
    assert "is right in at most 63 of 100 cases on average, instead of 50" in " ".join(
        shown.out.split()
    )
    document = dpublish(
        *PLAN, "--epsilon", "0.5", "--set", "columns=city,member", "--json"
    ).document
    assert document["cost"]["epsilon"] == "1/2"
    assert (
        document["facts"]["scale"] == "80/19"
    )  # 1/20 of the cost buys a noisy total, since rows may drop out
    assert document["parameters"]["columns"] == ["city", "member"]


def test_plan_spends_and_reads_nothing(shop: Path, dpublish: Command) -> None:
    (shop / "shop.csv").unlink()
    before = sorted(shop.iterdir())
    assert dpublish(*PLAN, "--epsilon", "1").code == 0
    assert sorted(shop.iterdir()) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--epsilon", "0"], "epsilon must be above 0, not 0"),
        (["--epsilon", "-1"], "epsilon must be above 0, not -1"),
        (["--epsilon", "nan"], "not a finite number"),
        (["--epsilon", "inf"], "not a finite number"),
        (["--epsilon", "much"], "cannot be read as a number"),
        ([], "Give epsilon"),
        (["--epsilon", "1", "--rho", "1"], "not both"),
        (["--rho", "1"], "pure epsilon"),
        (["--epsilon", "1", "--delta", "1"], "delta must be below 1"),
        (["--epsilon", "1", "--set", "columns=cty"], "Did you mean 'city'?"),
        (["--epsilon", "1", "--set", "colums=city"], "Did you mean 'columns'?"),
        (["--epsilon", "1", "--set", "bins=few"], "must be a whole number, not 'few'"),
        (["--epsilon", "1", "--set", "columns"], "KEY=VALUE"),
        (["--epsilon", "1", "--set", "bins=2", "--set", "bins=3"], "given twice"),
        (["--epsilon", "1", "--method", "histgram"], "Did you mean 'histogram'?"),
    ],
)
def test_wrong_requests(shop: Path, dpublish: Command, words: list[str], expected: str) -> None:
    shown = dpublish(*PLAN, *words)
    assert (shown.code, shown.out) == (2, "")
    assert expected in shown.err
    error = dpublish(*PLAN, *words, "--json").error
    assert error["type"] in ("PlanError", "SchemaError", "InputError")
    assert expected in error["message"]


def test_missing_bounds(shop: Path, dpublish: Command) -> None:
    (shop / "shop.toml").write_text(SCHEMA.replace("upper = 97\n", ""))
    shown = dpublish(*PLAN, "--epsilon", "1")
    assert shown.code == 2
    assert (
        "Column 'age' has no upper bound in schema 'shop'. Add upper = ...; it cannot be taken "
        "from the data." in shown.err
    )


def test_missing_size(shop: Path, dpublish: Command) -> None:
    shown = dpublish("plan", "--schema", "shop.toml", "--epsilon", "1")
    assert shown.code == 2
    assert "declares no size" in shown.err


def test_domain_too_large(shop: Path, dpublish: Command) -> None:
    columns = "".join(
        f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 999999\nbins = 1000000\n'
        for i in range(4)
    )
    (shop / "wide.toml").write_text(f'[dataset]\nname = "wide"\n{columns}')
    shown = dpublish("plan", "--schema", "wide.toml", "--size", "1000", "--epsilon", "1")
    assert shown.code == 2
    assert "at most 2^63 can be published. Choose fewer columns" in shown.err
    some = dpublish(
        "plan",
        "--schema",
        "wide.toml",
        "--size",
        "1000",
        "--epsilon",
        "1",
        "--set",
        "columns=c0,c1",
    )
    assert some.code == 2
    assert "threshold_factor = " in some.err


def test_a_declared_size_is_not_overridden(shop: Path, dpublish: Command) -> None:
    (shop / "sized.toml").write_text(SCHEMA.replace("[dataset]\n", "[dataset]\nsize = 400\n", 1))
    assert dpublish("plan", "--schema", "sized.toml", "--size", "400", "--epsilon", "1").code == 0
    refused = dpublish("plan", "--schema", "sized.toml", "--size", "500", "--epsilon", "1")
    assert refused.code == 2
    assert "declares size = 400" in refused.err
