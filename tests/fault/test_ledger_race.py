"""Sixteen processes exhaust one budget: exactly the cap is accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ledger_nursery import Nursery, lines, wait_for

from dpublish.ledger import open_ledger
from dpublish.privacy.cost import Budget, Cost

PROCESSES, CAP = 16, 40  # debits of 1/10 from a budget of 4


def race(folder: Path, **job: Any) -> int:
    """How many debits were accepted altogether."""
    log, gate = folder / "log", folder / "gate"
    with Nursery() as nursery:
        children = [
            nursery.start(
                kind="race", name=f"p{i}", cost="1/10", cap=CAP, log=log, gate=gate, **job
            )
            for i in range(PROCESSES)
        ]
        wait_for(log, "ready", PROCESSES)
        gate.touch()
        assert [nursery.wait(child) for child in children] == [0] * PROCESSES, log.read_text()
    return len(lines(log, "accepted"))


def test_accepted_is_the_cap_exactly(url: str, folder: Path) -> None:
    ledger = open_ledger(url, budget=Budget(epsilon=4), create=True)
    assert race(folder, url=url) == CAP
    status = ledger.verify()
    assert status.spent == status.cap == Cost.pure(4)
    numbers = sorted(int(seq) for _, seq in lines(folder / "log", "accepted"))
    assert numbers == list(range(1, CAP + 1)), "every receipt has its own number"


def test_the_race_catches_a_ledger_that_checks_then_spends(folder: Path) -> None:
    assert race(folder, planted=folder / "planted") > CAP


def test_sixteen_processes_make_one_ledger(url: str, folder: Path) -> None:
    log = folder / "log"
    with Nursery() as nursery:
        children = [
            nursery.start(kind="create", url=url, name=f"p{i}", cost="1/16", log=log)
            for i in range(PROCESSES)
        ]
        assert [nursery.wait(child) for child in children] == [0] * PROCESSES, log.read_text()
    assert len({words[0] for words in lines(log, "created")}) == 1
    assert open_ledger(url).verify().remaining == Cost()


@pytest.mark.nightly
@pytest.mark.parametrize("repetition", range(10))
def test_many_races(url: str, folder: Path, repetition: int) -> None:
    test_accepted_is_the_cap_exactly(url, folder)
