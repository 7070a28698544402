"""Weights on 5,000 biased public rows of Adult at epsilon 1: dpublish and mbi, side by side.

    python run.py --data DIR --python PATH/TO/MBI/bin/python --out results.json [--seeds 5]
    [--readme README.md]

Both see the same rows, each run in a process of its own. mbi gets noisy tables made here (Gaussian,
delta 1e-9): all one-way and all two-way tables with equal noise; or the very tables that dpublish
bought, which compares the fits alone. `two_way_tv` is the mean total variation distance of all
two-way tables between the private rows and the weighted public rows.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ours import DELTA, VARIANTS
from settings import SETTINGS, Setting, setting, tables_of

from dpublish.privacy.cost import largest_rho

HERE = Path(__file__).resolve().parent
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
)
ONE_THREAD["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
WIDEST = "delta 1e-9, all pairs"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def two_way_tv(given: Setting, weights: NDArray[np.float64]) -> float:
    found = []
    sizes, shares = given.sizes, weights / weights.sum()
    for a, b in itertools.combinations(range(len(sizes)), 2):
        own = tables_of(given.private_codes, sizes, (a, b)) / len(given.private_codes[0])
        cells = given.public_codes[a] * sizes[b] + given.public_codes[b]
        found.append(np.abs(own - np.bincount(cells, weights=shares, minlength=len(own))).sum() / 2)
    return float(np.mean(found))


def auc(given: Setting, weights: NDArray[np.float64]) -> float:
    """A weighted logistic regression of income on everything else, judged on held-out rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    target = given.names.index("income")
    others = [place for place in range(len(given.sizes)) if place != target]

    def matrix(codes: list[NDArray[np.int64]]) -> NDArray[np.float64]:
        return np.hstack([np.eye(given.sizes[place])[codes[place]] for place in others])

    model = LogisticRegression(max_iter=300)
    model.fit(
        matrix(given.public_codes),
        given.public_codes[target],
        sample_weight=weights / weights.mean(),
    )
    return float(
        roc_auc_score(given.test_codes[target], model.predict_proba(matrix(given.test_codes))[:, 1])
    )


def all_pairs(given: Setting, seed: int) -> dict[str, Any]:
    """Every one-way and two-way table with the same Gaussian noise, together at the whole
    budget."""
    sizes = given.sizes
    axes = [
        *((place,) for place in range(len(sizes))),
        *itertools.combinations(range(len(sizes)), 2),
    ]
    sigma = (len(axes) / (2 * float(largest_rho(1, DELTA)))) ** 0.5
    rng = np.random.default_rng(seed)
    parts: dict[str, Any] = {"tables": len(axes)}
    for i, axis in enumerate(axes):
        counts = tables_of(given.private_codes, sizes, axis)
        parts |= {
            f"table{i}": counts + rng.normal(0, sigma, len(counts)),
            f"columns{i}": axis,
            f"sigma{i}": sigma,
        }
    return parts


def child(command: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        target = f"{folder}/out.npz"
        found = subprocess.run(
            [*command, target],
            check=False,
            env=os.environ | ONE_THREAD,
            capture_output=True,
            text=True,
        )
        if found.returncode:
            return {"refused": found.stderr.strip().splitlines()[-1][:300]}
        return dict(np.load(target))


def ours(data: Path, name: str, variant: str, seed: int) -> dict[str, Any]:
    return child([sys.executable, str(HERE / "ours.py"), str(data), name, variant, str(seed)])


def mbi(python: str, given: Setting, tables: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    keys = ("table", "columns", "sigma")
    parts = {name: value for name, value in tables().items() if name.startswith(keys)}
    with tempfile.TemporaryDirectory() as folder:
        source = f"{folder}/in.npz"
        np.savez(source, public=np.stack(given.public_codes, axis=1), levels=given.sizes, **parts)
        return child([python, str(HERE / "peer_mbi.py"), source])


def markdown(lines: list[dict[str, Any]]) -> str:
    """Means over the seeds."""
    out = [
        "| table | method | runs | mean two-way TV | AUC of income | CPU s | peak MB |",
        "| --- " * 7 + "|",
    ]
    for key in dict.fromkeys((line["setting"], line["method"]) for line in lines):
        some = [line for line in lines if (line["setting"], line["method"]) == key]
        if "refused" in some[0]:
            out.append(f"| {key[0]} | {key[1]} | 0 | refused | | | |")
            continue
        mean = {
            name: np.mean([line[name] for line in some])
            for name in some[0]
            if isinstance(some[0][name], float)
        }
        tail = f"{mean['cpu']:.2f} | {mean['megabytes']:.0f}" if "cpu" in mean else " | "
        out.append(
            f"| {key[0]} | {key[1]} | {len(some)} | {mean['two_way_tv']:.4f} | {mean['auc']:.3f} "
            f"| {tail} |"
        )
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--python", help="python of an environment with mbi 2.0; left out: dpublish alone"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--readme", type=Path, help="write the table between the marks of this file"
    )
    asked = parser.parse_args()
    lines: list[dict[str, Any]] = (
        json.loads(asked.out.read_text())["figures"] if asked.out.exists() else []
    )

    def report(
        name: str, given: Setting, method: str, seed: int, work: Callable[[], dict[str, Any]]
    ) -> None:
        """Do the work and note its figures, unless the file has them: a run that was stopped goes
        on where it was."""
        key = {"setting": name, "method": method, "seed": seed}
        if any(key.items() <= line.items() for line in lines):
            return
        found = work()
        line: dict[str, Any] = dict(key)
        if "refused" in found:
            line["refused"] = found["refused"]
        else:
            weights = np.asarray(found["weights"], dtype=float)
            line |= {"two_way_tv": two_way_tv(given, weights), "auc": auc(given, weights)}
            line |= {
                name: float(found[name])
                for name in ("seconds", "cpu", "megabytes")
                if name in found
            }
        lines.append(line | {"load": os.getloadavg()[0]})
        print(json.dumps(lines[-1]), flush=True)
        asked.out.write_text(json.dumps({"figures": lines}, indent=1) + "\n")

    for name in SETTINGS:
        given = setting(name, asked.data)
        report(
            name,
            given,
            "public rows as they are",
            0,
            lambda given=given: {"weights": np.ones(len(given.public_codes[0]))},
        )
        for seed in range(asked.seeds):
            for variant in VARIANTS:
                report(
                    name,
                    given,
                    f"dpublish, {variant}",
                    seed,
                    partial(ours, asked.data, name, variant, seed),
                )
            if asked.python:
                free = partial(mbi, asked.python, given, partial(all_pairs, given, seed))
                report(name, given, "mbi, delta 1e-9, all pairs", seed, free)
                same = partial(
                    mbi, asked.python, given, partial(ours, asked.data, name, WIDEST, seed)
                )
                report(name, given, f"mbi, on dpublish's tables ({WIDEST})", seed, same)
    if asked.readme:
        before, _, rest = asked.readme.read_text().partition(BEGIN)
        asked.readme.write_text(
            f"{before}{BEGIN}\n{markdown(lines)}\n{END}{rest.partition(END)[2]}"
        )


if __name__ == "__main__":
    main()
