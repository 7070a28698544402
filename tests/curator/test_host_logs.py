"""Whatever loggers and levels the host application sets: none of its handlers sees rows, parameters
or results."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dpublish as dp
from dpublish.curator.draft import draft_schema
from dpublish.curator.guard import guarded
from dpublish.quiet import no_logs
from dpublish.sources.sources import SqlSource
from pg import Postgres, shared_postgres

CANARY = "canary-7413"
FLAG = "flag-5521"
SCHEMA = """
[dataset]
name = "visits"
neighbours = "{neighbours}"

[columns.place]
kind = "categorical"
levels = ["a", "b"]
"""


class Heard(logging.Handler):
    """A host's handler that keeps all it is given, as text and as arguments."""

    def __init__(self) -> None:
        super().__init__(level=logging.NOTSET)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(
            f"{record.name} {record.getMessage()} {record.args!r} {record.exc_info!r}"
        )


@pytest.fixture
def heard() -> Iterator[Heard]:
    names = (
        "",
        "sqlalchemy.engine",
        "sqlalchemy.engine.Engine",
        "sqlalchemy.pool",
        "psycopg",
        "polars",
        "pyarrow",
    )
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    handler = Heard()
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
    yield handler
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
        logger.removeHandler(handler)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with shared_postgres() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> SqlSource:
    """Rows with a canary each, behind a query with a canary of its own."""
    rows = [(CANARY if i % 2 else "a", i) for i in range(40)]
    if request.param == "sqlite":
        with sqlite3.connect(tmp_path / "rows.db") as raw:
            raw.execute("CREATE TABLE visits (place TEXT, number INTEGER)")
            raw.executemany("INSERT INTO visits VALUES (?, ?)", rows)
        raw.close()
        url = f"sqlite:///{tmp_path / 'rows.db'}"
    else:
        server: Postgres = request.getfixturevalue("server")
        name = server.fresh_database()
        with server.admin(name) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE visits (place TEXT, number INTEGER)")
            cursor.executemany("INSERT INTO visits VALUES (%s, %s)", rows)
        url = server.url(name)
    return SqlSource(url, f"select place, number from visits where place <> '{FLAG}'")


def publish(source: SqlSource, folder: Path, neighbours: str) -> None:
    schema = dp.Schema.from_toml(SCHEMA.format(neighbours=neighbours))
    curator = dp.Curator(source, schema, ledger=folder / "a.ledger", budget=dp.Budget(epsilon=1))
    curator.publish(dp.Histogram(columns=["place"]), epsilon=1)


USES: dict[str, Callable[[SqlSource, Path], object]] = {
    "a release under add-remove-one": lambda source, folder: publish(
        source, folder, "add-remove-one"
    ),
    "a release under replace-one": lambda source, folder: publish(source, folder, "replace-one"),
    "a draft": lambda source, folder: draft_schema(source, name="visits"),
}


@pytest.mark.parametrize("use", USES)
def test_no_handler_sees_rows_or_queries(
    use: str, source: SqlSource, tmp_path: Path, heard: Heard
) -> None:
    USES[use](source, tmp_path)
    logging.getLogger("host").debug("still listening")
    assert heard.texts, "the handler must hear what the host itself says"
    assert not [text for text in heard.texts if CANARY in text or FLAG in text]


def test_engines_are_silent_even_where_logging_is_not_off(source: SqlSource, heard: Heard) -> None:
    from dpublish.sources.sources import open_source

    frames = list(open_source(source).batches(["place"]))
    assert sum(frame.height for frame in frames) == 40
    assert not [
        text
        for text in heard.texts
        if CANARY in text or FLAG in text or text.startswith("sqlalchemy")
    ]


def test_nothing_logged_by_any_library_leaves_the_guard(heard: Heard) -> None:
    def private() -> None:
        for level in (logging.DEBUG, logging.CRITICAL, 1000):
            logging.getLogger("some.library").log(level, "row %s", CANARY)
        raise ValueError(CANARY)

    with pytest.raises(dp.PrivateSideError):
        guarded(private)
    assert not heard.texts
    logging.getLogger("some.library").debug("after")
    assert [text.split()[1] for text in heard.texts] == ["after"]


def test_the_hosts_own_setting_comes_back() -> None:
    before = logging.root.manager.disable
    try:
        logging.disable(logging.INFO)
        with no_logs(), no_logs():
            pass
        assert logging.root.manager.disable == logging.INFO
        with no_logs():
            logging.disable(logging.DEBUG)
        assert logging.root.manager.disable == logging.DEBUG
    finally:
        logging.disable(before)
