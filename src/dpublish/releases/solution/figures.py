"""Pictures of solutions: a map of sites, the two sides of a cut, the head of an order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpublish.releases.solution.release import SolutionRelease


def plot_solution(
    release: SolutionRelease,
    frame: pl.DataFrame,
    names: list[Any],
    *,
    top: int,
    edges: Iterable[Sequence[Any]] | None,
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    panel = figure.add_subplot()
    name = str(release.manifest["dataset"])
    # names may hold dollar signs, which would start a formula
    panel.set_title(
        release.problem if name == release.problem else f"{name}: {release.problem}",
        parse_math=False,
    )
    if release.problem == "min-cut":
        _draw_cut(panel, frame, names, edges)
    elif "x" in frame.columns:
        panel.scatter(frame["x"], frame["y"], s=60, color="#c0392b", zorder=3)
        for name, x, y in zip(names, frame["x"], frame["y"], strict=True):
            panel.annotate(
                str(name),
                (x, y),
                textcoords="offset points",
                xytext=(6, 4),
                fontsize=8,
                parse_math=False,
            )
        panel.margins(x=0.18, y=0.12)  # room for the names
        panel.set_xlabel("x")
        panel.set_ylabel("y")
        panel.grid(alpha=0.3)
    else:
        _draw_order(panel, names, top)
    return figure


def _draw_order(panel: Any, names: list[Any], top: int) -> None:
    """The first names in columns, numbered: an order has no lengths to draw."""
    shown = names[:top]
    rows = max(5, -(-len(shown) // 3))
    for place, name in enumerate(shown):
        column, row = divmod(place, rows)
        text = f"{place + 1:>3}.  {str(name)[:24]}"
        panel.text(
            column, -row, text, fontsize=9, family="monospace", va="center", parse_math=False
        )
    columns = -(-len(shown) // rows)
    panel.set_xlim(-0.05, max(3, columns))
    panel.set_ylim(-rows - 0.5, 1)
    if len(names) > len(shown):
        panel.text(
            0,
            -rows,
            f"and {len(names) - len(shown):,} more",
            fontsize=9,
            color="#777777",
            va="center",
        )
    panel.set_axis_off()


def _draw_cut(
    panel: Any, frame: pl.DataFrame, names: list[Any], edges: Iterable[Sequence[Any]] | None
) -> None:
    """Each side on a half circle of its own."""
    side = frame["side"].to_list()
    place: dict[Any, tuple[float, float]] = {}
    for which, sign in ((True, -1), (False, 1)):
        members = [name for name, s in zip(names, side, strict=True) if s is which]
        for index, name in enumerate(members):
            angle = math.pi * (index + 0.5) / len(members) - math.pi / 2
            place[name] = (sign * (0.4 + math.cos(angle)), math.sin(angle))
    colour = {name: "#c0392b" if s else "#2c3e50" for name, s in zip(names, side, strict=True)}
    for u, v, *_ in edges or ():
        (x, y), (a, b) = place[u], place[v]
        across = colour[u] != colour[v]
        panel.plot(
            [x, a],
            [y, b],
            color="#e67e22" if across else "#bbbbbb",
            linewidth=1.2 if across else 0.6,
            zorder=1,
        )
    panel.scatter(
        *zip(*place.values(), strict=True), c=[colour[name] for name in place], s=24, zorder=2
    )
    if len(names) <= 60:
        for name, (x, y) in place.items():
            panel.annotate(
                str(name),
                (x, y),
                textcoords="offset points",
                xytext=(4, 3),
                fontsize=7,
                parse_math=False,
            )
    panel.set_axis_off()
