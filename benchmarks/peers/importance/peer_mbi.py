"""Public rows reweighted to noisy marginals with mbi 2.0, in an environment of its own: IN.npz OUT.npz.

IN holds the public codes, the levels, and noisy tables (`table0`, ... with `columns0`, ... and `sigma0`, ...). The loss is
mbi's marginal loss and the solver its entropic mirror descent (250 steps), as in `mbi.experimental.public_support`, whose own
loop over cliques indexes a removed attribute and fails; that one line is written out here.
"""

from __future__ import annotations

import resource
import sys
import time

import jax
import numpy as np
from mbi import CliqueVector, Domain, Factor, LinearMeasurement, estimation
from mbi.experimental.public_support import entropic_mirror_descent


def main() -> None:
    given = np.load(sys.argv[1])
    public, levels, number = given["public"], given["levels"].tolist(), int(given["tables"])
    names = [str(column) for column in range(len(levels))]
    domain = Domain(names, levels)
    start, cpu = time.perf_counter(), time.process_time()
    logs = [
        LinearMeasurement(given[f"table{i}"], tuple(str(c) for c in given[f"columns{i}"]), float(given[f"sigma{i}"]))
        for i in range(number)
    ]
    loss, total, _ = estimation._initialize(domain, logs, None, None)
    both = jax.value_and_grad(loss)
    cliques = loss.cliques
    places = {clique: tuple(public[:, int(name)] for name in clique) for clique in cliques}

    def loss_and_grad(weights):
        arrays = {}
        for clique in cliques:
            sizes = [levels[int(name)] for name in clique]
            flat = np.ravel_multi_index(places[clique], sizes)
            counts = np.bincount(flat, weights=weights, minlength=int(np.prod(sizes))).reshape(sizes)
            arrays[clique] = Factor(domain.project(clique), counts)
        value, slope = both(CliqueVector(domain, cliques, arrays))
        found = np.zeros(len(weights))
        for clique in cliques:
            found += np.asarray(slope[clique].values)[places[clique]]
        return float(value), found

    weights = entropic_mirror_descent(loss_and_grad, np.ones(len(public)), total)
    np.savez(
        sys.argv[2],
        weights=weights,
        seconds=time.perf_counter() - start,
        cpu=time.process_time() - cpu,
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


if __name__ == "__main__":
    main()
