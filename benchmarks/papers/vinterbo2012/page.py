"""What README.md says of figure 1, from results.json."""

from __future__ import annotations

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


def medians(results: Mapping[str, Any]) -> str:
    """The table of median areas, as the page has it."""
    lines = [f"| | {' | '.join(HEADS)} |", "|" + " --- |" * (1 + len(HEADS))]
    for name in ORDER:
        values = results["figure1"][name]["median"].values()
        lines.append(f"| {SHORT[name]} | {' | '.join(f'{value:.3f}' for value in values)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(medians(json.loads((Path(__file__).parent / "results.json").read_text())))
