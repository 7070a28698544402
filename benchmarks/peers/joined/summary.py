"""Figures of run.py or sweep.py as JSON, tables and plots.

python summary.py [RUNS.jsonl] --json results.json --png results.png --readme README.md
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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
"""Runs that a line needs to be compared with any other."""
LOOKS = {
    "dpublish-pure": ("#1b4f9c", "o"),
    "dpublish-approximate": ("#56b4e9", "o"),
    "dpublish-raw": ("#7b3fa0", "o"),
    "opendp-mst": ("#e69f00", "s"),
    "opendp-mst-round": ("#e69f00", "x"),
    "opendp-aim": ("#e69f00", "^"),
    "dpmm-mst": ("#009e73", "s"),
    "dpmm-mst-raw": ("#009e73", "x"),
    "dpmm-aim": ("#009e73", "^"),
    "dpmm-privbayes": ("#009e73", "D"),
    "smartnoise-mst": ("#c23b22", "s"),
    "smartnoise-aim": ("#c23b22", "^"),
    "datasynthesizer": ("#cc79a7", "D"),
    "diffprivlib-logistic": ("#777777", "D"),
}
"""Colour and marker of a method in the picture: one colour a package, one marker a kind."""
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
    lines = _head("table", "method", "runs", *(NAMES[key] for key in keys))
    some = [row for row in rows if row["epsilon"] == epsilon and row["table"] not in SHIPPED]
    for row in enough(some):
        cells = [row["table"], row["method"], str(row["runs"])]
        for key in keys:
            text = _text(row, key)
            cells.append(f"**{text}**" if row["method"] == _best(some, row["table"], key) else text)
        lines.append(_line(cells))
    return "\n".join(lines)


def enough(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What may stand beside other figures."""
    return [row for row in rows if row["runs"] >= FEWEST]


def _head(*names: str) -> list[str]:
    return [_line(names), "| --- " * len(names) + "|"]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(row: dict[str, Any], key: str) -> str:
    if key not in row:
        return "–"
    if key not in COST:
        return f"{row[key]:.3f}"
    return f"{row[key]:.0f}" if row[key] >= 10 else f"{row[key]:.2g}"


def _best(rows: list[dict[str, Any]], table: str, key: str) -> str:
    private = [
        row
        for row in enough(rows)
        if row["table"] == table and row["method"] != "real" and key in row and key not in COST
    ]
    sign = -1 if key in BETTER_HIGH else 1
    return min(private, key=lambda row: sign * row[key])["method"] if private else ""


def shipped(rows: list[dict[str, Any]]) -> str:
    """The tables that packages ship: every figure with its standard deviation over runs, the best
    private one of a table and epsilon in bold."""
    keys = (*QUALITY[:3], *RAW[:3], *QUALITY[3:], *RAW[3:])
    names = (NAMES[key] for key in ("cpu", *keys))
    lines = _head("table", "epsilon", "method", "runs", *names)
    held = [row for row in enough(rows) if row["table"] in SHIPPED]
    for row in held:
        some = [one for one in held if one["epsilon"] == row["epsilon"]]
        cells = [row["table"], f"{row['epsilon']:g}", row["method"], str(row["runs"])]
        cells.append(_text(row, "cpu"))
        for key in keys:
            text = _text(row, key)
            if row["method"] == _best(some, row["table"], key):
                text = f"**{text}**"
            cells.append(f"{text} ± {row[f'{key}_sd']:.3f}" if key in row else text)
        lines.append(_line(cells))
    return "\n".join(lines)


def standing(rows: list[dict[str, Any]]) -> str:
    """For every table and epsilon: dpublish with the delta that the peers spend beside the best
    peer of each column, and the processor time of the quickest MST or AIM."""
    names = (f"{NAMES[key]}: ours / best peer" for key in QUALITY)
    lines = _head("table", "epsilon", "peers", *names, "CPU: quickest MST or AIM")
    for table in TABLES:
        for epsilon in sorted({row["epsilon"] for row in rows if row["table"] == table}):
            some = {
                row["method"]: row
                for row in enough(rows)
                if row["table"] == table and row["epsilon"] == epsilon
            }
            peers = [row for name, row in some.items() if name not in (*OURS, "real")]
            ours = some.get(OURS[1])
            if peers and ours:
                cells = [table, f"{epsilon:g}", str(len(peers))]
                cells += [_beside(ours, peers, key) for key in QUALITY]
                lines.append(_line([*cells, _times(ours, peers)]))
    return "\n".join(lines)


