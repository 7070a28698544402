"""Does it depend on how many columns matter, whether a projected histogram or a classifier of all
columns serves, where the plan of the first says so? On random shapes of 16 to 33 columns of mostly
two levels, half of the tables with one to three columns that matter, half with six or more. And:
would more columns do, on such tables; and both methods, each with a part of epsilon?"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import dpublish as dp
from dpublish.privacy.cost import Cost

from . import areas
from .tables import Floats, generate

EPSILONS, CYCLE = (0.3, 1.0, 3.0), (1.0, 0.3, 1.0, 3.0)
WORDS, UNSURE = "say a little about", "If you cannot tell"
CHOICES = {3: "13/100", 4: "1/10", 5: "1/10", 6: "2/25", 8: "3/50"}
"""Numbers of choices that are tried instead of the default, and the share of epsilon of each."""


def shape(number: int) -> tuple[float, dict[str, Any]]:
    """Epsilon, and a table of mostly two levels, of numbers, or of levels and numbers, with 50 to
    400 rows times epsilon per feature."""
    rng = np.random.default_rng([78, number])
    kind, epsilon = number // 2 % 3, EPSILONS[number // 6 % 3]
    if kind == 0:
        levels, numbers = (2,) * int(rng.integers(10, 25)), int(rng.integers(0, 7))
    elif kind == 1:
        levels, numbers = (), int(rng.integers(10, 40))
    else:
        drawn = rng.integers(2, 8, size=int(rng.integers(8, 24)))
        levels, numbers = tuple(int(one) for one in drawn), int(rng.integers(0, 8))
    columns = len(levels) + numbers
    features = 1 + numbers + sum(one - 1 for one in levels)
    share = float(np.exp(rng.uniform(np.log(0.08), np.log(0.4))))
    many = number % 2
    return epsilon, {
        "rows": int(min(40_000, rng.uniform(50, 400) * features / epsilon / 0.8)),
        "levels": levels,
        "numbers": numbers,
        "informative": int(rng.integers(max(5, columns // 3), columns + 1))
        if many
        else int(rng.integers(1, 4)),
        "strength": float(np.exp(rng.uniform(np.log(0.6), np.log(2)))),
        "base": float(np.log(share / (1 - share))),
    }


def report(shapes: int, seeds: int, first: int = 0) -> None:
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    either: list[float] = []
    for number in range(first, first + shapes):
        epsilon, made = shape(number)
        table = generate("many", 9000 * number + 3, **made)
        plan = dp.ProjectedHistogram().plan(
            table.schema(len(table.split(0)[0])), Cost.pure(epsilon)
        )
        if not any(WORDS in sentence for sentence in plan.sentences):
            continue
        areas_of = [
            (areas.projected(table, seed, epsilon), areas.classifier(table, seed, epsilon))
            for seed in range(seeds)
        ]
        projected, classifier = np.mean(areas_of, axis=0)
        if any("either may be better" in one for one in plan.sentences) and number % 2 == 0:
            either.append(projected - classifier)
        else:
            found[number % 2 == 1].append((projected, classifier))
        print(
            f"{number}: {made['rows']} x {len(table.columns)}, epsilon {epsilon:g}, "
            f"{made['informative']} matter: projected {projected:.3f}, classifier {classifier:.3f}",
            flush=True,
        )
    for many, lines in found.items():
        if not lines:
            continue
        mine, other = np.array(lines).T
        right = mine <= other if many else mine >= other
        print(
            f"{'many' if many else 'few'} matter: {len(lines)} tables, as the sentence says in "
            f"{right.sum()}; mean projected {mine.mean():.3f}, classifier {other.mean():.3f}; "
            f"largest difference the other way {np.max(mine - other if many else other - mine):.3f}"
        )
    if either:
        print(
            f"few matter, of mostly numbers: {len(either)} tables, the projected one ahead in "
            f"{sum(one > 0 for one in either)}, by {min(either):+.3f} to {max(either):+.3f}"
        )


def report_both(shapes: int, seeds: int, first: int = 0) -> None:
    """Either, and both together, where the plan names one for those who cannot tell."""
    found: dict[str, list[Floats]] = {"few": [], "many": []}
    for number in range(first, first + shapes):
        epsilon, made = shape(number)
        table = generate("many", 9000 * number + 3, **made)
        plan = dp.ProjectedHistogram().plan(
            table.schema(len(table.split(0)[0])), Cost.pure(epsilon)
        )
        if not any(UNSURE in sentence for sentence in plan.sentences):
            continue
        methods = (areas.projected, areas.classifier, areas.both)
        drawn = [generate("many", 9000 * number + 3 + seed, **made) for seed in range(seeds)]
        runs = [[run(one, seed, epsilon) for run in methods] for seed, one in enumerate(drawn)]
        kind = "many" if number % 2 else "few"
        found[kind].append(np.mean(runs, axis=0))
        shown = " ".join(f"{value:.3f}" for value in found[kind][-1])
        print(f"{number}: epsilon {epsilon:g}, {kind} matter: {shown}", flush=True)
    for kind, lines in found.items():
        if not lines:
            continue
        cells, line, both = np.array(lines).T
        gain, best = both - cells, np.maximum(cells, line)
        print(
            f"{kind} matter: {len(lines)} tables; projected {cells.mean():.3f}, classifier "
            f"{line.mean():.3f}, both {both.mean():.3f}, beside projected {gain.mean():+.4f} +- "
            f"{np.std(gain, ddof=1) / np.sqrt(len(gain)):.4f}, from {gain.min():+.3f}; classifier "
            f"beside projected {np.mean(line - cells):+.4f}, ahead or even in "
            f"{np.sum(line >= cells)}; behind the better by more than 0.02: projected "
            f"{np.sum(best > cells + 0.02)}, classifier "
            f"{np.sum(best > line + 0.02)}, both {np.sum(best > both + 0.02)}"
        )


def two_levels(number: int) -> dict[str, Any]:
    """One to all columns matter."""
    rng = np.random.default_rng([77, number])
    two, numbers, three = (int(rng.integers(*ends)) for ends in ((12, 24), (0, 7), (0, 4)))
    columns = two + numbers + three
    share = float(np.exp(rng.uniform(np.log(0.08), np.log(0.4))))
    return {
        "rows": int(np.exp(rng.uniform(np.log(3000), np.log(20_000)))),
        "levels": (2,) * two + (3,) * three,
        "numbers": numbers,
        "informative": max(1, int(columns ** rng.uniform(0, 1))),
        "strength": float(np.exp(rng.uniform(np.log(0.6), np.log(2)))),
        "base": float(np.log(share / (1 - share))),
    }


def more_choices(shapes: int, seeds: int) -> None:
    tried = [{"max_k": most, "gamma": str(1 - most * Fraction(x))} for most, x in CHOICES.items()]
    found = []
    for number in range(shapes):
        table, epsilon = generate("two", 9000 * number + 3, **two_levels(number)), CYCLE[number % 4]
        runs = [
            [areas.projected(table, seed, epsilon, **own) for own in ({}, *tried)]
            + [areas.classifier(table, seed, epsilon)]
            for seed in range(seeds)
        ]
        found.append(np.mean(runs, axis=0))
        print(number, epsilon, " ".join(f"{value:.3f}" for value in found[-1]), flush=True)
    default, *others = np.array(found).T
    print(f"{len(found)} tables: default {default.mean():.3f}")
    names = [f"{most} of {float(Fraction(x)):g}" for most, x in CHOICES.items()] + ["classifier"]
    for name, other in zip(names, others, strict=True):
        error = np.std(other - default, ddof=1) / np.sqrt(len(found))
        print(f"{name:12} {np.mean(other - default):+.3f} +- {error:.3f}")
