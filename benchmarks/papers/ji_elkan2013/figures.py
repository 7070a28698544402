"""Plots of the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

TITLES = {
    "output, sqrt(d)": "the paper's: output, R = sqrt(d)",
    "output": "output, R = sqrt(columns)",
    "objective": "objective, R = sqrt(columns)",
}


def _boxes(
    axes: Any, groups: dict[str, list[float]], truth: float | None, before: float | None
) -> None:
    axes.boxplot(list(groups.values()), whis=(2.5, 97.5), showfliers=False, widths=0.6)
    axes.set_xticks(range(1, len(groups) + 1), list(groups))
    if truth is not None:
        axes.axhline(truth, color="#1f6fb2", linewidth=1, label="truth")
    if before is not None:
        axes.axhline(before, color="#b0b0b0", linewidth=1, linestyle="--", label="unweighted E")
    axes.spines[["top", "right"]].set_visible(False)


def draw(results: dict[str, Any], out: Path) -> None:
    truth, before = results["truth"], results["unweighted"]
    answers, svm = results["estimates"], results["svm"]
    figure = Figure(figsize=(14, 12), layout="constrained")
    grid = figure.subplots(4, 3)
    for column, name in enumerate(TITLES):
        one = grid[0][column]
        _boxes(one, answers["lambda"][name], truth, before)
        one.set_title(f"Figure 1. {TITLES[name]}", loc="left", fontsize=10)
        one.set_xlabel("lambda (epsilon = 0.1)")
        one.set_ylim(0, 1)
        two = grid[1][column]
        _boxes(two, answers["epsilon"][name], truth, before)
        two.set_title(f"Figure 2. {TITLES[name]}", loc="left", fontsize=10)
        two.set_xlabel("epsilon (lambda = 0.1)")
        two.set_ylim(0, 0.7)
        for axes in (one, two):
            axes.set_ylabel("share of income > 50K")
        three = grid[2][column]
        order = sorted(svm["distance"][name], key=lambda key: 99 if key == "none" else float(key))
        _boxes(three, {key: svm["distance"][name][key] for key in order}, None, None)
        three.axhline(
            svm["private_erm_length"],
            color="#b03030",
            linewidth=1,
            label="private ERM, epsilon 0.1 (closed form)",
        )
        three.axhline(
            svm["svm_norm"],
            color="#b0b0b0",
            linewidth=1,
            linestyle="--",
            label="length of the coefficients",
        )
        three.set_title(f"Figure 3. {TITLES[name]}", loc="left", fontsize=10)
        three.set_xlabel("epsilon (none: no noise)")
        three.set_ylabel("distance of SVM coefficients")
        three.legend(frameon=False, fontsize=8)
    grid[0][0].legend(frameon=False, fontsize=8)
    four = grid[3][0]
    for name, marker in zip(TITLES, ("o", "s", "^"), strict=True):
        runs = answers["lambda"][name]
        bias = [abs(float(np.mean(values)) - truth) for values in runs.values()]
        spread = [float(np.std(values)) for values in runs.values()]
        four.plot(bias, spread, marker=marker, label=TITLES[name])
        for key, x, y in zip(runs, bias, spread, strict=True):
            four.annotate(key, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    four.set_title(
        "Figure 4. Bias and standard deviation as lambda varies", loc="left", fontsize=10
    )
    four.set_xlabel("|bias|")
    four.set_ylabel("standard deviation")
    four.legend(frameon=False, fontsize=8)
    for five, name in zip(grid[3][1:], ("output, sqrt(d)", "objective"), strict=True):
        _extreme(five, svm["extreme"][name], truth)
        five.set_title(f"Figures 5 and 6. {TITLES[name]}", loc="left", fontsize=10)
    figure.savefig(out / "figures.png", dpi=80)


def _extreme(axes: Any, cases: dict[str, dict[str, list[float]]], truth: float) -> None:
    """Shares on the left axis, SVM distances on the right one."""
    _boxes(axes, {f"{case}\nshare": found["share"] for case, found in cases.items()}, truth, None)
    axes.set_ylabel("share of income > 50K")
    other = axes.twinx()
    distances = [found["distance"] for found in cases.values()]
    other.boxplot(
        distances, positions=[4.5, 5.5, 6.5], whis=(2.5, 97.5), showfliers=False, widths=0.6
    )
    axes.set_xticks(
        [1, 2, 3, 4.5, 5.5, 6.5],
        [f"{case}\n{what}" for what in ("share", "SVM") for case in cases],
        fontsize=7,
    )
    axes.set_xlim(0.3, 7.2)
    other.set_ylabel("distance of SVM coefficients (right three)")
