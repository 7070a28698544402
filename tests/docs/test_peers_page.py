"""The tables of the comparison with other tools follow from the runs that are kept beside it, and
compare nothing of fewer than three runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from docs.stand_in import ROOT

FOLDER = ROOT / "benchmarks" / "peers" / "joined"
METHODS = {row["method"] for row in json.loads((FOLDER / "results.json").read_text())}


def test_tables_of_the_page_follow_from_the_runs(tmp_path: Path) -> None:
    page, figures = tmp_path / "README.md", tmp_path / "results.json"
    shutil.copy(FOLDER / "README.md", page)
    command = ["summary.py", "runs.jsonl", "--json", str(figures), "--readme", str(page)]
    subprocess.run([sys.executable, *command], cwd=FOLDER, check=True, capture_output=True)
    for made in (page, figures):
        assert made.read_text() == (FOLDER / made.name).read_text()


def test_what_is_compared_has_at_least_three_runs() -> None:
    page = (FOLDER / "README.md").read_text()
    for name in ("epsilon 1", "shipped"):
        head, _, *lines = _lines(page, name)
        place = head.index("runs")
        assert lines
        assert all(int(line[place]) >= 3 for line in lines)
    known = json.loads((FOLDER / "results.json").read_text())
    runs = {(row["table"], f"{row['epsilon']:g}", row["method"]): row["runs"] for row in known}
    _, _, *lines = _lines(page, "standing")
    for table, epsilon, _, *cells in lines:
        named = [name for cell in cells for name in cell.split() if name in METHODS]
        assert all(runs[table, epsilon, name] >= 3 for name in named)
    head, _, *lines = _lines(page, "few")
    told = {
        (table, epsilon.removeprefix("epsilon "), method)
        for table, method, *cells in lines
        for epsilon, cell in zip(head[2:], cells, strict=True)
        if cell
    }
    assert told == {key for key, number in runs.items() if number < 3}


def _lines(page: str, name: str) -> list[list[str]]:
    """The cells of a table between two marks."""
    text = page.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
