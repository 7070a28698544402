"""Private k-median: k of the public sites, close to private demand.

In: how many demand points there are at each public place (private). Out: k sites. Local search by
private swaps, then a private pick among the visited solutions; for tiny instances the exponential
mechanism over all sets of k sites.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.field_types import Interval
from dpublish.methods.solvers.inputs import PresentItems
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.k_median.swaps import swap_search
from dpublish.methods.solvers.lower_bounds import missed, nothing_ruled_out
from dpublish.methods.solvers.planning import (
    Bound,
    SolverSettings,
    check_schema,
    digest_of,
    label_column,
    numbered,
    pure,
    solution_plan,
)
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

Rule = Literal["search", "exact"]
MAX_EXACT_SETS = 200_000


@dataclass(frozen=True, kw_only=True)
class KMedianSettings(SolverSettings):
    """How many private swaps, and the epsilon of each choice."""

    released: ClassVar[tuple[str, ...]] = ("k", "sites", "unit", "diameter")

    problem: str = "k-median"
    k: int
    sites: int
    unit: float
    diameter: float
    steps: int
    step_epsilon: Fraction


def search_sites(
    noise: Noise, metric: Metric, k: int, demand: IntArray, *, steps: int, step: Fraction
) -> IntArray:
    """Algorithm 2: `steps` private swaps from a public start, then a private pick among all
    solutions seen."""
    sensitivity = Fraction(metric.diameter)
    search = swap_search(metric, first_sites(metric, k), demand)
    seen, costs = [search.sites.copy()], [search.cost]
    for _ in range(steps):
        search.swap(*search.draw(noise, sensitivity=sensitivity, epsilon=step))
        seen.append(search.sites.copy())
        costs.append(search.cost)
    best = noise.choose(
        -np.array(costs, dtype=np.int64),
        sensitivity=sensitivity,
        epsilon=step,
        monotone=True,
        label="visited",
    )
    return np.sort(seen[best])


@dataclass(frozen=True, kw_only=True)
class KMedian(Mechanism):
    """k sites with a small sum of distances from demand points to the nearest of them.

    Input: counts of demand points at public places. Neighbours: add-remove-one, of a demand point.
    Output: k distinct sites.
    Privacy: epsilon-DP (theorem 1 of k_median.proof.md; theorem 2 for "exact").
    Relies on: `Noise.choose` and `choose_bounded`; distances that are public whole numbers of at
    most the diameter.
    Shows / hides: where demand is dense; hides whether any one demand point is there.
    Accuracy: at most 6 times the best cost plus a number of order diameter * k^2 ln^2 n / epsilon
    (search).

    Parameters
    ----------
    k : how many sites to open.
    metric : public distances between places; every place is a possible site and a possible demand
        point.
    labels : public names of the places.
    positions : public coordinates of the places, carried along for maps; they play no part in the
        method.
    rule : "search" or "exact" (all sets of k sites, for tiny instances).
    steps : number of swaps; 6 k ln n by default, as in the theorem. Fewer steps mean less noise in
        each.
    """

    method: ClassVar[str] = "k-median"
    kind: ClassVar[str] = "solution"

    k: int
    metric: Metric
    labels: Sequence[object] | None = None
    positions: Any = None
    rule: Rule = "search"
    steps: Annotated[int | None, Interval(0)] = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[KMedianSettings]:
        check_schema(schema, "A k-median")
        pure(cost, "A k-median")
        size = self.metric.size
        labels = None if self.labels is None else numbered(self.labels, "labels")[1]
        if labels is not None and len(labels) != size:
            raise PlanError(f"The metric has {size} places, but there are {len(labels)} labels.")
        if self.positions is not None and not _is_map(self.positions, size):
            raise PlanError(f"positions must be {size} rows of two finite coordinates.")
        if not 1 <= self.k <= size:
            raise PlanError(
                f"k must be a whole number from 1 to the number of sites, {size}, not {self.k!r}."
            )
        diameter = self.metric.diameter * self.metric.unit
        lower = diameter * missed(size, self.k, float(cost.epsilon))
        if self.rule == "exact":
            steps, bound, sentence = self._exact_terms(cost, diameter)
        elif self.rule == "search":
            steps, bound, sentence = self._search_terms(cost, diameter)
        else:
            raise PlanError(f"rule = '{self.rule}' is not known. Use search or exact.")
        # names are part of what is asked for: they decide which rows are at which site
        structure = self.metric.digest if labels is None else digest_of(self.metric.digest, labels)
        return solution_plan(
            method=self.method,
            schema=schema,
            cost=cost,
            parameters={
                "k": self.k,
                "sites": size,
                "structure": structure,
                "rule": self.rule,
                "steps": steps,
            },
            settings=KMedianSettings(
                labels=labels,
                k=self.k,
                sites=size,
                unit=self.metric.unit,
                diameter=diameter,
                sensitivity=Fraction(self.metric.diameter),
                steps=steps,
                step_epsilon=cost.epsilon / (steps + 1),
                bound=bound,
                lower_bound={
                    "factor": 1.0,
                    "additive": lower,
                    "text": f"where all places are {diameter:.4g} apart, some demand costs every "
                    f"private method {lower:.4g} more than the best in expectation (as in theorem "
                    "47)."
                    if lower
                    else nothing_ruled_out(47),
                },
            ),
            sentences=[
                f"{self.k} of {size:,} sites; distances up to {diameter:.5g} in units of "
                f"{self.metric.unit:.4g}.",
                sentence,
            ],
        )

    def _exact_terms(self, cost: Cost, diameter: float) -> tuple[int, Bound, str]:
        sets = math.comb(self.metric.size, self.k)
        if sets > MAX_EXACT_SETS:
            raise PlanError(
                f"rule = 'exact' compares {sets:,} sets of sites; at most {MAX_EXACT_SETS:,}. "
                "Use 'search'."
            )
        additive = diameter * 2 * math.log(max(2, sets)) / float(cost.epsilon)
        bound: Bound = {
            "factor": 1.0,
            "additive": additive,
            "text": f"the cost is at most the best plus {additive:.4g}, except with "
            f"probability {1 / sets:.2g}.",
        }
        return 0, bound, f"One of {sets:,} sets of sites by the exponential mechanism."

    def _search_terms(self, cost: Cost, diameter: float) -> tuple[int, Bound, str]:
        log = math.log(max(2, self.metric.size))
        steps = self.steps if self.steps is not None else math.ceil(6 * self.k * log)
        steps = 0 if self.k == self.metric.size else steps
        step = float(cost.epsilon / (steps + 1))
        additive = (24 * self.k + 4) * log * diameter / step
        short = "" if steps >= 6 * self.k * log else " (for 6 k ln n steps; fewer were asked for)"
        bound: Bound = {
            "factor": 6.0,
            "additive": additive,
            "text": f"the cost is at most 6 times the best plus {additive:.4g}, with high "
            f"probability{short}.",
        }
        return steps, bound, f"{steps:,} swaps and a final pick, each with epsilon = {step:.4g}."

    def statistic(self, plan: Plan[KMedianSettings]) -> PresentItems:
        return PresentItems(plan.settings.sites, plan.settings.labels)

    def run(self, noise: Noise, numbers: IntArray, plan: Plan[KMedianSettings]) -> Output:
        settings = plan.settings
        if self.rule == "exact":
            chosen = exact_sites(noise, self.metric, self.k, numbers, settings.step_epsilon)
        else:
            chosen = search_sites(
                noise,
                self.metric,
                self.k,
                numbers,
                steps=settings.steps,
                step=settings.step_epsilon,
            )
        table: dict[str, Any] = {"site": chosen, **label_column(settings.labels, chosen)}
        if self.positions is not None:
            at = np.asarray(self.positions, dtype=np.float64)[chosen]
            table |= {"x": np.ascontiguousarray(at[:, 0]), "y": np.ascontiguousarray(at[:, 1])}
        return Output(facts=settings.solution_facts(), tables={"chosen": table})


def _is_map(positions: Any, size: int) -> bool:
    try:
        found = np.asarray(positions, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return found.shape == (size, 2) and bool(np.isfinite(found).all())


def exact_sites(
    noise: Noise, metric: Metric, k: int, demand: IntArray, epsilon: Fraction
) -> IntArray:
    """Theorem 43: one of all sets of k sites; every cost moves the same way by at most the
    diameter."""
    rows = np.array([metric.row(place) for place in range(metric.size)])
    sets = list(itertools.combinations(range(metric.size), k))
    costs = np.array(
        [int(demand @ rows[list(sites)].min(axis=0)) for sites in sets], dtype=np.int64
    )
    place = noise.choose(
        -costs, sensitivity=Fraction(metric.diameter), epsilon=epsilon, monotone=True, label="sites"
    )
    return np.array(sets[place], dtype=np.int64)


def first_sites(metric: Metric, k: int) -> IntArray:
    """A public start that is spread out: each next site is the one farthest from those before."""
    sites = [0]
    nearest = metric.row(0)
    while len(sites) < k:
        nearest[sites] = -1
        sites.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, metric.row(sites[-1]))
    return np.array(sites, dtype=np.int64)
