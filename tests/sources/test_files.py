"""What is wrong with a file that a user names is said in words that fit."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from dpublish.counting.graphs import open_structure, read_names
from dpublish.errors import InputError, PlanError
from dpublish.ledger import open_ledger
from dpublish.models.public_rows import _read_file
from dpublish.sources.sources import open_source


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.arrow", "a.txt"])
def test_links_that_lead_nowhere_are_told_apart(name: str, tmp_path: Path) -> None:
    loop, lost, folder = tmp_path / f"loop-{name}", tmp_path / f"lost-{name}", tmp_path / name
    loop.symlink_to(loop)
    lost.symlink_to(tmp_path / "gone")
    folder.mkdir()
    for path, words in (
        (loop, "leads back to itself"),
        (lost, "link to a file that is not there"),
        (folder, "is a folder"),
    ):
        with pytest.raises(InputError, match=words):
            open_source(path)
        with pytest.raises(InputError, match=words):
            read_names(path)
        with pytest.raises(InputError, match=words):
            _read_file(path, None, "public rows")
        if name == "a.txt":
            with pytest.raises(InputError, match=words):
                open_structure(path, "items")


def test_a_ledger_behind_a_loop(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(PlanError, match="leads back to itself"):
        open_ledger(tmp_path / "a")


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    pl.DataFrame({"v": ["x"]}).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to(tmp_path / "a.parquet")
    assert open_source(tmp_path / "b.parquet").count_rows() == 1
