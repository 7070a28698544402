"""Pictures of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

MARKS = ["o", "s", "D", "^", "v", "x", "+"]


def draw_ranges(found: list[dict[str, Any]], path: Path) -> None:
    """One panel a setting: the error of every contestant on every data set."""
    settings = list(dict.fromkeys((one["n"], one["epsilon"]) for one in found))
    rows = 2 if len(settings) > 2 else 1
    figure = Figure(figsize=(11, 3.6 * rows), layout="constrained")
    panels = np.atleast_1d(figure.subplots(rows, -(-len(settings) // rows), sharey=True)).reshape(-1)
    for panel, setting in zip(panels, settings, strict=False):
        part = [one for one in found if (one["n"], one["epsilon"]) == setting]
        for mark, name in zip(MARKS, part[0]["errors"], strict=False):
            panel.plot([one["errors"][name] for one in part], mark, ms=4, label=name)
        panel.set_yscale("log")
        panel.set_xticks(range(len(part)), [one["data"] for one in part], rotation=90, fontsize=6)
        panel.set_title(f"n = {setting[0]:,}, epsilon = {setting[1]}", fontsize=9)
    for panel in panels[:: len(panels) // rows]:
        panel.set_ylabel("mean error of a query / n")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)


def draw_halfspaces(found: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for mark, key in zip(MARKS, dict.fromkeys((one["columns"], one["k"]) for one in found), strict=False):
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


def draw_queries(found: list[dict[str, Any]], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for mark, name in zip(MARKS, ("multiplicative weights", "independent Laplace"), strict=False):
        axes.loglog([one["queries"] for one in found], [one[name] for one in found], f"{mark}-", label=name)
    axes.set_xlabel("number of queries")
    axes.set_ylabel("largest error / n")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=90)
