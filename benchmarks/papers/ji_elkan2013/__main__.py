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
    parser.add_argument("--bootstraps", type=int, default=50)
    given = parser.parse_args()

    import numpy as np
    from benchmarks.papers.pages import digest

    from .data import acs, adult, made_up
    from .experiments import Bench, acs_experiment, estimates, moments, svm_distances, svm_lengths
    from .figures import draw
    from .page import small, summary

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
        "made_up": small(made_up()),
        "svm_lengths": svm_lengths(bench),
        "moments": moments(bench, given.bootstraps),
        "acs": acs_experiment(acs(given.data), 5),
        "svm": svm_distances(bench, given.bootstraps, say),
        "estimates": estimates(bench, given.bootstraps, say),
        "made_by": digest(Path(__file__).parent),
    }
    found = summary(results)
    (given.out / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(results, given.out)
    say("done")


if __name__ == "__main__":
    main()
