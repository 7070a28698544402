"""The weights for given ridges: base_i exp(beta . x_i), x_i being the indicators of row i's cells,
one in each table.

They minimise

    log sum_i base_i exp(beta . x_i) - beta . m + (1/2) sum_j c_j beta_j^2

whose gradient is (weighted share of cell j) - m_j + c_j beta_j. Shares of a table add up to 1 on
both sides, so at the minimum sum_j c_j beta_j = 0 over each table: the code keeps it so, since
adding a constant to a table's beta changes no weight.

One sweep solves each table exactly, the others held fixed, in one pass over the rows a table.
Sweeps end when what is left to match is small beside the noise: going on would fit noise more
closely. Tables that say nearly the same make sweeps slow; then Newton's steps on all tables at once
take over, with a Hessian that is counted on some of the rows and kept while it serves. Every cell
of a table must have public rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Codes, Floats
from dpublish.models.quasi_newton import InverseHessian

# Noisy tables as shares, and what several of them say together about one column.
#
# A table of two columns says something about each of them as well. `combined` puts all of it
# together; `centred` takes it out again, so that only the interaction of the two columns is left.

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
    shares: Floats
    variances: Floats
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

    def spread(self, values: Floats, elsewhere: float) -> Floats:
        """One value a cell of the whole table."""
        found = np.full(self.whole, elsewhere)
        found[self.places] = values
        return found


def consistent_shares(counts: Floats, variance: float, total: float) -> tuple[Floats, Floats]:
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


def centred(pair: Supported, by_column: dict[int, Floats]) -> TableTarget:
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


MAX_SWEEPS = 300
FIRST_SWEEPS = 6
NEWTON_STEPS = 30
MAX_CELLS = 4096
"""Cells of all tables together up to which Newton's steps are taken; a larger Hessian needs too
much memory and time."""
HESSIAN_ROWS = 1 << 16
"""A Hessian is counted on at least this many rows, and on 32 for each cell."""
TOLERANCE = 1e-7
NOISE_SHARE = 0.02
"""Sweeps end when the gradient, added up over cells, is this share of the noise added up over
cells."""
FAR = 1.0
"""A step that changes some weight by a factor of more than exp(1) calls for another Hessian, unless
it went well."""


@dataclass(frozen=True)
class Solved:
    """`masses` add up to 1; `coefficients` hold one array per table; `gap` is what was left to
    match before the last sweep."""

    masses: Floats
    coefficients: list[Floats]
    sweeps: int
    gap: float


def solve(
    targets: Sequence[TableTarget],
    base: Floats,
    ridges: Sequence[Floats],
    *,
    begin: Sequence[Floats] = (),
    sweeps: int = MAX_SWEEPS,
) -> Solved:
    """The weights. `begin` holds coefficients of the first tables to go on from."""
    coefficients = [np.zeros(target.cells) for target in targets]
    coefficients[: len(begin)] = [old.copy() for old in begin]
    masses = base / base.sum()  # always add up to 1
    if begin:
        scores = _Tables(targets, len(base)).scores(np.concatenate(coefficients), len(base))
        masses = masses * np.exp(scores - scores.max())
        masses /= masses.sum()
    noise = sum(float(np.sqrt(target.variances).sum()) for target in targets)
    enough = max(TOLERANCE, NOISE_SHARE * noise)
    gap, done = math.inf, 0
    small = sum(target.cells for target in targets) <= MAX_CELLS
    while gap > enough and done < sweeps:
        if done == FIRST_SWEEPS and small:
            masses, coefficients = _newton(targets, masses, coefficients, ridges, enough)
        gap, done = _sweep(targets, masses, coefficients, ridges), done + 1
    return Solved(masses / masses.sum(), coefficients, done, gap)


def shares_of(target: TableTarget, masses: Floats) -> Floats:
    """What weights give each cell."""
    from dpublish.models.lookup_kernels import add_masses

    shares = np.zeros(target.cells)
    add_masses(target.codes, masses, shares)
    return shares


def _sweep(
    targets: Sequence[TableTarget],
    masses: Floats,
    coefficients: Sequence[Floats],
    ridges: Sequence[Floats],
) -> float:
    """Solve one table after another, in place; returns the sizes of their gradients before, added
    up."""
    from dpublish.models.lookup_kernels import scale_and_add

    gaps = []
    present = shares_of(targets[0], masses)
    for place, (target, beta, ridge) in enumerate(zip(targets, coefficients, ridges, strict=True)):
        following = targets[place + 1] if place + 1 < len(targets) else target
        step = _step(target, present, beta, ridge)
        gaps.append(float(np.abs(present - target.shares + ridge * beta)[present > 0.0].sum()))
        beta += step
        beta -= float(ridge @ beta) / float(ridge.sum())
        factors = np.exp(step)
        # what the cells will add up to, so that the masses add up to 1 without another pass
        factors /= float(factors @ present)
        present = np.zeros(following.cells)
        scale_and_add(target.codes, factors, masses, following.codes, present)
    return sum(gaps)


def _step(target: TableTarget, present: Floats, beta: Floats, ridge: Floats) -> Floats:
    """How far each coefficient of a table goes, the others held fixed."""
    from scipy.special import wrightomega

    # present e^d - m + c (beta + d) = 0 has the solution d = m/c - beta - omega(log(present/c) +
    # m/c - beta)
    with np.errstate(divide="ignore"):
        depth = target.shares / ridge - beta
        step = depth - wrightomega(np.log(present / ridge) + depth)
    return np.asarray(np.clip(np.where(present > 0.0, step, 0.0), -20.0, 20.0))


class _Tables:
    """All tables side by side: shares of every cell, and sums of coefficients over rows."""

    def __init__(self, targets: Sequence[TableTarget], rows: int) -> None:
        self._targets = targets
        self.ends = np.cumsum([target.cells for target in targets])
        self.cells = int(self.ends[-1])
        self._stride = max(1, rows // max(HESSIAN_ROWS, 32 * self.cells))

    def shares(self, masses: Floats) -> Floats:
        return np.concatenate([shares_of(target, masses) for target in self._targets])

    def scores(self, coefficients: Floats, rows: int) -> Floats:
        from dpublish.models.lookup_kernels import add_looked_up

        total = np.zeros(rows)
        for target, end in zip(self._targets, self.ends, strict=True):
            add_looked_up(target.codes, coefficients[end - target.cells : end], total)
        return total

    def covariance(self, masses: Floats, shares: Floats) -> Floats:
        """The covariance of all cells' indicators, counted on some of the rows; variances are at
        least those of all rows."""
        from dpublish.models.lookup_kernels import add_by_two_codes

        some = np.ascontiguousarray(masses[:: self._stride])
        some = some / some.sum()
        codes = [
            np.ascontiguousarray(target.codes[:: self._stride]).astype(np.uint32)
            for target in self._targets
        ]
        found = np.zeros((self.cells, self.cells))
        for place, (one, end) in enumerate(zip(self._targets, self.ends, strict=True)):
            for other in range(place, len(codes)):
                width = self._targets[other].cells
                table = np.zeros((one.cells, width))
                add_by_two_codes(codes[place], codes[other], some, table)
                here, there = (
                    slice(end - one.cells, end),
                    slice(self.ends[other] - width, self.ends[other]),
                )
                found[here, there], found[there, here] = table, table.T
        means = np.diag(found).copy()
        found -= np.outer(means, means)
        found.flat[:: self.cells + 1] = np.maximum(np.diag(found), shares * (1.0 - shares))
        return found


def _newton(
    targets: Sequence[TableTarget],
    masses: Floats,
    coefficients: Sequence[Floats],
    ridges: Sequence[Floats],
    enough: float,
) -> tuple[Floats, list[Floats]]:
    """Newton's steps on all tables at once, each halved until the gradient gets shorter. Cells
    without public rows stay put."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    tables = _Tables(targets, len(masses))
    wanted, ridge, beta = (
        np.concatenate(list(part)) for part in ([t.shares for t in targets], ridges, coefficients)
    )
    shares = tables.shares(masses)
    held = shares <= 0.0
    slope = np.where(held, 0.0, shares - wanted + ridge * beta)
    inverse: InverseHessian | None = None
    for _ in range(NEWTON_STEPS):
        if float(np.abs(slope).sum()) <= enough / 4:
            break
        if inverse is None:
            hessian = tables.covariance(masses, shares)
            hessian.flat[:: tables.cells + 1] += ridge
            try:
                inverse = InverseHessian(partial(cho_solve, cho_factor(hessian)))
            except LinAlgError:
                break
        step = np.where(held, 0.0, -inverse.times(slope))
        moves, length = tables.scores(step, len(masses)), 1.0
        while length > 1e-3:
            tried = masses * np.exp(np.clip(length * moves, -50.0, 50.0))
            tried /= tried.sum()
            now = tables.shares(tried)
            better = np.where(held, 0.0, now - wanted + ridge * (beta + length * step))
            if float(better @ better) < float(slope @ slope):
                break
            length /= 2.0
        else:
            break
        inverse.learn(length * step, better - slope)
        # weights that moved far bend otherwise; those that did not are learnt from
        if float(np.abs(length * moves).max()) > FAR and float(better @ better) > 0.09 * float(
            slope @ slope
        ):
            inverse = None
        masses, beta, shares, slope = tried, beta + length * step, now, better
    return masses, [part.copy() for part in np.split(beta, tables.ends[:-1])]
