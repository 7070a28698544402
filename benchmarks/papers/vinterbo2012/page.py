"""What README.md says of figure 1, from results.json, and which scripts made that file."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .figures import ORDER, SHORT

HEADS = (
    "no privacy",
    "table, all by the paper",
    "table, discernibility",
    "table, prediction",
    "regression, output",
    "regression, objective",
)


def digest(folder: Path) -> str:
    """Of the scripts of a reproduction, in which its seeds stand; where they import from does not
    count, so that a module may move."""
    text = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
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


def medians(results: Mapping[str, Any]) -> str:
    """The table of median areas, as the page has it."""
    lines = [f"| | {' | '.join(HEADS)} |", "|" + " --- |" * (1 + len(HEADS))]
    for name in ORDER:
        values = results["figure1"][name]["median"].values()
        lines.append(f"| {SHORT[name]} | {' | '.join(f'{value:.3f}' for value in values)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(medians(json.loads((Path(__file__).parent / "results.json").read_text())))
