"""kill -9 at named points and at random moments around debit and seal. Fifty kills here, a thousand
nightly."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from ledger_nursery import Nursery, check_invariants, lines, wait_for

from dpublish.ledger import crashpoints, open_ledger
from dpublish.privacy.cost import Budget, Cost

COST = Cost.pure("1/100")
KEYS = [f"k{i}" for i in range(60)]
POINTS = [point for point in crashpoints.POINTS if not point.startswith("write-off")]


def kill_runs(
    url: str, folder: Path, *, named: list[str], at_random: int, seed: int, budget: Budget
) -> int:
    """Children work through keys in changing order and are killed; afterwards one child works in
    peace. The kills made."""
    rng = random.Random(seed)
    log = folder / "log"
    open_ledger(url, budget=budget, create=True).close()
    killed = 0
    with Nursery() as nursery:

        def start(point: str | None, keys: list[str]) -> int:
            count = rng.randrange(1, 3)
            return nursery.start(
                kind="work",
                url=url,
                folder=folder,
                log=log,
                cost="1/100",
                point=point,
                count=count,
                keys=keys,
            )

        for i, point in enumerate(
            named
        ):  # two new keys, so that the point is surely reached, then old ones
            killed += (
                nursery.wait(start(point, [f"n{i}", f"m{i}", *rng.sample(KEYS, 3)]))
                == -signal.SIGKILL
            )
        for _ in range(at_random):
            ready = len(lines(log, "ready"))
            rivals = [
                start(None, rng.sample(KEYS, 60) * 5),
                start(None, rng.sample(KEYS, 5)),
            ]  # the second must not be disturbed
            wait_for(log, "ready", ready + 1)
            time.sleep(rng.uniform(0, 0.04))
            os.kill(rivals[0], signal.SIGKILL)
            killed += nursery.wait(rivals[0]) == -signal.SIGKILL
            assert nursery.wait(rivals[1]) == 0
        shown = len(lines(log, "shown"))
        peaceful = nursery.start(
            kind="work",
            url=url,
            folder=folder,
            log=log,
            cost="1/100",
            point=None,
            count=1,
            keys=KEYS[:30],
        )
        assert nursery.wait(peaceful) == 0
        assert len(lines(log, "shown")) > shown, "after the faults the ledger answers again"
    with open_ledger(url) as ledger:
        check_invariants(ledger, log, folder, COST)
    assert not lines(log, "unavailable")
    return killed


def test_kills(url: str, folder: Path) -> None:
    sqlite = url.startswith("sqlite")
    named, at_random = (POINTS * 2, 14) if sqlite else (POINTS, 11)
    killed = kill_runs(
        url, folder, named=named, at_random=at_random, seed=11, budget=Budget(epsilon=5)
    )
    assert killed >= (30 if sqlite else 20), (
        f"{killed} kills; both ledgers together must make fifty"
    )


def test_kills_near_the_cap(url: str, folder: Path) -> None:
    """The budget runs out in between: nothing is accepted beyond it, whatever died."""
    named = ["debit.inserted", "debit.committed", "seal.committed", "anchor.written"]
    kill_runs(url, folder, named=named, at_random=2, seed=12, budget=Budget(epsilon="0.2"))
    with open_ledger(url) as ledger:
        assert ledger.status().spent == ledger.status().cap


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_many_kills(url: str, folder: Path, seed: int) -> None:
    assert (
        kill_runs(
            url, folder, named=POINTS, at_random=20, seed=100 + seed, budget=Budget(epsilon=5)
        )
        >= 26
    )
