"""By which score a projected histogram is to choose its columns, and what contrast is charged for
cells: on random shapes of three kinds (rare labels; few rows; rows enough), paired by table, split
and noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.methods.projected_histogram import scores

from . import areas
from .tables import generate

EPSILONS = (1.0, 0.3, 1.0, 3.0)
TRIED: dict[str, tuple[str, Fraction]] = {
    "prediction": ("prediction", scores.CHANCE),
    "contrast, 0.08": ("contrast", Fraction(2, 25)),
    "contrast, 0.15": ("contrast", Fraction(3, 20)),
    "contrast, 0.2": ("contrast", Fraction(1, 5)),
}


def made(
    number: int,
    kind: int,
    rows: tuple[int, int],
    columns: tuple[int, int],
    wide: float,
    positives: tuple[float, float],
    informative: tuple[float, float],
) -> dict[str, Any]:
    rng = np.random.default_rng([kind, number])
    count = int(rng.integers(*columns))
    many = 1 / (1 + 3 * rng.uniform(0, wide) * rng.integers(0, 2))
    share = float(np.exp(rng.uniform(*np.log(positives))))
    return {
        "rows": int(np.exp(rng.uniform(*np.log(rows)))),
        "levels": tuple(
            int(one) for one in 2 + np.minimum(rng.geometric(many, size=count) - 1, 20)
        ),
        "informative": max(1, int(count ** rng.uniform(*informative))),
        "strength": float(np.exp(rng.uniform(np.log(0.7), np.log(2.2)))),
        "base": float(np.log(share / (1 - share))),
    }


KINDS: dict[str, Callable[[int], dict[str, Any]]] = {
    "rare label": lambda number: made(
        number, 43, (2000, 15_000), (8, 30), 1.0, (0.03, 0.15), (0.4, 1)
    ),
    "few rows": lambda number: made(number, 44, (250, 3000), (4, 30), 1.2, (0.15, 0.5), (0.2, 1)),
    "rows enough": lambda number: made(
        number, 41, (3000, 20_000), (10, 25), 1.2, (0.05, 0.4), (0.4, 1)
    ),
}


@contextmanager
def charged(chance: Fraction) -> Iterator[None]:
    kept = scores.CHANCE
    scores.CHANCE = chance
    try:
        yield
    finally:
        scores.CHANCE = kept


def report(shapes: int, seeds: int) -> None:
    found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for number in range(shapes):
        epsilon = EPSILONS[number % len(EPSILONS)]
        for kind, shape in KINDS.items():
            table = generate(kind, 1000 * number + 5, **shape(number))
            lines = []
            for seed in range(seeds):
                line = []
                for score, chance in TRIED.values():
                    with charged(chance):
                        line.append(areas.projected(table, seed, epsilon, score=score))
                lines.append(line)
            found[kind].append(np.mean(lines, axis=0))
    for kind, lines in {**found, "all": [one for part in found.values() for one in part]}.items():
        data = np.array(lines)
        gains = data - data[:, :1]
        print(f"{kind} ({len(data)} tables), mean AUC {data[:, 0].mean():.3f} for prediction")
        for name, gain in zip(TRIED, gains.T, strict=True):
            error = gain.std() / np.sqrt(len(gain))
            print(f"  {name:16} {gain.mean():+.4f} +- {error:.4f}, least {gain.min():+.3f}")
