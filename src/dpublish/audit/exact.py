"""Tier A: the exact output laws of a small mechanism, compared over all given neighbouring pairs in
rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpublish.audit.report import NOTHING_RAN, Finding, Report, name_of
from dpublish.errors import InputError
from dpublish.noise.base import Noise
from dpublish.noise.enumerator import OUTSIDE, Enumerator, Law, Raised, Tails, freeze, readable
from dpublish.noise.tape import TapMisuse
from dpublish.privacy.cost import Amount, exact as exact_amount, positive


@dataclass(frozen=True, kw_only=True)
class ExactReport(Report):
    """`loss` is the worst log-ratio found, in base `base`; it is to be compared with `epsilon`.
    `excess` is the worst delta."""

    tier: ClassVar[str] = "exact"

    epsilon: Fraction
    delta: Fraction
    base: Fraction
    loss: float
    excess: Fraction
    outcomes: int
    tails: Tails = "clip"

    def scope(self) -> str:
        claim = f"epsilon = {self.epsilon}" + (f", delta = {self.delta}" if self.delta else "")
        return (
            f"Every outcome ({self.outcomes}) of {self.pairs} neighbouring pair(s), both ways, in "
            f"exact arithmetic: "
            f"worst log-ratio {self.loss:.6g} in base {self.base} against a claim of {claim}; "
            f"worst delta {float(self.excess):.6g}."
        )


def exact(
    mechanism: Callable[[Noise, Any], Any],
    pairs: Iterable[tuple[Any, Any]],
    *,
    epsilon: Amount,
    delta: Amount = 0,
    window: tuple[int, int] = (-3, 6),
    tails: Tails = "clip",
    base: Fraction | int | None = None,
    root: int = 2,
    keys: Sequence[bytes] = (bytes(16), bytes(range(16))),
    max_branches: int = 200_000,
) -> ExactReport:
    """Enumerate `mechanism` on both inputs of every pair and compare the laws.

    Parameters
    ----------
    mechanism : callable
        `mechanism(noise, data) -> output`, drawing from `noise` only.
    pairs : iterable of (data, data)
        Neighbouring inputs; see `dpublish.audit.subject`.
    epsilon, delta : number
        The claim. Under base b it reads P(S) <= b^epsilon P'(S) + delta. A pure claim carries over
        to every base; a claim with delta above 0 must be stated for the base used.
    window, tails, base, root, keys, max_branches
        See `dpublish.noise.enumerator.Enumerator`.
    """
    claim, slack = positive(epsilon), exact_amount(delta, "delta")
    inputs = list(pairs)
    if not inputs:
        raise InputError("There is no pair of inputs to compare. Give at least one.")
    enumerator = Enumerator(
        base=base, root=root, window=window, tails=tails, keys=keys, max_branches=max_branches
    )
    enumerator.admit(claim)
    try:
        laws = _laws(enumerator, mechanism, inputs)
    except TapMisuse as misuse:
        finding = Finding(check="tap", pair=0, text=str(misuse))
        return ExactReport(
            mechanism=name_of(mechanism),
            pairs=len(inputs),
            findings=(finding,),
            epsilon=claim,
            delta=slack,
            base=enumerator.base,
            loss=math.inf,
            excess=Fraction(1),
            outcomes=0,
            tails=tails,
        )
    allowed = enumerator.power(claim)
    findings: list[Finding] = []
    worst_ratio: Fraction | None = Fraction(1)
    worst_excess = Fraction(0)
    seen: set[Any] = set()
    for position, (one, other) in enumerate(inputs):
        first, second = laws[freeze(one)], laws[freeze(other)]
        seen |= first.keys() | second.keys()
        for law, neighbour, way in (
            (first, second, "first over second"),
            (second, first, "second over first"),
        ):
            ratio, outcome = _worst_ratio(law, neighbour)
            excess = _hockey_stick(law, neighbour, allowed)
            worst_excess = max(worst_excess, excess)
            if worst_ratio is not None:
                worst_ratio = None if ratio is None else max(worst_ratio, ratio)
            if excess > slack:
                shown = "unbounded" if ratio is None else f"{_log(ratio, enumerator.base):.6g}"
                text = (
                    f"log-ratio {shown} ({way}) at outcome {_short(outcome)}; delta "
                    f"{float(excess):.4g}"
                )
                findings.append(Finding(check="privacy", pair=position, text=text))
    if all(isinstance(outcome, Raised) for outcome in seen):
        findings.append(NOTHING_RAN)
    return ExactReport(
        mechanism=name_of(mechanism),
        pairs=len(inputs),
        findings=tuple(findings),
        epsilon=claim,
        delta=slack,
        base=enumerator.base,
        loss=math.inf if worst_ratio is None else _log(worst_ratio, enumerator.base),
        excess=worst_excess,
        outcomes=len(seen),
        tails=tails,
    )


def _laws(
    enumerator: Enumerator, mechanism: Callable[[Noise, Any], Any], pairs: list[tuple[Any, Any]]
) -> dict[Any, Law]:
    """One law an input, all in the same base: whenever an input makes the base grow, start over."""
    inputs = {freeze(data): data for pair in pairs for data in pair}
    while True:
        base = enumerator.base
        laws = {key: enumerator.law(mechanism, data) for key, data in inputs.items()}
        if enumerator.base == base:
            return laws


def _worst_ratio(law: Law, neighbour: Law) -> tuple[Fraction | None, Any]:
    """The largest P(o) / P'(o) and where; None when some outcome is impossible on the other side.

    With tails apart P(o) is a lower bound and P'(o) plus the mass outside an upper bound, so the
    ratio is certified.
    """
    outside = neighbour.get(OUTSIDE, Fraction(0))
    worst, where = Fraction(0), None
    for outcome, mass in law.items():
        if outcome is OUTSIDE or mass == 0:
            continue
        other = neighbour.get(outcome, Fraction(0)) + outside
        if other == 0:
            return None, outcome
        if mass / other > worst:
            worst, where = mass / other, outcome
    return worst, where


def _hockey_stick(law: Law, neighbour: Law, allowed: Fraction) -> Fraction:
    """The largest P(S) - allowed * P'(S) over all events S; with tails apart, a certified lower
    bound on it."""
    none = Fraction(0)
    gains = (
        max(none, mass - allowed * neighbour.get(outcome, none))
        for outcome, mass in law.items()
        if outcome is not OUTSIDE
    )
    return max(none, sum(gains, none) - allowed * neighbour.get(OUTSIDE, none))


def _log(ratio: Fraction, base: Fraction) -> float:
    """Numerator and denominator apart, since either may be beyond a float."""
    # a base of many digits, as claims split into many parts lead to, is no float, but its logarithm
    # is
    logs = [
        math.log(number.numerator) - math.log(number.denominator)
        for number in (ratio, Fraction(base))
    ]
    return logs[0] / logs[1]


def _short(outcome: Any) -> str:
    text = readable(outcome)
    return text if len(text) <= 120 else text[:117] + "..."
