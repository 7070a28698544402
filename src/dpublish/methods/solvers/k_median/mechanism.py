"""Private k-median: k of the public sites, close to private demand.

In: how many demand points there are at each public place (private). Out: k sites. By default noisy
counts of the demand, and then a search over public numbers, whose sites are taken if they seem
better than the best ones for even demand, which need no data. By name the thesis's local search by
private swaps, and for tiny instances the exponential mechanism over all sets of k sites.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.draws import laplace_deviation
from dpublish.methods.field_types import Interval
from dpublish.methods.solvers.inputs import Labels, PresentItems
from dpublish.methods.solvers.k_median.demand import (
    Groups,
    far_places,
    group_distances,
    group_places,
    likely_demand,
    noise_margin,
    reach_of,
    searched_sites,
    seeming_gain,
)
from dpublish.methods.solvers.k_median.kernels import FAR_SLACK, NEAR_SLACK
from dpublish.methods.solvers.k_median.metric import Metric, PointMetric
from dpublish.methods.solvers.k_median.swaps import swap_search
from dpublish.methods.solvers.planning import (
    COST_SHARE,
    Bound,
    SolverSettings,
    check_schema,
    digest_of,
    estimated_costs,
    label_column,
    missed,
    nothing_ruled_out,
    numbered,
    pure,
    solution_plan,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden

Rule = Literal["demand", "search", "exact"]
SURE = 0.05
"""Chance with which the bound of "demand" may fail."""
HOPELESS = 4.0
"""The data can hardly matter where sites must seem so many times as much cheaper, to be told from
noise, as all rows at the worst place would cost (benchmarks/defaults/k_median_warning.py)."""
MAX_EXACT_SETS = 200_000


def k_median(noise: Noise, demand: Ints, instance: KMedian, settings: KMedianSettings) -> Output:
    """The mechanism: noisy demand, sites that a public search finds for it, the public sites
    instead unless these seem cheaper, and what both cost. By name the thesis's local search, or one
    of all sets of k sites."""
    metric, k, step, public = instance.metric, instance.k, settings.step_epsilon, settings.public
    facts, tables = settings.solution_facts(), {}
    if public is not None:
        places, epsilon = public.places, public.epsilon
        noisy, found = demand_sites(noise, metric, k, demand, places, epsilon)
        chosen = better_sites(metric, places, noisy, found, public)
        facts |= site_costs(noise, metric, demand, chosen, public)
        facts["demand_scale"] = str(1 / epsilon)
        tables["public"] = instance.site_table(public.sites, settings.labels)
        tables["demand"] = demand_table(places, noisy)
    elif instance.rule == "exact":
        chosen = exact_sites(noise, metric, k, demand, step)
    else:
        chosen = search_sites(noise, metric, k, demand, steps=settings.steps, step=step)
    chosen_table = instance.site_table(chosen, settings.labels)
    return Output(facts=facts, tables={"chosen": chosen_table, **tables})


def demand_sites(
    noise: Noise, metric: Metric, k: int, demand: Ints, places: Groups, epsilon: Fraction
) -> tuple[Ints, Ints]:
    """Noisy demand of every group of places, and k sites that a public search finds for it."""
    counts = np.bincount(places.of_place, weights=demand, minlength=places.count).astype(np.int64)
    noisy = noise.laplace(counts, sensitivity=Fraction(1), epsilon=epsilon, label="demand")
    between = group_distances(metric, places)
    likely = likely_demand(noisy, places.sizes, laplace_deviation(1 / epsilon))
    return noisy, searched_sites(metric, places, between, likely, k)


def better_sites(
    metric: Metric,
    places: Groups,
    noisy: Ints,
    found: Ints,
    public: PublicPart,
) -> Ints:
    """The sites that were found, if the noisy demand says that they are cheaper than the public
    ones by more than noise would; the public ones otherwise. A function of public numbers."""
    deviation = laplace_deviation(1 / public.epsilon)
    seems = seeming_gain(metric, places, noisy, found, public.sites, deviation)
    return found if seems > public.margin else public.sites


def site_costs(
    noise: Noise, metric: Metric, demand: Ints, chosen: Ints, public: PublicPart
) -> dict[str, Any]:
    """Noisy costs of the chosen sites and of the public ones; one cost where these are the same. A
    demand point adds its distances to both."""
    near = [reach_of(metric, chosen)]
    if (chosen != public.sites).any():
        near.append(reach_of(metric, public.sites))
    costs = [int(demand @ reach) for reach in near]
    return estimated_costs(
        noise,
        costs[0],
        costs[1] if len(costs) > 1 else None,
        sensitivity=Fraction(max(1, int(np.sum(near, axis=0).max()))),
        epsilon=public.cost_epsilon,
        unit=metric.unit,
    )


def demand_table(places: Groups, noisy: Ints) -> dict[str, Any]:
    return {
        "group": places.of_place,
        "middle": places.middles[places.of_place],
        "noisy": noisy[places.of_place],
    }


def search_sites(
    noise: Noise, metric: Metric, k: int, demand: Ints, *, steps: int, step: Fraction
) -> Ints:
    """Algorithm 2: `steps` private swaps from a public start, then a private pick among all
    solutions seen."""
    sensitivity = Fraction(metric.diameter)
    search = swap_search(metric, far_places(metric, k), demand)
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


def exact_sites(noise: Noise, metric: Metric, k: int, demand: Ints, epsilon: Fraction) -> Ints:
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


@dataclass(frozen=True)
class PublicPart:
    """What "demand" has before it sees a row: groups of places, and the best sites for even
    demand; and the epsilons of the counts and of the costs."""

    places: Groups
    sites: Ints
    epsilon: Fraction
    cost_epsilon: Fraction
    margin: float


@dataclass(frozen=True, kw_only=True)
class KMedianSettings(SolverSettings):
    """The epsilon of each choice or of each noisy count, and what is known without data."""

    released: ClassVar[tuple[str, ...]] = ("k", "sites", "unit", "diameter")

    problem: str = "k-median"
    k: int
    sites: int
    unit: float
    diameter: float
    steps: int
    step_epsilon: Fraction = Fraction(0)
    demand_epsilon: Fraction | None = None
    cost_epsilon: Fraction | None = None
    groups: int | None = None
    choice_error: float | None = None
    telling_rows: int | None = None
    public: PublicPart | None = hidden(default=None)


@dataclass(frozen=True, kw_only=True)
class KMedian(Mechanism):
    """k sites with a small sum of distances from demand points to the nearest of them.

    Input: counts of demand points at public places. Neighbours: add-remove-one, of a demand point.
    Output: k distinct sites; with "demand" also the noisy demand, and noisy costs of these sites
        and of the public ones.
    Privacy: epsilon-DP (theorem 3 of k_median.proof.md; theorem 1 for "search", 2 for "exact").
    Relies on: `Noise.choose` and `choose_bounded`; distances that are public whole numbers of at
    most the diameter.
    Shows / hides: where demand is dense; hides whether any one demand point is there.
    Accuracy: noise in a cost is of order sqrt(places) * distance / epsilon; `plan` states it.

    Parameters
    ----------
    k : how many sites to open.
    metric : public distances between places; every place is a possible site and a possible demand
        point.
    labels : public names of the places.
    positions : public coordinates of the places, carried along for maps; they play no part in the
        method.
    rule : "demand" (noisy demand, then a public search), "search" (the thesis's private local
        search) or "exact" (all sets of k sites, for tiny instances).
    steps : number of swaps of "search"; 6 k ln n by default, as in the theorem. Fewer steps mean
        less noise in each.
    cost_share : share of epsilon that buys the costs of the sites on the rows ("demand").
    nominal_size : about how many demand points are expected, a public guess, for forecasts alone.
    """

    method: ClassVar[str] = "k-median"
    kind: ClassVar[str] = "solution"

    k: int
    metric: Metric
    labels: Sequence[object] | None = None
    positions: Any = None
    rule: Rule = "demand"
    steps: Annotated[int | None, Interval(0)] = None
    cost_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = COST_SHARE
    nominal_size: Annotated[int | None, Interval(1)] = None

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
        if self.rule == "demand":
            terms = self._demand_terms(cost, diameter)
        elif self.rule == "exact":
            terms = self._exact_terms(cost, diameter)
        elif self.rule == "search":
            terms = self._search_terms(cost, diameter)
        else:
            raise PlanError(f"rule = '{self.rule}' is not known. Use demand, search or exact.")
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
                "steps": terms.settings["steps"],
                **terms.parameters,
            },
            settings=KMedianSettings(
                labels=labels,
                k=self.k,
                sites=size,
                unit=self.metric.unit,
                diameter=diameter,
                sensitivity=Fraction(self.metric.diameter),
                bound=terms.bound,
                **terms.settings,
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
                *terms.sentences,
            ],
            warnings=terms.warnings,
        )

    def _demand_terms(self, cost: Cost, diameter: float) -> Terms:
        """Noise in a cost is what a wrong choice can lose: it follows from public facts alone."""
        share = exact(self.cost_share, "cost_share")
        epsilon, unit = cost.epsilon * (1 - share), self.metric.unit
        places = group_places(self.metric, self.k)
        between = group_distances(self.metric, places)
        sizes = places.sizes.astype(np.float64)
        public = searched_sites(self.metric, places, between, sizes, self.k)
        reach = reach_of(self.metric, public) * unit
        scale = laplace_deviation(1 / epsilon)
        error = scale * float(np.sqrt((reach[places.middles] ** 2).sum()))
        margin = noise_margin(self.metric, places, between, public, self.k, float(1 / epsilon))
        # theorem 3: noise in all comparisons at once, by a union over all sets of sites
        log = math.log(2 / SURE) + log_comb(self.metric.size, self.k)
        worst = max(math.sqrt(8 * places.count * log), 4 * log) / float(epsilon) * diameter
        aside = 2 * (places.width + rounding_slack(self.metric)) * unit if places.width else 0.0
        bound: Bound = {
            "factor": 1.0,
            "additive": worst,
            "text": f"the cost is at most that of the public sites plus {worst:.4g}"
            + (f" and {aside:.4g} per row" if aside else "")
            + f", except with probability {SURE:g}.",
        }
        per_row, farthest = float(reach.mean()), float(reach.max())
        rows = math.ceil(margin * error / (HOPELESS * farthest)) if farthest else 1
        sentences = [
            f"Demand is counted in {places.count:,} groups of places with noise of standard "
            f"deviation {scale:.3g}; the sites follow from the noisy counts, or are the best for "
            f"even demand, whichever seem cheaper.",
            f"Noise in a cost, and so in that choice, has a standard deviation of about "
            f"{error:.4g}; for even demand the public sites cost {per_row:.4g} per row. They are "
            f"kept unless others seem cheaper by {margin:.2g} deviations of their difference.",
        ]
        if share:
            sentences.append(
                f"{float(share):.3g} of epsilon buys the cost of the sites on the rows, and of the "
                f"public ones."
            )
        warnings = []
        if self.nominal_size is not None and self.nominal_size < rows:
            warnings.append(
                f"With about {self.nominal_size:,} rows the data can hardly matter: noise in a "
                f"cost is {error:.4g}, and all rows together cost at most "
                f"{self.nominal_size * farthest:.4g}, wherever they are. Take the public sites, "
                f"which cost nothing: below about {rows:,} rows they are as good."
            )
        settings = {
            "steps": 0,
            "step_epsilon": Fraction(0),
            "demand_epsilon": epsilon,
            "cost_epsilon": cost.epsilon * share,
            "groups": places.count,
            "choice_error": error,
            "telling_rows": rows,
            "public": PublicPart(places, public, epsilon, cost.epsilon * share, margin),
        }
        return Terms(
            settings,
            bound | self._void(worst, diameter),
            sentences,
            warnings,
            {"cost_share": str(share), "nominal_size": self.nominal_size},
        )

    def _exact_terms(self, cost: Cost, diameter: float) -> Terms:
        sets = math.comb(self.metric.size, self.k)
        if sets > MAX_EXACT_SETS:
            raise PlanError(
                f"rule = 'exact' compares {sets:,} sets of sites; at most {MAX_EXACT_SETS:,}. "
                "Use 'demand'."
            )
        additive = diameter * 2 * math.log(max(2, sets)) / float(cost.epsilon)
        bound: Bound = {
            "factor": 1.0,
            "additive": additive,
            "text": f"the cost is at most the best plus {additive:.4g}, except with "
            f"probability {1 / sets:.2g}.",
        }
        return Terms(
            {"steps": 0, "step_epsilon": cost.epsilon},
            bound | self._void(additive, diameter),
            [f"One of {sets:,} sets of sites by the exponential mechanism."],
        )

    def _search_terms(self, cost: Cost, diameter: float) -> Terms:
        log = math.log(max(2, self.metric.size))
        steps = self.steps if self.steps is not None else math.ceil(6 * self.k * log)
        steps = 0 if self.k == self.metric.size else steps
        step = cost.epsilon / (steps + 1)
        additive = (24 * self.k + 4) * log * diameter / float(step)
        short = "" if steps >= 6 * self.k * log else " (for 6 k ln n steps; fewer were asked for)"
        bound: Bound = {
            "factor": 6.0,
            "additive": additive,
            "text": f"the cost is at most 6 times the best plus {additive:.4g}, with high "
            f"probability{short}.",
        }
        return Terms(
            {"steps": steps, "step_epsilon": step},
            bound | self._void(additive, diameter),
            [f"{steps:,} swaps and a final pick, each with epsilon = {float(step):.4g}."],
        )

    def _void(self, additive: float, diameter: float) -> Bound:
        """No sites cost more than all rows times the diameter, so below some number of rows an
        additive bound holds of any sites."""
        rows = math.ceil(additive / diameter)
        if self.nominal_size is not None and self.nominal_size > rows:
            return cast(Bound, {})
        return cast(
            Bound, {"says_nothing": f"below {rows:,} rows, where any sites cost less than that"}
        )

    def statistic(self, plan: Plan[KMedianSettings]) -> PresentItems:
        return PresentItems(plan.settings.sites, plan.settings.labels)

    def run(self, noise: Noise, numbers: Ints, plan: Plan[KMedianSettings]) -> Output:
        return k_median(noise, numbers, self, plan.settings)

    def site_table(self, sites: Ints, labels: Labels) -> dict[str, Any]:
        table: dict[str, Any] = {"site": sites, **label_column(labels, sites)}
        if self.positions is not None:
            at = np.asarray(self.positions, dtype=np.float64)[sites]
            table |= {"x": np.ascontiguousarray(at[:, 0]), "y": np.ascontiguousarray(at[:, 1])}
        return table


@dataclass(frozen=True)
class Terms:
    """What a rule adds to a plan."""

    settings: dict[str, Any]
    bound: Bound
    sentences: list[str]
    warnings: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)


def rounding_slack(metric: Metric) -> int:
    """Units by which rounded distances may miss the triangle inequality."""
    far = isinstance(metric, PointMetric) and metric.diameter > metric.edge
    return FAR_SLACK if far else NEAR_SLACK


def log_comb(size: int, k: int) -> float:
    """The logarithm of how many sets of k among `size` there are."""
    return math.lgamma(size + 1) - math.lgamma(k + 1) - math.lgamma(size - k + 1)


def _is_map(positions: Any, size: int) -> bool:
    try:
        found = np.asarray(positions, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return found.shape == (size, 2) and bool(np.isfinite(found).all())
