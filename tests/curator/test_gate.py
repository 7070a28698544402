"""The gate: pay first, then read; refuse before paying; one answer per key; nothing private in an
error."""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.curator import gate
from dpublish.sources.sources import Source

from .conftest import CANARY, SCHEMA, spent


def test_publish_pays_seals_and_returns_a_release(curator: dp.Curator, tmp_path: Path) -> None:
    release = curator.publish(dp.Histogram(columns=["ward"]), epsilon="1/2", out=tmp_path / "r.dpr")
    assert spent(curator) == Fraction(1, 2)
    assert dp.verify_bundle(tmp_path / "r.dpr").ok
    manifest = release.manifest
    assert manifest["publishable"] is True
    assert manifest["privacy"]["cost"] == dp.Cost.pure("1/2").to_json()
    assert manifest["receipt"]["head_hash"] == next(
        entry.hash for entry in curator.ledger.history() if entry.kind == "debit"
    )
    assert "one row" in manifest["privacy"]["statement"]
    # fresh noise of scale 4: farther off with a probability of 2e-9
    assert abs(release.estimate("ward = 'north'").value - 250) < 80  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        (dp.MedianMechanism(), "answer_online"),
        (dp.OnlineMultiplicativeWeights(), "answer_online"),
        (dp.Histogram, "by a method"),
        ("histogram", "by a method"),
        (None, "by a method"),
    ],
)
def test_what_makes_no_release_is_refused_before_anything_is_spent(
    curator: dp.Curator, mechanism: Any, words: str
) -> None:
    with pytest.raises(dp.PlanError, match=words):
        curator.publish(mechanism, epsilon=1)
    if words == "answer_online":
        assert "one at a time" in curator.plan(mechanism, epsilon=1).text()
    else:
        with pytest.raises(dp.PlanError, match=words):
            curator.plan(mechanism, epsilon=1)
    assert spent(curator) == 0


def test_a_release_states_the_digest_of_the_schema_as_declared(
    curator: dp.Curator, frame: pl.DataFrame, tmp_path: Path
) -> None:
    declared = dp.Schema.from_toml(SCHEMA)
    first = curator.publish(
        dp.Histogram(columns=["ward"]), epsilon=1, key="k", out=tmp_path / "r.dpr"
    )
    assert first.manifest["schema_digest"] == declared.digest
    assert first.manifest["privacy"]["size"] == 1000
    assert dp.verify_bundle(tmp_path / "r.dpr").facts["schema_digest"] == declared.digest
    # the same request, with the number that was counted now declared: the same bytes, paid once
    sized = dp.Schema.from_toml(SCHEMA.replace("[columns.ward]", "size = 1000\n[columns.ward]"))
    again = dp.Curator(frame, sized, ledger=curator.ledger, store=curator._store)
    again.publish(dp.Histogram(columns=["ward"]), epsilon=1, key="k", out=tmp_path / "again.dpr")
    assert (tmp_path / "again.dpr").read_bytes() == (tmp_path / "r.dpr").read_bytes()
    assert spent(curator) == 1
    # other rows, of another number, are another request
    fewer = dp.Curator(frame.head(10), declared, ledger=curator.ledger, store=curator._store)
    with pytest.raises(dp.BudgetError):
        fewer.publish(dp.Histogram(columns=["ward"]), epsilon=1, key="k")


def test_the_ledger_is_debited_before_rows_are_read(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Fraction] = []
    opened = curator._open_source()

    class Spy(Source):
        def columns(self) -> tuple[str, ...]:
            return opened.columns()

        def count_rows(self) -> int:
            return opened.count_rows()

        def batches(self, columns: Any) -> Iterator[pl.DataFrame]:
            seen.append(spent(curator))
            yield from opened.batches(columns)

    monkeypatch.setattr(curator, "_open_source", Spy)
    curator.publish(dp.Histogram(), epsilon=1)
    assert seen == [Fraction(1)]


