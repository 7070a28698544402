"""Contestants for range queries on histograms, all with the library's exact noise, under replace-one neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpublish.mechanisms.base import SparseCounts
from dpublish.mechanisms.queries.interval_tree import CROWDED, best_hierarchy
from dpublish.mechanisms.queries.trees import BoxCounts, Calibration, binary_search, equal_cells, priv_tree
from dpublish.noise.source import SeededNoise
from dpublish.public.grid import Boxes, Grid, TreeShape
from dpublish.public.hierarchy import Hierarchy

SENSITIVITY = Fraction(2)
SHARE = Fraction(1, 8)
ACCURACY = Fraction(1, 10)


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
        shape = TreeShape.over([Grid(f"x{i}", "integer", Fraction(0), Fraction(1), s) for i, s in enumerate(histogram.shape)])
        where = np.nonzero(histogram)
        codes = shape.codes([axis.astype(np.int64) for axis in where])
        order = np.argsort(codes)
        rng = np.random.default_rng(seed)
        ends = np.stack([np.sort(rng.integers(0, s, (queries, 2)), axis=1) for s in histogram.shape], axis=1)
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
        return cls(shape, counts, int(histogram.sum()), ends[:, :, 0].astype(float), ends[:, :, 1].astype(float), truth)


def answers(task: Task, boxes: Boxes, estimates: np.ndarray) -> np.ndarray:
    if len(task.shape.grids) == 1:
        starts, ends = task.shape.corners(boxes)
        edges = np.append(starts[0], ends[0][-1]).astype(float)
        totals = np.concatenate([[0.0], np.cumsum(estimates)])
        return np.interp(task.high[:, 0], edges, totals) - np.interp(task.low[:, 0], edges, totals)
    step = max(1, (1 << 22) // len(boxes))
    parts = [
        task.shape.shares(boxes, task.low[i : i + step], task.high[i : i + step]) @ estimates
        for i in range(0, len(task.low), step)
    ]
    return np.concatenate(parts)


def measured(noise: SeededNoise, task: Task, boxes: Boxes, hierarchy: Hierarchy, epsilon: Fraction) -> np.ndarray:
    counts = hierarchy.sums(BoxCounts(task.shape, task.points).of(boxes))
    noisy = noise.laplace(counts, sensitivity=SENSITIVITY * hierarchy.height, epsilon=epsilon)
    return answers(task, boxes, hierarchy.estimates(noisy))


def cells_of(task: Task) -> Boxes:
    return equal_cells(task.shape, task.shape.depth)


def flat(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    boxes = cells_of(task)
    return measured(noise, task, boxes, Hierarchy(len(boxes), len(boxes), 1), epsilon)


def hierarchical(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    """Hay et al. (2010): binary groups (quadtree groups in two dimensions), consistent by least squares."""
    boxes = cells_of(task)
    fanout = task.shape.fanout
    return measured(noise, task, boxes, Hierarchy(len(boxes), fanout, math.ceil(math.log(len(boxes), fanout) - 1e-9)), epsilon)


def dyadic(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    boxes = cells_of(task)
    return measured(noise, task, boxes, best_hierarchy(task.shape, boxes)[0], epsilon)


def privtree(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    calibration = Calibration.of(epsilon * SHARE, fanout=task.shape.fanout, rows=1, replace=True)
    boxes = priv_tree(noise, BoxCounts(task.shape, task.points), task.shape, calibration)
    return measured(noise, task, boxes, best_hierarchy(task.shape, boxes)[0], epsilon * (1 - SHARE))


def thesis(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    queries = math.ceil(4 * task.shape.depth / ACCURACY)
    boxes = binary_search(
        noise,
        BoxCounts(task.shape, task.points),
        task.shape,
        queries=queries,
        split_above=math.ceil(ACCURACY / 4 * task.rows),
        scale=queries / (epsilon * SHARE),
        sensitivity=SENSITIVITY,
    )
    return measured(noise, task, boxes, best_hierarchy(task.shape, boxes)[0], epsilon * (1 - SHARE))


def auto(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    cells = math.prod(grid.positions for grid in task.shape.grids)
    return (dyadic if task.rows * epsilon >= CROWDED * cells else privtree)(noise, task, epsilon)


def per_query(noise: SeededNoise, task: Task, epsilon: Fraction) -> np.ndarray:
    """Every query on its own: k queries of sensitivity 1 share epsilon."""
    return noise.laplace(task.truth, sensitivity=Fraction(len(task.truth)), epsilon=epsilon)


CONTESTANTS: dict[str, Callable[[SeededNoise, Task, Fraction], np.ndarray]] = {
    "privtree": privtree,
    "auto": auto,
    "dyadic": dyadic,
    "binary search (thesis)": thesis,
    "hierarchical (Hay)": hierarchical,
    "flat histogram": flat,
    "Laplace per query": per_query,
}


def scaled_error(name: str, task: Task, epsilon: Fraction, seeds: int) -> float:
    """Mean absolute error a query, as a share of the rows, over several runs."""
    runs = [np.abs(CONTESTANTS[name](SeededNoise(seed), task, epsilon) - task.truth).mean() for seed in range(seeds)]
    return float(np.mean(runs)) / task.rows
