"""Kernels run where nothing can be kept of them, and are kept where it can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import json, resource, signal, sys
import dpublish.compiled
sys.path.insert(0, {folder!r})
{before}
import doubled
found = doubled.twice(21)
print(json.dumps([found, sum(doubled.twice.stats.cache_hits.values())]))
"""
KERNEL = """
from dpublish.compiled import njit

@njit(cache=True, nogil=True)
def twice(x):
    return 2 * x
"""
NO_FOLDER = """
from numba.core import caching
for kind in vars(caching).values():
    if hasattr(kind, "ensure_cache_path"):
        def refuse(self): raise OSError("read-only")
        kind.ensure_cache_path = refuse
"""
FULL_DISK = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
"""


def run(folder: Path, before: str = "") -> list[int]:
    source = folder / "doubled.py"
    if not source.exists():
        source.write_text(KERNEL)
    words = [sys.executable, "-B", "-c", RUN.format(folder=str(folder), before=before)]
    place = {
        name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"
    }  # beside the source
    done = subprocess.run(
        words, env=place, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


def test_a_kernel_is_compiled_once_and_found_again(tmp_path: Path) -> None:
    assert run(tmp_path) == [42, 0]
    assert run(tmp_path) == [42, 1]


@pytest.mark.parametrize(
    "before", [NO_FOLDER, FULL_DISK], ids=["no folder can be written", "the disk is full"]
)
def test_what_cannot_be_kept_is_compiled_for_once(tmp_path: Path, before: str) -> None:
    assert run(tmp_path, before) == [42, 0]


def test_a_file_that_is_damaged_is_not_trusted(tmp_path: Path) -> None:
    run(tmp_path)
    for kept in (tmp_path / "__pycache__").glob("doubled.twice*"):
        kept.write_bytes(kept.read_bytes()[:5])
    assert run(tmp_path) == [42, 0]


def test_all_kernels_are_compiled_here() -> None:
    package = Path(__file__).parents[1] / "src" / "dpublish"
    direct = [
        path
        for path in package.rglob("*.py")
        if "from numba import njit" in path.read_text(encoding="utf-8")
    ]
    assert direct == []
