"""Is a classifier below chance by construction anywhere, or by chance?

Where noise decides, the AUC of one release is far from 0.5 on either side, and the mean of a few
seeds with it: among hundreds of tables some mean of six must be near 0.4. So the lowest tables of a
scan are run again, with seeds that the scan did not have, on tables drawn anew. If the AUC fell
below 0.5 by construction, more than half of these runs would: a sign test for each, at 0.01 divided
by their number. It would notice a share of 60% with 200 runs in nine of ten cases.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from . import areas
from .shapes import CHOSEN, drawn, shape

MAX_ROWS = 4000


def report(seeds: int, epsilons: tuple[float, ...] = (0.1, 1.0), again: int = 5) -> None:
    small = [number for number in CHOSEN if shape(number)["rows"] <= MAX_ROWS]
    scan = []
    for number in small:
        for epsilon in epsilons:
            found = [areas.classifier(drawn(number, s), s, epsilon) for s in range(6)]
            scan.append((float(np.mean(found)), number, epsilon))
    scan.sort()
    print(
        f"{len(scan)} tables, means of 6 seeds: lowest {scan[0][0]:.3f}, highest {scan[-1][0]:.3f}"
    )
    limit = 0.01 / again
    for mean, number, epsilon in scan[:again]:
        fresh = [areas.classifier(drawn(number, s), s, epsilon) for s in range(500, 500 + seeds)]
        below = int(np.sum(np.array(fresh) < 0.5))
        chance = float(stats.binomtest(below, len(fresh), 0.5, alternative="greater").pvalue)
        made = shape(number)
        said = "BELOW CHANCE" if chance < limit else "by chance"
        print(
            f"shape {number} ({made['rows']} rows, {len(made['levels'])} with levels, "
            f"{made['numbers']} numbers), epsilon {epsilon:g}: scan {mean:.3f}, fresh "
            f"{np.mean(fresh):.3f} +- {np.std(fresh) / np.sqrt(len(fresh)):.3f}, {below} of "
            f"{len(fresh)} below 0.5 (p = {chance:.2g}): {said}",
            flush=True,
        )
