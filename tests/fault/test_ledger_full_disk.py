"""A full disk while debiting or sealing: the ledger refuses, stays intact and works again when
there is room."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpublish.errors import LedgerUnavailable
from dpublish.ledger import Ledger, open_ledger
from dpublish.ledger.anchor import Anchor
from dpublish.ledger.sql import SqlLedger
from dpublish.privacy.cost import Budget, Cost

COST = Cost.pure("1/1000")
PADDING = {"padding": "x" * 3000}
SIZE = 2**20


class SmallDisk:
    """A file system of one megabyte or, without the right to mount one, a limit of one megabyte per
    file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
        self.mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        if not self.mounted:
            self._handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, self._limit[1]))

    def leave(self, pages: int) -> None:
        """Take all room but a few pages."""
        if self.mounted:
            room = os.statvfs(self.folder)
            (self.folder / "filler").write_bytes(
                b"x" * max(0, room.f_bavail * room.f_frsize - 4096 * pages)
            )
        else:
            largest = max(path.stat().st_size for path in self.folder.glob("*.ledger*"))
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 4096 * pages, self._limit[1]))

    def make_room(self) -> None:
        if self.mounted:
            (self.folder / "filler").unlink(missing_ok=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.folder)], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)
            signal.signal(signal.SIGXFSZ, self._handler)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    (tmp_path / "small").mkdir()
    small = SmallDisk(tmp_path / "small")
    yield small
    small.close()


def spend(ledger: Ledger, prefix: str, most: int) -> tuple[list[str], str]:
    """Keys whose receipts were returned before the first refusal, and the words of the refusal."""
    paid: list[str] = []
    for i in range(most):
        try:
            ledger.debit(f"{prefix}{i}", COST, PADDING)
        except LedgerUnavailable as refusal:
            return paid, str(refusal)
        paid.append(f"{prefix}{i}")
    raise AssertionError("the disk never filled up")


def check_intact(ledger: Ledger, paid: list[str]) -> None:
    """Every returned receipt is kept; at most one more debit (spent without an answer) is there."""
    status = ledger.verify()
    kept = [entry.key for entry in ledger.history() if entry.kind == "debit"]
    assert kept[: len(paid)] == paid
    assert len(kept) <= len(paid) + 1
    assert status.spent == COST.scaled(len(kept))


def test_max_page_count(tmp_path: Path) -> None:
    """SQLITE_FULL undoes the transaction by itself; the real error must come through, and nothing
    half done stay."""
    ledger = open_ledger(tmp_path / "a.ledger", budget=Budget(epsilon=9), create=True)
    ledger.debit("first", COST, {})
    assert isinstance(ledger, SqlLedger)
    engine = ledger._database._engine
    assert engine is not None
    with engine.connect() as connection:  # the pool hands the same connection out again
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    for prefix in "ab":
        _, words = spend(ledger, prefix, most=20)
        assert "the disk is full" in words
    before = ledger.verify()
    with pytest.raises(LedgerUnavailable, match="the disk is full"):
        ledger.seal("first", sha256="0" * 64, size=1, location="x" * 20_000)
    assert ledger.answer("first") is None
    with engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 1000}")
    assert ledger.verify() == before
    assert ledger.debit("again", COST, PADDING).fresh
    ledger.seal("first", sha256="0" * 64, size=1, location="x" * 20_000)
    ledger.verify()


def test_ledger_on_a_full_disk(disk: SmallDisk) -> None:
    ledger = open_ledger(disk.folder / "a.ledger", budget=Budget(epsilon=9), create=True)
    paid, words = spend(ledger, "k", most=2000)
    assert len(paid) > 10
    assert "disk" in words
    check_intact(ledger, paid)
    for key in ("x", "y"):
        with pytest.raises(LedgerUnavailable):
            ledger.debit(key, COST, PADDING)
    assert not ledger.debit(paid[0], COST, PADDING).fresh, "what was paid can still be asked for"
    ledger.close()
    with open_ledger(disk.folder / "a.ledger") as again:
        check_intact(again, paid)


def test_the_anchor_cannot_be_written(
    disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The debit is committed but cannot be vouched for: no receipt, budget spent, and the old mark
    still stands."""
    monkeypatch.setenv("DPUBLISH_STATE", str(disk.folder / "state"))
    ledger = open_ledger(tmp_path / "a.ledger", budget=Budget(epsilon=9), create=True)
    ledger.debit("a", COST, {})
    anchor = Anchor(ledger.ledger_id)
    blocker = anchor.path.with_name(f".{anchor.path.stem}.tmp")
    if disk.mounted:
        disk.leave(pages=0)
    else:
        blocker.mkdir()
    with pytest.raises(LedgerUnavailable, match="DPUBLISH_STATE"):
        ledger.debit("b", COST, {})
    mark = anchor.read()
    assert mark is not None
    assert mark.seq == 1
    if disk.mounted:
        disk.make_room()
    else:
        blocker.rmdir()
    assert not ledger.debit("b", COST, {}).fresh
    assert ledger.debit("c", COST, {}).fresh
    assert ledger.verify().debits == 3


def fill_and_check(disk: SmallDisk, pages: int) -> None:
    ledger = open_ledger(disk.folder / "a.ledger", budget=Budget(epsilon=9), create=True)
    ledger.debit("first", COST, PADDING)
    disk.leave(pages)
    paid, _ = spend(ledger, "k", most=400)
    check_intact(ledger, ["first", *paid])
    disk.make_room()
    assert ledger.debit("after", COST, {}).fresh
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize("pages", [0, 1, 2, 5, 11])
def test_full_disk_at_changing_moments(disk: SmallDisk, pages: int) -> None:
    """The disk is nearly full before, so that different steps of a debit are the first to fail."""
    fill_and_check(disk, pages)


@pytest.mark.nightly
@pytest.mark.parametrize("pages", range(100))
def test_full_disk_a_hundred_times(disk: SmallDisk, pages: int) -> None:
    fill_and_check(disk, pages)
