"""The ledger's invariants while the service and its workers are killed, a database restarts, and
curators race for the last of a budget."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpublish.ledger import open_ledger
from dpublish.server.accounts import Role
from pg import shared_postgres
from server.offices import Program, Running, set_up, until

SMALL = "1/100"


def approved(curator: Program, approver: Program, name: str, epsilon: str) -> None:
    made = curator(
        "POST", "/api/proposals", dataset="visits", release=name, epsilon=epsilon,
        settings={"columns": "ward"}, title=name,
    )  # fmt: skip
    approver("POST", f"/api/proposals/{made['id']}/approve")


def settled(curator: Program, names: list[str]) -> dict[str, str]:
    def states() -> dict[str, str] | None:
        found = {
            one["name"]: one["state"]
            for one in curator("GET", "/api/office/releases")["releases"]
            if one["name"] in names
        }
        return found if not {"making"} & {*found.values()} else None

    found: dict[str, str] = until(states, 300)
    return found


def hold(office: Running, states: dict[str, str], cap: Fraction) -> Any:
    """Every key paid at most once, every answer sealed at most once and the one that is there, the
    sum within the cap, the chain whole."""
    before = os.environ.get("DPUBLISH_STATE")
    os.environ["DPUBLISH_STATE"] = str(office.folder / "anchors")
    try:
        with open_ledger(office.ledger, name="people") as ledger:
            status, entries = ledger.verify(), ledger.history()
    finally:
        if before is not None:
            os.environ["DPUBLISH_STATE"] = before
    debits = [one.key for one in entries if one.kind == "debit"]
    seals = [one.key for one in entries if one.kind == "seal"]
    assert len(debits) == len(set(debits))
    assert len(seals) == len(set(seals))
    assert set(seals) <= set(debits)
    assert status.spent.epsilon == sum(one.charged.epsilon for one in entries)
    assert status.spent.epsilon <= cap
    made = [name for name, state in states.items() if state != "failed"]
    assert len(made) <= len(seals)
    assert all(one.detail["by"]["who"] for one in entries)
    return status


def killing(folder: Path, kills: int, seed: int, **options: Any) -> dict[str, int]:
    """Kill the service or a worker at random moments while releases are made."""
    office = Running(folder, **options)
    dice = random.Random(seed)
    try:
        people = (office.program(Role.curator), office.program(Role.approver))
        set_up(*people, office.program(Role.admin), epsilon="100")
        names: list[str] = []
        for number in range(kills):
            if number % 2 == 0 or settled_none(people[0], names):
                names.append(f"r{number}")
                approved(*people, names[-1], f"{number + 1}/1000")
            until_or(dice.uniform(0, 4))
            if dice.random() < 0.5:
                office.kill()
                office.start()
            else:
                kill_workers(office)
        states = settled(people[0], names)
        assert set(states) == set(names)
        hold(office, states, Fraction(100))
        return {state: list(states.values()).count(state) for state in set(states.values())}
    finally:
        office.stop()


def settled_none(curator: Program, names: list[str]) -> bool:
    found = curator("GET", "/api/office/releases")["releases"]
    return not any(one["state"] == "making" for one in found)


def until_or(seconds: float) -> None:
    import time

    time.sleep(seconds)


def kill_workers(office: Running) -> None:
    for lock in (office.state / "jobs").glob("*/lock"):
        with suppress(OSError, ValueError):
            group = int(lock.read_text())
            words = Path(f"/proc/{group}/cmdline").read_bytes()
            if str(office.state).encode() in words:  # never another's process
                os.killpg(group, signal.SIGKILL)


def test_kills_of_service_and_workers(tmp_path: Path) -> None:
    found = killing(tmp_path, 6, seed=5)
    assert found.get("made", 0) >= 1, found


@pytest.mark.nightly
def test_two_hundred_kills(tmp_path: Path) -> None:
    found = killing(tmp_path, 200, seed=6)
    print(f"releases by state: {found}")
    assert found.get("made", 0) >= 50, found


@pytest.mark.nightly
def test_a_postgresql_restart_in_the_middle(tmp_path: Path) -> None:
    with shared_postgres() as server:
        office = Running(tmp_path, database=server.fresh_url(), ledger=server.fresh_url())
        try:
            people = (office.program(Role.curator), office.program(Role.approver))
            set_up(*people, office.program(Role.admin))
            approved(*people, "first", "1/2")
            until_or(1.0)
            server.crash_and_restart()
            until(lambda: _alive(office))
            states = settled(people[0], ["first"])
            approved(*people, "second", "1/4")
            states = settled(people[0], ["first", "second"])
            assert states["second"] == "made", states
            hold(office, states, Fraction(4))
        finally:
            office.stop()


def _alive(office: Running) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{office.url}/health", timeout=10).status_code == 200
    return False


@pytest.mark.nightly
def test_sixteen_curators_race_for_the_last_of_a_budget(tmp_path: Path) -> None:
    office = Running(tmp_path, jobs=16)
    try:
        admin, approver = office.program(Role.admin), office.program(Role.approver)
        set_up(office.program(Role.curator), approver, admin, epsilon="1")
        curators = [office.program(Role.curator, name=f"c{number}") for number in range(16)]

        def one(number: int) -> None:
            # amounts differ, or the ledger would refuse the same request under another key
            share = Fraction(1, 4) + Fraction(number, 10**9)
            approved(curators[number], approver, f"r{number}", str(share))

        racing = [threading.Thread(target=one, args=(number,)) for number in range(16)]
        for thread in racing:
            thread.start()
        for thread in racing:
            thread.join()
        states = settled(curators[0], [f"r{number}" for number in range(16)])
        status = hold(office, states, Fraction(1))
        assert [*states.values()].count("made") == 3
        # four exact quarters would fill it: the last of the budget goes to exactly one of many
        for number in range(16):
            with suppress(AssertionError):
                rest = str(Fraction(status.remaining.epsilon))
                approved(curators[number], approver, f"last{number}", rest)
        last = settled(curators[0], [f"last{number}" for number in range(16)])
        status = hold(office, {**states, **last}, Fraction(1))
        assert status.remaining.epsilon == 0
        assert [*last.values()].count("made") == 1
    finally:
        office.stop()
