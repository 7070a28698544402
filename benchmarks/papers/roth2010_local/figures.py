"""The two figures of the comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STYLE = {
    "conjunctions": ("#d95f02", "o", "local, one conjunction a person"),
    "parities": ("#1b6ca8", "s", "local, one parity a person"),
    "central": ("#1b9e77", "^", "central, noisy table"),
}


def draw_errors(rows: list[dict[str, Any]], people: int, path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), sharex=True)
    widths = [row["width"] for row in rows]
    for name, (colour, marker, label) in STYLE.items():
        left.plot(
            widths,
            [row[name]["conjunction_max"] for row in rows],
            color=colour,
            marker=marker,
            label=label,
        )
        right.plot(
            widths,
            [row[name]["parity_rms"] for row in rows],
            color=colour,
            marker=marker,
            label=label,
        )
    bound = [row["conjunctions"]["conjunction_max"] * (3 ** row["width"] - 1) / 2 for row in rows]
    right.plot(
        widths,
        bound,
        color="#d95f02",
        linestyle="--",
        linewidth=1,
        label="bound of 6.1 from the left panel",
    )
    right.axhline(0.5, color="#777777", linestyle=":", linewidth=1)
    right.text(
        widths[-1],
        0.55,
        "largest error of the guess 1/2",
        color="#555555",
        fontsize=9,
        va="bottom",
        ha="right",
    )
    left.set_title("Conjunctions of w attributes: largest error")
    right.set_title("Parities of w attributes through (6.1): typical error")
    for panel in (left, right):
        panel.set_yscale("log")
        panel.set_xlabel("width w")
        panel.set_xticks(widths)
        panel.grid(alpha=0.3, which="major")
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    left.set_ylabel("error, as a share of people")
    right.set_ylim(top=100 * max(bound))  # room for the legend above the lines
    left.legend(frameon=False, fontsize=9)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    figure.suptitle(f"Adult, {people:,} people, 12 attributes, epsilon = 1", fontsize=12)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)


def draw_learning(rows: list[dict[str, Any]], attributes: int, path: Path) -> None:
    figure, panel = plt.subplots(figsize=(6.4, 4.2))
    for model, (colour, marker, label) in (
        ("local", STYLE["parities"]),
        ("central", STYLE["central"]),
    ):
        known = [(row["size"], row[model]) for row in rows if row[model] is not None]
        panel.plot(
            [x for x, _ in known], [y for _, y in known], color=colour, marker=marker, label=label
        )
    panel.set_yscale("log")
    panel.set_xticks([row["size"] for row in rows])
    panel.set_xlabel("attributes in the hidden parity")
    panel.set_ylabel("people needed")
    panel.set_title(
        f"Finding a hidden parity among {attributes} attributes\n(9 of 10 times, epsilon = 1)",
        fontsize=11,
    )
    panel.grid(alpha=0.3, which="major")
    panel.legend(frameon=False)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)
