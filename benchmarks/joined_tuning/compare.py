"""Two runs of tune.py side by side, table by table and seed by seed.

    python tune.py --learn --approximate --epsilon 0.1 --epsilon 1 --seeds 2 --out after.jsonl
    PYTHONPATH=EARLIER/src python tune.py (the same) --out before.jsonl
    python compare.py before.jsonl after.jsonl

EARLIER is a checkout of an earlier commit, whose code then stands for the other side; lines of one
file that differ in --set are compared with those of `before` that have none. Per cent of TV-2, of
the worst pair and of TV-3 (means of logarithms), differences of both areas under the curve, each
with its standard error. That the first pairs are counted without the target was settled so.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

Runs = dict[tuple[str, str, int], dict[str, Any]]


def read(path: Path) -> dict[str, Runs]:
    """By setting; then by table, epsilon and seed."""
    out: dict[str, Runs] = {}
    for text in path.read_text().splitlines():
        line = json.loads(text)
        out.setdefault(line["set"], {})[line["table"], line["epsilon"], line["seed"]] = line
    return out


def differences(before: Runs, after: Runs, epsilon: str) -> list[str]:
    """Mean and standard error of each figure over the runs that both have."""
    both = [key for key in after if key in before and key[1] == epsilon]
    out = []
    for figure in ("tv2", "tv2_worst", "tv3", "auc", "auc_boosting"):
        pairs = np.array([(before[key][figure], after[key][figure]) for key in both])
        area = figure.startswith("auc")
        apart = pairs[:, 1] - pairs[:, 0] if area else 100 * np.log(pairs[:, 1] / pairs[:, 0])
        digits = 4 if area else 1
        error = apart.std(ddof=1) / np.sqrt(len(both)) if len(both) > 1 else np.nan
        out.append(f"{figure} {apart.mean():+.{digits}f} ({error:.{digits}f})")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args()
    before = read(given.before)[""]
    for text, after in read(given.after).items():
        for epsilon in sorted({key[1] for key in after if key in before}, key=float):
            print(epsilon, text, *differences(before, after, epsilon), flush=True)


if __name__ == "__main__":
    main()
