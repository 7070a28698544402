"""Direct access to a ledger's tables, as an attacker or a careless operator would have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import create_engine, text

TRIGGERS = {
    "sqlite": [
        "dpublish_entries_update",
        "dpublish_entries_delete",
        "dpublish_ledgers_update",
        "dpublish_ledgers_delete",
    ],
    "postgresql": ["dpublish_entries", "dpublish_ledgers"],
}


def execute(url: str, *statements: str, unprotected: bool = False) -> list[Any]:
    """Run statements; `unprotected` removes the triggers first. Rows of the last statement."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            if unprotected:
                for name in TRIGGERS[engine.dialect.name]:
                    drop = (
                        f"DROP TRIGGER {name}"
                        if engine.dialect.name == "sqlite"
                        else f"ALTER TABLE {name} DISABLE TRIGGER USER"
                    )
                    connection.execute(text(drop))
            rows: list[Any] = []
            for statement in statements:
                result = connection.execute(text(statement))
                rows = list(result) if result.returns_rows else []
            return rows
    finally:
        engine.dispose()
