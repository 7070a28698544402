"""Figures 1 and 2 of Vinterbo (2012): `python -m benchmarks.papers.vinterbo2012 --data DIR --out
DIR [--quick]`."""

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
        "--data",
        type=Path,
        required=True,
        help="folder with iris, satellite, mi_complications and adult .csv.gz",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for figure1.png, figure2.png and results.json",
    )
    parser.add_argument("--quick", action="store_true", help="the two small tables, one repeat")
    parser.add_argument(
        "--repeats", type=int, default=3, help="how often the ten folds are drawn afresh"
    )
    given = parser.parse_args()

    from benchmarks.papers.pages import digest

    from .experiments import chosen_with_fine_bins, compare, sweep
    from .figures import draw_comparison, draw_sweeps
    from .models import Bench
    from .tables import NAMES, load

    warnings.filterwarnings("ignore", module="sklearn")
    given.out.mkdir(parents=True, exist_ok=True)
    names = ("iris", "infarct") if given.quick else NAMES
    repeats = 1 if given.quick else given.repeats
    comparison, sweeps = {}, {}
    for name in names:
        start = time.perf_counter()
        table = load(name, given.data)
        bench = Bench(table)
        comparison[name] = {
            "title": table.title,
            **compare(bench, repeats),
            "fine_bins": chosen_with_fine_bins(bench),
        }
        sweeps[name] = sweep(bench, repeats)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        for method, value in comparison[name]["median"].items():
            print(f"  {method.replace(chr(10), ' '):26s} median AUC {value:.3f}")
    results = {
        "made_by": digest(Path(__file__).parent),
        "repeats": repeats,
        "figure1": comparison,
        "figure2": sweeps,
    }
    (given.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    draw_comparison(comparison, given.out / "figure1.png")
    draw_sweeps(sweeps, given.out / "figure2.png")
    print(f"figures in {given.out}")


if __name__ == "__main__":
    main()
