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
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
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

Row = Mapping[str, Any]
BEGINNING = "0" * 64


class StoreUnavailable(PublishError):
    """The service's tables cannot be read or written."""

    exit_code = 4


def now() -> str:
    """This moment, as text that sorts by time."""
    return later()


def later(**given: float) -> str:
    """So much later than this moment."""
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
        self,
        table: Table,
        *conditions: ColumnElement[bool],
        newest: str | None = None,
        most: int | None = None,
        **given: Any,
    ) -> list[Row]:
        """Rows whose columns have these values; the newest by a column first, where it is given."""
        same = [table.c[name] == value for name, value in given.items()]
        asked = select(table).where(*conditions, *same).limit(most)
        if newest is not None:
            asked = asked.order_by(table.c[newest].desc())
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

    def add(
        self, table: Table, row: Row, *, by: str, action: str, subject: str, **detail: Any
    ) -> None:
        """A new row, and a line in the log of actions, together."""
        with self.change() as connection:
            connection.execute(insert(table).values(**row))
            record(connection, actor=by, action=action, subject=subject, **detail)

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
        older = [] if before is None else [ACTIONS.c.seq < before]
        return self.rows(ACTIONS, *older, newest="seq", most=most)

    def broken_action(self) -> int | None:
        """The first line of the log that does not follow from the one before it; None: all do."""
        previous = BEGINNING
        for row in reversed(self.actions()):
            if row["previous"] != previous or row["hash"] != _hash(row):
                return int(row["seq"])
            previous = row["hash"]
        return None


def picked(row: Row, *names: str) -> dict[str, Any]:
    """These columns of a row, in this order."""
    return {name: row[name] for name in names}


def set_rows(
    connection: Connection, table: Table, where: Mapping[str, Any], values: Mapping[str, Any]
) -> int:
    same = [table.c[name] == value for name, value in where.items()]
    return connection.execute(update(table).where(*same).values(**values)).rowcount


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


# The service's own tables, and the numbered steps that lead an older database to them. A step is
# never changed once it was delivered: what is new is a new step at the end. A test holds what the
# steps make against the tables that are declared here, on SQLite and PostgreSQL.


META: Final = MetaData()


def _table(name: str, key: str, *columns: str) -> Table:
    """Columns are NAME (text), NAME# (number) or NAME! (yes or no); with ? they may be null."""
    return Table(
        name, META, *[_column(one, primary=one.strip("#") in key.split()) for one in columns]
    )


def _column(word: str, *, primary: bool) -> Column[object]:
    name = word.rstrip("?#!")
    marks = word[len(name) :]
    kind = BigInteger if "#" in marks else Boolean if "!" in marks else Text
    return Column(name, kind, primary_key=primary, nullable="?" in marks)


