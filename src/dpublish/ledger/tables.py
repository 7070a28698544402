"""Tables of a ledger database and the migrations that made them. Migrations are numbered, forward
only and never edited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
)

from dpublish.errors import LedgerUnavailable

metadata = MetaData()

schema_versions = Table("dpublish_schema", metadata, Column("version", Integer, primary_key=True))

ledgers = Table(
    "dpublish_ledgers",
    metadata,
    Column("ledger_id", Text, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("cap_epsilon", BigInteger, nullable=False),
    Column("cap_delta", BigInteger, nullable=False),
    Column("cap_rho", BigInteger, nullable=False),
    Column("spent_epsilon", BigInteger, nullable=False),
    Column("spent_delta", BigInteger, nullable=False),
    Column("spent_rho", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
)

entries = Table(
    "dpublish_entries",
    metadata,
    Column("ledger_id", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("charged_epsilon", BigInteger, nullable=False),
    Column("charged_delta", BigInteger, nullable=False),
    Column("charged_rho", BigInteger, nullable=False),
    Column("record", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

_TABLES_V1: Final = (
    "CREATE TABLE dpublish_schema (version INTEGER PRIMARY KEY)",
    """CREATE TABLE dpublish_ledgers (
        ledger_id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        cap_epsilon BIGINT NOT NULL, cap_delta BIGINT NOT NULL, cap_rho BIGINT NOT NULL,
        spent_epsilon BIGINT NOT NULL CHECK (spent_epsilon BETWEEN 0 AND cap_epsilon),
        spent_delta BIGINT NOT NULL CHECK (spent_delta BETWEEN 0 AND cap_delta),
        spent_rho BIGINT NOT NULL CHECK (spent_rho BETWEEN 0 AND cap_rho),
        seq BIGINT NOT NULL CHECK (seq >= 0)
    )""",
    """CREATE TABLE dpublish_entries (
        ledger_id TEXT NOT NULL REFERENCES dpublish_ledgers (ledger_id),
        seq BIGINT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        charged_epsilon BIGINT NOT NULL, charged_delta BIGINT NOT NULL, charged_rho BIGINT NOT NULL,
        record TEXT NOT NULL,
        hash TEXT NOT NULL,
        PRIMARY KEY (ledger_id, seq),
        UNIQUE (ledger_id, kind, key)
    )""",
)

# A head row moves forward one entry at a time and never gives anything back.
_BACKWARDS: Final = (
    "NEW.ledger_id <> OLD.ledger_id OR NEW.name <> OLD.name OR NEW.seq <> OLD.seq + 1"
    " OR NEW.cap_epsilon <> OLD.cap_epsilon OR NEW.cap_delta <> OLD.cap_delta OR NEW.cap_rho <> "
    "OLD.cap_rho"
    " OR NEW.spent_epsilon < OLD.spent_epsilon OR NEW.spent_delta < OLD.spent_delta OR "
    "NEW.spent_rho < OLD.spent_rho"
)

_SQLITE_V1: Final = (
    *_TABLES_V1,
    """CREATE TRIGGER dpublish_entries_update BEFORE UPDATE ON dpublish_entries
        BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END""",
    """CREATE TRIGGER dpublish_entries_delete BEFORE DELETE ON dpublish_entries
        BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END""",
    f"""CREATE TRIGGER dpublish_ledgers_update BEFORE UPDATE ON dpublish_ledgers WHEN {_BACKWARDS}
        BEGIN SELECT RAISE(ABORT, 'a ledger only moves forward'); END""",
    """CREATE TRIGGER dpublish_ledgers_delete BEFORE DELETE ON dpublish_ledgers
        BEGIN SELECT RAISE(ABORT, 'a ledger cannot be deleted'); END""",
)

_POSTGRES_V1: Final = (
    *_TABLES_V1,
    """CREATE FUNCTION dpublish_refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION USING MESSAGE = ''ledger rows are append-only'', ERRCODE = ''restrict_violation''; END'""",
    """CREATE TRIGGER dpublish_entries_change BEFORE UPDATE OR DELETE ON dpublish_entries
        FOR EACH ROW EXECUTE FUNCTION dpublish_refuse()""",
    """CREATE TRIGGER dpublish_entries_truncate BEFORE TRUNCATE ON dpublish_entries
        FOR EACH STATEMENT EXECUTE FUNCTION dpublish_refuse()""",
    f"""CREATE TRIGGER dpublish_ledgers_update BEFORE UPDATE ON dpublish_ledgers
        FOR EACH ROW WHEN ({_BACKWARDS}) EXECUTE FUNCTION dpublish_refuse()""",
    """CREATE TRIGGER dpublish_ledgers_delete BEFORE DELETE ON dpublish_ledgers
        FOR EACH ROW EXECUTE FUNCTION dpublish_refuse()""",
    """CREATE TRIGGER dpublish_ledgers_truncate BEFORE TRUNCATE ON dpublish_ledgers
        FOR EACH STATEMENT EXECUTE FUNCTION dpublish_refuse()""",
)

# Migration n takes a database from version n - 1 to version n: (statements for SQLite, statements
# for PostgreSQL). Version 2 has the same tables; its entries carry the unit and relation they speak
# of. A dpublish of version 1 would not check them, and refuses. Version 3 has the same tables; a
# ledger may have witnesses, which an earlier dpublish would not hear. Version 4 takes names that
# differ in case and blanks for one. Version 5 has entries that say for whom a ledger pays, which an
# earlier dpublish would not look at. Version 6 says in every entry who made it, also in the first,
# where an earlier dpublish expects nothing besides name and budget.
MIGRATIONS: list[tuple[Sequence[str], Sequence[str]]] = [
    (_SQLITE_V1, _POSTGRES_V1),
    ((), ()),
    ((), ()),
    ((), ()),
    ((), ()),
    ((), ()),
]

_MIGRATION_LOCK: Final = (
    0x6470_7562  # one advisory lock per PostgreSQL database while tables are made
)


def version(connection: Connection) -> int:
    """0 when the database has no ledger tables."""
    if not inspect(connection).has_table(schema_versions.name):
        return 0
    return int(connection.execute(select(func.max(schema_versions.c.version))).scalar_one() or 0)


def refuse_newer(found: int) -> None:
    if found > len(MIGRATIONS):
        raise LedgerUnavailable(
            f"The ledger has format {found}; this dpublish knows formats up to {len(MIGRATIONS)}. "
            f"Use a newer dpublish."
        )


def migrate(connection: Connection, newest: int | None = None) -> None:
    """Bring the tables up to date, or to a version, inside the caller's write transaction."""
    postgres = connection.dialect.name == "postgresql"
    if postgres:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
    found = version(connection)
    refuse_newer(found)
    for number, statements in enumerate(MIGRATIONS[found:newest], start=found + 1):
        for statement in statements[1 if postgres else 0]:
            connection.execute(text(statement))
        connection.execute(insert(schema_versions).values(version=number))
