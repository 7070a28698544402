"""What a report says about a solution: what was decided, what is guaranteed, and what no private
method could beat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dpublish.present.charts import site_map
from dpublish.present.report import (
    Block,
    Code,
    Drawing,
    Heading,
    Listing,
    Paragraph,
    Report,
    Section,
    Table,
    Text,
    how_it_was_made,
    usage,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpublish.releases.solution.release import SolutionRelease

SHOWN = 60

_LEADS = {
    "min-cut": "This release puts every public vertex on one of two sides, so that few private "
    "edges run across. The edges "
    "themselves are not in it, nor how many of them are cut but for noisy numbers.",
    "k-median": "This release names sites that are close to private demand points. The points "
    "are not in it, nor how far they are from the sites but for noisy numbers.",
    "vertex-cover": "This release is an order of all public vertices. Every edge, present or not, "
    "is served by whichever of "
    "its ends comes first. Which edges are present is not in it: a list of vertices that covers "
    "them would have to say so.",
    "set-cover": "This release is an order of public sets. Every element, present or not, is "
    "served by the first set that "
    "holds it. Which elements are present is not in it: a list of sets that covers them would "
    "have to say so.",
    "public-projects": "This release names resources that are worth much to agents whose wishes "
    "are private. The wishes "
    "are not in it, nor what the resources are worth but for noisy numbers.",
}


def sections(release: SolutionRelease) -> Report:
    facts = release.manifest["facts"]
    limits: list[Text] = [
        "A bound on the cost is for the worst input and has generous constants; most inputs do "
        "much better.",
        (
            "What the solution costs on the private rows is itself private: ",
            Code("cost_of"),
            " works it out for someone who has the rows, and that number must not be published.",
        ),
    ]
    if "truthfulness" in facts:
        limits.append(
            f"No agent gains more than {float(facts['truthfulness']):.3g} in expected value, of a "
            f"possible 1, by misreporting."
        )
    void = release.bound.get("says_nothing")
    held = "Guaranteed" if void is None else f"The theorem's bound, which says nothing {void}"
    return Report(
        lead=_LEADS[release.problem],
        tiles=_tiles(release),
        sections=[
            Section(
                "How good it is",
                [
                    Listing(
                        [
                            *_compared(release),
                            f"{held}: {release.bound['text']}",
                            "No private method can do better than this in general: "
                            f"{release.lower_bound['text']}",
                        ]
                    )
                ],
            ),
            Section("The solution", _solution(release)),
            # the last two sentences say how good it is, as the report has done above
            how_it_was_made(release, until=-2),
            usage(release, *_USES[release.problem]),
        ],
        limits=limits,
    )


def _compared(release: SolutionRelease) -> list[str]:
    """The solution beside the public one and the best, on the private rows."""
    said = []
    if release.problem in ("min-cut", "vertex-cover", "set-cover") and release.best_limits:
        low, high = (f"{end:,.4g}" for end in release.best_limits)
        said = [f"The cheapest solution costs between {low} and {high} on them (95%)."]
    chosen, public = release.cost_estimate, release.public_cost_estimate
    if chosen is None or public is None:
        return said
    names = release.public
    shown = ", ".join(map(str, names[:6])) + (", ..." if len(names) > 6 else "")
    verb = "is worth" if release.problem == "public-projects" else "costs"
    alone = " alone" if release.problem == "min-cut" else ""
    return [
        f"On the private rows it {verb} {chosen}. The noise was paid for.",
        f"The public solution, which needs no data ({shown}{alone}), {verb} {public} on them.",
        *said,
    ]


_COUNTED = {
    "min-cut": {"vertices": "public vertices"},
    "k-median": {"k": "sites chosen", "sites": "public sites"},
    "public-projects": {"k": "resources chosen", "resources": "public resources"},
    "set-cover": {"sets": "public sets", "elements": "public elements"},
    "vertex-cover": {"vertices": "public vertices"},
}
_SIZES = {
    "min-cut": "noisy number of edges across the smallest cut",
    "set-cover": "noisy cost of a cover in parts",
    "vertex-cover": "noisy number of vertices, within a factor of 2 of the fewest that cover",
}


def _tiles(release: SolutionRelease) -> list[tuple[str, str]]:
    facts, problem = release.manifest["facts"], release.problem
    tiles = [(f"{facts[name]:,}", said) for name, said in _COUNTED[problem].items()]
    if problem == "min-cut":
        one, other = release.sides
        tiles.append((f"{len(one):,} / {len(other):,}", "on the two sides"))
    elif problem == "k-median":
        tiles.append((f"{float(facts['diameter']):,.4g}", "largest distance that counts"))
    elif problem == "vertex-cover" and release.weights is not None:
        tiles.append((f"{float(release.weights.sum()):,.4g}", "public weight of all vertices"))
    size = release.size if problem in _SIZES else None
    if size is not None:
        said = _SIZES[problem]
        if problem == "vertex-cover" and size.get("weighted"):
            said = "noisy weight, within a factor of 2 of the lightest cover"
        value = (
            f"{int(size['value']):,}" if problem == "min-cut" else f"{float(size['value']):,.6g}"
        )
        tiles.append((value, said))
    return tiles


def _solution(release: SolutionRelease) -> list[Block]:
    if release.problem == "min-cut":
        one, other = release.sides
        return [
            Heading(f"One side ({len(one):,})"),
            *_names(one, ordered=False),
            Heading(f"The other side ({len(other):,})"),
            *_names(other, ordered=False),
        ]
    names = release.chosen if release.problem in ("k-median", "public-projects") else release.order
    frame = release.to_frame()
    blocks: list[Block] = []
    if "x" in frame.columns:
        xs, ys = frame["x"].to_list(), frame["y"].to_list()
        places = [
            (str(name), f"{x:,.6g}", f"{y:,.6g}") for name, x, y in zip(names, xs, ys, strict=True)
        ]
        table = Table(("site", "x", "y"), places, right=(1, 2))
        blocks.append(Drawing(site_map(xs, ys, names), table))
    if release.problem.endswith("cover"):
        blocks.append(Paragraph("First to last; the first one that fits serves."))
    if release.problem == "vertex-cover" and release.weights is not None:
        weights = release.weights[frame["vertex"].to_numpy()]
        names = [
            f"{name} (weight {weight:,.4g})"
            for name, weight in zip(names[:SHOWN], weights, strict=False)
        ] + names[SHOWN:]
    return [*blocks, *_names(names, ordered=release.problem != "k-median")]


def _names(names: list[Any], *, ordered: bool) -> list[Block]:
    blocks: list[Block] = [
        Listing([str(name) for name in names[:SHOWN]], ordered=ordered, columns=3)
    ]
    if len(names) > SHOWN:
        blocks.append(Paragraph(f"and {len(names) - SHOWN:,} more, in the file", "soft"))
    return blocks


_USES = {
    "min-cut": (
        "release.sides            # the two sides",
        "release.cost_of(edges)            # on edges of your own",
    ),
    "k-median": ("release.chosen            # the sites", "release.plot()            # a map"),
    "vertex-cover": (
        "release.order",
        "release.assign((u, v))            # which end serves an edge",
        "release.cost_of(edges)            # on edges of your own",
    ),
    "set-cover": (
        "release.order",
        "release.assign(element)            # which set serves an element",
    ),
    "public-projects": ("release.chosen            # in the order of choice",),
}


# Pictures of solutions: a map of sites, the two sides of a cut, the head of an order.


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
    panel.set_xlim(-0.05, max(3, -(-len(shown) // rows)))
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
