"""The hash chain: each record names the hash of the record before it, so no past entry can change
unnoticed."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.ledger.quanta import Quanta

FORMAT: Final = 1
START: Final = "0" * 64  # what the first record calls its predecessor


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
