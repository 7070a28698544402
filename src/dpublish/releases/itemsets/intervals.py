"""Error bars for questions about a partitioned set-valued release.

Every published number is the noisy count of a cell: one combination of children of a node that some
partition was split by. For a question, a cell is decided when all records in it satisfy the
question, or none does. The first decided cells on the way from the root are disjoint. The scores of
those that are true add up to at most the answer, on average, and the scores of those that are false
to at most what is left of the total. `low` comes from the first sum, `high` from the second.

Where every cell is published, the sums are unbiased, and together they are a second measurement of
the total. What the two measurements differ by is divided as their noise allows, which gives every
sum the least variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import integer_rows
from dpublish.models.noisy_counts import Suppression, laplace_cumulants, spread_quantile
from dpublish.releases.histogram.intervals import Total
from dpublish.releases.itemsets.mining import Node, Truths, atoms_of, truth_of

MAX_OPEN_BITS = 10
MAX_KNOWN = 256
MAX_GROWTH = 1.5
"""By how much the parts of a split may grow, so that they add up to the whole."""


@dataclass(frozen=True, eq=False)
class Tree:
    """The public taxonomy: `child` of node u are at `offset[u]:offset[u + 1]`, leaves as positions,
    nodes as ~number."""

    start: NDArray[np.int32]
    stop: NDArray[np.int32]
    offset: NDArray[np.int64]
    child: NDArray[np.int32]

    def path(self, item: int) -> list[tuple[int, int, bool]]:
        """(node, which child, whether that child is the item itself) from the root down to the
        item."""
        out, node = [], 0
        while True:
            members = self.child[self.offset[node] : self.offset[node + 1]]
            begins = np.where(members >= 0, members, self.start[~np.minimum(members, -1)])
            # children lie side by side, in order
            place = int(np.searchsorted(begins, item, side="right")) - 1
            leaf = bool(members[place] >= 0)
            out.append((node, place, leaf))
            if leaf:
                return out
            node = int(~members[place])


@dataclass(frozen=True, eq=False)
class Cells:
    """Published cells: partitions (row 0, the root, is no cell) and itemsets. `parent` is the
    partition that was split."""

    parent: NDArray[np.int64]
    mask: NDArray[np.int32]
    count: NDArray[np.int64]
    law: NDArray[np.int32]


class Intervals:
    """Answers questions about one release."""

    def __init__(
        self,
        tree: Tree,
        partitions: Cells,
        following: tuple[NDArray[np.int32], NDArray[np.int32]],
        itemsets: Cells,
        laws: Sequence[Suppression | None],
        scales: Sequence[Fraction],
        total: Total,
    ) -> None:
        self._tree, self._partitions, self._itemsets, self._total = (
            tree,
            partitions,
            itemsets,
            total,
        )
        self._next, self._next_law = following
        self._laws, self._scales = laws, scales
        self._cumulants = [self._spread(cells) for cells in (partitions, itemsets)]
        self._generations = generations(partitions.parent)
        self._states = lru_cache(maxsize=MAX_KNOWN)(self._find_states)

    def consistent_weights(self) -> Floats:
        """See the function of that name."""
        return consistent_weights(
            self._partitions,
            self._itemsets,
            self._generations,
            float(self._total.value) if self._total.known else None,
        )

    def settled_counts(self) -> Floats:
        """The counts of the itemsets of a release that leaves none out, each with its due part of
        what the total has more."""
        counts, spread = self._itemsets.count.astype(np.float64), self._cumulants[1][0]
        whole = spread.sum() + self._total.cumulants[0]
        if not self._total.known or whole <= 0:
            return counts
        return np.asarray(counts + spread / whole * (self._total.value - counts.sum()))

    def _spread(self, cells: Cells) -> tuple[Floats, Floats, Floats]:
        out = (np.zeros(cells.count.size), np.zeros(cells.count.size), np.zeros(cells.count.size))
        for number, law in enumerate(self._laws):
            rows = cells.law == number
            if law is None:
                # every cell is published, so nothing but the noise is uncertain
                second, fourth = laplace_cumulants(self._scales[number])
                parts: tuple[Floats | float, ...] = (second, 0.0, fourth)
            else:
                parts = law.cell_cumulants(cells.count[rows])
            for target, values in zip(out, parts, strict=True):
                target[rows] = values
        return out

    def answer(self, question: Node, level: float) -> Estimate:
        alpha = 1.0 - check_level(level)
        truths, leaf_truths = self._truths(question)
        if truths[0] == -1:  # false of every transaction there can be
            return Estimate(value=0.0, standard_error=0.0, low=0.0, high=0.0, level=level)
        true = self._side(question, truths, leaf_truths, 1)
        false = self._side(question, truths, leaf_truths, -1)
        everything = all(law is None for law in self._laws)
        if everything:
            true = true.settled(false, self._total)
        elif truths[0] == 1 and self._total.known:  # all records: their own count says it best
            second, fourth = self._total.cumulants
            true = _Sum(float(self._total.value), second, 0.0, fourth)
        low = max(0.0, true.score - true.quantile(alpha / 2))
        high, value, lost = float(self._total.ceiling), true.score, 0.0
        if everything:
            # nothing was left out: the sum itself has an upper error bar
            high = min(high, true.score + true.quantile(alpha / 2))
        elif self._total.known:
            second, fourth = self._total.cumulants
            high = min(
                high, self._total.value - false.score + false.quantile(alpha / 2, second, fourth)
            )
            lost = max(0.0, self._total.value - true.score - false.score)
            decided = max(true.score, 0.0) + max(false.score, 0.0)
            # what was left out is taken to be like the rest; the interval does not rest on that
            value += lost * max(true.score, 0.0) / decided if decided > 0 else 0.0
        low, high = (max(0.0, float(end)) for end in integer_rows(low, high))
        if low > high:
            # both ends are valid on their own; when noise makes them cross, the point between them
            # is left
            low = high = (low + high) / 2
        # what the interval leaves open beyond the noise may all be true, or none of it
        opened = lost if everything else max(lost, high - low - 2 * true.quantile(alpha / 2))
        return Estimate(
            value=min(max(value, low), high),
            standard_error=float(np.sqrt(true.k2 + opened**2 / 12)),
            low=low,
            high=high,
            level=level,
        )

    def _truths(self, question: Node) -> tuple[Truths, Truths]:
        """The truth of the question in every partition and every itemset."""
        sets, leaves = self._itemsets, dict[int, Truths]()
        for item in atoms_of(question):
            states = self._states(item)[sets.parent]
            last = _child_states(states, self._next[sets.parent], sets.mask, self._tree.path(item))
            # whatever an itemset does not hold is absent, also below nodes that were never reached
            leaves[item] = np.where(last == 1, np.int8(1), np.int8(-1))
        return (
            truth_of(question, self._states, self._partitions.parent.size),
            truth_of(question, leaves.__getitem__, sets.parent.size),
        )

    def _side(self, question: Node, truths: Truths, leaf_truths: Truths, side: int) -> _Sum:
        """The sum over the first decided cells that are true (side 1) or false (-1)."""
        parts, sets = self._partitions, self._itemsets
        opened = truths == 0
        opened[0] = True  # a question about all records is decided at the root, which is no cell
        chosen = [
            np.flatnonzero(opened[parts.parent] & (truths == side)),
            np.flatnonzero(opened[sets.parent] & (leaf_truths == side)),
        ]
        chosen[0] = chosen[0][chosen[0] > 0]
        totals = np.zeros(4)
        for cells, (k2, k3, k4), rows in zip((parts, sets), self._cumulants, chosen, strict=True):
            totals += [cells.count[rows].sum(), k2[rows].sum(), k3[rows].sum(), k4[rows].sum()]
        kept = np.bincount(
            np.concatenate([parts.parent[chosen[0]], sets.parent[chosen[1]]]), minlength=truths.size
        )
        totals[0] -= self._shortfall(question, truths, kept, side)
        return _Sum(*(float(number) for number in totals))

    def _shortfall(
        self, question: Node, truths: Truths, kept: NDArray[np.int64], side: int
    ) -> float:
        """What false survivors add to the sum on average: the mean noise of each suppressed cell
        that would have counted."""
        out = 0.0
        open_rows = np.flatnonzero((truths == 0) & (self._next_law >= 0))
        cells = self._decided_cells(question, open_rows, side)
        if truths[0] == side and self._next_law[0] >= 0:
            open_rows, cells = (
                np.zeros(1, dtype=np.int64),
                np.array([self._combinations(int(self._next[0]))]),
            )
        for number, law in enumerate(self._laws):
            if law is not None:
                rows = self._next_law[open_rows] == number
                out += law.shortfall * float((cells[rows] - kept[open_rows[rows]]).clip(0).sum())
        return out

    def _decided_cells(self, question: Node, rows: NDArray[np.int64], side: int) -> Floats:
        """For each undecided partition, how many combinations of children of its node decide the
        question for `side`."""
        atoms = atoms_of(question)
        paths = [
            {node: (place, leaf) for node, place, leaf in self._tree.path(item)} for item in atoms
        ]
        touched = np.isin(self._next[rows], [node for path in paths for node in path])
        out = np.zeros(rows.size)
        if not touched.any():
            return out
        near = rows[touched]
        states = np.stack([self._states(item)[near] for item in atoms], axis=1)
        keys, where = np.unique(
            np.column_stack([self._next[near], states]), axis=0, return_inverse=True
        )
        counts = np.array(
            [
                self._count_masks(question, atoms, paths, key[0], key[1:], side)
                for key in keys.tolist()
            ]
        )
        out[touched] = counts[where.ravel()]
        return out

    def _count_masks(
        self,
        question: Node,
        atoms: Sequence[int],
        paths: Sequence[dict[int, tuple[int, bool]]],
        node: int,
        states: Sequence[int],
        side: int,
    ) -> float:
        under = {
            path[node][0]
            for path, state in zip(paths, states, strict=True)
            if node in path and state == 0
        }
        if not under:
            return 0.0
        if len(under) > MAX_OPEN_BITS:
            return self._combinations(
                node
            )  # too many to count: all of them, which only makes the interval wider
        bit = {place: number for number, place in enumerate(sorted(under))}
        combos = np.arange(1 << len(bit))
        after: dict[int, Truths] = {}
        for item, path, state in zip(atoms, paths, states, strict=True):
            now = np.full(combos.size, state, dtype=np.int8)
            if node in path and state == 0:
                place, leaf = path[node]
                here = ((combos >> bit[place]) & 1) == 1
                now = np.where(here, np.int8(leaf), np.int8(-1))
            after[item] = now
        hits = truth_of(question, after.__getitem__, combos.size) == side
        masks = float(hits.sum()) * (self._combinations(node) + 1.0) / 2.0 ** len(bit)
        return masks - 1.0 if hits[0] else masks  # a record that touches no child is in no cell

    def _combinations(self, node: int) -> float:
        """How many sets of children of a node a record may touch."""
        return 2.0 ** int(self._tree.offset[node + 1] - self._tree.offset[node]) - 1.0

    def _find_states(self, item: int) -> Truths:
        """Whether an item is in all records of a partition (1), in none (-1), or undecided, for
        every partition."""
        cells, path = self._partitions, self._tree.path(item)
        known = np.zeros(cells.parent.size, dtype=np.int8)
        for rows in self._generations[1:]:
            parents = cells.parent[rows]
            known[rows] = _child_states(known[parents], self._next[parents], cells.mask[rows], path)
        return known


@dataclass(frozen=True)
class _Sum:
    """A sum of scores and its cumulants."""

    score: float
    k2: float
    k3: float
    k4: float

    def settled(self, rest: _Sum, total: Total) -> _Sum:
        """This sum with its due part of what `total` has more than the sums of all cells have, for
        unbiased sums.

        The part is that of its variance, which makes the variance of the result the least that a
        weighted sum can have.
        """
        second, fourth = total.cumulants
        spread = self.k2 + rest.k2 + second
        if not total.known or spread <= 0:
            return self
        part = self.k2 / spread
        own = 1.0 - part
        return _Sum(
            self.score + part * (total.value - self.score - rest.score),
            own**2 * self.k2 + part**2 * (rest.k2 + second),
            0.0,
            own**4 * self.k4 + part**4 * (rest.k4 + fourth),
        )

    def quantile(self, alpha: float, second: float = 0.0, fourth: float = 0.0) -> float:
        """How far the sum may lie above its mean; `second` and `fourth` are those of an independent
        number added to it."""
        parts = (np.array([self.k2 + second]), np.array([self.k3]), np.array([self.k4 + fourth]))
        return float(spread_quantile(alpha, *parts)[0])


def _child_states(
    states: Truths,
    nodes: NDArray[np.int32],
    masks: NDArray[np.int32],
    path: Sequence[tuple[int, int, bool]],
) -> Truths:
    """The state of an item in parts of partitions, from its state there, the node that was split
    and the part's mask."""
    out = states.copy()
    for node, place, leaf in path:
        rows = np.flatnonzero((nodes == node) & (states == 0))
        if rows.size:
            here = ((masks[rows] >> place) & 1) == 1
            out[rows] = np.where(here, np.int8(leaf), np.int8(-1))
    return out