@pytest.mark.parametrize(
    "epsilon", [0, -1, "nan", float("nan"), float("inf"), "0", "-1/2", "soon", None]
)
def test_bad_epsilon_is_refused_unspent(curator: dp.Curator, epsilon: Any) -> None:
    with pytest.raises(dp.PlanError, match="epsilon"):
        curator.publish(dp.Histogram(), epsilon=epsilon)
    assert spent(curator) == 0


def test_refusals_before_the_debit(frame: pl.DataFrame, tmp_path: Path) -> None:
    ledger = dp.open_ledger(tmp_path / "x.ledger", budget=dp.Budget(epsilon=1), create=True)

    def attempt(schema: str, data: object = frame, **settings: Any) -> None:
        dp.Curator(data, dp.Schema.from_toml(schema), ledger=ledger, store=tmp_path / "s").publish(
            dp.Histogram(**settings), epsilon="1/2"
        )

    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (dp.SchemaError, "draft", {"schema": SCHEMA + "[draft]\nderived_from_rows = true\n"}),
        (dp.SchemaError, "Did you mean 'ward'", {"schema": SCHEMA, "columns": ["wrad"]}),
        (
            dp.SchemaError,
            "declares column 'ward', but the data has none",
            {"schema": SCHEMA, "data": frame.rename({"ward": "wards"})},
        ),
        (dp.SchemaError, "has no upper bound", {"schema": SCHEMA.replace("upper = 99\n", "")}),
        (
            dp.SchemaError,
            "declares size = 7",
            {"schema": SCHEMA.replace("[columns.ward]", "size = 7\n[columns.ward]")},
        ),
        (dp.InputError, "no rows", {"schema": SCHEMA, "data": frame.clear()}),
    ]
    for error, words, arguments in cases:
        with pytest.raises(error, match=words):
            attempt(**arguments)
    assert ledger.status().spent.epsilon == 0


def test_budget_is_a_cap(curator: dp.Curator) -> None:
    curator.publish(dp.Histogram(), epsilon=2)
    with pytest.raises(dp.BudgetExceeded, match="left of"):
        curator.publish(dp.Histogram(), epsilon="1.0000001")
    curator.publish(dp.Histogram(), epsilon=1)
    assert spent(curator) == 3


UNITS = {
    "persons": 'neighbours = "add-remove-one"\nnominal_size = 100\nunit = '
    '"who"\nmax_rows_per_unit = 10',
    "fewer rows of persons": 'neighbours = "add-remove-one"\nnominal_size = 100\nunit = '
    '"who"\nmax_rows_per_unit = 3',
    "rows": 'neighbours = "add-remove-one"\nnominal_size = 1000',
    "rows, replaced": 'neighbours = "replace-one"',
}


def test_a_ledger_speaks_of_one_unit_and_one_relation(frame: pl.DataFrame, tmp_path: Path) -> None:
    """Epsilon 1 for a row is epsilon 10 for a person with ten rows: their sum would mean
    nothing."""
    rows = frame.with_columns(who=pl.int_range(pl.len()) // 10)

    def publish(unit: str, ledger: str = "c.ledger") -> dp.Curator:
        schema = dp.Schema.from_toml(
            SCHEMA.replace('name = "clinic"', f'name = "clinic"\n{UNITS[unit]}')
        )
        curator = dp.Curator(
            rows,
            schema,
            ledger=tmp_path / ledger,
            budget=dp.Budget(epsilon=3),
            second_budget=ledger != "c.ledger",
        )
        curator.publish(dp.Histogram(columns=["ward"]), epsilon=1)
        return curator

    publish("persons")
    for unit in ("rows", "rows, replaced"):
        with pytest.raises(
            dp.BudgetError, match=r"'who' \(add-remove-one\); this release protects one row"
        ):
            publish(unit)
        publish(unit, ledger=f"{unit}.ledger")
    edges = [("a", "b"), ("b", "c")]
    with pytest.raises(dp.BudgetError, match=r"protects one row \(add-remove-one\)"):
        dp.optimize.vertex_cover(
            edges, vertices=["a", "b", "c"], epsilon=1, ledger=tmp_path / "c.ledger"
        )
    status = publish("fewer rows of persons").ledger.verify()
    assert status.spent == dp.Cost.pure(2), "a refused release cost nothing"
    assert status.protects is not None
    assert status.protects.column == "who"


def test_one_key_one_answer(curator: dp.Curator, tmp_path: Path) -> None:
    for name in ("a.dpr", "b.dpr"):
        curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / name)
    assert (tmp_path / "a.dpr").read_bytes() == (tmp_path / "b.dpr").read_bytes()
    assert spent(curator) == 1
    with pytest.raises(dp.BudgetError):
        curator.publish(dp.Histogram(columns=["age"]), epsilon=1, key="k")
    assert spent(curator) == 1


