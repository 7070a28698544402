"""Random shapes of tables, for rules that must hold over many: what plans warn of, and when.

A shape fixes what a curator would declare (rows, levels, numbers) and how the label comes about.
Shapes are drawn by number, so that rules can be chosen on some and checked on others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .tables import Table, generate

EPSILONS = (0.1, 0.3, 1.0, 3.0)
CHOSEN, FRESH = range(1000, 1150), range(9100, 9200)
"""Numbers of the shapes that rules are chosen on, and of those that they are checked on."""


def shape(number: int) -> dict[str, Any]:
    """What `generate` takes: 200 to 40,000 rows, 3 to 100 columns with levels, numbers or both, of
    which from one to all move the label, weakly to strongly."""
    rng = np.random.default_rng([2012, number])
    rows = int(np.exp(rng.uniform(np.log(200), np.log(40_000))))
    columns = int(np.exp(rng.uniform(np.log(3), np.log(100))))
    numbers = int(columns * rng.choice([0.0, 1.0, rng.uniform()]))
    many = rng.uniform(0, 1.5)
    levels = 2 + np.minimum(rng.geometric(1 / (1 + 3 * many), size=columns - numbers) - 1, 40)
    return {
        "rows": rows,
        "levels": tuple(int(one) for one in levels),
        "numbers": numbers,
        "informative": max(1, int(columns ** rng.uniform(0, 1))),
        "strength": float(np.exp(rng.uniform(np.log(0.5), np.log(3)))),
        "base": float(rng.choice([0.0, rng.uniform(-2.5, 0)])),
        "centre": rng.choice([None, 0.3, 0.5]),
        "spread": float(rng.uniform(0.05, 0.25)),
    }


def drawn(number: int, seed: int) -> Table:
    return generate(f"shape {number}", 1000 * number + seed, **shape(number))


def measure(
    numbers: Sequence[int],
    methods: dict[str, Callable[[Table, int, float], float | None]],
    seeds: int,
    out: Path,
    epsilons: Sequence[float] = EPSILONS,
    only: Callable[[int, float], bool] | None = None,
) -> None:
    """One line per shape and epsilon: the AUC of each method at each seed. What the file has is not
    run again."""
    done = {(line["shape"], line["epsilon"]) for line in read(out)} if out.exists() else set()
    with out.open("a") as file:
        for number in numbers:
            for epsilon in epsilons:
                if (number, epsilon) in done or (only is not None and not only(number, epsilon)):
                    continue
                tables = [drawn(number, seed) for seed in range(seeds)]
                found = {
                    name: [method(table, seed, epsilon) for seed, table in enumerate(tables)]
                    for name, method in methods.items()
                }
                file.write(json.dumps({"shape": number, "epsilon": epsilon, **found}) + "\n")
                file.flush()


def read(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        yield from map(json.loads, file)
