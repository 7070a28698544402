"""The hash chain: each record names the hash of the record before it, so no past entry can change
unnoticed; and the amounts in it.

Amounts are whole numbers, so that a database can compare them exactly. Epsilon and rho are counted
in units of 1e-15, delta in units of 1e-18; both fit 64-bit integers. Costs are rounded up and caps
down: the true spending is never above what the ledger shows.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.privacy.cost import Budget, Cost

FORMAT: Final = 1
START: Final = "0" * 64  # what the first record calls its predecessor

EPSILON_QUANTUM: Final = Fraction(1, 10**15)
RHO_QUANTUM: Final = Fraction(1, 10**15)
DELTA_QUANTUM: Final = Fraction(1, 10**18)
LARGEST: Final = 2**63 - 1


class Quanta(NamedTuple):
    """Three whole numbers of quanta."""

    epsilon: int = 0
    delta: int = 0
    rho: int = 0

    @classmethod
    def of_cost(cls, cost: Cost) -> Quanta:
        """The smallest amounts that cover the cost."""
        return cls(
            math.ceil(cost.epsilon / EPSILON_QUANTUM),
            math.ceil(cost.delta / DELTA_QUANTUM),
            math.ceil(cost.rho / RHO_QUANTUM),
        )

    @classmethod
    def of_cap(cls, budget: Budget) -> Quanta:
        """The largest amounts within the budget."""
        cap = budget.cap
        amounts = cls(
            math.floor(cap.epsilon / EPSILON_QUANTUM),
            math.floor(cap.delta / DELTA_QUANTUM),
            math.floor(cap.rho / RHO_QUANTUM),
        )
        if max(amounts) > LARGEST:
            raise PlanError(
                "A ledger holds at most epsilon or rho = 9223. A budget that large protects "
                "nobody; give a smaller one."
            )
        if amounts.epsilon == 0 and amounts.rho == 0:
            raise PlanError(
                "The budget is below the smallest amount a ledger counts, 1e-15. Give a larger one."
            )
        return amounts

    def cost(self) -> Cost:
        return Cost(
            epsilon=self.epsilon * EPSILON_QUANTUM,
            delta=self.delta * DELTA_QUANTUM,
            rho=self.rho * RHO_QUANTUM,
        )

    def plus(self, other: Quanta) -> Quanta:
        return Quanta(self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho)

    def minus(self, other: Quanta) -> Quanta:
        return Quanta(self.epsilon - other.epsilon, self.delta - other.delta, self.rho - other.rho)

    def within(self, other: Quanta) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta and self.rho <= other.rho

    def beyond(self, other: Quanta) -> Quanta:
        """What this has above the other, component by component."""
        return Quanta(
            max(self.epsilon - other.epsilon, 0),
            max(self.delta - other.delta, 0),
            max(self.rho - other.rho, 0),
        )


def now() -> str:
    """The clock of the ledger, to the second, in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def token() -> str:
    """A fresh name for a ledger or an attempt. No privacy rests on it."""
    return secrets.token_hex(16)


def canonical(value: object) -> str:
    """One text for one value: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def plain(value: object, where: str = "what") -> Any:
    """The value as JSON holds it. Fractions and decimals become text, tuples lists; anything
    unclear is refused."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise PlanError(f"{where} holds {value}, which JSON cannot carry. Use a finite number.")
        return value
    if isinstance(value, Fraction | Decimal):
        return str(value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise PlanError(f"{where} has the key {name!r}; keys must be text.")
        return {name: plain(item, f"{where}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    raise PlanError(f"{where} holds a {type(value).__name__}; only JSON values can be recorded.")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One link of the chain. `spent` is the total after this record, so the head alone proves the
    balance."""

    ledger_id: str
    seq: int
    kind: str
    key: str
    created: str
    previous: str
    charged: Quanta
    spent: Quanta
    detail: Mapping[str, Any]

    def text(self) -> str:
        return canonical(
            {
                "format": FORMAT,
                "ledger": self.ledger_id,
                "seq": self.seq,
                "kind": self.kind,
                "key": self.key,
                "created": self.created,
                "previous": self.previous,
                "charged": list(self.charged),
                "spent": list(self.spent),
                "detail": dict(self.detail),
            }
        )

    @classmethod
    def read(cls, text: str, expected_hash: str) -> Record:
        """Parse a stored record after checking its hash."""
        broken = LedgerUnavailable(
            "An entry of the ledger does not match its hash: the ledger was altered or damaged. "
            "Nothing was spent. "
            "Put an unaltered copy back, or start a new ledger and count the old budget as spent."
        )
        if not isinstance(text, str) or not text.isascii() or digest(text) != expected_hash:
            raise broken
        try:
            value = json.loads(text)
            record = cls(
                ledger_id=value["ledger"],
                seq=value["seq"],
                kind=value["kind"],
                key=value["key"],
                created=value["created"],
                previous=value["previous"],
                charged=Quanta(*value["charged"]),
                spent=Quanta(*value["spent"]),
                detail=value["detail"],
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            raise broken from None
        # whoever alters a record can hash it anew, so the hash does not vouch for the types
        words = (record.ledger_id, record.kind, record.key, record.created, record.previous)
        numbers = (record.seq, *record.charged, *record.spent)
        typed = all(isinstance(one, str) for one in words) and all(
            type(one) is int for one in numbers
        )
        if not typed or not isinstance(record.detail, dict):
            raise broken
        return record
