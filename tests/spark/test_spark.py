"""The same release from Spark as from a frame, whatever the partitions are: byte for byte."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.spark.conftest import wait_for

import dpublish as dp
from dpublish.errors import InputError, PlanError, PrivateSideError
from dpublish.sources.spark import SparkSource, SparkTable, open_spark

SCHEMA = """
[dataset]
name = "visits"
neighbours = "{neighbours}"
target = "ill"
{unit}
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
[columns.place]
kind = "categorical"
levels = ["north", "south", "east"]
missing = true
[columns.ill]
kind = "boolean"
"""
UNIT = 'unit = "who"\nmax_rows_per_unit = 2'
SETS = """
[dataset]
name = "baskets"
neighbours = "add-remove-one"
unit = "who"
max_rows_per_unit = 2
[items]
universe = ["a", "b", "c", "d", "e"]
"""

METHODS: dict[str, Callable[[], Any]] = {
    "histogram": lambda: dp.Histogram(columns=["age", "place"]),
    "projected-histogram": lambda: dp.ProjectedHistogram(target="ill", k=1),
    "joined-histograms": lambda: dp.JoinedHistograms(),
    "generalized-table": lambda: dp.GeneralizedTable(),
    "interval-tree": lambda: dp.IntervalTree(columns=["age"]),
    "importance-weights": lambda: dp.ImportanceWeights(public="uniform", public_size=200),
}


def people(rows: int = 3_000) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "age": rng.integers(-2, 105, rows),
            "place": rng.choice(["north", " south", "east", "west", "", None], rows),
            "ill": rng.choice([True, False], rows, p=[0.2, 0.8]),
            "who": rng.choice([f"u{i}" for i in range(900)], rows),
            "items": [
                " ".join(rng.choice(list("abcdefg"), rng.integers(0, 5))) for _ in range(rows)
            ],
        }
    )


def published(data: Any, schema: str, method: Any, folder: Path, **amount: Any) -> Any:
    folder.mkdir()
    path = folder / "s.toml"
    path.write_text(schema, encoding="utf-8")
    curator = dp.Curator(data, path, ledger=folder / "l.db", budget=dp.Budget(epsilon=100))
    release = curator.publish(method, **(amount or {"epsilon": 2}), seed=7)
    facts = {k: v for k, v in release.manifest.items() if k not in ("receipt", "created")}
    frames = {name: frame.to_dict(as_series=False) for name, frame in release.tables.items()}
    return facts, frames


def schema_of(neighbours: str, unit: bool) -> str:
    size = "nominal_size = 3000\n" if neighbours == "add-remove-one" else ""
    return SCHEMA.format(neighbours=neighbours, unit=size + (UNIT if unit else ""))


def spread(session: Any, frame: pl.DataFrame, parts: int) -> Any:
    return session.createDataFrame(frame.to_arrow()).repartition(parts)


@pytest.mark.parametrize(
    ("method", "neighbours", "unit", "parts"),
    [
        ("histogram", "replace-one", False, 1),
        ("histogram", "add-remove-one", True, 8),
        ("projected-histogram", "replace-one", True, 2),
        ("joined-histograms", "add-remove-one", True, 2),
        ("joined-histograms", "replace-one", False, 2),
        ("generalized-table", "add-remove-one", True, 2),
        ("interval-tree", "replace-one", True, 2),
        ("importance-weights", "add-remove-one", False, 2),
    ],
)
def test_releases_are_those_of_a_frame(
    session: Any, tmp_path: Path, method: str, neighbours: str, unit: bool, parts: int
) -> None:
    schema = schema_of(neighbours, unit)
    frame = people()
    here = published(frame, schema, METHODS[method](), tmp_path / "here")
    there = published(spread(session, frame, parts), schema, METHODS[method](), tmp_path / "there")
    assert there == here


def test_baskets_are_those_of_a_frame(session: Any, tmp_path: Path) -> None:
    frame = people()
    method = dp.SetPartition(column="items")
    here = published(frame, SETS, method, tmp_path / "here")
    assert published(spread(session, frame, 2), SETS, method, tmp_path / "there") == here


def test_paths_are_read_with_the_files_they_have_now(session: Any, tmp_path: Path) -> None:
    frame = people()
    folder = tmp_path / "table"
    for name, part in (("year=1", frame[:1_000]), ("year=2", frame[1_000:])):
        (folder / name).mkdir(parents=True)
        part.write_parquet(folder / name / "a.parquet")
    source = open_spark(SparkSource(str(folder), "local[2]"))
    assert source.count_rows() == 3_000
    assert "year" in source.columns()
    frame.write_parquet(folder / "year=2" / "later.parquet")
    assert source.count_rows() == 3_000
    with pytest.raises(InputError, match="no table or path"):
        open_spark(SparkSource("nosuchtable", "local[2]"))


def test_methods_that_need_an_order_are_refused_before_payment(
    session: Any, tmp_path: Path
) -> None:
    data = spread(session, people(50), 1)
    with pytest.raises(PlanError, match="Nothing was spent"):
        published(data, schema_of("replace-one", False), dp.PrivateClassifier(), tmp_path / "a")


def test_what_spark_says_about_a_row_is_not_repeated(session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    frame = spread(session, people(50), 1)
    bad = frame.withColumn("age", f.expr("cast(concat('secret', age) as int)"))
    with pytest.raises(PrivateSideError) as caught:
        published(bad, schema_of("add-remove-one", False), METHODS["histogram"](), tmp_path / "bad")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_types_of_columns_are_public_facts(session: Any) -> None:
    source = SparkTable(session.sql("select 1 as a, interval 1 day as b, date'2020-01-01' as c"))
    assert source.kind("a") == pl.Int32
    assert source.kind("c") == pl.Date
    assert source.shown() == ()


SCRIPT = """
import sys
from pathlib import Path
from tests.spark import test_spark as t
from tests.spark.conftest import SETTINGS
from pyspark.sql import SparkSession

