"""Nothing is compiled after the debit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dpublish as dp
from dpublish.curator import warm as warming
from dpublish.sources.sources import open_source

SCHEMA = (
    '[dataset]\nname = "t"\nneighbours = "add-remove-one"\nnominal_size = 300\n{more}\n'
    '[columns.a]\nkind = "categorical"\nlevels = ["x", "y", "z"]\n'
    '[columns.b]\nkind = "integer"\nlower = 0\nupper = 99\n'
    '[columns.c]\nkind = "boolean"\n'
    '[columns.d]\nkind = "date"\nlower = 2020-01-01\nupper = 2024-12-31\nbins = 5\n'
    '[columns.e]\nkind = "real"\nlower = 0\nupper = 1\nbins = 4\n'
)
PROGRAM = """
import sys
from numba.core import event
stage, late = ["start"], []
class Listener(event.Listener):
    def on_start(self, one):
        if stage[0] not in ("start", "planning", "compiling"):
            late.append(one.data["dispatcher"].py_func.__qualname__)
    def on_end(self, one):
        pass
event.register("numba:compile", Listener())
import dpublish as dp
name, folder = sys.argv[1:]
curator = dp.Curator(folder + "/rows.csv", folder + "/schema.toml", ledger=folder + "/l",
                     budget=dp.Budget(epsilon=9))
settings = {"bins": 8} if name == "Histogram" else {}
method = getattr(dp, name)(**settings)
curator.publish(method, epsilon=1, progress=lambda step: stage.__setitem__(0, step))
print(late)
"""


def prepare(folder: Path) -> None:
    (folder / "schema.toml").write_text(SCHEMA.format(more=""))
    lines = [
        f"{'xyz'[i % 3]},{i * 7 % 100},{i % 2},20{20 + i % 5}-03-04,{i % 10 / 10}"
        for i in range(300)
    ]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,e", *lines]))


def compiled_late(name: str, folder: Path) -> str:
    prepare(folder)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, str(folder)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["JoinedHistograms", "Histogram", "IntervalTree"])
def test_nothing_is_compiled_after_the_debit(name: str, tmp_path: Path) -> None:
    assert compiled_late(name, tmp_path) == "[]"


@pytest.mark.parametrize("unit", ["", 'unit = "who"\nmax_rows_per_unit = 2'])
def test_stand_in_rows_are_of_the_kind_of_the_source(unit: str, tmp_path: Path) -> None:
    import polars as pl

    prepare(tmp_path)
    schema = dp.Schema.from_toml(SCHEMA.format(more=unit))
    plan = dp.Histogram(columns=["a", "c"]).plan(schema, dp.Cost.pure(1))
    for data in (tmp_path / "rows.csv", pl.DataFrame({"a": ["x"]})):
        source = open_source(data)
        rows = warming.stand_in(plan, source, tmp_path)
        assert type(rows) is type(source)
        assert set(schema.columns) <= set(rows.columns())
        assert rows.count_rows() > 100


def test_a_method_is_warmed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    schema = dp.Schema.from_toml(SCHEMA.format(more=""))
    method = dp.Histogram(columns=["a", "c"])
    plan = method.plan(schema, dp.Cost.pure(1))
    source = open_source(tmp_path / "rows.csv")
    monkeypatch.setattr(warming, "_folder", lambda: tmp_path)
    monkeypatch.setattr(warming, "_done", set())
    said: list[str] = []
    assert warming.warm(method, plan, source, say=said.append)
    assert not warming.warm(method, plan, source)
    monkeypatch.setattr(warming, "_done", set())
    assert not warming.warm(method, plan, source), "another process finds the stamp"
    assert said == ["compiling"]
    assert len(list(tmp_path.glob("dpublish-warm-*"))) == 1


@pytest.mark.parametrize(
    "name",
    ["discovery", "min-cut", "vertex-cover", "set-cover", "k-median", "public-projects"],
)
def test_stand_ins_run_through_solvers_and_discovery(name: str, tmp_path: Path) -> None:
    """What fails on a stand-in is not compiled before the debit, and nobody would hear of it."""
    import polars as pl

    from dpublish.catalogue import methods

    mechanism = warming._mechanism(name, methods()[name].door)
    schema = dp.Schema.from_toml(warming._SCHEMAS[0 if name == "discovery" else 1])
    plan = mechanism.plan(schema, dp.Cost.pure(1))
    (tmp_path / "rows.csv").write_text("a\n")
    for data in (tmp_path / "rows.csv", pl.DataFrame({"a": ["x"]})):
        folder = tmp_path / type(data).__name__
        folder.mkdir()
        rows = warming.stand_in(plan, open_source(data), folder, mechanism.statistic(plan))
        assert rows.count_rows() > 2
        assert warming.run_seeded(mechanism, plan, rows, 0).facts


def test_discovery_of_texts_and_dates_has_a_stand_in(tmp_path: Path) -> None:
    schema = dp.Schema.from_toml(
        '[dataset]\nname = "w"\n[columns.a]\nkind = "categorical"\ndiscover = true\n'
        '[columns.d]\nkind = "date"\ndiscover = true\n'
    )
    method = dp.Discovery(edges=3)
    plan = method.plan(schema, dp.Cost.approximate(1, "1e-9"))
    (tmp_path / "a.csv").write_text("a,d\n")
    rows = warming.stand_in(plan, open_source(tmp_path / "a.csv"), tmp_path)
    found = warming.run_seeded(method, plan, rows, 1).facts["columns"]
    assert [one["name"] for one in found] == ["a", "d"]
