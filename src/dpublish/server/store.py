"""The service's own database: opening, migrating, reading, writing, and the log of actions.

It holds no rows, no answers and no budget. SQLite by default, PostgreSQL by address. What is spent
is the ledger's alone: this database may be lost, and no budget comes back.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Connection,
    Engine,
    Table,
    and_,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from dpublish.errors import InputError, PublishError
from dpublish.owned import make_owned
from dpublish.server.tables import ACTIONS, STEPS, STEPS_DONE

Row = Mapping[str, Any]
BEGINNING = "0" * 64


class StoreUnavailable(PublishError):
    """The service's tables cannot be read or written."""

    exit_code = 4


def now() -> str:
    """This moment, as text that sorts by time."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def later(**given: float) -> str:
    moment = dt.datetime.now(dt.UTC) + dt.timedelta(**given)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Store:
    """The open database. Safe to use from several threads and processes."""

    def __init__(self, url: str) -> None:
        self.engine = _engine(url)
        try:
            with self.change() as connection:
                _migrate(connection)
        except SQLAlchemyError as error:
            raise StoreUnavailable(
                f"The service's database cannot be opened ({type(error).__name__})."
            ) from None

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def look(self) -> Iterator[Connection]:
        """For reading."""
        with self.engine.connect() as connection:
            yield connection

    @contextmanager
    def change(self) -> Iterator[Connection]:
        """For writing: all of it or nothing. SQLite has one writer at a time."""
        with self.engine.execution_options(writes=True).begin() as connection:
            yield connection

    def rows(
        self, table: Table, *, newest: str | None = None, most: int | None = None, **given: Any
    ) -> list[Row]:
        """Rows whose columns have these values; the newest by a column first, where it is given."""
        asked = select(table).where(*[table.c[name] == value for name, value in given.items()])
        if newest is not None:
            asked = asked.order_by(table.c[newest].desc())
        if most is not None:
            asked = asked.limit(most)
        with self.look() as connection:
            return [dict(row) for row in connection.execute(asked).mappings()]

    def one(self, table: Table, **given: Any) -> Row | None:
        found = self.rows(table, most=1, **given)
        return found[0] if found else None

    def known(self, table: Table, what: str, **given: Any) -> Row:
        """The row that must be there, or a refusal that says what is not."""
        row = self.one(table, **given)
        if row is None:
            raise InputError(f"There is no such {what}.")
        return row

    def add(self, table: Table, *, by: str, action: str, subject: str, **values: Any) -> None:
        """A new row, and a line in the log of actions, together."""
        with self.change() as connection:
            connection.execute(insert(table).values(**values))
            record(connection, actor=by, action=action, subject=subject)

    def set(self, table: Table, where: Mapping[str, Any], values: Mapping[str, Any]) -> int:
        """Change rows that have these values; how many there were. A guard against races is part of
        `where`: what is no longer so is not changed."""
        with self.change() as connection:
            return set_rows(connection, table, where, values)

    def did(self, actor: str, action: str, subject: str, **detail: Any) -> None:
        """A line in the log of actions."""
        with self.change() as connection:
            record(connection, actor=actor, action=action, subject=subject, **detail)

    def actions(self, *, most: int | None = None, before: int | None = None) -> list[Row]:
        """The log, the newest first."""
        asked = select(ACTIONS).order_by(ACTIONS.c.seq.desc())
        asked = asked if before is None else asked.where(ACTIONS.c.seq < before)
        asked = asked if most is None else asked.limit(most)
        with self.look() as connection:
            return [dict(row) for row in connection.execute(asked).mappings()]

    def broken_action(self) -> int | None:
        """The first line of the log that does not follow from the one before it; None: all do."""
        previous = BEGINNING
        for row in reversed(self.actions()):
            if row["previous"] != previous or row["hash"] != _hash(row):
                return int(row["seq"])
            previous = row["hash"]
        return None


def set_rows(
    connection: Connection, table: Table, where: Mapping[str, Any], values: Mapping[str, Any]
) -> int:
    held = and_(*[table.c[name] == value for name, value in where.items()])
    return connection.execute(update(table).where(held).values(**values)).rowcount


def record(connection: Connection, *, actor: str, action: str, subject: str, **detail: Any) -> None:
    """Append to the log of actions, within a change. Public facts only: never a row, never a
    secret."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE actions IN EXCLUSIVE MODE"))
    newest = connection.execute(
        select(ACTIONS.c.hash).order_by(ACTIONS.c.seq.desc()).limit(1)
    ).scalar()
    line: dict[str, Any] = {
        "at": now(),
        "actor": actor,
        "action": action,
        "subject": subject,
        "detail": json.dumps(detail, sort_keys=True, ensure_ascii=False, default=str),
        "previous": newest or BEGINNING,
    }
    connection.execute(insert(ACTIONS).values(**line, hash=_hash(line)))


def _hash(line: Row) -> str:
    parts = [line[name] for name in ("at", "actor", "action", "subject", "detail", "previous")]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _engine(url: str) -> Engine:
    if url.startswith("postgresql://"):
        url = "postgresql+psycopg://" + url.removeprefix("postgresql://")
    try:
        if not url.startswith("sqlite"):
            return create_engine(url, pool_pre_ping=True, pool_size=10, max_overflow=20)
        if "///" in url:  # a file, for its owner alone; its companions take after it
            make_owned(Path(url.partition("///")[2].partition("?")[0]))
        made = create_engine(url, connect_args={"timeout": 30, "check_same_thread": False})
    except (SQLAlchemyError, ImportError) as error:
        raise InputError(
            f"The service's database address is not understood ({type(error).__name__})."
        ) from None

    @event.listens_for(made, "begin")
    def _begin(connection: Connection) -> None:
        # a reader that turns writer would find the database changed under it: say so at the start
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    @event.listens_for(made, "connect")
    def _settings(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where `_begin` says
        for word in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "busy_timeout=30000",
        ):
            connection.execute(f"PRAGMA {word}")

    return made


def _migrate(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(76431)"))
    if not inspect(connection).has_table(STEPS_DONE.name):
        STEPS_DONE.create(connection)
    done = set(connection.execute(select(STEPS_DONE.c.step)).scalars())
    if done and max(done) > len(STEPS):
        raise StoreUnavailable(
            "The service's database was made by a newer version of dpublish. Nothing was changed."
        )
    for number, step in enumerate(STEPS, start=1):
        if number not in done:
            step(connection)
            connection.execute(insert(STEPS_DONE).values(step=number, done=now()))
