"""Figures 3 to 8, laid out as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from .data import TITLES

COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#ccbb44", "#66ccee")


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
        times["stm-like, by items"] = {"items": results["figure4"]["stm-like"]["items"]}
    lines(times, folder / "figure4.png", "records, or items of the universe", "processor seconds", lambda data: data)
    lines(results["figure5"], folder / "figure5.png", "fan-out", "average relative error", labelled)
    lines(results["figure6"], folder / "figure6.png", "items of the universe", "average relative error", turned)
    lines(results["figure7"], folder / "figure7.png", "records", "average relative error", turned)
    lines(results["figure8"], folder / "figure8.png", "K", "similarity of the top K", labelled)


def labelled(data: Mapping[str, Any]) -> dict[str, Any]:
    return {f"B = {b}" if b[0].isdigit() else b: points for b, points in data.items()}


def turned(data: Mapping[str, Any]) -> dict[str, Any]:
    """{x: {B: y}} to {B: {x: y}}."""
    budgets = next(iter(data.values()))
    return {f"B = {b}": {x: row[b] for x, row in data.items()} for b in budgets}


def lines(data: Mapping[str, Any], path: Path, across: str, up: str, series: Any, *, log: bool = False) -> None:
    if not data:
        return
    figure, panels = plt.subplots(1, len(data), figsize=(4.3 * len(data), 4.4), squeeze=False, layout="constrained")
    for panel, (name, content) in zip(panels[0], data.items(), strict=True):
        shown = series(content)
        for place, (label, points) in enumerate(shown.items()):
            style = "--" if label.startswith(("Basic", "as published")) else "-"
            colour = COLOURS[place % 4 if len(shown) > 6 else place % len(COLOURS)]
            panel.plot([float(x) for x in points], list(points.values()), style, marker="o", ms=3.5, color=colour, label=label)
        panel.set_title(TITLES.get(name, name), fontsize=9.5)
        panel.set_xlabel(across, fontsize=8.5)
        panel.set_ylabel(up, fontsize=8.5)
        panel.set_yscale("log" if log else "linear")
        if not log:
            panel.set_ylim(bottom=min(0.0, *(min(p.values()) for p in shown.values())))
        panel.grid(alpha=0.3)
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=6.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    figure.savefig(path, dpi=60)
    plt.close(figure)
