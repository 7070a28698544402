"""Fixtures: both kinds of ledger, for the contract tests and the fault tests. A conftest imports
the names it offers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pg import Postgres, fast_folder, shared_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with shared_postgres() as server:
        yield server


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory that also holds the anchors."""
    path = fast_folder("dpl")
    monkeypatch.setenv("DPUBLISH_STATE", str(path / "state"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a new ledger can be made."""
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'a.ledger'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh_url()
