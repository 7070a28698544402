"""A ledger adds up what is spent on one privacy unit under one neighbour relation, and refuses any
other."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from raw import execute

from dpublish.declare.schema import PrivacyUnit
from dpublish.errors import BudgetError, BudgetExceeded, LedgerUnavailable
from dpublish.ledger import Ledger, Protects, chain, open_ledger, tables
from dpublish.ledger.base import words_of
from dpublish.methods.set_partition.transactions import TransactionUnit
from dpublish.privacy.cost import Budget, Cost

HALF = Cost.pure("1/2")


def said(
    column: str | None, neighbours: str = "add-remove-one", rows: int = 1, **more: Any
) -> dict[str, Any]:
    unit = PrivacyUnit(column=column, max_rows=rows)
    return {"neighbours": neighbours, "unit": unit.describe(), "unit_column": column, **more}


def in_words(
    column: str | None, neighbours: str = "add-remove-one", rows: int = 1
) -> dict[str, Any]:
    """A request as it was written before the column was named in it."""
    request = said(column, neighbours, rows)
    del request["unit_column"]
    return request


def made(url: str, epsilon: Any = 3, **options: Any) -> Ledger:
    return open_ledger(url, budget=Budget(epsilon=epsilon), create=True, **options)


OTHERS = [
    said(None),
    said("who", "replace-one"),
    said("ward"),
    in_words(None),
    in_words("who", "replace-one"),
    in_words("ward"),
]


@pytest.mark.parametrize("first", [said("who", rows=10), in_words("who", rows=10)])
def test_the_first_debit_pins_unit_and_relation(url: str, first: dict[str, Any]) -> None:
    with made(url) as ledger:
        assert ledger.status().protects is None
        ledger.debit("a", HALF, first)
        for number, other in enumerate(OTHERS):
            with pytest.raises(BudgetError, match="a ledger of its own") as refused:
                ledger.debit(f"other {number}", HALF, other)
            assert "'who' (add-remove-one); this release protects" in str(refused.value)
            assert words_of(other).describe() in str(refused.value)  # type: ignore[union-attr]
        ledger.debit("b", HALF, said("who", rows=3))
        ledger.debit("c", HALF, in_words("who", rows=7))
        ledger.seal("c", sha256="ab" * 32, size=3, location="x.dpr")
        status = ledger.verify()
        assert status.spent == HALF.scaled(3)
        assert status.protects == Protects(neighbours="add-remove-one", column="who")
        assert [entry.kind for entry in ledger.history()] == [
            "open",
            "debit",
            "debit",
            "debit",
            "seal",
        ]
    with open_ledger(url) as again, pytest.raises(BudgetError, match="of its own"):
        again.debit("other", HALF, said(None))


def test_requests_that_do_not_say_pin_nothing_and_are_not_checked(url: str) -> None:
    silent: list[dict[str, Any]] = [
        {},
        {"unit": "one row"},
        {"neighbours": "replace-one"},
        {"neighbours": "x", "unit": 3},
    ]
    with made(url, epsilon=9) as ledger:
        for number, what in enumerate(silent):
            ledger.debit(f"before {number}", HALF, what)
        assert ledger.verify().protects is None
        ledger.debit("a", HALF, said(None))
        for number, what in enumerate(silent):
            ledger.debit(f"after {number}", HALF, what)
        assert ledger.verify().protects == Protects(neighbours="add-remove-one", column=None)
        with pytest.raises(BudgetError, match="of its own"):
            ledger.debit("b", HALF, said("who"))


def test_the_reason_that_cannot_be_helped_is_said_first(url: str) -> None:
    with made(url) as ledger:
        ledger.debit("a", HALF, said(None))
        for cost in (Cost.pure("2.6"), Cost.pure(100)):
            with pytest.raises(BudgetError, match="of its own") as refused:
                ledger.debit("b", cost, said("who"))
            assert not isinstance(refused.value, BudgetExceeded)


def test_names_are_ledgers_of_their_own(url: str) -> None:
    with made(url, name="people") as people, made(url, name="rows") as rows:
        people.debit("k", HALF, said("who"))
        rows.debit("k", HALF, said(None, "replace-one"))
        assert rows.verify().protects != people.verify().protects


def test_a_race_for_the_first_debit_pins_one(url: str) -> None:
    """The pin is read after the lock is held: rivals cannot both be first."""
    paid: list[str] = []
    with made(url, epsilon=50) as ledger:
        start = threading.Barrier(6)

        def spend(number: int) -> None:
            unit = "who" if number % 2 else "ward"
            start.wait()
            for turn in range(3):
                try:
                    ledger.debit(f"{number}-{turn}", HALF, said(unit))
                except BudgetError:
                    return
                paid.append(unit)

        threads = [threading.Thread(target=spend, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        status = ledger.verify()
        assert status.protects is not None
        assert paid == [status.protects.column] * 9
        assert status.debits == 9


def test_a_paid_key_with_another_unit_is_refused_as_another_request(url: str) -> None:
    with made(url) as ledger:
        ledger.debit("a", HALF, said("who"))
        with pytest.raises(BudgetError, match="already paid for something else"):
            ledger.debit("a", HALF, said(None))
        with pytest.raises(BudgetError, match="already paid for something else"):
            ledger.debit(
                "a",
                HALF,
                said(
                    "who",
                    unit="all rows that share one value of 'who' (at most 2 of them are used)",
                ),
            )


def test_status_as_json(url: str) -> None:
    with made(url) as ledger:
        assert ledger.status().to_json()["protects"] is None
        ledger.debit("a", HALF, said("who"))
        shown = json.loads(json.dumps(ledger.status().to_json()))["protects"]
    assert shown == {
        "neighbours": "add-remove-one",
        "column": "who",
        "unit": "all rows that share one value of 'who'",
    }


def test_a_pin_that_changes_along_the_chain_is_noticed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made(url)
    ledger.debit("a", HALF, said("who"))
    with monkeypatch.context() as patch:
        patch.setattr(type(ledger), "_pinned", lambda ledger, pinned, words, kind: words)
        ledger.debit("b", HALF, said(None))
    with pytest.raises(LedgerUnavailable, match="altered"):
        ledger.verify()
    ledger.close()


# -- what was written before format 2
# ------------------------------------------------------------------------------------


@pytest.fixture
def old(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger whose entries carry no pin, as format 1 wrote them."""
    from dpublish.ledger import chained

    def uncarried(connection: Any, record: chain.Record) -> None:
        detail = {name: value for name, value in record.detail.items() if name != "protects"}
        fields = {name: getattr(record, name) for name in record.__dataclass_fields__}
        plain = chain.Record(**{**fields, "detail": detail})
        write(connection, plain)
        object.__setattr__(
            record, "detail", detail
        )  # the anchor is to see the entry as it was stored

    write = chained.insert_record
    with monkeypatch.context() as patch:
        patch.setattr(chained, "insert_record", uncarried)
        patch.setattr(tables, "MIGRATIONS", tables.MIGRATIONS[:1])
        with made(url) as ledger:
            ledger.debit("silent", HALF, {})
            ledger.debit("a", HALF, in_words("who", rows=10))
            ledger.seal("a", sha256="ab" * 32, size=3, location="x.dpr")
            assert all("protects" not in entry.detail for entry in ledger.history())
    assert execute(url, "SELECT max(version) FROM dpublish_schema") == [(1,)]
    return url


