"""Figures 3 to 8 of Chen et al. (2011): `python -m benchmarks.papers.chen2011 --data DIR --out DIR
[--quick]`."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with msnbc_sets, retail, bms_webview1 and kosarak_70k .txt.gz",
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for figure3.png to figure8.png and results.json",
    )
    parser.add_argument("--json", type=Path, help="write the results here as well")
    parser.add_argument("--runs", type=int, default=10, help="releases a point, as in the paper")
    parser.add_argument(
        "--queries", type=int, default=2000, help="queries a subset; the paper takes 10,000"
    )
    parser.add_argument("--only", help="one data set; results of the others are kept")
    parser.add_argument(
        "--figure", type=int, choices=range(3, 9), help="one figure; results of the others are kept"
    )
    parser.add_argument(
        "--stm-records", type=int, default=1_200_000, help="records of the generated data set"
    )
    parser.add_argument("--quick", action="store_true", help="the generated data set only, one run")
    given = parser.parse_args()

    from benchmarks.papers.pages import stamp

    from . import experiments as measure
    from .data import load
    from .figures import draw

    given.out.mkdir(parents=True, exist_ok=True)
    names = ["stm-like"] if given.quick else ["msnbc", "bms", "retail", "kosarak", "stm-like"]
    runs, number = (1, 500) if given.quick else (given.runs, given.queries)
    results: dict[str, dict[str, object]] = {
        name: {}
        for name in (*(f"figure{place}" for place in range(3, 9)), "figure6_fixed", "sparse")
    }
    kept = given.out / "results.json"
    if given.only or given.figure:
        names = [given.only] if given.only else names
        if kept.exists():
            results = {
                key: value for key, value in json.loads(kept.read_text()).items() if key in results
            }
    for name in names:
        start = time.perf_counter()
        data = load(name, given.data, records=given.stm_records)
        wanted = {given.figure} if given.figure else {*range(3, 9), None}  # None: the sparse sets
        if name in ("bms", "retail", "kosarak") and None in wanted:
            results["sparse"][name] = measure.sparse(data, runs)
        if name != "kosarak" and 3 in wanted:  # kosarak is in none of the paper's figures
            results["figure3"][name] = measure.figure3(data, runs, number)
        if name != "kosarak" and 8 in wanted:
            results["figure8"][name] = measure.figure8(data, runs)
        if name in ("msnbc", "stm-like"):
            if 4 in wanted:
                results["figure4"][name] = measure.figure4(data)
            if 5 in wanted:
                results["figure5"][name] = measure.figure5(data, runs, number)
            if 7 in wanted:
                results["figure7"][name] = measure.figure7(data, runs, number)
        if name == "stm-like" and 6 in wanted:
            results["figure6"][name] = measure.figure6(data, runs, number)
            results["figure6_fixed"][name] = measure.figure6(data, runs, number, fixed=True)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        document = {
            "runs": runs,
            "queries": number,
            "load_average": os.getloadavg(),
            "stm_records": given.stm_records,
            **results,
        }
        for path in filter(None, (given.out / "results.json", given.json)):
            path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if not (given.only or given.figure or given.quick):
        stamp(given.out, Path(__file__).parent, "results.json")
    draw(results, given.out)
    print(f"figures in {given.out}")


if __name__ == "__main__":
    main()
