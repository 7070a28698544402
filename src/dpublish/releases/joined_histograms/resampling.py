"""The measurements of a joined release, made again of other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpublish.models.junction_tree.consistency import Ints
from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable
from dpublish.models.junction_tree.measured import Measured
from dpublish.models.public_prior import PublicPair, above_independence
from dpublish.releases.resampled import noise_like


def measured_again(
    measured: Measured, codes: Sequence[Ints], generator: np.random.Generator
) -> Measured:
    """Every published table, counted over rows of these codes, with noise of the stated law."""
    size = len(codes[0])
    label = np.zeros(size, dtype=np.int64) if measured.target is None else codes[measured.target]

    def counted(parts: Sequence[Ints], shape: tuple[int, ...], variance: float) -> np.ndarray:
        # a table that was not counted by label has one place for all of them
        cells = np.ravel_multi_index((*parts, np.minimum(label, shape[-1] - 1)), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        return counts + noise_like(generator, measured.noise, variance, shape)

    columns: list[MeasuredColumn | None] = []
    for place, column in enumerate(measured.columns):
        columns.append(
            None
            if column is None
            else replace(
                column, counts=counted([codes[place]], column.counts.shape, column.variance)
            )
        )
    tables: list[MeasuredTable] = []
    for table in measured.tables:
        parts = [
            group_of[codes[column]]
            for column, group_of in zip(table.columns, table.groups, strict=True)
        ]
        tables.append(replace(table, counts=counted(parts, table.counts.shape, table.variance)))
    prior = measured.prior
    if prior is not None:

        def checked(pair: PublicPair) -> PublicPair:
            sides = zip(pair.columns, pair.groups, strict=True)
            spot = tuple(group_of[codes[column]] for column, group_of in sides)
            inside = int(above_independence(pair.counts)[(*spot, label)].sum())
            noise = noise_like(generator, measured.noise, pair.variance, (1,))
            return replace(pair, check=inside + round(float(noise[0])))

        prior = replace(prior, pairs=tuple(checked(pair) for pair in prior.pairs))
    return replace(measured, columns=tuple(columns), tables=tuple(tables), prior=prior)
