"""What a decision costs on the private rows, beside the public one that needs no data: two noisy
numbers, paid for with a share of epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.noise.base import Noise

LEVEL = 0.95
COST_SHARE = Fraction(1, 10)
"""Share of epsilon that buys the costs; see benchmarks/baselines/decisions.py."""


def estimated_costs(
    noise: Noise,
    chosen: int,
    public: int | None,
    *,
    sensitivity: Fraction,
    epsilon: Fraction,
    unit: float = 1.0,
    most: float = math.inf,
) -> dict[str, Any]:
    """Noisy costs as facts of a release; `public` is None where the public solution was chosen.

    `sensitivity` bounds how far one row moves both costs together, in units; `most` is a public
    bound on a cost. Nothing is drawn without an epsilon.
    """
    if not epsilon:
        return {}
    costs = [chosen] if public is None else [chosen, public]
    noisy = noise.laplace(
        np.array(costs, dtype=np.int64),
        sensitivity=sensitivity,
        epsilon=epsilon,
        label="costs of the solutions",
    )
    scale = float(sensitivity / epsilon) * unit
    reach = scale * math.log(1 / (1 - LEVEL)) + unit
    found = []
    for drawn in noisy.tolist():
        value = drawn * unit
        ends = [min(max(end, 0.0), most) for end in (value - reach, value, value + reach)]
        low, middle, high = ends
        found.append(
            {
                "value": middle,
                "standard_error": math.sqrt(2) * scale,
                "low": low,
                "high": high,
                "level": LEVEL,
            }
        )
    return {"cost_estimate": found[0], "public_cost_estimate": found[-1]}
