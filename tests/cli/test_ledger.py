"""`dpublish ledger` as a user sees it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from cli.conftest import RELEASE, Command


def test_open_status_history_verify(released: Path, dpublish: Command) -> None:
    status = dpublish("ledger", "status", "shop.ledger", "--json").document
    assert (
        status["cap"]["epsilon"],
        status["spent"]["epsilon"],
        status["remaining"]["epsilon"],
    ) == ("2", "1", "1")
    assert "epsilon = 1" in dpublish("ledger", "status", "shop.ledger").out
    entries = dpublish("ledger", "history", "shop.ledger", "--json").document["entries"]
    assert [entry["kind"] for entry in entries] == [
        "open",
        "population",
        "debit",
        "drawing",
        "seal",
    ]
    assert entries[2]["key"] == "first"
    assert entries[3]["previous"] == entries[2]["hash"]
    assert "debit" in dpublish("ledger", "history", "shop.ledger").out
    assert dpublish("ledger", "verify", "shop.ledger", "--json").document["ok"] is True
    assert "whole" in dpublish("ledger", "verify", "shop.ledger").out


def test_status_says_whom_the_amounts_speak_of(shop: Path, dpublish: Command) -> None:
    assert (
        "the first release decides"
        in dpublish("ledger", "open", "shop.ledger", "--epsilon", "2").out
    )
    assert dpublish("ledger", "status", "shop.ledger", "--json").document["protects"] is None
    assert dpublish(*RELEASE, "--epsilon", "1", "--out", "shop.dpr").code == 0
    protects = dpublish("ledger", "status", "shop.ledger", "--json").document["protects"]
    assert protects == {"neighbours": "replace-one", "column": None, "unit": "one row"}
    assert "one row (replace-one)" in dpublish("ledger", "status", "shop.ledger").out
    schema = (
        Path("shop.toml")
        .read_text()
        .replace('"replace-one"', '"add-remove-one"\nnominal_size = 400')
    )
    Path("shop.toml").write_text(schema)
    refused = dpublish(*RELEASE, "--epsilon", "1", "--out", "other.dpr")
    assert refused.code == 3
    assert "a ledger of its own" in refused.err
    assert dpublish("ledger", "status", "shop.ledger", "--json").document["spent"]["epsilon"] == "1"


def test_opening_twice(shop: Path, dpublish: Command) -> None:
    assert dpublish("ledger", "open", "a.ledger", "--epsilon", "2", "--delta", "1e-6").code == 0
    again = dpublish("ledger", "open", "a.ledger", "--epsilon", "2", "--delta", "1e-6", "--json")
    assert again.document["cap"]["delta"] == "1/1000000"
    other = dpublish("ledger", "open", "a.ledger", "--epsilon", "3")
    assert other.code == 3
    assert "cannot be changed" in other.err


def test_a_budget_is_needed(shop: Path, dpublish: Command) -> None:
    assert "--epsilon" in dpublish("ledger", "open", "a.ledger").err
    for amount in ("0", "-1", "nan", "lots"):
        assert dpublish("ledger", "open", "a.ledger", "--epsilon", amount).code == 2
    assert not (shop / "a.ledger").exists()


def test_missing_and_damaged(released: Path, dpublish: Command) -> None:
    for verb in ("status", "history", "verify"):
        missing = dpublish("ledger", verb, "none.ledger", "--json")
        assert (missing.code, missing.error["type"]) == (4, "LedgerUnavailable")
    Path("bad.ledger").write_bytes(b"\0" * 4096)
    assert dpublish("ledger", "status", "bad.ledger").code == 4
    assert (
        dpublish(
            "ledger", "status", "postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1"
        ).code
        == 4
    )


def test_an_old_copy_is_refused_and_can_be_recovered(released: Path, dpublish: Command) -> None:
    shutil.copy("shop.ledger", "old.ledger")
    assert dpublish(*RELEASE, "--epsilon", "0.5", "--out", "b.dpr").code == 0
    shutil.move("old.ledger", "shop.ledger")
    for leftover in ("shop.ledger-wal", "shop.ledger-shm"):
        Path(leftover).unlink(missing_ok=True)
    refused = dpublish(*RELEASE, "--epsilon", "0.5", "--out", "c.dpr")
    assert refused.code == 4
    recovered = dpublish("ledger", "recover", "shop.ledger", "--json")
    assert recovered.code == 0
    assert recovered.document["spent"]["epsilon"] == "3/2", "no budget came back"


def test_what_copies_spent_beyond_the_cap_is_said(
    shop: Path, dpublish: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert dpublish("ledger", "open", "shop.ledger", "--epsilon", "2").code == 0
    shutil.copy("shop.ledger", "copy.ledger")
    assert dpublish(*RELEASE, "--epsilon", "1.5", "--out", "a.dpr").code == 0
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("DPUBLISH_STATE", str(tmp_path / "elsewhere"))
        assert dpublish(*RELEASE[:-1], "copy.ledger", "--epsilon", "1", "--out", "b.dpr").code == 0
    shutil.move("copy.ledger", "shop.ledger")
    for leftover in ("shop.ledger-wal", "shop.ledger-shm"):
        Path(leftover).unlink(missing_ok=True)
    shown = dpublish("ledger", "recover", "shop.ledger")
    assert shown.code == 0, shown.err
    assert "spent beyond the cap" in shown.out
    assert (
        dpublish("ledger", "status", "shop.ledger", "--json").document["overspent"]["epsilon"]
        == "1/2"
    )


def test_a_lost_anchor_and_head_lines(released: Path, dpublish: Command) -> None:
    line = dpublish("ledger", "status", "shop.ledger", "--json").document["head_line"]
    assert line in dpublish("ledger", "status", "shop.ledger").out
    assert dpublish("ledger", "verify", "shop.ledger", "--head", line).code == 0
    shutil.copy("shop.ledger", "old.ledger")
    assert dpublish(*RELEASE, "--epsilon", "0.5", "--out", "b.dpr").code == 0
    newest = dpublish("ledger", "status", "shop.ledger", "--json").document["head_line"]
    for anchor in (Path(os.environ["DPUBLISH_STATE"]) / "anchors").glob("*.json"):
        anchor.unlink()
    shutil.move("old.ledger", "shop.ledger")
    for words in (("status",), ("recover",), ("verify",), ("verify", "--head", newest)):
        refused = dpublish("ledger", words[0], "shop.ledger", *words[1:])
        assert refused.code == 4
    assert "--head" in dpublish("ledger", "status", "shop.ledger").err
    assert dpublish("ledger", "verify", "shop.ledger", "--head", "nonsense").code == 2


def test_a_witness_is_set_shown_and_removed(released: Path, dpublish: Command) -> None:
    set_up = dpublish("ledger", "witness", "shop.ledger", "marks")
    assert (set_up.code, str(Path("marks").resolve()) in set_up.out) == (0, True), set_up.err
    assert dpublish("ledger", "status", "shop.ledger", "--json").document["witnesses"] == [
        str(Path("marks").resolve())
    ]
    assert dpublish(*RELEASE, "--epsilon", "0.5", "--out", "b.dpr").code == 0
    removed = dpublish("ledger", "witness", "shop.ledger", "marks", "--remove", "--json")
    assert removed.document["witnesses"] == []
    assert dpublish("ledger", "witness", "shop.ledger", "nowhere", "--remove").code == 2
    opened = dpublish(
        "ledger", "open", "new.ledger", "--epsilon", "1", "--witness", "marks", "--json"
    )
    assert len(opened.document["witnesses"]) == 1


def test_a_ledger_that_a_release_makes_is_said(shop: Path, dpublish: Command) -> None:
    made = dpublish(
        *RELEASE[:-1], "typo.ledger", "--budget", "2", "--epsilon", "1", "--out", "a.dpr"
    )
    assert made.code == 0, made.err
    assert "A new ledger 'default' was made at typo.ledger" in made.out
    again = dpublish(
        *RELEASE[:-1],
        "typo.ledger",
        "--budget",
        "2",
        "--epsilon",
        "1/2",
        "--out",
        "b.dpr",
        "--json",
    )
    assert again.document["news"] == []
    named = dpublish(
        *RELEASE[:-1],
        "typo.ledger",
        "--budget",
        "2",
        "--name",
        "More",
        "--second-budget",
        "--epsilon",
        "1",
        "--out",
        "c.dpr",
        "--json",
    )
    assert len(named.document["news"]) == 1
    assert (
        dpublish("ledger", "status", "typo.ledger", "--name", "MORE ", "--json").document["name"]
        == "more"
    )
    assert dpublish("ledger", "merge", "typo.ledger", "--name", "more").code == 0
    opened = dpublish("ledger", "open", "other.ledger", "--epsilon", "1", "--json")
    assert len(opened.document["news"]) == 1
    assert "it was there before" in dpublish("ledger", "open", "other.ledger", "--epsilon", "1").out
