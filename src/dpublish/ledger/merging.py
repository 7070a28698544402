"""One budget made of several that have one name, since names are folded.

What was spent from each was spent on whoever the name means, so the sum counts; the smallest cap is
the one that everybody was promised. The kept ledger is charged for what the others spent, and the
others are used up, in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dpublish.errors import BudgetError
from dpublish.ledger.database import Database
from dpublish.ledger.protects import Protects
from dpublish.ledger.quanta import Quanta
from dpublish.ledger.snapshot import Snapshot
from dpublish.ledger.sql import SqlLedger

MERGED: Final = "merged"
"""The key of the write-off that uses up a ledger which was merged into another."""


def merged(database: Database, parts: Sequence[SqlLedger]) -> SqlLedger:
    """The ledger with the smallest cap, after it was charged for all. One ledger alone is left as
    it is."""
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
    head = view.head()
    detail = {"reason": "merged into the ledger of the same name", "into": kept}
    ledger.append(view, "write-off", MERGED, cap.minus(head.spent), detail)


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
