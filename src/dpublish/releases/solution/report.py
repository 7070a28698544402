"""One HTML page about a solution: what was decided, what is guaranteed, and what no private method
could beat."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpublish.present.charts import safe_text
from dpublish.present.report import (
    guarantee,
    header,
    how_it_was_made,
    html_page,
    limitations,
    save_page,
    usage,
    verification,
)

if TYPE_CHECKING:
    from dpublish.releases.solution.release import SolutionRelease

SHOWN = 60
_WIDTH, _HEIGHT, _MARGIN = 760, 420, 30

_LEADS = {
    "min-cut": "This release puts every public vertex on one of two sides, so that few private "
    "edges run across. The edges "
    "themselves, and how many of them are cut, are not in it.",
    "k-median": "This release names sites that are close to private demand points. The points, "
    "and how far they are from the "
    "sites, are not in it.",
    "vertex-cover": "This release is an order of all public vertices. Every edge, present or not, "
    "is served by whichever of "
    "its ends comes first. Which edges are present is not in it: a list of vertices that covers "
    "them would have to say so.",
    "set-cover": "This release is an order of public sets. Every element, present or not, is "
    "served by the first set that "
    "holds it. Which elements are present is not in it: a list of sets that covers them would "
    "have to say so.",
    "public-projects": "This release names resources that are worth much to agents whose wishes "
    "are private. The wishes, and "
    "what the resources are worth, are not in it.",
}


def write_report(release: SolutionRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: SolutionRelease) -> str:
    facts = release.manifest["facts"]
    limits = [
        "The guarantee on the cost is for the worst input and has generous constants; most inputs "
        "do much better.",
        "What the solution costs on the private rows is itself private: <code>cost_of</code> "
        "works it out for someone who has "
        "the rows, and that number must not be published.",
    ]
    if "truthfulness" in facts:
        limits.append(
            f"No agent gains more than {float(facts['truthfulness']):.3g} in expected value, of a "
            f"possible 1, by misreporting."
        )
    sections = [
        header(release, _LEADS[release.problem], _tiles(release)),
        guarantee(release),
        _bounds(release),
        f"<h2>The solution</h2>{_solution(release)}",
        how_it_was_made(
            release, until=-2
        ),  # the last two say how good it is, as the page has done above
        _usage(release),
        verification(release),
        limitations(release, limits),
    ]
    return html_page(str(release.manifest["dataset"]), sections)


def _tiles(release: SolutionRelease) -> list[tuple[str, str]]:
    facts = release.manifest["facts"]
    if release.problem == "min-cut":
        one, other = release.sides
        return [
            (f"{facts['vertices']:,}", "public vertices"),
            (f"{len(one):,} / {len(other):,}", "on the two sides"),
        ]
    if release.problem == "k-median":
        return [
            (f"{facts['k']:,}", "sites chosen"),
            (f"{facts['sites']:,}", "public sites"),
            (f"{float(facts['diameter']):,.4g}", "largest distance that counts"),
        ]
    if release.problem == "public-projects":
        return [
            (f"{facts['k']:,}", "resources chosen"),
            (f"{facts['resources']:,}", "public resources"),
        ]
    if release.problem == "set-cover":
        return [
            (f"{facts['sets']:,}", "public sets"),
            (f"{facts['elements']:,}", "public elements"),
        ]
    tiles = [(f"{facts['vertices']:,}", "public vertices")]
    if release.weights is not None:
        tiles.append((f"{float(release.weights.sum()):,.4g}", "public weight of all vertices"))
    if release.size is not None:
        tiles.append(
            (
                f"{int(release.size['value']):,}",
                "noisy number of vertices, within a factor of 2 of the fewest that cover",
            )
        )
    return tiles


def _bounds(release: SolutionRelease) -> str:
    return (
        "<h2>How good it is</h2><ul>"
        f"<li>Guaranteed: {safe_text(str(release.bound['text']))}</li>"
        f"<li>No private method can do better than this in general: "
        f"{safe_text(str(release.lower_bound['text']))}</li></ul>"
    )


def _solution(release: SolutionRelease) -> str:
    if release.problem == "min-cut":
        parts = [("One side", release.sides[0]), ("The other side", release.sides[1])]
        return "".join(
            f"<h3>{title} ({len(names):,})</h3>{_names(names, ordered=False)}"
            for title, names in parts
        )
    names = release.chosen if release.problem in ("k-median", "public-projects") else release.order
    ordered = release.problem != "k-median"
    frame = release.to_frame()
    picture = (
        _map(frame["x"].to_list(), frame["y"].to_list(), names) if "x" in frame.columns else ""
    )
    note = (
        "<p>First to last; the first one that fits serves.</p>"
        if release.problem.endswith("cover")
        else ""
    )
    if release.problem == "vertex-cover" and release.weights is not None:
        weights = release.weights[frame["vertex"].to_numpy()]
        names = [
            f"{name} (weight {weight:,.4g})"
            for name, weight in zip(names[:SHOWN], weights, strict=False)
        ] + names[SHOWN:]
    return picture + note + _names(names, ordered=ordered)


def _names(names: list[Any], *, ordered: bool) -> str:
    items = "".join(f"<li>{safe_text(str(name))}</li>" for name in names[:SHOWN])
    more = (
        f"<p class='soft'>and {len(names) - SHOWN:,} more, in the file</p>"
        if len(names) > SHOWN
        else ""
    )
    tag = "ol" if ordered else "ul"
    return f"<{tag} style='columns:3'>{items}</{tag}>{more}"


def _map(xs: list[float], ys: list[float], names: list[Any]) -> str:
    """Chosen sites at their public coordinates; both axes have the same scale."""
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    scale = min((_WIDTH - 4 * _MARGIN) / (wide or 1.0), (_HEIGHT - 2 * _MARGIN) / (high or 1.0))
    left, top = (_WIDTH - wide * scale) / 2, (_HEIGHT - high * scale) / 2
    marks = []
    for x, y, name in zip(xs, ys, names, strict=True):
        across, down = left + (x - min(xs)) * scale, _HEIGHT - top - (y - min(ys)) * scale
        # names on the right half stand to the left of their dots, so that none leaves the picture
        side, anchor = (8, "start") if across < _WIDTH / 2 else (-8, "end")
        marks.append(
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="5" fill="#c0392b"/><text '
            f'x="{across + side:.1f}" y="{down + 4:.1f}" '
            f'font-size="12" text-anchor="{anchor}" '
            f'fill="currentColor">{safe_text(str(name))}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Map of the chosen sites" '
        f'width="100%">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="none" '
        f'stroke="#bbbbbb"/>{"".join(marks)}</svg>'
    )


def _usage(release: SolutionRelease) -> str:
    uses = {
        "min-cut": [
            "release.sides            # the two sides",
            "release.cost_of(edges)            # on edges of your own",
        ],
        "k-median": ["release.chosen            # the sites", "release.plot()            # a map"],
        "vertex-cover": [
            "release.order",
            "release.assign((u, v))            # which end serves an edge",
            "release.cost_of(edges)            # on edges of your own",
        ],
        "set-cover": [
            "release.order",
            "release.assign(element)            # which set serves an element",
        ],
        "public-projects": ["release.chosen            # in the order of choice"],
    }[release.problem]
    return usage(release, *uses)
