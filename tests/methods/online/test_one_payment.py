"""One payment buys one session: one set-up draws noise, a folder answers nothing before the ledger
has sealed it, and the ledger seals one."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.ledger import crashpoints
from dpublish.ledger.sql import SqlLedger

SCHEMA = (
    '[dataset]\nname = "t"\n[columns.a]\nkind = "integer"\nlower = 0\nupper = 14\nbins = '
    "15\nmissing = true\n"
)
ROWS = pl.DataFrame({"a": [i * i % 15 for i in range(20_000)]})


class Crash(BaseException):
    """Stands for the end of the process."""


def open_at(folder: Path) -> dp.OnlineSession:
    """A curator of its own each time, as another process would have."""
    ledger = folder.parent / "l.ledger"
    with dp.open_ledger(ledger, budget=dp.Budget(epsilon=3), create=True) as account:
        curator = dp.Curator(ROWS, dp.Schema.from_toml(SCHEMA), ledger=account)
        return curator.answer_online(
            dp.OnlineMultiplicativeWeights(max_hard=4), epsilon=1, key="desk", folder=folder
        )


def crash_at(folder: Path, point: str) -> None:
    def hook(reached: str) -> None:
        if reached == point:
            raise Crash

    with crashpoints.armed(hook), pytest.raises(Crash):
        open_at(folder)


def set_up_twice(first: Path, second: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders by one payment, as versions that did not say that they draw could leave them."""
    with monkeypatch.context() as patched:
        patched.setattr(SqlLedger, "drawing", lambda ledger, key: True)
        crash_at(first, "online:ready")
        crash_at(second, "online:ready")


def assert_useless(folder: Path) -> None:
    """It answers nothing, its key does not open it, and then its counts are gone."""
    with pytest.raises(dp.LedgerUnavailable, match="answers nothing"):
        dp.OnlineSession(folder)
    with pytest.raises(dp.BudgetError, match="not at"):
        open_at(folder)
    assert not folder.exists()


def test_a_failed_seal_leaves_a_folder_that_answers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise dp.LedgerUnavailable("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(SqlLedger, "seal", fail)
        with pytest.raises(dp.LedgerUnavailable, match="locked"):
            open_at(tmp_path / "A")
    with pytest.raises(dp.LedgerUnavailable, match="Open it again with its key"):
        dp.OnlineSession(tmp_path / "A")
    before = (tmp_path / "A" / "session.json").read_bytes()
    assert open_at(tmp_path / "A").ask("a < 3").number == 1, "the same key and folder go on"
    assert (tmp_path / "A" / "session.json").read_bytes() == before


@pytest.mark.parametrize("point", ["online:ready", "seal.locked", "seal.inserted"])
def test_another_folder_after_a_crash(tmp_path: Path, point: str) -> None:
    """It would be a second draw for one payment."""
    crash_at(tmp_path / "A", point)
    with pytest.raises(dp.BudgetError, match="at the folder where it was set up"):
        open_at(tmp_path / "B")
    assert not (tmp_path / "B").exists()
    assert open_at(tmp_path / "A").ask("a < 3").number == 1


def test_a_folder_moved_before_its_seal(tmp_path: Path) -> None:
    crash_at(tmp_path / "A", "online:ready")
    (tmp_path / "A").rename(tmp_path / "A2")
    with pytest.raises(dp.BudgetError, match="at the folder where it was set up"):
        open_at(tmp_path / "A")
    assert open_at(tmp_path / "A2").ask("a < 3").number == 1


def test_of_two_folders_one_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up_twice(tmp_path / "A", tmp_path / "B", monkeypatch)
    assert open_at(tmp_path / "B").ask("a < 3").number == 1
    assert_useless(tmp_path / "A")
    assert dp.OnlineSession(tmp_path / "B").status().asked == 1


@pytest.mark.parametrize("point", ["seal.committed", "seal.anchored", "online:sealed"])
def test_a_crash_between_seal_and_mark(tmp_path: Path, point: str) -> None:
    crash_at(tmp_path / "A", point)
    with pytest.raises(dp.LedgerUnavailable, match="answers nothing"):
        dp.OnlineSession(tmp_path / "A")
    with pytest.raises(dp.BudgetError, match="not at"):
        open_at(tmp_path / "B")
    assert open_at(tmp_path / "A").ask("a < 3").number == 1


def test_two_opens_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have read the rows before either draws noise: one draws."""
    both, opened, refused, drawn = threading.Barrier(2), [], [], []
    dp.open_ledger(tmp_path / "l.ledger", budget=dp.Budget(epsilon=3), create=True).close()
    begin = dp.OnlineMultiplicativeWeights.begin

    def noted(*given: Any) -> Any:
        drawn.append(begin(*given))
        return drawn[-1]

    def run(folder: Path) -> None:
        try:
            opened.append(open_at(folder))
        except dp.BudgetError as error:
            refused.append((folder, error))

    def wait(reached: str) -> None:
        if reached == "online:counted":
            both.wait(60)

    monkeypatch.setattr(dp.OnlineMultiplicativeWeights, "begin", noted)
    threads = [threading.Thread(target=run, args=(tmp_path / name,)) for name in "AB"]
    with crashpoints.armed(wait):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ((loser, error),) = refused
    assert "Another run draws" in str(error)
    assert not loser.exists()
    (desk,) = opened
    assert desk.ask("a < 3").number == 1
    assert len(drawn) == 1
    with dp.open_ledger(tmp_path / "l.ledger") as ledger:
        assert ledger.status().spent.epsilon == 1


def test_a_copy_made_before_the_seal_is_the_same_session(tmp_path: Path) -> None:
    crash_at(tmp_path / "A", "online:ready")
    shutil.copytree(tmp_path / "A", tmp_path / "copy")
    open_at(tmp_path / "A").ask("a < 3")
    with pytest.raises(dp.LedgerUnavailable, match="older copy"):
        open_at(tmp_path / "copy")


def test_an_unsealed_copy_on_another_machine_is_not_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sealed there, it would be sealed here too: two machines, each with a mark of its own."""
    crash_at(tmp_path / "A", "online:ready")
    with monkeypatch.context() as patched:
        patched.setenv("DPUBLISH_STATE", str(tmp_path / "elsewhere"))
        with pytest.raises(dp.LedgerUnavailable, match="no mark"):
            open_at(tmp_path / "A")
    assert open_at(tmp_path / "A").ask("a < 3").number == 1
