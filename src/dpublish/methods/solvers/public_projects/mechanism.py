"""Combinatorial public projects: k resources that are worth as much as possible to agents whose
valuations are private.

In: one row per agent. Out: k of the public resources, chosen greedily. Valuations are monotone
submodular and lie in [0, 1]: coverage (an agent names resources and is happy with any of them),
facility location (an agent sits at a public place and values the nearest chosen site), or a
function of the agent's row that the caller wrote.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output, Statistic
from dpublish.methods.field_types import Interval
from dpublish.methods.solvers.inputs import (
    AgentLists,
    AgentRows,
    Lists,
    PresentItems,
    list_marks,
    lower_gains,
    transposed,
)
from dpublish.methods.solvers.k_median.demand import group_distances, group_places, searched_sites
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.planning import (
    COST_SHARE,
    Bound,
    SolverSettings,
    check_schema,
    digest_of,
    estimated_costs,
    label_column,
    missed,
    no_rho,
    nothing_ruled_out,
    numbered,
    rounded_down,
    solution_plan,
    step_epsilon,
    total_gain_hazard,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden

Worth = Literal["coverage", "facility"]
Valuation = Callable[[Mapping[str, Any], frozenset[int]], float]
GRID = 1 << 16
"""Valuations are rounded down to multiples of 1/GRID."""
MAX_EXACT_SETS = 5_000
MAX_TESTED = 6
SAMPLED_CHAINS = 60
_ROUNDING = 1e-9


def public_projects(
    noise: Noise, agents: Any, instance: PublicProjects, settings: PublicProjectsSettings
) -> Output:
    """The mechanism: k resources one after the other, each drawn by what it adds to the value (or
    one of all sets of k, by its value); then what these and public ones are worth, with noise."""
    count, k, step = settings.resources, settings.k, settings.step_epsilon
    labels, public = settings.labels, settings.public_choice
    gains_of, facts = instance.gains(agents, settings)
    if instance.rule == "exact":
        chosen = exact_choice(noise, gains_of, count, k, step)
    else:
        chosen = greedy_choice(noise, gains_of(), count, k, step)
    tables = {"chosen": {"resource": chosen, **label_column(labels, chosen)}}
    if public is not None:
        facts |= worth_facts(noise, gains_of, chosen, public, settings.cost_epsilon)
        tables["public"] = {"resource": public, **label_column(labels, public)}
    return Output(facts=settings.solution_facts() | facts, tables=tables)


def greedy_choice(noise: Noise, gains: Gains, count: int, k: int, step: Fraction) -> Ints:
    """Algorithm 7. A gain is a whole number of 1/unit; one agent's gains are at least 0 and add up
    to at most one unit."""
    left = np.arange(count, dtype=np.int64)
    order = []
    for _ in range(k):
        place = noise.choose(
            gains.of(left),
            sensitivity=Fraction(gains.unit),
            epsilon=step,
            monotone=True,
            rule="exponential",
            label="next",
        )
        order.append(int(left[place]))
        gains.take(order[-1])
        left = np.delete(left, place)
    return np.array(order, dtype=np.int64)


def exact_choice(
    noise: Noise, gains_of: Callable[[], Gains], count: int, k: int, epsilon: Fraction
) -> Ints:
    """Theorem 62: one of all sets of k resources, by its value; an agent adds at most one unit to
    the value of each."""
    sets = list(itertools.combinations(range(count), k))
    values = [value_of(gains_of(), chosen) for chosen in sets]
    place = noise.choose(
        np.array(values, dtype=np.int64),
        sensitivity=Fraction(gains_of().unit),
        epsilon=epsilon,
        monotone=True,
        label="resources",
    )
    return np.array(sets[place], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class PublicProjectsSettings(SolverSettings):
    """How many resources are chosen, and the epsilon of each choice."""

    released: ClassVar[tuple[str, ...]] = ("k", "resources", "worth", "truthfulness")

    problem: str = "public-projects"
    k: int
    resources: int
    worth: str
    step_epsilon: Fraction
    truthfulness: float
    cost_epsilon: Fraction | None = None
    public_choice: Ints | None = hidden(default=None)


@dataclass(frozen=True, kw_only=True)
class PublicProjects(Mechanism):
    """k resources chosen one after the other, each in proportion to the exponential of what it
    adds.

    Input: one row per agent. Neighbours: add-remove-one, of an agent.
    Output: k distinct resources in the order of choice, with noisy values of these and of public
    ones: the first k, or for "facility" sites for even demand.
    Privacy: epsilon-DP, or (epsilon, delta)-DP when a delta is given and that allows more
    (public_projects.proof.md).
    Relies on: `Noise.choose` having the exact law of the exponential mechanism. It does not rely on
    submodularity.
    Shows / hides: resources that many agents want; hides whether any one agent took part.
    Accuracy: at least (1 - 1/e) of the best value, less a number of order k ln m / step epsilon.

    Parameters
    ----------
    k : how many resources to choose.
    resources : how many resources there are, or their public names.
    worth : "coverage", "facility", or a function (row, chosen numbers) -> value in [0, 1].
    metric : distances between places, for "facility"; a resource is a place.
    columns : which columns of an agent's row the function reads.
    rule : "greedy", or "exact" (theorem 62: the exponential mechanism over all sets of k resources,
        for few of them), whose sets are in the order of the resources.
    examples : made-up rows on which a function is tested for being monotone and submodular before
        anything is spent.
    cost_share : share of epsilon that buys what the choice and the public one are worth on the
        rows.
    """

    method: ClassVar[str] = "public-projects"
    kind: ClassVar[str] = "solution"

    k: int
    resources: int | Sequence[object]
    worth: Worth | Valuation = "coverage"
    metric: Metric | None = None
    columns: Sequence[str] = ()
    examples: Sequence[Mapping[str, Any]] = ()
    rule: Literal["greedy", "exact"] = "greedy"
    cost_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = COST_SHARE

    def plan(self, schema: Schema, cost: Cost) -> Plan[PublicProjectsSettings]:
        check_schema(schema, "Public projects")
        no_rho(cost, "Public projects")
        count, labels = numbered(self.resources, "resources")
        if not 1 <= self.k <= count:
            raise PlanError(
                f"k must be a whole number from 1 to the number of resources, {count}, not "
                f"{self.k!r}."
            )
        worth = self._worth(count)
        share = exact(self.cost_share, "cost_share")
        epsilon = cost.epsilon * (1 - share)
        step = rounded_down(epsilon / self.k)
        sequential = True
        if cost.delta:
            shared = step_epsilon(epsilon, total_gain_hazard(cost.delta))
            sequential, step = shared <= step, max(step, shared)
        factor, sets = 1 - 1 / math.e, math.comb(count, self.k)
        if self.rule == "exact":
            if sets > MAX_EXACT_SETS:
                raise PlanError(
                    f"rule = 'exact' compares {sets:,} sets of resources; at most "
                    f"{MAX_EXACT_SETS:,}. Use 'greedy'."
                )
            step, sequential, factor = epsilon, True, 1.0
        elif self.rule != "greedy":
            raise PlanError(f"rule = '{self.rule}' is not known. Use greedy or exact.")
        paid = Cost.pure(cost.epsilon) if sequential else cost
        additive = 4 * self.k * math.log(max(2, count)) / float(step)
        said = (
            f"the value is at least 0.632 times the best, less {additive:.4g}, up to a chance of "
            "order 1/m^2."
        )
        if self.rule == "exact":
            additive = 2 * math.log(max(2, sets)) / float(step)
            said = (
                f"the value is at least the best less {additive:.4g}, except with probability "
                f"{1 / sets:.2g}."
            )
        bound: Bound = {"factor": factor, "additive": -additive, "text": said}
        agents = schema.size_or_nominal
        if agents is None or agents * schema.unit.max_rows <= additive / factor:
            bound["says_nothing"] = (
                f"unless the best value is above {additive / factor:.4g}: an agent adds at most 1, "
                "and no value is below 0"
            )
        truthful = 2 * float(paid.epsilon) + float(paid.delta)
        lower = missed(count, self.k, float(paid.epsilon), float(paid.delta))
        warnings = []
        if cost.delta and sequential:
            warnings.append(
                "With so few resources a delta buys nothing: the release costs epsilon alone."
            )
        if callable(self.worth) and not self.examples:
            warnings.append(
                "The valuation was not tested: give examples = [...], made-up rows on which it is "
                "checked for being monotone "
                "and submodular. Without that the release is as private, but the bound on its "
                "value may not hold."
            )
        return solution_plan(
            method=self.method,
            schema=schema,
            cost=paid,
            parameters={
                "k": self.k,
                "resources": count,
                "worth": worth,
                **({"rule": "exact"} if self.rule == "exact" else {}),
                "cost_share": str(share),
                "structure": digest_of(
                    labels,
                    self.metric.digest if self.metric is not None else None,
                    tuple(self.columns),
                ),
            },
            settings=PublicProjectsSettings(
                labels=labels,
                k=self.k,
                resources=count,
                worth=worth,
                step_epsilon=step,
                truthfulness=truthful,
                cost_epsilon=cost.epsilon * share,
                public_choice=self._public(count),
                bound=bound,
                lower_bound={
                    "factor": 1.0,
                    "additive": 0.0 - lower,  # no -0.0
                    "text": f"no such method can guarantee more than the best value less "
                    f"{lower:.4g} in expectation (as in theorem 66)."
                    if lower
                    else nothing_ruled_out(66),
                },
            ),
            sentences=[
                f"{self.k} of {count:,} resources, chosen greedily; each choice uses epsilon = "
                f"{float(step):.4g}."
                if self.rule == "greedy"
                else f"One of {sets:,} sets of {self.k} resources by the exponential mechanism.",
                f"No agent gains more than {truthful:.4g} in expected value by misreporting (2 "
                f"epsilon + delta truthfulness).",
                *(
                    [
                        f"{float(share):.3g} of epsilon buys what these are worth on the rows, and "
                        "public ones (the first, or sites for even demand), with noise of scale "
                        f"{float(2 / (cost.epsilon * share)):.4g}."
                    ]
                    if share
                    else []
                ),
            ],
            warnings=warnings,
        )

    def statistic(self, plan: Plan[PublicProjectsSettings]) -> Statistic:
        settings = plan.settings
        if self.worth == "coverage":
            return AgentLists(settings.resources, settings.labels)
        if self.worth == "facility":
            return PresentItems(settings.resources, settings.labels)
        return AgentRows(tuple(self.columns))

    def run(self, noise: Noise, numbers: Any, plan: Plan[PublicProjectsSettings]) -> Output:
        return public_projects(noise, numbers, self, plan.settings)

    def gains(
        self, agents: Any, settings: PublicProjectsSettings
    ) -> tuple[Callable[[], Gains], dict[str, Any]]:
        """What makes the gains before anything is chosen; and public facts without which nobody
        could work out what a choice is worth."""
        if self.metric is not None and self.worth == "facility":
            # what a distance of 1 is, and at which an agent has nothing
            unit, diameter = self.metric.unit, self.metric.diameter * self.metric.unit
            return partial(FacilityGains, agents, self.metric), {"unit": unit, "diameter": diameter}
        if callable(self.worth):
            return partial(FunctionGains, agents, self.worth, settings.resources), {}
        marks = list_marks(settings.labels)
        # `cost_of` reads texts as they were read for the release
        facts = {"list_marks": marks} if marks != list_marks(None) else {}
        return partial(CoverageGains, agents, settings.resources), facts

    def _public(self, count: int) -> Ints:
        """What is chosen without data."""
        if self.metric is None or self.worth != "facility":
            return np.arange(self.k, dtype=np.int64)
        places = group_places(self.metric, self.k)
        between = group_distances(self.metric, places)
        return searched_sites(self.metric, places, between, places.sizes.astype(np.float64), self.k)

    def _worth(self, count: int) -> str:
        if self.worth == "facility":
            if self.metric is None or self.metric.size != count:
                raise PlanError(f"worth = 'facility' needs a metric over the {count} resources.")
            return "facility"
        if self.worth == "coverage":
            return "coverage"
        if not callable(self.worth):
            raise PlanError(
                f"worth = '{self.worth}' is not known. Use coverage, facility or a function of "
                f"(row, chosen)."
            )
        if not self.columns:
            raise PlanError(
                "worth is a function: give columns = [...], what it reads of an agent's row. "
                "Without them every row is empty, "
                "and worth nothing to anyone."
            )
        for row in self.examples:
            # agents have these columns only, so a function that reads another fails on all of them
            check_valuation(
                self.worth, {name: row[name] for name in self.columns if name in row}, count
            )
        return getattr(self.worth, "__name__", "function")


def worth_facts(
    noise: Noise,
    gains_of: Callable[[], Gains],
    chosen: Ints,
    public: Ints,
    epsilon: Fraction | None,
) -> dict[str, Any]:
    """Noisy values of the choice and of the public one; an agent adds at most one unit to each."""
    unit = gains_of().unit
    same = set(chosen.tolist()) == set(public.tolist())
    return estimated_costs(
        noise,
        value_of(gains_of(), chosen.tolist()),
        None if same else value_of(gains_of(), public.tolist()),
        sensitivity=Fraction(unit * (1 if same else 2)),
        epsilon=epsilon or Fraction(0),
        unit=1 / unit,
    )


def value_of(gains: Gains, resources: Sequence[int]) -> int:
    """What resources are worth together, taken in this order. Private."""
    for resource in resources:
        gains.take(resource)
    return gains.held()


class Gains(abc.ABC):
    """What each resource would add to the total value, in units of 1/unit."""

    unit: int

    @abc.abstractmethod
    def held(self) -> int:
        """The total value of what was taken."""

    @abc.abstractmethod
    def of(self, left: Ints) -> Ints:
        """What each of these resources would add."""

    @abc.abstractmethod
    def take(self, resource: int) -> None:
        """Count a resource among those that were taken."""


class CoverageGains(Gains):
    unit = 1

    def __init__(self, agents: Lists, count: int) -> None:
        self._agents = agents
        self._wanted = transposed(agents, count)
        self._ones = np.ones(len(agents), dtype=np.int64)
        self._open = self._ones.copy()
        self._gains = np.diff(self._wanted.starts).astype(np.int64)

    def held(self) -> int:
        return int((self._open == 0).sum())

    def of(self, left: Ints) -> Ints:
        return self._gains[left]

    def take(self, resource: int) -> None:
        lower_gains(
            resource,
            self._wanted.starts,
            self._wanted.items,
            self._agents.starts,
            self._agents.items,
            self._ones,
            self._open,
            self._gains,
        )


class FacilityGains(Gains):
    """Value 1 - d(place, nearest chosen) / diameter; nothing chosen is worth 0."""

    def __init__(self, demand: Ints, metric: Metric) -> None:
        self._demand = demand
        self._metric = metric
        self.unit = metric.diameter
        self._nearest = np.full(metric.size, metric.diameter, dtype=np.int64)

    def held(self) -> int:
        return int(self._demand @ (self.unit - self._nearest))

    def of(self, left: Ints) -> Ints:
        gains = np.zeros(self._metric.size, dtype=np.int64)
        for place in np.flatnonzero(self._demand):
            saved = self._nearest[place] - self._metric.row(int(place))
            gains += self._demand[place] * np.maximum(saved, 0)
        return gains[left]

    def take(self, resource: int) -> None:
        self._nearest = np.minimum(self._nearest, self._metric.row(resource))


class FunctionGains(Gains):
    """A valuation from outside: clipped to [0, 1], rounded down to the grid, and never allowed to
    fall along the choice.

    With that, gains are at least 0 and an agent's gains add up to at most one unit whatever the
    function does, which is all that the privacy proof needs.
    """

    unit = GRID

    def __init__(
        self, agents: Sequence[Mapping[str, Any]], valuation: Valuation, count: int
    ) -> None:
        self._agents, self._valuation = agents, valuation
        self._chosen: frozenset[int] = frozenset()
        self._held = np.zeros(len(agents), dtype=np.int64)

    def held(self) -> int:
        return int(self._held.sum())

    def of(self, left: Ints) -> Ints:
        gains = np.zeros(len(left), dtype=np.int64)
        for agent, held in zip(self._agents, self._held.tolist(), strict=True):
            for place, resource in enumerate(left.tolist()):
                gains[place] += max(
                    0, grid_value(self._valuation, agent, self._chosen | {resource}) - held
                )
        return gains

    def take(self, resource: int) -> None:
        self._chosen |= {resource}
        for number, agent in enumerate(self._agents):
            self._held[number] = max(
                self._held[number], grid_value(self._valuation, agent, self._chosen)
            )


def grid_value(valuation: Valuation, agent: Mapping[str, Any], chosen: frozenset[int]) -> int:
    """One agent's value in units of 1/GRID. A function that fails or is not a number on a row is
    worth 0 to that agent."""
    try:
        value = float(valuation(agent, chosen))
    except Exception:  # one row's failure must not decide whether there is a release
        return 0
    return math.floor(min(1.0, max(0.0, value)) * GRID) if value == value else 0


def check_valuation(valuation: Valuation, row: Mapping[str, Any], count: int) -> None:
    """Refuse a value outside [0, 1], or one that is not monotone or submodular, on sampled pairs of
    sets.

    All sets of at most two of the first few resources, and then longer chains over all resources: a
    set, a larger one, and a resource that may not add more to the larger.
    """
    few = range(min(count, MAX_TESTED))
    for size in range(3):
        for small in map(frozenset, itertools.combinations(few, size)):
            for extra, further in itertools.permutations(set(few) - small, 2):
                _check_pair(valuation, row, small, small | {further}, extra)
            _value(valuation, row, small)
    for sample in range(SAMPLED_CHAINS):
        order = sorted(range(count), key=lambda r, s=sample: _shuffle(s, r))  # type: ignore[misc]
        cut = 1 + sample % max(1, min(count - 1, 24))
        small = frozenset(order[: cut // 2])
        if cut < count:
            _check_pair(valuation, row, small, frozenset(order[:cut]), order[cut])


def _shuffle(sample: int, resource: int) -> int:
    """A public number without a pattern, so that the samples are the same every time."""
    mixed = (sample * 0x9E3779B97F4A7C15 + resource * 0xD1B54A32D192ED03 + 1) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ mixed >> 31) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return mixed ^ mixed >> 29


def _value(valuation: Valuation, row: Mapping[str, Any], chosen: frozenset[int]) -> float:
    try:
        value = float(valuation(row, chosen))
    except Exception as problem:
        raise PlanError(
            f"The valuation failed on an example row ({type(problem).__name__}: {problem}). It is "
            f"given the columns "
            f"{', '.join(row) or 'of no name'}, and a function that fails is worth 0 to an agent."
        ) from None
    if not -_ROUNDING <= value <= 1 + _ROUNDING:
        raise PlanError(
            f"The valuation gave {value:g} on an example row; values must lie in [0, 1]."
        )
    return value


def _check_pair(
    valuation: Valuation,
    row: Mapping[str, Any],
    small: frozenset[int],
    large: frozenset[int],
    extra: int,
) -> None:
    first = _value(valuation, row, small | {extra}) - _value(valuation, row, small)
    later = _value(valuation, row, large | {extra}) - _value(valuation, row, large)
    for gain, held in ((first, small), (later, large)):
        if gain < -_ROUNDING:
            raise PlanError(
                f"The valuation is not monotone: on an example row, adding resource {extra} to "
                f"{_few(held)} lowers it."
            )
    if later > first + _ROUNDING:
        raise PlanError(
            f"The valuation is not submodular: on an example, resource {extra} adds {first:g} to "
            f"{_few(small)} but "
            f"{later:g} to {_few(large)}. The guarantee on the value would not hold."
        )


def _few(chosen: frozenset[int]) -> str:
    shown = sorted(chosen)[:8]
    return f"{shown}" if len(chosen) <= len(shown) else f"{len(chosen)} resources"
