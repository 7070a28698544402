"""Jobs: one process each, which a crash ends and a restart of the service finds again."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpublish.ledger import open_ledger
from dpublish.privacy.cost import Budget, Cost
from dpublish.requests.curator import Methods, Release
from dpublish.requests.ledger import OfKey
from dpublish.requests.plans import Plan
from dpublish.requests.schemas import CheckData
from dpublish.server.jobs import JobRunner, JobStatus
from dpublish.server.store import JOBS, Store
from dpublish.server.worker import LOCK

SCHEMA = """
[dataset]
name = "jobs"
neighbours = "add-remove-one"
[columns.x]
kind = "categorical"
levels = ["a", "b"]
"""
SLOW = (
    "with recursive c(n) as (select 1 union all select n + 1 from c where n < 400000000) "
    "select 'a' as x from c where n > 399999990"
)
APPROVAL = {"proposed_by": "bo", "approved_by": "ana", "two_persons": "kept"}


class House:
    """A place with rows, a schema and a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rows.csv").write_text("x\n" + "a\n" * 30 + "b\n" * 12)
        (folder / "schema.toml").write_text(SCHEMA)
        self.ledger = f"sqlite:///{folder / 'ledger'}"
        with open_ledger(self.ledger, budget=Budget(epsilon=2), create=True):
            pass
        self.store = Store(f"sqlite:///{folder / 'office.sqlite'}")
        self.runners: list[JobRunner] = []

    def runner(self, **given: float) -> JobRunner:
        self.runners.append(JobRunner(self.store, self.folder / "jobs", **given))  # type: ignore[arg-type]
        return self.runners[-1]

    def release(self, name: str = "r", **given: object) -> Release:
        fields: dict[str, object] = {
            "data": str(self.folder / "rows.csv"),
            "schema": self.folder / "schema.toml",
            "ledger": self.ledger,
            "out": self.folder / f"{name}.dpr",
            "epsilon": "1/2",
        }
        return Release(**{**fields, **given})  # type: ignore[arg-type]

    def slow(self) -> Release:
        database = self.folder / "empty.sqlite"
        sqlite3.connect(database).close()
        return self.release("slow", data=f"sql:{SLOW}", database=f"sqlite:///{database}")

    def entries(self) -> list[str]:
        with open_ledger(self.ledger) as ledger:
            return [entry.kind for entry in ledger.history()]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "anchors"))
    made = House(tmp_path)
    yield made
    for runner in made.runners:
        for row in made.store.rows(JOBS):
            if row["state"] in ("waiting", "running"):
                runner.cancel(row["id"], actor="test")
        runner.close()
    made.store.close()


def until(found: Callable[[], bool], seconds: float = 240) -> None:
    latest = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < latest, "it took too long"
        time.sleep(0.02)


def ended(runner: JobRunner, job: str) -> JobStatus:
    until(lambda: runner.status(job).over)
    return runner.status(job)


def group_of(house: House, job: str) -> int:
    lock = house.folder / "jobs" / job / LOCK
    until(lambda: lock.exists() and lock.read_text() != "")
    return int(lock.read_text())


def test_a_job_runs_its_requests_and_keeps_what_they_answer(house: House) -> None:
    runner = house.runner()
    asked = [Methods(name="histogram"), house.release()]
    job = runner.submit(asked, actor="ana", subject="release r", approval=APPROVAL)
    status = ended(runner, job)
    assert (status.state, status.spent, status.error) == ("done", True, None)
    assert [len(runner.results(job)), (house.folder / "r.dpr").exists()] == [2, True]
    with open_ledger(house.ledger) as ledger:
        debit = next(entry for entry in ledger.history() if entry.kind == "debit")
    assert debit.detail["by"] == {"who": "ana", "door": "dpublish serve", **APPROVAL}
    assert (house.folder / "jobs" / job / "results.json").stat().st_mode & 0o777 == 0o600
    runner.forget(job)
    assert runner.results(job) == []


def test_what_a_check_found_is_deleted_a_day_later(house: House) -> None:
    runner = house.runner()
    rows, schema = str(house.folder / "rows.csv"), house.folder / "schema.toml"
    asked = [CheckData(data=rows, schema=schema)], [Methods(name="histogram")]
    check, methods = (runner.submit(one, actor="ana", subject="s") for one in asked)
    assert [ended(runner, job).state for job in (check, methods)] == ["done", "done"]
    runner.forget_private()
    assert runner.results(check)
    for job in (check, methods):
        os.utime(house.folder / "jobs" / job / "results.json", (0, 0))
    house.runner()
    assert (runner.results(check), len(runner.results(methods))) == ([], 1)


