"""Opening, creating, recovering and merging ledgers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from dpublish.errors import BudgetError, LedgerUnavailable, PlanError, did_you_mean
from dpublish.ledger import chain, tables
from dpublish.ledger.anchor import Anchor
from dpublish.ledger.base import BY, Actor, Ledger, Protects, Status
from dpublish.ledger.chain import Quanta, Record
from dpublish.ledger.chained import insert_record
from dpublish.ledger.database import Database, Target, parse_target
from dpublish.ledger.snapshot import GONE, MERGED, Snapshot, budget_of, notes_of
from dpublish.ledger.sql import SqlLedger
from dpublish.ledger.state import Place, checked_name, folded, places_of, spelled_alike
from dpublish.ledger.tables import ledgers
from dpublish.ledger.witness import in_force, place_of, witness_at
from dpublish.privacy.cost import Budget

_log = logging.getLogger("dpublish.ledger")

PYTHON = "python"
"""The door of whoever names no other."""


def open_database_ledger(
    url: str | Path,
    *,
    budget: Budget | None,
    name: str,
    create: bool,
    patience: float,
    verify: bool,
    witness: str | Path | None,
    head: str | None,
    second_budget: bool,
    actor: Actor | None,
) -> Ledger:
    """See `dpublish.ledger.open_ledger`."""
    actor = actor or Actor.here(PYTHON)
    name = checked_name(name)
    if create and budget is None:
        raise PlanError("A new ledger needs a budget: pass budget=Budget(epsilon=...).")
    target = parse_target(url)
    database = _connect(target, name, patience=patience, create=create)
    try:
        found = _find_or_make(database, target, name, budget if create else None, actor=actor)
        if budget is not None and budget != found.budget:
            raise BudgetError(
                f"Ledger '{found.name}' at {target.shown} was opened with "
                f"{found.budget.describe()}; {budget.describe()} was "
                "given. A budget cannot be changed afterwards. Leave the budget out, or use "
                "another name for another budget."
            )
        ledger = _opened(database, target, found, actor)
        if witness is not None:
            ledger.compare(
                witness
            )  # first: a copy that it contradicts must not be trusted on the way
        if head is not None:
            ledger.require(head)
        place = Place(target.shown, found.name)
        known = place.knows(
            found.ledger_id
        )  # one that cannot be read refuses before anything is trusted
        _require_vouched(ledger, target, head)
        if verify:
            ledger.verify()
        else:
            ledger.status()
        if not known:  # after the anchor: what this machine names, it has a mark of
            place.remember(found.ledger_id)
        if witness is not None:
            ledger.add_witness(witness)
        ledger.take_note_of_others()
        if second_budget:
            ledger.allow_second_budget()
        if found.made:
            shown = target.shown if target.path is None else url
            ledger.news = (
                f"A new ledger '{found.name}' was made at {shown}, with {found.budget.describe()} "
                f"for life.",
            )
            _log.warning("%s", ledger.news[0])
        return ledger
    except BaseException:
        database.close()
        raise


def recover(url: str | Path, *, name: str, patience: float, actor: Actor | None = None) -> Status:
    """See `dpublish.ledger.recover_ledger`."""
    target = parse_target(url)
    with closing(_connect(target, name, patience=patience, create=False)) as database:
        ledger = _opened(database, target, _find_or_make(database, target, name, None), actor)
        if all(mark is None for _, mark in ledger.heard()):
            _require_vouched(ledger, target, None)
        ledger.write_off()
        return ledger.verify()


def remove_witness(
    url: str | Path,
    place: str | Path,
    *,
    name: str,
    patience: float,
    head: str | None,
    actor: Actor | None = None,
) -> Status:
    """See `dpublish.ledger.remove_witness`."""
    target = parse_target(url)
    with closing(_connect(target, name, patience=patience, create=False)) as database:
        recorded = place_of(place, target.shown, new=False)
        found = _find_or_make(database, target, name, None)
        ledger = _opened(database, target, found, actor)
        lost = ledger.lost_witnesses()
        if recorded not in ledger.witnesses:
            known = (
                f" It has: {', '.join(ledger.witnesses)}." if ledger.witnesses else " It has none."
            )
            raise PlanError(f"Ledger '{found.name}' has no witness at {recorded}.{known}")
        if head is not None:
            ledger.require(head)
        ledger.leave_out(lost)
        heard = ledger.heard()
        if head is None and recorded in lost and all(mark is None for _, mark in heard):
            # what the lost one has seen nobody knows: something else must have seen the ledger
            raise _unvouched(
                ledger.name,
                target,
                [recorded, *(anchor.shown for anchor, _ in heard)],
                places_of(ledger.ledger_id),
            )
        _require_vouched(ledger, target, head)
        # also by the witness that goes, if it can be heard: an old copy is not rid of it
        ledger.verify()
        ledger.drop_witness(recorded)
        return ledger.status()


def merge(url: str | Path, *, name: str, patience: float, actor: Actor | None = None) -> Status:
    """See `dpublish.ledger.merge_ledgers`."""
    name = checked_name(name)
    target = parse_target(url)
    with closing(_connect(target, name, patience=patience, create=False)) as database:
        _find_or_make(database, target, name, None, any_spelling=True)

        def look() -> list[Found]:
            with database.reading() as connection:
                return [
                    _read_budget(connection, target, spelling, ledger_id)
                    for spelling, ledger_id in _spellings(connection, name).items()
                ]

        parts = [_opened(database, target, found, actor) for found in database.attempt(look)]
        for part in parts:
            _require_vouched(part, target, None)
            part.verify()
        return merged(database, parts).verify()


def _opened(database: Database, target: Target, found: Found, actor: Actor | None) -> SqlLedger:
    """The ledger with all anchors that must be heard."""
    ledger_id, name = found.ledger_id, found.name

    def look() -> list[str]:
        with database.reading() as connection:
            return in_force(note.detail for note in notes_of(connection, ledger_id))

    patience = database.patience
    ledger = SqlLedger(
        database,
        Anchor(ledger_id, patience=patience),
        name=name,
        budget=found.budget,
        actor=actor or Actor.here(PYTHON),
        witnesses={one: witness_at(one, ledger_id, patience) for one in database.attempt(look)},
    )
    if found.alike:
        ledger.blocked = spelled_alike(name, [name, *found.alike], target.shown)
    return ledger


def _require_vouched(ledger: SqlLedger, target: Target, head: str | None) -> None:
    """Make this machine's mark if it is missing and something vouches for the ledger at hand: a
    witness, a head line, or a first use. A witness's mark is never made again: it was there when
    the witness was named, so its place is lost, or is not what it was."""
    heard = ledger.heard()
    missing = [anchor.shown for anchor, mark in heard if mark is None]
    if not missing:
        return
    if len(missing) == len(heard):
        named = places_of(ledger.ledger_id)
        if head is None and (named or len(heard) > 1):  # a head line was compared before
            raise _unvouched(ledger.name, target, missing, named)
    else:
        ledger.status()  # first by the marks that are left
    gone = ledger.missing_witnesses()
    if gone:
        raise _empty_witness(ledger.name, target, gone[0], head)
    ledger.adopt()


def _empty_witness(name: str, target: Target, place: str, head: str | None) -> LedgerUnavailable:
    line = " --head LINE" if head is not None else ""
    return LedgerUnavailable(
        f"Ledger '{name}' at {target.shown} has a witness at {place}, and it holds no mark of this "
        "ledger. If that is a disk or a share, it is probably not mounted: nothing is written to "
        "the place where it should be. Mount it, then ask again. If it is lost, "
        f"'dpublish ledger witness LEDGER {place} --remove{line}' goes on without it; name it "
        "again afterwards to begin anew there."
    )


def _unvouched(
    name: str, target: Target, missing: list[str], named: list[Path]
) -> LedgerUnavailable:
    why = (
        f"this machine has used the ledger (it is named in {named[0]})"
        if named
        else "the ledger has a witness"
    )
    last = (
        f" If you are sure that this is the newest copy, delete {', '.join(map(str, named))}, and "
        f"the next use trusts it."
        if named and len(missing) == 1
        else ""
    )
    return LedgerUnavailable(
        f"No anchor vouches for ledger '{name}' at {target.shown}, although {why}: "
        f"{' and '.join(missing)} "
        f"{'is' if len(missing) == 1 else 'are'} gone. Without an anchor an older copy, which "
        f"would bring budget back, cannot "
        "be told from the newest. Put the anchor back. If it is lost, 'dpublish ledger verify "
        "LEDGER --head LINE' takes the "
        "newest head line you have for it; the receipt in the manifest of the last release holds "
        "one "
        f"(ledger_id:seq:head_hash).{last}"
    )


def _connect(target: Target, name: str, *, patience: float, create: bool) -> Database:
    if target.path is not None and not target.path.exists():
        if not create:
            raise _missing(target, name)
        if not target.path.parent.is_dir():
            raise LedgerUnavailable(
                f"The folder {target.path.parent} does not exist, so no ledger can be made in it."
            )
        place = Place.like(target.shown, name)
        if (
            place is not None and not target.path.exists()
        ):  # looked at again: a rival may be making it this moment
            raise place.gone()
    database = Database(target, patience=patience, create=create)
    if database.postgres:
        database.probe()
    return database


def _missing(target: Target, name: str, others: list[str] | None = None) -> LedgerUnavailable:
    known = f" It holds: {', '.join(sorted(others))}.{did_you_mean(name, others)}" if others else ""
    return LedgerUnavailable(
        f"There is no ledger '{name}' at {target.shown}.{known} To make one, give its budget for "
        f"life: "
        "dpublish ledger open URL --epsilon E, or open_ledger(..., budget=Budget(epsilon=...), "
        "create=True). "
        "If you expected one, check the place and the name first: "
        "a second ledger for the same data would allow spending twice."
    )


@dataclass(frozen=True, kw_only=True)
class Found:
    """A ledger of a database. `alike` are other spellings of its name, from before names were
    folded."""

    ledger_id: str
    name: str
    budget: Budget
    alike: tuple[str, ...] = ()
    made: bool = False


def _find_or_make(
    database: Database,
    target: Target,
    name: str,
    budget: Budget | None,
    *,
    any_spelling: bool = False,
    actor: Actor | None = None,
) -> Found:
    """The ledger of that name, in whatever spelling; a new one is made when `budget` is given and
    there is none."""

    def look() -> Found | None:
        with database.reading() as connection:
            found = tables.version(connection)
            tables.refuse_newer(found)
            if found < len(tables.MIGRATIONS):
                if found == 0 and budget is None:
                    raise _missing(target, name)
            else:
                return _lookup(connection, target, name, budget, any_spelling)
        with database.writing() as connection:
            tables.migrate(connection)
        with database.reading() as connection:
            return _lookup(connection, target, name, budget, any_spelling)

    known = database.attempt(look)
    if known is not None:
        return known
    assert budget is not None

    def make() -> Found:
        with database.writing() as connection:
            tables.migrate(
                connection
            )  # on PostgreSQL this also takes the lock that keeps two makers apart
            rival = _lookup(connection, target, name, budget, any_spelling)
            if rival is not None:
                return rival
            place = Place.like(target.shown, name)
            if place is not None:
                raise place.gone()
            return Found(
                ledger_id=_insert(connection, folded(name), budget, actor or Actor.here(PYTHON)),
                name=folded(name),
                budget=budget,
                made=True,
            )

    return database.attempt(make)


def _spellings(connection: Connection, name: str) -> dict[str, str]:
    """Name and id of every ledger that is called so, in whatever spelling, without those that were
    merged into another."""
    rows = connection.execute(
        select(ledgers.c.name, ledgers.c.ledger_id).where(ledgers.c.ledger_id.not_in(GONE))
    )
    return {str(row.name): row.ledger_id for row in rows if folded(str(row.name)) == folded(name)}


def _lookup(
    connection: Connection, target: Target, name: str, budget: Budget | None, any_spelling: bool
) -> Found | None:
    alike = _spellings(connection, name)
    if not alike:
        if budget is None:
            names = connection.execute(select(ledgers.c.name)).scalars()
            raise _missing(target, name, list(map(str, names)))
        return None
    # with several, the exact spelling can still be looked at
    spelling = name if name in alike or len(alike) > 1 else next(iter(alike))
    if spelling not in alike:
        if not any_spelling:
            raise spelled_alike(name, list(alike), target.shown)
        spelling = min(alike)
    found = _read_budget(connection, target, spelling, alike.pop(spelling))
    return replace(found, alike=tuple(sorted(alike)))


def _read_budget(connection: Connection, target: Target, name: str, ledger_id: str) -> Found:
    budget = budget_of(connection, ledger_id)
    if budget is None:
        raise LedgerUnavailable(
            f"Ledger '{name}' at {target.shown} has lost its first entry: it was altered or "
            f"damaged."
        )
    return Found(ledger_id=ledger_id, name=name, budget=budget)


def _insert(connection: Connection, name: str, budget: Budget, actor: Actor) -> str:
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
            detail={"name": name, "budget": budget.to_json(), BY: actor.to_json()},
        ),
    )
    return ledger_id


def merged(database: Database, parts: Sequence[SqlLedger]) -> SqlLedger:
    """One budget made of several that have one name; one ledger alone is left as it is.

    What was spent from each was spent on whoever the name means, so the sum counts; the smallest
    cap is the one that everybody was promised. The kept ledger is charged for what the others
    spent, and the others are used up, in one transaction.
    """
    caps = {part: Quanta.of_cap(part.budget) for part in parts}
    alike = len({tuple(map(bool, cap)) for cap in caps.values()}) == 1
    kept = next(
        (one for one in parts if alike and all(caps[one].within(cap) for cap in caps.values())),
        None,
    )
    names = ", ".join(repr(part.name) for part in parts)
    if kept is None:
        raise BudgetError(
            f"The budgets {names} cannot be merged: their caps are in different currencies, or "
            f"neither is the smaller. "
            "Nothing was changed. Open a ledger of another name, and count these as spent."
        )
    others = [part for part in parts if part is not kept]
    if not others:
        return kept

    def once() -> None:
        with database.writing() as connection:
            views = {
                part: Snapshot(connection, part.ledger_id, name=part.name, budget=part.budget)
                for part in parts
            }
            pins = {
                pin
                for part in parts
                if (pin := views[part].protects(views[part].head())) is not None
            }
            if len(pins) > 1:
                whom = " and ".join(sorted(pin.describe() for pin in pins))
                raise BudgetError(
                    f"The budgets {names} cannot be merged: they pay for {whom}. "
                    "Nothing was changed. Open a ledger of another name for each, and count these "
                    "as spent."
                )
            pin = next(iter(pins), None)
            for other in others:
                if (
                    views[other].find("write-off", MERGED) is None
                ):  # else the commit was made and its news was lost
                    spent = views[other].head().spent
                    _use_up(other, views[other], caps[other], kept.ledger_id)
                    _charge(kept, views[kept], caps[kept], spent, other, pin)

    database.attempt(once)
    for part in parts:
        part.adopt()
    kept.blocked = None
    return kept


def _use_up(ledger: SqlLedger, view: Snapshot, cap: Quanta, kept: str) -> None:
    detail = {"reason": "merged into the ledger of the same name", "into": kept}
    ledger.append(view, "write-off", MERGED, cap.minus(view.head().spent), detail)


def _charge(
    ledger: SqlLedger,
    view: Snapshot,
    cap: Quanta,
    lost: Quanta,
    other: SqlLedger,
    pin: Protects | None,
) -> None:
    over = lost.beyond(cap.minus(view.head().spent))
    detail: dict[str, Any] = {
        "reason": "merged with a ledger of the same name",
        "from": other.ledger_id,
        "spelled": other.name,
    }
    if any(over):
        detail["overspent"] = list(over)
    ledger.append(
        view, "write-off", f"from:{other.ledger_id}", lost.minus(over), detail, protects=pin
    )
