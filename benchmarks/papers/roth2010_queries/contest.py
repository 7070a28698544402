"""Contestants for range queries on histograms, all with the library's exact noise, under
replace-one neighbours.

Ours are run as the product runs them: planned from a schema, run, and estimated by the release. The
others are written out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl

from dpublish.curator.seal import build_manifest
from dpublish.declare.grid import Boxes, Grid, TreeShape
from dpublish.declare.schema import Schema
from dpublish.ledger.base import Receipt
from dpublish.methods.base import SparseCounts
from dpublish.methods.interval_tree.mechanism import IntervalTree
from dpublish.methods.interval_tree.pilot import BoxCounts, equal_cells
from dpublish.models.hierarchical_counts import Hierarchy
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.base import make_release

SENSITIVITY = Fraction(2)
RECEIPT = Receipt(
    ledger_id="none",
    name="none",
    seq=1,
    key="none",
    head_hash="0" * 64,
    charged=Cost.pure(1),
    cost=Cost.pure(1),
    fresh=True,
    created="2020-01-01T00:00:00Z",
)


@dataclass(frozen=True)
class Task:
    """A histogram, ranges of it, and the truth."""

    shape: TreeShape
    points: SparseCounts
    rows: int
    low: np.ndarray
    high: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, histogram: np.ndarray, queries: int, seed: int) -> Task:
        shape = TreeShape.over(
            [
                Grid(f"x{i}", "integer", Fraction(0), Fraction(1), s)
                for i, s in enumerate(histogram.shape)
            ]
        )
        where = np.nonzero(histogram)
        codes = shape.codes([axis.astype(np.int64) for axis in where])
        order = np.argsort(codes)
        rng = np.random.default_rng(seed)
        ends = np.stack(
            [np.sort(rng.integers(0, s, (queries, 2)), axis=1) for s in histogram.shape], axis=1
        )
        ends[:, :, 1] += 1
        sums = np.zeros([s + 1 for s in histogram.shape], dtype=np.int64)
        inner = histogram.astype(np.int64)
        for axis in range(histogram.ndim):
            inner = np.cumsum(inner, axis=axis)
        sums[tuple(slice(1, None) for _ in histogram.shape)] = inner
        truth = np.zeros(queries, dtype=np.int64)
        for corner in np.ndindex(*(2,) * histogram.ndim):
            sign = (-1) ** (histogram.ndim - sum(corner))
            truth += sign * sums[tuple(ends[:, axis, side] for axis, side in enumerate(corner))]
        counts = SparseCounts(codes[order], histogram[where][order].astype(np.int64))
        return cls(
            shape,
            counts,
            int(histogram.sum()),
            ends[:, :, 0].astype(float),
            ends[:, :, 1].astype(float),
            truth,
        )

    def schema(self) -> Schema:
        columns = "".join(
            f'[columns.{grid.name}]\nkind = "integer"\nlower = 0\nupper = {grid.positions - 1}\n'
            for grid in self.shape.grids
        )
        return Schema.from_toml(f'[dataset]\nname = "contest"\nsize = {self.rows}\n{columns}')


Answers = Callable[[SeededNoise], np.ndarray]


def answers(task: Task, boxes: Boxes, estimates: np.ndarray) -> np.ndarray:
    if len(task.shape.grids) == 1:
        starts, ends = task.shape.corners(boxes)
        edges = np.append(starts[0], ends[0][-1]).astype(float)
        totals = np.concatenate([[0.0], np.cumsum(estimates)])
        return np.interp(task.high[:, 0], edges, totals) - np.interp(task.low[:, 0], edges, totals)
    if len(boxes) == math.prod(grid.positions for grid in task.shape.grids):
        return _from_cells(task, boxes, estimates)
    step = max(1, (1 << 22) // len(boxes))
    parts = [
        task.shape.shares(boxes, task.low[i : i + step], task.high[i : i + step]) @ estimates
        for i in range(0, len(task.low), step)
    ]
    return np.concatenate(parts)


def _from_cells(task: Task, boxes: Boxes, estimates: np.ndarray) -> np.ndarray:
    """Single positions of two columns: sums over rectangles by inclusion and exclusion."""
    starts, _ = task.shape.corners(boxes)
    table = np.zeros([grid.positions + 1 for grid in task.shape.grids])
    table[starts[0] + 1, starts[1] + 1] = estimates
    table = table.cumsum(axis=0).cumsum(axis=1)
    (a, c), (b, d) = (ends.astype(int).T for ends in (task.low, task.high))
    return np.asarray(table[b, d] - table[a, d] - table[b, c] + table[a, c])


def ours(task: Task, epsilon: Fraction, *, as_counted: bool = False, **settings: Any) -> Answers:
    """Our releases; `as_counted` leaves our estimation out and adds up noisy counts, made
    consistent by least squares."""
    mechanism = IntervalTree(**settings)
    plan = mechanism.plan(task.schema(), Cost.pure(epsilon))

    def run(noise: SeededNoise) -> np.ndarray:
        content = mechanism.run(noise, task.points, plan)
        frames = {name: pl.DataFrame(dict(part)) for name, part in content.tables.items()}
        release: Any = make_release(
            build_manifest(plan, RECEIPT, content, publishable=False), frames
        )
        if not as_counted:
            return answers(task, release.boxes, release.counts)
        noisy = release.tables["counts"]["count"].to_numpy()
        return answers(
            task,
            release.boxes,
            replace(release.hierarchy, fixed=False).estimates(noisy)[: len(release.boxes)],
        )

    return run


def measured(task: Task, hierarchy: Hierarchy, boxes: Boxes, epsilon: Fraction) -> Answers:
    counts = hierarchy.sums(BoxCounts(task.shape, task.points).of(boxes))

    def run(noise: SeededNoise) -> np.ndarray:
        noisy = noise.laplace(counts, sensitivity=SENSITIVITY * hierarchy.height, epsilon=epsilon)
        return answers(task, boxes, hierarchy.estimates(noisy))

    return run


def flat(task: Task, epsilon: Fraction) -> Answers:
    boxes = equal_cells(task.shape, task.shape.depth)
    return measured(task, Hierarchy(len(boxes), len(boxes), 1), boxes, epsilon)


def hierarchical(task: Task, epsilon: Fraction) -> Answers:
    """Hay et al. (2010): binary groups (quadtree groups in two dimensions), consistent by least
    squares."""
    boxes = equal_cells(task.shape, task.shape.depth)
    fanout = task.shape.fanout
    height = math.ceil(math.log(len(boxes), fanout) - 1e-9)
    return measured(task, Hierarchy(len(boxes), fanout, height), boxes, epsilon)


def per_query(task: Task, epsilon: Fraction) -> Answers:
    """Every query on its own: k queries of sensitivity 1 share epsilon."""
    return lambda noise: noise.laplace(
        task.truth, sensitivity=Fraction(len(task.truth)), epsilon=epsilon
    )


DEFAULT = "interval tree (default)"
CONTESTANTS: dict[str, Callable[[Task, Fraction], Answers]] = {
    DEFAULT: lambda task, epsilon: ours(task, epsilon),
    "privtree, no look": lambda task, epsilon: ours(task, epsilon, look_share=0),
    "dyadic": lambda task, epsilon: ours(task, epsilon, tree="dyadic"),
    "binary search (thesis)": lambda task, epsilon: ours(
        task, epsilon, tree="binary-search", as_counted=True
    ),
    "binary search, our estimates": lambda task, epsilon: ours(task, epsilon, tree="binary-search"),
    "hierarchical (Hay)": hierarchical,
    "flat histogram": flat,
    "Laplace per query": per_query,
}


OUTSIDE = ("hierarchical (Hay)", "flat histogram", "Laplace per query")
FREE_OF_DATA = ("dyadic", "hierarchical (Hay)", "flat histogram", "Laplace per query")
"""Single positions, or queries, with noise: the error is the noise alone, the same for every data
set."""


@dataclass(frozen=True)
class Errors:
    """Mean absolute error a query in rows, run by run. Runs matter more than queries: the noise of
    one moves all its ranges."""

    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.runs))

    @property
    def standard_error(self) -> float:
        return (
            float(np.std(self.runs, ddof=1) / math.sqrt(len(self.runs)))
            if len(self.runs) > 1
            else 0.0
        )


def errors(name: str, task: Task, epsilon: Fraction, seeds: int, first: int = 0) -> Errors:
    """Every contestant has seeds of its own, so that no two share their luck."""
    prepared = CONTESTANTS[name](task, epsilon)
    first += 1000 * list(CONTESTANTS).index(name)
    return Errors(
        tuple(
            float(np.abs(prepared(SeededNoise(first + seed)) - task.truth).mean())
            for seed in range(seeds)
        )
    )
