"""When set-partition's plan should send people to frequent-itemsets, checked on generated baskets.

    python -m benchmarks.defaults.set_partition_warning [--runs 3]

For a grid of universes, sizes, lengths and epsilons: the mean error of the counts of the (up to
100) most frequent items of both methods, and whether the plan warns. A warning is right where
frequent-itemsets has the smaller error, and harmful where set-partition's is smaller by 5%.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from itertools import product

import numpy as np
from benchmarks.baselines.baskets import error, released
from benchmarks.defaults.baskets import Truth, generated, schema_of

from dpublish.methods.frequent_itemsets.mechanism import FrequentItemsets
from dpublish.methods.set_partition.mechanism import SetPartition
from dpublish.privacy.cost import Cost

ITEMS, SIZES, LENGTHS = (3, 5, 8, 12, 17, 40, 200, 1000), (2_000, 50_000), (1.5, 3.0, 8.0)
EPSILONS = ("3/10", "1", "3")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    warned = right = harmful = silent_losses = 0
    for items, size, mean in product(ITEMS, SIZES, LENGTHS):
        if mean > items / 2:
            continue
        baskets = generated(n=size, d=items, mean=mean, tail=0.6, zipf=0.9, habits=0.4, seed=3)
        truth = Truth(baskets, items)
        for epsilon in EPSILONS:
            cost = Cost.pure(Fraction(epsilon))
            errors = []
            for method in (SetPartition(), FrequentItemsets()):
                scores = []
                for seed in range(runs):
                    release = released(method, baskets, items, cost, seed)
                    counts = release.item_counts(top=items)
                    values = np.zeros(items)
                    places = [int(name) for name in counts["item"]]
                    values[places] = counts["count"].to_numpy()
                    scores.append(error(values, truth))
                errors.append(float(np.mean(scores)))
            plan = SetPartition().plan(schema_of(items, size), cost)
            warns = any("frequent-itemsets" in words for words in plan.warnings)
            better = errors[1] < errors[0]
            warned += warns
            right += warns and better
            harmful += warns and errors[0] < 0.95 * errors[1]
            silent_losses += not warns and better
            print(
                f"{items} items, {size} baskets of {mean}, epsilon {epsilon}: set-partition "
                f"{errors[0]:.1f}, frequent-itemsets {errors[1]:.1f}, warns: {warns}",
                flush=True,
            )
    print(f"{right} of {warned} warnings right, {harmful} where set-partition wins by 5%; ")
    print(f"{silent_losses} cases without a warning in which frequent-itemsets is better")


if __name__ == "__main__":
    main()
