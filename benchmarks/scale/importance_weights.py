"""Fits balanced logistic weights and raked weights on made-up rows, beside scikit-learn's newton-cholesky.

    python benchmarks/scale/importance_weights.py [--rows 1000000] [--columns 100] --json FILE

Each of the two sides, private and public, has `--rows` rows of `--columns` numbers. Both solvers run in this process on the
same matrix, one after the other, to the same length of the gradient. The matrix is built once for scikit-learn; dpublish works
from codes and keeps a dense copy only below its limit, so memory is reported for both.
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

from dpublish.domain import Axis
from dpublish.mechanisms.learning.solver import Design, Problem, minimise
from dpublish.mechanisms.weighting.balanced import BalancedLogistic
from dpublish.public.raking import TableTarget, rake
from dpublish.public.weight_features import WeightFeatures

TOLERANCE = 2.0**-30
BINS = 256


def timed(task: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    start, cpu = time.perf_counter(), time.process_time()
    found = task()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found, {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "peak_megabytes": peak}


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
    private = [np.minimum(rng.beta(2.0, 1.8, given.rows) * BINS, BINS - 1).astype(np.uint8) for _ in axes]
    public = [np.minimum(rng.beta(1.8, 2.0, given.rows) * BINS, BINS - 1).astype(np.uint8) for _ in axes]
    codes = [np.concatenate(both) for both in zip(private, public, strict=True)]
    signs = np.repeat([1.0, -1.0], given.rows)
    ridge = given.strength / features.divisor**2
    figures: dict[str, Any] = {"rows": given.rows, "columns": given.columns, "load": os.getloadavg()}
    figures["encoded_megabytes"] = 2 * given.rows * given.columns * 8 / 2**20

    def ours() -> np.ndarray:
        loss = BalancedLogistic(np.ones(2 * given.rows), 1.0)
        design = Design(features, codes)  # type: ignore[arg-type]
        return minimise(Problem(design, signs, loss, given.rows, ridge, np.zeros(given.columns)), TOLERANCE)

    beta, figures["dpublish"] = timed(ours)

    def raked() -> Any:
        targets = []
        for own, other in zip(private, public, strict=True):
            shares = np.bincount(own >> 4, minlength=16) / given.rows
            targets.append(TableTarget((other >> 4).astype(np.int64), shares, np.full(16, (20 / given.rows) ** 2)))
        return rake(targets, np.ones(given.rows))

    fit, figures["raking"] = timed(raked)
    figures["raking"] |= {"sweeps": fit.sweeps, "gap": fit.gap}

    from sklearn.linear_model import LogisticRegression

    matrix = np.empty((2 * given.rows, given.columns))
    features.fill(codes, matrix)

    def theirs() -> Any:
        # the mean over 2 n rows of both sides is half of our objective, so its ridge is half of ours
        model = LogisticRegression(
            C=1.0 / (ridge * given.rows), solver="newton-cholesky", tol=TOLERANCE / 2, fit_intercept=False, max_iter=200
        )
        return model.fit(matrix, signs)

    model, figures["scikit-learn"] = timed(theirs)
    figures["largest_difference"] = float(np.abs(model.coef_[0] - beta).max())
    figures["times_scikit_learn"] = figures["dpublish"]["seconds"] / figures["scikit-learn"]["seconds"]
    print(json.dumps(figures, indent=1))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
