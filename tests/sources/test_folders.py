"""Tables in several files are read one after the other, as they were when they were opened."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from dpublish.counting.cells import coded_rows, count_cells
from dpublish.declare.schema import Schema
from dpublish.errors import InputError, SchemaError
from dpublish.sources.sources import open_source

SCHEMA = Schema.from_toml(
    """
    [dataset]
    name = "years"
    neighbours = "add-remove-one"
    [columns.year]
    kind = "integer"
    lower = 2019
    upper = 2022
    missing = true
    [columns.a]
    kind = "integer"
    lower = 0
    upper = 9
    """
)
KEY = bytes(16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, year in enumerate(["2020", "2021", "__HIVE_DEFAULT_PARTITION__"]):
        (tmp_path / f"year={year}").mkdir()
        pl.DataFrame({"a": [number] * (number + 1)}).write_parquet(
            tmp_path / f"year={year}" / "part-0.parquet"
        )
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_committed.parquet").write_bytes(b"no rows")
    return tmp_path


def test_folders_of_partitions_make_a_column(folder: Path) -> None:
    source = open_source(folder)
    assert source.columns() == ("a", "year")
    assert source.count_rows() == source.rows_hint() == 6
    rows = coded_rows(source, SCHEMA, SCHEMA.domain(["year", "a"]), key=KEY)
    assert [column.tolist() for column in rows] == [[1, 2, 2, 4, 4, 4], [0, 1, 1, 2, 2, 2]]
    assert count_cells(source, SCHEMA, SCHEMA.domain(["a"]), key=KEY).counts.tolist() == [1, 2, 3]
    assert next(frame["year"].to_list() for frame in source.batches(["year"])) == ["2020"]
    assert source.count_units("year") == 2


def test_files_that_come_later_are_not_read(folder: Path) -> None:
    source = open_source(folder)
    pl.DataFrame({"a": [1] * 50}).write_parquet(folder / "year=2020" / "part-1.parquet")
    assert source.count_rows() == sum(frame.height for frame in source.batches(["a"])) == 6
    assert open_source(folder).count_rows() == 56


def test_patterns_name_files(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text(f"b,a\n1,{number}\n", encoding="utf-8")
    rows = coded_rows(open_source(f"{tmp_path}/*.csv"), SCHEMA, SCHEMA.domain(["a"]), key=KEY)
    assert rows[0].tolist() == [0, 1, 2]
    (tmp_path / "3.csv").write_text("secret,of\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="same columns") as caught:
        open_source(tmp_path)
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="names no file"):
        open_source(f"{tmp_path}/*.parquet")


def test_a_column_that_no_file_has_is_refused(folder: Path) -> None:
    with pytest.raises(SchemaError, match="none of that name"):
        open_source(folder).require(["month"], schema_name="years")
