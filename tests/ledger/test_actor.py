"""Every entry of a ledger says who made it, and through which door."""

from __future__ import annotations

import getpass

import pytest

from dpublish.errors import BudgetError, PlanError
from dpublish.ledger import Actor, open_ledger
from dpublish.privacy.cost import Budget, Cost

HALF = Cost.pure("1/2")
WHAT = {
    "method": "histogram",
    "dataset": "who-acts",
    "neighbours": "add-remove-one",
    "unit_column": None,
}
ANA = Actor(who="ana", door="api", proposed_by="bo", approved_by="ana", two_persons=True)


def test_every_entry_names_who_made_it(url: str) -> None:
    with open_ledger(url, budget=Budget(epsilon=2), create=True, actor=ANA) as ledger:
        ledger.debit("k", HALF, WHAT, rows_key=b"0" * 16)
        ledger.run_again("k")
        ledger.drawing("k")
        ledger.seal("k", sha256="ab" * 32, size=1, location="x")
        kinds = {entry.kind: entry.detail["by"] for entry in ledger.history()}
        ledger.verify()
    assert set(kinds) == {"open", "debit", "population", "attempt", "drawing", "seal"}
    assert all(by == ANA.to_json() for by in kinds.values())
    assert kinds["debit"] == {
        "who": "ana",
        "door": "api",
        "proposed_by": "bo",
        "approved_by": "ana",
        "two_persons": "kept",
    }


def test_without_a_name_it_is_whoever_the_process_runs_for(url: str) -> None:
    with open_ledger(url, budget=Budget(epsilon=1), create=True) as ledger:
        ledger.debit("k", HALF, WHAT)
        who = {"who": getpass.getuser(), "door": "python"}
        assert [entry.detail["by"] for entry in ledger.history()] == [who] * 3


def test_another_person_may_ask_again_with_a_key_and_is_not_the_one_who_paid(url: str) -> None:
    with open_ledger(url, budget=Budget(epsilon=1), create=True, actor=ANA) as ledger:
        first = ledger.debit("k", HALF, WHAT, rows_key=b"0" * 16)
    off = Actor(who="cy", door="web", two_persons=False)
    with open_ledger(url, actor=off) as ledger:
        again = ledger.debit("k", HALF, WHAT)
        assert (again.fresh, again.head_hash) == (False, first.head_hash)
        with pytest.raises(BudgetError, match="under another key"):
            ledger.debit("other", HALF, WHAT, again=False)
        ledger.debit("mine", HALF, {**WHAT, "method": "net"})
        made = {entry.key: entry.detail["by"] for entry in ledger.history()}
    assert made["k"]["who"] == "ana"
    assert made["mine"] == {"who": "cy", "door": "web", "two_persons": "switched off"}


def test_one_person_does_not_keep_the_two_person_rule() -> None:
    for proposed, approved in (("ana", "ana"), ("ana", None), (None, "ana")):
        with pytest.raises(PlanError, match="somebody else approves"):
            Actor(
                who="ana",
                door="web",
                proposed_by=proposed,
                approved_by=approved,
                two_persons=True,
            )


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "a\x1b[2J"])
def test_names_that_would_not_show_are_refused(name: str) -> None:
    with pytest.raises(PlanError, match="printable"):
        Actor(who=name, door="api")


def test_what_is_recorded_reads_back() -> None:
    for actor in (ANA, Actor(who="x", door="y"), Actor(who="x", door="y", two_persons=False)):
        assert Actor.from_json(actor.to_json()) == actor
