"""Pictures of the results."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

MARKS = ["o", "s", "D", "^", "v", "x", "+"]
STYLES = {
    "interval tree (default)": ("o", "#1b6ca8"),
    "privtree, no look": ("D", "#6db1d8"),
    "dyadic": ("s", "#2a9d5c"),
    "binary search (thesis)": ("^", "#c8553d"),
    "binary search, our estimates": ("^", "#e0a458"),
    "hierarchical (Hay)": ("v", "#8a6fb0"),
    "flat histogram": ("x", "#777777"),
    "Laplace per query": ("+", "#222222"),
}


def draw_ranges(found: dict[str, Any], path: Path) -> None:
    """One panel a setting, rows by n and columns by epsilon: the error of every contestant on every
    data set."""
    cases = found["cases"]
    sizes, epsilons = (list(dict.fromkeys(case[key] for case in cases)) for key in ("n", "epsilon"))
    figure = Figure(figsize=(11, 2.3 * len(sizes) + 1.4), layout="constrained")
    panels = figure.subplots(len(sizes), len(epsilons), sharex=True, squeeze=False)
    for (row, n), (column, epsilon) in itertools.product(enumerate(sizes), enumerate(epsilons)):
        panel = panels[row][column]
        part = [case for case in cases if (case["n"], case["epsilon"]) == (n, epsilon)]
        for name in part[0]["errors"]:
            mark, colour = STYLES[name]
            face = colour if mark in "ox+" else "none"
            panel.plot(
                [case["errors"][name] for case in part],
                mark,
                ms=4.5,
                color=colour,
                mfc=face,
                label=name,
            )
        panel.set_yscale("log")
        panel.grid(axis="y", alpha=0.25)
        panel.set_xticks(range(len(part)), [case["data"] for case in part], rotation=90, fontsize=6)
        panel.set_title(f"n = {n:,}, epsilon = {epsilon}", fontsize=8)
        panel.tick_params(axis="y", labelsize=7)
    figure.supylabel("mean error of a range / n", fontsize=9)
    figure.legend(
        *panels[-1][0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=4,
        frameon=False,
        fontsize=8,
    )
    figure.savefig(path, dpi=90)


def draw_halfspaces(measured: dict[str, Any], path: Path) -> None:
    found = measured["results"]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for mark, key in zip(
        MARKS, dict.fromkeys((one["columns"], one["k"]) for one in found), strict=False
    ):
        part = [one for one in found if (one["columns"], one["k"]) == key]
        axes.plot(
            [one["distance"] for one in part],
            [one["error"] for one in part],
            f"{mark}-",
            label=f"{key[0]} columns, k = {key[1]}",
        )
    axes.set_xlabel("distance of the hyperplane from the middle of the data")
    axes.set_ylabel("mean error / n")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=90)


def draw_queries(measured: dict[str, Any], path: Path) -> None:
    found = measured["results"]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for mark, name in zip(MARKS, ("multiplicative weights", "independent Laplace"), strict=False):
        axes.loglog(
            [one["queries"] for one in found], [one[name] for one in found], f"{mark}-", label=name
        )
    axes.loglog(
        [one["queries"] for one in found],
        [one["stated bound (95%)"] for one in found],
        ":",
        label="stated bound (95%)",
    )
    axes.axhline(1, color="black", linewidth=0.6)
    axes.set_title(
        f"{measured['universe']:,} cells, n = {measured['rows']:,}, epsilon = "
        f"{measured['epsilon']}",
        fontsize=10,
    )
    axes.grid(alpha=0.3)
    axes.set_xlabel("number of queries k")
    axes.set_ylabel("largest error / n")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=90)
