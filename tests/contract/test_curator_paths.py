"""Nothing that is given away tells where, on which machine or by whom it was made: titles that were
declared, and no path.

Every method publishes from files in folders with names that stand nowhere else, on a machine and
for a user with such names, and all bytes of bundles, pages, exports, session headers and requests
are searched for them.
"""

from __future__ import annotations

import getpass
import io
import json
import platform
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
import every_kind
from dpublish.catalogue import RELEASES, methods
from dpublish.cli.app import run
from dpublish.releases.bundle.bundle import read_bundle

CANARY = "zqx"
"""In the name of every folder, file, machine and user of the curator, and in no text of the
product."""

TABLES: dict[str, dp.Mechanism] = {
    "histogram": dp.Histogram(columns=["a", "b", "income"]),
    "projected-histogram": dp.ProjectedHistogram(target="b", choose_k="public"),
    "joined-histograms": dp.JoinedHistograms(target="b"),
    "generalized-table": dp.GeneralizedTable(columns=["a", "b", "income"]),
    "importance-weights": dp.ImportanceWeights(),
    "private-classifier": dp.PrivateClassifier(target="b"),
    "interval-tree": dp.IntervalTree(columns=["income"]),
    "halfspaces": dp.Halfspaces(by="sectors", columns=["income", "height"]),
    "multiplicative-weights": dp.MultiplicativeWeights(columns=["a", "b"]),
    "net": dp.Net(columns=["a", "b"]),
    "workload": dp.Workload(columns=["a", "b"], answer="direct"),
}
STARTS: dict[str, dp.Mechanism] = {"discovery": dp.Discovery(edges=3)}
SETS: dict[str, dp.Mechanism] = {
    "frequent-itemsets": dp.FrequentItemsets(),
    "set-partition": dp.SetPartition(),
    "basic-itemsets": dp.BasicItemsets(),
}


def bytes_of(path: Path) -> bytes:
    """All that a reader of a release can see: the file as it is, and its tables unpacked."""
    bundle = read_bundle(path)
    found = [path.read_bytes(), json.dumps(bundle.manifest).encode()]
    for name in bundle.names:
        unpacked = io.BytesIO()
        bundle.table(name).write_parquet(unpacked, compression="uncompressed", statistics=False)
        found.append(unpacked.getvalue())
    return b"\n".join(found)


def given_away(path: Path) -> Iterator[tuple[str, bytes]]:
    """A release, and everything that is made from it for others."""
    yield "bundle", bytes_of(path)
    release: Any = dp.open_release(path)
    if hasattr(release, "report"):
        page = path.with_suffix(".html")
        release.report(page)
        yield "report", page.read_bytes()
    if hasattr(release, "to_frame"):
        for ending in ("csv", "parquet"):
            table = path.with_suffix(f".{ending}")
            assert run(["export", str(path), "--out", str(table)]) == 0
            yield ending, table.read_bytes()
    yield "summary", json.dumps(release.summary()).encode() + repr(release).encode()


