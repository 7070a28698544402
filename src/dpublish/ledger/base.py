"""What every ledger promises, and the records it hands out.

A debit is made durably before any private row is read. The key makes it idempotent: asking again
with the same key and the same content returns the first receipt with `fresh=False`, and never pays
twice. A caller that gets `fresh=False` shows the sealed answer. Where there is none, it may run
again (`run_again`) as long as no run has said that it is about to draw noise (`drawing`); one run
of a key says so for life. After that the answer is there or lost, and the budget stays spent.

A ledger speaks of one privacy unit and one neighbour relation, pinned by its first debit that names
them. Epsilons add up only when they protect the same unit under the same relation: for a person
with ten rows, epsilon 1 for a single row is epsilon 10. How many rows of a unit a release uses may
differ; its cost is for the whole unit either way. The pin is carried from entry to entry, inside
`detail`, so the newest entry alone tells it, as it alone tells the balance.
"""

from __future__ import annotations

import abc
import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Literal, Self

from dpublish.errors import PlanError
from dpublish.privacy.cost import Budget, Cost

EntryKind = Literal[
    "open", "debit", "seal", "write-off", "note", "population", "attempt", "drawing"
]

BY: Final = "by"
"""Where an entry's detail says who made it. Entries of formats up to 5 do not."""

CARRIED: Final = "protects"
"""Where an entry's detail holds the pin, or null while there is none. Entries of format 1 have no
such word."""

COLUMN: Final = "unit_column"
"""Where a request names the column of its unit (null: a row). Requests made before format 2
describe it in words only."""

_ONE_ROW: Final = ("row", "one row", "one transaction")
_SHARED: Final = re.compile(
    r"all (?:rows|transactions) that share one value of '(.*)' \(at most (?:\d+|one) of them "
    r"(?:are|is) used\)",
    re.DOTALL,
)


