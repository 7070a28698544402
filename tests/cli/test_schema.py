"""`dpublish schema` as a user sees it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from cli.conftest import CANARY, SCHEMA, Command
from dpublish.declare.schema import Schema


def test_check_says_that_all_is_there(shop: Path, dpublish: Command) -> None:
    assert "complete" in dpublish("schema", "check", "shop.toml").out
    assert dpublish("schema", "check", "shop.toml", "--data", "shop.csv", "--json").document == {
        "schema": "shop",
        "ok": True,
        "problems": [],
    }


def test_check_lists_every_problem_at_once(shop: Path, dpublish: Command) -> None:
    (shop / "bad.toml").write_text(
        '[draft]\n[dataset]\nname = "shop"\n[columns.age]\nkind = "integer"\nlower = 0\n'
        '[columns.pay]\nkind = "real"\nupper = 9\n'
    )
    shown = dpublish("schema", "check", "bad.toml", "--json")
    assert shown.code == 2
    draft, age, pay = shown.document["problems"]
    assert "[draft]" in draft
    assert "'age' has no upper bound" in age
    assert "cannot be taken from the data" in pay
    assert "3 problems" in dpublish("schema", "check", "bad.toml").out
    (shop / "bad.toml").write_text(
        '[datset]\n[dataset]\nname = 3\nsise = 9\nsize = 0\ntarget = "b"\n'
        '[columns.a]\nkind = "real"\nlower = "x"\n[columns.b]\nkind = "ordinal"\n'
    )
    shown = dpublish("schema", "check", "bad.toml", "--json")
    assert shown.code == 2
    found = shown.document["problems"]
    wanted = (
        "[datset]",
        "unknown key 'sise'",
        "name must be text, not 3",
        "'a'",
        "'b' has no levels",
        "size must be",
    )
    assert len(found) == len(wanted)
    assert all(text in problem for text, problem in zip(wanted, found, strict=True)), found


def test_check_compares_with_the_columns_of_the_data(shop: Path, dpublish: Command) -> None:
    (shop / "bad.toml").write_text(SCHEMA.replace("columns.city", "columns.cty"))
    shown = dpublish("schema", "check", "bad.toml", "--data", "shop.csv")
    assert shown.code == 2
    assert "no column named exactly 'cty'." in shown.out


def test_a_column_that_comes_twice_is_refused_where_it_is_used(
    shop: Path, dpublish: Command
) -> None:
    (shop / "twice.csv").write_text("age,city,member,city,note,note\n33,Bern,yes,Graz,a,b\n")
    shown = dpublish("schema", "check", "shop.toml", "--data", "twice.csv")
    assert shown.code == 2
    assert "more than one column named 'city'" in shown.out
    release = (
        "release",
        "twice.csv",
        "--schema",
        "shop.toml",
        "--ledger",
        "t.ledger",
        "--budget",
        "1",
        "--epsilon",
        "1",
    )
    refused = dpublish(*release, "--out", "x.dpr")
    assert refused.code == 2
    assert "declares column 'city', and the data has more than one of that name" in refused.err
    assert dpublish(*release, "--set", "columns=age,member", "--out", "x.dpr").code == 0, (
        "the other is not used"
    )


def test_a_file_without_a_header_is_not_quoted(shop: Path, dpublish: Command) -> None:
    """Its first row would pass for the names of its columns."""
    (shop / "bare.csv").write_text(f"{CANARY},cityy,{CANARY}2\n41,Bern,yes\n")
    shown = dpublish("schema", "check", "shop.toml", "--data", "bare.csv")
    assert shown.code == 2
    assert "cityy" not in shown.out


def test_show(shop: Path, dpublish: Command) -> None:
    shown = dpublish("schema", "show", "shop.toml")
    assert "18 to 97 in 4 bins" in shown.out
    assert "Bern, Graz, Lyon" in shown.out
    document = dpublish("schema", "show", "shop.toml", "--json").document
    assert document["digest"] == Schema.read("shop.toml").digest
    assert document["columns"]["age"]["upper"] == 97


def test_errors_in_the_file(shop: Path, dpublish: Command) -> None:
    for text, words in (
        ("[dataset", "not valid TOML"),
        ('[dataset]\nname = "x"\nneighbors = 1\n', "Did you mean 'neighbours'?"),
        ('[dataset]\nname = "x"\n[columns.a]\nkind = "categorial"\n', "categorical"),
        ('[dataset]\nname = "x"\n[columns.a]\nkind = "categorical"\n', "no levels"),
    ):
        (shop / "bad.toml").write_text(text)
        shown = dpublish("schema", "show", "bad.toml")
        assert shown.code == 2
        assert words in shown.err
    assert "no schema file 'none.toml'" in dpublish("schema", "show", "none.toml").err


def test_draft_is_stamped_and_refused(shop: Path, dpublish: Command) -> None:
    # the draft itself is read off the rows and may quote them, so this table has no canary
    (shop / "plain.csv").write_text(
        "age,city\n" + "".join(f"{20 + i % 50},{'Bern' if i % 3 else 'Graz'}\n" for i in range(200))
    )
    shown = dpublish("schema", "draft", "plain.csv", "--out", "draft.toml")
    assert shown.code == 0
    assert "keep it private" in shown.err
    assert "derived_from_rows" in tomllib.loads((shop / "draft.toml").read_text())["draft"]
    (shop / "draft.toml").write_text(
        edited := "# gone through by a person\n" + (shop / "draft.toml").read_text()
    )
    again = dpublish("schema", "draft", "plain.csv", "--out", "draft.toml")
    assert (again.code, (shop / "draft.toml").read_text()) == (2, edited)
    assert dpublish("schema", "draft", "plain.csv", "--out", "draft.toml", "--overwrite").code == 0
    assert (shop / "draft.toml").read_text() != edited
    printed = dpublish("schema", "draft", "plain.csv", "--name", "people")
    assert tomllib.loads(printed.out)["dataset"]["name"] == "people"
    assert dpublish("schema", "draft", "plain.csv", "--json").document["draft"] is True
    refused = dpublish(
        *(
            "release",
            "plain.csv",
            "--schema",
            "draft.toml",
            "--ledger",
            "refused.ledger",
            "--budget",
            "1",
        ),
        *("--epsilon", "1", "--out", "x.dpr"),
    )
    assert refused.code == 2
    assert "[draft]" in refused.err
    assert not (shop / "refused.ledger").exists()
    assert not (shop / "x.dpr").exists()
    assert CANARY not in (shop / "draft.toml").read_text()


def test_show_lists_rules_totals_and_how_bins_widen(shop: Path, dpublish: Command) -> None:
    (shop / "people.toml").write_text(
        '[dataset]\nname = "people"\n[columns.age]\nkind = "integer"\nlower = 0\nupper = 99\n'
        '[columns.pay]\nkind = "real"\nlower = 1\nupper = 1000\nbins = 3\nspacing = "log"\n'
        '[columns.married]\nkind = "boolean"\n'
        '[[rules]]\nif = "age < 15"\nthen = "not married"\nsource = "civil code"\n'
        '[[totals]]\nrows = 40\nwhere = "married"\nsource = "census"\n'
    )
    shown = " ".join(dpublish("schema", "show", "people.toml").out.split())
    assert "Rule: age < 15 implies not married (civil code)" in shown
    assert "Total: 40 rows with married (census)" in shown
    assert "in 3 bins that widen by a factor" in shown


def test_check_says_which_rule_cuts_a_declared_bin(shop: Path, dpublish: Command) -> None:
    text = """
[dataset]
name = "people"
size = 100
[columns.age]
kind = "integer"
lower = 0
upper = 99
missing = true
BINS
[columns.married]
kind = "categorical"
levels = ["no", "yes"]
outside = "other"
[[rules]]
if = "age < 15"
then = "married = 'no'"
"""
    for bins, refused in (("bins = 4", True), ("edges = [0, 15, 99]", False), ("", False)):
        (shop / "rule.toml").write_text(text.replace("BINS", bins))
        shown = dpublish("schema", "check", "rule.toml")
        assert shown.code == 0
        said = "joined-histograms refuses the rule 'age < 15 implies"
        assert (said in " ".join((shown.out + shown.err).split())) is refused
        assert ("notes" in dpublish("schema", "check", "rule.toml", "--json").document) is refused
        words = ("plan", "--schema", "rule.toml", "--method", "joined-histograms", "-e", "1")
        assert dpublish(*words).code == (2 if refused else 0)
