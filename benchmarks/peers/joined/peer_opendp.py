"""AIM or MST as OpenDP ships them (opendp.extras.mbi), default settings, the levels given as public
keys: word `aim` or `mst`. Rows are drawn from its model; with the word `round` in its default way,
which rounds.

OpenDP draws its own randomness and takes no seed: runs differ, and none can be repeated.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import polars as pl
from opendp.extras.mbi import AIM, MST, make_contingency_table
from peer import largest_rho, task

dp.enable_features("contrib", "honest-but-curious")


def affordable(rho: float, choices: int) -> float:
    """The largest rho, within a billionth, that OpenDP's MST can spend.

    It splits the share for its choices evenly and adds the parts up again with rounding upwards;
    for most budgets the sum comes out a few units in the last place too high, and the call fails
    with "insufficient budget". This follows its steps.
    """
    for step in range(100_000):
        offered = rho * (1 - step * 1e-14)
        rest = _below(_below(offered - offered * 0.5))
        share = _below(_below(rest - rest * 0.9))
        part, spent = _below(share / choices), 0.0
        for _ in range(choices):
            nearest = spent + part
            short = Fraction(nearest) < Fraction(spent) + Fraction(part)
            spent = math.nextafter(nearest, math.inf) if short else nearest
        if spent <= share:
            return offered
    raise SystemExit("no budget that OpenDP can split")


def _below(number: float) -> float:
    return math.nextafter(number, -math.inf)


def main() -> None:
    given = task()
    frame = pl.LazyFrame({name: given.codes[:, i] for i, name in enumerate(given.columns)})
    given.start()
    measurement, _, _ = make_contingency_table(
        input_domain=dp.lazyframe_domain(
            [dp.series_domain(name, dp.atom_domain(T=dp.i64)) for name in given.columns]
        ),
        input_metric=dp.frame_distance(dp.symmetric_distance()),
        output_measure=dp.zero_concentrated_divergence(),
        d_in=[dp.polars.Bound(per_group=1)],
        d_out=affordable(largest_rho(given.epsilon, given.delta), len(given.columns) - 1),
        keys={
            name: list(range(count))
            for name, count in zip(given.columns, given.levels, strict=True)
        },
        algorithm=MST() if "mst" in given.words else AIM(),
    )
    way = "round" if "round" in given.words else "sample"
    drawn = measurement(frame).synthesize(rows=len(given.codes), method=way)
    # OpenDP adds a level for values outside the keys, and noise may fill it: those cells become
    # level 0
    rows = np.stack(
        [drawn[name].cast(pl.Int64).fill_null(0).to_numpy() for name in given.columns], axis=1
    )
    given.answer(rows=rows)


if __name__ == "__main__":
    main()
