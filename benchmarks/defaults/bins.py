"""Bins that are found from the rows against even ones, in histogram and projected-histogram.

Of a histogram: how far off in rank the 5% to 95% quantiles of each column come back. Of a projected
histogram: the AUC of what is learnt from it. Over generated tables, skewed and not.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dpublish.audit.subject import _cells_of, tabulator_of
from dpublish.declare.columns import read_column
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import Tabulation
from dpublish.methods.histogram.mechanism import Histogram
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

from . import areas
from .tables import generate

SHARES: tuple[Any, ...] = (0, "1/10", "1/5", "3/10", "2/5", None)
LEVELS = np.linspace(0.05, 0.95, 19)


def numbers(rng: np.random.Generator, rows: int, columns: int, kind: str) -> list[Any]:
    """Columns between 0 and 1,000,000 that hang together."""
    common = rng.normal(size=rows)
    out = []
    for _ in range(columns):
        hidden = 0.6 * common + 0.8 * rng.normal(size=rows)
        if kind == "log-normal":
            value = np.exp(10.4 + 0.9 * hidden)
        elif kind == "pareto":
            value = 500 * np.exp(np.abs(hidden) * 1.2) ** 1.5
        elif kind == "spiked":
            value = np.where(rng.random(rows) < 0.3, 0, np.round(np.exp(8 + hidden), -2))
        else:
            value = 5e5 + 1.5e5 * hidden
        out.append(np.clip(value, 0, 1e6))
    return out


def rank_error(data: list[Any], epsilon: float, share: Any, seed: int) -> float | None:
    """The mean error in rank of the quantiles of all columns."""
    rows = len(data[0])
    keys = {"kind": "real", "lower": 0, "upper": 1_000_000}
    columns = {f"c{i}": read_column(f"c{i}", keys) for i in range(len(data))}
    schema = Schema(name="numbers", columns=columns).with_size(rows)
    method = Histogram(bin_share=share)
    plan = method.plan(schema, Cost.pure(epsilon))
    asked = method.statistic(plan)
    domain: Domain = asked.domain
    codes = [
        np.clip(np.searchsorted(axis.edges, one, side="right") - 1, 0, axis.base - 1)
        for axis, one in zip(domain.axes, data, strict=True)
    ]
    given = (
        tabulator_of(codes, domain)
        if isinstance(asked, Tabulation)
        else _cells_of(codes, domain, domain)
    )
    content = method.run(SeededNoise(seed), given, plan)
    found = content.domain or domain
    cells, counts = (np.asarray(content.tables["cells"][key]) for key in ("cell", "count"))
    weights = np.maximum(counts, 0).astype(float)
    places = np.unravel_index(cells.astype(np.int64), found.shape)
    errors = []
    for axis, one, place in zip(found.axes, data, places, strict=True):
        mass = np.bincount(place, weights, minlength=axis.base)
        below = np.append(0.0, np.cumsum(mass)) / max(mass.sum(), 1)
        values = np.interp(LEVELS, below, np.asarray(axis.edges))
        ordered = np.sort(one)
        low, high = (
            np.searchsorted(ordered, values, side=side) / rows for side in ("left", "right")
        )
        errors.append(np.maximum(0, np.maximum(low - LEVELS, LEVELS - high)).mean())
    return float(np.mean(errors))


def report(seeds: int, epsilons: tuple[float, ...] = (0.3, 1.0, 3.0)) -> None:
    names = ["default" if share is None else f"share {share}" for share in SHARES]
    print(f"{'histogram, error in rank':44}" + " ".join(f"{name:>10}" for name in names))
    grid = itertools.product((2_000, 10_000, 50_000), (1, 2, 3), epsilons)
    for rows, columns, epsilon in grid:
        for kind in ("log-normal", "pareto", "spiked", "normal"):
            errors = [[] for _ in SHARES]
            for seed in range(seeds):
                data = numbers(np.random.default_rng([seed, rows, columns]), rows, columns, kind)
                for place, share in enumerate(SHARES):
                    errors[place].append(rank_error(data, epsilon, share, seed))
            head = f"{rows:7,} x {columns}, {kind}, epsilon {epsilon:g}"
            print(f"{head:44}" + " ".join(f"{np.mean(one):10.4f}" for one in errors), flush=True)
    print(f"{'projected-histogram, AUC':44}" + " ".join(f"{name:>10}" for name in names))
    shapes = itertools.product((3_000, 10_000, 40_000), (4, 12), (0.0, 1.0), epsilons)
    for rows, columns, skew, epsilon in shapes:
        found = [[] for _ in SHARES]
        for seed in range(seeds):
            table = generate(
                "skewed",
                [seed, rows, columns],  # type: ignore[arg-type]
                rows=rows,
                levels=(2, 3, 5),
                numbers=columns,
                informative=3 + columns // 2,
                strength=2,
                skew=skew,
            )
            for place, share in enumerate(SHARES):
                found[place].append(areas.projected(table, seed, epsilon, bin_share=share))
        head = f"{rows:7,} x {columns + 3}, skew {skew:g}, epsilon {epsilon:g}"
        print(f"{head:44}" + " ".join(f"{np.mean(one):10.4f}" for one in found), flush=True)