def require_clean(what: str, content: bytes) -> None:
    place = content.lower().find(CANARY.encode())
    assert place < 0, f"{what} tells: {content[max(0, place - 60) : place + 60]!r}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / f"{CANARY}-home" / f"{CANARY} Déjà vu" / f"{CANARY}-clinic"
    (folder / f"{CANARY}-temp").mkdir(parents=True)
    for name in ("USER", "LOGNAME", "USERNAME", "HOSTNAME", "COMPUTERNAME"):
        monkeypatch.setenv(name, f"{CANARY}-{name}")
    for name in ("HOME", "TMPDIR", "DPUBLISH_STATE"):
        monkeypatch.setenv(name, str(folder / f"{CANARY}-temp"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for module, name in (
        (socket, "gethostname"),
        (socket, "getfqdn"),
        (platform, "node"),
        (getpass, "getuser"),
    ):
        monkeypatch.setattr(module, name, lambda *given: f"{CANARY}-machine")
    every_kind.rows().write_csv(folder / f"{CANARY}-rows.csv")
    every_kind.rows(400, seed=2).write_csv(folder / f"{CANARY}-public.csv")
    (folder / f"{CANARY}-table.toml").write_text(every_kind.TABLE)
    (folder / f"{CANARY}-start.toml").write_text(every_kind.START)
    (folder / f"{CANARY}-sets.toml").write_text(every_kind.BASKETS)
    (folder / f"{CANARY}-baskets.txt").write_text("bread milk\nbread\nbeer wine\n" * 200)
    dp.SigningKey.new("The clinic").save(folder / f"{CANARY}.key")
    monkeypatch.chdir(folder)
    return folder


def curator(home: Path, data: str, schema: str) -> dp.Curator:
    return dp.Curator(
        home / f"{CANARY}-{data}",
        home / f"{CANARY}-{schema}.toml",
        ledger=home / f"{CANARY}-{schema}.ledger",
        budget=dp.Budget(epsilon=1000),
        signing_key=home / f"{CANARY}.key",
    )


def requests(owner: dp.Curator) -> bytes:
    """What the ledger holds of each request, which the same key is compared with."""
    return json.dumps(
        [entry.detail["what"] for entry in owner.ledger.history() if entry.kind == "debit"]
    ).encode()


def with_public_file(method: dp.Mechanism, path: str | Path) -> dp.Mechanism:
    if isinstance(method, dp.ImportanceWeights):
        return dp.ImportanceWeights(public=path, alternatives=[Path(path)])
    if isinstance(method, dp.ProjectedHistogram):
        return dp.ProjectedHistogram(target="b", choose_k="public", public_data=path)
    return method


def test_every_method_and_kind_is_here() -> None:
    tried = {**TABLES, **SETS, **STARTS}
    assert set(tried) == set(methods("release"))
    assert {method.kind for method in tried.values()} | {"solution"} == set(RELEASES)


@pytest.mark.parametrize("name", [*TABLES, *SETS, *STARTS])
def test_releases(home: Path, name: str) -> None:
    method = {**TABLES, **SETS, **STARTS}[name]
    schema = "table" if name in TABLES else "sets" if name in SETS else "start"
    owner = curator(home, "baskets.txt" if name in SETS else "rows.csv", schema)
    out = home / "published.dpr"
    owner.publish(
        with_public_file(method, f"{home}/{CANARY}-public.csv"), epsilon=4, seed=1, out=out
    )
    for what, content in given_away(out):
        require_clean(f"{name}: {what}", content)
    require_clean(f"{name}: request", requests(owner))


def test_weights_from_a_release_and_without_rows(home: Path) -> None:
    """The rows of another release are public rows too, and a release may name its rows without
    holding them."""
    owner = curator(home, "rows.csv", "table")
    first = home / f"{CANARY}-first.dpr"
    owner.publish(dp.Histogram(columns=["a", "b"]), epsilon=4, seed=1, out=first)
    out = home / "published.dpr"
    owner.publish(
        dp.ImportanceWeights(public=str(first), publish="hash"), epsilon=4, seed=1, out=out
    )
    require_clean("weights", bytes_of(out))
    with pytest.raises(dp.QueryError) as refused:
        _ = dp.open_release(out).rows  # type: ignore[attr-defined]
    require_clean("refusal", str(refused.value).encode())


def test_a_solution(home: Path) -> None:
    (home / f"{CANARY}-edges.txt").write_text("0 1\n1 2\n2 3\n")
    (home / f"{CANARY}-vertices.txt").write_text("0\n1\n2\n3\n")
    given = [
        f"{home}/{CANARY}-edges.txt",
        "--public",
        f"{home}/{CANARY}-vertices.txt",
        "--ledger",
        f"{CANARY}.ledger",
    ]
    assert (
        run(
            [
                "solve",
                "vertex-cover",
                *given,
                "--budget",
                "9",
                "--epsilon",
                "1",
                "--out",
                f"{home}/published.dpr",
            ]
        )
        == 0
    )
    for what, content in given_away(home / "published.dpr"):
        require_clean(f"solution: {what}", content)


def test_an_online_session(home: Path) -> None:
    """The header of a session and its transcript are public; the session's own folder is not, but
    tells nothing either."""
    owner = curator(home, "rows.csv", "table")
    method = dp.MedianMechanism(columns=["a", "b"], max_queries=20)
    session = owner.answer_online(method, epsilon=400, folder=home / f"{CANARY}-desk", seed=1)
    session.ask("a = 'x'")
    for file in session.folder.iterdir():
        require_clean(file.name, file.read_bytes())
    require_clean("request", requests(owner))


def test_titles_are_published(home: Path) -> None:
    owner = curator(home, "rows.csv", "table")
    path = home / f"{CANARY}-public.csv"
    method = dp.ImportanceWeights(
        public=path, alternatives=["uniform"], titles=["Volunteers 2013", "no rows at all"]
    )
    owner.publish(method, epsilon=4, seed=1, out=home / "published.dpr")
    manifest = dp.open_release(home / "published.dpr").manifest
    assert [one["name"] for one in manifest["parameters"]["public"]] == [
        "Volunteers 2013",
        "no rows at all",
    ]
    assert "'Volunteers 2013'" in " ".join(manifest["plan"]["sentences"])


@pytest.mark.parametrize("titles", [["one", "two"], [" "], ["x" * 201], ["two\nlines"]])
def test_wrong_titles(titles: list[str]) -> None:
    schema = dp.Schema.from_toml(every_kind.TABLE)
    method = dp.ImportanceWeights(public=pl.DataFrame({"a": ["x", "y"]}), titles=titles)
    with pytest.raises(dp.PlanError, match="title"):
        method.plan(schema, dp.Cost.pure(1))
