"""`dpublish release` as a user sees it: order of checks, payment, idempotency, silence about
rows."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import CANARY, RELEASE, SCHEMA, Command


def spent(dpublish: Command, ledger: str = "shop.ledger") -> str:
    return str(dpublish("ledger", "status", ledger, "--json").document["spent"]["epsilon"])


def test_release_pays_and_says_so(shop: Path, dpublish: Command) -> None:
    assert dpublish("ledger", "open", "shop.ledger", "--epsilon", "2").code == 0
    shown = dpublish(
        *RELEASE, "--epsilon", "0.5", "--set", "columns=city,member", "--out", "shop.dpr"
    )
    assert shown.code == 0, shown.err
    assert "Released shop.dpr" in shown.out
    assert "epsilon = 1.5" in shown.out, "what is left"
    assert spent(dpublish) == "1/2"
    assert CANARY.encode() not in (shop / "shop.dpr").read_bytes()


def test_json(shop: Path, dpublish: Command) -> None:
    document = dpublish(
        *RELEASE, "--epsilon", "1", "--budget", "3", "--out", "shop.dpr", "--key", "k", "--json"
    ).document
    assert document["publishable"] is True
    assert document["receipt"]["key"] == "k"
    assert document["cost"]["epsilon"] == "1"
    assert document["budget"]["remaining"]["epsilon"] == "2"
    assert document["out"] == "shop.dpr"


def test_what_the_plan_warned_of_is_said_with_the_release(shop: Path, dpublish: Command) -> None:
    method = ("--method", "generalized-table", "--epsilon", "1")
    asked = (*RELEASE, *method, "--budget", "3", "--out", "shop.dpr")
    planned = dpublish(
        "plan", "--schema", "shop.toml", "--size", "1000", *method, "--json"
    ).document
    assert planned["warnings"]
    made = dpublish(*asked, "--key", "k", "--json").document
    again = dpublish(*asked, "--key", "k").out
    shown = dpublish("show", "shop.dpr").out
    for said in planned["warnings"]:
        assert said in made["warnings"]
        assert said in " ".join(again.split())
        assert said in " ".join(shown.split())


def test_a_ledger_with_a_delta_is_made_on_the_way(shop: Path, dpublish: Command) -> None:
    method = ("--method", "joined-histograms", "--rho", "1/100", "--out", "shop.dpr", "--json")
    refused = dpublish(
        "release",
        "shop.csv",
        "--schema",
        "shop.toml",
        "--ledger",
        "a.ledger",
        *method,
        "--budget-delta",
        "1e-6",
    )
    assert refused.code == 2
    assert "--budget-delta goes with --budget" in refused.err
    assert not (shop / "a.ledger").exists()
    made = dpublish(
        *("release", "shop.csv", "--schema", "shop.toml", "--ledger", "a.ledger"),
        *(*method, "--budget", "3", "--budget-delta", "1e-6"),
    )
    assert made.code == 0, made.err
    assert made.document["budget"]["cap"]["delta"] == "1/1000000"


def test_output_says_nothing_about_the_rows(
    shop: Path, dpublish: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under add-remove-one two tables of very different size give the same words."""
    (shop / "shop.toml").write_text(
        SCHEMA.replace("replace-one", "add-remove-one").replace(
            "target", "nominal_size = 300\ntarget"
        )
    )
    texts = []
    for name, keep in (("a", 400), ("b", 3)):
        lines = (shop / "shop.csv").read_text().splitlines(keepends=True) if name == "a" else lines  # noqa: F821
        (shop / "shop.csv").write_text("".join(lines[: keep + 1]))
        monkeypatch.setenv("DPUBLISH_STATE", str(shop / f"state-{name}"))
        shown = dpublish(
            *RELEASE[:4],
            "--ledger",
            f"{name}.ledger",
            "--epsilon",
            "1",
            "--budget",
            "1",
            "--key",
            "k",
            "--out",
            "x.dpr",
            "--overwrite",
        )
        assert shown.code == 0, shown.err
        texts.append((shown.out.replace(f"{name}.ledger", "LEDGER"), shown.err))
    assert texts[0] == texts[1]


