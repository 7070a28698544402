"""Private vertex cover: an order of all vertices, so that every possible edge is assigned to its
earlier end.

In: the set of edges (private) between public vertices, with public weights if there are any. Out: a
permutation of the vertices. The cover that a set of edges induces is the set of their earlier ends.
An explicit cover cannot be private: two vertices left out of it say for certain that there is no
edge between them, so it would hold at least n - 1 vertices.
"""

from __future__ import annotations

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
from dpublish.methods.solvers.inputs import Edges, GraphEdges
from dpublish.methods.solvers.lower_bounds import cover_factor
from dpublish.methods.solvers.planning import (
    Bound,
    SolverSettings,
    amounts,
    check_schema,
    digest_of,
    label_column,
    numbered,
    pure,
    solution_plan,
)
from dpublish.methods.solvers.vertex_cover.kernels import cover_order, weighted_order
from dpublish.methods.solvers.vertex_cover.weight_classes import WeightClasses, weight_classes
from dpublish.noise.base import IntArray, Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, hidden

Rule = Literal["schedule", "two-phase"]
WORD = 1 << 64
LARGEST_TOTAL = 1 << 62
_SPARE_WORDS = 64
_GRID = 1 << 10


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
    rounds: int | None = None
    hallucinated_edges: Fraction | None = None
    classes: int | None = None
    weights: tuple[Fraction, ...] | None = hidden(default=None)
    weight_classes: WeightClasses | None = hidden(default=None)
    schedule: tuple[IntArray, IntArray] | None = hidden(default=None)


def draw_order(
    noise: Noise, edges: Edges, real: IntArray, extra: IntArray, order: IntArray
) -> None:
    """Draw the order round by round. Words are drawn in a public number; more are drawn only if
    rejections used them up."""
    count = len(order)
    starts, incident = incidence(edges, count)
    words = noise.integers(WORD, size=count + _SPARE_WORDS, label="order")
    while (
        cover_order(edges.heads, edges.tails, starts, incident, real, extra, words, order) < count
    ):
        words = np.concatenate([words, noise.integers(WORD, size=count, label="order")])


@dataclass(frozen=True, kw_only=True)
class VertexCover(Mechanism):
    """An order of the vertices that covers every edge cheaply: each edge goes to whichever of its
    ends comes first.

    Input: distinct edges between public vertices. Neighbours: add-remove-one, of an edge.
    Output: a permutation of all vertices, and with `size_share` a noisy bound on the size of the
    smallest cover.
    Privacy: epsilon-DP (theorems 1 to 3 of vertex_cover.proof.md).
    Relies on: words of `Noise.integers` being uniform; `Noise.laplace` for the size.
    Shows / hides: which vertices touch many edges; hides whether any one edge is there.
    Accuracy: expected cover at most (2 + 16/epsilon) times the smallest (schedule); `plan` states
    the factor.

    Parameters
    ----------
    vertices : how many vertices there are, or their public names.
    weights : public positive weights of the vertices; all equal when left out.
    rule : "schedule" (section 7.5.1 of the thesis) or "two-phase" (7.6); weights have a rule of
        their own (7.5.3).
    phase : share of the vertices that the first phase of "two-phase" orders.
    size_share : share of epsilon spent on the size of the smallest cover.
    """

    method: ClassVar[str] = "vertex-cover"
    kind: ClassVar[str] = "solution"

    vertices: int | Sequence[object]
    weights: Sequence[Fraction | float | int | str] | None = None
    rule: Rule = "schedule"
    phase: Annotated[Fraction | float | int | str, Interval(above=0, below=1)] = Fraction(1, 2)
    size_share: Annotated[Fraction | float | int | str, Interval(0, below=1)] = 0

    def plan(self, schema: Schema, cost: Cost) -> Plan[VertexCoverSettings]:
        check_schema(schema, "A vertex cover")
        pure(cost, "A vertex cover")
        count, labels = numbered(self.vertices, "vertices")
        if count < 2:
            raise PlanError("A vertex cover needs at least 2 vertices.")
        share = exact(self.size_share, "size_share")
        size_epsilon = cost.epsilon * share
        epsilon = cost.epsilon - size_epsilon
        rule: dict[str, Any]
        if self.weights is not None:
            rule, factor, what = self._weighted_terms(count, epsilon)
        elif self.rule == "schedule":
            rule = {"rule": "schedule", "schedule": schedule_weights(count, epsilon)}
            factor, what = 2 + 16 / float(epsilon), "weights that grow as vertices run out"
        elif self.rule == "two-phase":
            rule, factor, what = self._two_phase_terms(count, epsilon)
        else:
            raise PlanError(f"rule = '{self.rule}' is not known. Use schedule or two-phase.")
        # a cover never holds more than all vertices, whatever the theorem says
        most, cost_name = f"{count:,}, all vertices", "number of vertices"
        if self.weights is not None:
            total = float(sum(rule["weights"]))
            most, cost_name = f"{total:.4g}, the weight of all vertices", "weight"
        bound: Bound = {
            "factor": factor,
            "additive": 0.0,
            "text": f"the expected {cost_name} of the cover is at most {factor:.4g} times the "
            f"smallest (never above {most}).",
        }
        lower = cover_factor(count, float(cost.epsilon))
        sentences = [
            f"An order of {count:,} vertices; every edge is assigned to its earlier end.",
            f"Drawn with {what}.",
        ]
        if size_epsilon:
            least = (
                "The size of the smallest cover"
                if self.weights is None
                else "The least number of vertices that cover"
            )
            sentences.append(
                f"{least}, within a factor of 2 and noise of scale {float(2 / size_epsilon):.4g}."
            )
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
        )

    def statistic(self, plan: Plan[VertexCoverSettings]) -> GraphEdges:
        return GraphEdges(plan.settings.vertices, plan.settings.labels)

    def run(self, noise: Noise, numbers: Edges, plan: Plan[VertexCoverSettings]) -> Output:
        settings = plan.settings
        facts, tables = settings.solution_facts(), {}
        if settings.size_epsilon:
            facts["size"] = noisy_size(noise, numbers, settings)
        order = np.empty(settings.vertices, dtype=np.int64)
        if settings.weight_classes is not None and settings.weights is not None:
            draw_weighted_order(noise, numbers, settings.weight_classes, order)
            # public, and without them nobody could work out what the cover costs
            facts["weighted"] = True
            weights = np.array([float(w) for w in settings.weights], dtype=np.float64)
            tables["weights"] = {"weight": weights}
        elif settings.schedule is not None:
            draw_order(noise, numbers, *settings.schedule, order)
        names = label_column(settings.labels, order)
        return Output(facts=facts, tables={"order": {"vertex": order, **names}, **tables})

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
        what = (
            f"{float(hallucinated):.3g} hallucinated edges a vertex for {rounds} rounds, then "
            "random order"
        )
        return rule, factor, what

    def _weighted_terms(self, count: int, epsilon: Fraction) -> tuple[dict[str, Any], float, str]:
        if self.rule != "schedule":
            raise PlanError(
                "rule = 'two-phase' is for vertices of equal weight. Leave rule or weights out."
            )
        weights = amounts(self.weights or (), "weight")
        if len(weights) != count:
            raise PlanError(f"There are {count} vertices but {len(weights)} weights.")
        classes = weight_classes(weights, epsilon)
        rule = {
            "rule": "weighted",
            "hallucinated_edges": classes.hallucinated,
            "classes": len(classes.sizes),
            "weights": tuple(weights),
            "weight_classes": classes,
        }
        what = f"{float(classes.hallucinated):.3g} hallucinated edges a vertex"
        return rule, classes.factor, what


