"""Figures of run.py as a table and a plot: python summary.py FIGURES.jsonl --json results.json --png results.png"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

MEASURES = ("seconds", "tv2", "tv2_worst", "tv3", "auc_logistic", "auc_boosting")
NAMES = {"seconds": "seconds", "tv2": "TV-2", "tv2_worst": "worst pair", "tv3": "TV-3"}
NAMES |= {"auc_logistic": "AUC, logistic", "auc_boosting": "AUC, boosting"}
BETTER_HIGH = {"auc_logistic", "auc_boosting"}


def read(path: Path) -> list[dict[str, Any]]:
    """Means over seeds, one entry a method, table and epsilon."""
    found = defaultdict(list)
    for line in path.read_text().splitlines():
        one = json.loads(line)
        found[one["table"], float(one["epsilon"]), one["method"]].append(one)
    out = []
    for (table, epsilon, method), runs in sorted(found.items()):
        means = {key: round(float(np.mean([run[key] for run in runs])), 4) for key in MEASURES}
        out.append({"table": table, "epsilon": epsilon, "method": method, "runs": len(runs), **means})
    return out


def markdown(rows: list[dict[str, Any]], epsilon: float) -> str:
    lines = ["| table | method | runs | " + " | ".join(NAMES[key] for key in MEASURES) + " |"]
    lines.append("| --- | --- | --- | " + " | ".join("---" for _ in MEASURES) + " |")
    for row in rows:
        if row["epsilon"] == epsilon:
            cells = [f"{row['seconds']:.3g}", *(f"{row[key]:.3f}" for key in MEASURES[1:])]
            lines.append(f"| {row['table']} | {row['method']} | {row['runs']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    tables = sorted({row["table"] for row in rows})
    methods = sorted({row["method"] for row in rows})
    colours = dict(zip(methods, ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb"), strict=False))
    figure = Figure(figsize=(11, 3.1 * len(tables)), dpi=110, layout="constrained")
    grid = figure.subplots(len(tables), 3, squeeze=False)
    for line, table in zip(grid, tables, strict=True):
        for axes, key in zip(line, ("tv2", "tv3", "auc_boosting"), strict=True):
            for method in methods:
                some = [row for row in rows if row["table"] == table and row["method"] == method]
                if method == "real":
                    for row in some[:1]:
                        axes.axhline(row[key], color="#222222", linewidth=1, linestyle=":", label="real rows, redrawn")
                    continue
                axes.plot(
                    [row["epsilon"] for row in some],
                    [row[key] for row in some],
                    marker="o",
                    markersize=5,
                    color=colours[method],
                    label=method,
                )
            axes.set_xscale("log")
            axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
            axes.minorticks_off()
            if key not in BETTER_HIGH:
                axes.set_ylim(bottom=0)
            axes.set_title(
                f"{table}: {NAMES[key]} ({'higher' if key in BETTER_HIGH else 'lower'} is better)", fontsize=9, loc="left"
            )
            axes.set_xlabel("epsilon", fontsize=8)
            axes.tick_params(labelsize=8)
            axes.grid(color="#e4e4e4")
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
    grid[0][0].legend(fontsize=7, frameon=False)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--png", type=Path)
    given = parser.parse_args()
    rows = read(given.figures)
    for epsilon in sorted({row["epsilon"] for row in rows}):
        print(f"epsilon = {epsilon:g}\n\n{markdown(rows, epsilon)}\n")
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    if given.png:
        plot(rows, given.png)


if __name__ == "__main__":
    main()
