"""Noisy tables as shares, and what several of them say together about one column.

A table of two columns says something about each of them as well. `combined` puts all of it
together; `centred` takes it out again, so that only the interaction of the two columns is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.models.linear_features import FloatArray

Codes = NDArray[Any]
Places = NDArray[np.int64]

_ROUNDS = 4
"""How often rows and columns of a table are corrected in turn; with cells missing, correcting one
disturbs the other."""


@dataclass(frozen=True)
class TableTarget:
    """A noisy table as shares: the code of each public row in it, the shares, and the variance of
    the noise of each share.

    `columns` says which column it is of, or which two; `shape` is the number of values of each.
    Without them a table is taken to be of a column that no other table has.
    """

    codes: Codes
    shares: FloatArray
    variances: FloatArray
    columns: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    @property
    def cells(self) -> int:
        return len(self.shares)

    @property
    def one_cell(self) -> float:
        """The variance of the noise of a cell before shares were made to add up to 1."""
        return float(self.variances.mean()) * self.cells / max(1, self.cells - 1)


@dataclass(frozen=True)
class Supported:
    """A table among the cells that some public row has, numbered anew; `places` are their numbers
    in the whole table."""

    target: TableTarget
    places: Places
    whole: int

    def spread(self, values: FloatArray, elsewhere: float) -> FloatArray:
        """One value a cell of the whole table."""
        found = np.full(self.whole, elsewhere)
        found[self.places] = values
        return found


def consistent_shares(
    counts: FloatArray, variance: float, total: float
) -> tuple[FloatArray, FloatArray]:
    """Noisy counts of one table as shares that add up to 1, and the variances of their noise."""
    cells = len(counts)
    shares = counts / total
    shares = shares - (shares.sum() - 1.0) / cells
    spread = variance / total**2
    # a table with one cell is certain; a little variance keeps the arithmetic well defined
    return shares, np.full(cells, max(spread * (1.0 - 1.0 / cells), 1e-30))


def supported(target: TableTarget) -> Supported:
    """The table among cells that public rows have. What the others hold cannot be matched.

    As far as noise explains it, it is taken for noise, and the cells left are corrected alike; the
    rest of it is shared out in proportion, as people who are like nobody among the public rows.
    """
    places = np.flatnonzero(np.bincount(target.codes, minlength=target.cells))
    whole, kept = target.cells, len(places)
    if kept == whole:
        return Supported(target, places, whole)
    noise = target.one_cell
    inside = target.shares[places]
    outside = 1.0 - float(inside.sum())
    by_noise = noise * (whole - kept) * kept / whole
    lost = min(0.5, outside * max(0.0, 1.0 - by_noise / outside**2)) if outside > 0.0 else 0.0
    shares = (inside - (float(inside.sum()) - (1.0 - lost)) / kept) / (1.0 - lost)
    numbers = np.zeros(whole, dtype=target.codes.dtype)
    numbers[places] = np.arange(kept)
    variances = np.full(kept, max(noise * (1.0 - 1.0 / kept), 1e-30))
    return Supported(
        TableTarget(numbers[target.codes], shares, variances, target.columns, target.shape),
        places,
        whole,
    )


def combined(singles: Sequence[TableTarget], pairs: Sequence[TableTarget]) -> list[TableTarget]:
    """Shares of each column from its own table and from every pair that has it, each as much as its
    noise allows."""
    sums = {one.columns[0]: one.shares / one.one_cell for one in singles if one.columns}
    precisions = {one.columns[0]: 1.0 / one.one_cell for one in singles if one.columns}
    for pair in pairs:
        table = pair.shares.reshape(pair.shape)
        for side, column in enumerate(pair.columns):
            if column in sums:
                noise = pair.one_cell * pair.shape[1 - side]
                sums[column] = sums[column] + table.sum(axis=1 - side) / noise
                precisions[column] += 1.0 / noise
    found = []
    for one in singles:
        if one.columns and one.cells > 1:
            shares = sums[one.columns[0]] / precisions[one.columns[0]]
            shares = shares - (shares.sum() - 1.0) / one.cells
            noise = (1.0 - 1.0 / one.cells) / precisions[one.columns[0]]
            found.append(
                TableTarget(
                    one.codes, shares, np.full(one.cells, max(noise, 1e-30)), one.columns, one.shape
                )
            )
        else:
            found.append(one)
    return found


def centred(pair: Supported, by_column: dict[int, FloatArray]) -> TableTarget:
    """The table with the shares of its columns replaced by given ones: what is left to learn from
    it is the interaction.

    The variances are those of the noise that is left, as if the given shares were certain.
    """
    target, places = pair.target, pair.places
    sides = np.divmod(places, target.shape[1])
    shares, kept = target.shares, len(places)
    known = [
        (sides[side], by_column[column])
        for side, column in enumerate(target.columns)
        if column in by_column
    ]
    filled = [np.bincount(codes, minlength=len(wanted)) for codes, wanted in known]
    for _ in range(_ROUNDS):
        for (codes, wanted), cells in zip(known, filled, strict=True):
            sums = np.bincount(codes, weights=shares, minlength=len(wanted))
            shares = shares + ((wanted - sums) / np.maximum(cells, 1))[codes]
    taken = sum(int(np.count_nonzero(cells)) for cells in filled) - (len(filled) - 1)
    noise = float(target.variances.mean()) * kept / max(1, kept - 1)
    left = max(1.0 - taken / kept, 1.0 / kept)
    return TableTarget(
        target.codes, shares, np.full(kept, max(noise * left, 1e-30)), target.columns, target.shape
    )
