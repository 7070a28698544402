"""Weights on public rows that reproduce noisy tables: raking, with ridges that follow from the
known noise.

Weights are base_i exp(beta . x_i), x_i being the indicators of the cells that row i falls into in
each table. Without a ridge this is maximum entropy: the weights nearest to the base weights that
match every table. With ridges c_j = k s_j^2, for shares m_j of known noise variance s_j^2, they
minimise

    k KL(weights : base) + (1/2) sum_j (weighted share of cell j - m_j)^2 / s_j^2

so public rows speak as loudly as a sample of k people would. That is right for rows that were drawn
by chance. Rows that were chosen otherwise differ first of all in single columns, and less, or not
at all, in how columns go together. Therefore:

1. What all tables say about a column is put together (`noisy_tables.combined`).
2. The public rows are tilted by columns alone, as far as those shares differ by more than chance
   and noise (`tilt_sizes`).
3. All tables are fitted on top of that. The tilted rows speak as loudly as their effective number
   says, less where tables of two columns show that columns go together otherwise.

All of it sees released numbers and public rows only. How weights are found for given ridges:
`sweeps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpublish.arrays import Floats
from dpublish.models.raking.sweeps import (
    MAX_SWEEPS,
    Solved,
    Supported,
    TableTarget,
    centred,
    combined,
    consistent_shares,
    shares_of,
    solve,
    supported,
)

__all__ = ["Raked", "TableTarget", "consistent_shares", "rake"]


@dataclass(frozen=True)
class Raked:
    """`masses` are the weights, adding up to 1; the others hold one array per table.

    `variances` are those of the noise in what coefficients were fitted to: of a column, in all that
    was said about it. `tilts` is the part of the coefficients by which rows were tilted first.
    """

    masses: Floats
    coefficients: tuple[Floats, ...]
    ridges: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    tilts: tuple[Floats, ...]
    sweeps: int
    gap: float


def rake(
    targets: Sequence[TableTarget],
    base: Floats,
    *,
    precision: float | None = None,
    start: Raked | None = None,
    sweeps: int = MAX_SWEEPS,
) -> Raked:
    """Fit all tables; those of single columns come first. `start` is an earlier fit of the first of
    them, to go on from.

    `precision` is 1 / t^2 when coefficients are known to be of size t; left out, the tables decide
    how much public rows say.
    """
    singles = [target for target in targets if len(target.columns) < 2]
    if [id(target) for target in singles] != [id(target) for target in targets[: len(singles)]]:
        raise ValueError("tables of single columns come first")
    begun = base / base.sum()
    if precision is not None or len(singles) == len(targets):
        tables = [supported(target) for target in targets]
        plain, rows = [table.target for table in tables], _worth(begun)
        shares = [shares_of(table, begun) for table in plain]
        ridges = (
            likely_sizes(plain, shares, rows).ridges(plain, shares, rows)
            if precision is None
            else [
                ridge_of_size(table, cells, precision)
                for table, cells in zip(plain, shares, strict=True)
            ]
        )
        earlier = [] if start is None else _among(tables, start.coefficients)
        found = solve(plain, begun, ridges, begin=earlier, sweeps=sweeps)
        return _raked(
            tables,
            found,
            found.coefficients,
            found.coefficients[: len(singles)],
            ridges,
            [table.variances for table in plain],
        )
    return _two_steps(targets, len(singles), begun, start, sweeps)


def _two_steps(
    targets: Sequence[TableTarget], singles: int, base: Floats, start: Raked | None, sweeps: int
) -> Raked:
    """Tilt by columns, then fit everything."""
    columns = [supported(target) for target in combined(targets[:singles], targets[singles:])]
    plain = [column.target for column in columns]
    begun, rows = [shares_of(table, base) for table in plain], _worth(base)
    tilting = likely_sizes(plain, begun, rows).tilting_ridges(plain, begun, rows)
    earlier = [] if start is None else _among(columns, start.tilts)
    tilt = solve(plain, base, tilting, begin=earlier, sweeps=sweeps)

    tables = [supported(target) for target in targets]
    every = [table.target for table in tables]
    shares = [shares_of(table, tilt.masses) for table in every]
    by_column = {
        column.target.columns[0]: column.spread(cells, 0.0)
        for column, cells in zip(columns, shares, strict=False)
        if column.target.columns
    }
    interactions = [centred(table, by_column) for table in tables[singles:]]
    rows = _worth(tilt.masses)
    ridges = likely_sizes(interactions, shares[singles:], rows).ridges(every, shares, rows)
    found = solve(every, tilt.masses, ridges, begin=_untilted(tables, start), sweeps=sweeps)

    both = [
        first + second for first, second in zip(tilt.coefficients, found.coefficients, strict=False)
    ]
    joint = [one_after_the_other(*two) for two in zip(tilting, ridges, shares, strict=False)]
    return _raked(
        tables,
        found,
        [*both, *found.coefficients[singles:]],
        tilt.coefficients,
        [*joint, *ridges[singles:]],
        [*(table.variances for table in plain), *(table.variances for table in every[singles:])],
    )


def _untilted(tables: Sequence[Supported], start: Raked | None) -> list[Floats]:
    """What an earlier fit found on top of its tilt."""
    if start is None:
        return []
    tilts = [*start.tilts, *(np.zeros(len(old)) for old in start.coefficients[len(start.tilts) :])]
    return _among(tables, [old - tilt for old, tilt in zip(start.coefficients, tilts, strict=True)])


def _among(tables: Sequence[Supported], found: Sequence[Floats]) -> list[Floats]:
    """Of coefficients of whole tables, those of the cells that public rows have."""
    return [one[table.places] for table, one in zip(tables, found, strict=False)]


def _raked(
    tables: Sequence[Supported],
    found: Solved,
    coefficients: Sequence[Floats],
    tilts: Sequence[Floats],
    ridges: Sequence[Floats],
    variances: Sequence[Floats],
) -> Raked:
    def whole(parts: Sequence[Floats], elsewhere: float) -> tuple[Floats, ...]:
        return tuple(
            table.spread(part, elsewhere) for table, part in zip(tables, parts, strict=False)
        )

    return Raked(
        found.masses,
        whole(coefficients, 0.0),
        whole(ridges, LEAST_RIDGE),
        tuple(
            table.spread(part, float(part.mean()))
            for table, part in zip(tables, variances, strict=True)
        ),
        whole(tilts, 0.0),
        found.sweeps,
        found.gap,
    )


def _worth(masses: Floats) -> float:
    """How many rows of equal weight weighted rows are worth."""
    return float(masses.sum() ** 2 / (masses @ masses))


# How far public rows may be from the private ones, as the noisy tables themselves tell it.
#
# The share of a cell among private people differs from that among public rows for two reasons.
# Public rows are a sample: n of them leave a variance of v / n, v = p (1 - p). And they may have
# been chosen otherwise than by chance: if a cell's coefficient is of size t, its share moves by t
# v. So a difference has variance P = v / n + t^2 v^2 before noise of variance s^2 is added, and
# how likely each t is follows from the differences seen. Before any is seen, t = 0 has even odds,
# and others are the less likely the larger they are.
#
# Given t, a difference is best kept in the proportion P / (P + s^2). It is averaged over t, in
# proportion to how likely each is: where tables say little, that is a compromise, and where they
# say much, one t is left. A ridge c keeps v / (v + c) of it.

SIZES: Floats = np.concatenate([[0.0], np.geomspace(0.02, 5.0, 36)])
"""Sizes of coefficients that are tried: none, and from hardly any to a factor of exp(5)."""
NONE_AT_ALL = 0.5
RATE = 8.0
"""Beforehand sizes have an exponential law of mean 1/8. It matters where tables say little."""
LEAST_RIDGE = 1e-9
_LEAST_SPREAD = 1e-12


@dataclass(frozen=True)
class TiltSizes:
    """How likely each of `SIZES` is."""

    chances: Floats

    @property
    def mean(self) -> float:
        return float(self.chances @ SIZES)

    def ridges(
        self, tables: Sequence[TableTarget], shares: Sequence[Floats], rows: float
    ) -> list[Floats]:
        """Ridges for coefficients on top of rows that have these shares and are worth `rows`."""
        return [
            _ridge(cells, self._kept(table, cells, rows))
            for table, cells in zip(tables, shares, strict=True)
        ]

    def tilting_ridges(
        self, tables: Sequence[TableTarget], shares: Sequence[Floats], rows: float
    ) -> list[Floats]:
        """The same, for the part of each difference that is not by chance."""
        return [
            _ridge(cells, self._kept(table, cells, rows, by_chance=0.0))
            for table, cells in zip(tables, shares, strict=True)
        ]

    def _kept(
        self, table: TableTarget, shares: Floats, rows: float, by_chance: float = 1.0
    ) -> Floats:
        spread = _spread(shares)
        chosen, chance = SIZES[:, None] ** 2 * spread**2, spread / rows
        return self.chances @ ((chosen + by_chance * chance) / (chosen + chance + table.variances))


def likely_sizes(tables: Sequence[TableTarget], shares: Sequence[Floats], rows: float) -> TiltSizes:
    """What the differences between tables and shares say about the size of coefficients; cells are
    taken one by one."""
    logs = -RATE * SIZES
    logs[0] += np.log(NONE_AT_ALL)
    logs[1:] += np.log((1.0 - NONE_AT_ALL) / (len(SIZES) - 1))
    for table, cells in zip(tables, shares, strict=True):
        spread = _spread(cells)
        variance = SIZES[:, None] ** 2 * spread**2 + spread / rows + table.variances
        logs -= 0.5 * (np.log(variance) + (table.shares - cells) ** 2 / variance).sum(axis=1)
    chances = np.exp(logs - logs.max())
    return TiltSizes(chances / chances.sum())


def one_after_the_other(first: Floats, second: Floats, shares: Floats) -> Floats:
    """The ridge that keeps as much of a difference as two ridges do when the second gets what the
    first left."""
    spread = _spread(shares)
    return _ridge(shares, 1.0 - (first / (spread + first)) * (second / (spread + second)))


def ridge_of_size(table: TableTarget, shares: Floats, precision: float) -> Floats:
    """s^2 / (t^2 v), for coefficients that are known to be of size t = precision^(-1/2)."""
    return np.maximum(precision * table.variances / _spread(shares), LEAST_RIDGE)


def _ridge(shares: Floats, kept: Floats) -> Floats:
    part = np.clip(kept, 1e-9, 1.0 - 1e-12)
    return np.maximum(_spread(shares) * (1.0 - part) / part, LEAST_RIDGE)


def _spread(shares: Floats) -> Floats:
    return np.maximum(shares * (1.0 - shares), _LEAST_SPREAD)
