"""Are the warnings of plans right? Over random shapes of tables and four epsilons.

The projected histogram's warning names the classifier: it is right where the mean AUC of that is at
least as high, and none may fall where the projected histogram is ahead by 5% or more. The
classifier's warning says that it is likely to be little better than chance: it is right where the
mean AUC is below 0.6.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dpublish as dp
from dpublish.curator.predicting import expected_areas, recommend
from dpublish.declare.schema import Schema
from dpublish.privacy.cost import Cost

from . import areas
from .shapes import CHOSEN, FRESH, drawn, measure, read, shape
from .tables import Column, Table


def check(seeds: int, out: Path, *, fresh: bool, warned_only: bool = False) -> None:
    """Measure, as far as the file has not got it, and count. What no plan warns of is left out on
    demand: a shorter run, which says as much of the warnings."""
    numbers = FRESH if fresh else CHOSEN
    methods = {"projected": areas.projected, "classifier": areas.classifier}
    measure(numbers, methods, seeds, out, only=warns if warned_only else None)
    judge(out)


def warns(number: int, epsilon: float) -> bool:
    return any(
        method.plan(declared(number), Cost.pure(epsilon)).warnings
        for method in (dp.ProjectedHistogram(), dp.PrivateClassifier())
    )


def judge(out: Path) -> None:
    lines = list(read(out))
    mine, other = (
        np.array([np.mean(line[name]) for line in lines]) for name in ("projected", "classifier")
    )
    warned, crowded = (
        np.array(
            [
                bool(method.plan(declared(line["shape"]), Cost.pure(line["epsilon"])).warnings)
                for line in lines
            ]
        )
        for method in (dp.ProjectedHistogram(), dp.PrivateClassifier())
    )
    behind = other > mine + 0.02
    print(
        f"{len(lines)} tables; mean AUC projected {mine.mean():.3f}, classifier {other.mean():.3f}"
    )
    print(
        f"projected histogram: {warned.sum()} warnings, {np.mean((mine <= other)[warned]):.0%} "
        f"right, {np.sum((mine > 1.05 * other)[warned])} where it wins by 5%, at most "
        f"{np.max((mine / other)[warned]) - 1:.1%} ahead; behind the classifier by more than 0.02: "
        f"{np.sum(behind & warned)} with a warning, {np.sum(behind & ~warned)} without"
    )
    print(
        f"classifier: {crowded.sum()} warnings, {np.mean((other < 0.6)[crowded]):.0%} right "
        f"({np.mean((other < 0.6)[~crowded]):.0%} below 0.6 without one); the projected histogram "
        f"at least as good in {np.mean((other <= mine)[crowded]):.0%} of them"
    )


def compared(shapes: int, seeds: int, epsilon: float) -> None:
    """Is what `dpublish compare --target` names, without data, what serves? Right: a single name
    is within 0.02 of the other method or ahead; where both are named, either may be."""
    methods = {"projected-histogram": areas.projected, "private-classifier": areas.classifier}
    counts = {"one": [0, 0], "both": [0, 0]}
    for number in FRESH[:shapes]:
        worlds, _, warnings = expected_areas(
            declared(number), "y", [Cost.pure(epsilon)], methods=list(methods)
        )
        best, others = recommend(worlds, warnings)
        tables = [drawn(number, seed) for seed in range(seeds)]
        found = {
            name: np.mean([method(table, seed, epsilon) for seed, table in enumerate(tables)])
            for name, method in methods.items()
        }
        assert best is not None
        right = found[best] >= max(found.values()) - 0.02
        counts["both" if others else "one"][0 if right else 1] += 1
        shown = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        print(f"shape {number}: {best} {others or ''}: {shown}", flush=True)
    for words, (right, wrong) in counts.items():
        print(
            f"{words} named: {right + wrong}, the first within 0.02 of the other or ahead {right}"
        )


def declared(number: int) -> Schema:
    """The schema of a shape's training rows; no row is made for it."""
    made = shape(number)
    nothing = np.zeros(1)
    columns = [Column(nothing, levels) for levels in made["levels"]]
    columns += [Column(nothing) for _ in range(made["numbers"])]
    return Table("shape", tuple(columns), np.zeros(1, dtype=np.int64)).schema(
        made["rows"] - made["rows"] // 4
    )