def generations(parent: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows by their distance from the root, which is row 0."""
    depth = np.zeros(parent.size, dtype=np.int64)
    above = parent.copy()
    while (above >= 0).any():
        depth[above >= 0] += 1
        above = np.where(above >= 0, parent[above], -1)
    return [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]


def consistent_weights(
    partitions: Cells, itemsets: Cells, generations: list[NDArray[np.int64]], total: float | None
) -> Floats:
    """Non-negative weights of the itemsets, at most `total` in all (when there is one).

    A split loses the records of the parts that were suppressed, so published parts add up to less
    than the whole. Handing every partition's count down to its published parts, in proportion to
    theirs, makes parts add up to the whole: what was left out is taken to be like what was
    published beside it. Where little was published that would be a bold guess, so that no split
    makes its parts more than `MAX_GROWTH` times as large; what exceeds that is shared by all that
    is published above it, under the same rule.
    """
    size = partitions.parent.size
    leaves = np.maximum(itemsets.count, 0).astype(np.float64)
    held = np.maximum(partitions.count, 0).astype(np.float64)
    # of nothing, bincount makes whole numbers
    below = np.bincount(itemsets.parent, weights=leaves, minlength=size).astype(np.float64)
    held[0] = below.sum() if total is None else max(0.0, total)
    for depth in range(len(generations) - 1, -1, -1):
        rows = generations[depth]
        if depth + 1 < len(generations):
            parts = generations[depth + 1]
            below += np.bincount(partitions.parent[parts], weights=held[parts], minlength=size)
        held[rows] = np.minimum(held[rows], MAX_GROWTH * below[rows])
    factor = np.where(below > 0, held / np.where(below > 0, below, 1.0), 0.0)
    for rows in generations[1:]:
        factor[rows] *= factor[partitions.parent[rows]]
    return np.asarray(leaves * factor[itemsets.parent])


def clipped_weights(counts: NDArray[np.int64], total: float | None) -> Floats:
    """Non-negative weights for a release of all itemsets: the nearest to its counts that add up to
    `total`.

    Dropping negative counts would keep the positive noise of all absent itemsets, which adds up to
    more than the data. The same amount is taken off every count instead, and what falls below zero
    is dropped.
    """
    values = counts.astype(np.float64)
    wanted = max(0.0, float(values.sum()) if total is None else total)
    falling = np.sort(values)[::-1]
    taken = (np.cumsum(falling) - wanted) / np.arange(1, values.size + 1)
    kept = np.flatnonzero(falling > taken)
    return (
        np.maximum(values - taken[kept[-1]], 0.0)
        if kept.size and wanted > 0
        else np.zeros(values.size)
    )
