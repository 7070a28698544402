"""Private minimum cut: public vertices split in two so that few private edges run across.

In: the set of edges (private). Out: a side for every vertex. By default all of epsilon goes into
one choice from public candidates (contraction.py). The thesis's way: stage one chooses how many
public padding edges to add, so that the smallest cut is neither too small nor too large; stage two
draws a cut with the exponential mechanism on the padded graph.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.field_types import Interval
from dpublish.methods.solvers.inputs import Edges, GraphEdges
from dpublish.methods.solvers.min_cut.contraction import (
    SURE,
    Contraction,
    Padding,
    any_cut,
    contracted_cuts,
    cut_cost_facts,
    reach_of_choice,
    vertex_or_cut,
)
from dpublish.methods.solvers.min_cut.kernels import (
    cut_costs,
    merge_above,
    small_cuts,
    smallest_cut,
)
from dpublish.methods.solvers.planning import (
    COST_SHARE,
    Bound,
    SolverSettings,
    check_schema,
    cut_excess,
    digest_of,
    label_column,
    no_rho,
    nothing_ruled_out,
    numbered,
    pure,
    solution_plan,
    with_delta,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden

Rule = Literal["all", "vertex", "either", "exact", "near-minimum"]
RULES = ("all", "vertex", "either", "exact", "near-minimum")
Cuts = Literal["listed", "karger-stein"]
MAX_EXACT = 18
MANY_LEAVES = 1e8
LARGE_MATRIX = 4_000
LARGEST_WEIGHT = 1 << 52
"""Of all edges of a padded graph, about: sums over them stay exact, in 64 bits and in doubles."""
HOW = {
    "all": "one of all cuts, by its edges, and the less likely the more vertices it parts off",
    "vertex": "one vertex against all others, by its degree",
    "either": "one vertex by its degree, or a cut near the smallest that half of the cost finds",
    "exact": "one of all cuts, by its edges in a padded graph",
    "near-minimum": "one of the cuts near the smallest, by its edges in a padded graph",
}
_LISTED = 16  # contracted graphs up to this size are listed cut by cut


def min_cut(noise: Noise, edges: Edges, settings: MinCutSettings) -> Output:
    """The mechanism: draw one cut; beside it, if they are paid for, the size of the smallest one
    and what the drawn and the public cut cost, with noise."""
    facts, vertices = settings.solution_facts(), np.arange(settings.vertices, dtype=np.int64)
    if settings.size_epsilon is not None:
        facts["size"] = noisy_size(noise, edges, settings.vertices, settings.size_epsilon)
    side = draw_cut(noise, edges, settings)
    if settings.cost_epsilon:
        facts |= cut_cost_facts(noise, edges, side, settings.cost_epsilon, settings.vertices)
    names = label_column(settings.labels, vertices)
    return Output(facts=facts, tables={"sides": {"vertex": vertices, "side": side, **names}})


def draw_cut(noise: Noise, edges: Edges, settings: MinCutSettings) -> NDArray[np.bool_]:
    """One choice from public candidates; or algorithm 1 of the thesis: pad the graph until its
    smallest cut is large enough, then draw a cut in proportion to exp(-stage_epsilon * cost);
    or, for "either", one vertex or the cut that algorithm 1 finds."""
    choice, count = settings.choice_epsilon, settings.vertices
    side: Any = None
    if choice is not None and settings.rule == "all":
        side = any_cut(noise, edges, count, choice)
    elif choice is None or settings.rule == "either":
        side = padded_cut(noise, edges, settings)
    if choice is not None and settings.rule != "all":
        side = vertex_or_cut(noise, edges, count, choice, side)
    # a cut has no first side: say it the same way whichever set of vertices was listed
    return np.asarray(side ^ side[0], dtype=np.bool_)


def padded_cut(noise: Noise, edges: Edges, settings: MinCutSettings) -> Any:
    """Algorithm 1 of the thesis."""
    padding, stage = settings.padding, settings.stage_epsilon
    target, spread = settings.target, settings.spread
    level, smallest = choose_padding(
        noise, edges, padding, target=target, spread=spread, stage=stage
    )
    if settings.rule == "exact":
        return exact_cut(noise, edges, padding, level, stage)
    alpha, surety = 1 + settings.beyond / (target - spread), settings.surety
    contraction = None if surety is None else (alpha, surety)
    return near_minimum_cut(
        noise, edges, padding, level, smallest, settings.beyond, stage, contraction
    )


@dataclass(frozen=True, kw_only=True)
class MinCutSettings(SolverSettings):
    """Where padding is to bring the smallest cut, and how far above it cuts are listed."""

    released: ClassVar[tuple[str, ...]] = ("vertices",)

    problem: str = "min-cut"
    rule: str
    vertices: int
    stage_epsilon: Fraction
    choice_epsilon: Fraction | None = None
    cost_epsilon: Fraction | None = None
    size_epsilon: Fraction | None = None
    target: int
    spread: int
    beyond: int
    padding_step: int
    surety: float | None = None
    padding: Padding = hidden()


@dataclass(frozen=True, kw_only=True)
class MinCut(Mechanism):
    """A cut with few edges across.

    Input: distinct edges between public vertices. Neighbours: add-remove-one, of an edge.
    Output: one of two sides for every vertex, neither side empty, with noisy costs of this cut and
        of the public one, which parts the first vertex.
    Privacy: epsilon-DP by one choice from public candidates (theorem 4 of min_cut.proof.md), with a
        delta for "either". The thesis's ways, by name: epsilon-DP by listing all cuts (theorem
        1), or (epsilon, delta)-DP from all cuts that are not far above the smallest (theorem 2;
        theorem 3 when they are found by random contraction); they charge three times the epsilon
        of a stage.
    Relies on: `Noise.choose` having its exact law; for "karger-stein" also the stream cipher that
    its contractions draw from.
    Shows / hides: where the graph is thin; hides whether any one edge is there.
    Accuracy: at most the least degree plus a number of order ln n / epsilon; of a cut with t
        vertices on its smaller side t times that ("all"). `plan` states the bound.

    Parameters
    ----------
    vertices : how many vertices there are, or their public names.
    rule : "all" (one of all cuts, those of many vertices less likely beforehand; the default up to
        18 vertices), "vertex" (which one to part from the others; the default for more) or
        "either" (that, or a cut that "near-minimum" finds with half of the cost; the default
        where a delta is given and there are vertices enough for it). The thesis's: "exact" (all
        cuts, at most 18 vertices) and "near-minimum" (needs a delta).
    cuts : how near-minimum cuts are found: "listed" (all of them, without fail) or "karger-stein"
        (by random contraction, whose chance of missing one is part of delta).
    size_share : share of epsilon spent on how many edges the smallest cut has.
    cost_share : share of epsilon that buys the costs of the cut and of the public one ("all",
        "vertex", "either").
    """

    method: ClassVar[str] = "min-cut"
    kind: ClassVar[str] = "solution"

    vertices: int | Sequence[object]
    rule: Rule | None = None
    cuts: Cuts = "listed"
    size_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = 0
    cost_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = COST_SHARE

    def plan(self, schema: Schema, cost: Cost) -> Plan[MinCutSettings]:
        check_schema(schema, "A minimum cut")
        no_rho(cost, "A minimum cut")
        share, asked = exact(self.size_share, "size_share"), cost
        count, labels = numbered(self.vertices, "vertices")
        if count < 2:
            raise PlanError("A cut needs at least 2 vertices.")
        rule = self.rule or ("all" if count <= MAX_EXACT else "either" if cost.delta else "vertex")
        if rule not in RULES:
            raise PlanError(f"rule = '{rule}' is not known. Use one of: {', '.join(RULES)}.")
        own = rule in ("all", "vertex", "either")
        paid = exact(self.cost_share, "cost_share") if own else Fraction(0)
        if share + paid >= 1:
            raise PlanError("size_share and cost_share must be below 1 together.")
        warnings = []
        listed = self.rule is None and self.cuts == "listed"
        if rule == "either" and listed and cost.epsilon > 0 and self._too_few(count, cost):
            rule = "vertex"
            asked = cost = Cost.pure(cost.epsilon)
            warnings.append(
                "A delta buys nothing in a graph of so few vertices: the release costs epsilon "
                "alone."
            )
        cost = replace(cost, epsilon=cost.epsilon * (1 - share - paid))
        stage_cost = replace(cost, epsilon=cost.epsilon / 2) if rule == "either" else cost
        choice = stage_cost.epsilon if own else None
        stage = stage_cost.epsilon / 3
        rate, log = float(stage), math.log(max(2, count))
        if self.cuts not in ("listed", "karger-stein"):
            raise PlanError(f"cuts = '{self.cuts}' is not known. Use listed or karger-stein.")
        listing = rule in ("either", "near-minimum")
        if not listing and self.cuts != "listed":
            raise PlanError(
                "cuts = 'karger-stein' finds near-minimum cuts: give rule = 'near-minimum' "
                "and a delta."
            )
        target, spread, beyond = math.ceil(8 * log / rate), math.ceil(8 * log / rate), 0
        if rule in ("all", "exact"):
            pure(cost, "A minimum cut by listing all cuts")
            if count > MAX_EXACT:
                raise PlanError(
                    f"rule = '{rule}' lists all cuts, so it takes at most {MAX_EXACT} vertices, "
                    f"not {count}."
                )
        elif rule == "vertex":
            pure(cost, "Parting one vertex")
        else:
            with_delta(cost, "A minimum cut of a large graph")
            target, spread, beyond = near_minimum_targets(count, stage_cost, shares=self._shares)
        if rule not in ("all", "vertex") and count * (count + target + spread) > LARGEST_WEIGHT:
            raise PlanError(
                f"Epsilon {rate:.3g} for a stage is so small that a padded graph of {count:,} "
                "vertices would have more edges than can be counted exactly. Use a larger epsilon "
                "or smaller shares, or rule = 'all' or 'vertex'."
            )
        padding = Padding(count, max(1, math.floor(log / rate)), target + spread)
        lower = cut_excess(count, float(asked.epsilon), float(asked.delta))
        surety = miss_surety(stage_cost, self._shares) if self.cuts == "karger-stein" else None
        additive = target + spread + 8 * log / rate + padding.step
        bound = self._bound(rule, count, additive, choice)
        if listing:
            warnings.append(
                "How long this takes depends on the graph: do not let outsiders measure it."
            )
        if rule == "either" and self._too_few(count, asked):
            warnings.append(
                f"Half of the cost looks for a cut near the smallest, and promises one only to "
                f"within {additive:,.0f} edges; there are {count:,} vertices. Parting one vertex "
                "with all of epsilon is likely to cut fewer edges: leave delta out."
            )
        if surety is not None:
            worst = Contraction(count, 1 + beyond / (target - spread))
            if worst.leaves(surety) > MANY_LEAVES or count > LARGE_MATRIX:
                warnings.append(
                    f"A graph of {count:,} vertices none of which can be merged would take "
                    f"{worst.rounds(surety):,} rounds of contraction with "
                    f"{worst.leaves(surety):.1e} small graphs in all, and matrices of "
                    f"{16 * count * count / 2**30:.1f} GiB. cuts = 'listed' is usually much faster."
                )
        size_epsilon = asked.epsilon * share
        sentences = [f"A cut of {count:,} vertices ({rule}); {HOW[rule]}."]
        if rule not in ("all", "vertex"):
            sentences.append(
                f"Padding brings the smallest cut near {target}; choosing it uses 2 x {rate:.4g}, "
                f"choosing a cut {rate:.4g} of epsilon."
            )
        if choice is not None and paid:
            scale = float(2 / (asked.epsilon * paid))
            sentences.append(
                f"The choice uses {float(choice):.4g}; {float(paid):.3g} of epsilon buys how many "
                f"edges run across this cut and the public one (the first vertex alone), with "
                f"noise of scale {scale:.4g}."
            )
        if size_epsilon:
            scale = float(1 / size_epsilon)
            sentences.append(
                f"How many edges the smallest cut has, with noise of scale {scale:.4g}."
            )
        return solution_plan(
            method=self.method,
            schema=schema,
            cost=asked,
            parameters={
                "vertices": count,
                "structure": digest_of(labels),
                "rule": rule,
                "cuts": self.cuts,
                **({"size_share": str(share)} if share else {}),
                **({"cost_share": str(paid)} if own else {}),
            },
            settings=MinCutSettings(
                labels=labels,
                rule=rule,
                vertices=count,
                stage_epsilon=stage,
                choice_epsilon=choice,
                cost_epsilon=asked.epsilon * paid if own else None,
                size_epsilon=size_epsilon or None,
                target=target,
                spread=spread,
                beyond=beyond,
                padding_step=padding.step,
                surety=surety,
                padding=padding,
                bound=bound,
                lower_bound={
                    "factor": 1.0,
                    "additive": lower,
                    "text": f"some graphs cost every such method {lower:.3g} edges more in "
                    "expectation (as in theorem 42)."
                    if lower
                    else nothing_ruled_out(42),
                },
            ),
            sentences=sentences,
            warnings=warnings,
        )

    def _too_few(self, count: int, cost: Cost) -> bool:
        """Whether "either" promises, beyond the smallest cut, no less than any vertex may have:
        parting one with all of epsilon is nearer then, by `python -m
        benchmarks.defaults.alternatives --method min-cut`. `cost` is the whole one."""
        left = 1 - exact(self.size_share, "size_share") - exact(self.cost_share, "cost_share")
        stage = replace(cost, epsilon=cost.epsilon * left / 2)
        rate, log = float(stage.epsilon) / 3, math.log(count)
        target, spread, _ = near_minimum_targets(count, stage, shares=self._shares)
        step = max(1, math.floor(log / rate))
        return target + spread + 8 * log / rate + step >= count - 1

    def statistic(self, plan: Plan[MinCutSettings]) -> GraphEdges:
        return GraphEdges(plan.settings.vertices, plan.settings.labels)

    def run(self, noise: Noise, numbers: Edges, plan: Plan[MinCutSettings]) -> Output:
        return min_cut(noise, numbers, plan.settings)

    def _bound(self, rule: str, count: int, padded: float, choice: Fraction | None) -> Bound:
        """What the rule promises; `padded` is what the thesis's way does."""
        if choice is None:
            return {
                "factor": 1.0,
                "additive": float(padded),
                "text": f"the cut has at most {padded:.4g} edges more than the smallest, up "
                "to a chance of order 1/n^2.",
            }
        # of "all" the cuts of one size weigh n/t! together, which is (e - 1) n in all
        near = reach_of_choice((math.e if rule == "all" else 1) * (count + 1), float(choice))
        sure = f"except with probability {SURE:g}."
        bound: Bound = {"factor": 1.0, "additive": float(count - 1), "text": ""}
        bound["text"] = f"the cut has at most {near:.4g} edges more than the least degree, {sure}"
        if rule == "all":
            each = math.log(count) / float(choice)
            bound["additive"] = near + (count // 2 - 1) * each
            bound["text"] = (
                f"the cut has at most {near:.4g} edges more than the least degree, and "
                f"{each:.4g} more for each further vertex of the smaller side than the smallest "
                f"cut, {sure}"
            )
        if rule == "either":
            bound["additive"] = padded + near
            bound["text"] = (
                f"the cut has at most {near:.4g} edges more than the least degree, {sure} And at "
                f"most {padded + near:.4g} more than the smallest cut, up to that and a chance of "
                "order 1/n^2."
            )
        if near >= count - 1:
            bound["says_nothing"] = f"here: no vertex has more than {count - 1:,} edges"
        return bound

    @property
    def _shares(self) -> int:
        """What delta pays for: padding that misses, cuts beyond the limit, and contractions that
        miss a cut."""
        return 2 if self.cuts == "listed" else 3


def noisy_size(noise: Noise, edges: Edges, count: int, epsilon: Fraction) -> dict[str, Any]:
    """How many edges the smallest cut has; one edge moves it by at most one."""
    ones = np.ones(len(edges), dtype=np.int64)
    least = smallest_cut(count, edges.heads, edges.tails, ones, 1 << 60)
    noisy = noise.laplace(
        np.array([least], dtype=np.int64),
        sensitivity=Fraction(1),
        epsilon=epsilon,
        label="size of the smallest cut",
    )
    # the smallest cut is no larger than a degree
    return {"value": int(noisy[0]), "scale": str(1 / epsilon), "most": float(count - 1)}


def miss_surety(cost: Cost, shares: int) -> float:
    """ln(shares / tau), rounded up, where tau = delta / (1 + exp(epsilon)) is the total variation
    that delta allows."""
    return math.log(shares) + float(cost.epsilon) + math.log(2) - math.log(float(cost.delta)) + 1e-9


def near_minimum_targets(count: int, cost: Cost, *, shares: int = 2) -> tuple[int, int, int]:
    """Target of the smallest cut, how far from it still counts, and how far above the smallest cut
    cuts are listed.

    Chosen so that the listing differs from the mechanism over all cuts by at most delta / (1 +
    exp(epsilon)) in total variation (min_cut.proof.md, theorem 2): one share for padding that
    misses, one for cuts that are not listed.
    """
    rate, log = float(cost.epsilon) / 3, math.log(count)
    half = miss_surety(cost, shares)
    target = math.ceil(8 * log / rate)
    while True:
        # the worst smallest cut that stage one lets pass is target - spread
        step = max(1, math.floor(log / rate))
        levels = Padding(count, step, 2 * target).levels + 1
        spread = math.ceil((math.log(levels) + half) / rate) + step
        least = target - spread
        growth = 2 * log / least if least > 0 else math.inf
        if growth < rate / 2:
            gap = rate - growth
            tail = 2 * log + half + math.log(math.expm1(-rate) / math.expm1(-gap))
            beyond = math.ceil(tail / gap * (1 + 1e-9))
            if 5 * beyond <= 3 * least:
                return target, spread, beyond
        target += max(1, target // 8)


def padded(edges: Edges, padding: Padding, level: int) -> tuple[Ints, Ints, Ints]:
    heads, tails, weights = padding.edges(level)
    return (
        np.concatenate([edges.heads, heads]),
        np.concatenate([edges.tails, tails]),
        np.concatenate([np.ones(len(edges), dtype=np.int64), weights]),
    )


def choose_padding(
    noise: Noise, edges: Edges, padding: Padding, *, target: int, spread: int, stage: Fraction
) -> tuple[int, int]:
    """Stage one: a padding number by -|smallest cut - target|, cut off at `spread`. Not monotone:
    it costs two stages.

    The smallest cut grows with the padding, so equal values at two numbers settle all numbers
    between them.
    """
    values = np.full(padding.levels + 1, -1, dtype=np.int64)

    def value(level: int) -> int:
        if values[level] < 0:
            values[level] = max(
                least_cut(edges, padding, level, target + spread, target - spread), target - spread
            )
        return int(values[level])

    spans = [(0, padding.levels)]
    while spans:
        low, high = spans.pop()
        if value(low) == value(high):
            values[low : high + 1] = values[low]
        elif high - low > 1:
            middle = (low + high) // 2
            spans += [(low, middle), (middle, high)]
    scores = -np.abs(values - target)
    level = noise.choose(
        scores, sensitivity=Fraction(1), epsilon=2 * stage, rule="exponential", label="padding"
    )
    return level, least_cut(edges, padding, level, 1 << 60, 0)


def least_cut(edges: Edges, padding: Padding, level: int, cap: int, floor: int) -> int:
    """The smallest cut of the padded graph, exact between `floor` and `cap`; beyond them anything
    on the same side.

    Where degrees and padding make every other cut at least as large as the smallest degree, that
    degree is the answer.
    """
    graph = padded(edges, padding, level)
    degree = int(degrees(padding.size, *graph).min())
    least = min(cap, degree)
    if least <= floor or padding.least_beyond_singletons(level, degree) >= least:
        return least
    return int(smallest_cut(padding.size, *graph, cap))


def degrees(count: int, heads: Ints, tails: Ints, weights: Ints) -> Ints:
    """Weighted degrees: the costs of the cuts that part one vertex from all others."""
    sums = np.zeros(count, dtype=np.int64)
    for ends in (heads, tails):
        np.add.at(sums, ends, weights)
    return sums


def exact_cut(noise: Noise, edges: Edges, padding: Padding, level: int, stage: Fraction) -> Any:
    """Stage two over all cuts: monotone in an edge, so it costs one stage."""
    place = choose_cut(noise, cut_costs(padding.size, *padded(edges, padding, level)), stage)
    return np.array([(place + 1) >> vertex & 1 for vertex in range(padding.size)], dtype=np.bool_)


def near_minimum_cut(
    noise: Noise,
    edges: Edges,
    padding: Padding,
    level: int,
    smallest: int,
    beyond: int,
    stage: Fraction,
    contraction: tuple[float, float] | None = None,
) -> Any:
    """Stage two over all cuts of cost at most smallest + beyond, every one of which is listed.

    `contraction`: find them by random contraction instead, for cuts of up to alpha times the
    smallest and with this surety.
    """
    count = padding.size
    heads, tails, weights = padded(edges, padding, level)
    limit = smallest + beyond
    degree = degrees(count, heads, tails, weights)
    if padding.least_beyond_singletons(level, int(degree.min())) > limit:
        # degrees and padding make every other cut too large
        single = np.flatnonzero(degree <= limit)
        return np.arange(count) == single[choose_cut(noise, degree[single], stage)]
    parts, small_heads, small_tails, small_weights, names = merge_above(
        count, heads, tails, weights, limit + 1
    )
    if contraction is not None:
        alpha, surety = contraction
        wanted = Contraction(parts, min(alpha, limit / max(1, smallest) * (1 + 1e-9)))
        costs, sides = contracted_cuts(
            noise, small_heads, small_tails, small_weights, wanted, limit, surety
        )
        if not len(costs):  # a chance that delta pays for; there must be an answer all the same
            return np.arange(count) == np.argmin(degree)
        return sides[choose_cut(noise, costs, stage)][names]
    if parts <= _LISTED:
        listed = cut_costs(parts, small_heads, small_tails, small_weights)
        near = np.flatnonzero(listed <= limit)
        code = int(near[choose_cut(noise, listed[near], stage)]) + 1
        return ((code >> names) & 1).astype(np.bool_)
    costs, ends, members = small_cuts(parts, small_heads, small_tails, small_weights, limit)
    place = choose_cut(noise, costs, stage)
    return np.isin(names, members[ends[place] : ends[place + 1]])


def choose_cut(noise: Noise, costs: Ints, stage: Fraction) -> int:
    return noise.choose(
        -costs,
        sensitivity=Fraction(1),
        epsilon=stage,
        monotone=True,
        rule="exponential",
        label="cut",
    )
