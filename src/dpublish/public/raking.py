"""Weights on public rows that reproduce noisy tables: raking, with a ridge that follows from the known noise.

Weights are base_i exp(beta . x_i), x_i being the indicators of the cells that row i falls into in each table. They minimise

    log sum_i base_i exp(beta . x_i) - beta . m + (1/2) sum_j c_j beta_j^2

whose gradient is (weighted share of cell j) - m_j + c_j beta_j. Shares of a table add up to 1 on both sides, so at the minimum
sum_j c_j beta_j = 0 over each table: the code keeps it so, since adding a constant to a table's beta changes no weight. Without
the ridge this is maximum entropy: the weights nearest to the base weights that match every table. With c_j = k s_j^2, for a
share m_j of known noise variance s_j^2, they minimise

    k KL(weights : base) + (1/2) sum_j (weighted share of cell j - m_j)^2 / s_j^2

so public rows speak as loudly as a sample of k people would. k begins at their number, and is lowered while the new tables
are missed by more than their noise explains: public rows that were chosen otherwise than by chance lose their say where the
tables contradict them. All of it sees released numbers only.

One sweep solves each table exactly, the others held fixed, in one pass over the rows a table. Sweeps end when what is left to
match is small beside the noise: going on would fit noise more closely. Tables that say nearly the same make sweeps slow; then
Newton's steps on all tables at once take over, with a Hessian that is counted on some of the rows and kept while it serves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.public.linear_features import FloatArray
from dpublish.public.quasi_newton import InverseHessian

Codes = NDArray[Any]

MAX_SWEEPS = 300
FIRST_SWEEPS = 6
NEWTON_STEPS = 30
MAX_CELLS = 4096
"""Cells of all tables together up to which Newton's steps are taken."""
HESSIAN_ROWS = 1 << 16
"""A Hessian is counted on at least this many rows, and on 32 for each cell."""
TOLERANCE = 1e-7
NOISE_SHARE = 0.02
"""Sweeps end when the gradient, added up over cells, is this share of the noise added up over cells."""
FAR = 1.0
"""A step that changes some weight by a factor of more than exp(1) calls for another Hessian, unless it went well."""
_LEAST_RIDGE = 1e-9
_LEAST_SAY, _LOWER = 1.0, 4.0
"""Public rows are never worth less than one row, and lose three quarters of their say at a time."""


@dataclass(frozen=True)
class TableTarget:
    """A noisy table as shares: the code of each public row in it, the shares, and the variance of the noise of each share."""

    codes: Codes
    shares: FloatArray
    variances: FloatArray

    @property
    def cells(self) -> int:
        return len(self.shares)


@dataclass(frozen=True)
class Raked:
    """`masses` are the weights, adding up to 1 after scaling; `coefficients` and `ridges` hold one array a table."""

    masses: FloatArray
    coefficients: tuple[FloatArray, ...]
    ridges: tuple[FloatArray, ...]
    sweeps: int
    gap: float


def consistent_shares(counts: FloatArray, variance: float, total: float) -> tuple[FloatArray, FloatArray]:
    """Noisy counts of one table as shares that add up to 1, and the variances of their noise."""
    cells = len(counts)
    shares = counts / total
    shares = shares - (shares.sum() - 1.0) / cells
    spread = variance / total**2
    # a table with one cell is certain; a little variance keeps the arithmetic well defined
    return shares, np.full(cells, max(spread * (1.0 - 1.0 / cells), 1e-30))


def rake(
    targets: Sequence[TableTarget],
    base: FloatArray,
    *,
    precision: float | None = None,
    start: Raked | None = None,
    sweeps: int = MAX_SWEEPS,
) -> Raked:
    """Fit all tables. `start` is an earlier fit of the first of them, to go on from.

    `precision` is 1 / t^2 when coefficients are expected to be of size t; left out, the tables decide how much public rows say.
    """
    targets = [_supported(target) for target in targets]
    kept = () if start is None else start.ridges
    fresh = targets[len(kept) :]
    if precision is not None or not fresh:
        begun = base / base.sum() if start is None else start.masses
        ridges = [_ridge_of_size(target, _shares(target, begun), precision or 1.0) for target in fresh]
        return _fit(targets, base, start, [*kept, *ridges], sweeps)
    say = float(base.sum() ** 2 / (base @ base))  # how many rows the public ones are worth
    while True:
        ridges = [np.maximum(say * target.variances, _LEAST_RIDGE) for target in fresh]
        found = _fit(targets, base, start, [*kept, *ridges], sweeps)
        if say <= _LEAST_SAY or _explained_by_noise(fresh, found.masses):
            return found
        say /= _LOWER


def _fit(
    targets: Sequence[TableTarget], base: FloatArray, start: Raked | None, ridges: Sequence[FloatArray], sweeps: int
) -> Raked:
    """The weights for given ridges."""
    masses = base / base.sum() if start is None else start.masses.copy()  # always add up to 1
    coefficients = [np.zeros(target.cells) for target in targets]
    if start is not None:
        coefficients[: len(start.coefficients)] = [old.copy() for old in start.coefficients]
    noise = sum(float(np.sqrt(target.variances).sum()) for target in targets)
    enough = max(TOLERANCE, NOISE_SHARE * noise)
    gap, done = math.inf, 0
    small = sum(target.cells for target in targets) <= MAX_CELLS
    while gap > enough and done < sweeps:
        if done == FIRST_SWEEPS and small:
            masses, coefficients = _newton(targets, masses, coefficients, ridges, enough)
        gap, done = _sweep(targets, masses, coefficients, ridges), done + 1
    masses /= masses.sum()
    return Raked(masses, tuple(coefficients), tuple(ridges), done, gap)


