"""What the interval of a weighted mean rests on, in words, and what to be careful about."""

from __future__ import annotations

import math

from dpublish.estimate import Basis, Estimate, plain

FEW_ROWS = 100

NOTES: dict[Basis, str] = {
    "counted": "counted: the interval covers the noise and the sampling",
    "bounds": (
        "not counted as such: the limits hold whatever private rows are like beyond what was "
        "counted, and are wide where the "
        "release cannot tell"
    ),
    "assumed": (
        "not an interval that is known to hold: it takes private rows to be like public rows with "
        "the same counted values, and "
        "the release cannot tell whether they are"
    ),
}
LOGISTIC = (
    "not an interval that is known to hold: it takes the logistic model of the weights to be "
    "right, and the release cannot "
    "tell whether it is"
)
UNSEEN = (
    "; no public row has it, so the weights say nothing, and the value is the middle of the limits"
)


def note_of(basis: Basis, variant: str, model: tuple[float, float] | None = None) -> str:
    """What an interval rests on; for bounds also what the public rows would make of it."""
    if basis == "assumed" and variant != "moments":
        return LOGISTIC
    if basis != "bounds" or model is None:
        return NOTES[basis]
    ends = f"{plain(model[0])} to {plain(model[1])}"
    return (
        f"{NOTES[basis]}; {ends} if private rows are like public rows with the same counted values"
    )


def careful(found: Estimate, counted: tuple[float, float] | None) -> tuple[str, ...]:
    """What should make a reader careful: theorem 3 of the paper, the estimate tends to what the
    weights say, the truth only as far as their model holds. `counted` is the interval of what was
    counted, before it was widened to the value."""
    explained, shrinkage, rows = (
        float(found.details[name]) for name in ("explained", "shrinkage", "effective_rows")
    )
    lines = []
    if found.basis == "assumed":
        lines.append(f"This is {found.note}.")
        if math.isfinite(explained):
            part = f"{explained:.0%} of its variation over the public rows"
            lines.append(f"The columns that the weights were fitted on explain {part}.")
    if counted is not None and not counted[0] <= found.value <= counted[1]:
        lines.append(
            f"The weights do not reproduce what was counted here, {plain(counted[0])} to "
            f"{plain(counted[1])}: it may be rare among "
            "the public rows, or weights were cut or held back."
        )
    if abs(shrinkage) > max(found.standard_error, 1e-12):
        lines.append(
            f"Regularization pulls this estimate towards the unweighted public rows, by about "
            f"{abs(shrinkage):.2g}: more "
            "than its standard error."
        )
    if rows < FEW_ROWS:
        lines.append(f"It rests on few rows: they are worth {rows:,.0f}.")
    return tuple(lines)