def test_the_same_key_gives_the_same_bytes_and_is_paid_once(
    released: Path, dpublish: Command
) -> None:
    again = dpublish(*RELEASE, "--epsilon", "1", "--key", "first", "--out", "again.dpr")
    assert again.code == 0
    assert (released / "again.dpr").read_bytes() == (released / "shop.dpr").read_bytes()
    assert spent(dpublish) == "1"
    other = dpublish(*RELEASE, "--epsilon", "0.5", "--key", "first", "--out", "again.dpr")
    assert other.code == 3


def test_a_paid_release_is_not_overwritten_unless_asked(released: Path, dpublish: Command) -> None:
    before = (released / "shop.dpr").read_bytes()
    words = (*RELEASE, "--epsilon", "0.5", "--key", "second", "--out", "shop.dpr")
    refused = dpublish(*words)
    assert refused.code == 2
    assert "'shop.dpr' exists already" in refused.err
    assert "--overwrite" in refused.err
    assert (released / "shop.dpr").read_bytes() == before
    assert spent(dpublish) == "1", "the refusal came before the debit"
    assert dpublish(*RELEASE, "--epsilon", "1", "--key", "first", "--out", "shop.dpr").code == 0, (
        "it is this very release"
    )
    assert dpublish(*words, "--overwrite").code == 0
    assert (released / "shop.dpr").read_bytes() != before


def test_budget_exceeded(released: Path, dpublish: Command) -> None:
    words = (*RELEASE, "--epsilon", "1.5", "--out", "more.dpr")
    shown = dpublish(*words)
    assert shown.code == 3
    assert "epsilon = 1" in shown.err
    assert dpublish(*words, "--json").error["type"] == "BudgetExceeded"
    assert not (released / "more.dpr").exists()
    assert spent(dpublish) == "1"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--schema", "none.toml"), "no schema file 'none.toml'"),
        (("--epsilon", "0"), "epsilon must be above 0"),
        (("--epsilon", "nan"), "not a finite number"),
        (("--method", "hist"), "Did you mean 'histogram'?"),
        (("--set", "columns=agee"), "Did you mean 'age'?"),
        (("--database", "sqlite:///x.db"), "sql:QUERY"),
        (("--out", "x.txt"), "'x.txt' ends in '.txt'"),
        (("--out", "shop.toml"), "which would be lost"),
        (("--out", "./shop.ledger"), "which would be lost"),
        (("--set", "threshold=1", "--set", "threshold_factor=1"), "Give one of the two"),
        (
            (
                "--method",
                "projected-histogram",
                "--set",
                "threshold=1",
                "--set",
                "threshold_factor=1",
            ),
            "Give one of the two",
        ),
    ],
)
def test_wrong_requests_spend_nothing(
    shop: Path, dpublish: Command, change: tuple[str, ...], expected: str
) -> None:
    dpublish("ledger", "open", "shop.ledger", "--epsilon", "2")
    shown = dpublish(*RELEASE, "--epsilon", "1", "--out", "x.dpr", *change)
    assert shown.code == 2
    assert expected in shown.err
    assert spent(dpublish) == "0"
    assert not (shop / "x.dpr").exists()
    assert not (shop / "x.txt").exists()


def test_next_steps_are_those_of_the_kind(shop: Path, dpublish: Command) -> None:
    shown = dpublish(*RELEASE, "--epsilon", "1", "--budget", "9", "--out", "shop.dpr")
    assert "dpublish show, query, sql, export, report, page, verify" in shown.out
    (shop / "b.txt").write_text("tea milk\nmilk\n" * 90)
    (shop / "b.toml").write_text('[dataset]\nname = "b"\n[items]\nuniverse = ["tea", "milk"]\n')
    sets = (
        "release",
        "b.txt",
        "--schema",
        "b.toml",
        "--ledger",
        "b.ledger",
        "--budget",
        "9",
        "--epsilon",
        "1",
    )
    shown = dpublish(*sets, "--method", "set-partition", "--out", "b.dpr")
    assert "dpublish show, query, export, report, page, verify" in shown.out
    refused = dpublish("sql", "b.dpr", "select 1")
    assert refused.code == 2
    assert (
        "does not offer SQL ('sql'). It offers conditions with error bars ('query')" in refused.err
    )


def test_missing_data_file(shop: Path, dpublish: Command) -> None:
    dpublish("ledger", "open", "shop.ledger", "--epsilon", "2")
    shown = dpublish("release", "none.csv", *RELEASE[2:], "--epsilon", "1", "--out", "x.dpr")
    assert shown.code == 2
    assert "none.csv" in shown.err
    assert spent(dpublish) == "0"


