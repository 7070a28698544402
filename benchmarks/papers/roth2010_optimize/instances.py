"""Readers of the instances: OR-Library archives, edge lists and baskets, and the best values known
for them."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpublish.methods.solvers.inputs import Edges, Lists, edges_of, lists_of
from dpublish.methods.solvers.k_median.demand import far_places
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.k_median.swaps import swap_search


def unpacked(archive: Path, folder: Path) -> dict[str, Path]:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return {path.stem.lower(): path for path in folder.rglob("*") if path.is_file()}


def optima(files: dict[str, Path], name: str) -> dict[str, float]:
    """The optimum of every instance, from a CSV of names and numbers."""
    found = {}
    for row in csv.reader(io.StringIO(files[name].read_text())):
        numbers = [cell for cell in row if cell.replace(".", "").isdigit()]
        if row and numbers:
            found[row[0].lower().removesuffix(".txt")] = float(numbers[-1])
    return found


def graph(path: Path) -> tuple[Edges, int]:
    """An edge list with vertices renumbered from 0."""
    with gzip.open(path, "rt") as file:
        pairs = np.array(
            [line.split()[:2] for line in file if not line.startswith("#")], dtype=np.int64
        )
    names, renumbered = np.unique(pairs, return_inverse=True)
    return edges_of(renumbered.reshape(-1, 2)), len(names)


def largest_component(edges: Edges, count: int) -> tuple[Edges, int]:
    """The largest connected part of a graph: any other would have a cut without an edge."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import connected_components

    matrix = csr_matrix((np.ones(len(edges)), (edges.heads, edges.tails)), shape=(count, count))
    part = connected_components(matrix, directed=False)[1]
    inside = part == np.bincount(part).argmax()
    number = np.cumsum(inside) - 1
    kept = inside[edges.heads]
    return edges_of(np.column_stack([number[edges.heads[kept]], number[edges.tails[kept]]])), int(
        inside.sum()
    )


def baskets(path: Path) -> tuple[Lists, int]:
    with gzip.open(path, "rt") as file:
        rows = [[int(item) for item in line.split()] for line in file]
    return lists_of(rows), 1 + max(max(row) for row in rows if row)


def best_found(metric: Metric, k: int, demand: NDArray[np.int64], starts: int = 3) -> float:
    """Cost of the best of a few searches without noise, each of which takes the best swap until
    none improves."""
    draw = np.random.default_rng(0)
    first = [
        far_places(metric, k),
        *(draw.permutation(metric.size)[:k] for _ in range(starts - 1)),
    ]
    costs = []
    for sites in first:
        search = swap_search(metric, np.asarray(sites, dtype=np.int64), demand)
        while True:
            swaps, outside = search.swap_costs()
            place = int(swaps.argmin())
            if swaps.flat[place] >= search.cost:
                break
            search.swap(place // len(outside), int(outside[place % len(outside)]))
        costs.append(search.cost)
    return float(min(costs)) * metric.unit
