"""Whom a ledger speaks of: one privacy unit and one neighbour relation, pinned by its first debit
that names them.

Epsilons add up only when they protect the same unit under the same relation: for a person with ten
rows, epsilon 1 for a single row is epsilon 10. How many rows of a unit a release uses may differ;
its cost is for the whole unit either way.

The pin is carried from entry to entry, inside `detail`, so the newest entry alone tells it, as it
alone tells the balance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
