"""What README.md says, from result.json."""

from __future__ import annotations

from typing import Any

METHODS = ("median mechanism", "multiplicative weights")
HEADS = (
    "k",
    "Laplace, mean",
    *(f"{name}, mean / largest / hard" for name in METHODS),
)


def parts(results: dict[str, Any]) -> list[str]:
    """The table of the page, and where the curves cross."""
    found = results["result.json"]
    lines = [f"| {' | '.join(HEADS)} |", "| ---: | ---: | --- | --- |"]
    for place, k in enumerate(found["queries"]):
        cells = [f"{k:,}", f"{found['runs']['independent Laplace'][place]['mean_error']:#.2g}"]
        for name in METHODS:
            one = found["runs"][name][place]
            cells.append(f"{one['mean_error']:#.2g} / {one['max_error']:#.2g} / {one['hard']}")
        lines.append(f"| {' | '.join(cells)} |")
    ends = sorted(10 * round(found["crossing_k"][name] / 10) for name in METHODS)
    times = {name: found["runs"][name][-1] for name in METHODS}
    mean, worst = (
        [times[name][key] for name in METHODS] for key in ("cpu_ms_a_query", "cpu_ms_slowest")
    )
    return [
        "\n".join(lines),
        f"smaller mean error from about k = {ends[0]} to {ends[-1]} on",
        f"median mechanism {mean[0]:.2f} ms on average and {worst[0]:.0f} ms at worst",
        f"multiplicative weights {mean[1]:.2f} ms and {worst[1]:.0f} ms.",
    ]


def again() -> dict[str, float]:
    """One point of the figure by its seed: 100 queries to multiplicative weights."""
    from benchmarks.papers.roth2010_online.__main__ import METHODS as MADE, ranges, run, table

    desk = MADE[METHODS[1]](max_hard=80, max_queries=100)
    return _errors(run(desk, table(100_000, 1), ranges(100, 2), 1))


def stored(results: dict[str, Any]) -> dict[str, float]:
    """The same of the page."""
    return _errors(results["result.json"]["runs"][METHODS[1]][1])


def _errors(one: dict[str, Any]) -> dict[str, float]:
    return {key: one[key] for key in ("mean_error", "max_error", "hard")}
