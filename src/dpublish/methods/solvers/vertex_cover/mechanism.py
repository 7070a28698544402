"""Private vertex cover: an order of all vertices, so that every possible edge is assigned to its
earlier end.

In: the set of edges (private) between public vertices, with public weights if there are any. Out: a
permutation of the vertices. The cover that a set of edges induces is the set of their earlier ends.
An explicit cover cannot be private: two vertices left out of it say for certain that there is no
edge between them, so it would hold at least n - 1 vertices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from dpublish.arrays import Ints, Words
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.draws import laplace_deviation
from dpublish.methods.field_types import Interval
from dpublish.methods.solvers.inputs import Edges, GraphEdges, starts_of
from dpublish.methods.solvers.planning import (
    COST_SHARE,
    Bound,
    SolverSettings,
    amounts,
    check_schema,
    cover_factor,
    digest_of,
    estimated_costs,
    label_column,
    numbered,
    pure,
    solution_plan,
)
from dpublish.methods.solvers.vertex_cover.kernels import (
    WeightClasses,
    by_class,
    cover_order,
    weight_classes,
    weighted_order,
)
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden

Rule = Literal["degree", "schedule", "two-phase"]
WEIGHT_UNITS = 1 << 20
"""Weights are measured in so many parts of the largest."""
SURE = 0.05
WORD = 1 << 64
LARGEST_TOTAL = 1 << 62
_SPARE_WORDS = 64
_GRID = 1 << 10


def vertex_cover(
    noise: Noise, edges: Edges, settings: VertexCoverSettings, *, weighted: bool
) -> Output:
    """The mechanism: vertices by noisy degree, or the public order if that seems cheaper by noisy
    costs. By name the thesis's, which draw vertex by vertex."""
    facts, tables = settings.solution_facts(), {}
    if settings.size_epsilon:
        facts["size"] = noisy_size(noise, edges, settings)
    order = np.empty(settings.vertices, dtype=np.int64)
    if settings.rule == "degree":
        found = degree_order(noise, edges, settings.weights, settings.order_epsilon)
        order, costs = better_order(noise, edges, found, settings)
        facts |= costs
    elif settings.weight_classes is not None:
        draw_order(noise, edges, order, partial(fill_by_class, settings.weight_classes))
    elif settings.schedule is not None:
        draw_order(noise, edges, order, partial(fill_by_schedule, *settings.schedule))
    if weighted:  # public, and without them nobody could work out what the cover costs
        facts["weighted"] = True
        tables["weights"] = {"weight": np.array([float(weight) for weight in settings.weights])}
    names = label_column(settings.labels, order)
    return Output(facts=facts, tables={"order": {"vertex": order, **names}, **tables})


def degree_order(
    noise: Noise, edges: Edges, weights: Sequence[Fraction], epsilon: Fraction
) -> Ints:
    """Vertices by noisy degree, for its weight the largest first; an edge has two ends."""
    count = len(weights)
    ends = np.concatenate([edges.heads, edges.tails])
    degrees = np.bincount(ends, minlength=count).astype(np.int64)
    noisy = noise.laplace(degrees, sensitivity=Fraction(2), epsilon=epsilon, label="degrees")
    # a vertex that seems to touch nothing still comes before a heavier one
    value = np.maximum(noisy, 0.5) / np.array([float(weight) for weight in weights])
    return np.argsort(-value, kind="stable").astype(np.int64)


def better_order(
    noise: Noise, edges: Edges, found: Ints, settings: VertexCoverSettings
) -> tuple[Ints, dict[str, Any]]:
    """The order that was found or the public one (the lightest first, else as they are listed), by
    noisy costs of both; and these costs."""
    weights, epsilon = settings.weights, settings.cost_epsilon
    if not epsilon:
        return found, {}
    light = np.argsort([float(weight) for weight in weights], kind="stable").astype(np.int64)
    unit = weight_unit(weights)
    prices = np.array([math.ceil(weight / unit) for weight in weights], dtype=np.int64)
    costs = estimated_costs(
        noise,
        *(order_cost(edges, order, prices) for order in (found, light)),
        # one more edge calls for at most one more vertex of an order
        sensitivity=Fraction(2 * int(prices.max())),
        epsilon=epsilon,
        unit=float(unit),
        most=float(prices.sum() * unit),
    )
    one, other = costs["cost_estimate"], costs["public_cost_estimate"]
    # the difference of two noisy costs has this standard deviation
    if one["value"] - other["value"] <= math.sqrt(2) * one["standard_error"]:
        return found, costs
    return light, {**costs, "cost_estimate": other}


