"""How many columns a projected histogram is to choose, and for which share of epsilon each: over
random shapes and four epsilons, by rows times epsilon per logarithm of the number of columns."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

from . import areas
from .shapes import CHOSEN, EPSILONS, drawn

TRIED = {
    f"{most} of {share}": (most, Fraction(share))
    for most, share in (
        *((1, "1/2"), (2, "3/10"), (3, "1/5"), (4, "3/20"), (5, "1/10"), (6, "1/20")),
    )
}
LIMITS = (0, 50, 150, 400, 1000, 3000, 10_000, np.inf)


def report(shapes: int, seeds: int) -> None:
    found = []
    for number in CHOSEN[:shapes]:
        for seed in range(seeds):
            table = drawn(number, seed)
            rows = len(table.split(seed)[0])
            for epsilon in EPSILONS:
                line = [
                    areas.projected(table, seed, epsilon, max_k=most, gamma=str(1 - most * share))
                    for most, share in TRIED.values()
                ]
                clear = rows * epsilon / np.log(max(2, len(table.columns)))
                found.append((clear, areas.projected(table, seed, epsilon), *line))
    print(f"{'n epsilon / ln(columns)':28} runs   default " + " ".join(f"{x:>9}" for x in TRIED))
    data = np.array(found)
    for low, high in itertools.pairwise(LIMITS):
        inside = data[(data[:, 0] >= low) & (data[:, 0] < high), 1:]
        if len(inside):
            means = " ".join(f"{value:9.3f}" for value in inside.mean(axis=0))
            print(f"{low:10,.0f} to {high:10,.0f} {len(inside):9} {means}")
    print(f"{'all':24} {len(data):9} " + " ".join(f"{x:9.3f}" for x in data[:, 1:].mean(axis=0)))
