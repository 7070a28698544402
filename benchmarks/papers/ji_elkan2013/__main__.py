"""Figures 1 to 6 of Ji and Elkan (2013): `python -m benchmarks.papers.ji_elkan2013 --data DIR --out
DIR [--bootstraps N]`."""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

# small matrices: threads of the linear algebra only get in each other's way
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with adult.csv.gz and the acs files"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for figures.png and results.json"
    )
    parser.add_argument("--bootstraps", type=int, default=100)
    parser.add_argument("--svm-bootstraps", type=int, default=100)
    given = parser.parse_args()

    import numpy as np

    from .data import acs, adult
    from .experiments import Bench, acs_experiment, estimates, moments, svm_distances
    from .figures import draw

    warnings.filterwarnings("ignore", module="sklearn")
    given.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - start:7.0f} s  {text}", flush=True)

    split = adult(given.data)
    bench = Bench(split)
    results = {
        "rows": {"D": split.size, "E": split.public.rows, "features": bench.features.dimension},
        "truth": float((split.private[bench.rich] == 1).mean()),
        "unweighted": bench.share(np.ones(split.public.rows), split.public),
        "bootstraps": given.bootstraps,
        "svm_bootstraps": given.svm_bootstraps,
        "svm": svm_distances(bench, given.svm_bootstraps, say),
        "moments": moments(bench, given.bootstraps),
        "acs": acs_experiment(acs(given.data), 5),
        "estimates": estimates(bench, given.bootstraps, say),
    }
    results["seconds"] = time.perf_counter() - start
    (given.out / "results.json").write_text(json.dumps(results, indent=1))
    draw(results, given.out)
    summary = {
        "truth": results["truth"],
        "unweighted": results["unweighted"],
        "rmse": {
            name: {
                key: float(np.sqrt(np.mean((np.array(values) - results["truth"]) ** 2)))
                for key, values in runs.items()
            }
            for name, runs in results["estimates"]["epsilon"].items()
        },
        "moments_rmse": {
            key: float(np.sqrt(np.mean((np.array(one["share"]) - results["truth"]) ** 2)))
            for key, one in results["moments"].items()
        },
        "svm_median": {
            name: {key: float(np.median(values)) for key, values in runs.items()}
            for name, runs in results["svm"]["distance"].items()
        },
        "moments_svm_median": {
            key: float(np.median(one["distance"])) for key, one in results["moments"].items()
        },
        "svm_norm": results["svm"]["svm_norm"],
        "unweighted_distance": results["svm"]["unweighted_distance"],
        "private_erm_length": results["svm"]["private_erm_length"],
        "private_erm_length_paper": results["svm"]["private_erm_length_paper"],
        "by_lambda": {
            name: {
                key: {"mean": float(np.mean(x)), "deviation": float(np.std(x))}
                for key, x in runs.items()
            }
            for name, runs in {
                **results["estimates"]["lambda"],
                "no noise": results["estimates"]["no_noise"],
            }.items()
        },
        "by_epsilon": {
            name: {
                key: {"median": float(np.median(x)), "deviation": float(np.std(x))}
                for key, x in runs.items()
            }
            for name, runs in results["estimates"]["epsilon"].items()
        },
        "extreme": {
            name: {
                case: {key: float(np.median(x)) for key, x in found.items()}
                for case, found in runs.items()
            }
            for name, runs in results["svm"]["extreme"].items()
        },
        "rows": results["rows"],
        "bootstraps": results["bootstraps"],
        "svm_bootstraps": results["svm_bootstraps"],
        "acs": results["acs"],
        "seconds": results["seconds"],
    }
    (given.out / "summary.json").write_text(json.dumps(summary, indent=1))
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
