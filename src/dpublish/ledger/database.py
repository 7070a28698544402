"""Connections to SQLite and PostgreSQL that are durable by construction, and their faults told in
words."""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.owned import make_owned
from dpublish.quiet import unlogged

T = TypeVar("T")

RETRY_SAFE = "Asking again with the same key is safe: it never pays twice."


@dataclass(frozen=True)
class Target:
    """Where a ledger lives. `path` for SQLite, `url` for PostgreSQL; `shown` carries no
    password."""

    shown: str
    path: Path | None = None
    url: URL | None = None


def parse_target(url: str | Path) -> Target:
    """Read `sqlite:///file`, a bare path, or `postgresql+psycopg://...`."""
    text = str(url)
    if isinstance(url, Path) or "://" not in text:
        if not text.strip() or text == ":memory:":
            raise PlanError(
                "A ledger must outlive the process: give a file such as adult.ledger, or a "
                "PostgreSQL URL."
            )
        return _file_target(Path(text))
    try:
        parsed = make_url(text)
    except (ArgumentError, ValueError):
        raise PlanError(
            "The ledger URL cannot be read. Use sqlite:///adult.ledger or "
            "postgresql+psycopg://host/database."
        ) from None
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise PlanError(
                "A ledger must outlive the process: give a file, such as sqlite:///adult.ledger."
            )
        if parsed.query:
            raise PlanError(
                "Options after '?' are not taken for an SQLite ledger; durability is not "
                "optional. Remove them."
            )
        return _file_target(Path(parsed.database))
    if parsed.get_backend_name() == "postgresql":
        if parsed.drivername not in ("postgresql", "postgresql+psycopg"):
            raise PlanError(
                f"The driver '{parsed.drivername}' is not supported. Use postgresql+psycopg://..."
            )
        parsed = parsed.set(drivername="postgresql+psycopg")
        return Target(shown=parsed.render_as_string(hide_password=True), url=parsed)
    raise PlanError(f"A ledger lives in SQLite or PostgreSQL, not '{parsed.get_backend_name()}'.")


def _file_target(path: Path) -> Target:
    try:
        home = path.expanduser()
    except RuntimeError:
        raise PlanError(
            f"The home folder that '{path}' speaks of is not known. Write the whole path of the "
            f"ledger."
        ) from None
    try:
        full = home.resolve()
        loops = full.is_symlink()  # newer Pythons stop there without a word
    except RuntimeError:
        loops = True
    if loops:
        raise PlanError(f"'{path}' leads through a symbolic link that leads back to itself.")
    return Target(shown=str(full), path=full)


def readable_by_others(target: Target) -> list[Path]:
    """Files of an SQLite ledger that were made by an earlier dpublish, or opened up since. Some
    curators share a ledger."""
    if target.path is None:
        return []
    files = [target.path.with_name(target.path.name + ending) for ending in ("", "-wal", "-shm")]
    return [file for file in files if file.exists() and file.stat().st_mode & 0o077]


@dataclass(frozen=True)
class Fault:
    """Why the database said no, in words; `passing` when another attempt may help."""

    words: str
    passing: bool = False


_SQLITE_FAULTS = {
    "SQLITE_FULL": Fault("the disk is full"),
    "SQLITE_BUSY": Fault("another process keeps it locked", passing=True),
    "SQLITE_LOCKED": Fault("another connection keeps it locked", passing=True),
    "SQLITE_CORRUPT": Fault("the file is damaged"),
    "SQLITE_NOTADB": Fault("the file is not a ledger, or is damaged"),
    "SQLITE_READONLY": Fault("the file or its folder cannot be written"),
    "SQLITE_CANTOPEN": Fault(
        "the file cannot be opened, or its folder cannot be written, which reading needs too"
    ),
    "SQLITE_PERM": Fault("access is denied"),
    "SQLITE_AUTH": Fault("access is denied"),
    "SQLITE_IOERR": Fault("the disk reports an error"),
    "SQLITE_CONSTRAINT": Fault("a rule of the ledger refused the change"),
}

_POSTGRES_FAULTS = {  # by SQLSTATE, the longest matching prefix wins
    "08": Fault("the connection was lost", passing=True),
    "23": Fault("a rule of the ledger refused the change"),
    "25P03": Fault("the server ended an idle transaction", passing=True),
    "28": Fault("the server refused the user or password"),
    "3D": Fault("the database does not exist"),
    "40": Fault("concurrent transactions collided", passing=True),
    "42501": Fault("the user lacks a permission"),
    "42P01": Fault("its tables are missing"),
    "53": Fault("the server is out of resources", passing=True),
    "53100": Fault("the server's disk is full"),
    "55P03": Fault("another process keeps it locked", passing=True),
    "57": Fault("the server is stopping or starting", passing=True),
    "58": Fault("the server reports a disk error"),
    "XX": Fault("the server reports damage"),
}