def noisy_size(noise: Noise, edges: Edges, settings: VertexCoverSettings) -> dict[str, Any]:
    """A noisy number between the size of the smallest cover and twice that."""
    size = noise.laplace(
        np.array([double_cover_matching(edges, settings.vertices)], dtype=np.int64),
        sensitivity=Fraction(2),
        epsilon=settings.size_epsilon,
        label="size of the smallest cover",
    )
    return {"value": int(size[0]), "scale": str(2 / settings.size_epsilon)}


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


def schedule_weights(count: int, epsilon: Fraction) -> tuple[IntArray, IntArray]:
    """Section 7.5.1: w_i = (4/epsilon) sqrt(n / (n - i + 1)), rounded up to a multiple of 1/grid;
    real = grid."""
    remaining = np.arange(count, 0, -1, dtype=np.float64)
    # three roundings of relative size 2^-53 are far inside the slack; a larger weight is never less
    # private
    weights = float(4 / epsilon) * np.sqrt(count / remaining) * (1 + 1e-12)
    extra = np.floor(weights * _GRID).astype(np.int64) + 1
    if (
        float(weights[-1]) * _GRID * count >= LARGEST_TOTAL / 4
        or _GRID * count * count >= LARGEST_TOTAL
    ):
        raise PlanError(
            "The graph is too large for this epsilon: 64-bit draws would overflow. Use a larger "
            "epsilon."
        )
    return np.full(count, _GRID, dtype=np.int64), extra


def draw_weighted_order(
    noise: Noise, edges: Edges, classes: WeightClasses, order: IntArray
) -> None:
    count = len(order)
    starts, incident = incidence(edges, count)
    words = noise.integers(WORD, size=count + _SPARE_WORDS, label="order")
    while True:
        dumped = np.zeros(len(classes.sizes), dtype=np.bool_)
        done = weighted_order(
            edges.heads,
            edges.tails,
            starts,
            incident,
            classes.of_vertex,
            classes.scores,
            classes.quotas,
            classes.hallucinated.denominator,
            classes.hallucinated.numerator,
            words,
            order,
            dumped,
        )
        if done == count:
            return
        words = np.concatenate([words, noise.integers(WORD, size=count, label="order")])


def incidence(edges: Edges, count: int) -> tuple[IntArray, IntArray]:
    """For each vertex the numbers of its edges: (starts, edge numbers)."""
    ends = np.concatenate([edges.heads, edges.tails])
    starts = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=starts[1:])
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
