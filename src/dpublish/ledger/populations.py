"""For whom a ledger pays: the registry of populations and units.

A budget is a promise to people. Two ledgers for the same people keep two promises that neither of
them states: together they may spend both budgets. So every ledger records, in its own chain, each
population and unit that it pays for (an entry of the kind `population`), and this machine keeps a
list of the ledgers of each (`populations/` in the state folder). The first debit of a ledger for
people that another one pays for is refused until somebody says that a second budget is meant; then
both ledgers name each other, and so do their releases from then on.

People are named by the schema: `population = "..."` under [dataset], or else the data set's name.
The schema's digest would not do: it changes with every bound. Case and blanks do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dpublish.errors import BudgetError, LedgerUnavailable, PublishError
from dpublish.ledger import chain
from dpublish.ledger.base import OtherBudget, Protects, words_of
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.state import JsonFile, Value, folded, state_directory
from dpublish.privacy.cost import Budget

if TYPE_CHECKING:
    from dpublish.ledger.snapshot import Snapshot
    from dpublish.ledger.sql import SqlLedger

POPULATION: Final = "population"
SECOND: Final = "second_budget"
"""A note that this ledger may pay for people that another ledger pays for."""
SHARED: Final = "shared_with"
"""Where an entry names the other ledgers of its people."""


@dataclass(frozen=True, kw_only=True)
class Population:
    """People, and what protects them: a row, or all rows that share a value of a column."""

    name: str
    column: str | None

    @property
    def key(self) -> str:
        return chain.digest(chain.canonical([folded(self.name), self.column]))

    @property
    def unit(self) -> str:
        return "one row" if self.column is None else f"all rows of one '{self.column}'"

    def describe(self) -> str:
        return f"'{self.name}' ({self.unit})"

    def to_json(self) -> dict[str, Any]:
        return {POPULATION: self.name, "unit_column": self.column}

    @classmethod
    def of_request(cls, what: Mapping[str, Any]) -> Population | None:
        """The people of a request, or None where it does not say who they are, or has fixed noise:
        that protects nobody, and must not be published."""
        if what.get("seeded") is True:
            return None
        name, protects = what.get(POPULATION, what.get("dataset")), words_of(what)
        if not isinstance(name, str) or not folded(name) or protects is None:
            return None
        return cls(name=name, column=protects.column)

    @classmethod
    def of_record(cls, record: Record) -> Population | None:
        """The people that an entry registers, or has paid for."""
        if record.kind == POPULATION:
            return cls(name=record.detail[POPULATION], column=record.detail["unit_column"])
        return cls.of_request(record.detail["what"]) if record.kind == "debit" else None


class _ListFile(JsonFile):
    """The ledgers of one population on this machine. One that cannot be read may name any."""

    def unreadable(self) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"{self.shown} cannot be read. It names the ledgers that pay for one population, and "
            "without it a second budget for the same people would go unnoticed. Put it back as it "
            "was, or delete it: the ledgers that are used on this machine are listed anew."
        )


class KnownLedgers:
    """The ledgers that have paid for one population on this machine, in the order of first use."""

    def __init__(self, people: Population) -> None:
        self._people = people
        self._file = _ListFile(state_directory() / "populations" / f"{people.key[:32]}.json")

    def read(self) -> list[OtherBudget]:
        return self._parsed(self._file.read())

    def add(self, ledger: OtherBudget, *, location: str, known: Collection[str]) -> None:
        """List a ledger. One that appeared since those `known` were read is a reason to look
        again."""

        def added(value: Value | None) -> Value | None:
            listed = self._parsed(value)
            ids = {one.ledger_id for one in listed}
            if ledger.ledger_id in ids:
                return None
            if not ids <= set(known):
                raise LedgerUnavailable(
                    f"Another ledger began to pay for {self._people.describe()} at the same "
                    "moment. Nothing was spent. Ask again."
                )
            rows = [*(value or {}).get("ledgers", ()), {**ledger.to_json(), "location": location}]
            return {"format": 1, **self._people.to_json(), "ledgers": rows}

        self._file.update(added)

    def where(self, ledger_id: str) -> str | None:
        """Where this machine has used a ledger; for the curator's eyes."""
        rows = (self._file.read() or {}).get("ledgers", ())
        where = (str(row.get("location")) for row in rows if row.get("ledger_id") == ledger_id)
        return next(where, None)

    def _parsed(self, value: Value | None) -> list[OtherBudget]:
        try:
            return [OtherBudget.from_json(row) for row in (value or {}).get("ledgers", ())]
        except (PublishError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            raise self._file.unreadable() from None


def recorded(records: Iterable[Record]) -> list[OtherBudget]:
    """The other budgets that entries of a ledger name, each once."""
    found = (
        OtherBudget.from_json(row) for record in records for row in record.detail.get(SHARED, ())
    )
    return list({(one.ledger_id, _people(one).key): one for one in found}.values())


def own(ledger_id: str, name: str, budget: Budget, people: Population) -> OtherBudget:
    """A ledger as others see it."""
    return OtherBudget(
        ledger_id=ledger_id, name=name, budget=budget, population=people.name, column=people.column
    )


# -- inside a transaction of one ledger --------------------------------------------------------


def registered(
    ledger: SqlLedger, snapshot: Snapshot, people: Population, protects: Protects | None
) -> list[OtherBudget]:
    """Make sure that a ledger has said that it pays for these people, and that a second budget for
    them is meant. The other ledgers that pay for them."""
    if not _at_home(ledger, snapshot, people):
        snapshot.one_at_a_time(people.key)
        _refuse_second(ledger, snapshot, people, protects)
        news = [people]
        if not snapshot.populations():  # a ledger of an earlier format names all it has paid for
            news += [one for one in snapshot.paid_for() if one.key != people.key]
        for one in news:
            if snapshot.find(POPULATION, one.key) is None:
                ledger.append(snapshot, POPULATION, one.key, Quanta(), one.to_json())
    name_others(ledger, snapshot, people)
    return _named(snapshot, people)


def require_asked_for(
    ledger: SqlLedger, snapshot: Snapshot, people: Population, protects: Protects | None
) -> None:
    """Refuse now what `registered` would refuse."""
    if not _at_home(ledger, snapshot, people):
        _refuse_second(ledger, snapshot, people, protects)


def _at_home(ledger: SqlLedger, snapshot: Snapshot, people: Population) -> bool:
    """Whether the ledger has paid for these people before, here or with the knowledge of all that
    are listed here."""
    here = {one.ledger_id for one in KnownLedgers(people).read()}
    named = {one.ledger_id for one in _named(snapshot, people)}
    return snapshot.find(POPULATION, people.key) is not None and (
        ledger.ledger_id in here or here <= named
    )


def _refuse_second(
    ledger: SqlLedger, snapshot: Snapshot, people: Population, protects: Protects | None
) -> None:
    others = _others(ledger, snapshot, people, unregistered=True)
    if others and not snapshot.may_be_second():
        ledger.require_unit(snapshot, protects)  # said first: a second budget would not help
        raise _refusal(ledger, people, others)


def listed(ledger: SqlLedger, people: Population, others: Iterable[OtherBudget]) -> None:
    """This machine lists the ledger among those of its people, if nobody else came first."""
    KnownLedgers(people).add(
        own(ledger.ledger_id, ledger.name, ledger.budget, people),
        location=ledger.location,
        known={one.ledger_id for one in others},
    )


def registrations(snapshot: Snapshot) -> list[Population]:
    found = map(Population.of_record, snapshot.populations())
    return [people for people in found if people is not None]


def unnamed(ledger: SqlLedger, snapshot: Snapshot, people: Population) -> list[OtherBudget]:
    """The other ledgers of these people that this one's chain does not name yet."""
    named = {one.ledger_id for one in _named(snapshot, people)}
    return [
        one
        for one in _others(ledger, snapshot, people, unregistered=False)
        if one.ledger_id not in named
    ]


def name_others(ledger: SqlLedger, snapshot: Snapshot, people: Population) -> Record | None:
    """Note the other ledgers of these people in the chain, each once."""
    news = [one.to_json() for one in unnamed(ledger, snapshot, people)]
    note = {SHARED: news}
    return ledger.append(snapshot, "note", chain.token(), Quanta(), note) if news else None


def _others(
    ledger: SqlLedger, snapshot: Snapshot, people: Population, *, unregistered: bool
) -> list[OtherBudget]:
    """Who else pays for these people: in this database, and as far as this machine knows."""
    found = [*snapshot.payers(people, unregistered=unregistered), *KnownLedgers(people).read()]
    return list({one.ledger_id: one for one in found if one.ledger_id != ledger.ledger_id}.values())


def _named(snapshot: Snapshot, people: Population) -> list[OtherBudget]:
    """The other ledgers that a ledger's chain names for these people."""
    return [one for one in snapshot.other_budgets() if _people(one).key == people.key]


def _people(other: OtherBudget) -> Population:
    return Population(name=other.population, column=other.column)


def _refusal(ledger: SqlLedger, people: Population, others: Iterable[OtherBudget]) -> BudgetError:
    known = KnownLedgers(people)
    shown = "; ".join(
        f"'{one.name}' at {known.where(one.ledger_id) or ledger.location} "
        f"({one.budget.describe()} for life)"
        for one in others
    )
    return BudgetError(
        f"Ledger '{ledger.name}' at {ledger.location} has not paid for {people.describe()} before, "
        f"and another ledger has: {shown}. With a second budget for the same people the two can "
        "spend more than either of them promises. Nothing was spent. Pay from the ledger that is "
        "there. If a second budget is meant, say so once: --second-budget (in Python: "
        "second_budget=True); both ledgers and their releases will say it too. If these are other "
        'people, name them in the schema: population = "..." under [dataset].'
    )
