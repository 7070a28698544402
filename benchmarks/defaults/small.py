"""Many numbers and few rows: is a projected histogram or a classifier of all columns better there,
and is either better than chance? Tested on 4,000 fresh rows, so that splits say little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpublish as dp
from dpublish.privacy.cost import Cost

from . import areas
from .tables import Table, generate

EPSILONS, TESTED = (0.3, 1.0, 3.0), 4000


@dataclass(frozen=True)
class Tested(Table):
    def split(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        order = np.random.default_rng(1000 + seed).permutation(self.labels.size)
        return order[TESTED:], order[:TESTED]


def shape(number: int) -> dict[str, Any]:
    """100 to 3,000 rows to learn from, 30 to 120 numbers and up to ten columns with levels."""
    rng = np.random.default_rng([80, number])
    numbers, levels = int(np.exp(rng.uniform(np.log(30), np.log(120)))), int(rng.integers(0, 11))
    share = float(np.exp(rng.uniform(np.log(0.1), np.log(0.5))))
    return {
        "rows": TESTED + int(np.exp(rng.uniform(np.log(100), np.log(3000)))),
        "levels": tuple(int(one) for one in rng.integers(2, 5, size=levels)),
        "numbers": numbers,
        "informative": max(1, int((numbers + levels) ** rng.uniform(0, 1))),
        "strength": float(np.exp(rng.uniform(np.log(0.6), np.log(3)))),
        "base": float(np.log(share / (1 - share))),
        "centre": rng.choice([None, 0.3, 0.5]),
        "spread": float(rng.uniform(0.05, 0.25)),
    }


def report(shapes: int, seeds: int, first: int = 0) -> None:
    """By whether the plan of the classifier warns."""
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for number in range(first, first + shapes):
        made, epsilon = shape(number), EPSILONS[number % len(EPSILONS)]
        table = generate("small", 9000 * number + 5, **made)
        table = Tested(table.name, table.columns, table.labels)
        schema = table.schema(made["rows"] - TESTED)
        warned = bool(dp.PrivateClassifier().plan(schema, Cost.pure(epsilon)).warnings)
        runs = [
            (areas.projected(table, seed, epsilon), areas.classifier(table, seed, epsilon))
            for seed in range(seeds)
        ]
        projected, classifier = np.mean(runs, axis=0)
        found[warned].append((projected, classifier))
        print(
            f"{number}: {made['rows'] - TESTED} x {len(table.columns)}, epsilon {epsilon:g}, "
            f"{made['informative']} matter: projected {projected:.3f}, classifier "
            f"{classifier:.3f}{', warned' if warned else ''}",
            flush=True,
        )
    for warned, lines in found.items():
        if len(lines) < 2:
            continue
        mine, other = np.array(lines).T
        error = np.std(mine - other, ddof=1) / np.sqrt(len(lines))
        print(
            f"{'warned' if warned else 'not warned'}: {len(lines)} tables, classifier below 0.6 in "
            f"{np.sum(other < 0.6)}, projected in {np.sum(mine < 0.6)}; mean projected "
            f"{mine.mean():.3f}, classifier {other.mean():.3f}, difference "
            f"{np.mean(mine - other):+.3f} +- {error:.3f}; classifier as good or better in "
            f"{np.sum(other >= mine)}, projected ahead by 5% in {np.sum(mine > 1.05 * other)}, "
            f"classifier by 5% in {np.sum(other > 1.05 * mine)}"
        )
