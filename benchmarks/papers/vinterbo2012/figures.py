"""Figures 1 and 2, laid out as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ORDER = ("iris", "satellite", "infarct", "adult")
COLOURS = {"iris": "#7b3294", "satellite": "#0571b0", "infarct": "#ca0020", "adult": "#018571"}
SHORT = {"iris": "Iris", "satellite": "Satellite", "infarct": "Infarct stand-in", "adult": "Adult"}
BOXES = ("#bdbdbd", "#c6dbef", "#6baed6", "#2171b5", "#fdae6b", "#e6550d")


def draw_comparison(results: Mapping[str, Any], path: Path) -> None:
    present = [name for name in ORDER if name in results]
    rows = (len(present) + 1) // 2
    figure, axes = plt.subplots(rows, 2, figsize=(11, 4.2 * rows), squeeze=False)
    for place, panel in enumerate(axes.flat):
        if place >= len(present):
            panel.set_visible(False)
            continue
        result = results[present[place]]
        areas = result["auc"]
        boxes = panel.boxplot(
            list(areas.values()),
            tick_labels=list(areas),
            patch_artist=True,
            widths=0.6,
            medianprops={"color": "black", "linewidth": 1.5},
            flierprops={"marker": ".", "markersize": 5},
        )
        for box, colour in zip(boxes["boxes"], BOXES, strict=True):
            box.set_facecolor(colour)
        panel.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
        panel.set_title(result["title"], fontsize=11)
        panel.set_ylabel("AUC")
        panel.set_ylim(min(0.3, min(min(values) for values in areas.values()) - 0.02), 1.02)
        panel.grid(axis="y", alpha=0.3)
        panel.tick_params(axis="x", labelsize=9)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    figure.suptitle("Cross-validation AUC at epsilon = 1", fontsize=13)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_sweeps(results: Mapping[str, Any], path: Path) -> None:
    labels = {
        "epsilon": "epsilon",
        "k": "k, columns chosen",
        "gamma": "gamma, share of epsilon for counting",
    }
    scores = {"discernibility": "score of the paper", "prediction": "prediction score"}
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.6), sharey=True)
    for row, (score, words) in enumerate(scores.items()):
        for column, (parameter, label) in enumerate(labels.items()):
            panel = axes[row, column]
            for name in ORDER:
                if name not in results:
                    continue
                found = results[name][score]
                points = found[parameter]
                panel.plot(
                    *zip(*points, strict=True),
                    color=COLOURS[name],
                    marker=".",
                    linewidth=1.6,
                    label=SHORT[name],
                )
                baseline = dict(found["epsilon"])[1.0]
                where = 1.0 if parameter == "epsilon" else found["estimated"][parameter]
                panel.plot(
                    [where],
                    [baseline],
                    "o",
                    color=COLOURS[name],
                    markersize=8,
                    markeredgecolor="black",
                )
            if parameter == "epsilon":
                panel.set_xscale("log")
                panel.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
                panel.set_ylabel(f"median AUC ({words})")
            panel.axhline(0.5, color="#999999", linewidth=0.8, linestyle=":")
            panel.set_xlabel(label)
            panel.grid(alpha=0.3)
            for side in ("top", "right"):
                panel.spines[side].set_visible(False)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles,
        names,
        loc="upper center",
        ncol=len(names),
        frameon=False,
        bbox_to_anchor=(0.5, 0.965),
    )
    figure.suptitle(
        "Logistic regression on projected histograms: one parameter moves, the others are "
        "estimated",
        y=0.995,
    )
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    figure.savefig(path, dpi=100)
    plt.close(figure)