@pytest.mark.parametrize("name", ["r.dpr", "folder"])
def test_what_stands_at_out_is_left_alone(curator: dp.Curator, tmp_path: Path, name: str) -> None:
    for _ in range(2):  # the same key again finds its own release there
        curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / name)
    first = dp.open_release(tmp_path / name).manifest["receipt"]
    with pytest.raises(dp.InputError, match=r"exists already.*Nothing was spent"):
        curator.publish(dp.Histogram(), epsilon="1/2", key="other", out=tmp_path / name)
    assert dp.open_release(tmp_path / name).manifest["receipt"] == first
    assert spent(curator) == 1
    if name == "folder":  # a folder is never replaced: it may hold other files by now
        with pytest.raises(dp.InputError, match=r"Give another name\. Nothing was spent"):
            curator.publish(dp.Histogram(), epsilon="1/2", out=tmp_path / name, overwrite=True)
        assert spent(curator) == 1
    else:
        curator.publish(
            dp.Histogram(), epsilon="1/2", key="other", out=tmp_path / name, overwrite=True
        )
        assert dp.open_release(tmp_path / name).manifest["receipt"]["key"] == "other"


def test_a_file_that_appears_after_the_debit_is_left_alone(
    curator: dp.Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "r.dpr"
    monkeypatch.setattr(gate, "reach", lambda point: out.write_text("mine"))
    with pytest.raises(dp.PublishError, match="appeared meanwhile"):
        curator.publish(dp.Histogram(), epsilon=1, key="k", out=out)
    monkeypatch.undo()
    assert out.read_text() == "mine"
    assert [path for path in tmp_path.iterdir() if path.name.endswith(".partial")] == []
    curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / "other.dpr")
    assert spent(curator) == 1, "it was paid once and kept"


def test_a_failure_after_reading_says_nothing(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*args: object, **kwargs: object) -> None:
        raise ValueError(f"bad cell {CANARY}")

    monkeypatch.setattr("dpublish.counting.compute.compute", explode)
    with pytest.raises(dp.PrivateSideError) as caught:
        curator.publish(dp.Histogram(), epsilon=1, key="k")
    assert CANARY not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert spent(curator) == 1
    monkeypatch.undo()
    with pytest.raises(dp.BudgetError, match="new key"):
        curator.publish(dp.Histogram(), epsilon=1, key="k")


def frames_of(error: BaseException) -> str:
    """All local variables of the library that a traceback with variables would print."""
    found = [
        frame
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename != __file__
    ]
    assert found
    return "".join(repr(frame.f_locals) for frame in found)


