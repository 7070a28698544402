"""Rows of a database query, streamed through SQLAlchemy inside a read-only transaction; one
snapshot of the database for all passes of a release."""

from __future__ import annotations

import abc
import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from dpublish.errors import InputError
from dpublish.quiet import no_logs, unlogged
from dpublish.sources.files import stamp_of
from dpublish.sources.objects import series_from_objects
from dpublish.sources.sources import Source, SqlSource
from dpublish.sources.texts import lossy

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, TextClause


_BEYOND: dict[str, tuple[Any, Any]] = {
    "date": (dt.date.min, dt.date.max),
    "timestamp": (dt.datetime.min, dt.datetime.max),
    "timestamptz": (dt.datetime.min, dt.datetime.max),
    **dict.fromkeys(("time", "timetz", "interval", "json", "jsonb"), (None, None)),
}
"""Types of PostgreSQL that hold more than Python does, and what stands for what is too early and
too late."""


_TEXTS: tuple[int | str, ...] = (0, "text", "varchar", "bpchar", "name")
"""Types of PostgreSQL that hold text; 0 are those that the driver does not know."""


BOOLEAN, WHOLE, SINGLE, DOUBLE = "boolean", "whole", "single", "double"
DECIMAL, TEXT, DATE, TIME = "decimal", "text", "date", "time"
"""Types of columns whose cells mean in the database what they mean here: whole numbers of at most
64 bits, decimals of at most `EXACT_DIGITS` before and after the point, days and times without a
zone."""

_AT_ONCE = 1 << 17  # rows
EXACT_DIGITS = 15
"""Decimals with at most so many digits are told apart by doubles."""

_POSTGRES = {
    "bool": BOOLEAN,
    **dict.fromkeys(("int2", "int4", "int8"), WHOLE),
    "float4": SINGLE,
    "float8": DOUBLE,
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), TEXT),
    "date": DATE,
    "timestamp": TIME,
}

ROWS = "dpublish_rows"
Template = Callable[[str], str]
"""A query over rows, which stand in it as a table called `ROWS`."""


class SqlRows(abc.ABC):
    """Rows that a database can count by itself."""

    dialect: str
    """As sqlglot calls it."""

    types: Mapping[str, str]
    """Of the columns whose cells leave no doubt what they are."""

    counts: bool
    """Whether it is to count by itself where it can."""

    @abc.abstractmethod
    def selected(self, query: Template, cells: Collection[str]) -> Iterator[pl.DataFrame]:
        """What a query over the rows gives: the columns named in `cells` as cells are read, all
        others as whole numbers."""


_PLAIN = (
    *("select", "from", "table", "tablealias", "column", "identifier", "star", "alias", "paren"),
    *("where", "and", "or", "not", "eq", "neq", "lt", "lte", "gt", "gte", "is", "null", "boolean"),
    *("in", "between", "literal", "subquery", "join", "with", "cte", "union", "distinct", "case"),
    *("if", "coalesce", "limit", "order", "ordered", "values", "tuple"),
)
"""Parts of a query that give a value for every row, whatever its cells hold."""


def may_fail(query: str) -> tuple[str, ...]:
    """A sentence about a query that computes something, such as 1 / x: the database works it out,
    and may end on one row. Looks at the text of the query alone."""
    import sqlglot

    try:
        parts = {
            node.key for tree in sqlglot.parse(query) if tree is not None for node in tree.walk()
        }
    except Exception:  # of what it cannot read it may raise anything
        parts = {"something that could not be parsed"}
    strange = sorted(parts - {*_PLAIN})
    if not strange:
        return ()
    return (
        f"The query computes something ({', '.join(strange[:4])}). Where that fails on a row, such "
        "as a division by zero, the release fails after it was paid for, and that it failed says "
        "something about that row, which the guarantee does not cover. Let the query give a value "
        "for every row, or select columns as they are.",
    )


