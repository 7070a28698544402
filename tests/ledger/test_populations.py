"""A second budget for the same people is asked for, recorded in both ledgers and shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.ledger import crashpoints
from dpublish.ledger.payment import payment_problems

TENTH = dp.Cost.pure("0.1")
WHAT = {
    "dataset": "clinic",
    "neighbours": "add-remove-one",
    "unit": "one row",
    "unit_column": None,
}
SCHEMA = (
    '[dataset]\nname = "{name}"\n{more}\n[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\n'
)


def opened(url: str | Path, name: str = "default", **options: Any) -> dp.Ledger:
    return dp.open_ledger(url, budget=dp.Budget(epsilon=3), name=name, create=True, **options)


def others(ledger: dp.Ledger) -> list[str]:
    return [other.ledger_id for other in ledger.status().other_budgets]


def test_the_next_ledger_for_the_same_people_is_refused_until_somebody_asks_for_it(
    url: str, folder: Path
) -> None:
    with opened(url) as first:
        first.debit("a", TENTH, WHAT)
        with opened(folder / "typo.ledger") as second:
            with pytest.raises(dp.BudgetError, match="second budget for the same people"):
                second.debit("a", TENTH, WHAT)
            assert second.status().spent == dp.Cost()
            assert second.status().entries == 1, "a refusal registers nobody"
        with opened(folder / "typo.ledger", second_budget=True) as second:
            paid = second.debit("a", TENTH, WHAT)
            assert [other.ledger_id for other in paid.other_budgets] == [first.ledger_id]
            assert others(second) == [first.ledger_id]
            second.verify()
        again = first.debit("b", TENTH, WHAT)
        assert [other.ledger_id for other in again.other_budgets] == [second.ledger_id]
    with opened(url) as first:
        assert others(first) == [second.ledger_id]
        assert first.status().populations == ("'clinic' (one row)",)
        first.verify()


def test_the_first_ledger_says_so_when_it_is_opened_next(url: str, folder: Path) -> None:
    with opened(url) as first:
        first.debit("a", TENTH, WHAT)
    with opened(folder / "b.ledger", second_budget=True) as second:
        second.debit("a", TENTH, WHAT)
    with dp.open_ledger(url) as first:
        assert others(first) == [second.ledger_id]
        length = first.status().entries
    with dp.open_ledger(url) as first:
        assert first.verify().entries == length, "it is noted once"


def test_two_budgets_of_one_database_are_told_apart_on_every_machine(
    url: str, folder: Path
) -> None:
    with opened(url) as first:
        first.debit("a", TENTH, WHAT)
    shutil.rmtree(folder / "state")  # as on another machine
    with opened(url, "other") as second, pytest.raises(dp.BudgetError, match="same people"):
        second.debit("a", TENTH, WHAT)
    with opened(url, "other", second_budget=True) as second:
        second.debit("a", TENTH, WHAT)
        assert others(second) == [first.ledger_id]
    with opened(url) as first:
        assert others(first) == [second.ledger_id]


def test_people_are_known_by_population_and_unit_not_by_the_schema(url: str, folder: Path) -> None:
    with opened(url) as first, opened(folder / "b.ledger") as second:
        first.debit("a", TENTH, {**WHAT, "schema_digest": "1"})
        for same in ({"schema_digest": "2"}, {"dataset": " CLINIC "}, {"population": "Clinic"}):
            with pytest.raises(dp.BudgetError, match="same people"):
                second.debit("a", TENTH, {**WHAT, **same})
        second.debit("b", TENTH, {**WHAT, "population": "visitors"})
        with opened(folder / "c.ledger") as third:
            third.debit("c", TENTH, {**WHAT, "unit_column": "patient"})


def test_a_debit_that_is_refused_or_names_nobody_claims_nobody(url: str, folder: Path) -> None:
    with opened(url) as first:
        with pytest.raises(dp.BudgetExceeded):
            first.debit("a", dp.Cost.pure(4), WHAT)
        first.debit("b", TENTH, {})
        first.debit("c", TENTH, {**WHAT, "seeded": True})
        with opened(folder / "b.ledger") as second:
            second.debit("a", TENTH, WHAT)


def test_a_ledger_of_an_earlier_format_names_all_it_has_paid_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpublish.ledger import sql

    with opened(url) as first, monkeypatch.context() as earlier:
        earlier.setattr(sql.Population, "of_request", lambda what: None)
        first.debit("a", TENTH, {**WHAT, "dataset": "school"})
        first.debit("b", TENTH, WHAT)
    with opened(url, "other") as second, pytest.raises(dp.BudgetError, match="same people"):
        second.debit("a", TENTH, WHAT)
    with opened(url) as first:
        assert first.status().populations == ()
        first.debit("c", TENTH, WHAT)
        assert first.verify().populations == ("'clinic' (one row)", "'school' (one row)")
        assert first.debit("a", TENTH, {**WHAT, "dataset": "school"}).fresh is False


def test_a_kill_before_the_commit_costs_a_question_and_no_budget(url: str, folder: Path) -> None:
    class Stopped(BaseException):
        pass

    def stop(point: str) -> None:
        if point == "anchor.renamed":
            raise Stopped

    with opened(url) as first:
        with crashpoints.armed(stop), pytest.raises(Stopped):
            first.debit("a", TENTH, WHAT)  # after this machine has listed it
        assert first.status().spent == dp.Cost()
        first.debit("a", TENTH, WHAT)
        assert first.verify().debits == 1


def test_a_list_that_cannot_be_read_is_not_passed_over(url: str, folder: Path) -> None:
    with opened(url) as first:
        first.debit("a", TENTH, WHAT)
        (listed,) = (folder / "state" / "populations").glob("*.json")
        assert listed.stat().st_mode & 0o077 == 0
        content = json.loads(listed.read_text())
        for broken in ("[]", "{", json.dumps({**content, "ledgers": [{}]})):
            listed.write_text(broken)
            with pytest.raises(dp.LedgerUnavailable, match="cannot be read"):
                first.debit("b", TENTH, WHAT)


def curator(folder: Path, ledger: str, more: str = "", **options: Any) -> dp.Curator:
    rows = pl.DataFrame({"a": ["x", "y", "y"] * 20})
    schema = dp.Schema.from_toml(SCHEMA.format(name="clinic", more=more))
    return dp.Curator(
        rows, schema, ledger=folder / ledger, budget=dp.Budget(epsilon=3), store=folder / ledger[0],
        **options,
    )  # fmt: skip


def test_a_release_says_it_and_is_held_to_it(folder: Path) -> None:
    first = curator(folder, "a.ledger").publish(dp.Histogram(), epsilon=1)
    assert "other_budgets" not in first.manifest["privacy"]
    with pytest.raises(dp.BudgetError, match="--second-budget"):
        curator(folder, "b.ledger").publish(dp.Histogram(), epsilon=1)
    curator(folder, "c.ledger", 'population = "visitors"').publish(dp.Histogram(), epsilon=1)
    owner = curator(folder, "b.ledger", second_budget=True)
    second = owner.publish(dp.Histogram(), epsilon=1)
    privacy = second.manifest["privacy"]
    assert [one["ledger_id"] for one in privacy["other_budgets"]] == [
        first.manifest["receipt"]["ledger_id"]
    ]
    assert "There is a second budget for the same people" in privacy["statement"]
    assert str(folder) not in json.dumps(second.manifest), "places are the curator's own"
    assert not payment_problems(owner.ledger, second.manifest)
    hidden = {key: value for key, value in privacy.items() if key != "other_budgets"}
    assert payment_problems(owner.ledger, {**second.manifest, "privacy": hidden})