def draw_order(
    noise: Noise, edges: Edges, order: Ints, fill: Callable[[Edges, Words, Ints], int]
) -> None:
    """Draw the order round by round. Words are drawn in a public number; more are drawn only if
    rejections used them up: `fill` says for how many vertices they sufficed."""
    count = len(order)
    words = noise.integers(WORD, size=count + _SPARE_WORDS, label="order")
    while fill(edges, words, order) < count:
        words = np.concatenate([words, noise.integers(WORD, size=count, label="order")])


def fill_by_schedule(real: Ints, extra: Ints, edges: Edges, words: Words, order: Ints) -> int:
    """Sections 7.5.1 and 7.6: in round i by real[i] * degree + extra[i]."""
    starts, incident = incidence(edges, len(order))
    return cover_order(edges.heads, edges.tails, starts, incident, real, extra, words, order)


def fill_by_class(classes: WeightClasses, edges: Edges, words: Words, order: Ints) -> int:
    """Section 7.5.3: by the weighted rule, whose classes are dumped."""
    kinds = len(classes.sizes)
    sides = classes.of_vertex[np.column_stack([edges.heads, edges.tails]).ravel()]
    return weighted_order(
        edges.heads,
        edges.tails,
        *incidence(edges, len(order)),
        classes.of_vertex,
        *by_class(classes.of_vertex, kinds),
        sides,
        *by_class(sides, kinds),
        classes.scores,
        classes.quotas,
        classes.hallucinated.denominator,
        classes.hallucinated.numerator,
        words,
        order,
    )


@dataclass(frozen=True, kw_only=True)
class VertexCoverSettings(SolverSettings):
    """The epsilons of the order and of the noisy size, and what rounds draw in proportion to.

    `schedule` holds integers (real, extra) of every round: vertex v is drawn in proportion to
    real * degree(v) + extra. Vertices with weights have `weight_classes` instead.
    """

    released: ClassVar[tuple[str, ...]] = ("vertices",)

    problem: str = "vertex-cover"
    rule: str
    vertices: int
    order_epsilon: Fraction
    size_epsilon: Fraction
    cost_epsilon: Fraction | None = None
    rounds: int | None = None
    hallucinated_edges: Fraction | None = None
    classes: int | None = None
    weights: tuple[Fraction, ...] = hidden(default=())
    weight_classes: WeightClasses | None = hidden(default=None)
    schedule: tuple[Ints, Ints] | None = hidden(default=None)


