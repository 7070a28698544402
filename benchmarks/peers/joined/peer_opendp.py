"""AIM or MST as shipped in OpenDP (opendp.extras.mbi), in an environment of its own: IN.npz OUT.npz EPSILON DELTA SEED [mst].

OpenDP draws its own randomness; the seed is only part of the file name.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import opendp.prelude as dp
import polars as pl
from opendp.extras.mbi import AIM, MST, make_contingency_table

dp.enable_features("contrib", "honest-but-curious")


def main():
    source, target, epsilon, delta = sys.argv[1:5]
    held = np.load(source)
    codes, levels = held["train"], held["levels"].tolist()
    names = [f"c{i}" for i in range(codes.shape[1])]
    frame = pl.LazyFrame({name: codes[:, i].astype(np.int64) for i, name in enumerate(names)})
    start = time.perf_counter()
    measurement, _, _ = make_contingency_table(
        input_domain=dp.lazyframe_domain([dp.series_domain(name, dp.atom_domain(T=dp.i64)) for name in names]),
        input_metric=dp.frame_distance(dp.symmetric_distance()),
        output_measure=dp.zero_concentrated_divergence(),
        d_in=[dp.polars.Bound(per_group=1)],
        d_out=_rho(float(epsilon), float(delta)),
        keys={name: list(range(count)) for name, count in zip(names, levels, strict=True)},
        algorithm=MST() if "mst" in sys.argv[5:] else AIM(queries=2),
    )
    table = measurement(frame)
    drawn = table.synthesize(rows=len(codes)) if _takes_rows(table) else table.synthesize()
    rows = np.stack([drawn[name].to_numpy().astype(np.int64) for name in names], axis=1)
    np.savez(target, rows=rows, seconds=time.perf_counter() - start)


def _takes_rows(table):
    import inspect

    return "rows" in inspect.signature(table.synthesize).parameters


def _rho(epsilon, delta):
    from peer_mst import largest_rho

    return largest_rho(epsilon, delta)


if __name__ == "__main__":
    main()
