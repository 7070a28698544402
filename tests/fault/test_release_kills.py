"""kill -9 between debit and answer: every answer is paid, no key has two answers, no bundle is
torn."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dpublish as dp

CHILD = Path(__file__).with_name("release_child.py")
# what a retry with the same key must do after a kill there
POINTS = {"gate:debited": "lost", "gate:ran": "lost", "gate:written": "same", "none": "same"}


def run_child(folder: Path, key: str, crashpoint: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHILD), str(folder), key, crashpoint],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("crashpoint", POINTS)
def test_a_killed_release_is_lost_or_the_same(crashpoint: str, tmp_path: Path) -> None:
    first = run_child(tmp_path, "k", crashpoint)
    assert first.returncode == (0 if crashpoint == "none" else -signal.SIGKILL), first.stderr
    stored = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (tmp_path / "t.ledger.d").glob("*.dpr")
    }
    for path in tmp_path.rglob("*.dpr"):
        assert dp.verify_bundle(path).ok, "a bundle is absent or verifies; it is never torn"

    again = run_child(tmp_path, "k", "none")
    ledger = dp.open_ledger(tmp_path / "t.ledger")
    assert ledger.status().spent.epsilon == 1, "one key is paid once"
    ledger.verify()
    if POINTS[crashpoint] == "lost":
        assert again.returncode != 0
        assert "new key" in again.stderr
        assert not (tmp_path / "k.dpr").exists(), (
            "nothing is answered that was not the bought answer"
        )
    else:
        assert again.returncode == 0, again.stderr
        assert hashlib.sha256((tmp_path / "k.dpr").read_bytes()).hexdigest() in stored.values()
    fresh = run_child(tmp_path, "k2", "none")
    assert fresh.returncode == 0, fresh.stderr
    assert dp.open_ledger(tmp_path / "t.ledger").status().spent.epsilon == 2


@pytest.mark.nightly
def test_kills_at_random_moments(tmp_path: Path) -> None:
    """100 releases killed after a random delay; afterwards every bundle verifies and has its
    committed debit."""
    import random
    import time

    rng = random.Random(4)
    # moments are parts of the time that a whole release takes, so that a slow machine is also
    # caught in the middle of one
    start = time.monotonic()
    assert run_child(tmp_path, "k0", "none").returncode == 0
    whole = time.monotonic() - start
    for i in range(100):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path), f"k{i % 40}", "none"],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(whole * rng.uniform(0.2, 1.2))
        child.kill()
        child.wait()
    ledger = dp.open_ledger(tmp_path / "t.ledger")
    ledger.verify()
    paid = {entry.key for entry in ledger.history()}
    for path in tmp_path.rglob("*.dpr"):
        if not path.name.startswith("."):
            assert dp.verify_bundle(path).ok
            assert dp.open_release(path).manifest["receipt"]["key"] in paid