def test_a_ledger_of_format_1_is_pinned_by_what_it_paid_for(old: str) -> None:
    with open_ledger(old) as ledger:
        assert ledger.status().protects == Protects(neighbours="add-remove-one", column="who")
        with pytest.raises(BudgetError, match="of its own"):
            ledger.debit("b", HALF, said(None))
        assert not ledger.debit("a", HALF, said("who", rows=10)).fresh, (
            "the same request, now with its column named"
        )
        with pytest.raises(BudgetError, match="something else"):
            ledger.debit("a", HALF, said("who", rows=9))
        ledger.debit("c", HALF, {})
        assert ledger.verify().protects == Protects(neighbours="add-remove-one", column="who")
    assert execute(old, "SELECT max(version) FROM dpublish_schema") == [(len(tables.MIGRATIONS),)]


def test_format_1_would_not_check_and_refuses(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made(url).close()
    monkeypatch.setattr(tables, "MIGRATIONS", tables.MIGRATIONS[:1])
    with pytest.raises(LedgerUnavailable, match="newer dpublish"):
        open_ledger(url)


# -- words
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PrivacyUnit, TransactionUnit])
@pytest.mark.parametrize(
    "column", [None, "who", "it's", "a' (at most 3 of them are used)", "two\nlines", ""]
)
@pytest.mark.parametrize("rows", [1, 10])
def test_every_description_of_a_unit_is_understood(
    kind: type[PrivacyUnit], column: str | None, rows: int
) -> None:
    """Descriptions that no longer fit would give old ledgers another pin."""
    text = kind(column=column, max_rows=rows).describe()
    assert words_of({"neighbours": "replace-one", "unit": text}) == Protects(
        neighbours="replace-one", column=column
    )


def test_words_of_a_user() -> None:
    assert words_of({"neighbours": "n", "unit": "patient"}) == Protects(
        neighbours="n", column="patient"
    )
    assert words_of({"neighbours": "n", "unit": "row"}) == Protects(neighbours="n", column=None)
    assert words_of({"neighbours": "n", "unit_column": "row"}) == Protects(
        neighbours="n", column="row"
    )
    assert words_of({"neighbours": "n", "unit_column": 3, "unit": "row"}) is None
