"""The source of another commit, and how to run a script with it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def source_of(revision: str) -> Path:
    """A folder with the sources of a commit. It stays in `build`, so that what numba compiled for
    it is found again."""
    commit = _git("rev-parse", "--short=12", "--verify", f"{revision}^{{commit}}").decode().strip()
    folder = ROOT / "build" / "commits" / commit
    if not folder.exists():
        packed = _git("archive", commit, "src")
        partial = folder.with_name(f"{commit}.partial")
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(partial, filter="data")
        partial.rename(folder)
    return folder


def command_with(
    source: Path, script: str | Path, arguments: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """A command and its environment that run a script with the package of `source`, whatever is
    installed."""
    package = (source / "src").resolve()
    if not (package / "dpublish" / "__init__.py").is_file():
        raise SystemExit(f"'{source}' is no checkout of dpublish: it has no src/dpublish.")
    environment = {**os.environ, "PYTHONPATH": str(package)}
    return [sys.executable, str(script), *arguments], environment


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