def test_column_missing_from_the_data(shop: Path, dpublish: Command) -> None:
    (shop / "shop.toml").write_text(SCHEMA.replace("columns.city", "columns.town"))
    dpublish("ledger", "open", "shop.ledger", "--epsilon", "2")
    shown = dpublish(*RELEASE, "--epsilon", "1", "--out", "x.dpr")
    assert shown.code == 2
    assert "declares column 'town', but the data has none of that name" in shown.err
    assert spent(dpublish) == "0"


def test_ledger_missing_or_unreadable(shop: Path, dpublish: Command) -> None:
    missing = dpublish(*RELEASE, "--epsilon", "1", "--out", "x.dpr")
    assert missing.code == 4
    assert "no ledger" in missing.err
    (shop / "shop.ledger").write_bytes(b"not a database" * 100)
    broken = dpublish(*RELEASE, "--epsilon", "1", "--out", "x.dpr", "--json")
    assert broken.error["type"] == "LedgerUnavailable"
    assert broken.code == 4
    assert not (shop / "x.dpr").exists()


def test_failure_after_rows_were_read(
    shop: Path, dpublish: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"bad cell {CANARY}")

    monkeypatch.setattr("dpublish.methods.histogram.mechanism.Histogram.run", fail)
    shown = dpublish(*RELEASE, "--epsilon", "1", "--budget", "2", "--out", "x.dpr")
    assert shown.code == 6
    assert "after private rows were read" in shown.err
    assert spent(dpublish) == "1", "paid before reading"
    assert not (shop / "x.dpr").exists()


def test_a_crash_in_native_code_is_silent(shop: Path) -> None:
    """A native library writes its last words past Python, and what it raises need not be an
    Exception."""
    script = (
        "import os, sys\n"
        "from dpublish.cli.app import run\n"
        "from dpublish.methods.histogram.mechanism import Histogram\n"
        "class Panic(BaseException): pass\n"
        "def crash(*_):\n"
        f"    os.write(1, b'{CANARY}'); os.write(2, b'{CANARY}'); print('{CANARY}'); raise "
        f"Panic('{CANARY}')\n"
        "Histogram.run = crash\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    words = [*RELEASE, "--epsilon", "1", "--budget", "2", "--out", "x.dpr"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode in (6, 70)
    assert done.stdout == ""
    assert CANARY not in done.stderr
    assert done.stderr.startswith("Error: ")


def test_release_from_a_database(shop: Path, dpublish: Command) -> None:
    base = sqlite3.connect(shop / "shop.db")
    base.execute("create table visits (age, city, member)")
    rows = [
        (20 + i % 60, ("Bern", "Graz", CANARY)[i % 3], "yes" if i % 2 else "no") for i in range(300)
    ]
    base.executemany("insert into visits values (?, ?, ?)", rows)
    base.commit()
    base.close()
    query = ("sql:select * from visits", "--database", "sqlite:///shop.db")
    shown = dpublish(
        "release", *query, *RELEASE[2:], "--epsilon", "1", "--budget", "2", "--out", "db.dpr"
    )
    assert shown.code == 0, shown.err
    assert dpublish("query", "db.dpr", "city = 'Bern'").code == 0
    without = dpublish("release", query[0], *RELEASE[2:], "--epsilon", "1", "--out", "db.dpr")
    assert without.code == 2
    assert "--database" in without.err


def test_named_budgets_keep_their_answers_apart(shop: Path, dpublish: Command) -> None:
    for name in ("default", "north"):
        words = (
            "--epsilon",
            "1",
            "--budget",
            "1",
            "--key",
            "same",
            "--name",
            name,
            "--out",
            f"{name}.dpr",
            "--second-budget",
        )
        assert dpublish(*RELEASE, *words).code == 0
    assert (shop / "north.dpr").read_bytes() != (shop / "default.dpr").read_bytes()
    for name in ("default", "north"):
        words = (
            "--epsilon",
            "1",
            "--key",
            "same",
            "--name",
            name,
            "--out",
            "again.dpr",
            "--overwrite",
        )
        assert dpublish(*RELEASE, *words).code == 0
        assert (shop / "again.dpr").read_bytes() == (shop / f"{name}.dpr").read_bytes()
