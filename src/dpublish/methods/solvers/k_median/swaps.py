"""The swaps of a k-median search: what each would cost, kept up to date from one swap to the next.

With near and second the distances of a demand point to its nearest and next centre, opening y and
closing x costs
    sum near  +  sum over points of x (second - near)  -  added[y]  -  kept[x, y]
where added[y] sums (near - d(p, y))+ over all points, and kept[x, y] sums (second - max(d(p, y),
near))+ over points of x. A swap changes near, second or the nearest centre of few points; only
their shares are replaced.

With a matrix of distances all of this is kept for every place y. Places with coordinates are put
into groups that lie close together: only the least and the most that a member of a group can save
are kept, and a swap is worked out exactly when its cost is asked for. A choice asks for the few
that can win (`Noise.choose_bounded`).
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.methods.solvers.inputs import starts_of
from dpublish.methods.solvers.k_median.kernels import (
    BLOCK,
    Singles,
    account_groups,
    account_matrix,
    savings_of,
    two_nearest,
)
from dpublish.methods.solvers.k_median.metric import MatrixMetric, Metric, PointMetric
from dpublish.noise.base import BoundedScores, Noise

GROUPS = 1024
"""About how many groups places are put into. It changes how long a choice takes, not what it
chooses."""

_THREADS = 2
_WORTH_THREADS = 1 << 20


def swap_search(metric: Metric, sites: Ints, demand: Ints) -> SwapSearch:
    if isinstance(metric, PointMetric):
        return PointSearch(metric, sites, demand)
    assert isinstance(metric, MatrixMetric)
    return MatrixSearch(metric, sites, demand)


class SwapSearch(abc.ABC):
    """The current centres, and for every place with demand its nearest centre and the distances to
    the nearest two."""

    def __init__(self, metric: Metric, sites: Ints, demand: Ints, places: Ints) -> None:
        self._metric = metric
        self.sites = sites.copy()
        self._places = places
        self._weights = demand[places].astype(np.float64)
        count = len(places)
        self._reach = np.array(
            [self._distances(int(site)) for site in sites], dtype=np.float32
        ).reshape(len(sites), count)
        zero = np.zeros(count, dtype=np.float32)
        self._state: tuple[Ints, Singles, Singles] = (
            np.zeros(count, np.int64),
            zero,
            zero.copy(),
        )

    @property
    def cost(self) -> int:
        # no inner product: the linear-algebra library would start threads for it, which cost more
        # than the sum
        return int((self._weights * self._state[1]).sum())

    @abc.abstractmethod
    def draw(self, noise: Noise, *, sensitivity: Fraction, epsilon: Fraction) -> tuple[int, int]:
        """A private choice of (row of the centre to close, place to open)."""

    @abc.abstractmethod
    def swap_costs(self) -> tuple[Ints, Ints]:
        """Costs of closing sites[c] and opening y, as rows c and columns y; and the places that the
        columns stand for."""

    def swap(self, row: int, site: int) -> None:
        self.sites[row] = site
        self._reach[row] = self._distances(site)
        self._refresh()

    def _distances(self, site: int) -> Singles:
        return self._metric.columns(self._places, site)

    @abc.abstractmethod
    def _account(self, changed: Ints, old: Any, new: Any) -> None:
        """Replace the shares of these places in what is kept up to date."""

    def _closing(self) -> Floats:
        """The cost of every swap before the opened place saves anything."""
        first, near, second = self._state
        farther = self._weights * (second.astype(np.float64) - near.astype(np.float64))
        more = np.bincount(first, weights=farther, minlength=len(self.sites))
        return np.asarray(more + float(self.cost), dtype=np.float64)

    def _refresh(self) -> None:
        count = len(self._places)
        new = (np.empty(count, np.int64), np.empty(count, np.float32), np.empty(count, np.float32))
        two_nearest(self._reach, *new)
        # with one centre there is no second: closing it leaves a point to the opened site alone, at
        # most the diameter away
        new[2][np.isinf(new[2])] = self._metric.diameter
        old = self._state
        changed = np.flatnonzero(
            (old[0] != new[0]) | (old[1] != new[1]) | (old[2] != new[2])
        ).astype(np.int64)
        self._state = new
        self._account(changed, old, new)


class MatrixSearch(SwapSearch):
    """All swaps at once, for places whose distances stand in a matrix."""

    def __init__(self, metric: MatrixMetric, sites: Ints, demand: Ints) -> None:
        super().__init__(metric, sites, demand, np.flatnonzero(demand).astype(np.int64))
        self._matrix = metric.values
        self._added = np.zeros(metric.size)
        self._kept = np.zeros((len(sites), metric.size))
        self._refresh()

    def swap_costs(self) -> tuple[Ints, Ints]:
        costs = self._closing()[:, None] - self._added[None, :] - self._kept
        outside = np.setdiff1d(np.arange(self._metric.size), self.sites)
        return np.ascontiguousarray(costs[:, outside]).astype(np.int64), outside

    def draw(self, noise: Noise, *, sensitivity: Fraction, epsilon: Fraction) -> tuple[int, int]:
        costs, outside = self.swap_costs()
        place = noise.choose(
            -costs.ravel(), sensitivity=sensitivity, epsilon=epsilon, monotone=True, label="swap"
        )
        return place // len(outside), int(outside[place % len(outside)])

    def _account(self, changed: Ints, old: Any, new: Any) -> None:

        kernel: Any = account_matrix

        def run(piece: tuple[int, int]) -> None:
            kernel(
                self._matrix,
                self._places,
                self._weights,
                changed,
                *old,
                *new,
                *piece,
                self._added,
                self._kept,
            )

        in_pieces(run, self._metric.size, len(changed) * self._metric.size)


class PointSearch(SwapSearch):
    """Bounds on what the members of a group save, and exact savings of a place on demand."""

    def __init__(
        self, metric: PointMetric, sites: Ints, demand: Ints, *, groups: int = GROUPS
    ) -> None:
        self._points = metric
        order, self._starts = near_groups(metric.points, groups)
        self._order = order  # places, group by group
        owners = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
        self._group_of = owners[np.argsort(order)]
        # places with demand stand in the same order, so that 64 in a row lie close together
        places = order[demand[order] > 0]
        self._at = np.ascontiguousarray(metric.points[:, places])
        self._blocks = block_bounds(self._at)
        middles, self._width = group_middles(metric, order, self._starts)
        self._middles = np.ascontiguousarray(metric.points[:, middles])
        self._middle_blocks = block_bounds(self._middles)
        shape = len(self._width)
        self._least = np.zeros(shape), np.zeros((len(sites), shape))
        self._most = np.zeros(shape), np.zeros((len(sites), shape))
        super().__init__(metric, sites, demand, places)
        self._refresh()

    def swap_costs(self) -> tuple[Ints, Ints]:
        outside = np.setdiff1d(np.arange(self._metric.size), self.sites)
        return (self._closing()[:, None] - self._savings(outside).T).astype(np.int64), outside

    def draw(self, noise: Noise, *, sensitivity: Fraction, epsilon: Fraction) -> tuple[int, int]:
        scores = SwapScores(self)
        place = noise.choose_bounded(
            scores, sensitivity=sensitivity, epsilon=epsilon, monotone=True, label="swap"
        )
        row, column = divmod(place, len(scores.outside))
        return row, int(scores.outside[column])

    def bounds(self) -> tuple[Ints, Ints]:
        """Least and most cost of closing sites[c] and opening a member of group g, as rows c and
        columns g."""
        closing = self._closing()[:, None]
        low, high = (closing - added[None, :] - kept for added, kept in (self._most, self._least))
        return low.astype(np.int64), high.astype(np.int64)

    def outside(self) -> tuple[Ints, Ints]:
        """The places that are no centres, group by group, and where each group starts among
        them."""
        held = np.bincount(self._group_of[self.sites], minlength=len(self._width))
        starts = self._starts - np.concatenate([[0], np.cumsum(held)])
        return self._order[~np.isin(self._order, self.sites)], starts

    def _distances(self, site: int) -> Singles:
        return self._points.between(self._at, site)

    def _savings(self, opened: Ints) -> Floats:
        """What opening each place saves, for every centre closed in turn: rows are places, columns
        centres."""
        metric, (first, near, second) = self._points, self._state
        farthest = np.zeros(len(self._blocks[1]), dtype=np.float32)
        if len(second):
            farthest[:] = np.maximum.reduceat(second, np.arange(0, len(second), BLOCK))
        saved = np.empty((len(opened), len(self.sites)))
        for row, place in enumerate(opened.tolist()):
            x, y, z = metric.points[:, place]
            savings_of(
                self._at,
                *self._blocks,
                farthest,
                metric.sphere,
                metric.scale,
                float(metric.diameter),
                self._weights,
                first,
                near,
                second,
                x,
                y,
                z,
                saved[row],
            )
        return saved

    def _account(self, changed: Ints, old: Any, new: Any) -> None:
        metric = self._points

        kernel: Any = account_groups

        def run(piece: tuple[int, int]) -> None:
            kernel(
                self._middles,
                *self._middle_blocks,
                metric.sphere,
                metric.scale,
                float(metric.diameter),
                self._width,
                metric.edge,
                self._at,
                self._weights,
                changed,
                *old,
                *new,
                *piece,
                *self._least,
                *self._most,
            )

        in_pieces(run, len(self._middle_blocks[1]), len(changed) * len(self._width))


class SwapScores(BoundedScores):
    """Minus the cost of every swap: rows of closed centres, each with all places outside, group by
    group."""

    def __init__(self, search: PointSearch) -> None:
        self._search = search
        self.outside, starts = search.outside()
        least, most = search.bounds()
        rows = len(least)
        # a group of the choice is a group of places with one closed centre
        self.starts = np.concatenate(
            [
                np.add.outer(np.arange(rows) * len(self.outside), starts[:-1]).ravel(),
                [rows * len(self.outside)],
            ]
        )
        self.low, self.high = -most.ravel(), -least.ravel()
        self._closing = search._closing()
        self._saved: dict[int, Floats] = {}

    def exact(self, candidates: Ints) -> Ints:
        row, column = np.divmod(candidates, len(self.outside))
        fresh = np.array(
            [c for c in np.unique(column).tolist() if c not in self._saved], dtype=np.int64
        )
        self._saved.update(
            zip(fresh.tolist(), self._search._savings(self.outside[fresh]), strict=True)
        )
        saved = [self._saved[c][r] for r, c in zip(row.tolist(), column.tolist(), strict=True)]
        return (np.array(saved) - self._closing[row]).astype(np.int64)


def in_pieces(run: Callable[[tuple[int, int]], None], length: int, work: int) -> None:
    """Call `run` on ranges that cover 0 to `length`, in threads when the work is worth it."""
    count = _THREADS if work > _WORTH_THREADS else 1
    pieces = list(itertools.pairwise(np.linspace(0, length, count + 1).astype(int).tolist()))
    if len(pieces) == 1:
        run(pieces[0])
        return
    with ThreadPoolExecutor(len(pieces)) as threads:
        list(threads.map(run, pieces))


def near_groups(points: Singles, count: int) -> tuple[Ints, Ints]:
    """Places in an order in which groups of near ones stand together, and where each group starts.

    The places are halved along their widest coordinate until there are at least `count` groups or
    single places.
    """
    size = points.shape[1]
    parts = [np.arange(size, dtype=np.int64)]
    while len(parts) < min(count, size):
        halves = []
        for part in parts:
            if len(part) == 1:
                halves.append(part)
                continue
            here = points[:, part]
            axis = int(np.argmax(here.max(axis=1) - here.min(axis=1)))
            ranked = part[np.argsort(here[axis], kind="stable")]
            halves += [ranked[: len(ranked) // 2], ranked[len(ranked) // 2 :]]
        parts = halves
    return np.concatenate(parts), starts_of([len(part) for part in parts])


def group_middles(metric: PointMetric, order: Ints, starts: Ints) -> tuple[Ints, Singles]:
    """The member of each group that is nearest to its mean, and how far from it the others are at
    most."""
    middles, width = [], []
    for low, high in itertools.pairwise(starts.tolist()):
        members = order[low:high]
        here = metric.points[:, members]
        middle = int(
            members[np.argmin(((here - here.mean(axis=1, keepdims=True)) ** 2).sum(axis=0))]
        )
        middles.append(middle)
        width.append(float(metric.columns(members, middle).max()))
    return np.array(middles, dtype=np.int64), np.array(width, dtype=np.float32)


def block_bounds(points: Singles) -> tuple[Singles, Singles]:
    """Middle and radius of every 64 points in a row, the radius enlarged for rounding."""
    blocks = -(-points.shape[1] // BLOCK)
    middle, radius = np.zeros((3, blocks), dtype=np.float32), np.zeros(blocks, dtype=np.float32)
    widest = float(np.abs(points).max(initial=0.0)) or 1.0
    for block in range(blocks):
        part = points[:, block * BLOCK : (block + 1) * BLOCK]
        middle[:, block] = part.mean(axis=1)
        radius[block] = (
            np.linalg.norm(part - middle[:, block : block + 1], axis=0).max() * 1.00001
            + 1e-6 * widest
        )
    return middle, radius
