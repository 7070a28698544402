"""The same promises on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import os
import threading
from fractions import Fraction
from typing import Any

import pytest
from raw import execute
from sqlalchemy.exc import DBAPIError

from dpublish.errors import BudgetError, BudgetExceeded, LedgerUnavailable, PlanError
from dpublish.ledger import Ledger, Receipt, chain, open_ledger, tables
from dpublish.ledger.sql import SqlLedger
from dpublish.privacy.cost import Budget, Cost

HALF = Cost.pure("1/2")
WHAT = {"method": "histogram", "columns": ["age"]}
SHA = "ab" * 32


def made(url: str, epsilon: Any = 3, **options: Any) -> Ledger:
    return open_ledger(url, budget=Budget(epsilon=epsilon), create=True, **options)


def check_idempotent(ledger: Ledger) -> None:
    """A key pays once; the second receipt is the first one, marked as not fresh."""
    before = ledger.status().spent.epsilon
    first, again = ledger.debit("once", HALF, WHAT), ledger.debit("once", HALF, WHAT)
    assert (first.fresh, again.fresh) == (True, False)
    assert first.to_json() == again.to_json()
    assert ledger.status().spent.epsilon == before + Fraction(1, 2)


def test_debits_add_up_and_stop_at_the_cap(url: str) -> None:
    with made(url, epsilon="0.3") as ledger:
        for i in range(3):
            receipt = ledger.debit(f"k{i}", Cost.pure(0.1), WHAT)
            assert receipt.seq == i + 1
            assert receipt.fresh
        status = ledger.status()
        assert (status.spent, status.remaining) == (Cost.pure("0.3"), Cost())
        with pytest.raises(BudgetExceeded, match="Nothing was spent"):
            ledger.debit("k3", Cost.pure("1e-15"), WHAT)
        assert ledger.verify() == status
        assert [entry.kind for entry in ledger.history()] == ["open", "debit", "debit", "debit"]
    with open_ledger(url) as again:
        assert again.status() == status


def test_a_key_pays_once(url: str) -> None:
    with made(url) as ledger:
        check_idempotent(ledger)


def test_a_paid_key_answers_even_when_the_budget_is_gone(url: str) -> None:
    with made(url, epsilon="1/2") as ledger:
        ledger.debit("k", HALF, WHAT)
        assert not ledger.debit("k", HALF, WHAT).fresh


def test_a_forgetful_ledger_is_caught(url: str) -> None:
    class Forgetful(SqlLedger):
        def debit(self, key: str, cost: Cost, what: Any) -> Receipt:
            return super().debit(f"{key}-{os.urandom(4).hex()}", cost, what)

    with made(url) as ledger:
        ledger.__class__ = Forgetful
        with pytest.raises(AssertionError):
            check_idempotent(ledger)


@pytest.mark.parametrize(
    ("cost", "what"),
    [(Cost.pure("1/3"), WHAT), (HALF, {"method": "other"}), (HALF, {**WHAT, "x": True})],
)
def test_a_key_cannot_pay_for_something_else(url: str, cost: Cost, what: Any) -> None:
    with made(url) as ledger:
        ledger.debit("k", HALF, {**WHAT, "x": 1} if "x" in what else WHAT)
        with pytest.raises(BudgetError, match="already paid for something else"):
            ledger.debit("k", cost, what)
        assert ledger.status().spent == HALF


def test_thirds_are_rounded_up_and_the_message_helps(url: str) -> None:
    with made(url, epsilon=1) as ledger:
        for i in range(2):
            ledger.debit(f"k{i}", Cost.pure("1/3"), {})
        with pytest.raises(BudgetExceeded, match=r"0\.333333333333332 left.*rounding"):
            ledger.debit("k2", Cost.pure("1/3"), {})
        ledger.debit("k2", Cost.pure("0.333333333333332"), {})
        assert ledger.status().remaining == Cost()


def test_currencies(url: str) -> None:
    with open_ledger(
        url, budget=Budget(epsilon=5, delta="1e-6"), name="approximate", create=True
    ) as ledger:
        receipt = ledger.debit("g", Cost.zcdp("0.01"), {})
        assert receipt.cost == Cost.zcdp("0.01")
        assert receipt.charged.delta == Fraction(1, 10**8)
        assert receipt.charged.covers(Cost.zcdp("0.01").to_approximate("1e-8"))
        ledger.debit("a", Cost.approximate(1, "9.9e-7"), {})
        with pytest.raises(BudgetExceeded):
            ledger.debit("b", Cost.approximate("0.001", "1e-18"), {})
        ledger.debit("b", Cost.pure("0.001"), {})
    with open_ledger(url, budget=Budget(rho="1/2"), name="concentrated", create=True) as ledger:
        assert ledger.debit("p", Cost.pure("0.6"), {}).charged == Cost.zcdp("0.18")
        with pytest.raises(BudgetError, match="delta"):
            ledger.debit("a", Cost.approximate("0.1", "1e-9"), {})
    with (
        open_ledger(url, budget=Budget(epsilon=5), name="pure", create=True) as ledger,
        pytest.raises(BudgetError, match="zCDP"),
    ):
        ledger.debit("g", Cost.zcdp("0.01"), {})


def test_an_answer_is_sealed_once(url: str) -> None:
    with made(url) as ledger:
        with pytest.raises(BudgetError, match="never paid"):
            ledger.seal("k", sha256=SHA, size=3, location="x.dpr")
        ledger.debit("k", HALF, WHAT)
        assert ledger.answer("k") is None
        ledger.seal("k", sha256=SHA, size=3, location="x.dpr")
        ledger.seal("k", sha256=SHA, size=3, location="elsewhere.dpr")
        sealed = ledger.answer("k")
        assert sealed is not None
        assert (sealed.sha256, sealed.size, sealed.location) == (SHA, 3, "x.dpr")
        with pytest.raises(BudgetError, match="one answer"):
            ledger.seal("k", sha256="cd" * 32, size=3, location="x.dpr")
        with pytest.raises(PlanError):
            ledger.seal("k", sha256="short", size=3, location="x.dpr")
        status = ledger.verify()
        assert (status.debits, status.sealed, status.entries) == (1, 1, 3)


@pytest.mark.parametrize("key", ["", "a\nb", "k" * 201, "\x00"])
def test_bad_keys(url: str, key: str) -> None:
    with made(url) as ledger, pytest.raises(PlanError, match="key"):
        ledger.debit(key, HALF, WHAT)


@pytest.mark.parametrize(
    "what", [{"a": object()}, {"a": float("nan")}, {1: 2}, {"a": "x" * 200_000}]
)
def test_what_must_be_recordable(url: str, what: Any) -> None:
    with made(url) as ledger:
        with pytest.raises(PlanError):
            ledger.debit("k", HALF, what)
        assert ledger.status().entries == 1


def test_everything_goes_to_json_and_receipts_come_back(url: str) -> None:
    with made(url) as ledger:
        receipt = ledger.debit("k\u00e9y", HALF, {"nested": {"x": (1, 2.5, None, Fraction(1, 3))}})
        assert (
            Receipt.from_json(json.loads(json.dumps(receipt.to_json()))).to_json()
            == receipt.to_json()
        )
        json.dumps([entry.to_json() for entry in ledger.history()] + [ledger.status().to_json()])
        assert not ledger.debit("k\u00e9y", HALF, {"nested": {"x": [1, 2.5, None, "1/3"]}}).fresh
    with pytest.raises(PlanError):
        Receipt.from_json({})


# -- opening
# ------------------------------------------------------------------------------------------


def test_a_missing_ledger_is_not_made_by_accident(url: str) -> None:
    with pytest.raises(LedgerUnavailable, match="create=True"):
        open_ledger(url)
    with pytest.raises(LedgerUnavailable, match="create=True"):
        open_ledger(url, budget=Budget(epsilon=1))
    with pytest.raises(PlanError, match="needs a budget"):
        open_ledger(url, create=True)
    made(url).close()
    with pytest.raises(LedgerUnavailable, match="Did you mean 'default'"):
        open_ledger(url, name="defalt")


def test_a_budget_is_for_life(url: str) -> None:
    made(url).close()
    made(url).close()
    with pytest.raises(BudgetError, match="cannot be changed"):
        open_ledger(url, budget=Budget(epsilon=4))
    with pytest.raises(BudgetError, match="cannot be changed"):
        open_ledger(url, budget=Budget(epsilon=3, delta="1e-6"), create=True)
    assert open_ledger(url).budget == Budget(epsilon=3)


def test_names_are_separate_budgets(url: str) -> None:
    with made(url, name="a") as a, made(url, name="b", epsilon=1) as b:
        a.debit("k", Cost.pure(2), {})
        b.debit("k", Cost.pure(1), {})
        assert (a.verify().spent, b.verify().spent) == (Cost.pure(2), Cost.pure(1))


@pytest.mark.parametrize("budget", [Budget(epsilon=10_000), Budget(epsilon="1e-16")])
def test_budgets_beyond_the_quantum_are_refused(url: str, budget: Budget) -> None:
    with pytest.raises(PlanError):
        open_ledger(url, budget=budget, create=True)


def test_a_huge_cost_does_not_overflow(url: str) -> None:
    with made(url, epsilon=9000) as ledger:
        for cost in (Cost.pure(10**9), Cost.pure(9223), Cost.pure(10**30)):
            with pytest.raises(BudgetExceeded):
                ledger.debit("k", cost, {})
        ledger.debit("k", Cost.pure(9000), {})


def test_a_closed_ledger_refuses(url: str) -> None:
    ledger = made(url)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        ledger.debit("k", HALF, WHAT)


def test_a_newer_format_is_refused_and_an_older_one_is_migrated(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(url).close()
    step = ["CREATE TABLE dpublish_later (x INTEGER)"]
    with monkeypatch.context() as patch:
        patch.setattr(tables, "MIGRATIONS", [*tables.MIGRATIONS, (step, step)])
        with open_ledger(url) as ledger:
            ledger.debit("k", HALF, WHAT)
        open_ledger(url).close()
    assert execute(url, "SELECT max(version) FROM dpublish_schema") == [
        (len(tables.MIGRATIONS) + 1,)
    ]
    with pytest.raises(LedgerUnavailable, match="newer dpublish"):
        open_ledger(url)


# -- threads and forks
# ------------------------------------------------------------------------------------------


def test_threads_share_one_ledger(url: str) -> None:
    accepted: list[str] = []
    with made(url, epsilon=2) as ledger:

        def spend(worker: int) -> None:
            for i in range(5):
                try:
                    ledger.debit(f"{worker}-{i}", Cost.pure("0.1"), {})
                except BudgetExceeded:
                    return
                accepted.append(f"{worker}-{i}")

        threads = [threading.Thread(target=spend, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(accepted) == 20
        assert ledger.verify().remaining == Cost()


def test_one_key_raced_by_threads_is_paid_once(url: str) -> None:
    receipts: list[Receipt] = []
    with made(url) as ledger:
        threads = [
            threading.Thread(target=lambda: receipts.append(ledger.debit("k", HALF, WHAT)))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(receipt.fresh for receipt in receipts) == [False] * 5 + [True]
        assert ledger.verify().spent == HALF


def test_a_forked_child_uses_its_own_connection(url: str) -> None:
    with made(url) as ledger:
        ledger.debit("parent", HALF, WHAT)
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if ledger.debit("child", HALF, WHAT).fresh else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        ledger.debit("parent again", HALF, WHAT)
        assert ledger.verify().spent == HALF.scaled(3)


# -- tampering
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE dpublish_entries SET charged_epsilon = 0",
        "DELETE FROM dpublish_entries WHERE seq = 2",
        "UPDATE dpublish_ledgers SET spent_epsilon = 0",
        "UPDATE dpublish_ledgers SET cap_epsilon = 2 * cap_epsilon",
        "DELETE FROM dpublish_ledgers",
    ],
)
def test_rows_are_append_only(url: str, statement: str) -> None:
    with made(url) as ledger:
        ledger.debit("a", HALF, WHAT)
        ledger.debit("b", HALF, WHAT)
        with pytest.raises(DBAPIError):
            execute(url, statement)
        assert ledger.verify().spent == Cost.pure(1)


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE dpublish_entries SET charged_epsilon = 1 WHERE seq = 1"],
        [
            "UPDATE dpublish_entries SET record = replace(record, '500000000000000', "
            "'400000000000000') WHERE seq = 1"
        ],
        ["UPDATE dpublish_entries SET key = 'c' WHERE seq = 1"],
        ["DELETE FROM dpublish_entries WHERE seq = 1"],
        ["DELETE FROM dpublish_entries WHERE seq = 2"],
        ["DELETE FROM dpublish_entries WHERE seq = 0"],
        [
            "DELETE FROM dpublish_entries WHERE seq = 2",
            "UPDATE dpublish_ledgers SET seq = 1, spent_epsilon = 500000000000000",
        ],
        ["UPDATE dpublish_ledgers SET spent_epsilon = 0"],
        ["UPDATE dpublish_ledgers SET cap_epsilon = 9000000000000000"],
    ],
)
def test_tampering_is_refused(url: str, statements: list[str]) -> None:
    ledger = made(url)
    ledger.debit("a", HALF, WHAT)
    ledger.debit("b", HALF, WHAT)
    execute(url, *statements, unprotected=True)
    with pytest.raises(LedgerUnavailable):
        ledger.verify()
    with pytest.raises(LedgerUnavailable):
        open_ledger(url)
    ledger.close()


@pytest.mark.parametrize(
    "statements",
    [
        [
            "DELETE FROM dpublish_entries WHERE seq = 2",
            "UPDATE dpublish_ledgers SET seq = 1, spent_epsilon = 500000000000000",
        ],
        ["DELETE FROM dpublish_entries WHERE seq = 2"],
        ["UPDATE dpublish_ledgers SET spent_epsilon = 0"],
        ["UPDATE dpublish_ledgers SET seq = 1"],
        ["UPDATE dpublish_ledgers SET cap_epsilon = 9000000000000000"],
    ],
)
def test_a_running_ledger_notices_at_the_next_debit(url: str, statements: list[str]) -> None:
    with made(url) as ledger:
        ledger.debit("a", HALF, WHAT)
        ledger.debit("b", HALF, WHAT)
        execute(url, *statements, unprotected=True)
        with pytest.raises(LedgerUnavailable):
            ledger.debit("c", HALF, WHAT)


def test_a_forged_entry_gives_nothing_back(url: str) -> None:
    """It continues the anchored one, as it must, and says that less is spent."""
    with made(url) as ledger:
        ledger.debit("a", HALF, WHAT)
        ledger.debit("b", HALF, WHAT)
        text, digest = execute(url, "SELECT record, hash FROM dpublish_entries WHERE seq = 2")[0]
        forged = chain.canonical(
            {
                **json.loads(text),
                "seq": 3,
                "key": "z",
                "previous": digest,
                "charged": [0] * 3,
                "spent": [0] * 3,
            }
        )
        # a colon would name a parameter
        entry = (
            "INSERT INTO dpublish_entries SELECT ledger_id, 3, kind, 'z', 0, 0, 0, "
            f"'{forged}', '{chain.digest(forged)}' FROM dpublish_entries WHERE seq = 2"
        ).replace(":", r"\:")
        execute(
            url, entry, "UPDATE dpublish_ledgers SET seq = 3, spent_epsilon = 0", unprotected=True
        )
        with pytest.raises(LedgerUnavailable):
            ledger.status()
        with pytest.raises(LedgerUnavailable):
            ledger.debit("c", HALF, WHAT)
    with pytest.raises(LedgerUnavailable):
        open_ledger(url, verify=False)
