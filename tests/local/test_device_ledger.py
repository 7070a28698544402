"""A wallet keeps totals across runs and crashes, and never makes a second report."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpublish.errors import BudgetExceeded, InputError, LedgerUnavailable
from dpublish.local import DeviceLedger

HALF = Fraction(1, 2)


def test_totals_survive_and_the_same_question_is_free(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    assert DeviceLedger(path, epsilon=1).debit(["ann", "bob"], "first", HALF) == {}
    DeviceLedger(path, epsilon=1).record("first", {"ann": ["3"], "bob": ["4"]})
    again = DeviceLedger(path, epsilon=1)
    assert again.debit(["bob", "cid"], "first", HALF) == {"bob": ["4"]}
    assert [again.spent(person) for person in ("ann", "bob", "cid", "dan")] == [HALF, HALF, HALF, 0]
    with pytest.raises(BudgetExceeded, match="Nobody"):
        again.debit(["dan", "ann"], "second", Fraction(2, 3))
    assert again.spent("dan") == 0
    again.debit(["ann"], "second", HALF)
    assert again.spent("ann") == 1
    assert path.stat().st_mode & 0o077 == 0


def test_spellings_of_a_name_are_one_person(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    wallet = DeviceLedger(path, epsilon=1)
    wallet.debit([" ann", "7.0"], "first", HALF)
    wallet.record("first", {"ann ": ["3"], "7": ["4"]})
    assert wallet.debit(["ann\n", "7.00"], "first", HALF) == {"ann\n": ["3"], "7.00": ["4"]}
    with pytest.raises(InputError, match="two spellings"):
        wallet.debit(["bob", "bob "], "first", HALF)
    with pytest.raises(InputError, match="by name"):
        wallet.debit([" "], "first", HALF)
    assert wallet.spent("bob") == 0
    path.write_text(path.read_text().replace('"ann"', '"ann "'))
    with pytest.raises(LedgerUnavailable, match="this version"):
        wallet.spent("ann")


def test_a_lost_report_is_not_made_again(tmp_path: Path) -> None:
    wallet = DeviceLedger(tmp_path / "w.json", epsilon=1)
    wallet.debit(["me"], "first", HALF)  # and then the device loses power
    with pytest.raises(BudgetExceeded, match="lost"):
        wallet.debit(["me"], "first", HALF)
    assert wallet.spent() == HALF


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "other"}',
        '{"format": "dpublish-wallet-1", "epsilon": "1", "people": {"me": {"answers": 3}}}',
    ],
)
def test_a_wallet_that_cannot_be_read_answers_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(LedgerUnavailable):
        DeviceLedger(path, epsilon=1).debit(["me"], "first", HALF)
    assert path.read_text() == text


def test_the_budget_is_for_life(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    DeviceLedger(path, epsilon=1).debit(["me"], "first", HALF)
    with pytest.raises(LedgerUnavailable, match="for ever"):
        DeviceLedger(path, epsilon=100).debit(["me"], "second", HALF)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        DeviceLedger(tmp_path / "no" / "w.json", epsilon=1).debit(["me"], "first", HALF)


def test_processes_cannot_overspend(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    code = (
        "import sys\nfrom fractions import Fraction\n"
        "from dpublish.local import DeviceLedger\nfrom dpublish.errors import BudgetExceeded\n"
        "done = 0\n"
        "for i in range(6):\n"
        "    try:\n        ledger = DeviceLedger(sys.argv[1], epsilon=1)\n"
        "        ledger.debit(['me'], sys.argv[2] + str(i), Fraction(1, 7)); done += 1\n"
        "    except BudgetExceeded: pass\n"
        "print(done)\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), name], stdout=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    assert sum(int(child.communicate()[0]) for child in children) == 7
    assert len(json.loads(path.read_text())["people"]["me"]["answers"]) == 7


def test_links_lead_to_one_wallet(tmp_path: Path) -> None:
    """A link that was replaced by a file of its own would hand out the budget twice."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "wallet")
    DeviceLedger(link, epsilon=2).debit(["me"], "first", Fraction(2))
    assert link.is_symlink()
    for path in (link, tmp_path / "wallet"):
        with pytest.raises(BudgetExceeded):
            DeviceLedger(path, epsilon=2).debit(["me"], "second", Fraction(1))
