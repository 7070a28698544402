"""Figures of run.py or sweep.py as JSON, tables and plots.

python summary.py [RUNS.jsonl] --json results.json --png results.png --readme README.md
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from coded import TABLES
from runs import pooled, read_runs
from shipped import SHIPPED

from methods import METHODS, OURS

QUALITY = ("tv2", "tv2_worst", "tv3", "auc_logistic", "auc_boosting")
RAW = ("ranges", "rank_error", "rank_error_worst", "f1_boosting")
"""Measured since there are tables that packages ship."""
COST = ("seconds", "cpu", "peak_mb")
NAMES = {
    "seconds": "seconds",
    "cpu": "CPU s",
    "peak_mb": "peak MB",
    "tv2": "TV-2",
    "tv2_worst": "worst pair",
    "tv3": "TV-3",
}
NAMES |= {"auc_logistic": "AUC, logistic", "auc_boosting": "AUC, boosting"}
NAMES |= {
    "ranges": "ranges",
    "rank_error": "quantiles",
    "rank_error_worst": "worst quantile",
    "f1_boosting": "F1, boosting",
}
BETTER_HIGH = {"auc_logistic", "auc_boosting", "f1_boosting"}
FEWEST = 3
"""Runs below which a figure is set beside ours only with its number of runs, and is never best."""
BEGIN, END = "<!-- {0}: begin -->", "<!-- {0}: end -->"


def read(path: Path) -> list[dict[str, Any]]:
    """Means and standard deviations over seeds, one entry per table, epsilon and method; failed
    runs are counted."""
    found = defaultdict(list)
    for line in read_runs(path):
        found[line["table"], float(line["epsilon"]), line["method"]].append(line)
    out = []
    for (table, epsilon, method), lines in sorted(found.items(), key=_order):
        runs = [line for line in lines if "failed" not in line]
        number = sum(line.get("runs", 1) for line in runs)
        one: dict[str, Any] = {"table": table, "epsilon": epsilon, "method": method, "runs": number}
        failures = [line["failed"] for line in lines if "failed" in line]
        if failures:
            one |= {"failed": len(failures), "failure": failures[0]}
        for key in (*QUALITY, *RAW, *COST):
            if (figures := pooled(runs, key)) is not None:
                mean, spread = figures
                one |= {
                    key: round(mean, 4),
                    f"{key}_sd": None if spread is None else round(spread, 4),
                }
        out.append(one)
    return out


def _order(item: tuple[tuple[str, float, str], Any]) -> tuple[int, float, int]:
    (table, epsilon, method), _ = item
    return TABLES.index(table), epsilon, list(METHODS).index(method)


def markdown(rows: list[dict[str, Any]], epsilon: float) -> str:
    """One table; the best private figure of a column of a data set in bold."""
    keys = (*COST[1:], *QUALITY)
    lines = [
        "| table | method | runs | " + " | ".join(NAMES[key] for key in keys) + " |",
        "| --- " * (3 + len(keys)) + "|",
    ]
    some = [row for row in rows if row["epsilon"] == epsilon and row["table"] not in SHIPPED]
    best = {(table, key): _best(some, table, key) for table in TABLES for key in QUALITY}
    for row in some:
        cells = []
        for key in keys:
            if key not in row:
                cells.append("–" if row["runs"] else "not finished" if key == keys[0] else "")
                continue
            text = (
                f"{row[key]:.3f}"
                if key in QUALITY
                else f"{row[key]:.0f}"
                if row[key] >= 10
                else f"{row[key]:.2g}"
            )
            cells.append(f"**{text}**" if row["method"] == best.get((row["table"], key)) else text)
        lines.append(f"| {row['table']} | {row['method']} | {_runs(row)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _runs(row: dict[str, Any]) -> str:
    """How many runs a line is of; plainly, where they are too few."""
    if not row["runs"] or row["runs"] >= FEWEST:
        return str(row["runs"])
    return f"**only {row['runs']}**"


def _best(rows: list[dict[str, Any]], table: str, key: str) -> str:
    private = [
        row
        for row in rows
        if row["table"] == table
        and row["method"] != "real"
        and key in row
        and row["runs"] >= FEWEST
    ]
    sign = -1 if key in BETTER_HIGH else 1
    return min(private, key=lambda row: sign * row[key])["method"] if private else ""


def shipped(rows: list[dict[str, Any]]) -> str:
    """The tables that packages ship: every figure with its standard deviation over runs, the best
    private one of a table and epsilon in bold."""
    keys = (*QUALITY[:3], *RAW[:3], *QUALITY[3:], *RAW[3:])
    head = ["table", "epsilon", "method", "runs", NAMES["cpu"], *(NAMES[key] for key in keys)]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    held = [row for row in rows if row["table"] in SHIPPED and row["runs"]]
    for row in held:
        some = [
            one for one in held if (one["table"], one["epsilon"]) == (row["table"], row["epsilon"])
        ]
        cells = [row["table"], f"{row['epsilon']:g}", row["method"], _runs(row)]
        cells.append(f"{row['cpu']:.0f}" if row["cpu"] >= 10 else f"{row['cpu']:.2g}")
        for key in keys:
            if key not in row:
                cells.append("–")
                continue
            text = f"{row[key]:.3f}"
            if row["method"] == _best(some, row["table"], key):
                text = f"**{text}**"
            spread = row[f"{key}_sd"]
            cells.append(text if spread is None else f"{text} ± {spread:.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def standing(rows: list[dict[str, Any]]) -> str:
    """For every table and epsilon: dpublish with the delta that the peers spend beside the best
    peer of each column."""
    keys = QUALITY
    lines = [
        f"| table | epsilon | peers with at least {FEWEST} runs | "
        + " | ".join(f"{NAMES[key]}: ours / best peer" for key in keys)
        + " |"
    ]
    lines.append("| --- " * (3 + len(keys)) + "|")
    for table in (name for name in TABLES if name not in SHIPPED):
        for epsilon in sorted({row["epsilon"] for row in rows if row["table"] == table}):
            some = [
                row
                for row in rows
                if row["table"] == table and row["epsilon"] == epsilon and row["runs"]
            ]
            peers = [row for row in some if row["method"] not in (*OURS, "real")]
            ours = [row for row in some if row["method"] == "dpublish-approximate"]
            if peers and ours:
                cells = [_beside(ours[0], peers, key) for key in keys]
                enough = sum(row["runs"] >= FEWEST for row in peers)
                counted = f"{enough} of {len(peers)}"
                lines.append(f"| {table} | {epsilon:g} | {counted} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(ours: dict[str, Any], peers: list[dict[str, Any]], key: str) -> str:
    """Ours, the best peer of enough runs, and one of fewer runs that comes out better than it."""
    pick, mine = max if key in BETTER_HIGH else min, ours[key]
    known = [row for row in peers if key in row]
    enough = [row for row in known if row["runs"] >= FEWEST]
    told = [pick(enough, key=lambda row: row[key])] if enough else []
    fewer = [row for row in known if row["runs"] < FEWEST]
    if fewer:
        best = pick(fewer, key=lambda row: row[key])
        if not told or pick(best[key], told[0][key]) != told[0][key]:
            told.append(best)
    return f"{mine:.3f} / " + (", ".join(_peer(mine, row, key) for row in told) or "–")


def _peer(mine: float, row: dict[str, Any], key: str) -> str:
    behind = row[key] > mine if key in BETTER_HIGH else row[key] < mine
    few = f" (**only {row['runs']}** run{'s'[: row['runs'] - 1]})" if row["runs"] < FEWEST else ""
    return f"{row[key]:.3f} {row['method']}{few}{' (**peer ahead**)' if behind else ''}"


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    rows = [row for row in rows if row["table"] not in SHIPPED]
    methods = [
        name for name in METHODS if any(row["method"] == name and row["runs"] for row in rows)
    ]
    palette = (
        "#1b4f9c",
        "#56b4e9",
        "#e69f00",
        "#b35900",
        "#009e73",
        "#004d38",
        "#7fbf3f",
        "#d55e00",
        "#8c2d04",
        "#cc79a7",
        "#777777",
    )
    colours = dict(zip([name for name in methods if name != "real"], palette, strict=False))
    panels = ("tv2", "tv3", "auc_boosting", "cpu")
    tables = [name for name in TABLES if any(row["table"] == name for row in rows)]
    figure = Figure(figsize=(15, 3.3 * len(tables) + 0.7), dpi=100)
    grid = figure.subplots(len(tables), len(panels), squeeze=False)
    for line, table in zip(grid, tables, strict=True):
        for axes, key in zip(line, panels, strict=True):
            for method in methods:
                some = [
                    row
                    for row in rows
                    if row["table"] == table and row["method"] == method and key in row
                ]
                if method == "real":
                    if some and key != "cpu":
                        mean = float(np.mean([row[key] for row in some]))
                        axes.axhline(
                            mean,
                            color="#222222",
                            linewidth=1,
                            linestyle=":",
                            label="real rows, redrawn",
                        )
                    continue
                if some:
                    x, y = [row["epsilon"] for row in some], [row[key] for row in some]
                    wide = 2.2 if method in OURS else 1.2
                    axes.plot(
                        x,
                        y,
                        marker="o",
                        markersize=4.5,
                        linewidth=wide,
                        color=colours[method],
                        label=method,
                    )
            _dress(axes, f"{table}: {'CPU seconds' if key == 'cpu' else NAMES[key]}", key)
    seen = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        seen.values(), seen.keys(), loc="lower center", ncols=6, fontsize=9, frameon=False
    )
    figure.tight_layout(rect=(0, 0.7 / (3.3 * len(tables) + 0.7), 1, 1))
    figure.savefig(path)


def _dress(axes: Any, title: str, key: str) -> None:
    axes.set_xscale("log")
    axes.set_xlim(0.08, 12.5)
    axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    if key == "cpu":
        axes.set_yscale("log")
    else:
        axes.minorticks_off()
    if key in ("tv2", "tv3"):
        axes.set_ylim(bottom=0)
    axes.xaxis.set_minor_locator(_no_ticks())
    axes.set_title(
        f"{title} ({'higher' if key in BETTER_HIGH else 'lower'} is better)", fontsize=9, loc="left"
    )
    axes.set_xlabel("epsilon", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(color="#e4e4e4")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def insert(page: Path, name: str, text: str) -> None:
    """Put a text between the two marks of that name."""
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "figures", type=Path, nargs="?", default=Path(__file__).with_name("runs.jsonl")
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--png", type=Path)
    parser.add_argument("--readme", type=Path)
    given = parser.parse_args()
    rows = read(given.figures)
    for epsilon in sorted({row["epsilon"] for row in rows}):
        print(f"epsilon = {epsilon:g}\n\n{markdown(rows, epsilon)}\n")
    print(standing(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    if given.png:
        plot(rows, given.png)
    if given.readme:
        insert(given.readme, "epsilon 1", markdown(rows, 1.0))
        insert(given.readme, "shipped", shipped(rows))
        insert(given.readme, "standing", standing(rows))


if __name__ == "__main__":
    main()
