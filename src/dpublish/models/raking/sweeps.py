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

from dpublish.models.linear_features import FloatArray
from dpublish.models.quasi_newton import InverseHessian
from dpublish.models.raking.noisy_tables import TableTarget

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

    masses: FloatArray
    coefficients: list[FloatArray]
    sweeps: int
    gap: float


def solve(
    targets: Sequence[TableTarget],
    base: FloatArray,
    ridges: Sequence[FloatArray],
    *,
    begin: Sequence[FloatArray] = (),
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


def shares_of(target: TableTarget, masses: FloatArray) -> FloatArray:
    """What weights give each cell."""
    from dpublish.models.lookup_kernels import add_masses

    shares = np.zeros(target.cells)
    add_masses(target.codes, masses, shares)
    return shares


def _sweep(
    targets: Sequence[TableTarget],
    masses: FloatArray,
    coefficients: Sequence[FloatArray],
    ridges: Sequence[FloatArray],
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


def _step(
    target: TableTarget, present: FloatArray, beta: FloatArray, ridge: FloatArray
) -> FloatArray:
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

    def shares(self, masses: FloatArray) -> FloatArray:
        return np.concatenate([shares_of(target, masses) for target in self._targets])

    def scores(self, coefficients: FloatArray, rows: int) -> FloatArray:
        from dpublish.models.lookup_kernels import add_looked_up

        total = np.zeros(rows)
        for target, end in zip(self._targets, self.ends, strict=True):
            add_looked_up(target.codes, coefficients[end - target.cells : end], total)
        return total

    def covariance(self, masses: FloatArray, shares: FloatArray) -> FloatArray:
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
    masses: FloatArray,
    coefficients: Sequence[FloatArray],
    ridges: Sequence[FloatArray],
    enough: float,
) -> tuple[FloatArray, list[FloatArray]]:
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