@dataclass(frozen=True, kw_only=True)
class VertexCover(Mechanism):
    """An order of the vertices that covers every edge cheaply: each edge goes to whichever of its
    ends comes first.

    Input: distinct edges between public vertices. Neighbours: add-remove-one, of an edge.
    Output: a permutation of all vertices, noisy costs of this order and of the public one, and
    with `size_share` a noisy bound on the smallest cover.
    Privacy: epsilon-DP (theorem 4 of vertex_cover.proof.md; theorems 1 to 3 for the thesis's).
    Relies on: `Noise.laplace`; for the thesis's rules words of `Noise.integers` being uniform.
    Shows / hides: which vertices touch many edges; hides whether any one edge is there.
    Accuracy: hardly worse than the public order, and usually close to the order by true degrees;
    for "schedule" at most (2 + 16/epsilon) times the smallest. `plan` states the bound.

    Parameters
    ----------
    vertices : how many vertices there are, or their public names.
    weights : public positive weights of the vertices; all equal when left out.
    rule : "degree" (by noisy degree), or the thesis's: "schedule" (section 7.5.1; 7.5.3 where there
        are weights) or "two-phase" (7.6).
    phase : share of the vertices that the first phase of "two-phase" orders.
    size_share : share of epsilon spent on the size (or the weight) of the smallest cover.
    cost_share : share of epsilon that buys the costs of both orders on the edges ("degree").
    nominal_size : about how many edges are expected, a public guess, for forecasts alone.
    """

    method: ClassVar[str] = "vertex-cover"
    kind: ClassVar[str] = "solution"

    vertices: int | Sequence[object]
    weights: Sequence[Fraction | float | int | str] | None = None
    rule: Rule = "degree"
    phase: Annotated[Fraction | float | int | str, Interval(above=0, below=1)] = Fraction(1, 2)
    size_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = 0
    cost_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = COST_SHARE
    nominal_size: Annotated[int | None, Interval(1)] = None

    def plan(self, schema: Schema, cost: Cost) -> Plan[VertexCoverSettings]:
        check_schema(schema, "A vertex cover")
        pure(cost, "A vertex cover")
        count, labels = numbered(self.vertices, "vertices")
        if count < 2:
            raise PlanError("A vertex cover needs at least 2 vertices.")
        share = exact(self.size_share, "size_share")
        size_epsilon = cost.epsilon * share
        epsilon = cost.epsilon - size_epsilon
        weights = self._exact_weights(count)
        total = float(sum(weights))
        rule: dict[str, Any]
        warnings: list[str] = []
        if self.rule == "degree":
            paid = exact(self.cost_share, "cost_share")
            if share + paid >= 1:
                raise PlanError("size_share and cost_share must be below 1 together.")
            rule = {"rule": "degree", "cost_epsilon": cost.epsilon * paid, "weights": weights}
            epsilon -= cost.epsilon * paid
            what, bound = self._degree_terms(count, epsilon, cost.epsilon * paid, total, warnings)
        elif self.rule not in ("schedule", "two-phase"):
            raise PlanError(
                f"rule = '{self.rule}' is not known. Use degree, schedule or two-phase."
            )
        else:
            if self.weights is not None:
                rule, factor, what = self._weighted_terms(weights, epsilon)
            elif self.rule == "schedule":
                rule = {"rule": "schedule", "schedule": schedule_weights(count, epsilon)}
                factor, what = 2 + 16 / float(epsilon), "weights that grow as vertices run out"
            else:
                rule, factor, what = self._two_phase_terms(count, epsilon)
            what = f"Drawn with {what}."
            # a cover never holds more than all vertices, whatever the theorem says
            most, cost_name = f"{count:,}, all vertices", "number of vertices"
            if self.weights is not None:
                most, cost_name = f"{total:.4g}, the weight of all vertices", "weight"
            bound = {
                "factor": factor,
                "additive": 0.0,
                "text": f"the expected {cost_name} of the cover is at most {factor:.4g} times the "
                f"smallest (never above {most}).",
                "says_nothing": f"unless the smallest cover is below {total / factor:.4g}: no "
                f"cover is above {total:.4g}",
            }
        lower = cover_factor(count, float(cost.epsilon))
        sentences = [
            f"An order of {count:,} vertices; every edge is assigned to its earlier end.",
            what,
        ]
        if size_epsilon:
            least, scale = "The size of the smallest cover", float(2 / size_epsilon)
            if unequal(weights):
                least = "The weight of the lightest cover"
                scale *= float(second_largest(weights))
            sentences.append(f"{least}, within a factor of 2 and noise of scale {scale:.4g}.")
        return solution_plan(
            method=self.method,
            schema=schema,
            cost=cost,
            parameters={
                "vertices": count,
                "structure": digest_of(
                    labels, None if self.weights is None else [str(w) for w in self.weights]
                ),
                "weighted": self.weights is not None,
                "rule": self.rule,
                "phase": str(exact(self.phase, "phase")),
                "size_share": str(share),
                "cost_share": str(exact(self.cost_share, "cost_share")),
                "nominal_size": self.nominal_size,
            },
            settings=VertexCoverSettings(
                labels=labels,
                vertices=count,
                order_epsilon=epsilon,
                size_epsilon=size_epsilon,
                bound=bound,
                lower_bound={
                    "factor": lower,
                    "additive": 0.0,
                    "text": f"some graphs cost every private method {lower:.3g} times the smallest "
                    "cover in expectation; the factor is of order 1/epsilon up to epsilon 1 "
                    "(theorem 51).",
                },
                **rule,
            ),
            sentences=sentences,
            warnings=warnings,
        )

    def _degree_terms(
        self,
        count: int,
        epsilon: Fraction,
        paid: Fraction,
        total: float,
        warnings: list[str],
    ) -> tuple[str, Bound]:
        deviation = laplace_deviation(2 / epsilon)
        what = (
            f"By noisy degree; the noise has standard deviation {deviation:.3g}, and vertices "
            "whose degrees differ by less can hardly be told apart. The public order (the "
            "lightest first, else as they are listed) is taken if it seems better."
        )
        if self.nominal_size is not None and 2 * self.nominal_size / count < deviation / 4:
            warnings.append(
                f"With about {self.nominal_size:,} edges a vertex has "
                f"{2 * self.nominal_size / count:.2g} on average, far below the noise: only "
                "vertices with far more edges than that can stand out."
            )
        if not paid:
            return what, {
                "factor": 0.0,
                "additive": total,
                "text": f"no cover is above {total:.4g}.",
                "says_nothing": "of this order: it holds of any",
            }
        moved = 2 * float(max(self._exact_weights(count)))
        scale = moved / float(paid)
        more = 2 * (scale * math.log(2 / SURE) + moved / WEIGHT_UNITS) + 2 * scale
        bound: Bound = {
            "factor": 1.0,
            "additive": more,
            "text": f"the cover costs at most {more:.4g} more than that of the public order, "
            f"except with probability {SURE:g}.",
        }
        if more >= total:
            bound["says_nothing"] = f"here: no cover is above {total:.4g}"
        return what, bound

    def statistic(self, plan: Plan[VertexCoverSettings]) -> GraphEdges:
        return GraphEdges(plan.settings.vertices, plan.settings.labels)

    def run(self, noise: Noise, numbers: Edges, plan: Plan[VertexCoverSettings]) -> Output:
        return vertex_cover(noise, numbers, plan.settings, weighted=self.weights is not None)

    def _two_phase_terms(self, count: int, epsilon: Fraction) -> tuple[dict[str, Any], float, str]:
        rounds, hallucinated = two_phases(count, exact(self.phase, "phase"), epsilon)
        real, extra = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
        real[:rounds], extra[:rounds] = hallucinated.denominator, hallucinated.numerator
        # 7.6 with h hallucinated edges: every interesting vertex of phase one is due to a real
        # edge with chance 1/(1+h)
        factor = 2 * (1 + float(hallucinated)) * (1 + 1 / math.log(count / (count - rounds)))
        rule = {
            "rule": "two-phase",
            "rounds": rounds,
            "hallucinated_edges": hallucinated,
            "schedule": (real, extra),
        }
        edges = f"{float(hallucinated):.3g} hallucinated edges a vertex"
        return rule, factor, f"{edges} for {rounds} rounds, then random order"

    def _weighted_terms(
        self, weights: tuple[Fraction, ...], epsilon: Fraction
    ) -> tuple[dict[str, Any], float, str]:
        if self.rule != "schedule":
            raise PlanError(
                "rule = 'two-phase' is for vertices of equal weight. Leave rule or weights out."
            )
        classes = weight_classes(weights, epsilon)
        rule = {
            "rule": "weighted",
            "hallucinated_edges": classes.hallucinated,
            "classes": len(classes.sizes),
            "weights": weights,
            "weight_classes": classes,
        }
        edges = f"{float(classes.hallucinated):.3g} hallucinated edges a vertex"
        return rule, classes.factor, edges

    def _exact_weights(self, count: int) -> tuple[Fraction, ...]:
        return tuple(amounts(self.weights, "weight", count, "vertices"))


