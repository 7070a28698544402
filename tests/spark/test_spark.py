"""The same release from Spark as from a frame, whatever the partitions are: byte for byte."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.same_release import CASES, FEW, TABLES, case, people, published, schema_of
from tests.spark.conftest import wait_for

import dpublish as dp
from dpublish.counting.engines.spark import Spark
from dpublish.errors import InputError, PlanError, PrivateSideError
from dpublish.ledger import open_ledger
from dpublish.sources.spark import SparkSource, SparkTable, open_spark


def spread(session: Any, frame: pl.DataFrame, parts: int) -> Any:
    return session.createDataFrame(frame.to_arrow()).repartition(parts)


def check(session: Any, folder: Path, method: str, neighbours: str, unit: bool, parts: int) -> None:
    frame = people()
    here = case(frame, method, neighbours, unit, folder / "here")
    assert case(spread(session, frame, parts), method, neighbours, unit, folder / "there") == here


@pytest.mark.parametrize(
    ("method", "neighbours", "unit", "parts"),
    [
        (*one, (1, 2, 8)[place % 3])
        for place, one in enumerate([*FEW, ("joined-histograms", "replace-one", False)])
    ],
)
def test_releases_are_those_of_a_frame(
    session: Any, tmp_path: Path, method: str, neighbours: str, unit: bool, parts: int
) -> None:
    check(session, tmp_path, method, neighbours, unit, parts)


@pytest.mark.nightly
@pytest.mark.parametrize("parts", [1, 2, 8])
@pytest.mark.parametrize(("method", "neighbours", "unit"), CASES)
def test_every_release_is_that_of_a_frame(
    session: Any, tmp_path: Path, method: str, neighbours: str, unit: bool, parts: int
) -> None:
    check(session, tmp_path, method, neighbours, unit, parts)


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


REFUSED: dict[str, Callable[[], Any]] = {
    "private-classifier": lambda: dp.PrivateClassifier(),
    "importance-weights": lambda: dp.ImportanceWeights(
        public="uniform", public_size=200, variant="objective"
    ),
    "halfspaces": lambda: dp.Halfspaces(by="sectors", columns=["age"]),
}


@pytest.mark.parametrize("method", REFUSED)
def test_methods_that_workers_cannot_count_for_are_refused_before_payment(
    session: Any, tmp_path: Path, method: str
) -> None:
    data = spread(session, people(50), 1)
    with pytest.raises(PlanError, match=r"workers of Spark: .*Nothing was spent"):
        published(data, schema_of("replace-one", False), REFUSED[method](), tmp_path / "a")
    ledger = open_ledger(tmp_path / "a" / "l.db")
    assert not [entry for entry in ledger.history() if entry.kind == "debit"]


def test_solvers_are_refused_before_payment(session: Any, tmp_path: Path) -> None:
    edges = session.createDataFrame([("a", "b")], ["source", "target"])
    items = edges.select("source")
    payment: dict[str, Any] = {
        "epsilon": 1,
        "ledger": tmp_path / "l.db",
        "budget": dp.Budget(epsilon=9),
    }
    names = ["a", "b", "c"]
    metric = dp.optimize.Metric.euclidean([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    asked: dict[str, Callable[[], Any]] = {
        "vertex-cover": lambda: dp.optimize.vertex_cover(edges, vertices=names, **payment),
        "min-cut": lambda: dp.optimize.min_cut(edges, vertices=names, **payment),
        "k-median": lambda: dp.optimize.k_median(items, k=1, metric=metric, **payment),
        "set-cover": lambda: dp.optimize.set_cover(items, sets=[["a", "b"], ["c"]], **payment),
        "public-projects": lambda: dp.optimize.public_projects(
            items, k=1, resources=names, **payment
        ),
    }
    for call in asked.values():
        with pytest.raises(PlanError, match=r"workers of Spark: .*Nothing was spent"):
            call()
    ledger = open_ledger(tmp_path / "l.db")
    assert not [entry for entry in ledger.history() if entry.kind == "debit"]


def test_files_that_change_while_they_are_counted_end_the_release(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = people(200)
    (tmp_path / "t").mkdir()
    frame.write_parquet(tmp_path / "t" / "a.parquet")
    source = open_spark(SparkSource(str(tmp_path / "t"), "local[2]"))
    whole = source.count_rows

    def later(self: Any, domain: Any) -> Any:
        assert whole() == 200
        frame[:50].write_parquet(tmp_path / "t" / "a.parquet")
        return found(self, domain)

    found = Spark.cells
    monkeypatch.setattr(Spark, "cells", later)
    with pytest.raises(PrivateSideError):
        published(source, schema_of("add-remove-one", False), TABLES["histogram"](), tmp_path / "a")


def test_what_spark_says_about_a_row_is_not_repeated(session: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    frame = spread(session, people(50), 1)
    bad = frame.withColumn("age", f.expr("cast(concat('secret', age) as int)"))
    with pytest.raises(PrivateSideError) as caught:
        published(bad, schema_of("add-remove-one", False), TABLES["histogram"](), tmp_path / "bad")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_types_of_columns_are_public_facts(session: Any) -> None:
    source = SparkTable(session.sql("select 1 as a, interval 1 day as b, date'2020-01-01' as c"))
    assert source.kind("a") == pl.Int32
    assert source.kind("c") == pl.Date
    assert [line[:20] for line in source.shown()] == ["Spark names no files"]


SCRIPT = """
import sys
from pathlib import Path
from tests.same_release import CASES, case, people
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
frame = people()
for number, one in enumerate(CASES):
    here = case(frame, *one, folder / f"{number}h")
    assert case(t.spread(session, frame, 4), *one, folder / f"{number}s") == here, one
