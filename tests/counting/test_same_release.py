"""The same release from a frame, from DuckDB and from PostgreSQL, byte for byte, whether the
database counts or hands over its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pg import Postgres, shared_postgres
from tests.same_release import CASES, FEW, case, people

from dpublish.sources.sources import SqlSource


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    frame = people()
    folder = tmp_path_factory.mktemp("tables")
    frame.write_parquet(folder / "visits.parquet")
    with shared_postgres() as server:
        url = filled(server, frame)
        yield {
            "frame": frame,
            "duckdb": SqlSource(
                "duckdb://", f"select * from '{folder}/visits.parquet'", count_there=True
            ),
            "postgres": SqlSource(url, "select * from visits"),
        }


def filled(server: Postgres, frame: Any) -> str:
    name = server.fresh_database()
    with server.admin(name) as connection:
        connection.execute(
            "CREATE TABLE visits (age integer, place text, ill boolean, who text, items text)"
        )
        with connection.cursor().copy("COPY visits FROM STDIN") as copy:
            for row in frame.rows():
                copy.write_row(row)
    return server.url(name)


def check(tables: dict[str, Any], folder: Path, method: str, neighbours: str, unit: bool) -> None:
    expected = case(tables["frame"], method, neighbours, unit, folder / "frame")
    for name in ("duckdb", "postgres"):
        assert case(tables[name], method, neighbours, unit, folder / name) == expected, name


@pytest.mark.parametrize(("method", "neighbours", "unit"), FEW)
def test_every_method_from_a_database(
    tables: dict[str, Any], tmp_path: Path, method: str, neighbours: str, unit: bool
) -> None:
    check(tables, tmp_path, method, neighbours, unit)


@pytest.mark.nightly
@pytest.mark.parametrize(("method", "neighbours", "unit"), sorted(set(CASES) - set(FEW)))
def test_every_method_relation_and_unit_from_a_database(
    tables: dict[str, Any], tmp_path: Path, method: str, neighbours: str, unit: bool
) -> None:
    check(tables, tmp_path, method, neighbours, unit)
