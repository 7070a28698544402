"""Public rows reweighted to noisy tables with mbi 2.0, in an environment of its own: IN.npz
OUT.npz.

IN holds the public codes, the levels, and noisy tables (`table0`, ... with `columns0`, ... and
`sigma0`, ...). The estimator is mbi's ReweightedDatasetEstimator with the optimizer that its
documentation names and the default number of steps (1,000).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import optax
from mbi import Dataset, Domain, LinearMeasurement
from mbi.extensions import ReweightedDatasetEstimator


def main() -> None:
    given = np.load(sys.argv[1])
    public, levels, number = given["public"], given["levels"].tolist(), int(given["tables"])
    names = [str(column) for column in range(len(levels))]
    domain = Domain(names, levels)
    start, cpu = time.perf_counter(), time.process_time()
    logs = [
        LinearMeasurement(
            given[f"table{i}"],
            tuple(str(c) for c in given[f"columns{i}"]),
            float(given[f"sigma{i}"]),
        )
        for i in range(number)
    ]
    seed = Dataset({name: public[:, i] for i, name in enumerate(names)}, domain)
    found = ReweightedDatasetEstimator(seed_data=seed, optimizer=optax.adam(0.1)).estimate(
        domain, logs
    )
    weights = np.asarray(found.weights, dtype=float)
    np.savez(
        sys.argv[2],
        weights=weights,
        seconds=time.perf_counter() - start,
        cpu=time.process_time() - cpu,
        megabytes=_peak(),
    )


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