def _explained_by_noise(targets: Sequence[TableTarget], masses: FloatArray) -> bool:
    """Are the tables missed by no more than two standard deviations of what noise alone would make?"""
    misses, cells = 0.0, 0
    for target in targets:
        inside = np.bincount(target.codes, minlength=target.cells) > 0
        squares = (_shares(target, masses) - target.shares) ** 2 / target.variances
        misses += float(squares[inside].sum())
        cells += int(inside.sum())
    return misses <= cells + 2.0 * math.sqrt(2.0 * cells)


def _supported(target: TableTarget) -> TableTarget:
    """The table among cells that some public row has; what the others hold cannot be matched, and would pull at the rest."""
    inside = np.bincount(target.codes, minlength=target.cells) > 0
    total = float(target.shares[inside].sum())
    if inside.all() or total <= 0.5:
        return target
    return TableTarget(target.codes, np.where(inside, target.shares / total, 0.0), target.variances)


def _ridge_of_size(target: TableTarget, shares: FloatArray, precision: float) -> FloatArray:
    """s^2 / (t^2 v) for a cell whose public share has variance v: it moves as far as noise can be told from difference."""
    spread = np.maximum(shares * (1.0 - shares), 1e-12)
    ridge: FloatArray = np.maximum(precision * target.variances / spread, _LEAST_RIDGE)
    return ridge


def _shares(target: TableTarget, masses: FloatArray) -> FloatArray:
    """What the present weights give each cell."""
    from dpublish.public.kernels.lookups import add_masses

    shares = np.zeros(target.cells)
    add_masses(target.codes, masses, shares)
    return shares


def _sweep(
    targets: Sequence[TableTarget], masses: FloatArray, coefficients: Sequence[FloatArray], ridges: Sequence[FloatArray]
) -> float:
    """Solve one table after another, in place; returns the sizes of their gradients before, added up."""
    from dpublish.public.kernels.lookups import scale_and_add

    gaps = []
    present = _shares(targets[0], masses)
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


def _step(target: TableTarget, present: FloatArray, beta: FloatArray, ridge: FloatArray) -> FloatArray:
    """How far each coefficient of a table goes, the others held fixed."""
    from scipy.special import wrightomega

    # present e^d - m + c (beta + d) = 0 has the solution d = m/c - beta - omega(log(present/c) + m/c - beta)
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

    def shares(self, masses: FloatArray) -> FloatArray:
        return np.concatenate([_shares(target, masses) for target in self._targets])

    def scores(self, coefficients: FloatArray, rows: int) -> FloatArray:
        from dpublish.public.kernels.lookups import add_looked_up

        total = np.zeros(rows)
        for target, end in zip(self._targets, self.ends, strict=True):
            add_looked_up(target.codes, coefficients[end - target.cells : end], total)
        return total

    def covariance(self, masses: FloatArray, shares: FloatArray) -> FloatArray:
        """The covariance of all cells' indicators, counted on some of the rows; variances are at least those of all rows."""
        from dpublish.public.kernels.lookups import add_by_two_codes

        some = np.ascontiguousarray(masses[:: self._stride])
        some = some / some.sum()
        codes = [np.ascontiguousarray(target.codes[:: self._stride]).astype(np.uint32) for target in self._targets]
        found = np.zeros((self.cells, self.cells))
        for place, (one, end) in enumerate(zip(self._targets, self.ends, strict=True)):
            for other in range(place, len(codes)):
                width = self._targets[other].cells
                table = np.zeros((one.cells, width))
                add_by_two_codes(codes[place], codes[other], some, table)
                here, there = slice(end - one.cells, end), slice(self.ends[other] - width, self.ends[other])
                found[here, there], found[there, here] = table, table.T
        means = np.diag(found).copy()
        found -= np.outer(means, means)
        found.flat[:: self.cells + 1] = np.maximum(np.diag(found), shares * (1.0 - shares))
        return found


def _newton(
    targets: Sequence[TableTarget],
    masses: FloatArray,
    coefficients: Sequence[FloatArray],
    ridges: Sequence[FloatArray],
    enough: float,
) -> tuple[FloatArray, list[FloatArray]]:
    """Newton's steps on all tables at once, each halved until the gradient gets shorter. Cells without public rows stay put."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    tables = _Tables(targets, len(masses))
    wanted, ridge, beta = (np.concatenate(list(part)) for part in ([t.shares for t in targets], ridges, coefficients))
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
        if float(np.abs(length * moves).max()) > FAR and float(better @ better) > 0.09 * float(slope @ slope):
            inverse = None
        masses, beta, shares, slope = tried, beta + length * step, now, better
    return masses, [part.copy() for part in np.split(beta, tables.ends[:-1])]