STEPS_DONE = Table(
    "steps_done",
    META,
    Column("step", Integer, primary_key=True),
    Column("done", Text, nullable=False),
)
ACCOUNTS = _table(
    "accounts", "id", "id", "name", "shown", "password?", "subject?", "roles", "active!", "created"
)
"""`roles`: words apart by blanks. `subject`: who an identity provider says it is."""
TOKENS = _table(
    "tokens", "id", "id", "account", "name", "hash", "roles", "created", "expires", "ended?"
)
LINKS = _table("links", "hash", "hash", "account", "expires", "used?")
"""One-time links: the first person's at the start, and invitations."""
LOGINS = _table("logins", "hash", "hash", "account", "bound", "created", "seen", "expires")
DATASETS = _table(
    "datasets", "name",
    "name", "title", "place", "item", "population", "digest?", "created", "creator", "removed?",
)  # fmt: skip
"""`item`: a file or table of the place. `population`: the named ledger that pays. `digest`: of the
schema in force."""
SCHEMAS = _table("schemas", "dataset digest", "dataset", "digest", "toml", "created", "creator")
PROPOSALS = _table(
    "proposals", "id",
    "id", "dataset", "release", "title", "request", "state", "proposer", "created", "why?",
    "decider?", "decided?", "reason?", "job?", "two_person!",
)  # fmt: skip
"""`request`: a request of `dpublish.requests` as JSON. `state`: proposed, approved, rejected,
retracted."""
JOBS = _table(
    "jobs", "id",
    "id", "subject", "requests", "state", "step?", "actor", "created", "started?", "ended?",
    "results?", "error?", "pid#?", "spent!",
)  # fmt: skip
"""`state`: waiting, running, done, failed, cancelled, lost. `spent`: whether the ledger may have
been debited. `error`: what may be shown of a failure."""
RELEASES = _table(
    "releases", "name",
    "name", "dataset", "title", "job", "state", "created", "creator", "published?", "withdrawn?",
    "reason?", "facts?",
)  # fmt: skip
"""`state`: making, made, failed, publishing, published, withdrawn. `facts`: public facts of the
manifest, as JSON."""
DESKS = _table(
    "desks", "name",
    "name", "dataset", "title", "job", "state", "created", "creator", "closed?",
)  # fmt: skip
"""Query desks. Their answers are kept by the session's own folder, not here."""
SEATS = _table("seats", "desk account", "desk", "account", "allowed#", "asked#", "hard#")
"""Who may ask at a desk, how many questions, and how many were asked."""
BUDGETS = _table("budgets", "name", "name", "title", "amount", "created", "creator")
"""Named ledgers that were opened here. `amount` is for people; what counts is in the ledger."""
ACTIONS = Table(
    "actions",
    META,
    Column("seq", BigInteger, primary_key=True, autoincrement=True),
    *[
        Column(name, Text, nullable=False)
        for name in ("at", "actor", "action", "subject", "detail")
    ],
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
"""Who did what, when: appended to and never changed. Each line holds the hash of the one before."""


def _first(connection: Connection) -> None:
    kind = {"sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT"}.get(
        connection.dialect.name, "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
    )
    for statement in _FIRST.format(serial=kind).split(";"):
        if statement.strip():
            connection.execute(text(statement))
    for statement in _KEPT[connection.dialect.name]:
        connection.exec_driver_sql(statement)


def _budgets(connection: Connection) -> None:
    connection.execute(
        text(
            "CREATE TABLE budgets (name TEXT PRIMARY KEY, title TEXT NOT NULL, "
            "amount TEXT NOT NULL, created TEXT NOT NULL, creator TEXT NOT NULL)"
        )
    )


_FIRST = """
CREATE TABLE accounts (id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, shown TEXT NOT NULL,
  password TEXT, subject TEXT UNIQUE, roles TEXT NOT NULL, active BOOLEAN NOT NULL,
  created TEXT NOT NULL);
CREATE TABLE tokens (id TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts (id),
  name TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, roles TEXT NOT NULL, created TEXT NOT NULL,
  expires TEXT NOT NULL, ended TEXT);
CREATE TABLE links (hash TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts (id),
  expires TEXT NOT NULL, used TEXT);
CREATE TABLE logins (hash TEXT PRIMARY KEY, account TEXT NOT NULL REFERENCES accounts (id),
  bound TEXT NOT NULL, created TEXT NOT NULL, seen TEXT NOT NULL, expires TEXT NOT NULL);
CREATE TABLE datasets (name TEXT PRIMARY KEY, title TEXT NOT NULL, place TEXT NOT NULL,
  item TEXT NOT NULL, population TEXT NOT NULL, digest TEXT, created TEXT NOT NULL,
  creator TEXT NOT NULL, removed TEXT);
CREATE TABLE schemas (dataset TEXT NOT NULL REFERENCES datasets (name), digest TEXT NOT NULL,
  toml TEXT NOT NULL, created TEXT NOT NULL, creator TEXT NOT NULL, PRIMARY KEY (dataset, digest));
CREATE TABLE proposals (id TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name),
  release TEXT NOT NULL, title TEXT NOT NULL, request TEXT NOT NULL, state TEXT NOT NULL,
  proposer TEXT NOT NULL, created TEXT NOT NULL, why TEXT, decider TEXT, decided TEXT, reason TEXT,
  job TEXT, two_person BOOLEAN NOT NULL);
CREATE TABLE jobs (id TEXT PRIMARY KEY, subject TEXT NOT NULL, requests TEXT NOT NULL,
  state TEXT NOT NULL, step TEXT, actor TEXT NOT NULL, created TEXT NOT NULL, started TEXT,
  ended TEXT, results TEXT, error TEXT, pid BIGINT, spent BOOLEAN NOT NULL);
CREATE TABLE releases (name TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name),
  title TEXT NOT NULL, job TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL,
  creator TEXT NOT NULL, published TEXT, withdrawn TEXT, reason TEXT, facts TEXT);
CREATE TABLE desks (name TEXT PRIMARY KEY, dataset TEXT NOT NULL REFERENCES datasets (name),
  title TEXT NOT NULL, job TEXT NOT NULL, state TEXT NOT NULL, created TEXT NOT NULL,
  creator TEXT NOT NULL, closed TEXT);
CREATE TABLE seats (desk TEXT NOT NULL REFERENCES desks (name),
  account TEXT NOT NULL REFERENCES accounts (id), allowed BIGINT NOT NULL, asked BIGINT NOT NULL,
  hard BIGINT NOT NULL, PRIMARY KEY (desk, account));
CREATE TABLE actions (seq {serial}, at TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
  subject TEXT NOT NULL, detail TEXT NOT NULL, previous TEXT NOT NULL UNIQUE, hash TEXT NOT NULL)
"""

_KEPT = {
    "sqlite": [
        f"CREATE TRIGGER actions_no_{verb} BEFORE {verb} ON actions "
        "BEGIN SELECT RAISE(ABORT, 'the log of actions is only appended to'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "postgresql": [
        "CREATE FUNCTION actions_kept() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the log of actions is only appended to'; END $$",
        "CREATE TRIGGER actions_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON actions "
        "FOR EACH STATEMENT EXECUTE FUNCTION actions_kept()",
    ],
}

STEPS: Final = (_first, _budgets)
"""In order; a database notes each step that it has seen."""
