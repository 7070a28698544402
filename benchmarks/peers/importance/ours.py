"""dpublish's weights on the public rows: python ours.py DATA SETTING VARIANT SEED OUT.npz, in a
process of its own."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from settings import setting

from dpublish.methods.importance_weights.mechanism import ImportanceWeights
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

DELTA = "1e-9"
VARIANTS = {
    "pure, main effects": (Cost.pure(1), {"choose_pairs": 0}),
    "pure, default": (Cost.pure(1), {}),
    "delta 1e-9, 20 chosen pairs": (Cost.approximate(1, DELTA), {"choose_pairs": 20}),
    "delta 1e-9, all pairs": (Cost.approximate(1, DELTA), {"choose_pairs": 0}),
}


def main() -> None:
    data, name, variant, seed, target = sys.argv[1:6]
    given = setting(name, Path(data))
    cost, options = VARIANTS[variant]
    if variant.endswith("all pairs"):
        options = options | {"pairs": [f"*{column}" for column in given.names]}
    for codes, draw in (
        ([column[:500] for column in given.private_codes], 0),
        (given.private_codes, int(seed)),
    ):
        # the first round, on a few rows, leaves compiled code in the cache, as after the first use
        start, cpu = time.perf_counter(), time.process_time()
        method = ImportanceWeights(public=given.public, columns=given.names, **options)  # type: ignore[arg-type]
        plan = method.plan(given.schema, cost)
        content: Any = method.run(SeededNoise(draw), codes, plan)
        timing = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    table, facts = content.tables["coefficients"], content.facts
    axes = [[place] for place in range(len(given.names))] + [list(pair) for pair in facts["pairs"]]
    groups, values = np.asarray(table["group"]), np.asarray(table["value"], dtype=float)
    steps = plan.settings.amounts
    amounts = [*steps.tables, *[steps.pair_table] * (len(axes) - len(steps.tables))]
    parts: dict[str, Any] = {"tables": len(axes)}
    for i, axis in enumerate(axes):  # what was bought, for a peer to fit too
        parts |= {
            f"table{i}": values[groups == i],
            f"columns{i}": axis,
            f"sigma{i}": steps.variance(amounts[i]) ** 0.5,
        }
    weights = np.asarray(content.tables["weights"]["weight"])
    np.savez(
        target, weights=weights, pairs=len(facts["pairs"]), megabytes=_peak(), **timing, **parts
    )


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
