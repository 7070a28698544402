"""Names of budgets are folded, and a ledger that is made is announced."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from raw import execute

import dpublish as dp
from dpublish.errors import BudgetError, LedgerUnavailable, PlanError
from dpublish.ledger import Ledger, chain, merge_ledgers, open_ledger
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.state import folded
from dpublish.privacy.cost import Budget, Cost

TENTH = Cost.pure("0.1")
PEOPLE = {"neighbours": "add-remove-one", "unit": "who"}
ROWS = {"neighbours": "add-remove-one", "unit": "row"}


def old_ledger(url: str, name: str, budget: Budget) -> None:
    """A budget as it was made before names were folded."""
    open_ledger(url, budget=Budget(epsilon=1), name="bystander", create=True).close()  # the tables
    cap, ledger_id = Quanta.of_cap(budget), chain.token()
    record = Record(
        ledger_id=ledger_id,
        seq=0,
        kind="open",
        key="open",
        created=chain.now(),
        previous=chain.START,
        charged=Quanta(),
        spent=Quanta(),
        detail={"name": name, "budget": budget.to_json()},
    )
    text = record.text().replace(":", "\\:")
    caps = f"{cap.epsilon}, {cap.delta}, {cap.rho}"
    execute(
        url,
        f"INSERT INTO dpublish_ledgers VALUES ('{ledger_id}', '{name}', {caps}, 0, 0, 0, 0)",
        f"INSERT INTO dpublish_entries VALUES ('{ledger_id}', 0, 'open', 'open', 0, 0, 0, "
        f"'{text}', "
        f"'{chain.digest(record.text())}')",
        "DELETE FROM dpublish_schema WHERE version > 3",
    )


def spend_as_before(url: str, name: str, key: str, cost: Cost, what: dict[str, object]) -> None:
    """A payment from one of several spellings, which an earlier version made."""
    with open_ledger(url, name=name) as ledger:
        ledger.blocked = None  # type: ignore[attr-defined]
        ledger.debit(key, cost, what)


@pytest.fixture
def two(url: str) -> str:
    """'Census' with 2 and 'census ' with 1, of which 1/10 and 3/10 are spent."""
    old_ledger(url, "Census", Budget(epsilon=2))
    old_ledger(url, "census ", Budget(epsilon=1))
    spend_as_before(url, "Census", "a", TENTH, PEOPLE)
    spend_as_before(url, "census ", "b", TENTH.scaled(3), {})
    return url


@pytest.mark.parametrize(
    "spelling",
    ["default", "Default", "DEFAULT", " default", "default ", "\uff44efault", "ｄｅｆａｕｌｔ"],
)
def test_spellings_of_one_name_are_one_budget(url: str, spelling: str) -> None:
    with open_ledger(url, budget=Budget(epsilon=1), create=True) as ledger:
        ledger.debit("a", TENTH, {})
    with open_ledger(url, budget=Budget(epsilon=1), name=spelling, create=True) as again:
        assert again.ledger_id == ledger.ledger_id
        assert again.news == ()
        assert again.status().spent == TENTH


def test_folding_is_stable() -> None:
    for name in ("a", " A  b ", "İstanbul", "ﬁ", "ß", "ẞ", "ǅ", "ͅα", "\u1e9e\u0307"):
        assert folded(folded(name)) == folded(name)
    assert folded("Straße") == folded("STRASSE ")


@pytest.mark.parametrize("name", ["", " ", "\u3000", "a\nb", "x" * 201, "ﷺ" * 200])
def test_names_that_are_none(url: str, name: str) -> None:
    with pytest.raises(PlanError, match="name"):
        open_ledger(url, budget=Budget(epsilon=1), name=name, create=True)


def test_an_existing_name_keeps_its_spelling(url: str) -> None:
    old_ledger(url, "Census", Budget(epsilon=2))
    with open_ledger(url, name="census", budget=Budget(epsilon=2), create=True) as ledger:
        assert (ledger.name, ledger.news) == ("Census", ())
        ledger.debit("a", TENTH, {})
        assert ledger.verify().name == "Census"


def test_names_that_have_become_one_pay_nothing(two: str) -> None:
    with pytest.raises(LedgerUnavailable, match="several budgets"):
        open_ledger(two, name="CENSUS")
    with pytest.raises(LedgerUnavailable, match="several budgets"):
        open_ledger(two, name="CENSUS", budget=Budget(epsilon=1), create=True)
    for name, spent in (("Census", TENTH), ("census ", TENTH.scaled(3))):
        with open_ledger(two, name=name) as ledger:  # the exact spelling can be looked at
            assert ledger.verify().spent == spent
            with pytest.raises(LedgerUnavailable, match="ledger merge"):
                ledger.debit("c", TENTH, {})


def test_merging_adds_up_and_takes_the_smaller_cap(two: str) -> None:
    status = merge_ledgers(two, name="census")
    assert (status.cap, status.spent) == (Cost.pure(1), TENTH.scaled(4))
    assert status.protects is not None
    assert status.protects.column == "who"
    for name in ("census", "Census", "census ", "CENSUS"):
        with open_ledger(two, name=name) as ledger:
            assert ledger.status().ledger_id == status.ledger_id
    with open_ledger(two, name="census") as ledger:
        ledger.debit("c", TENTH.scaled(6), PEOPLE)
        with pytest.raises(BudgetError):
            ledger.debit("d", TENTH, PEOPLE)
    assert merge_ledgers(two, name="census").spent == Cost.pure(1), "it is not merged twice"
    spent = execute(
        two, "SELECT spent_epsilon = cap_epsilon FROM dpublish_ledgers WHERE name LIKE '_ensus%'"
    )
    assert [bool(row[0]) for row in spent] == [True, True], "the other is used up"


def test_merging_beyond_the_cap_leaves_nothing(url: str) -> None:
    old_ledger(url, "x", Budget(epsilon=1))
    old_ledger(url, "X", Budget(epsilon=2))
    spend_as_before(url, "x", "a", TENTH.scaled(8), {})
    spend_as_before(url, "X", "b", TENTH.scaled(15), {})
    status = merge_ledgers(url, name="x")
    assert status.remaining == Cost()
    assert status.overspent == TENTH.scaled(13)


def test_what_cannot_be_merged_stays_as_it_is(url: str) -> None:
    old_ledger(url, "x", Budget(epsilon=1))
    old_ledger(url, "X", Budget(rho=1))
    old_ledger(url, "y", Budget(epsilon=1))
    old_ledger(url, "Y", Budget(epsilon=1))
    spend_as_before(url, "y", "a", TENTH, PEOPLE)
    spend_as_before(url, "Y", "a", TENTH, ROWS)
    for name in ("x", "y"):
        with pytest.raises(BudgetError, match="cannot be merged"):
            merge_ledgers(url, name=name)
    with open_ledger(url, name="Y") as ledger:
        assert ledger.verify().spent == TENTH


def test_a_deleted_ledger_does_not_come_back_under_another_spelling(folder: Path) -> None:
    open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True).close()
    (folder / "a.ledger").unlink()
    with pytest.raises(LedgerUnavailable, match="was made at"):
        open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), name="Default ", create=True)


def test_making_a_ledger_is_always_said(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LedgerUnavailable, match="There is no ledger"):
        open_ledger(url)
    caplog.set_level(logging.WARNING)
    with open_ledger(url, budget=Budget(epsilon=1), name="Typo", create=True) as made:
        (news,) = made.news
    assert "'typo' was made" in news
    assert "epsilon = 1" in news
    assert [record.getMessage() for record in caplog.records] == [news]
    with open_ledger(url, budget=Budget(epsilon=1), name="typo", create=True) as again:
        assert again.news == ()
    assert len(caplog.records) == 1


def test_a_curator_says_it_too(folder: Path) -> None:
    schema = dp.Schema.from_toml('[dataset]\nname = "t"\n[columns.a]\nkind = "boolean"\n')
    made = dp.Curator(
        folder / "none.csv", schema, ledger=folder / "typo.ledger", budget=Budget(epsilon=1)
    )
    assert "typo.ledger" in made.news[0]
    assert (
        dp.Curator(
            folder / "none.csv", schema, ledger=folder / "typo.ledger", budget=Budget(epsilon=1)
        ).news
        == ()
    )
    ledger: Ledger = made.ledger
    assert ledger.news == made.news
