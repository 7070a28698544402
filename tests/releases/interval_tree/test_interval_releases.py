"""Damaged or invented releases of the query methods are refused when opened, each with a plain
reason."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import BundleError
from dpublish.releases.base import make_release

SCHEMA = """
[dataset]
name = "t"
[columns.x]
kind = "integer"
lower = 0
upper = 63
[columns.y]
kind = "integer"
lower = 0
upper = 9
"""
ROWS = pl.DataFrame({"x": [i % 64 for i in range(500)], "y": [i % 10 for i in range(500)]})
Change = Callable[[dict[str, Any], dict[str, pl.DataFrame]], None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("made")
    curator = dp.Curator(
        ROWS, dp.Schema.from_toml(SCHEMA), ledger=folder / "l.db", budget=dp.Budget(epsilon=100)
    )
    return {
        "tree": curator.publish(dp.IntervalTree(columns=["x"]), epsilon=20, seed=1),
        "halfspaces": curator.publish(dp.Halfspaces(by="sectors"), epsilon=20, seed=1),
        "synthetic": curator.publish(
            dp.MultiplicativeWeights(columns=["y"], bins=10, queries="intervals"),
            epsilon=20,
            seed=1,
        ),
    }


def fact(key: str, value: Any) -> Change:
    def change(manifest: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
        manifest["facts"][key] = value

    return change


def grid(key: str, value: Any) -> Change:
    def change(manifest: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
        manifest["facts"]["grid"][0][key] = value

    return change


def frame(name: str, make: Callable[[pl.DataFrame], pl.DataFrame]) -> Change:
    def change(manifest: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
        tables[name] = make(tables[name])

    return change


BROKEN: list[tuple[str, Change]] = [
    ("tree", fact("scale", "0")),
    ("tree", fact("scale", 3)),
    ("tree", fact("height", 0)),
    ("tree", fact("fanout", 1 << 40)),
    ("tree", fact("grid", [])),
    ("tree", fact("grid", ["x"])),
    ("tree", grid("positions", 1 << 50)),
    ("tree", grid("positions", 1)),
    ("tree", grid("step", "0")),
    ("tree", grid("step", "x")),
    ("tree", grid("lower", "1/0")),
    ("tree", grid("kind", "boolean")),
    ("tree", frame("boxes", lambda t: t.slice(1))),
    ("tree", frame("boxes", lambda t: t.reverse())),
    ("tree", frame("boxes", lambda t: t.with_columns(pl.lit(60, pl.UInt8).alias("depth")))),
    ("tree", frame("boxes", lambda t: t.with_columns(pl.col("prefix") + 100))),
    ("tree", frame("boxes", lambda t: t.rename({"depth": "level"}))),
    ("tree", frame("counts", lambda t: t.slice(1))),
    ("tree", frame("counts", lambda t: t.with_columns(pl.lit(1 << 60, pl.Int64).alias("count")))),
    ("tree", frame("counts", lambda t: t.cast(pl.Float64))),
    ("halfspaces", fact("k", 5)),
    ("halfspaces", fact("cells", 3)),
    ("halfspaces", fact("projections", 1 << 22)),
    ("halfspaces", fact("projection_seed", "a")),
    ("halfspaces", fact("grid", 7)),
    ("halfspaces", fact("grid", [7])),
    ("halfspaces", frame("counts", lambda t: t.slice(1))),
    ("synthetic", fact("rows", 0)),
    ("synthetic", fact("error_bound", -1)),
    ("synthetic", fact("queries", "magic:3")),
    ("synthetic", frame("cells", lambda t: t.reverse())),
    ("synthetic", frame("cells", lambda t: t.with_columns(-pl.col("weight")))),
    ("synthetic", frame("cells", lambda t: t.with_columns(pl.col("cell") + 100))),
]


@pytest.mark.parametrize(
    ("which", "change"), BROKEN, ids=[f"{which} {i}" for i, (which, _) in enumerate(BROKEN)]
)
def test_refused(made: dict[str, Any], which: str, change: Change) -> None:
    manifest = copy.deepcopy(dict(made[which].manifest))
    tables = dict(made[which].tables)
    assert make_release(manifest, tables).verify().ok
    change(manifest, tables)
    with pytest.raises(BundleError):
        make_release(manifest, tables)


def test_a_written_release_opens_again(made: dict[str, Any], tmp_path: Path) -> None:
    for name, release in made.items():
        release.save(tmp_path / f"{name}.dpr")
        assert dp.open_release(tmp_path / f"{name}.dpr").verify().ok
        assert release.summary()["method"]
