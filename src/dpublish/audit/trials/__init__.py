"""Built-in audits: for everything that dpublish can run on private data, a small trial with made-up
inputs.

Names are those of the catalogue: release methods, online methods, problems of `dpublish solve`, and
randomisers of the local model. A record without a trial is no record, so that a new method cannot
be forgotten. Beside them stands the thesis's counter-example to distributional privacy, which is no
method and can be audited by name all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from dpublish.audit.trials.trial import TIERS, Declined, Tier, Trial
from dpublish.catalogue import ALIASES, load, methods
from dpublish.errors import PlanError, did_you_mean

TRIALS: Mapping[str, str] = {name: method.trial for name, method in methods().items()}
"""Every name that has a built-in audit, with the function that makes its trials."""
EXAMPLES: Mapping[str, str] = {"mirrored-mod": "dpublish.audit.trials.trial:mirrored_mod"}
"""Mechanisms that are shown and not offered."""


def trials_of(name: str) -> tuple[Trial, ...]:
    """The trials of one method. Unknown names are refused with the nearest known one."""
    name = ALIASES.get(name, name)
    homes = {**TRIALS, **EXAMPLES}
    if name not in homes:
        raise PlanError(
            f"There is nothing to audit under the name '{name}'.{did_you_mean(name, homes)} "
            f"Names: {', '.join(sorted(homes))}. docs/audits.md shows how to audit a mechanism of "
            f"your own."
        )
    made: Callable[[], Iterable[Trial]] = load(homes[name])
    return tuple(made())


__all__ = ["EXAMPLES", "TIERS", "TRIALS", "Declined", "Tier", "Trial", "trials_of"]
