"""Fits balanced logistic weights and raked weights on made-up rows, beside scikit-learn's
newton-cholesky.

    python benchmarks/scale/importance_weights.py [--rows 1000000] [--columns 100] --json FILE

Each of the two sides, private and public, has `--rows` rows of `--columns` numbers. Both solvers
run in this process on the same matrix, one after the other, to the same length of the gradient. The
matrix is built once for scikit-learn; dpublish works from codes and keeps a dense copy only below
its limit, so memory is reported for both.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import numpy as np

from dpublish.declare.domain import Axis
from dpublish.methods.erm.design import Design
from dpublish.methods.erm.losses import LogisticLoss
from dpublish.methods.erm.solver import Problem, minimise
from dpublish.models.linear_features import WeightFeatures
from dpublish.models.raking.raking import TableTarget, rake

TOLERANCE = 2.0**-30
BINS = 256


def timed(task: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    start, cpu = time.perf_counter(), time.process_time()
    found = task()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found, {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak_megabytes": peak,
    }


def drawn(
    rng: np.random.Generator, law: tuple[float, float], given: argparse.Namespace
) -> list[np.ndarray]:
    """Columns of codes of numbers with a beta law, each drawn from 65,536 of its quantiles: fine
    enough for 256 bins."""
    from scipy.stats import beta

    quantiles = beta.ppf((np.arange(1 << 16) + 0.5) / (1 << 16), *law)
    bins = np.minimum(quantiles * BINS, BINS - 1).astype(np.uint8)
    return [
        bins[rng.integers(0, 1 << 16, given.rows, dtype=np.uint16)] for _ in range(given.columns)
    ]


def warm(features: WeightFeatures, given: argparse.Namespace) -> None:
    """Compile the loops on a few rows."""
    few = [np.arange(64, dtype=np.uint8) for _ in range(given.columns)]
    signs = np.where(np.arange(64) % 2, 1.0, -1.0)
    small = Problem(
        Design(features, few), signs, LogisticLoss(), 64, 0.1, np.zeros(given.columns), np.ones(64)
    )
    minimise(small, TOLERANCE)
    rake(
        [TableTarget(column >> 4, np.full(16, 1 / 16), np.full(16, 1e-4)) for column in few[:2]],
        np.ones(64),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows on each side")
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--strength", type=float, default=0.1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    edges = tuple(np.linspace(0.0, 1.0, BINS + 1).tolist())
    axes = tuple(Axis(f"c{place}", "real", edges=edges) for place in range(given.columns))
    features = WeightFeatures(axes, numbers="scaled")
    private, public = (drawn(rng, law, given) for law in ((2.0, 1.8), (1.8, 2.0)))
    codes = [np.concatenate(both) for both in zip(private, public, strict=True)]
    signs = np.repeat([1.0, -1.0], given.rows)
    ridge = given.strength / features.divisor**2
    figures: dict[str, Any] = {
        "rows": given.rows,
        "columns": given.columns,
        "load": os.getloadavg(),
    }
    figures["encoded_megabytes"] = 2 * given.rows * given.columns * 8 / 2**20

    def ours() -> np.ndarray:
        problem = Problem(
            Design(features, codes),
            signs,
            LogisticLoss(),
            given.rows,
            ridge,
            np.zeros(given.columns),
            np.ones(2 * given.rows),
        )
        return np.array([float(value) for value in minimise(problem, TOLERANCE)])

    figures["codes_megabytes"] = 2 * given.rows * given.columns / 2**20
    timed(lambda: warm(features, given))
    figures["peak_before"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    beta, figures["dpublish"] = timed(ours)
    print("dpublish", figures["dpublish"], flush=True)

    def raked() -> Any:
        targets = []
        for own, other in zip(private, public, strict=True):
            shares = np.bincount(own >> 4, minlength=16) / given.rows
            targets.append(TableTarget(other >> 4, shares, np.full(16, (20 / given.rows) ** 2)))
        return rake(targets, np.ones(given.rows))

    fit, figures["raking"] = timed(raked)
    figures["raking"] |= {"sweeps": fit.sweeps, "gap": fit.gap}
    print("raking", figures["raking"], flush=True)

    from sklearn.linear_model import LogisticRegression

    matrix = np.empty((2 * given.rows, given.columns))
    features.fill(codes, matrix)

    def theirs() -> Any:
        # the mean over 2 n rows of both sides is half of our objective, so its ridge is half of
        # ours
        model = LogisticRegression(
            C=1.0 / (ridge * given.rows),
            solver="newton-cholesky",
            tol=TOLERANCE / 2,
            fit_intercept=False,
            max_iter=200,
        )
        return model.fit(matrix, signs)

    model, figures["scikit-learn"] = timed(theirs)
    figures["largest_difference"] = float(np.abs(model.coef_[0] - beta).max())
    for name in ("dpublish", "raking"):
        figures[f"{name}_times_scikit_learn"] = (
            figures[name]["seconds"] / figures["scikit-learn"]["seconds"]
        )
        figures[f"{name}_cpu_times_scikit_learn"] = (
            figures[name]["cpu"] / figures["scikit-learn"]["cpu"]
        )
    print(json.dumps(figures, indent=1))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