def classify(error: BaseException) -> Fault:
    """The words for a driver's exception. Its own text is never shown: it may quote hosts, users or
    statements."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        name = str(getattr(original, "sqlite_errorname", "") or "")
        known = (fault for prefix, fault in _SQLITE_FAULTS.items() if name.startswith(prefix))
        return next(known, Fault("the file cannot be used"))
    state = str(getattr(original, "sqlstate", "") or "")
    for length in (5, 2):
        if len(state) == 5 and state[:length] in _POSTGRES_FAULTS:
            return _POSTGRES_FAULTS[state[:length]]
    if isinstance(error, DBAPIError) and (
        error.connection_invalidated or type(error).__name__ == "OperationalError"
    ):
        return Fault("the server cannot be reached", passing=True)
    return Fault("the database refused an operation")


class Database:
    """An engine with the durability settings a ledger needs, safe across threads and forks."""

    def __init__(
        self, target: Target, *, patience: float, create: bool = False, role: str = "ledger"
    ) -> None:
        self.target = target
        self._role = role
        self.patience = patience
        self.postgres = target.url is not None
        self._pid = os.getpid()
        self._engine: Engine | None = (
            self._postgres_engine() if self.postgres else self._sqlite_engine(create)
        )

    def unavailable(self, words: str) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"The {self._role} at {self.target.shown} cannot be used: {words}. Nothing was "
            f"answered. {RETRY_SAFE}"
        )

    def attempt(self, work: Callable[[], T]) -> T:
        """Run `work`, again after passing faults until patience ends. The work must be safe to
        repeat."""
        deadline = time.monotonic() + self.patience
        pause = 0.01
        while True:
            try:
                return work()
            except (SQLAlchemyError, sqlite3.Error) as error:
                fault = classify(error)
                if not fault.passing or time.monotonic() + pause > deadline:
                    raise self.unavailable(fault.words) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def probe(self) -> None:
        """Connect once, without patience: a wrong host or password should be told at once."""
        try:
            with self._connected():
                pass
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise self.unavailable(classify(error).words) from None

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent snapshot."""
        with self._connected() as connection:
            if self.postgres:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends, or undone when it raises."""
        with self._connected() as connection:
            connection = connection.execution_options(ledger_writes=True)
            with connection.begin() as transaction:
                yield connection
                self._check_open_transaction(connection)
                transaction.commit()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose(close=os.getpid() == self._pid)
            self._engine = None

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if self._engine is None:
            raise LedgerUnavailable("The ledger was closed. Open it again.")
        if os.getpid() != self._pid:
            # A forked child must not use, nor close, its parent's connections.
            self._engine.dispose(close=False)
            self._pid = os.getpid()
        connection = self._engine.connect()
        # SQLite's waits are bounded by its busy timeout. A server that accepts requests and never
        # replies would hold the caller for ever, so its connection is cut; the key then decides
        # what happened.
        watch = threading.Timer(
            2 * self.patience + 1, _cut, args=(connection.connection.dbapi_connection,)
        )
        watch.daemon = True
        if self.postgres:
            watch.start()
        try:
            with connection:
                yield connection
        finally:
            watch.cancel()

    def _check_open_transaction(self, connection: Connection) -> None:
        """SQLite undoes a transaction by itself when the disk is full; COMMIT would then succeed
        and keep nothing."""
        raw = connection.connection.dbapi_connection
        if isinstance(raw, sqlite3.Connection) and not raw.in_transaction:
            raise self.unavailable("the transaction was undone by the database")

    def _sqlite_engine(self, create: bool) -> Engine:
        path, patience = self.target.path, self.patience
        if create and path is not None:
            with suppress(
                OSError
            ):  # SQLite says what is wrong; its log and index take the file's permissions
                make_owned(path)

        def connect() -> sqlite3.Connection:
            # The driver's own transaction control is off (isolation_level=None): BEGIN is sent by
            # the listener below. Its rollback() looks at in_transaction first, so a transaction
            # that SQLite already undid does not hide the cause.
            raw = sqlite3.connect(
                f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}",
                uri=True,
                timeout=patience,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                mode = raw.execute("PRAGMA journal_mode=WAL").fetchone()[0]
                raw.execute("PRAGMA synchronous=FULL")
                raw.execute("PRAGMA fullfsync=ON")
                raw.execute("PRAGMA foreign_keys=ON")
            except BaseException:
                raw.close()
                raise
            if mode != "wal":
                raw.close()
                raise self.unavailable(
                    "its file system does not support write-ahead logging; use a local disk"
                )
            return raw

        engine = unlogged(
            create_engine("sqlite://", creator=connect, poolclass=QueuePool, pool_timeout=patience)
        )

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            writes = connection.get_execution_options().get("ledger_writes", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        return engine

    def _postgres_engine(self) -> Engine:
        assert self.target.url is not None
        milliseconds = max(1, int(self.patience * 1000))
        try:
            engine = create_engine(
                self.target.url,
                isolation_level="READ COMMITTED",
                pool_timeout=self.patience,
                connect_args={
                    "connect_timeout": max(2, int(self.patience)),
                    "application_name": "dpublish-ledger",
                },
            )
        except (ModuleNotFoundError, NoSuchModuleError):
            raise PlanError(
                "A PostgreSQL ledger needs the driver: pip install 'dpublish[postgres]'."
            ) from None

        unlogged(engine)

        @event.listens_for(engine, "connect")
        def settle(raw: Any, record: object) -> None:
            raw.autocommit = True
            with raw.cursor() as cursor:
                # A server may acknowledge commits early, or wait for locks for ever; a ledger may
                # not.
                cursor.execute("SHOW synchronous_commit")
                if cursor.fetchone()[0] == "off":
                    cursor.execute("SET synchronous_commit = on")
                cursor.execute(f"SET lock_timeout = {milliseconds}")
                cursor.execute(f"SET idle_in_transaction_session_timeout = {10 * milliseconds}")
                cursor.execute("SHOW fsync")
                safe = cursor.fetchone()[0] == "on"
            raw.autocommit = False
            if not safe:
                raise self.unavailable(
                    "the server runs with fsync = off and would forget debits in a crash"
                )

        return engine


def _cut(raw: Any) -> None:
    """End a connection from another thread: the waiting thread sees it as lost."""
    with (
        suppress(Exception),
        socket.socket(fileno=os.dup(raw.fileno())) as end,
    ):  # it may be gone already
        end.shutdown(socket.SHUT_RDWR)