class Database(Source, SqlRows):
    """Runs the query of a `SqlSource`: once without rows for the column names, then as often as
    rows are wanted."""

    def __init__(self, source: SqlSource, zone: str | None = None) -> None:
        self._zone = zone
        self.told = may_fail(source.query)
        self._query = source.query.strip().rstrip(";").rstrip()
        if not self._query:
            raise InputError("The SQL query is empty.")
        self._engine = _engine(source.url)
        self._held: Connection | None = None
        self._server = self._engine.dialect.name
        self.types = {}
        self.counts = source.count_there is not False
        if self._server == "postgresql":
            self.engine, self.dialect = "sql", "postgres"
        with no_logs():  # drivers log addresses and users
            self._names = self._read_names()

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """All reading inside sees one snapshot of the database, where it has no `stamps`."""
        from sqlalchemy.exc import SQLAlchemyError

        reading = self._reading()
        try:
            with no_logs():
                connection = reading.__enter__()
                connection.exec_driver_sql("SELECT 1")  # the first statement takes it
        except SQLAlchemyError:
            connection = None
        if connection is None:
            raise InputError("The database no longer lets us in. Nothing was spent.")
        self._held = connection
        try:
            yield
        finally:
            self._held = None
            with no_logs(), suppress(Exception):  # a server that is gone has nothing to undo
                reading.__exit__(None, None, None)

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        places = [self._names.index(name) for name in columns]
        with self._reading() as connection:
            for part in _streamed(connection, self._query).partitions(_AT_ONCE):
                yield pl.DataFrame(
                    [
                        series_from_objects([row[i] for row in part], self._zone).alias(
                            self._names[i]
                        )
                        for i in places
                    ]
                )

    def selected(self, query: Template, cells: Collection[str]) -> Iterator[pl.DataFrame]:
        with self._reading() as connection:
            result = _streamed(connection, query(f"(\n{self._query}\n) AS {ROWS}"))
            names = [str(name) for name in result.keys()]  # noqa: SIM118 - rows, not keys, are what it iterates over
            for part in result.partitions(_AT_ONCE):
                columns = zip(names, zip(*part, strict=True), strict=True)
                yield pl.DataFrame(
                    [
                        series_from_objects(column).alias(name)
                        if name in cells
                        else pl.Series(name, column, dtype=pl.Int64)
                        for name, column in columns
                    ]
                )

    def count_rows(self) -> int:
        with self._reading() as connection:
            return int(
                connection.execute(
                    _literal(f"SELECT count(*) FROM (\n{self._query}\n) AS {ROWS}")
                ).scalar_one()
            )

    def _read_names(self) -> tuple[str, ...]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._engine.connect().close()
        except SQLAlchemyError:
            raise InputError(
                "The database does not let us in: no server answers at this address, it has no "
                "such database, or it refuses "
                "the user or the password."
            ) from None
        try:
            with self._reading() as connection:
                # with a parameter a server takes one statement only: a second one could end the
                # read-only transaction
                asked = _literal(
                    f"SELECT * FROM (\n{self._query}\n) AS {ROWS} WHERE 1 = ", then=":none"
                )
                result = connection.execute(asked, {"none": 0})
                if self._server == "postgresql":
                    self.types = _column_types(connection, result)
                files = _files_without_snapshot(connection)
                self.stamps = tuple((path, stamp_of(path)) for path in files)
                return tuple(str(name) for name in result.keys())  # noqa: SIM118 - as above
        except (SQLAlchemyError, UnicodeError) as error:
            # the database's own words may quote what it read, so only the kind of error is told
            kind = type(getattr(error, "orig", None) or error).__name__
            raise InputError(
                f"The database refused the query ({kind}). The query must be one SELECT; try it as "
                "SELECT * FROM (query) AS t WHERE 1 = 0 in the database's own shell."
            ) from None

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._held is not None:
            yield self._held
            return
        with self._engine.connect() as connection:
            if self._server == "postgresql":
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            elif self._server == "sqlite":
                connection.exec_driver_sql("PRAGMA query_only = ON")
                # SQLite holds text of any bytes; one cell that is no UTF-8 must not end the reading
                # of all
                connection.connection.driver_connection.text_factory = lossy  # type: ignore[union-attr]
                if _has_log(connection):  # otherwise a reader that stays keeps all writers out
                    connection.exec_driver_sql("BEGIN")  # left out by the driver before a SELECT
            elif self._server in ("mysql", "mariadb"):
                connection.exec_driver_sql(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
                )
            try:
                yield connection
            finally:
                connection.rollback()


def _streamed(connection: Connection, query: str) -> Any:
    """The rows of a query, which the server keeps until they are fetched."""
    streaming = connection.execution_options(stream_results=True, max_row_buffer=_AT_ONCE)
    return streaming.execute(_literal(query))


