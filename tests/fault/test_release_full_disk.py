"""`Curator.publish` on a full disk: no release or one that verifies, the ledger intact, and never
two answers for one key.

A limit on the size of files in a child process stands for the full disk: the ledger, its journal,
the anchor and the bundle stop growing at it, each at another moment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = Path(__file__).with_name("release_full_disk_child.py")


def fill_and_check(folder: Path, *, limits: int, first: int, step: int) -> set[str]:
    """Returns what became of the releases at their limits."""
    command = [
        sys.executable,
        str(CHILD),
        str(folder),
        *(str(number) for number in (limits, first, step)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = set()
    for line in done.stdout.splitlines():
        found = json.loads(line)
        seen.add(found["outcome"].split()[0])
        if found["outcome"].startswith("released"):
            assert found["again"] == found["outcome"] == f"released {found['held']}", (
                "the same key gives the same bytes"
            )
        elif not found["paid"]:
            assert found["held"] is None, "nothing is stored that was not paid"
            assert found["again"].startswith("released"), "what was not paid may be bought now"
        else:
            # one that could not say that it drew noise may go on
            goes_on = found["held"] is None and found["again"].startswith("released")
            wanted = "lost" if found["held"] is None else f"released {found['held']}"
            assert goes_on or found["again"] == wanted, "the one answer that was bought, or none"
        assert found["once more"] == found["again"]
    assert len(done.stdout.splitlines()) == limits
    return seen


def test_releases_on_a_full_disk(tmp_path: Path) -> None:
    """From a disk on which nothing can be written to one with more room than any file needs."""
    assert fill_and_check(tmp_path, limits=4, first=1, step=370) == {"refused", "released"}


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(5))
def test_releases_at_a_hundred_limits(tmp_path: Path, part: int) -> None:
    fill_and_check(tmp_path, limits=20, first=1 + 11 * part, step=55)
