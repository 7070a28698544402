"""`Curator.publish` on a full disk: no release or one that verifies, the ledger intact, and never two answers for one key.

A limit on the size of files in a child process stands for the full disk: the ledger, its journal, the anchor and the bundle
stop growing at it, each at another moment.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

import dpublish as dp

CHILD = Path(__file__).with_name("release_full_disk_child.py")
SMALLEST = 1_000


def run_child(folder: Path, key: str, limit: int) -> str:
    command = [sys.executable, str(CHILD), str(folder), key, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def stored(folder: Path) -> dict[str, str]:
    """Every bundle that has a name, by the key that paid for it. All of them verify."""
    found = {}
    for path in folder.rglob("*.dpr"):
        if not path.name.startswith("."):
            assert dp.verify_bundle(path).ok, "a bundle is absent or verifies; it is never torn"
            found[dp.open_release(path).manifest["receipt"]["key"]] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def fill_and_check(folder: Path, limits: list[int]) -> set[str]:
    """Releases at every limit on one ledger; then the same keys again with room. Returns what became of the first tries."""
    seen, first = set(), {}
    assert run_child(folder, "before", 0).startswith("released")
    for number, limit in enumerate(limits):
        first[f"k{number}"] = run_child(folder, f"k{number}", limit)
        seen.add(first[f"k{number}"].split()[0])
        held = stored(folder)
        with dp.open_ledger(folder / "t.ledger") as ledger:
            ledger.verify()
            paid = {entry.key for entry in ledger.history() if entry.kind == "debit"}
        assert held.keys() <= paid, "nothing is stored that was not paid"
    for key, outcome in first.items():
        before = stored(folder).get(key)
        again = run_child(folder, key, 0)
        if outcome.startswith("released"):
            assert again == outcome, "the same key gives the same bytes"
        elif key in paid:
            assert again == ("lost" if before is None else f"released {before}"), (outcome, again)
        else:
            assert again.startswith("released"), "what was not paid may be bought now"
        assert again == run_child(folder, key, 0)
    with dp.open_ledger(folder / "t.ledger") as ledger:
        status = ledger.verify()
        assert status.spent.epsilon == len({entry.key for entry in ledger.history() if entry.kind == "debit"})
    return seen


def whole_size(folder: Path) -> int:
    """The size up to which limits matter: the bundle, which is larger than the ledger."""
    assert run_child(folder, "whole", 0).startswith("released")
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_releases_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "measure").mkdir()
    (tmp_path / "full").mkdir()
    size = whole_size(tmp_path / "measure")
    outcomes = fill_and_check(tmp_path / "full", [SMALLEST, size // 2, size + 100_000])
    assert outcomes == {"refused", "released"}


@pytest.mark.nightly
def test_releases_at_a_hundred_limits(tmp_path: Path) -> None:
    (tmp_path / "measure").mkdir()
    size = whole_size(tmp_path / "measure")
    for part in range(10):
        (tmp_path / str(part)).mkdir()
        limits = [SMALLEST + (size * (10 * place + part)) // 100 for place in range(10)]
        fill_and_check(tmp_path / str(part), limits)