@pytest.mark.parametrize(
    ("cause", "seen"),
    [(ZeroDivisionError(), dp.PrivateSideError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_what_is_raised_holds_no_rows(
    cause: BaseException,
    seen: type[BaseException],
    curator: dp.Curator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = np.array([424_242])

    def fail(*args: object) -> None:
        raise cause

    monkeypatch.setattr("dpublish.counting.compute.compute", lambda *args, **kwargs: secret)
    monkeypatch.setattr(dp.Histogram, "run", fail)
    with pytest.raises(seen) as caught:
        curator.publish(dp.Histogram(), epsilon=1)
    assert "424242" not in frames_of(caught.value)


@pytest.mark.parametrize("unit", ["row", "ward"])
@pytest.mark.parametrize("kind", ["lazy", "sql"])
def test_counting_units_before_the_debit_says_nothing_either(
    kind: str, unit: str, frame: pl.DataFrame, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Under replace-one the number of units is public, and a query that stumbles over a row would
    quote it."""
    import sqlite3

    data: Any = frame.lazy().filter(pl.col("ward").cast(pl.Int64) > 0)
    if kind == "sql":
        with sqlite3.connect(tmp_path / "c.db") as database:
            database.execute("create table t (ward, age)")
            database.execute("insert into t values (?, 1)", [CANARY])
        data = dp.SqlSource(
            f"sqlite:///{tmp_path / 'c.db'}",
            "select * from t where json_extract(ward, '$.x') is null",
        )
    schema = dp.Schema.from_toml(
        SCHEMA.replace(
            '"clinic"', f'"clinic"\nunit = "{unit}"\n' + "max_rows_per_unit = 1\n" * (unit != "row")
        )
    )
    curator = dp.Curator(data, schema, ledger=tmp_path / "c.ledger", budget=dp.Budget(epsilon=3))
    for ask in (curator.plan, curator.publish):
        with pytest.raises(dp.InputError, match="could not be counted") as caught:
            ask(dp.Histogram(columns=["age"]), epsilon=1)
        assert CANARY not in "".join(traceback.format_exception(caught.value)) + frames_of(
            caught.value
        )
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert CANARY not in capfd.readouterr().err
    assert spent(curator) == 0


def test_an_epsilon_whose_release_could_not_be_opened_is_refused_unspent(
    curator: dp.Curator,
) -> None:
    with pytest.raises(dp.PlanError, match="so small"):
        curator.publish(dp.Histogram(), epsilon="1e-7")
    assert spent(curator) == 0
    assert curator.publish(dp.Histogram(), epsilon="1e-6").manifest["method"] == "histogram"


def test_a_full_disk_at_the_end_says_where_the_paid_release_is(
    curator: dp.Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(dp.PublishError, match=r"No space left on device.*paid release is in"):
        curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / "out.dpr")
    assert not list(tmp_path.glob("*.dpr")) + list(tmp_path.glob(".*.partial"))
    monkeypatch.undo()
    assert (
        curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / "out.dpr").path
        == tmp_path / "out.dpr"
    )
    assert spent(curator) == 1


def test_what_is_too_little_follows_from_the_rows_of_a_unit() -> None:
    """Noise grows with them: a thousandth of a millionth a row cannot be opened, however it is
    written."""
    text = (
        '[dataset]\nname = "v"\nneighbours = "add-remove-one"\nunit = "who"\n'
        "max_rows_per_unit = 1000\n"
    )
    schema = dp.Schema.from_toml(text + '[columns.x]\nkind = "boolean"\n')
    for cost in (dp.Cost.pure("1/2000"), dp.Cost.zcdp("1e-7")):
        with pytest.raises(
            dp.PlanError,
            match="so small that nothing can be planned with it for units of up to 1,000 rows",
        ):
            dp.JoinedHistograms().plan(schema, cost)
    assert dp.JoinedHistograms().plan(schema, dp.Cost.pure("1/1000")).cost == dp.Cost.pure("1/1000")


def test_rho_stands_for_every_delta(curator: dp.Curator) -> None:
    with pytest.raises(dp.PlanError, match="not both"):
        curator.plan(dp.Histogram(), rho="1/4", delta="1e-6")


def test_a_panic_of_native_code_says_nothing_either(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    class Panic(BaseException):
        """What pyo3 raises for a Rust panic; the runtime has printed the message to descriptor 2 by
        then."""

    def panic(*args: object, **kwargs: object) -> None:
        os.write(2, f"thread panicked at {CANARY}".encode())
        raise Panic(CANARY)

    monkeypatch.setattr("dpublish.counting.compute.compute", panic)
    with pytest.raises(dp.PrivateSideError):
        curator.publish(dp.Histogram(), epsilon=1)
    assert CANARY not in capfd.readouterr().err


def test_seeded_releases_are_marked(curator: dp.Curator) -> None:
    release = curator.publish(dp.Histogram(), epsilon=1, seed=5)
    assert release.manifest["publishable"] is False
    assert release.manifest["privacy"]["statement"].startswith("NOT PUBLISHABLE")


def test_plan_reads_no_rows(curator: dp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*args: object) -> None:
        raise AssertionError("rows were read")

    monkeypatch.setattr("dpublish.counting.compute.compute", explode)
    plan = curator.plan(dp.Histogram(), epsilon=1)
    assert plan.schema.size == 1000
    assert spent(curator) == 0


def test_units_with_several_rows_end_to_end(tmp_path: Path) -> None:
    schema = SCHEMA.replace(
        "[columns.ward]", 'unit = "person"\nmax_rows_per_unit = 2\n[columns.ward]', 1
    )
    rows = pl.DataFrame(
        {
            "person": [1] * 400 + list(range(2, 202)),
            "ward": ["north"] * 400 + ["south"] * 200,
            "age": [5] * 600,
        }
    )
    curator = dp.Curator(
        rows,
        dp.Schema.from_toml(schema),
        ledger=tmp_path / "u.ledger",
        budget=dp.Budget(epsilon=1000),
    )
    release = curator.publish(dp.Histogram(columns=["ward"]), epsilon=1000)
    counts = {row["ward"]: row["weight"] for row in release.to_frame().to_dicts()}  # type: ignore[attr-defined]
    assert counts.get("south") == 200
    assert counts.get("north", 0) <= 3  # 400 rows of one person count as 2
    assert release.manifest["privacy"]["sensitivity"] == "4"


def test_unwritable_places_are_found_before_the_debit(curator: dp.Curator, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(dp.InputError, match="Nothing was spent"):
        curator.publish(dp.Histogram(), epsilon=1, out=tmp_path / "file" / "r.dpr")
    assert spent(curator) == 0


def test_an_answer_of_another_ledger_is_found_before_the_debit(
    curator: dp.Curator, frame: pl.DataFrame, tmp_path: Path
) -> None:
    store = tmp_path / "c.ledger.d"
    paid = curator.publish(dp.Histogram(columns=["ward"]), epsilon=1, key="2024").path
    schema = dp.Schema.from_toml(SCHEMA)
    other = dp.Curator(
        frame, schema, ledger=tmp_path / "d.ledger", budget=dp.Budget(epsilon=3), store=store
    )
    with pytest.raises(dp.InputError, match=r"another ledger.*Nothing was spent"):
        other.publish(dp.Histogram(columns=["ward"]), epsilon=1, key="2024")
    assert spent(other) == 0
    assert curator.publish(dp.Histogram(columns=["ward"]), epsilon=1, key="2024").path == paid
    method = dp.MedianMechanism(columns=["ward"], accuracy=0.3, max_hard=5)
    curator.answer_online(method, epsilon=1, key="desk")
    with pytest.raises(dp.InputError, match=r"another ledger.*Nothing was spent"):
        other.answer_online(method, epsilon=1, key="desk")
    assert spent(other) == 0
    curator.answer_online(method, epsilon=1, key="desk")
    assert spent(curator) == 2


@pytest.mark.parametrize("ledger", ["~/c.ledger", "sqlite:///~/c.ledger"])
def test_releases_are_kept_beside_a_ledger_in_the_home_folder(
    frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ledger: str
) -> None:
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    curator = dp.Curator(
        frame, dp.Schema.from_toml(SCHEMA), ledger=ledger, budget=dp.Budget(epsilon=3)
    )
    curator.publish(dp.Histogram(columns=["ward"]), epsilon=1)
    assert list(here.iterdir()) == []
    assert len(list((home / "c.ledger.d").iterdir())) == 1
