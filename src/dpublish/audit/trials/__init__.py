"""Built-in audits: for everything that dpublish can run on private data, a small trial with made-up inputs.

The registry is by the names that people type: release methods, online methods, problems of `dpublish solve`, and randomisers of
the local model. A test holds it to all of them, so that a new method cannot be forgotten. Beside them stands the thesis's
counter-example to distributional privacy, which is no method and can be audited by name all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from dpublish.audit.trials.trial import TIERS, Declined, Tier, Trial
from dpublish.errors import PlanError, did_you_mean

_HOMES: Mapping[str, tuple[str, ...]] = {
    "tables": (
        "generalized-table",
        "histogram",
        "importance-weights",
        "joined-histograms",
        "private-classifier",
        "projected-histogram",
    ),
    "sets": ("basic-itemsets", "set-partition"),
    "queries": ("halfspaces", "interval-tree", "multiplicative-weights", "net"),
    "online": ("median-mechanism", "online-multiplicative-weights"),
    "optimize": ("k-median", "min-cut", "public-projects", "set-cover", "vertex-cover"),
    "local": ("binary", "conjunctions", "hadamard", "hashing", "heavy-hitters", "kary", "mean", "unary"),
}

TRIALS: Mapping[str, str] = {name: family for family, names in _HOMES.items() for name in names}
"""Every name that has a built-in audit, with its family."""
EXAMPLES: Mapping[str, str] = {"mirrored-mod": "counterexample"}
"""Mechanisms that are shown and not offered."""


def trials_of(name: str) -> tuple[Trial, ...]:
    """The trials of one method. Unknown names are refused with the nearest known one."""
    from dpublish.methods.registry import ALIASES

    name = ALIASES.get(name, name)
    homes = {**TRIALS, **EXAMPLES}
    if name not in homes:
        raise PlanError(
            f"There is nothing to audit under the name '{name}'.{did_you_mean(name, homes)} "
            f"Names: {', '.join(sorted(homes))}. docs/audits.md shows how to audit a mechanism of your own."
        )
    module = import_module(f"dpublish.audit.trials.{homes[name]}")
    made: Callable[[], Iterable[Trial]] = getattr(module, name.replace("-", "_"))
    return tuple(made())


__all__ = ["EXAMPLES", "TIERS", "TRIALS", "Declined", "Tier", "Trial", "trials_of"]
