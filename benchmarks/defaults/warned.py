"""Are the warnings of a plan right? Over generated tables of many shapes, sizes and epsilons.

A warning that names the classifier is right where that is as good, within 0.01 of AUC, or better;
one that says that choices are random is right where the AUC is below 0.6. None may fall where the
projected histogram is ahead of the classifier, and of chance, by 5% or more.
"""

from __future__ import annotations

import numpy as np

import dpublish as dp
from dpublish.privacy.cost import Cost

from . import areas
from .tables import GRID, generate

EPSILONS = (0.1, 0.3, 1.0, 3.0)


def check(seeds: int) -> None:
    right = wrong = harmful = silent = 0
    print(f"{'':34}epsilon  projected  classifier  projected warns  classifier warns")
    for name, made in GRID.items():
        for epsilon in EPSILONS:
            tables = [generate(name, 500 + seed, **made) for seed in range(seeds)]
            mine = np.mean([areas.projected(t, s, epsilon) for s, t in enumerate(tables)])
            other = np.mean([areas.classifier(t, s, epsilon) for s, t in enumerate(tables)])
            schema = tables[0].schema(len(tables[0].split(0)[0]))
            texts, crowded = (
                method.plan(schema, Cost.pure(epsilon)).warnings
                for method in (dp.ProjectedHistogram(), dp.PrivateClassifier())
            )
            warned = "random" if "random" in " ".join(texts) else "other" if texts else "-"
            if texts:
                good = mine < 0.6 if warned == "random" else mine <= other + 0.01
                right, wrong = right + good, wrong + (not good)
                harmful += warned == "other" and mine > 1.05 * max(other, 0.5)
            else:
                silent += mine < other - 0.02
            print(
                f"{name:34}{epsilon:7g} {mine:10.3f} {other:11.3f} {warned:>16} "
                f"{bool(crowded)!s:>17}",
                flush=True,
            )
    print(f"warnings right {right}, wrong {wrong}, where it wins by 5% {harmful}; ")
    print(f"behind the classifier by more than 0.02 without a warning: {silent}")