def weight_unit(weights: Sequence[Fraction]) -> Fraction:
    """What weights are counted in: the one weight that all have, or a small part of the largest."""
    return weights[0] if len(set(weights)) == 1 else max(weights) / WEIGHT_UNITS


def order_cost(edges: Edges, order: Ints, prices: Ints) -> int:
    """The price of the earlier ends of all edges. Private."""
    place = np.argsort(order)
    earlier = np.where(place[edges.heads] < place[edges.tails], edges.heads, edges.tails)
    return int(prices[np.unique(earlier)].sum())


def noisy_size(noise: Noise, edges: Edges, settings: VertexCoverSettings) -> dict[str, Any]:
    """A noisy number between the smallest cover (or the lightest) and twice that."""
    weights = settings.weights
    unit, moved = Fraction(1), 2
    if unequal(weights):
        # the flow and its sums stay in 31 bits
        unit = max(weights) / min(WEIGHT_UNITS, (1 << 30) // len(weights))
        prices = np.array([math.ceil(weight / unit) for weight in weights], dtype=np.int64)
        moved = 2 * int(np.sort(prices)[-2])
        value = double_cover_flow(edges, prices)
    else:
        value = double_cover_matching(edges, settings.vertices)
    size = noise.laplace(
        np.array([value], dtype=np.int64),
        sensitivity=Fraction(moved),
        epsilon=settings.size_epsilon,
        label="size of the smallest cover",
    )
    scale = moved * unit / settings.size_epsilon
    if unequal(weights):
        return {
            "value": float(int(size[0]) * unit),
            "scale": str(scale),
            "weighted": True,
            "above": float(2 * len(weights) * unit),
            "most": float(sum(weights)),
        }
    return {"value": int(size[0]), "scale": str(scale), "most": float(settings.vertices - 1)}


def unequal(weights: Sequence[Fraction]) -> bool:
    """Whether the size that is published is a weight; with equal weights it is a number of
    vertices."""
    return len(set(weights)) > 1


def second_largest(weights: Sequence[Fraction]) -> Fraction:
    """An edge adds at most the lighter of its ends to a cover."""
    return sorted(weights)[-2]


def double_cover_flow(edges: Edges, prices: Ints) -> int:
    """Twice the lightest fractional cover: at least the lightest cover, at most twice it, and an
    edge moves it by at most twice the lighter of its ends.

    It is the lightest cover of the bipartite double cover, which is a smallest cut: from a source
    to every left vertex for its price, across the edges without limit, from right vertices to a
    sink.
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_flow

    count = len(prices)
    left, right = np.arange(count), np.arange(count) + count
    source, sink = 2 * count, 2 * count + 1
    heads = np.concatenate([edges.heads, edges.tails, np.full(count, source), right])
    tails = np.concatenate([edges.tails + count, edges.heads + count, left, np.full(count, sink)])
    free = np.full(2 * len(edges), np.iinfo(np.int32).max // 2)
    room = np.concatenate([free, prices, prices]).astype(np.int32)
    graph = csr_matrix((room, (heads, tails)), shape=(2 * count + 2, 2 * count + 2))
    return int(maximum_flow(graph, source, sink).flow_value)


def two_phases(count: int, phase: Fraction, epsilon: Fraction) -> tuple[int, Fraction]:
    """Section 7.6: how many rounds look at edges, and with how many hallucinated ones a vertex."""
    rounds = min(count - 1, max(1, math.floor(phase * count)))
    # 2 * sum of 1/l over the sizes l = n, ..., n - rounds + 1 of the remaining graph, rounded up
    harmonic = math.fsum(1.0 / left for left in range(count - rounds + 1, count + 1)) * (1 + 1e-9)
    needed = max(2 * Fraction(harmonic) / epsilon, 1 / epsilon)
    hallucinated = Fraction(math.ceil(needed * _GRID), _GRID)
    if (hallucinated.denominator * count + hallucinated.numerator) * count >= LARGEST_TOTAL:
        raise PlanError(
            "The graph is too large for this epsilon: 64-bit draws would overflow. Use a "
            "larger epsilon."
        )
    return rounds, hallucinated


def schedule_weights(count: int, epsilon: Fraction) -> tuple[Ints, Ints]:
    """Section 7.5.1: w_i = (4/epsilon) sqrt(n / (n - i + 1)), rounded up to a multiple of 1/grid;
    real = grid."""
    remaining = np.arange(count, 0, -1, dtype=np.float64)
    # three roundings of relative size 2^-53 are far inside the slack; a larger weight is never less
    # private
    weights = float(4 / epsilon) * np.sqrt(count / remaining) * (1 + 1e-12)
    if (
        float(weights[-1]) * _GRID * count >= LARGEST_TOTAL / 4
        or _GRID * count * count >= LARGEST_TOTAL
    ):
        raise PlanError(
            "The graph is too large for this epsilon: 64-bit draws would overflow. Use a larger "
            "epsilon."
        )
    extra = np.floor(weights * _GRID).astype(np.int64) + 1
    return np.full(count, _GRID, dtype=np.int64), extra


def incidence(edges: Edges, count: int) -> tuple[Ints, Ints]:
    """For each vertex the numbers of its edges: (starts, edge numbers)."""
    ends = np.concatenate([edges.heads, edges.tails])
    starts = starts_of(np.bincount(ends, minlength=count))
    return starts, (np.argsort(ends, kind="stable") % max(1, len(edges))).astype(np.int64)


def double_cover_matching(edges: Edges, count: int) -> int:
    """Twice the largest fractional matching: at least the smallest cover, at most twice it, and
    2-sensitive to an edge.

    It is the maximum matching of the bipartite double cover, in which edge {u, v} stands for (u, v)
    and (v, u).
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    rows = np.concatenate([edges.heads, edges.tails])
    columns = np.concatenate([edges.tails, edges.heads])
    graph = csr_matrix((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(count, count))
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())