def _files_without_snapshot(connection: Connection) -> tuple[Path, ...]:
    """The files of SQLite, unless it writes to a log that readers do not see. To hold them would
    keep all writers out."""
    if connection.dialect.name != "sqlite" or _has_log(connection):
        return ()
    listed = connection.exec_driver_sql("PRAGMA database_list").all()
    return tuple(Path(file) for _, _, file in listed if file)  # none: in memory


def _has_log(connection: Connection) -> bool:
    return bool(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal")


def _column_types(connection: Connection, result: Any) -> dict[str, str]:
    """Which columns of a result of PostgreSQL have which type, where cells leave no doubt."""
    driver: Any = connection.connection.driver_connection
    if not hasattr(driver, "adapters"):  # another driver than psycopg
        return {}
    known = {driver.adapters.types[name].oid: kind for name, kind in _POSTGRES.items()}
    numeric = driver.adapters.types["numeric"].oid
    found: dict[str, str] = {}
    for column in result.cursor.description:
        kind = known.get(column.type_code)
        few = (column.precision or EXACT_DIGITS + 1) <= EXACT_DIGITS
        # numeric(5, 400) holds what no double does, and casting that ends the query
        if column.type_code == numeric and few and 0 <= (column.scale or 0) <= EXACT_DIGITS:
            kind = DECIMAL
        if kind is not None and (kind != TEXT or driver.info.encoding == "utf-8"):
            found[column.name] = kind
    return found


def _engine(url: str) -> Engine:
    from sqlalchemy import create_engine, event, make_url
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        engine = unlogged(create_engine(parsed, poolclass=NullPool, hide_parameters=True))
    except (SQLAlchemyError, ValueError):
        raise InputError(
            "The database URL cannot be read. It looks like postgresql://user@host/name or "
            "sqlite:///file.db."
        ) from None
    except ModuleNotFoundError as error:
        raise InputError(
            f"The database driver '{error.name}' is not installed (PostgreSQL: install "
            f"dpublish[postgres])."
        ) from None
    if parsed.get_backend_name() == "postgresql":
        event.listen(engine, "connect", _as_stored, insert=True)
    file = parsed.database
    on_disk = (
        parsed.get_backend_name() == "sqlite"
        and file
        and file != ":memory:"
        and not file.startswith("file:")
    )
    if on_disk and not Path(str(file)).is_file():  # SQLite would create it
        raise InputError(f"There is no SQLite file '{file}'.")
    return engine


def _as_stored(driver: Any, _: object) -> None:
    """Text as the database holds it: a server that had to convert, or to check, a cell would end
    the reading of all.

    A database whose encoding is SQL_ASCII holds text of any bytes.
    """
    if hasattr(driver, "adapters"):  # psycopg
        stored = driver.info.parameter_status("server_encoding")
        if stored != driver.info.parameter_status("client_encoding"):
            driver.execute(f"SET client_encoding TO '{stored}'")
        driver.execute("SET extra_float_digits TO 1")  # every double by a text of its own
        driver.commit()
        _forgive(driver)


def _literal(query: str, then: str = "") -> TextClause:
    """The query as it stands: a colon in it is no parameter, other than in what comes `then`."""
    from sqlalchemy import text

    return text(query.replace(":", "\\:") + then)


def _forgive(driver: Any) -> None:
    """One cell that Python cannot hold (infinity, a year BC, 24:00:00, any bytes) must not end the
    reading of all."""
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    def forgiving(kind: Any, early: Any, late: Any) -> type[Loader]:
        class Forgiving(Loader):
            def __init__(self, oid: int, context: Any = None) -> None:
                super().__init__(oid, context)
                self._load = kind(oid, context).load

            def load(self, data: Any) -> Any:
                try:
                    return self._load(data)
                except Exception:  # whatever is wrong with this cell
                    text = bytes(data)
                    return early if text.startswith(b"-") or b"BC" in text else late

        return Forgiving

    encoding = driver.info.encoding

    class Lossy(Loader):
        def load(self, data: Any) -> str:
            return lossy(bytes(data), "utf-8" if encoding == "ascii" else encoding)

    for kind in _TEXTS:
        driver.adapters.register_loader(kind, Lossy)
    for name, ends in _BEYOND.items():
        kind = driver.adapters.get_loader(driver.adapters.types[name].oid, Format.TEXT)
        driver.adapters.register_loader(name, forgiving(kind, *ends))
