"""Sums of a model's tables that are public totals: they hold exactly, and say more about the rest.

A total of one column, with or without the target, is a sum over cells of that column's table
(levels x labels); a total of the target is one over labels. The least-squares estimate of a table
is moved to its known sums along the directions of its noise, which is what other cells learn from
them. After the steps to non-negative counts, proportional fitting brings the sums back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Domain
from dpublish.declare.rules import Total, cells_where
from dpublish.models.junction_tree.beliefs import Beliefs, Target
from dpublish.models.junction_tree.consistency import GroupSums, solve_precision, sum_groups

SWEEPS = 500
"""Times that proportional fitting goes over the known sums of a column, at most."""
CLOSE = 1e-10
"""It ends when no sum is off by more than this share of the rows."""
MAX_CLASSES = 640
"""Classes of levels, by label where that matters, that the totals of a column may tell apart."""
_FIRM = 1e6
"""The weight of what is known beside what is estimated, when labels are made to fit it."""


@dataclass(frozen=True, eq=False)
class KnownSum:
    """The rows in some cells of a column's table (levels x labels), or, where there is no column,
    of some labels."""

    column: int | None
    cells: Floats
    rows: int


def known_sums(
    totals: Sequence[Total], domain: Domain, target: int | None
) -> tuple[KnownSum | None, ...]:
    """One per total: from public facts alone. None where it speaks of all rows, of several columns,
    or of part of a bin, or where the totals of a column tell too many classes of levels apart."""
    labels = 1 if target is None else domain.shape[target]
    out: list[KnownSum | None] = []
    for total in totals:
        found = cells_where(total, domain) if total.where else None
        columns = [place for place in found.places if place != target] if found else []
        if found is None or found.cut.any() or len(columns) > 1:
            out.append(None)
            continue
        cells = found.cells.astype(np.float64)
        if not columns:
            out.append(KnownSum(None, cells, total.rows))
            continue
        if target in found.places:
            cells = np.moveaxis(cells, found.places.index(target), -1)
        else:
            cells = np.repeat(cells[:, None], labels, axis=1)
        out.append(KnownSum(columns[0], cells, total.rows))
    held = [one for one in out if one is not None]
    many = {c for c in _columns(held) if _Classes.of(of_column(held, c)).size > MAX_CLASSES}
    return tuple(one if one is None or one.column not in many else None for one in out)


def of_column(known: Sequence[KnownSum], column: int | None) -> list[KnownSum]:
    return [one for one in known if one.column == column]


def all_labels(known: Sequence[KnownSum]) -> list[KnownSum]:
    """The sums of a column that tell no labels apart, over its levels alone (one place)."""
    return [
        KnownSum(one.column, one.cells[:, :1], one.rows)
        for one in known
        if (one.cells == one.cells[:, :1]).all()
    ]


@dataclass(frozen=True, eq=False)
class Corrections:
    """How an estimate moves to its known sums, and how much less noise it has then. `moves` are the
    covariances of the estimate with each sum."""

    known: Sequence[KnownSum]
    moves: Sequence[Floats]
    inverse: Floats

    @classmethod
    def of(
        cls, known: Sequence[KnownSum], variance: float, more: Sequence[GroupSums]
    ) -> Corrections:
        moves = [solve_precision(one.cells, variance, more) for one in known]
        gram = [[float((one.cells * move).sum()) for move in moves] for one in known]
        # sums may repeat each other
        return cls(known, moves, np.linalg.pinv(np.array(gram), rcond=1e-9, hermitian=True))

    def moved(self, best: Floats) -> Floats:
        """The best linear unbiased estimate that has the known sums."""
        return self._stepped(
            best, [one.rows - float((one.cells * best).sum()) for one in self.known]
        )

    def less(self, amounts: Floats) -> Floats:
        """What the covariance of a sum of amounts with every cell loses."""
        shared = [float((amounts * move).sum()) for move in self.moves]
        return self._stepped(np.zeros_like(amounts), shared)

    def _stepped(self, out: Floats, amounts: Sequence[float]) -> Floats:
        """So far along the moves that the known sums change by these amounts."""
        for step, move in zip(self.inverse @ np.array(amounts), self.moves, strict=True):
            out = out + step * move
        return out


def fit_known_labels(value: Floats, known: Sequence[KnownSum], total: int | None) -> Floats:
    """Non-negative rows of each label near the estimated ones, such that every column has a table
    with these sums and all that is known."""
    labels = len(value)
    parts = [_Classes.of(of_column(known, column)) for column in _columns(known)]
    if total is not None:  # then only totals that tell labels apart say more about them
        parts = [one for one in parts if one.labels > 1]
    near = _Near(labels + sum(one.size for one in parts))
    near.about(0, value)
    if total is not None:
        near.fix(float(total), (0, np.ones(labels)))
    for one in of_column(known, None):
        near.fix(float(one.rows), (0, one.cells))
    start = labels
    for part in parts:
        for mine, theirs in part.label_sums(labels):  # classes have the rows of the labels
            near.fix(0.0, (start, mine), (0, -theirs))
        for cells, rows in zip(part.cells, part.rows, strict=True):
            near.fix(float(rows), (start, cells))
        start += part.size
    found = near.solve()
    return np.maximum(0.0, value) if found is None else found[:labels]


def rake(table: Floats, labels: Floats, known: Sequence[KnownSum], *, least: float) -> Floats:
    """The table (levels x labels) with the rows of each label and the known sums, near the one
    given: classes of levels get sums that fit, and their cells are scaled to them. What was cut to
    0 may be needed: every cell begins with at least a share of the rows."""
    part = _Classes.of(known)
    out = table + least * labels / max(1, len(table))
    near = _Near(part.size)
    near.about(0, part.sums(out))
    for mine, theirs in part.label_sums(len(labels)):
        near.fix(float(theirs @ labels), (0, mine))
    for cells, rows in zip(part.cells, part.rows, strict=True):
        near.fix(float(rows), (0, cells))
    found = near.solve()
    if found is None:
        return table
    wanted = found.reshape(part.classes, part.labels)
    for _ in range(SWEEPS):
        out = out * _ratio(wanted, part.sums(out))[part.class_of]
        sums = out.sum(axis=0)
        if float(np.abs(sums - labels).max()) <= CLOSE * max(1.0, float(labels.sum())):
            break
        out = out * _ratio(labels, sums)
    return out


def pin(
    beliefs: Beliefs,
    singles: Sequence[Floats],
    state_of: Mapping[int, Ints],
    columns: Sequence[int],
) -> None:
    """Scale a fitted model so that these columns have their own tables exactly: sweeps end with
    tables that are a little off."""
    factors = beliefs.factors
    wanted = {c: sum_groups(singles[c], state_of[c], int(state_of[c].max()) + 1) for c in columns}
    for _ in range(20):
        off = 0.0
        for column, table in wanted.items():
            clique = beliefs.tree.clique_of((column,))
            assert clique is not None
            now = beliefs.over(clique, [column]).T
            off = max(off, float(np.abs(now - table).max()))
            states = np.arange(len(table), dtype=np.int64)
            beliefs.multiply([Target((column,), (states,), _ratio(table, now))])
        if off <= 1e-9 * max(1.0, float(sum(table.sum() for table in wanted.values()))):
            break
    beliefs.factors = factors


def _columns(known: Sequence[KnownSum]) -> list[int]:
    return sorted({one.column for one in known if one.column is not None})


@dataclass(frozen=True, eq=False)
class _Classes:
    """The known sums of one column, over classes of levels that none of them tells apart; with one
    label where none tells labels apart."""

    class_of: Ints
    labels: int
    cells: Sequence[Floats]
    rows: Sequence[int]

    @classmethod
    def of(cls, known: Sequence[KnownSum]) -> _Classes:
        every = np.hstack([one.cells for one in known])
        _, first, found = np.unique(every, axis=0, return_index=True, return_inverse=True)
        by_label = any((one.cells != one.cells[:, :1]).any() for one in known)
        labels = known[0].cells.shape[1] if by_label else 1
        cells = [one.cells[first][:, :labels] for one in known]
        return cls(found.reshape(-1).astype(np.int64), labels, cells, [one.rows for one in known])

    @property
    def classes(self) -> int:
        return int(self.class_of.max()) + 1

    @property
    def size(self) -> int:
        return self.classes * self.labels

    def sums(self, table: Floats) -> Floats:
        sums = sum_groups(table, self.class_of, self.classes)
        return sums if self.labels > 1 else sums.sum(axis=1, keepdims=True)

    def label_sums(self, labels: int) -> Iterator[tuple[Floats, Floats]]:
        """Which classes, and which labels, have the same rows together."""
        for label in range(self.labels):
            mine = np.tile(np.eye(1, self.labels, label)[0], self.classes)
            yield mine, np.eye(1, labels, label)[0] if self.labels > 1 else np.ones(labels)


class _Near:
    """Non-negative numbers near some, with sums that are fixed: non-negative least squares in which
    a fixed sum has a large weight."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._said: list[tuple[Floats, float, float]] = []

    def about(self, start: int, values: Floats) -> None:
        for place, value in enumerate(values.ravel()):
            self._say(1.0, float(value), (start + place, np.ones(1)))

    def fix(self, amount: float, *terms: tuple[int, Floats]) -> None:
        self._say(_FIRM, amount, *terms)

    def solve(self) -> Floats | None:
        """None for numbers that no release has."""
        from scipy.optimize import nnls

        lines, amounts, weights = (np.array(some) for some in zip(*self._said, strict=True))
        size = max(1.0, float(np.abs(amounts).max()))
        try:
            found, _ = nnls(lines * weights[:, None], weights * amounts / size)
        except (RuntimeError, ValueError):
            return None
        return np.asarray(found * size, dtype=np.float64)

    def _say(self, weight: float, amount: float, *terms: tuple[int, Floats]) -> None:
        line = np.zeros(self._width)
        for start, factors in terms:
            line[start : start + factors.size] += factors.ravel()
        self._said.append((line, amount, weight))


def _ratio(wanted: Floats, now: Floats) -> Floats:
    return np.where(now > 0, wanted / np.where(now > 0, now, 1.0), 0.0)
