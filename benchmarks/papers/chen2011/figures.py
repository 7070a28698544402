"""Figures 3 to 8, laid out as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from .data import TITLES

COLOURS = {"0.5": "#4477aa", "0.75": "#ee6677", "1": "#228833", "1.25": "#aa3377"}
STYLES = {"Basic as data": (":", "x"), "Basic signed": ("--", "s"), "as published": ("-.", "^")}


def draw(results: Mapping[str, Any], folder: Path) -> None:
    lines(
        results["figure3"],
        folder / "figure3.png",
        "largest query length, % of the longest record",
        "average relative error",
        lambda data: {
            f"{m}, B = {b}": points
            for m, by in data.items()
            for b, points in by.items()
            if not m.startswith("Basic") or b in ("0.5", "1.0")
        },
        log=True,
    )
    times = {name: {"records": data["records"]} for name, data in results["figure4"].items()}
    if "items" in results["figure4"].get("stm-like", {}):
        times["STM-like, by items of the universe"] = {
            "items": results["figure4"]["stm-like"]["items"]
        }
    lines(
        times,
        folder / "figure4.png",
        "items of the universe",
        "processor seconds",
        lambda data: data,
    )
    lines(results["figure5"], folder / "figure5.png", "fan-out", "average relative error", labelled)
    lines(
        results["figure6"],
        folder / "figure6.png",
        "items of the universe",
        "average relative error",
        turned,
    )
    lines(results["figure7"], folder / "figure7.png", "records", "average relative error", turned)
    lines(
        results["figure8"],
        folder / "figure8.png",
        "K",
        "similarity of the top K",
        labelled,
        top=1.0,
    )


def labelled(data: Mapping[str, Any]) -> dict[str, Any]:
    return {f"B = {b}" if b[0].isdigit() else b: points for b, points in data.items()}


def turned(data: Mapping[str, Any]) -> dict[str, Any]:
    """{x: {B: y}} to {B: {x: y}}."""
    budgets = next(iter(data.values()))
    return {f"B = {b}": {x: row[b] for x, row in data.items()} for b in budgets}


def style(label: str) -> dict[str, Any]:
    """The colour says the budget, the line the method."""
    budget = label.rpartition("= ")[2].removesuffix(".0")
    line, mark = next((how for start, how in STYLES.items() if label.startswith(start)), ("-", "o"))
    return {
        "color": COLOURS.get(budget, "#4477aa"),
        "linestyle": line,
        "marker": mark,
        "ms": 4,
        "lw": 1.4,
    }


def lines(
    data: Mapping[str, Any],
    path: Path,
    across: str,
    up: str,
    series: Any,
    *,
    log: bool = False,
    top: float = 0,
) -> None:
    if not data:
        return
    columns = 2 if len(data) > 3 else len(data)
    rows = -(-len(data) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(5 * columns, 4.3 * rows), squeeze=False, layout="constrained"
    )
    for panel in grid.ravel()[len(data) :]:
        panel.set_visible(False)
    for panel, (name, content) in zip(grid.ravel(), data.items(), strict=False):
        shown = series(content)
        for label, points in shown.items():
            panel.plot(
                [float(x) for x in points], list(points.values()), label=label, **style(label)
            )
        panel.set_title(TITLES.get(name, name), fontsize=10)
        panel.set_xlabel(
            across if len(shown) > 1 or "records" not in shown else "records", fontsize=9
        )
        panel.set_ylabel(up, fontsize=9)
        if log:
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:g}%"))
            panel.yaxis.set_minor_formatter(NullFormatter())
        else:
            panel.set_ylim(
                bottom=min(0.0, *(min(p.values()) for p in shown.values())), top=top or None
            )
        panel.xaxis.set_major_locator(MaxNLocator(6))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        panel.grid(alpha=0.3)
        panel.tick_params(labelsize=8)
        if len(shown) > 1:
            panel.legend(
                fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False
            )
    figure.savefig(path, dpi=90)
    plt.close(figure)
