"""Regularisation, shortening and the constant of private-classifier, on random shapes of 200 to
50,000 rows, 5 to 60 columns and 5 to 50% positives; and the defaults beside diffprivlib.

`constants` moves one constant at a time. `against` runs the defaults and diffprivlib with four C on
the same tables and splits, and counts how often the plan's warning is right. Both do so, on demand,
on tables of few columns and rare positives, where one column of two levels says nearly all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

import dpublish as dp
from dpublish.methods.private_classifier import mechanism
from dpublish.models import linear_features
from dpublish.privacy.cost import Cost

from . import areas
from .tables import Column, Floats, Table, generate

EPSILONS = (0.1, 0.3, 1.0, 3.0)
INVERSES = (1.0, 0.1, 0.01, 0.001)
WHERE = {
    "CURVED": mechanism,
    "FLOOR": mechanism,
    "CONSTANT_FLOOR": mechanism,
    "SHORTENED": linear_features,
    "CONSTANT_SHARE": linear_features,
}
TRIED: dict[str, dict[str, Any]] = {
    "default": {},
    "curved 1": {"CURVED": 1},
    "curved 4": {"CURVED": 4},
    "curved 64": {"CURVED": 64},
    "floor 3": {"FLOOR": 3},
    "floor 30": {"FLOOR": 30},
    "constant 10": {"CONSTANT_FLOOR": 10},
    "constant 160": {"CONSTANT_FLOOR": 160},
    "short 0.35": {"SHORTENED": 0.35},
    "short 0.7": {"SHORTENED": 0.7},
    "share 0.06": {"CONSTANT_SHARE": Fraction(1, 16)},
    "share 0.35": {"CONSTANT_SHARE": Fraction(7, 20)},
}


def shape(number: int) -> dict[str, Any]:
    rng = np.random.default_rng([2026, number])
    rows = int(np.exp(rng.uniform(np.log(200), np.log(50_000))))
    columns = int(np.exp(rng.uniform(np.log(5), np.log(60))))
    numbers = int(columns * rng.choice([0.0, 1.0, rng.uniform()]))
    many = 1 / (1 + 3 * rng.uniform(0, 1.2))
    levels = 2 + np.minimum(rng.geometric(many, size=columns - numbers) - 1, 20)
    positives = np.exp(rng.uniform(np.log(0.05), np.log(0.5)))
    return {
        "rows": rows,
        "levels": tuple(int(one) for one in levels),
        "numbers": numbers,
        "informative": max(1, int(columns ** rng.uniform(0.3, 1))),
        "strength": float(np.exp(rng.uniform(np.log(0.5), np.log(3)))),
        "base": float(np.log(positives / (1 - positives))),
        "centre": rng.choice([None, 0.3, 0.5]),
        "spread": float(rng.uniform(0.05, 0.25)),
    }


def drawn(number: int, seed: int) -> Table:
    return generate(f"shape {number}", 1000 * number + seed, **shape(number))


def rare_shape(number: int) -> tuple[dict[str, Any], float, float]:
    """What `generate` takes for 1,000 to 20,000 rows, 3 to 15% positives and 2 to 13 columns that
    say little; and how many rows of either label have the one level that says nearly all."""
    rng = np.random.default_rng([1961, number])
    columns = int(rng.integers(2, 14))
    numbers = round(columns * rng.choice([0.0, 1.0, rng.uniform()]))
    positives = np.exp(rng.uniform(np.log(0.03), np.log(0.15)))
    rows = int(np.exp(rng.uniform(np.log(1000), np.log(20_000))))
    levels = 2 + np.minimum(rng.geometric(0.6, size=columns - numbers) - 1, 6)
    made = {
        "rows": rows,
        "levels": tuple(int(one) for one in levels),
        "numbers": numbers,
        "informative": int(rng.integers(1, columns + 1)),
        "strength": float(rng.uniform(0.2, 0.8)),
        "base": float(np.log(positives / (1 - positives))),
        "centre": rng.choice([None, 0.3, 0.5]),
        "spread": float(rng.uniform(0.05, 0.2)),
    }
    others = float(np.exp(rng.uniform(np.log(0.02), np.log(0.4))))
    return made, others, float(rng.uniform(0.6, 0.98))


def drawn_rare(number: int, seed: int) -> Table:
    made, others, positives = rare_shape(number)
    table = generate(f"rare {number}", 1000 * number + seed, **made)
    rng = np.random.default_rng([1961, number, seed])
    tells = rng.random(made["rows"]) < np.where(table.labels == 1, positives, others)
    return Table(table.name, (*table.columns, Column(tells.astype(np.int64), 2)), table.labels)


Draw = Callable[[int, int], Table]


@contextmanager
def moved(constants: dict[str, Any]) -> Iterator[None]:
    """The classifier with other constants. Rows that are longer than its proof allows for come up
    with some of them: a simulation."""
    kept = {name: getattr(WHERE[name], name) for name in constants}
    allowed = linear_features.LinearFeatures.longest_allowed
    linear_features.LinearFeatures.longest_allowed = property(lambda self: 4)  # type: ignore[assignment]
    for name, value in constants.items():
        setattr(WHERE[name], name, value)
    try:
        yield
    finally:
        linear_features.LinearFeatures.longest_allowed = allowed  # type: ignore[method-assign]
        for name, value in kept.items():
            setattr(WHERE[name], name, value)


def constants(shapes: int, seeds: int, draw: Draw = drawn) -> None:
    found = []
    for number, seed, epsilon in itertools.product(range(shapes), range(seeds), EPSILONS):
        table, line = draw(number, seed), []
        for changed in TRIED.values():
            with moved(changed):
                line.append(areas.classifier(table, seed, epsilon))
        found.append(line)
    gains = np.array(found) - np.array(found)[:, :1]
    print(f"{len(found)} runs, mean AUC {np.mean(found, axis=0)[0]:.4f}")
    for name, gain in zip(TRIED, gains.T, strict=True):
        print(f"{name:14} {gain.mean():+.4f} +- {gain.std() / np.sqrt(len(gain)):.4f}")


def against(
    shapes: int, seeds: int, first: int = 1000, *, again: int = 0, draw: Draw = drawn
) -> None:
    """Shapes from `first` on: no constant was compared on them. Where the classifier is behind
    without a warning, few seeds may be why: those are run with `again` fresh ones."""
    lines, behind = [], []
    for number, epsilon in itertools.product(range(first, first + shapes), EPSILONS):
        table = draw(number, 0)
        schema = table.schema(len(table.split(0)[0]))
        plan = dp.PrivateClassifier().plan(schema, Cost.pure(epsilon))
        ours, theirs = beside(draw, number, epsilon, range(seeds))
        best = theirs.mean(axis=1)
        lines.append((ours.mean(), best[0], best.max(), bool(plan.warnings)))
        print(number, epsilon, " ".join(f"{float(value):.3f}" for value in lines[-1]), flush=True)
        if best.max() > ours.mean() + 0.01 and not plan.warnings:
            behind.append((number, epsilon))
    mine, default, best, warned = np.array(lines, dtype=float).T
    told = warned > 0
    print(
        f"{len(mine)} tables: mean AUC {mine.mean():.3f}, diffprivlib C = 1 {default.mean():.3f}, "
        f"best of four C {best.mean():.3f}; below the best by more than 0.01: "
        f"{np.sum(best > mine + 0.01)}, of them warned {np.sum((best > mine + 0.01) & told)}; "
        f"{told.sum()} warnings, {np.mean(mine[told] < 0.6):.0%} right (AUC below 0.6), "
        f"{np.sum((mine > 1.05 * best)[told & (best > 0.6)])} where it wins by 5%"
    )
    for number, epsilon in behind if again else ():
        ours, theirs = beside(draw, number, epsilon, range(seeds, seeds + again))
        best = theirs[theirs.mean(axis=1).argmax()]
        error = np.std(best - ours, ddof=1) / np.sqrt(again)
        print(
            f"again {number}, epsilon {epsilon:g}: classifier {ours.mean():.3f}, best C "
            f"{best.mean():.3f}, ahead by {np.mean(best - ours):+.3f} +- {error:.3f}",
            flush=True,
        )


def beside(draw: Draw, number: int, epsilon: float, seeds: Iterable[int]) -> tuple[Floats, Floats]:
    """The AUC of the classifier by seed, and of diffprivlib by C and seed."""
    tables = [(seed, draw(number, seed)) for seed in seeds]
    ours = [areas.classifier(table, seed, epsilon) for seed, table in tables]
    theirs = [
        [areas.diffprivlib(table, seed, epsilon, inverse) for seed, table in tables]
        for inverse in INVERSES
    ]
    return np.array(ours), np.array(theirs, dtype=float)
