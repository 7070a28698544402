"""Recovery from another copy charges right or too much, never too little."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dpublish.errors import BudgetError, LedgerUnavailable
from dpublish.ledger import Ledger, Protects, Status, open_ledger, recover_ledger
from dpublish.ledger.anchor import RECENT, Anchor, Mark, thinned
from dpublish.ledger.chain import Quanta
from dpublish.privacy.cost import Budget, Cost
from pg import Postgres

HALF, ONE, TENTH = Cost.pure("1/2"), Cost.pure(1), Cost.pure("0.1")
PEOPLE = {"neighbours": "add-remove-one", "unit": "who"}
ROWS = {"neighbours": "add-remove-one", "unit": "row"}


class Machines:
    """Two machines, each with its own anchors and its own copy of one ledger."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch

    def path(self, machine: int) -> Path:
        return self.folder / f"{machine}.ledger"

    def work_on(self, machine: int) -> None:
        self._monkeypatch.setenv("DPUBLISH_STATE", str(self.folder / f"state{machine}"))

    def open(self, machine: int, epsilon: Any = None) -> Ledger:
        self.work_on(machine)
        budget = None if epsilon is None else Budget(epsilon=epsilon)
        return open_ledger(self.path(machine), budget=budget, create=epsilon is not None)

    def spend(
        self, machine: int, key: str, cost: Cost = ONE, what: dict[str, Any] | None = None
    ) -> None:
        with self.open(machine) as ledger:
            ledger.debit(key, cost, what or {})

    def copy(self, source: int, target: int) -> None:
        shutil.copy(self.path(source), self.path(target))

    def recover(self, machine: int) -> Status:
        self.work_on(machine)
        with pytest.raises(LedgerUnavailable, match="older copy"):
            open_ledger(self.path(machine))
        return recover_ledger(self.path(machine))

    def forget_trail(self) -> None:
        """Anchors as format 1 wrote them."""
        for path in self.folder.glob("state*/anchors/*.json"):
            value = json.loads(path.read_text())
            path.write_text(
                json.dumps(
                    {**{k: value[k] for k in ("ledger", "seq", "hash", "spent")}, "format": 1}
                )
            )


