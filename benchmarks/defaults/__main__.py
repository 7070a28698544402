"""How the defaults of projected-histogram and private-classifier were chosen, and how they do.

    python -m benchmarks.defaults projected        settings of the projected histogram, side by side
    python -m benchmarks.defaults classifier       settings of the classifier, and diffprivlib's
    python -m benchmarks.defaults ridge            its constants, one moved at a time
    python -m benchmarks.defaults against          its defaults beside diffprivlib, and its warnings
    python -m benchmarks.defaults choices          how many columns, for how much
    python -m benchmarks.defaults scores           by which score columns are chosen
    python -m benchmarks.defaults many             does it matter how many columns matter?
    python -m benchmarks.defaults more             more choices, where columns have two levels
    python -m benchmarks.defaults small            many numbers and few rows
    python -m benchmarks.defaults bins             bins that are found from the rows, or even ones
    python -m benchmarks.defaults chance           the lowest AUC of the classifier: by chance?
    python -m benchmarks.defaults warnings --out FILE [--fresh]    are the warnings of plans right?
    python -m benchmarks.defaults ceiling --out FILE     how well could public facts tell?
    python -m benchmarks.defaults compared         does `compare --target` name what serves?
    python -m benchmarks.defaults held-out --data DIR [--table WORD]     others, as they are
    python -m benchmarks.defaults held-out --packages DIR     tables that packages carry

All but the last use generated tables only (`tables.py`).
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

PROJECTED: dict[str, dict[str, Any]] = {
    "default": {},
    "k <= 2": {"max_k": 2},
    "k <= 3": {"max_k": 3},
    "gamma 0.61": {"gamma": "0.61"},
    "rows x 1": {"rows_per_cell": 1},
    "rows x 8": {"rows_per_cell": 8},
    "A 0": {"threshold_factor": 0},
    "A 1/2": {"threshold_factor": "1/2"},
    "purity": {"score": "prediction"},
    "pairs": {"score": "discernibility"},
    "paper": {"rule": "paper"},
}
CLASSIFIER: dict[str, dict[str, Any]] = {
    "default": {},
    "reference": {"coding": "reference-levels"},
    "output": {"perturbation": "output"},
    "ridge 0.001": {"regularization": "0.001"},
    "ridge 0.01": {"regularization": "0.01"},
    "ridge 0.1": {"regularization": "0.1"},
}
INVERSES = (1.0, 0.1, 0.01, 0.001)


def compare(
    methods: Mapping[str, Callable[[Any, int], float | None]], seeds: int, epsilon: float
) -> None:
    import numpy as np

    from .tables import GRID, generate

    print(f"epsilon {epsilon:<26g}" + " ".join(f"{name:>11}" for name in methods))
    means = []
    for name, made in GRID.items():
        areas: list[list[float]] = []
        for seed in range(seeds):
            table = generate(name, 100 + seed, **made)
            found = [method(table, seed) for method in methods.values()]
            areas.append([np.nan if value is None else value for value in found])
        means.append(np.mean(areas, axis=0))
        print(f"{name:34}" + " ".join(f"{value:11.3f}" for value in means[-1]), flush=True)
    print(f"{'mean':34}" + " ".join(f"{value:11.3f}" for value in np.mean(means, axis=0)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        choices=(
            *("projected", "classifier", "ridge", "against", "choices", "scores"),
            *("many", "more", "small", "bins", "chance", "warnings", "ceiling", "compared"),
            "held-out",
        ),
    )
    parser.add_argument("--data", type=Path, help="folder of the held-out tables")
    parser.add_argument("--packages", type=Path, help="folder of packages that carry tables")
    parser.add_argument("--table", default="", help="only held-out tables with this word")
    parser.add_argument("--joined", action="store_true", help="joined histograms as well")
    parser.add_argument("--out", type=Path, help="file of what was measured for the warnings")
    parser.add_argument("--fresh", action="store_true", help="shapes that no rule was chosen on")
    parser.add_argument(
        "--warned-only", action="store_true", help="leave out what no plan warns of"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shapes", type=int, default=40, help="random shapes of tables")
    parser.add_argument("--first", type=int, default=0, help="the first shape")
    parser.add_argument("--again", type=int, default=0, help="fresh seeds where one is behind")
    parser.add_argument("--both", action="store_true", help="two releases (many, held-out)")
    parser.add_argument(
        "--rare", action="store_true", help="one rare level says nearly all (ridge and against)"
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()

    from . import areas

    if given.what == "warnings":
        from .warned import check

        check(given.seeds, given.out, fresh=given.fresh, warned_only=given.warned_only)
    elif given.what == "ceiling":
        from .ceiling import report as report_ceiling

        report_ceiling(given.seeds, given.out)
    elif given.what == "compared":
        from .warned import compared

        compared(given.shapes, given.seeds, given.epsilon)
    elif given.what == "ridge":
        from .ridge import constants, drawn, drawn_rare

        constants(given.shapes, given.seeds, drawn_rare if given.rare else drawn)
    elif given.what == "against":
        from .ridge import against, drawn, drawn_rare

        draw = drawn_rare if given.rare else drawn
        against(given.shapes, given.seeds, again=given.again, draw=draw)
    elif given.what == "choices":
        from .choices import report as report_choices

        report_choices(given.shapes, given.seeds)
    elif given.what == "scores":
        from .scores import report as report_scores

        report_scores(given.shapes, given.seeds)
    elif given.what == "many":
        from . import many

        (many.report_both if given.both else many.report)(given.shapes, given.seeds, given.first)
    elif given.what == "more":
        from .many import more_choices

        more_choices(given.shapes, given.seeds)
    elif given.what == "small":
        from .small import report as report_small

        report_small(given.shapes, given.seeds, given.first)
    elif given.what == "bins":
        from .bins import report as report_bins

        report_bins(given.seeds)
    elif given.what == "chance":
        from .chance import report as report_chance

        report_chance(given.seeds)
    elif given.what == "held-out":
        from . import held_out, shipped

        if given.packages is None:
            tables = itertools.chain(held_out.load(given.data), [held_out.clinical()])
        else:
            tables = shipped.load(given.packages)
        held_out.report(
            tables,
            given.table,
            given.seeds,
            given.epsilon,
            with_joined=given.joined,
            with_both=given.both,
        )
    elif given.what == "projected":
        compare(
            {
                name: lambda table, seed, own=own: areas.projected(  # type: ignore[misc]
                    table, seed, given.epsilon, **own
                )
                for name, own in PROJECTED.items()
            },
            given.seeds,
            given.epsilon,
        )
    else:
        ours = {
            name: lambda table, seed, own=own: areas.classifier(  # type: ignore[misc]
                table, seed, given.epsilon, **own
            )
            for name, own in CLASSIFIER.items()
        }
        theirs = {
            f"dpl C {c:g}": lambda table, seed, c=c: areas.diffprivlib(  # type: ignore[misc]
                table, seed, given.epsilon, c
            )
            for c in INVERSES
        }
        compare({**ours, **theirs}, given.seeds, given.epsilon)


if __name__ == "__main__":
    main()
