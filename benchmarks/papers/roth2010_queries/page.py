"""What README.md says, from the four files of results."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.pages import table

HEADS = (
    "n, epsilon",
    "within 10% of the best",
    "worst to best",
    "worst to others",
    "worst to thesis search",
    "worst to search with our estimates",
)
RATIOS = ("worst_to_best", "worst_to_outside", "worst_to_search", "worst_to_helped_search")


def parts(results: dict[str, Any]) -> list[str]:
    """The tables of the page, and the figures of its sentences."""
    ranges, boxes = (results[f"{name}.json"] for name in ("ranges", "boxes"))
    many = {one["queries"]: one for one in results["queries.json"]["results"]}
    ours = {k: f"{one['multiplicative weights']:.3f} n" for k, one in many.items()}
    held, cases = _sums(ranges, 10_000)
    square_held, squares = _sums(boxes, 0)
    better = sum(one["better_than_search"] for one in ranges["summary"])
    helped = sum(one["better_than_helped_search"] for one in ranges["summary"])
    near = [
        one["error"] for one in results["halfspaces.json"]["results"]
        if (one["columns"], one["k"]) == (2, 3)
    ]  # fmt: skip
    return [
        _ratios(ranges),
        _ratios(boxes),
        f"within 10% of the best in {held} of {cases} cases",
        f"the thesis's binary search on {better} of {len(ranges['cases'])}.",
        f"the search is still behind on {helped} of {len(ranges['cases'])}",
        f"within 10% of the best on {square_held} of {squares} cases",
        f"cross it at about k = {results['queries.json']['crossing_k']:.0f}",
        f"{ours[1000]} at 1,000 queries, {ours[10_000]} at 10,000 and {ours[100_000]} at 100,000, "
        f"where independent noise errs by {many[100_000]['independent Laplace']:.0f} n",
        f"the error is {min(near):.1%} to {max(near):.1%} of the rows",
    ]


def _sums(found: dict[str, Any], least: float) -> tuple[int, int]:
    lines = [
        one for one in found["summary"]
        if one["n"] * _number(one["epsilon"]) >= least - 1e-6
    ]  # fmt: skip
    return (
        sum(one["within_10_percent_of_best"] for one in lines),
        sum(one["data_sets"] for one in lines),
    )


def _number(text: str) -> float:
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def _ratios(found: dict[str, Any]) -> str:
    rows = [
        [
            f"{one['n']:,}, {one['epsilon']}",
            f"{one['within_10_percent_of_best']} of {one['data_sets']}",
            *(f"{one[key]:.2f}" for key in RATIOS),
        ]
        for one in found["summary"]
    ]
    return table(HEADS, rows)


def again() -> dict[str, float]:
    """The halfspaces of two columns, by their seeds."""
    from benchmarks.papers.roth2010_queries.__main__ import halfspaces

    return _errors(halfspaces(2, (2,)))


def stored(results: dict[str, Any]) -> dict[str, float]:
    """The same of the page."""
    return _errors(results["halfspaces.json"])


def _errors(found: dict[str, Any]) -> dict[str, float]:
    return {
        f"k = {one['k']}, distance {one['distance']}": one["error"]
        for one in found["results"]
        if one["columns"] == 2
    }
