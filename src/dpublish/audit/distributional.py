"""Distributional privacy (Roth 2010, section 3.7): whole data sets drawn from one population must
look alike.

Stronger than differential privacy in what may change (all rows at once), weaker in when (rows come
from one population, and a share `beta` of the draws may go wrong). No release of this library
promises it; this audit tries to refute such a claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpublish.audit.exact import exact
from dpublish.audit.report import Finding, Report, name_of
from dpublish.audit.sampled import clopper_pearson
from dpublish.errors import InputError
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Amount, exact as exact_amount, positive


@dataclass(frozen=True, kw_only=True)
class DistributionalReport(Report):
    """`beyond` of `pairs` pairs of samples had a loss above `alpha`; `lower_bound` is what that
    says about all pairs."""

    tier: ClassVar[str] = "distributional"

    alpha: Fraction
    beta: float
    rows: int
    beyond: int
    loss: float
    lower_bound: float
    false_alarm: float

    def scope(self) -> str:
        return (
            f"{self.pairs} pairs of samples of {self.rows} rows from one population, in exact "
            f"arithmetic: {self.beyond} with a "
            f"loss above alpha = {self.alpha} (worst {self.loss:.6g}); a share of at least "
            f"{self.lower_bound:.3g} of all "
            f"pairs, against a claim of at most {self.beta:g}. A true claim fails at most so "
            f"often: {self.false_alarm:g}."
        )


def distributional(
    mechanism: Callable[[Noise, Any], Any],
    population: Sequence[Any],
    *,
    rows: int,
    alpha: Amount,
    beta: float = 0.05,
    pairs: int = 60,
    seed: int = 1,
    false_alarm: float = 1e-3,
    window: tuple[int, int] = (-3, 6),
    root: int = 2,
    max_branches: int = 200_000,
) -> DistributionalReport:
    """Draw pairs of samples from `population`, enumerate `mechanism` on both, and count the pairs
    whose laws differ too much.

    Parameters
    ----------
    mechanism : callable
        `mechanism(noise, data) -> output`, drawing from `noise` only; data is a tuple of members of
        the population.
    population : sequence
        The public population. Each sample takes `rows` of it without replacement; the two samples
        are independent.
    alpha, beta : number
        The claim: except for a share `beta` of all pairs, P(S) <= e^alpha P'(S) for every set S of
        outputs.
    pairs, seed : int
        How many pairs are drawn, and from which public stream.
    false_alarm : float
        A true claim is refuted with at most this probability over the draw of the pairs.
    window, root, max_branches
        As in `audit.exact`.
    """
    bound = positive(exact_amount(alpha, "alpha"), "alpha")
    if not 1 <= rows <= len(population):
        raise InputError(
            f"rows must lie between 1 and the size of the population ({len(population)}), not "
            f"{rows}."
        )
    if not 0 <= beta < 1 or not 0 < false_alarm < 1:
        raise InputError(
            "beta must be at least 0 and below 1, and false_alarm must lie between 0 and 1."
        )
    if pairs < 1:
        raise InputError(f"pairs must be at least 1, not {pairs}.")
    findings: list[Finding] = []
    worst = 0.0
    for turn in range(pairs):
        drawn = (
            _sample(population, rows, f"{seed}:{turn}:first"),
            _sample(population, rows, f"{seed}:{turn}:second"),
        )
        report = exact(
            mechanism, [drawn], epsilon=bound, window=window, root=root, max_branches=max_branches
        )
        worst = max(worst, report.loss)
        if not report.passed:
            findings.append(Finding(check="distribution", pair=turn, text=report.findings[0].text))
    # one side only, so the whole false-alarm rate goes to the lower bound
    lower, _ = clopper_pearson(len(findings), pairs, false_alarm)
    return DistributionalReport(
        mechanism=name_of(mechanism),
        pairs=pairs,
        findings=tuple(findings) if lower > beta else (),
        alpha=bound,
        beta=beta,
        rows=rows,
        beyond=len(findings),
        loss=worst,
        lower_bound=lower,
        false_alarm=false_alarm,
    )


def _sample(population: Sequence[Any], rows: int, label: str) -> tuple[Any, ...]:
    """`rows` members without replacement. A hash orders them: the same pairs every time, without
    privacy randomness."""
    order = sorted(
        range(len(population)),
        key=lambda place: hashlib.sha256(f"{label}:{place}".encode()).digest(),
    )
    return tuple(population[place] for place in sorted(order[:rows]))