def _beside(ours: dict[str, Any], peers: list[dict[str, Any]], key: str) -> str:
    pick, mine = max if key in BETTER_HIGH else min, ours[key]
    known = [row for row in peers if key in row]
    if not known:
        return f"{mine:.3f} / –"
    best = pick(known, key=lambda row: row[key])
    ahead = best[key] != mine and pick(best[key], mine) == best[key]
    return f"{mine:.3f} / {best[key]:.3f} {best['method']}{' (**peer ahead**)' if ahead else ''}"


def _times(ours: dict[str, Any], peers: list[dict[str, Any]]) -> str:
    """How often our CPU seconds go into those of the quickest MST or AIM."""
    some = [row for row in peers if "-mst" in row["method"] or "-aim" in row["method"]]
    if not some:
        return "–"
    quickest = min(some, key=lambda row: row["cpu"])
    return f"{quickest['cpu'] / ours['cpu']:.0f} times ours, {quickest['method']}"


def few(rows: list[dict[str, Any]]) -> str:
    """Lines of fewer runs, which are compared with nothing: TV-2, CPU seconds and how many."""
    some = {
        (row["table"], row["method"], row["epsilon"]): row for row in rows if row["runs"] < FEWEST
    }
    epsilons = sorted({epsilon for _, _, epsilon in some})
    lines = _head("table", "method", *(f"epsilon {epsilon:g}" for epsilon in epsilons))
    for table, method in dict.fromkeys(key[:2] for key in some):
        cells = [table, method]
        for epsilon in epsilons:
            row = some.get((table, method, epsilon))
            if row is None:
                cells.append("")
            elif row["runs"]:
                cells.append(f"{_text(row, 'tv2')}, {_text(row, 'cpu')} s ({row['runs']})")
            else:
                cells.append("not finished (0)")
        lines.append(_line(cells))
    seconds = sum((FEWEST - row["runs"]) * row.get("cpu", 0.0) for row in some.values())
    lines += ["", f"{FEWEST} runs of each would take {seconds / 3600:.1f} more hours of CPU time."]
    return "\n".join(lines)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    rows, panels, high = enough(rows), ("tv2", "auc_boosting", "cpu"), 2.6
    tables = [name for name in TABLES if any(row["table"] == name for row in rows)]
    figure = Figure(figsize=(13, high * len(tables) + 0.9), dpi=90)
    grid = figure.subplots(len(tables), len(panels), squeeze=False)
    for (line, table), (place, key) in itertools.product(
        zip(grid, tables, strict=True), enumerate(panels)
    ):
        axes, some = line[place], [row for row in rows if row["table"] == table and key in row]
        floor = [row[key] for row in some if row["method"] == "real" and key != "cpu"]
        for value in floor:
            axes.axhline(value, color="#222222", linestyle=":", linewidth=1, label="real, redrawn")
        for method, (colour, marker) in LOOKS.items():
            points = [(row["epsilon"], row[key]) for row in some if row["method"] == method]
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    marker=marker,
                    markersize=5,
                    linewidth=2.2 if method in OURS else 1.2,
                    color=colour,
                    label=method,
                )
        _dress(axes, f"{table}: {NAMES[key]}", key)
    seen = {
        label: handle
        for axes in grid.flat
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        seen.values(), seen.keys(), loc="lower center", ncols=5, fontsize=9, frameon=False
    )
    figure.tight_layout(rect=(0, 0.9 / (high * len(tables) + 0.9), 1, 1))
    figure.savefig(path)


def _dress(axes: Any, title: str, key: str) -> None:
    axes.set_xscale("log")
    axes.set_xlim(0.08, 12.5)
    axes.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    if key == "cpu":
        axes.set_yscale("log")
    else:
        axes.minorticks_off()
    if key == "tv2":
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
        insert(given.readme, "few", few(rows))


if __name__ == "__main__":
    main()
