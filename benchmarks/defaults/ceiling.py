"""How well can public facts tell at all whether a classifier of all columns is as good as a
projected histogram?

A logistic regression on twelve of them, by tenths of the shapes (none is fitted on that is
predicted), over the shapes that the warning was chosen on; and the same with what is hidden: how
many columns move the label, how strongly, and how rare it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import dpublish as dp
from dpublish.privacy.cost import Cost

from . import areas
from .shapes import CHOSEN, measure, read, shape
from .tables import Floats
from .warned import declared

IN_REACH = (20, 800)
"""Rows times epsilon per feature: below and above it is clear which is ahead."""


def plan_of(number: int, epsilon: float) -> Any:
    return dp.ProjectedHistogram().plan(declared(number), Cost.pure(epsilon))


def most_of(number: int, epsilon: float) -> int:
    return max(plan_of(number, epsilon).settings.k_options)


def features_of(made: dict[str, Any]) -> int:
    return int(1 + made["numbers"] + sum(one - 1 for one in made["levels"]))


def plenty_of(made: dict[str, Any], epsilon: float) -> float:
    return float((made["rows"] - made["rows"] // 4) * epsilon / features_of(made))


def in_reach(number: int, epsilon: float) -> bool:
    """Whether something is left out by choice, and it is not clear which method is ahead."""
    made = shape(number)
    columns = len(made["levels"]) + made["numbers"]
    least, largest = IN_REACH
    return least <= plenty_of(made, epsilon) <= largest and columns > most_of(number, epsilon)


def public_facts(number: int, epsilon: float) -> list[float]:
    made = shape(number)
    rows, features = made["rows"] - made["rows"] // 4, features_of(made)
    columns, most = len(made["levels"]) + made["numbers"], most_of(number, epsilon)
    logs = (rows, epsilon, rows * epsilon, features, columns, plenty_of(made, epsilon))
    widths = (features / columns, max(made["levels"], default=1))
    others = (most, made["numbers"] / columns, most / columns, features - 1 <= 1.5 * columns)
    return [*np.log([*logs, *widths]).tolist(), *map(float, others)]


def hidden_facts(number: int) -> list[float]:
    made = shape(number)
    columns, count = len(made["levels"]) + made["numbers"], made["informative"]
    return [float(np.log(count)), count / columns, made["strength"], made["base"]]


def foretold(facts: Floats, right: Floats, groups: Floats) -> Floats:
    """The chance that the classifier is as good, from the shapes of other tenths."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    chances = np.zeros(len(right))
    for known, asked in GroupKFold(10).split(facts, right, groups):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
        model.fit(facts[known], right[known])
        chances[asked] = model.predict_proba(facts[asked])[:, 1]
    return chances


def report(seeds: int, out: Path) -> None:
    methods = {"projected": areas.projected, "classifier": areas.classifier}
    measure(CHOSEN, methods, seeds, out, only=in_reach)
    lines = list(read(out))
    mine, other = (np.array([np.mean(line[name]) for line in lines]) for name in methods)
    right, behind, wins = (other >= mine).astype(int), other > mine + 0.02, mine > 1.05 * other
    warned = np.array([bool(plan_of(one["shape"], one["epsilon"]).warnings) for one in lines])
    print(
        f"{len(lines)} tables: the classifier as good in {np.mean(right):.0%}, ahead by more than "
        f"0.02 in {behind.sum()}; warned of {warned.sum()}, right {np.mean(right[warned]):.0%}, "
        f"ahead by more than 0.02 in {np.sum(behind & warned)}"
    )
    groups = np.array([line["shape"] for line in lines])
    public = [public_facts(line["shape"], line["epsilon"]) for line in lines]
    hidden = [[*one, *hidden_facts(line["shape"])] for one, line in zip(public, lines, strict=True)]
    for name, facts in (("public facts", public), ("and hidden ones", hidden)):
        order = np.argsort(-foretold(np.array(facts), right, groups))
        shares = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
        kept = order[: int(np.flatnonzero(shares >= 0.8)[-1]) + 1]
        clean = order[: int(np.argmax(wins[order]))]
        print(
            f"{name}: the most warnings that are right in 80%: {len(kept)}, with "
            f"{behind[kept].sum()} of {behind.sum()}, and {wins[kept].sum()} where the projected "
            f"histogram wins by 5%; until the first such win: {len(clean)}, right "
            f"{np.mean(right[clean]):.0%}, with {behind[clean].sum()}"
        )
