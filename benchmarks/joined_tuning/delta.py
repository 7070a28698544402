"""What a delta buys on tables of many numbers that depend on each other, and whether the plan of a
pure cost says so.

    python benchmarks/joined_tuning/delta.py --seeds 2

Made-up tables of brightnesses: every column is a number in 32 even bins, a mix of four hidden ones
and some of its own, and a target of two labels follows from two of the hidden ones. For numbers of
columns and rows and for each epsilon: the total variation of pairs (TV-2) with pure epsilon and
with delta = 1e-9 beside it, how many times smaller the noise is by the plan, and whether the plan
of the pure cost names a delta (`WORTH_A_DELTA` in the plan).
"""

from __future__ import annotations

import argparse
import itertools
import re

import numpy as np
from synthetic_inputs import Synthetic, dense
from tune import publish, schema_of, variation


def named_ratio(table: Synthetic, epsilon: str) -> float | None:
    """How many times smaller the plan of a pure cost says that noise is with a delta; None where
    it says nothing."""
    import dpublish as dp
    from dpublish.privacy.cost import Cost

    schema = dp.Schema.from_toml(schema_of(table))
    text = dp.JoinedHistograms().plan(schema, Cost.pure(epsilon)).text()
    found = re.search(r"the noise with delta = 1e-9 beside epsilon is about ([\d.]+)", text)
    return None if found is None else float(found[1])


def pairs_off(table: Synthetic, epsilon: str, seed: int, *, pure: bool) -> float:
    """TV-2 over at most a hundred pairs."""
    codes, _ = publish(table, epsilon, seed, {}, pure=pure)
    pairs = list(itertools.combinations(range(len(table.levels)), 2))
    some = pairs[:: max(1, len(pairs) // 100)]
    return float(np.mean([variation(table, codes, pair) for pair in some]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    print("| columns | rows | epsilon | TV-2 pure | TV-2 with delta | ratio | plan names a delta |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for columns, rows in ((3, 5_000), (6, 5_000), (12, 5_000), (12, 20_000), (36, 5_000)):
        for epsilon in ("0.3", "1", "3"):
            off: dict[bool, list[float]] = {True: [], False: []}
            for seed in range(given.seeds):
                table = dense(seed, rows=rows, columns=columns + 1)
                for pure in off:
                    off[pure].append(pairs_off(table, epsilon, seed, pure=pure))
            pure, both = float(np.mean(off[True])), float(np.mean(off[False]))
            named = named_ratio(table, epsilon)
            said = "no" if named is None else f"yes: noise {named:.2f} times"
            print(
                f"| {columns} | {rows:,} | {epsilon} | {pure:.3f} | {both:.3f} | "
                f"{both / pure:.2f} | {said} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
