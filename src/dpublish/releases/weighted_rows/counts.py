"""The noisy tables that weights were fitted to, as a release of weighted rows holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable
from dpublish.models.junction_tree.measured import Measured, NoiseName
from dpublish.models.weight_features import WeightFeatures
from dpublish.privacy.budget_split import laplace_variance

_BELIEVABLE = 1e24


def read_counts(
    manifest: Mapping[str, Any], features: WeightFeatures, values: NDArray[np.int64]
) -> Measured | None:
    """What was counted, with its noise; None where the file does not say it plainly, and so no
    count can be relied on."""
    facts = manifest["facts"]
    purse = manifest["plan"].get("facts", {}).get("purse")
    if (
        facts.get("variant") != "moments"
        or features.numbers != "bins"
        or not isinstance(purse, Mapping)
    ):
        return None
    variances = _variances(purse, len(features.groups))
    if variances is None:
        return None
    parts = np.split(values.astype(np.float64), features.starts[1:-1])
    columns, tables = [], []
    for group, counts, variance in zip(features.groups, parts, variances, strict=True):
        if len(group.axes) == 1:
            columns.append(MeasuredColumn(counts[:, None], variance))
        else:
            shape = tuple(features.axes[axis].cardinality for axis in group.axes)
            levels = tuple(np.arange(size, dtype=np.int64) for size in shape)
            tables.append(MeasuredTable(group.axes, levels, counts.reshape(*shape, 1), variance))
    total = facts.get("public_total")
    known = isinstance(total, int) and not isinstance(total, bool) and total > 0
    law: NoiseName = "gaussian" if purse["law"] == "gaussian" else "laplace"
    return Measured(law, None, tuple(columns), tuple(tables), total if known else None)


def _variances(purse: Mapping[str, Any], groups: int) -> list[float] | None:
    """The noise variance of a cell of each table: columns and named pairs in turn, then the pairs
    that were chosen."""
    try:
        rows, replaced = int(purse["unit_rows"]), bool(purse["replaced"])
        named = [float(Fraction(amount)) for amount in purse["tables"]]
        amounts = [*named, *[float(Fraction(purse["pair_table"]))] * (groups - len(named))][:groups]
        if purse["law"] == "laplace":
            found = [laplace_variance(rows * (1 + replaced) / amount) for amount in amounts]
        elif purse["law"] == "gaussian":
            # the square of the root of two that the mechanism rounds up
            found = [
                rows**2 * (2.000_002 if replaced else 1.0) / (2 * amount) for amount in amounts
            ]
        else:
            return None
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
    sound = (
        len(found) == groups
        and rows > 0
        and all(math.isfinite(one) and 0.0 < one < _BELIEVABLE for one in found)
    )
    return found if sound else None
