"""Which form of shrinking the labels of unordered columns serves best, on synthetic tables.

    python benchmarks/joined_tuning/label_forms.py --seeds 3 --out label_forms.jsonl

`none` takes every level for itself. `kept` keeps the rows of each level and shrinks the split of
them (the product). `masses` does so with masses from the sum over labels. `gls` finds masses and
splits together by generalised least squares. The figures are means over tables and seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from synthetic_inputs import tables_to_learn_from
from tune import learnt, measure, publish

from dpublish.models.junction_tree import fit, shrink
from dpublish.models.junction_tree.consistency import onto_simplex

Floats = NDArray[np.float64]


def none(best: Floats, variances: Floats, labels: Floats) -> Floats:
    return onto_simplex(best, labels)


def masses(best: Floats, variances: Floats, labels: Floats) -> Floats:
    """The product's form, with masses that are fitted to the sums over labels."""
    total = np.array([labels.sum()])
    rows = onto_simplex(best.sum(axis=1, keepdims=True), total)
    scale = rows - onto_simplex(best, labels).sum(axis=1, keepdims=True)
    return shrink.split_labels(best + scale * labels / total, variances, labels)


def gls(best: Floats, variances: Floats, labels: Floats) -> Floats:
    shares = labels / labels.sum()
    rows = onto_simplex(best, labels).sum(axis=1)
    apart = np.diag(shares) - np.outer(shares, shares)
    apart = apart @ apart.T * (1.0 if len(labels) > 2 else 0.5)
    likely, fits = [], []
    for size in shrink.SIZES:
        true = (size * rows)[:, None, None] ** 2 * apart
        whole = true + variances[:, None, None] * np.eye(len(labels))
        inverse = np.linalg.inv(whole)
        along = inverse @ shares
        square = along @ shares
        mass = (best * along).sum(axis=1) / square
        away = best - mass[:, None] * shares
        pulled = np.einsum("ijk,ik->ij", inverse, away)
        found = np.linalg.slogdet(whole)[1] + np.log(square) + (away * pulled).sum(axis=1)
        likely.append(-0.5 * float(found.sum()))
        fits.append(mass[:, None] * shares + np.einsum("ijk,ik->ij", true, pulled))
    weights = np.exp(np.array(likely) - max(likely))
    return onto_simplex(np.tensordot(weights / weights.sum(), np.array(fits), 1), labels)


FORMS = {"none": none, "kept": shrink.split_labels, "masses": masses, "gls": gls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", action="append")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", type=int, default=500, help="seed of the synthetic tables")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    for epsilon in given.epsilon or ["0.1", "0.3", "1", "3"]:
        for name, form in FORMS.items():
            fit.split_labels = form
            lines = []
            for table in tables_to_learn_from(given.tables):
                for seed in range(given.seeds):
                    codes, _ = publish(table, epsilon, seed, {}, pure=False)
                    lines.append({**measure(table, codes), **learnt(table, codes)})
                    if given.out:
                        known = {"table": table.name, "epsilon": epsilon, "seed": seed}
                        with given.out.open("a") as file:
                            file.write(json.dumps({**known, "form": name, **lines[-1]}) + "\n")
            means = {
                key: round(float(np.mean([line[key] for line in lines])), 4) for key in lines[0]
            }
            print(epsilon, name, means, flush=True)


if __name__ == "__main__":
    main()