@pytest.fixture
def machines(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machines:
    machines = Machines(folder, monkeypatch)
    with machines.open(1, epsilon=9) as ledger:
        ledger.debit("common", HALF, {})
    machines.copy(1, 2)
    return machines


def test_a_copy_that_went_its_own_way(machines: Machines) -> None:
    machines.spend(1, "a")
    machines.spend(2, "b")
    machines.copy(2, 1)
    status = machines.recover(1)
    assert status.spent == Cost.pure("2.5"), "both machines spent 1 after the common 1/2"
    with machines.open(1) as ledger:
        assert ledger.history()[-1].detail["common_seq"] == 1
        ledger.debit("c", ONE, {})
    assert recover_ledger(machines.path(1)).spent == Cost.pure("3.5"), "it is not written off twice"


def test_a_longer_copy_that_spent_less(machines: Machines) -> None:
    machines.spend(1, "a", Cost.pure(4))
    for key in "bcd":
        machines.spend(2, key, TENTH)
    machines.copy(2, 1)
    assert machines.recover(1).spent == Cost.pure("4.8")


def test_a_copy_of_what_was_seen_costs_nothing_extra(machines: Machines) -> None:
    for key in "abc":
        machines.spend(1, key)
    machines.copy(2, 1)
    assert machines.recover(1).spent == Cost.pure("3.5")


def test_a_copy_of_what_others_did_between(machines: Machines) -> None:
    """The anchor jumps over entries of another machine, and still knows them as part of the
    chain."""
    with machines.open(2) as ledger:
        for key in "abcd":
            ledger.debit(key, ONE, {})
    machines.copy(2, 3)
    machines.spend(2, "e")
    machines.copy(2, 1)
    machines.spend(1, "f")
    machines.copy(3, 1)
    assert machines.recover(1).spent == Cost.pure("6.5")


def test_an_anchor_without_a_trail_counts_everything_it_has_seen(machines: Machines) -> None:
    machines.spend(1, "a")
    machines.spend(2, "b")
    machines.copy(2, 1)
    machines.forget_trail()
    assert machines.recover(1).spent == Cost.pure("3.0"), (
        "1.5 at hand and 1.5 seen: too much, but not too little"
    )
    with machines.open(1) as ledger:
        assert ledger.history()[-1].detail["common_seq"] is None
        ledger.debit("c", ONE, {})


def test_an_anchor_of_format_1_learns_its_trail_at_the_next_debit(machines: Machines) -> None:
    machines.spend(1, "a")
    machines.forget_trail()
    machines.spend(1, "b")
    machines.copy(2, 1)
    assert machines.recover(1).spent == Cost.pure("2.5")


def test_a_new_machine_knows_the_trail_from_the_ledger(machines: Machines) -> None:
    machines.spend(1, "a")
    machines.copy(1, 3)
    machines.open(3).close()
    machines.copy(2, 3)
    assert machines.recover(3).spent == Cost.pure("1.5")


def test_recovering_again_and_again(machines: Machines) -> None:
    """The trail of a recovered ledger is its own, not that of the branch that was lost."""
    machines.copy(1, 3)
    machines.spend(1, "a")
    machines.spend(2, "b")
    machines.copy(2, 1)
    assert machines.recover(1).spent == Cost.pure("2.5")
    machines.spend(1, "c")
    machines.copy(3, 1)
    assert machines.recover(1).spent == Cost.pure("3.5")


def test_more_than_the_cap_was_spent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines = Machines(folder, monkeypatch)
    machines.open(1, epsilon=2).close()
    machines.copy(1, 2)
    machines.spend(1, "a", Cost.pure("1.5"))
    machines.spend(2, "b", Cost.pure("1.2"))
    machines.copy(2, 1)
    status = machines.recover(1)
    assert (status.spent, status.remaining, status.overspent) == (
        Cost.pure(2),
        Cost(),
        Cost.pure("0.7"),
    )
    with machines.open(1) as ledger:
        assert ledger.verify().overspent == Cost.pure("0.7")
        assert ledger.status().to_json()["overspent"]["epsilon"] == "7/10"
        with pytest.raises(BudgetError):
            ledger.debit("c", TENTH, {})


def test_postgresql_copies_that_diverged(
    folder: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = postgres.fresh_database()
    with open_ledger(postgres.url(first), budget=Budget(epsilon=9), create=True) as ledger:
        ledger.debit("common", HALF, {})
    second = postgres.fresh_database(template=first)
    with open_ledger(postgres.url(first)) as ledger:
        ledger.debit("a", ONE, PEOPLE)
    monkeypatch.setenv("DPUBLISH_STATE", str(folder / "elsewhere"))
    with open_ledger(postgres.url(second)) as ledger:
        ledger.debit("b", ONE, PEOPLE)
    monkeypatch.setenv("DPUBLISH_STATE", str(folder / "state"))
    assert recover_ledger(postgres.url(second)).spent == Cost.pure("2.5")


# -- the unit of what was lost
# ------------------------------------------------------------------------------------------


def test_the_unit_of_what_was_lost_stays_pinned(machines: Machines) -> None:
    machines.spend(1, "a", what=PEOPLE)
    machines.copy(2, 1)
    assert machines.recover(1).protects == Protects(neighbours="add-remove-one", column="who")
    with pytest.raises(BudgetError, match="of its own"):
        machines.spend(1, "b", what=ROWS)


def test_copies_that_speak_of_different_units_are_not_added_up(machines: Machines) -> None:
    machines.spend(1, "a", what=PEOPLE)
    machines.spend(2, "b", what=ROWS)
    machines.copy(2, 1)
    with pytest.raises(BudgetError, match="cannot be added up"):
        machines.recover(1)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        machines.open(1)


# -- the anchor
# ------------------------------------------------------------------------------------------


def test_an_anchor_that_moves_meanwhile_is_not_overwritten(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.spend(1, "a")
    shutil.copy(machines.path(1), machines.folder / "real.ledger")
    machines.copy(2, 1)
    real = open_ledger(machines.folder / "real.ledger")
    replace = Anchor.replace

    def late(anchor: Anchor, *given: Any, **named: Any) -> None:
        real.debit("b", ONE, {})
        replace(anchor, *given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Anchor, "replace", late)
        with pytest.raises(LedgerUnavailable, match="moved while"):
            recover_ledger(machines.path(1))
    real.close()
    assert recover_ledger(machines.path(1)).spent.epsilon >= Cost.pure("2.5").epsilon


def test_trails_stay_short_and_dense(folder: Path) -> None:
    """However long the ledger, an entry of the trail lies at most a hundredth of the distance
    before any other."""
    trail: tuple[Mark, ...] = ()
    last = 20_000
    for seq in range(last):
        trail = (*trail, Mark(seq=seq, hash="", spent=Quanta()))
        if seq % 50 == 0 or seq == last - 1:
            trail = thinned(trail, seq + 1)
    kept = [mark.seq for mark in trail]
    assert len(kept) < 12 * RECENT
    assert kept[-RECENT:] == list(range(last - RECENT, last))
    assert kept[0] == 0
    for before, after in pairwise(kept):
        assert after - before <= max(1, 2 * (last - before) // RECENT)


def test_a_trail_is_written_and_read(machines: Machines) -> None:
    machines.spend(1, "a")
    with machines.open(1) as ledger:
        seen = Anchor(ledger.ledger_id).seen()
        assert seen is not None
        assert [(mark.seq, mark.hash) for mark in seen.trail] == [
            (e.seq, e.hash) for e in ledger.history()[:-1]
        ]
        assert seen.mark.hash == ledger.history()[-1].hash
        value = json.loads(Anchor(ledger.ledger_id).path.read_text())
        Anchor(ledger.ledger_id).path.write_text(json.dumps({**value, "trail": [[0, 1]]}))
        with pytest.raises(LedgerUnavailable, match="delete the anchor"):
            ledger.status()
