"""The file of runs: one JSON object a line, kept beside this page so that a sweep goes on wherever
the last one ended.

A line is one run (`seed`), or several of them that were put together before single runs were kept
(`runs`: how many, with seeds from 0 on; every figure is their mean, with `..._sd` beside it). Both
kinds are pooled exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Job = tuple[str, str, str, int]


def read_runs(path: Path) -> list[Line]:
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def append(line: Line, out: Path) -> None:
    with out.open("a") as file:
        file.write(json.dumps(line) + "\n")
    print(
        {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in line.items()
        },
        flush=True,
    )


def leave_out(lines: Iterable[Line], out: Path) -> None:
    """Take lines out of the file, for example those of a method that has changed."""
    some = list(lines)
    out.write_text("".join(json.dumps(line) + "\n" for line in read_runs(out) if line not in some))


def jobs_of(line: Line) -> list[Job]:
    """What a line holds the figures of: method, table, epsilon, seed."""
    seeds = range(line["runs"]) if "runs" in line else [line["seed"]]
    return [(line["method"], line["table"], f"{float(line['epsilon']):g}", seed) for seed in seeds]


def pooled(lines: Iterable[Line], key: str) -> tuple[float, float | None] | None:
    """Mean and standard deviation of a figure over all runs that have it; None where none has."""
    count, mean, squares = 0, 0.0, 0.0
    for line in lines:
        if key in line:
            more, away = line.get("runs", 1), line[key] - mean
            spread = line.get(f"{key}_sd") or 0.0
            squares += (more - 1) * spread**2 + away**2 * count * more / (count + more)
            mean += away * more / (count + more)
            count += more
    if not count:
        return None
    return mean, math.sqrt(squares / (count - 1)) if count > 1 else None