print("the same")
"""


def run_apart(script: str, *words: str) -> str:
    """A session of another kind needs a process of its own."""
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=root,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root}:{os.environ.get('PYTHONPATH', '')}"},
        check=False,
    )
    return done.stdout + done.stderr[-2_000:]


@pytest.mark.nightly
def test_two_workers_in_processes_of_their_own(java: None, tmp_path: Path) -> None:
    assert "the same" in run_apart(SCRIPT, "local-cluster[2,1,1024]", str(tmp_path))


@pytest.mark.nightly
def test_spark_connect(connect: str, tmp_path: Path) -> None:
    assert "the same" in run_apart(SCRIPT, connect, str(tmp_path))


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
            assert "the same" in run_apart(SCRIPT, url, str(tmp_path))
        finally:
            for process in running:
                process.terminate()
                process.wait(30)


KILLS = """
import os, random, signal, sys, threading
from pathlib import Path
from tests.same_release import TABLES, people, published, schema_of
from tests.spark import test_spark as t
from tests.spark.conftest import SETTINGS
from pyspark.sql import SparkSession
from dpublish.errors import InputError, PrivateSideError
from dpublish.ledger import open_ledger

folder, releases = Path(sys.argv[1]), int(sys.argv[2])
builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.task.maxFailures", 9)
for name, value in SETTINGS.items():
    builder = builder.config(name, value)
session = builder.config("spark.deploy.maxExecutorRetries", "-1").getOrCreate()
frame, schema = people(), schema_of("add-remove-one", True)
expected = published(frame, schema, TABLES["histogram"](), folder / "here")
data = t.spread(session, frame, 4)
assert published(data, schema, TABLES["histogram"](), folder / "calm") == expected
draw, stop, killed = random.Random(1), threading.Event(), {"python": 0, "executor": 0}

def below(pid):
    try:
        lists = Path(f"/proc/{pid}/task").glob("*/children")  # any thread may have begun them
        direct = [child for one in lists for child in one.read_text().split()]
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    kind = "python" if b"pyspark.daemon" in words or b"pyspark/daemon" in words else None
    kind = "executor" if b"CoarseGrainedExecutorBackend" in words else kind
    rest = [one for child in direct for one in below(int(child))]
    return rest + ([(kind, pid)] if kind and pid != os.getpid() else [])

def kill():
    while not stop.wait(draw.uniform(0.2, 2.0)):
        found = below(os.getpid())
        wanted = "executor" if draw.random() < 0.1 else "python"
        pids = [pid for kind, pid in found if kind == wanted]
        if pids:
            try:
                os.kill(draw.choice(pids), signal.SIGKILL)
                killed[wanted] += 1
            except OSError:
                pass

threading.Thread(target=kill, daemon=True).start()
same = 0
for number in range(releases):
    place = folder / str(number)
    try:
        made = published(t.spread(session, frame, 4), schema, TABLES["histogram"](), place)
    except (InputError, PrivateSideError):
        made = None
    entries = [e.kind for e in open_ledger(place / "l.db").history()]
    answers = list((place / "l.db.d").glob("*.dpr"))
    if made is None:
        assert entries.count("debit") <= 1 and not answers and "seal" not in entries, entries
    else:
        assert made == expected
        assert entries.count("debit") == 1 and len(answers) == 1, entries
        same += 1
stop.set()
print(f"the same {same} of {releases}, killed {killed}")
"""


@pytest.mark.nightly
def test_killed_workers_change_nothing_or_end_in_a_refusal(java: None, tmp_path: Path) -> None:
    """Python workers and executors of a cluster are killed at random during 50 releases: identical
    bytes, paid once, or a refusal without an answer."""
    said = run_apart(KILLS, str(tmp_path), "50")
    told = re.search(r"the same ([0-9]+) of 50, killed {'python': ([0-9]+), 'exec", said)
    assert told is not None, said
    assert int(told[1]) > 0
    assert int(told[2]) > 0
