"""Sums over the cells of a thresholded histogram, with a lower limit.

The score of a cell (its noisy count, or less than nothing where it was left out) is biased
downwards only, so a sum of scores with amounts of at least 0 has a lower limit. Negative amounts
are made positive by taking them from the number of rows, where that is known; and a cell that was
left out has a noisy count of at most the threshold, which limits what it can take away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpublish.models.thresholded_counts import Floats, Suppression, spread_quantile
from dpublish.releases.histogram.intervals import CellSums, Total


@dataclass(frozen=True)
class SuppressedSums:
    """`cells` are sums over the cells that each combination of codes stands for; `estimates` the
    best guess of their rows."""

    cells: CellSums
    estimates: Floats
    law: Suppression
    total: Total

    @property
    def independent(self) -> bool:
        return not self.cells.suppressed.any()

    def value(self, amounts: Floats) -> float:
        return float((amounts * self.estimates).sum())

    def sure(self, amounts: Floats) -> float:
        return self.value(amounts)

    def low(self, amounts: Floats, alpha: float) -> float:
        cells, each = self.cells, amounts.reshape(-1)
        second, fourth = self.law.noise_cumulants
        if not cells.suppressed[each != 0.0].any():
            spread = _quantile(alpha, each, cells.released * second, 0.0, cells.released * fourth)
            return float(each @ cells.counts) - spread
        known = self.total.known or self.total.bound is not None
        part = alpha / 2 if known else alpha
        # what was left out is at most the threshold with its noise
        up, down = np.maximum(each, 0.0), np.minimum(each, 0.0)
        capped = float(up @ cells.score(self.law)) + float(
            down @ (cells.counts + self.law.threshold * cells.suppressed)
        )
        k2 = float(up**2 @ cells.k2) + float(down**2 @ cells.cells) * second
        k4 = float(up**4 @ cells.k4) + float(down**4 @ cells.cells) * fourth
        found = capped - _spread(part, k2, float(up**3 @ cells.k3), k4)
        if not known:
            return found
        shift = min(0.0, float(each.min()))
        raised = each - shift
        if self.total.known:
            extra2, extra4 = self.total.cumulants
            rows = float(self.total.value)
        else:
            extra2, extra4, rows = 0.0, 0.0, float(self.total.bound or 0)
        spread = _spread(
            part,
            float(raised**2 @ cells.k2) + shift**2 * extra2,
            float(raised**3 @ cells.k3),
            float(raised**4 @ cells.k4) + shift**4 * extra4,
        )
        by_total = float(raised @ cells.score(self.law)) + shift * rows - spread
        if self.total.kind == "public":
            by_total = max(by_total, shift * rows)  # no count is below 0
        return max(found, by_total)


def _quantile(alpha: float, amounts: Floats, k2: Floats, k3: float, k4: Floats) -> float:
    return _spread(alpha, float(amounts**2 @ k2), k3, float(amounts**4 @ k4)) + 0.5 * float(
        np.abs(amounts).max(initial=0.0)
    )


def _spread(alpha: float, k2: float, k3: float, k4: float) -> float:
    return float(spread_quantile(alpha, *(np.array([one]) for one in (k2, k3, k4)))[0])