_LONGEST_NAME: Final = 200


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who acts, and through which door; in an office of several people also who proposed and who
    approved. It is recorded in the ledger, and in no release."""

    who: str
    door: str
    proposed_by: str | None = None
    approved_by: str | None = None
    two_persons: bool | None = None
    """Whether two people had to agree; None where the door knows no such rule."""

    def __post_init__(self) -> None:
        for name in (self.who, self.door, self.proposed_by, self.approved_by):
            if name is not None and not (
                isinstance(name, str) and 1 <= len(name) <= _LONGEST_NAME and name.isprintable()
            ):
                raise PlanError(
                    f"Who acts is named with 1 to {_LONGEST_NAME} printable characters; "
                    f"{name!r:.60} was given."
                )
        if self.two_persons and (
            None in (self.proposed_by, self.approved_by) or self.proposed_by == self.approved_by
        ):
            raise PlanError(
                "Under the two-person rule somebody proposes and somebody else approves. Nothing "
                "was spent."
            )

    @classmethod
    def here(cls, door: str) -> Actor:
        """Whoever this process runs for."""
        try:
            name = getpass.getuser()
        except (OSError, KeyError, ImportError):  # a number without a name, as in containers
            name = ""
        shown = "".join(sign if sign.isprintable() else "?" for sign in name)
        return cls(who=shown[:_LONGEST_NAME] or "unknown", door=door)

    def to_json(self) -> dict[str, Any]:
        rule = {None: None, True: "kept", False: "switched off"}[self.two_persons]
        said = {
            "who": self.who,
            "door": self.door,
            "proposed_by": self.proposed_by,
            "approved_by": self.approved_by,
            "two_persons": rule,
        }
        return {name: value for name, value in said.items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Actor:
        rule = {"kept": True, "switched off": False}.get(value.get("two_persons", ""))
        names = {name: value.get(name) for name in ("proposed_by", "approved_by")}
        return cls(who=value["who"], door=value["door"], two_persons=rule, **names)


@dataclass(frozen=True, kw_only=True)
class Protects:
    """A unit (a row, or all rows that share one value of `column`) and a neighbour relation."""

    neighbours: str
    column: str | None

    @property
    def unit(self) -> str:
        return (
            "one row"
            if self.column is None
            else f"all rows that share one value of '{self.column}'"
        )

    def describe(self) -> str:
        return f"{self.unit} ({self.neighbours})"

    def to_json(self) -> dict[str, Any]:
        return {"neighbours": self.neighbours, "column": self.column}

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> Protects | None:
        return (
            None if value is None else cls(neighbours=value["neighbours"], column=value["column"])
        )


def words_of(request: Mapping[str, Any]) -> Protects | None:
    """What a request says it protects, or None when it does not say both unit and relation."""
    neighbours = request.get("neighbours")
    if not isinstance(neighbours, str):
        return None
    if COLUMN in request:
        column = request[COLUMN]
        return (
            Protects(neighbours=neighbours, column=column)
            if column is None or isinstance(column, str)
            else None
        )
    unit = request.get("unit")
    if not isinstance(unit, str):
        return None
    if unit in _ONE_ROW:
        return Protects(neighbours=neighbours, column=None)
    shared = _SHARED.fullmatch(unit)
    return Protects(neighbours=neighbours, column=shared[1] if shared else unit)


@dataclass(frozen=True, kw_only=True)
class OtherBudget:
    """Another ledger that pays for the same people: what it spends adds up with what this one
    does."""

    ledger_id: str
    name: str
    budget: Budget
    population: str
    column: str | None

    def describe(self) -> str:
        unit = Protects(neighbours="", column=self.column).unit
        return (
            f"ledger {self.ledger_id} also pays for '{self.population}' ({unit}), with "
            f"{self.budget.describe()} for life"
        )

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, **self.public_facts()}

    def public_facts(self) -> dict[str, Any]:
        """What a release says of it: not how its curator calls it."""
        return {
            "ledger_id": self.ledger_id,
            "budget": self.budget.to_json(),
            "population": self.population,
            "unit_column": self.column,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> OtherBudget:
        return cls(
            ledger_id=str(value["ledger_id"]),
            name=str(value["name"]),
            budget=Budget.from_json(value["budget"]),
            population=str(value["population"]),
            column=value["unit_column"],
        )


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """Proof of a debit. `cost` is the mechanism's own claim, `charged` what the ledger took, in its
    budget's currency."""

    ledger_id: str
    name: str
    seq: int
    key: str
    charged: Cost
    cost: Cost
    head_hash: str
    created: str
    fresh: bool
    other_budgets: tuple[OtherBudget, ...] = ()
    """Other ledgers that were known to pay for the same people when this was paid."""
    rows_key: bytes | None = None
    """What chooses rows of a unit in every run of this key; None in debits of earlier versions."""
    budget: Cost | None = None
    spent: Cost | None = None
    """All that the ledger may pay in its life, and what it had paid with this debit. Neither
    depends on rows."""

    def account(self) -> dict[str, Any]:
        """Budget and what was spent by then, for readers of the release."""
        known = {"budget": self.budget, "spent": self.spent}
        return {name: cost.to_json() for name, cost in known.items() if cost is not None}

    def to_json(self) -> dict[str, Any]:
        """The debit in short: neither `fresh`, which speaks of a call, nor what is the
        curator's own."""
        return {
            "ledger_id": self.ledger_id,
            "name": self.name,
            "seq": self.seq,
            "key": self.key,
            "charged": self.charged.to_json(),
            "cost": self.cost.to_json(),
            "head_hash": self.head_hash,
            "created": self.created,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Receipt:
        try:
            return cls(
                ledger_id=str(value["ledger_id"]),
                name=str(value["name"]),
                seq=int(value["seq"]),
                key=str(value["key"]),
                charged=Cost.from_json(value["charged"]),
                cost=Cost.from_json(value["cost"]),
                head_hash=str(value["head_hash"]),
                created=str(value["created"]),
                fresh=False,
            )
        except (KeyError, TypeError, ValueError):
            raise PlanError("The receipt is incomplete or not a receipt.") from None


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """Where the one answer to a key is kept, and how to recognise it.

    `sha256` is the hash of its file, `manifest` that of the manifest within, which holds the hashes
    of all else: it tells the content whatever container it is in. None for what has no manifest,
    and in seals of older versions.
    """

    key: str
    sha256: str
    size: int
    location: str
    created: str
    manifest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the history."""

    seq: int
    kind: EntryKind
    key: str
    created: str
    charged: Cost
    detail: Mapping[str, Any] = field(default_factory=dict)
    previous: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "kind": self.kind,
            "key": self.key,
            "created": self.created,
            "charged": self.charged.to_json(),
            "detail": dict(self.detail),
            "previous": self.previous,
            "hash": self.hash,
        }


@dataclass(frozen=True, kw_only=True)
class Status:
    """The balance. `spent + remaining = cap` exactly; `cap` is the budget rounded down to the
    ledger's quantum.

    `protects` is whom the amounts speak of, None before the first debit that says it. `overspent`
    is what recovered copies are known to have spent beyond the cap.
    """

    ledger_id: str
    name: str
    budget: Budget
    cap: Cost
    spent: Cost
    remaining: Cost
    entries: int
    debits: int
    sealed: int
    head_seq: int
    head_hash: str
    created: str
    protects: Protects | None = None
    overspent: Cost = field(default_factory=Cost)
    witnesses: tuple[str, ...] = ()
    populations: tuple[str, ...] = ()
    """For whom it has paid, as far as this was recorded."""
    other_budgets: tuple[OtherBudget, ...] = ()
    """Other ledgers that pay for some of them."""

    @property
    def head_line(self) -> str:
        """The newest entry as one line of text, for `verify(head=...)`."""
        return f"{self.ledger_id}:{self.head_seq}:{self.head_hash}"

    def to_json(self) -> dict[str, Any]:
        return {
            "ledger_id": self.ledger_id,
            "name": self.name,
            "budget": self.budget.to_json(),
            "cap": self.cap.to_json(),
            "spent": self.spent.to_json(),
            "remaining": self.remaining.to_json(),
            "overspent": self.overspent.to_json(),
            "protects": {**self.protects.to_json(), "unit": self.protects.unit}
            if self.protects
            else None,
            "entries": self.entries,
            "debits": self.debits,
            "sealed": self.sealed,
            "head_seq": self.head_seq,
            "head_hash": self.head_hash,
            "head_line": self.head_line,
            "witnesses": list(self.witnesses),
            "populations": list(self.populations),
            "other_budgets": [other.to_json() for other in self.other_budgets],
            "created": self.created,
        }


class Ledger(abc.ABC):
    """One named budget. Every method raises `LedgerUnavailable` when the ledger cannot be read,
    trusted or written."""

    ledger_id: str
    name: str
    budget: Budget
    actor: Actor
    """Who is named in the entries that are made from now on."""
    news: tuple[str, ...] = ()
    """What opening it did that should be told: that a ledger was made."""

    @abc.abstractmethod
    def debit(
        self,
        key: str,
        cost: Cost,
        what: Mapping[str, object],
        *,
        rows_key: bytes | None = None,
        again: bool = True,
    ) -> Receipt:
        """Spend durably, at most once per key. `BudgetExceeded` when it does not fit, `BudgetError`
        when the key is taken.

        The first `what` that says "neighbours" and "unit" (or "unit_column") pins both for the
        ledger's life; a later one that says something else is a `BudgetError`. One that does not
        say pins nothing and is not checked. A ledger's first debit for a "population" (or, without
        one, a "dataset") that another ledger pays for is a `BudgetError` too, unless this one may
        be a second budget. Unless `again`, another key that paid for the same `what` and cost, and
        has or can still have its answer, is one too: its message names that key. `rows_key` is kept
        with the debit.
        """

    @abc.abstractmethod
    def require_payable(
        self, key: str, cost: Cost, what: Mapping[str, object], *, again: bool = True
    ) -> None:
        """Refuse what `debit` would refuse now, and spend nothing."""

    @abc.abstractmethod
    def run_again(self, key: str) -> int:
        """Record a further run of a paid key without an answer: its number, 2 or 3. `BudgetError`
        when a run has drawn or failed, or there were three."""

    @abc.abstractmethod
    def drawing(self, key: str) -> bool:
        """Say that noise is about to be drawn for a key. True for one call in the key's life, after
        every anchor has seen it: who gets False must not draw."""

    @abc.abstractmethod
    def failed(self, key: str) -> None:
        """Close a key whose run failed after rows were read: it does not run again."""

    @abc.abstractmethod
    def allow_second_budget(self) -> None:
        """Let this ledger pay for people that another one pays for. It is recorded for life."""

    @abc.abstractmethod
    def seal(
        self, key: str, *, sha256: str, size: int, location: str, manifest: str | None = None
    ) -> None:
        """Record the one answer of a paid key. Repeating the same hash does nothing; another hash
        is a `BudgetError`."""

    @abc.abstractmethod
    def answer(self, key: str) -> Sealed | None:
        """The sealed answer, or None when there is none (yet)."""

    @abc.abstractmethod
    def status(self) -> Status:
        """The balance."""

    @abc.abstractmethod
    def history(self) -> list[Entry]:
        """Every entry, oldest first."""

    @abc.abstractmethod
    def verify(self, *, head: str | None = None) -> Status:
        """Recompute the hash chain, the sums and the anchors; the balance when all agree.

        `head` is a line from an earlier `Status.head_line`: a ledger that lacks its entry is an
        older copy, and refused.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of connections. Later calls are refused."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
