"""What pages of reproduced papers have in common: tables made from results, and which scripts made
those.

A page has a `page.py` with `parts`: the tables and sentences that README.md must hold, worked out
from its results. `made_by.json` has the digest of the scripts that made each file of results.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

MADE_BY = "made_by.json"
PAGE = "page.py"
AGAIN = "again"
"""In `made_by.json`: figures of a small run, where none of the page's is made again in seconds."""


def digest(folder: Path, *, without: str = "") -> str:
    """Of the scripts of a reproduction, in which its seeds stand; where they import from does not
    count, so that a module may move."""
    text = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        if path.name == without:
            continue
        source = path.read_text(encoding="utf-8")
        imported = {
            number
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = [
            line
            for number, line in enumerate(source.splitlines(), start=1)
            if number not in imported and line.strip()
        ]
        text.update("\n".join([path.name, *lines, ""]).encode())
    return text.hexdigest()


def stamp(out: Path, scripts: Path, *files: str) -> None:
    """Note in a folder which scripts made these files of it."""
    path = out / MADE_BY
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known |= dict.fromkeys(files, digest(scripts, without=PAGE))
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as pages write it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def results_of(folder: Path) -> dict[str, Any]:
    """The results of a page, by file."""
    known = json.loads((folder / MADE_BY).read_text(encoding="utf-8"))
    return {
        name: json.loads((folder / name).read_text(encoding="utf-8"))
        for name in known
        if name != AGAIN
    }


def problems(folder: Path, results: dict[str, Any], page: str) -> list[str]:
    """What a page says otherwise than its results, and which results other scripts made."""
    module = importlib.import_module(f"benchmarks.papers.{folder.name}.page")
    here = " ".join(page.split())
    found = [
        f"not on the page: {part}"
        for part in module.parts(results)
        if " ".join(part.split()) not in here
    ]
    now = digest(folder, without=PAGE)
    known = json.loads((folder / MADE_BY).read_text(encoding="utf-8"))
    return found + [
        f"{name} was made by other scripts: run benchmarks.papers.{folder.name} again"
        for name in results
        if known.get(name) != now
    ]
