"""Theorem 38 of Roth (2010): `python -m benchmarks.papers.roth2010_local --data DIR --out DIR
[--quick]`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with adult.csv.gz")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder for errors.png, learning.png and results.json",
    )
    parser.add_argument("--quick", action="store_true", help="small widths, few repeats")
    given = parser.parse_args()

    from benchmarks.papers.pages import stamp

    from .experiments import QUESTIONS, adult_records, errors_by_width, people_needed
    from .figures import draw_errors, draw_learning

    given.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    records = adult_records(given.data)
    attributes = len(QUESTIONS)
    errors = errors_by_width(
        records, attributes, range(1, 4 if given.quick else 7), 1 if given.quick else 5
    )
    for row in errors:
        shown = "  ".join(
            f"{name}: {row[name]['conjunction_max']:.4f} / {row[name]['parity_rms']:.4f}"
            for name in ("conjunctions", "parities", "central")
        )
        print(
            f"width {row['width']} ({row['sets']} sets)  largest conjunction error / rms parity "
            f"error  {shown}",
            flush=True,
        )
    learning = people_needed(
        attributes, range(1, 3 if given.quick else 6), 4 if given.quick else 20, 1_024_000
    )
    for row in learning:
        print(
            f"hidden parity of {row['size']}: local needs {row['local']}, central "
            f"{row['central']} people",
            flush=True,
        )
    results = {
        "people": len(records),
        "attributes": list(QUESTIONS),
        "epsilon": 1,
        "errors": errors,
        "learning": learning,
    }
    (given.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    stamp(given.out, Path(__file__).parent, "results.json")
    draw_errors(errors, len(records), given.out / "errors.png")
    draw_learning(learning, attributes, given.out / "learning.png")
    print(f"figures in {given.out}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
