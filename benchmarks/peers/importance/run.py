"""Weights on 5,000 biased public rows of Adult at epsilon 1: dpublish and mbi, in one run.

    python run.py --data DIR --python PATH/TO/MBI/bin/python --out results.json

Both see the same split. mbi gets noisy tables made here (Gaussian, delta 1e-9): all one-way and all two-way tables, or the very
tables that dpublish bought, so that the second line compares the fit alone. `two_way_tv` is the mean total variation
distance of all two-way tables between the private rows and the weighted public rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.papers.ji_elkan2013.data import adult_schema

from dpublish.cost import Cost, largest_rho
from dpublish.encode import encode_frame
from dpublish.mechanisms.tables.importance_weights import ImportanceWeights
from dpublish.noise.source import SeededNoise
from dpublish.schema import Schema

DELTA = "1e-9"


def split(data: Path) -> tuple[Schema, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """5,000 public rows, three times as likely to be women and half as likely to be rich; a test set; the rest is private."""
    frame = pl.read_csv(data / "adult.csv.gz", infer_schema_length=None)
    rng = np.random.default_rng(7)
    odds = np.where((frame["sex"] == "Female").to_numpy(), 3.0, 1.0) * np.where(
        (frame["income"] == ">50K").to_numpy(), 0.5, 1.0
    )
    public = rng.choice(frame.height, 5000, replace=False, p=odds / odds.sum())
    rest = np.setdiff1d(np.arange(frame.height), public)
    test = rng.choice(rest, 8000, replace=False)
    private = np.setdiff1d(rest, test)
    text = adult_schema(frame).replace("21000", str(len(private)))
    text += '\n[columns.sex]\nkind = "categorical"\nlevels = ["Female", "Male"]\noutside = "drop"\n'
    return Schema.from_toml(text), frame[private.tolist()], frame[public.tolist()], frame[test.tolist()]


def two_way_tv(private: list[np.ndarray], public: list[np.ndarray], sizes: list[int], weights: np.ndarray) -> float:
    found = []
    for a, b in itertools.combinations(range(len(sizes)), 2):
        cells = sizes[a] * sizes[b]
        own = np.bincount(private[a].astype(int) * sizes[b] + private[b], minlength=cells) / len(private[a])
        other = np.bincount(public[a].astype(int) * sizes[b] + public[b], weights=weights / weights.sum(), minlength=cells)
        found.append(float(np.abs(own - other).sum() / 2))
    return float(np.mean(found))


def auc(domain: Any, public: list[np.ndarray], weights: np.ndarray, test: list[np.ndarray]) -> float:
    """A weighted logistic regression of income on everything else, judged on held-out rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    target = domain.names.index("income")
    others = [place for place in range(len(domain.axes)) if place != target]

    def matrix(codes: list[np.ndarray]) -> np.ndarray:
        return np.hstack([np.eye(domain.axes[place].cardinality)[codes[place]] for place in others])

    model = LogisticRegression(max_iter=300).fit(matrix(public), public[target], sample_weight=weights / weights.mean())
    return float(roc_auc_score(test[target], model.predict_proba(matrix(test))[:, 1]))


def mbi_weights(
    python: str, public: list[np.ndarray], sizes: list[int], tables: list[tuple[np.ndarray, list[int], float]]
) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Any] = {"public": np.stack(public, axis=1).astype(np.int64), "levels": sizes, "tables": len(tables)}
        for place, (values, columns, sigma) in enumerate(tables):
            parts |= {f"table{place}": values, f"columns{place}": columns, f"sigma{place}": sigma}
        np.savez(f"{folder}/in.npz", **parts)
        script = Path(__file__).with_name("peer_mbi.py")
        subprocess.run([python, str(script), f"{folder}/in.npz", f"{folder}/out.npz"], check=True)
        return dict(np.load(f"{folder}/out.npz"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--python", help="python of an environment with mbi 2.0; left out: dpublish alone")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    schema, private, public, test = split(given.data)
    names = list(schema.columns)
    domain = schema.domain(names)
    sizes = [axis.cardinality for axis in domain.axes]
    own, other, held = ([np.asarray(c) for c in encode_frame(f.select(names), domain).codes] for f in (private, public, test))
    lines: list[dict[str, Any]] = []

    def report(method: str, weights: np.ndarray, **more: Any) -> None:
        tv = two_way_tv(own, other, sizes, weights)
        lines.append({"method": method, "two_way_tv": tv, "auc": auc(domain, other, weights, held), **more})
        print(json.dumps(lines[-1]), flush=True)
        # after every line: the last ones take long
        document = {"rows": [len(own[0]), len(other[0])], "load": os.getloadavg(), "figures": lines}
        given.out.write_text(json.dumps(document, indent=1))

    report("unweighted", np.ones(len(other[0])))
    approximate = Cost.approximate(1, DELTA)
    bought: list[tuple[np.ndarray, list[int], float]] = []
    for label, cost, settings in (
        ("dpublish, pure, chosen pairs", Cost.pure(1), {}),
        ("dpublish, pure, main effects", Cost.pure(1), {"choose_pairs": 0}),
        ("dpublish, delta 1e-9, chosen pairs", approximate, {"choose_pairs": 20}),
        ("dpublish, delta 1e-9, all pairs", approximate, {"choose_pairs": 0, "pairs": [f"*{name}" for name in names]}),
    ):
        for seed in range(given.seeds):
            start, cpu = time.perf_counter(), time.process_time()
            method = ImportanceWeights(public=public, columns=names, **settings)  # type: ignore[arg-type]
            plan = method.plan(schema, cost)
            content = method.run(SeededNoise(seed), own, plan)
            timing = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
            timing["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            report(label, np.asarray(content.tables["weights"]["weight"]), pairs=len(content.facts["pairs"]), **timing)
        if "chosen" in label and cost is approximate:
            table = content.tables["coefficients"]
            groups, values = np.asarray(table["group"]), np.asarray(table["value"])
            deviations = np.asarray(table["deviation"]) * content.facts["rows"]
            axes = [[place] for place in range(len(sizes))] + [list(pair) for pair in content.facts["pairs"]]
            bought = [
                (values[groups == i].astype(float), axis, float(deviations[groups == i][0])) for i, axis in enumerate(axes)
            ]
    if given.python:
        rho = float(largest_rho(1, DELTA))
        axes = [[place] for place in range(len(sizes))] + [list(p) for p in itertools.combinations(range(len(sizes)), 2)]
        sigma = (len(axes) / (2 * rho)) ** 0.5
        rng = np.random.default_rng(3)
        everything = []
        for axis in axes:
            key = own[axis[0]].astype(int) if len(axis) == 1 else own[axis[0]].astype(int) * sizes[axis[1]] + own[axis[1]]
            counts = np.bincount(key, minlength=int(np.prod([sizes[place] for place in axis])))
            everything.append((counts + rng.normal(0, sigma, len(counts)), axis, sigma))
        for label, tables in (("mbi, the tables dpublish bought", bought), ("mbi, delta 1e-9, all pairs", everything)):
            found = mbi_weights(given.python, other, sizes, tables)
            timing = {name: float(found[name]) for name in ("seconds", "cpu", "megabytes")}
            report(label, found["weights"], **timing)


if __name__ == "__main__":
    main()
