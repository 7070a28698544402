from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from dpublish.errors import QueryError
from dpublish.present.export import export_release, write_table
from releases.simulated import people_release


def test_weighted_cells_and_synthetic_rows(tmp_path: Path) -> None:
    release = people_release()
    export_release(release, tmp_path / "a.csv", to="csv")
    assert pl.read_csv(tmp_path / "a.csv")["weight"].sum() == release.counts.sum()
    export_release(release, tmp_path / "a.parquet", to="parquet", synthetic=True, n=500, seed=4)
    assert pl.read_parquet(tmp_path / "a.parquet").equals(release.sample(500, seed=4))
    export_release(release, tmp_path / "b.parquet", to="parquet", synthetic=True)
    assert pl.read_parquet(tmp_path / "b.parquet").height == 10_000


def test_mistakes(tmp_path: Path) -> None:
    release = people_release()
    with pytest.raises(QueryError, match="Formats"):
        export_release(release, tmp_path / "a", to="xlsx")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="synthetic"):
        export_release(release, tmp_path / "a", n=5)
    with pytest.raises(QueryError, match="cannot be written"):
        export_release(release, tmp_path / "none" / "a.csv")


def test_lists_of_items_are_json_in_a_csv_cell(tmp_path: Path) -> None:
    """Items may hold blanks, commas and quotes."""
    sets = [
        ["whole grain", "milk, skimmed"],
        [],
        ['6" nails', "a\\b", "line\nbreak\tand tab"],
        None,
    ]
    path = write_table(
        pl.DataFrame({"items": sets, "weight": [1.0, 2.0, 3.0, 4.0]}), tmp_path / "a.csv", to="csv"
    )
    read = pl.read_csv(path)["items"].to_list()
    assert [None if text is None else json.loads(text) for text in read] == sets
