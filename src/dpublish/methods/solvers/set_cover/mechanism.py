"""Private set cover: an order of all sets, so that every possible element is assigned to the first
set that holds it.

In: which elements of a public universe are present (private), and a public family of sets with
public costs. Out: an order of the sets. As for vertex covers, an explicit list of sets would reveal
that elements outside them are absent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.field_types import Interval
from dpublish.methods.solvers.inputs import Labels, Lists, PresentItems
from dpublish.methods.solvers.planning import (
    COST_SHARE,
    Bound,
    SolverSettings,
    amounts,
    check_schema,
    cover_factor,
    digest_of,
    estimated_costs,
    first_hit_hazard,
    label_column,
    no_rho,
    numbered,
    pure,
    rounded_down,
    solution_plan,
    step_epsilon,
)
from dpublish.methods.solvers.set_cover.lightest import SetPrices, noisy_price, set_prices
from dpublish.methods.solvers.set_cover.orders import (
    MAX_SETS as MAX_CLASS_SETS,
    WORST,
    SetPart,
    better_order,
    chances_of,
    class_order,
    cost_parts,
    covering_order,
    first_holders,
    greedy_order,
    halve_score,
    most_misses,
    order_cost,
    public_scores,
    weighted_order,
    whole_family,
    worst_cost,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden
from dpublish.workloads.theory import set_cover_lower_bound

Rule = Literal["presence", "greedy", "weighted", "any-weights", "exact", "classes"]
RULES = ("presence", "greedy", "weighted", "any-weights", "exact", "classes")
MAX_EXACT_SETS = 8
COST_UNITS = 1 << 20
"""Costs are measured in so many parts of the largest."""
HARDLY = Fraction(1, 4)
"""Below this epsilon a noisy flag is right less than 56% of the time."""


def set_cover(noise: Noise, present: Ints, sets: Lists, settings: SetCoverSettings) -> Output:
    """The mechanism: noisy flags of the elements, the public order or one made for the flags, and
    what both cost. By name the thesis's, which draw set by set, class by class or among all
    orders."""
    step, costs, parts = settings.step_epsilon, settings.costs, settings.parts
    facts, tables, public = settings.solution_facts(), {}, settings.public_order
    if settings.size_epsilon is not None and settings.set_prices is not None:
        facts["size"] = noisy_price(
            noise, sets, settings.set_prices, present, settings.size_epsilon
        )
    if public is not None:
        orders = [presence_order(noise, parts[0], costs, present, public, step)]
        facts |= order_costs(noise, parts[0], costs, present, (orders[0], public), settings)
        tables["public"] = {"set": public, **label_column(settings.set_names, public)}
    elif settings.rule == "exact":
        orders = [exact_order(noise, sets, costs, present, step)]
    elif settings.rule == "classes":
        orders = [class_order(noise, sets, costs, present, step)]
    elif settings.rule == "greedy":
        orders = [greedy_order(noise, parts[0], present, step)]
    else:
        # the parts split the universe, so one element is in one of them and pays once
        orders = [weighted_order(noise, part, present, step) for part in parts]
    return Output(facts=facts, tables={**tables, **order_tables(sets, orders, settings)})


def presence_order(
    noise: Noise,
    part: SetPart,
    costs: Sequence[Fraction],
    present: Ints,
    public: Ints,
    epsilon: Fraction,
) -> Ints:
    """A noisy flag for every element, the chances that follow, and the order that seems cheaper for
    them: the public one, or one made for these chances."""
    noisy = noise.laplace(present, sensitivity=Fraction(1), epsilon=epsilon, label="presence")
    flags = noisy >= 1
    return better_order(part, costs, public, chances_of(flags, float(epsilon)))


@dataclass(frozen=True, kw_only=True)
class SetCoverSettings(SolverSettings):
    """The rule, the epsilon of each choice, and the public parts that the universe falls into."""

    released: ClassVar[tuple[str, ...]] = ("sets", "elements")

    problem: str = "set-cover"
    rule: str
    sets: int
    elements: int
    step_epsilon: Fraction
    cost_range: float
    cost_epsilon: Fraction | None = None
    size_epsilon: Fraction | None = None
    costs: tuple[Fraction, ...] = hidden()
    set_names: Labels = hidden()
    public_order: Ints | None = hidden(default=None)
    set_prices: SetPrices | None = hidden(default=None)
    parts: tuple[SetPart, ...] = hidden()


@dataclass(frozen=True, kw_only=True)
class SetCover(Mechanism):
    """An order of the sets that covers the present elements cheaply: each element goes to the first
    set that holds it.

    Input: the distinct present elements of a public universe. Neighbours: add-remove-one, of an
    element.
    Output: every set once, in order ("any-weights": for each public part of the universe, the sets
        that may serve it), with noisy costs of this order and of the public one, and with
        `size_share` a noisy price of the cheapest cover in parts.
    Privacy: epsilon-DP (theorem 5 of set_cover.proof.md); for the thesis's rules epsilon-DP, or
    (epsilon, delta)-DP when a delta is given and allows more (theorems 1 to 4; 6 for the price).
    Relies on: `Noise.choose` having the exact law of the exponential mechanism.
    Shows / hides: sets that hold many present elements; hides whether any one element is present.
    Accuracy: at most 1.1 times what the public order costs at its worst; for the thesis's rules a
        factor of order ln n + ln m / step epsilon. `plan` states the bound.

    Parameters
    ----------
    sets : rows of element numbers (`Lists`), one row per set; every element must be in some set.
    elements : how many elements the universe has, or their public names.
    costs : public positive cost of each set; all equal when left out.
    set_names : public names of the sets.
    rule : "presence" (the default: a public cover of the whole universe, or an order made for
        noisy flags of the elements, whichever seems cheaper), and the thesis's: "greedy" (7.7.1,
        equal costs), "weighted" (7.7.2), "any-weights" (7.7.3: no dependence on
        the range of costs), "exact" (theorem 53: exponential mechanism over all orders, at most 8
        sets) or "classes" (7.7.5: the same idea cost class by cost class, which suits unequal
        costs; at most 7 sets).
    cost_share : share of epsilon that buys the costs of the orders on the rows ("presence").
    size_share : share of epsilon spent on what the cheapest cover costs.
    """

    method: ClassVar[str] = "set-cover"
    kind: ClassVar[str] = "solution"

    sets: Lists
    elements: int | Sequence[object]
    costs: Sequence[Fraction | float | int | str] | None = None
    set_names: Sequence[object] | None = None
    rule: Rule = "presence"
    cost_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = COST_SHARE
    size_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = 0

    def plan(self, schema: Schema, cost: Cost) -> Plan[SetCoverSettings]:
        check_schema(schema, "A set cover")
        rule = self._rule()
        count, labels = numbered(self.elements, "elements")
        family, names = numbered(
            self.set_names if self.set_names is not None else len(self.sets), "sets"
        )
        self._check(count, family)
        costs = self._costs()
        whole = [whole_family(self.sets, costs, count)]
        parts = cost_parts(self.sets, costs, count) if rule == "any-weights" else whole
        warnings: list[str] = []
        more: dict[str, Any] = {}
        how = ""
        sized = exact(self.size_share, "size_share")
        priced = self._price_sentence(cost, costs, count, more)
        if priced:
            warnings.append(
                "How long the price takes depends on the elements: do not let outsiders measure it."
            )
        asked, cost = cost, replace(cost, epsilon=cost.epsilon * (1 - sized))
        if rule == "presence":
            no_rho(cost, "A set cover")
            if cost.delta:
                cost = Cost.pure(cost.epsilon)
                warnings.append("A delta buys nothing here: the release costs epsilon alone.")
            share = exact(self.cost_share, "cost_share")
            if share + sized >= 1:
                raise PlanError("size_share and cost_share must be below 1 together.")
            paid = asked.epsilon * share
            step, more["cost_epsilon"] = cost.epsilon - paid, paid
            prices = np.array([float(value) for value in costs])
            public = covering_order(parts[0], prices, np.ones(count))
            more["public_order"] = public
            worst = worst_cost(parts[0], public, costs)
            most = float(WORST * worst)
            bound: Bound = {
                "factor": 0.0,
                "additive": most,
                "text": f"the cost is at most {most:.4g} whatever is present; the public order "
                f"costs up to {float(worst):.4g}.",
            }
            right = 1 / (1 + math.exp(-float(step)))
            how = (
                f"A noisy flag per element is right with probability {right:.2g}; the order is the "
                f"public one, which costs at most {float(worst):.4g} whatever is present, or one "
                "that seems cheaper for the flags."
            )
            if step < HARDLY:
                warnings.append(
                    f"With epsilon = {float(step):.3g} a flag is hardly better than a coin: the "
                    "data can hardly matter, and the public order costs nothing."
                )
        elif rule in ("exact", "classes"):
            step, bound = self._listed_terms(rule, cost, costs, count)
        else:
            no_rho(cost, "A set cover")
            step = rounded_down(cost.epsilon / max(most_misses(part, rule) for part in parts))
            shared = (
                step_epsilon(cost.epsilon, first_hit_hazard(cost.delta)) if cost.delta else step
            )
            if cost.delta and shared <= step:
                cost = Cost.pure(cost.epsilon)
                warnings.append(
                    "With so few sets a delta buys nothing: the release costs epsilon alone."
                )
            step = max(step, shared)
            if rule != "greedy":
                for part in parts:
                    public_scores(part, step)  # refuses, before anything is paid, what wraps around
            bound = self._greedy_bound(rule, step, count, costs)
        cost = replace(cost, epsilon=asked.epsilon)
        # elements that are pairs of sets: a vertex cover, with as many pairs as there are elements
        lower = cover_factor(
            min(family, (1 + math.isqrt(1 + 8 * count)) // 2),
            float(cost.epsilon),
            float(cost.delta),
        )
        return solution_plan(
            method=self.method,
            schema=schema,
            cost=cost,
            parameters={
                "sets": family,
                "elements": count,
                "structure": digest_of(
                    self.sets.starts, self.sets.items, labels, names, [str(c) for c in costs]
                ),
                "rule": rule,
                **({"cost_share": str(share)} if rule == "presence" else {}),
                **({"size_share": str(sized)} if sized else {}),
            },
            settings=SetCoverSettings(
                labels=labels,
                rule=rule,
                sets=family,
                elements=count,
                step_epsilon=step,
                cost_range=float(max(costs) / min(costs)),
                costs=tuple(costs),
                set_names=names,
                parts=tuple(parts),
                bound=bound,
                **more,
                lower_bound={
                    "factor": lower,
                    "additive": 0.0,
                    "text": f"some families of so many sets cost every such method {lower:.3g} "
                    "times the smallest cover in expectation; " + self._sixty(family, cost),
                },
            ),
            sentences=[
                f"An order of {family:,} sets over {count:,} elements; every element goes to the "
                "first set that holds it.",
                how or f"Each choice uses epsilon = {float(step):.4g} ({rule}).",
                *priced,
            ],
            warnings=warnings,
        )

    def _price_sentence(
        self, cost: Cost, costs: Sequence[Fraction], count: int, more: dict[str, Any]
    ) -> list[str]:
        """What the noisy price of the cheapest cover says, where one is bought."""
        epsilon = cost.epsilon * exact(self.size_share, "size_share")
        if not epsilon:
            return []
        prices = set_prices(self.sets, costs, count)
        prices = replace(prices, most=min(prices.most, self._worst(costs, count)))
        more.update(size_epsilon=epsilon, set_prices=prices)
        scale = float(prices.moved * prices.unit / epsilon)
        return [
            f"What the cheapest cover costs, within a factor of {float(prices.factor):.3g} and "
            f"noise of scale {scale:.4g}: one more element adds at most its cheapest set."
        ]

    def _listed_terms(
        self, rule: str, cost: Cost, costs: Sequence[Fraction], count: int
    ) -> tuple[Fraction, Bound]:
        """The rules that try every order: the epsilon of a choice, and the bound."""
        family, epsilon = len(costs), float(cost.epsilon)
        if rule == "exact":
            pure(cost, "An exact set cover")
            if family > MAX_EXACT_SETS:
                raise PlanError(
                    f"rule = 'exact' tries every order, so it takes at most {MAX_EXACT_SETS} "
                    f"sets, not {family}."
                )
            additive = float(max(costs)) * 2 * math.log(math.factorial(family)) / epsilon
            text = (
                f"the cost is at most {additive:.4g} above the smallest, except with "
                f"probability 1/{family}!."
            )
            return cost.epsilon, self._against_public(1.0, additive, text, costs, count)
        pure(cost, "A set cover by classes of cost")
        if family > MAX_CLASS_SETS:
            raise PlanError(
                f"rule = 'classes' tries every order: at most {MAX_CLASS_SETS} sets, not {family}."
            )
        # 7.7.5 with half of epsilon, and 2 for rounding costs
        factor = 2 * (1 + 24 * math.log(max(2, family)) / epsilon)
        text = f"the cost is at most {factor:.4g} times the smallest, with high probability."
        return cost.epsilon, self._against_public(factor, 0.0, text, costs, count)

    def _greedy_bound(
        self, rule: str, step: Fraction, count: int, costs: Sequence[Fraction]
    ) -> Bound:
        family = len(costs)
        if rule == "greedy":
            logs = 2 * math.log(max(2, count)), 6 * math.log(max(2, family))
            factor = logs[0] + logs[1] / float(step) + 1
        else:
            spread = float(max(costs) / min(costs))
            wide = min(spread, float(count) ** 2) if rule == "any-weights" else spread
            halving = float(halve_score(family, count, Fraction(max(1, math.ceil(wide))), step))
            factor = 4 * (1 + math.log2(max(2, count))) * (1 + 2 * halving) + 2
            factor *= 4 if rule == "any-weights" else 1
        text = (
            f"the cost is at most {factor:.4g} times the smallest, except with "
            f"probability of order 1/{family}."
        )
        return self._against_public(factor, 0.0, text, costs, count)

    def _against_public(
        self, factor: float, additive: float, text: str, costs: Sequence[Fraction], count: int
    ) -> Bound:
        """A bound, and where it promises no more than a public order does without data."""
        most = float(self._worst(costs, count))
        below = (most - additive) / factor
        where = f"unless the smallest cover costs less than {below:.3g}" if below > 0 else "here"
        void = f"{where}: a public order never costs more than {most:.4g}"
        return {"factor": factor, "additive": additive, "text": text, "says_nothing": void}

    def _worst(self, costs: Sequence[Fraction], count: int) -> Fraction:
        """What the public order costs if every element is present."""
        part = whole_family(self.sets, costs, count)
        order = covering_order(part, np.array([float(cost) for cost in costs]), np.ones(count))
        return worst_cost(part, order, costs)

    @staticmethod
    def _sixty(family: int, cost: Cost) -> str:
        """What theorem 60 says of so many sets, over as many elements as it likes."""
        if cost.delta:
            return "theorem 60 speaks of pure epsilon alone."
        factor = set_cover_lower_bound(max(2, family), float(cost.epsilon))
        if factor <= 1:
            return f"theorem 60 (of order ln m / epsilon) rules nothing out for {family:,} sets."
        return f"theorem 60 has a factor of {factor:.3g} for {family:,} sets."

    def statistic(self, plan: Plan[SetCoverSettings]) -> PresentItems:
        return PresentItems(plan.settings.elements, plan.settings.labels, distinct=True)

    def run(self, noise: Noise, numbers: Ints, plan: Plan[SetCoverSettings]) -> Output:
        return set_cover(noise, numbers, self.sets, plan.settings)

    def _rule(self) -> str:
        rule = self.rule
        if rule not in RULES:
            raise PlanError(f"rule = '{rule}' is not known. Use one of: {', '.join(RULES)}.")
        if rule == "greedy" and len(set(self._costs())) > 1:
            raise PlanError(
                "rule = 'greedy' is for sets of equal cost. Use 'weighted' or 'any-weights', or "
                "leave costs out."
            )
        return rule

    def _check(self, count: int, family: int) -> None:
        if len(self.sets) != family:
            raise PlanError(f"There are {len(self.sets)} sets but {family} names.")
        items = self.sets.items
        if len(items) and (items.min() < 0 or items.max() >= count):
            raise PlanError(f"A set holds an element number outside 0 to {count - 1}.")
        starts = self.sets.starts
        if starts[0] != 0 or starts[-1] != len(items) or (np.diff(starts) < 0).any():
            raise PlanError(
                "The sets are not stored as lists: their starts must rise from 0 to the number of "
                "items."
            )
        # an element counted twice in a set would move its score by two, and the proof allows one
        if len(np.unique(self.sets.owners * count + items)) < len(items):
            raise PlanError("A set lists an element twice. List each element of a set once.")
        held = np.bincount(items, minlength=count)
        if (held == 0).any():
            lost = int(np.flatnonzero(held == 0)[0])
            _, labels = numbered(self.elements, "elements")
            name = lost if labels is None else labels[lost]
            raise PlanError(
                f"Element '{name}' is in no set, so no cover exists if it is present. Add a set "
                f"that holds it, or leave it out."
            )

    def _costs(self) -> list[Fraction]:
        return amounts(self.costs, "cost", len(self.sets), "sets")


def order_tables(sets: Lists, orders: Sequence[Ints], settings: SetCoverSettings) -> dict[str, Any]:
    """The order of every part, and the public family that says which set serves an element."""
    part_of = np.zeros(settings.elements, dtype=np.int64)
    for number, part in enumerate(settings.parts):
        part_of[part.elements] = number
    chosen = np.concatenate(orders)
    part_numbers = np.repeat(np.arange(len(orders)), [len(order) for order in orders])
    return {
        "order": {
            "part": part_numbers.astype(np.int64),
            "set": chosen,
            **label_column(settings.set_names, chosen),
        },
        "members": {"set": sets.owners, "element": sets.items},
        "universe": {
            "part": part_of,
            **label_column(settings.labels, range(settings.elements)),
        },
        "costs": {"cost": np.array([float(c) for c in settings.costs], dtype=np.float64)},
    }


def order_costs(
    noise: Noise,
    part: SetPart,
    costs: Sequence[Fraction],
    present: Ints,
    orders: tuple[Ints, Ints],
    settings: SetCoverSettings,
) -> dict[str, Any]:
    """Noisy costs of an order and of the public one on the present elements."""
    unit = max(costs) / COST_UNITS if len(set(costs)) > 1 else costs[0]
    prices = np.array([math.ceil(cost / unit) for cost in costs], dtype=np.int64)
    first = [first_holders(part, order) for order in orders]
    if (first[0] == first[1]).all():
        first.pop()
    paid = [int(prices[np.unique(holder[present > 0])].sum()) for holder in first]
    # one more element calls for at most one more set of an order
    moved = sum(int(prices[holder].max()) for holder in first)
    most = max(int(prices[np.unique(holder)].sum()) for holder in first) * unit
    return estimated_costs(
        noise,
        paid[0],
        paid[1] if len(paid) > 1 else None,
        sensitivity=Fraction(moved),
        epsilon=settings.cost_epsilon or Fraction(0),
        unit=float(unit),
        most=float(most),
    )


def exact_order(
    noise: Noise, sets: Lists, costs: Sequence[Fraction], present: Ints, epsilon: Fraction
) -> Ints:
    """Theorem 53: one of all orders, by the cost of the cover it gives; adding an element adds at
    most one set's cost."""
    members = [frozenset(sets.row(i).tolist()) for i in range(len(sets))]
    wanted = frozenset(np.flatnonzero(present).tolist())
    orders = list(itertools.permutations(range(len(sets))))
    scores = [-order_cost(members, costs, wanted, order) for order in orders]
    chosen = noise.choose(
        scores, sensitivity=max(costs), epsilon=epsilon, monotone=True, label="order"
    )
    return np.array(orders[chosen], dtype=np.int64)
