"""Opening, creating and recovering ledgers."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, insert, select

from dpublish.errors import BudgetError, LedgerUnavailable, PlanError, PublishError, did_you_mean
from dpublish.ledger import chain, tables
from dpublish.ledger.anchor import Anchor, Place
from dpublish.ledger.base import Ledger, Status
from dpublish.ledger.chain import Record
from dpublish.ledger.database import Database, Target, parse_target
from dpublish.ledger.quanta import Quanta
from dpublish.ledger.snapshot import altered
from dpublish.ledger.sql import SqlLedger, insert_record
from dpublish.ledger.tables import entries, ledgers
from dpublish.privacy.cost import Budget


def open_database_ledger(
    url: str | Path, *, budget: Budget | None, name: str, create: bool, patience: float, verify: bool
) -> Ledger:
    """See `dpublish.ledger.open_ledger`."""
    if not name or len(name) > 200 or not name.isprintable():
        raise PlanError(f"A ledger's name is 1 to 200 printable characters; {name!r:.60} was given.")
    if create and budget is None:
        raise PlanError("A new ledger needs a budget: pass budget=Budget(epsilon=...).")
    target = parse_target(url)
    database = _connect(target, name, patience=patience, create=create)
    try:
        ledger_id, kept = _find_or_make(database, target, name, budget if create else None)
        if budget is not None and budget != kept:
            raise BudgetError(
                f"Ledger '{name}' at {target.shown} was opened with {kept.describe()}; {budget.describe()} was given. "
                "A budget cannot be changed afterwards. Leave the budget out, or use another name for another budget."
            )
        ledger = SqlLedger(database, Anchor(ledger_id, patience=patience), name=name, budget=kept)
        if Anchor(ledger_id).read() is None:
            ledger.adopt()
        elif verify:
            ledger.verify()
        else:
            ledger.status()
        return ledger
    except BaseException:
        database.close()
        raise


def recover(url: str | Path, *, name: str, patience: float) -> Status:
    """See `dpublish.ledger.recover_ledger`."""
    target = parse_target(url)
    database = _connect(target, name, patience=patience, create=False)
    try:
        ledger_id, kept = _find_or_make(database, target, name, None)
        ledger = SqlLedger(database, Anchor(ledger_id, patience=patience), name=name, budget=kept)
        ledger.write_off()
        return ledger.verify()
    finally:
        database.close()


def _connect(target: Target, name: str, *, patience: float, create: bool) -> Database:
    if target.path is not None and not target.path.exists():
        if not create:
            raise _missing(target, name)
        if not target.path.parent.is_dir():
            raise LedgerUnavailable(f"The folder {target.path.parent} does not exist, so no ledger can be made in it.")
        place = Place(target.shown, name)
        if place.known() and not target.path.exists():  # looked at again: a rival may be making it this moment
            raise place.gone()
    database = Database(target, patience=patience, create=create)
    if database.postgres:
        database.probe()
    return database


def _missing(target: Target, name: str, others: list[str] | None = None) -> LedgerUnavailable:
    known = f" It holds: {', '.join(sorted(others))}.{did_you_mean(name, others)}" if others else ""
    return LedgerUnavailable(
        f"There is no ledger '{name}' at {target.shown}.{known} To make one, give its budget for life: "
        "dpublish ledger open URL --epsilon E, or open_ledger(..., budget=Budget(epsilon=...), create=True). "
        "If you expected one, check the place and the name first: "
        "a second ledger for the same data would allow spending twice."
    )


def _find_or_make(database: Database, target: Target, name: str, budget: Budget | None) -> tuple[str, Budget]:
    """The id and budget of the ledger; a new one is made when `budget` is given and there is none."""

    def look() -> tuple[str, Budget] | None:
        with database.reading() as connection:
            found = tables.version(connection)
            tables.refuse_newer(found)
            if found < len(tables.MIGRATIONS):
                if found == 0 and budget is None:
                    raise _missing(target, name)
            else:
                return _lookup(connection, target, name, budget)
        with database.writing() as connection:
            tables.migrate(connection)
        with database.reading() as connection:
            return _lookup(connection, target, name, budget)

    known = database.attempt(look)
    if known is not None:
        return known
    assert budget is not None
    place = Place(target.shown, name)

    def make() -> tuple[str, Budget]:
        with database.writing() as connection:
            tables.migrate(connection)  # on PostgreSQL this also takes the lock that keeps two makers apart
            rival = _lookup(connection, target, name, budget)
            if rival is not None:
                return rival
            if place.known():
                raise place.gone()
            return _insert(connection, name, budget), budget

    ledger_id, kept = database.attempt(make)
    place.remember(ledger_id)
    return ledger_id, kept


def _lookup(connection: Connection, target: Target, name: str, budget: Budget | None) -> tuple[str, Budget] | None:
    ids = {str(row.name): row.ledger_id for row in connection.execute(select(ledgers.c.name, ledgers.c.ledger_id))}
    if name not in ids:
        if budget is None:
            raise _missing(target, name, list(ids))
        return None
    first = connection.execute(
        select(entries.c.record, entries.c.hash).where(entries.c.ledger_id == ids[name], entries.c.seq == 0)
    ).one_or_none()
    if first is None:
        raise LedgerUnavailable(f"Ledger '{name}' at {target.shown} has lost its first entry: it was altered or damaged.")
    detail = Record.read(first.record, first.hash).detail
    try:
        return ids[name], Budget.from_json(detail["budget"])
    except (PublishError, KeyError, TypeError, ValueError, ArithmeticError):
        raise altered() from None


def _insert(connection: Connection, name: str, budget: Budget) -> str:
    ledger_id = chain.token()
    cap = Quanta.of_cap(budget)
    connection.execute(
        insert(ledgers).values(
            ledger_id=ledger_id,
            name=name,
            cap_epsilon=cap.epsilon,
            cap_delta=cap.delta,
            cap_rho=cap.rho,
            spent_epsilon=0,
            spent_delta=0,
            spent_rho=0,
            seq=0,
        )
    )
    insert_record(
        connection,
        Record(
            ledger_id=ledger_id,
            seq=0,
            kind="open",
            key="open",
            created=chain.now(),
            previous=chain.START,
            charged=Quanta(),
            spent=Quanta(),
            detail={"name": name, "budget": budget.to_json()},
        ),
    )
    return ledger_id