def test_a_refusal_says_why_and_that_nothing_was_paid(house: House) -> None:
    runner = house.runner()
    status = ended(runner, runner.submit([house.release(epsilon="9")], actor="a", subject="x"))
    assert (status.state, status.spent) == ("failed", False)
    assert status.error is not None
    assert status.error["type"] == "BudgetExceeded"
    assert status.error["payment"] == "Nothing was paid, and nothing is lost."


def test_who_cancels_after_the_debit_hears_what_is_paid_and_may_go_on(house: House) -> None:
    runner = house.runner()
    slow = dataclasses.replace(house.slow(), key="slow-1")
    job = runner.submit([slow], actor="ana", subject="slow")
    until(lambda: "debit" in house.entries())
    until(lambda: runner.status(job).step == "reading rows")
    runner.cancel(job, actor="bo")
    status = ended(runner, job)
    assert (status.state, status.spent) == ("cancelled", True)
    assert status.error is not None
    assert status.error["message"] == (
        "Cancelled. epsilon = 0.5 (pure differential privacy) is paid, and stays paid. Nothing is "
        "lost: no noise was drawn, and going on costs nothing more."
    )
    assert "drawing" not in house.entries()
    again = runner.submit([slow], actor="bo", subject="slow")
    until(lambda: "attempt" in house.entries())
    runner.cancel(again, actor="bo")
    assert ended(runner, again).state == "cancelled"
    assert house.entries().count("debit") == 1


def test_what_waits_is_cancelled_unpaid(house: House) -> None:
    runner = house.runner(at_once=1)
    first = runner.submit([house.slow()], actor="ana", subject="slow")
    until(lambda: runner.status(first).state == "running")
    second = runner.submit([house.release()], actor="ana", subject="later")
    runner.cancel(second, actor="ana")
    status = ended(runner, second)
    assert status.error is not None
    assert status.error["message"] == "Cancelled. Nothing was paid, and nothing is lost."


def test_a_worker_that_dies_is_followed_by_one_with_the_same_key(house: House) -> None:
    runner = house.runner()
    job = runner.submit([house.release()], actor="ana", subject="release r")
    os.killpg(group_of(house, job), signal.SIGKILL)
    status = ended(runner, job)
    assert status.state == "done"
    kinds = house.entries()
    assert (kinds.count("debit"), kinds.count("seal")) == (1, 1)


def test_a_restart_finds_a_worker_that_goes_on_and_runs_what_died_again(house: House) -> None:
    before = house.runner()
    slow = before.submit([house.slow()], actor="ana", subject="slow")
    until(lambda: before.status(slow).step == "reading rows")
    group = group_of(house, slow)
    before.close()  # as when the service ends; nobody watches now
    quick = before.submit([house.release(epsilon="1/4")], actor="ana", subject="release r")
    after = house.runner()
    assert ended(after, quick).state == "done"
    os.killpg(group, 0)  # it was not disturbed
    assert after.status(slow).state == "running"
    after.cancel(slow, actor="ana")
    assert ended(after, slow).state == "cancelled"


def test_what_is_lost_follows_the_mark_of_drawing(house: House) -> None:
    asked = OfKey(url=house.ledger, key="k")
    with open_ledger(house.ledger) as ledger:
        assert asked.run().describe() == "Nothing was paid, and nothing is lost."
        ledger.debit("k", Cost.pure(1), {}, rows_key=b"0" * 16)
        assert "going on costs nothing more" in asked.run().describe()
        ledger.drawing("k")
        assert "it is lost" in asked.run().describe()
        ledger.seal("k", sha256="ab" * 32, size=1, location="x")
        assert "the answer was made" in asked.run().describe()


def test_steps_and_tables_hold_no_count_of_rows(house: House) -> None:
    (house.folder / "rows.csv").write_text("x\n" + "a\n" * 7919)
    runner = house.runner()
    job = runner.submit([house.release()], actor="ana", subject="release r")
    assert ended(runner, job).state == "done"
    tables = (house.folder / "office.sqlite").read_bytes()
    log = (house.folder / "office.sqlite-wal").read_bytes()
    step = (house.folder / "jobs" / job / "step").read_bytes()
    assert b"7919" not in tables + log + step


def test_a_plan_costs_nothing(house: House) -> None:
    runner = house.runner()
    asked = Plan(schema=house.folder / "schema.toml", epsilon="1")
    job = runner.submit([asked], actor="ana", subject="plan")
    status = ended(runner, job)
    assert (status.state, status.spent) == ("done", False)
    assert json.dumps(runner.results(job)).startswith('[{"')
