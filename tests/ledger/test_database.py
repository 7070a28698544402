"""Ledgers that cannot be used say why in words, and never show a driver's text."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import psycopg
import pytest
from raw import execute
from sqlalchemy.exc import OperationalError

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.ledger import chain, open_ledger
from dpublish.ledger.database import Database, classify, parse_target
from dpublish.privacy.cost import Budget, Cost
from pg import Postgres

BUDGET = Budget(epsilon=1)
TENTH = Cost.pure("0.1")


def refused(url: str | Path, match: str) -> None:
    with pytest.raises(LedgerUnavailable, match=match) as caught:
        open_ledger(url)
    assert caught.value.__cause__ is None
    assert "sqlalchemy" not in str(caught.value).lower()
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("odd", ["'x'", "x'6161'", "1.5", "'[]'"])
@pytest.mark.parametrize(
    "column", ["ledgers.name", "ledgers.seq", "ledgers.cap_rho", "ledgers.spent_delta"]
)
def test_columns_of_another_type_are_refused_in_words(
    tmp_path: Path, column: str, odd: str
) -> None:
    """SQLite keeps whatever is put into a column of whole numbers."""
    path = tmp_path / "a.ledger"
    open_ledger(path, budget=BUDGET, create=True).close()
    table, _, name = column.partition(".")
    change = f"UPDATE dpublish_{table} SET {name} = {odd}"
    execute(f"sqlite:///{path}", "PRAGMA ignore_check_constraints = ON", change, unprotected=True)
    refused(path, "altered|no ledger")


@pytest.mark.parametrize(
    "change",
    [
        {"seq": "1"},
        {"charged": ["a", 0, 0]},
        {"spent": [0, 0]},
        {"spent": [0.5, 0, 0]},
        {"detail": 7},
        {"detail": {}},
        {"detail": {"budget": {"epsilon": "1/0"}}},
        {"key": None},
    ],
    ids=str,
)
def test_records_of_another_form_are_refused_in_words(
    tmp_path: Path, change: dict[str, object]
) -> None:
    """Their hashes may be right: whoever alters a record can hash it anew."""
    path = tmp_path / "a.ledger"
    open_ledger(path, budget=BUDGET, create=True).close()
    url = f"sqlite:///{path}"
    record = json.loads(execute(url, "SELECT record FROM dpublish_entries")[0][0])
    text = chain.canonical({**record, **change})
    # a colon would name a parameter
    written, digest = (
        f"cast(x'{one.encode().hex()}' AS TEXT)" for one in (text, chain.digest(text))
    )
    execute(
        url, f"UPDATE dpublish_entries SET record = {written}, hash = {digest}", unprotected=True
    )
    refused(path, "altered")


@pytest.mark.parametrize(
    "url",
    [
        "",
        ":memory:",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///a?mode=ro",
        "mysql://h/d",
        "postgresql+asyncpg://h/d",
        "x://y:z:q@",
    ],
)
def test_urls_that_cannot_hold_a_ledger(url: str) -> None:
    with pytest.raises(PlanError):
        open_ledger(url, budget=BUDGET, create=True)


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (
        "a.ledger",
        "sqlite:///a.ledger",
        f"sqlite:///{tmp_path}/a.ledger",
        str(tmp_path / "a.ledger"),
    ):
        assert parse_target(text).path == tmp_path / "a.ledger"
    target = parse_target("postgresql://me:secret@db/d")
    assert target.url is not None
    assert target.url.drivername == "postgresql+psycopg"
    assert "secret" not in target.shown


def test_files_that_are_no_ledger(folder: Path) -> None:
    refused(folder / "missing.ledger", "There is no ledger")
    (folder / "text").write_text("not a database, but long enough to look at " * 100)
    refused(folder / "text", "not a ledger, or is damaged")
    (folder / "empty").write_bytes(b"")
    refused(folder / "empty", "There is no ledger")
    sqlite3.connect(folder / "other").execute("CREATE TABLE t (x)").connection.close()
    refused(folder / "other", "There is no ledger")
    refused(folder, "cannot be opened")
    with pytest.raises(LedgerUnavailable, match="folder"):
        open_ledger(folder / "no" / "such" / "a.ledger", budget=BUDGET, create=True)


def test_odd_file_names(folder: Path) -> None:
    for name in ("a b.ledger", "100%?.ledger", "é#.ledger"):
        with open_ledger(folder / name, budget=BUDGET, create=True) as ledger:
            ledger.debit("k", TENTH, {})
        assert (folder / name).exists()
        assert open_ledger(folder / name).status().spent == TENTH


def test_a_damaged_file(folder: Path) -> None:
    path = folder / "a.ledger"
    with open_ledger(path, budget=BUDGET, create=True) as ledger:
        for i in range(10):
            ledger.debit(f"k{i}", TENTH, {"text": "x" * 2000})
    content = bytearray(path.read_bytes())
    assert len(content) > 5 * 4096
    for page in range(1, len(content) // 4096):
        content[page * 4096 : page * 4096 + 200] = b"\xff" * 200
    path.write_bytes(content)
    refused(path, "damaged")


def test_a_locked_file_is_waited_for_and_then_refused(folder: Path) -> None:
    path = folder / "a.ledger"
    ledger = open_ledger(path, budget=BUDGET, create=True, patience=0.2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="locked"):
        ledger.debit("k", TENTH, {})
    assert ledger.status().spent == Cost()
    other.execute("ROLLBACK")
    assert ledger.debit("k", TENTH, {}).fresh
    other.close()


def test_sqlite_settings_are_durable(folder: Path) -> None:
    open_ledger(folder / "a.ledger", budget=BUDGET, create=True).close()
    database = Database(parse_target(folder / "a.ledger"), patience=1)
    with database.reading() as connection:
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2}


def test_a_transaction_undone_by_the_database_is_not_taken_for_committed(folder: Path) -> None:
    open_ledger(folder / "a.ledger", budget=BUDGET, create=True).close()
    database = Database(parse_target(folder / "a.ledger"), patience=1)
    with pytest.raises(LedgerUnavailable, match="undone"), database.writing() as connection:
        connection.exec_driver_sql("ROLLBACK")


def test_postgresql_that_cannot_be_used(folder: Path, postgres: Postgres) -> None:
    refused(postgres.url("nowhere"), "database does not exist|cannot be reached")
    refused("postgresql+psycopg://me:secret@127.0.0.1:9/d", "cannot be reached")
    refused(postgres.url().replace("postgres@", "nobody@"), "refused the user|cannot be reached")


def test_postgresql_settings_are_durable(folder: Path, postgres: Postgres) -> None:
    name = postgres.fresh_database()
    with postgres.admin() as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
        connection.execute(
            f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'".encode()
        )
    database = Database(parse_target(postgres.url(name)), patience=5)
    with database.writing() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
    with database.reading() as connection:
        assert (
            connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "repeatable read"
        )
    database.close()


def test_a_forgetful_server_is_refused(
    folder: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = psycopg.Cursor.fetchone

    def fetchone(cursor: psycopg.Cursor[tuple[object, ...]]) -> tuple[object, ...] | None:
        row = real(cursor)
        return ("off",) if cursor.description and cursor.description[0].name == "fsync" else row

    monkeypatch.setattr(psycopg.Cursor, "fetchone", fetchone)
    with pytest.raises(LedgerUnavailable, match="fsync"):
        open_ledger(postgres.url(), budget=BUDGET, create=True)


@pytest.mark.parametrize(
    ("error", "words", "passing"),
    [
        (psycopg.errors.DiskFull(), "disk is full", False),
        (psycopg.errors.DeadlockDetected(), "collided", True),
        (psycopg.errors.AdminShutdown(), "stopping", True),
        (psycopg.errors.InsufficientPrivilege(), "permission", False),
        (psycopg.OperationalError("secret host"), "cannot be reached", True),
        (psycopg.ProgrammingError("secret"), "refused an operation", False),
        (sqlite3.OperationalError("secret"), "cannot be used", False),
    ],
)
def test_faults_in_words(error: Exception, words: str, passing: bool) -> None:
    wrapped = OperationalError("SELECT secret", {}, error)
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
        from sqlalchemy.exc import ProgrammingError

        wrapped = ProgrammingError("SELECT secret", {}, error)  # type: ignore[assignment]
    fault = classify(wrapped)
    assert words in fault.words
    assert "secret" not in fault.words
    assert fault.passing == passing
