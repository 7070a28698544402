"""The tables of the comparison with other tools follow from the runs that are kept beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from docs.stand_in import ROOT

FOLDER = ROOT / "benchmarks" / "peers" / "joined"


def test_tables_of_the_page_follow_from_the_runs(tmp_path: Path) -> None:
    page, figures = tmp_path / "README.md", tmp_path / "results.json"
    shutil.copy(FOLDER / "README.md", page)
    command = ["summary.py", "runs.jsonl", "--json", str(figures), "--readme", str(page)]
    subprocess.run([sys.executable, *command], cwd=FOLDER, check=True, capture_output=True)
    for made in (page, figures):
        assert made.read_text() == (FOLDER / made.name).read_text()