url, folder = sys.argv[1], Path(sys.argv[2])
builder = SparkSession.builder
if url.startswith("sc:"):
    builder = builder.remote(url)
else:
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.master(url).config("spark.task.maxFailures", "8")
session = builder.getOrCreate()
frame = t.people()
for method in ("histogram", "joined-histograms", "interval-tree"):
    for unit in (False, True):
        schema = t.schema_of("add-remove-one", unit)
        here = t.published(frame, schema, t.METHODS[method](), folder / f"{method}{unit}h")
        data = t.spread(session, frame, 4)
        assert t.published(data, schema, t.METHODS[method](), folder / f"{method}{unit}s") == here
print("the same")
"""


def run_apart(url: str, folder: Path) -> str:
    """A session of another kind needs a process of its own."""
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, str(folder)],
        cwd=root,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    return done.stdout + done.stderr[-2_000:]


@pytest.mark.nightly
def test_two_workers_in_processes_of_their_own(java: None, tmp_path: Path) -> None:
    assert "the same" in run_apart("local-cluster[2,1,1024]", tmp_path)


@pytest.mark.nightly
def test_spark_connect(connect: str, tmp_path: Path) -> None:
    assert "the same" in run_apart(connect, tmp_path)


@pytest.mark.nightly
def test_a_master_and_two_workers_as_in_the_tutorial(java: None, tmp_path: Path) -> None:
    import pyspark

    start = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    deploy, url = "org.apache.spark.deploy", f"spark://127.0.0.1:{port}"
    page = ["--webui-port", "0"]
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), *page]
    worker = [f"{deploy}.worker.Worker", "--cores", "1", "--memory", "1g", *page, url]
    running = []
    with (tmp_path / "log").open("w") as log:
        try:
            for command in (master, worker, worker):
                running.append(
                    subprocess.Popen([start, *command], stdout=log, stderr=log, cwd=tmp_path)
                )
                if command is master:
                    wait_for(port)
            assert "the same" in run_apart(url, tmp_path)
        finally:
            for process in running:
                process.terminate()
                process.wait(30)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    direct = [int(x) for x in found.read_text().split()] if found.exists() else []
    return direct + [x for child in direct for x in children(child)]


@pytest.mark.nightly
def test_killed_workers_change_nothing_or_end_in_a_refusal(session: Any, tmp_path: Path) -> None:
    """Python workers of the session are killed at random during 50 releases."""
    frame = people()
    schema = schema_of("add-remove-one", True)
    expected = published(frame, schema, METHODS["histogram"](), tmp_path / "here")
    rng = np.random.default_rng(1)
    stop = threading.Event()
    java = session.sparkContext._gateway.proc.pid

    def kill() -> None:
        while not stop.wait(float(rng.uniform(0.05, 1.0))):
            workers = [
                pid
                for pid in children(java)
                if b"pyspark" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            if workers:
                os.kill(int(rng.choice(workers)), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    same = 0
    try:
        for number in range(50):
            data = spread(session, frame, 4)
            try:
                made = published(data, schema, METHODS["histogram"](), tmp_path / str(number))
            except (PrivateSideError, InputError):
                continue
            assert made == expected
            same += 1
    finally:
        stop.set()
        thread.join()
        time.sleep(1)
    assert same
