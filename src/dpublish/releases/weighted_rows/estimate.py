"""What weighted rows answer with: a value, an interval, what the interval rests on, and what should
make a reader careful."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpublish.estimate import Estimate
from dpublish.releases.weighted_rows.intervals import Basis

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


@dataclass(frozen=True)
class WeightedEstimate(Estimate):
    """An estimated mean (for a condition: a share) over the private rows.

    `basis` says what the interval rests on. "counted": the noisy tables determine the answer, and
    the interval covers their noise and the private rows being a sample. "bounds": they limit it,
    and the interval holds the truth whatever private rows are like beyond them. "assumed": they do
    not limit it, and `low` and `high` hold only if private rows are like public ones; then there is
    always a warning. `note` says the same in words, `model_low` and `model_high` are what the
    assumption gives.

    `standard_error` belongs to the interval. `noise_error`, from the privacy noise (under "moments"
    also from the shrinkage that it calls for), and `sampling_error`, from the private rows being a
    sample, are those of the weighted mean under the assumption. `shrinkage` is a first-order
    estimate of what regularization took off or added; `explained` is the share of the variation
    over the public rows that the fitted features explain.
    """

    noise_error: float
    sampling_error: float
    shrinkage: float
    explained: float
    effective_rows: float
    basis: Basis
    note: str
    model_low: float
    model_high: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        ends = f"{self.low:,.4g} to {self.high:,.4g}"
        if self.basis == "assumed":
            return (
                f"{self.value:,.4g} ({ends} if private rows are like public ones; no "
                f"{100 * self.level:.4g}% interval)"
            )
        bounds = ", by bounds" if self.basis == "bounds" else ""
        return f"{self.value:,.4g} ({100 * self.level:.4g}% interval {ends}{bounds})"


def note_of(basis: Basis, variant: str, model: tuple[float, float] | None = None) -> str:
    """What an interval rests on; for bounds also what the public rows would make of it."""
    if basis == "assumed" and variant != "moments":
        return LOGISTIC
    if basis != "bounds" or model is None:
        return NOTES[basis]
    ends = f"{model[0]:,.4g} to {model[1]:,.4g}"
    return (
        f"{NOTES[basis]}; {ends} if private rows are like public rows with the same counted values"
    )


def careful(found: WeightedEstimate, counted: tuple[float, float] | None) -> tuple[str, ...]:
    """What should make a reader careful: theorem 3 of the paper, the estimate tends to what the
    weights say, the truth only as far as their model holds. `counted` is the interval of what was
    counted, before it was widened to the value."""
    lines = []
    if found.basis == "assumed":
        lines.append(f"This is {found.note}.")
        if math.isfinite(found.explained):
            part = f"{found.explained:.0%} of its variation over the public rows"
            lines.append(f"The columns that the weights were fitted on explain {part}.")
    if counted is not None and not counted[0] <= found.value <= counted[1]:
        lines.append(
            f"The weights do not reproduce what was counted here, {counted[0]:,.4g} to "
            f"{counted[1]:,.4g}: it may be rare among "
            "the public rows, or weights were cut or held back."
        )
    if abs(found.shrinkage) > max(found.standard_error, 1e-12):
        lines.append(
            f"Regularization pulls this estimate towards the unweighted public rows, by about "
            f"{abs(found.shrinkage):.2g}: more "
            "than its standard error."
        )
    if found.effective_rows < FEW_ROWS:
        lines.append(f"It rests on few rows: they are worth {found.effective_rows:,.0f}.")
    return tuple(lines)
