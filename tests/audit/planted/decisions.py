"""Planted bugs of the decisions that are made from noisy counts: k-median by demand, vertex cover
by degree, set cover by presence, sizes of cuts and covers, sessions on a support, checks of a
public table. Each broken copy differs from the product in one line."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from dpublish.audit.trials.online import WideConversation, online_multiplicative_weights
from dpublish.audit.trials.tables import joined_histograms
from dpublish.declare.schema import Schema
from dpublish.methods.joined_histograms import mechanism as joined
from dpublish.methods.joined_histograms.job import Job
from dpublish.methods.joined_histograms.public_table import check_pairs
from dpublish.methods.online.multiplicative_weights.mechanism import OnlineMultiplicativeWeights
from dpublish.methods.online.state import OnlineSettings
from dpublish.methods.solvers.inputs import edges_of, lists_of
from dpublish.methods.solvers.k_median.demand import reach_of
from dpublish.methods.solvers.k_median.mechanism import KMedian, better_sites, demand_sites
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.contraction import crossing, vertex_or_cut
from dpublish.methods.solvers.min_cut.kernels import smallest_cut
from dpublish.methods.solvers.min_cut.mechanism import noisy_size as noisy_cut_size
from dpublish.methods.solvers.planning import estimated_costs
from dpublish.methods.solvers.public_projects.mechanism import CoverageGains, worth_facts
from dpublish.methods.solvers.set_cover.lightest import UNITS, certified_price, noisy_price
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.set_cover.orders import better_order, chances_of
from dpublish.methods.solvers.vertex_cover.mechanism import (
    WEIGHT_UNITS,
    VertexCover,
    degree_order,
    double_cover_flow,
    noisy_size as noisy_cover_size,
)
from dpublish.models.public_prior import PublicPair, PublicPrior
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost

from .registry import bug, exactly, replayed

SCHEMA = Schema(name="tiny", neighbours="add-remove-one")
LINE = Metric.matrix([[abs(i - j) for j in range(3)] for i in range(3)])
MEDIAN = KMedian(k=1, metric=LINE)
MEDIAN_PLAN = MEDIAN.plan(SCHEMA, Cost.pure(1))
COVER = VertexCover(vertices=3, cost_share=0)
COVER_PLAN = COVER.plan(SCHEMA, Cost.pure(1))
WEIGHED = VertexCover(vertices=3, weights=[1, 3, 4], size_share="1/2")
WEIGHED_PLAN = WEIGHED.plan(SCHEMA, Cost.pure(1))
TRIANGLES = [(((0, 1), (0, 2)), ((0, 1), (0, 2), (1, 2))), (((0, 1),), ((0, 1), (1, 2)))]
GRAPHS_OF_HEAVY_ENDS = [((), ((1, 2),)), (((0, 1),), ((0, 1), (1, 2)))]
FAMILY = SetCover(sets=lists_of([[0, 1], [1, 2], [2]]), elements=3, cost_share=0)
FAMILY_PLAN = FAMILY.plan(SCHEMA, Cost.pure(1))
PRICED = SetCover(sets=FAMILY.sets, elements=3, costs=[3, 1, 1], size_share="1/2", cost_share=0)
PRICED_PLAN = PRICED.plan(SCHEMA, Cost.pure(1))
DEMAND = [((30, 0, 0), (30, 0, 1)), ((2, 1, 0), (3, 1, 0))]
GRAPHS = [((), ((0, 1),)), (((0, 1),), ((0, 1), (0, 2)))]
PRESENT = [((0, 0, 0), (0, 0, 1)), ((1, 0, 0), (1, 1, 0))]


def sites(noise: Noise, demand: tuple[int, ...]) -> Any:
    out = MEDIAN.run(noise, np.array(demand, dtype=np.int64), MEDIAN_PLAN)
    return out.tables["chosen"]["site"].tolist(), out.facts["cost_estimate"]["value"]


def costs_by_the_nearest_site_alone(noise: Noise, demand: tuple[int, ...]) -> Any:
    """The noise of the costs goes with how far the demand is, instead of how far it could be."""
    counts, public = np.array(demand, dtype=np.int64), MEDIAN_PLAN.settings.public
    assert public is not None
    noisy, found = demand_sites(noise, LINE, 1, counts, public.places, public.epsilon)
    chosen = better_sites(LINE, public.places, noisy, found, public)
    reach = reach_of(LINE, chosen)
    costs = estimated_costs(
        noise,
        int(counts @ reach),
        None,
        sensitivity=Fraction(max(1, int(reach[counts > 0].max(initial=0)))),
        epsilon=public.cost_epsilon,
    )
    return chosen.tolist(), costs["cost_estimate"]["value"]


def search_on_the_true_demand(noise: Noise, demand: tuple[int, ...]) -> Any:
    """The public sites are compared with the others on the rows themselves."""
    counts, public = np.array(demand, dtype=np.int64), MEDIAN_PLAN.settings.public
    assert public is not None
    _, found = demand_sites(noise, LINE, 1, counts, public.places, public.epsilon)
    return better_sites(LINE, public.places, counts, found, public).tolist()


def order(noise: Noise, graph: tuple[tuple[int, int], ...]) -> Any:
    settings = COVER_PLAN.settings
    return degree_order(noise, edges_of(graph), settings.weights, settings.order_epsilon).tolist()


def degrees_as_if_an_edge_had_one_end(noise: Noise, graph: tuple[tuple[int, int], ...]) -> Any:
    settings = COVER_PLAN.settings
    return degree_order(
        noise, edges_of(graph), settings.weights, 2 * settings.order_epsilon
    ).tolist()


def sets(noise: Noise, present: tuple[int, ...]) -> Any:
    out = FAMILY.run(noise, np.array(present, dtype=np.int64), FAMILY_PLAN)
    return out.tables["order"]["set"].tolist()


def only_present_elements_are_flagged(noise: Noise, present: tuple[int, ...]) -> Any:
    """Absent elements get no noise, so an order made for few elements tells which are there."""
    settings = FAMILY_PLAN.settings
    assert settings.public_order is not None
    there = np.array(present, dtype=np.int64)
    noisy = noise.laplace(there, sensitivity=Fraction(1), epsilon=settings.step_epsilon)
    chances = chances_of((noisy >= 1) & (there > 0), float(settings.step_epsilon))
    return better_order(settings.parts[0], settings.costs, settings.public_order, chances).tolist()


def cut_size(noise: Noise, graph: tuple[tuple[int, int], ...]) -> Any:
    return noisy_cut_size(noise, edges_of(graph), 3, Fraction(1))["value"]


def cut_size_as_if_two_edges_were_protected_by_half(
    noise: Noise, graph: tuple[tuple[int, int], ...]
) -> Any:
    """The smallest cut is taken for half of the sum of two degrees, which an edge moves by half."""
    edges = edges_of(graph)
    least = int(smallest_cut(3, edges.heads, edges.tails, np.ones(len(edges), np.int64), 1 << 60))
    noisy = noise.laplace(
        np.array([least], dtype=np.int64), sensitivity=Fraction(1, 2), epsilon=Fraction(1)
    )
    return int(noisy[0])


def parted_vertex(noise: Noise, graph: tuple[tuple[int, int], ...]) -> Any:
    return vertex_or_cut(noise, edges_of(graph), 3, Fraction(1)).tolist()


def the_truly_smallest_cut_is_among_the_candidates(
    noise: Noise, graph: tuple[tuple[int, int], ...]
) -> Any:
    """A cut that was found on the edges themselves, without noise, joins the choice."""
    edges = edges_of(graph)
    cuts = [np.arange(3) == vertex for vertex in range(3)]
    found = min(cuts, key=lambda cut: crossing(edges, cut))
    return vertex_or_cut(noise, edges, 3, Fraction(1), found).tolist()


def worths(noise: Noise, agents: tuple[tuple[int, ...], ...]) -> Any:
    chosen, public = np.array([0]), np.array([1])
    gains = partial(CoverageGains, lists_of(agents), 2)
    found = worth_facts(noise, gains, chosen, public, Fraction(1))
    return found["cost_estimate"]["value"], found["public_cost_estimate"]["value"]


def worths_as_if_an_agent_liked_one_thing(noise: Noise, agents: tuple[tuple[int, ...], ...]) -> Any:
    """Noise for one of the two values, though an agent may add to both."""
    gains = partial(CoverageGains, lists_of(agents), 2)
    found = worth_facts(noise, gains, np.array([0]), np.array([1]), Fraction(2))
    return found["cost_estimate"]["value"], found["public_cost_estimate"]["value"]


def cover_weight(noise: Noise, graph: tuple[tuple[int, int], ...]) -> Any:
    return noisy_cover_size(noise, edges_of(graph), WEIGHED_PLAN.settings)["value"]


def cover_weight_by_the_lightest_vertex(noise: Noise, graph: tuple[tuple[int, int], ...]) -> Any:
    """An edge is taken to add no more than the lightest of all vertices, not of its own ends."""
    settings = WEIGHED_PLAN.settings
    unit = max(settings.weights) / WEIGHT_UNITS
    prices = np.array([int(weight / unit) for weight in settings.weights], dtype=np.int64)
    noisy = noise.laplace(
        np.array([double_cover_flow(edges_of(graph), prices)], dtype=np.int64),
        sensitivity=Fraction(2 * int(prices.min())),
        epsilon=settings.size_epsilon,
    )
    return float(int(noisy[0]) * unit)


def cover_price(noise: Noise, present: tuple[int, ...]) -> Any:
    prices, epsilon = PRICED_PLAN.settings.set_prices, PRICED_PLAN.settings.size_epsilon
    assert prices is not None
    assert epsilon is not None
    there = np.array(present, dtype=np.int64)
    return noisy_price(noise, PRICED.sets, prices, there, epsilon)["value"]


def cover_price_by_the_cheapest_set(noise: Noise, present: tuple[int, ...]) -> Any:
    """An element is taken to add no more than the cheapest of all sets, not of those that hold
    it."""
    prices, epsilon = PRICED_PLAN.settings.set_prices, PRICED_PLAN.settings.size_epsilon
    assert prices is not None
    assert epsilon is not None
    held = certified_price(PRICED.sets, prices.prices, np.array(present, dtype=np.int64))
    noisy = noise.laplace(
        np.array([held], dtype=np.int64), sensitivity=Fraction(UNITS, 3), epsilon=epsilon
    )
    return float(int(noisy[0]) * prices.unit)


class StandsOnRows(OnlineMultiplicativeWeights):
    """A session whose support is the rows themselves, instead of rows of the model."""

    def opening(self, noise: Noise, counts: Any, settings: OnlineSettings) -> dict[str, Any]:
        shown = super().opening(noise, counts, settings)
        times = -(-(settings.support or 1) // max(1, counts.shape[1]))
        rows = np.tile(counts, times)[:, : settings.support]
        held = [base64.b64encode(column.astype("<u2").tobytes()).decode() for column in rows]
        return {**shown, "support": held}


SESSION = next(trial for trial in online_multiplicative_weights() if "joined" in trial.case)
SESSION_PLAN: Any = SESSION.call.plan  # type: ignore[attr-defined]
WIDE = OnlineMultiplicativeWeights(resolution=1, max_hard=1, synopsis="joined")
ON_ROWS = StandsOnRows(resolution=1, max_hard=1, synopsis="joined")

PUBLIC = next(trial for trial in joined_histograms() if "other people" in trial.case)


def checks_by(counted: Callable[[Job, PublicPair], PublicPair]) -> Callable[..., Any]:
    """Joined histograms with a public table whose checks are of other regions, or other noise."""

    def check(job: Job, prior: PublicPrior, rows: float) -> PublicPrior:
        moved = replace(prior, pairs=tuple(counted(job, pair) for pair in prior.pairs))
        checked = check_pairs(job, moved, rows)
        return replace(
            checked,
            pairs=tuple(
                replace(one, counts=pair.counts)
                for one, pair in zip(checked.pairs, prior.pairs, strict=False)
            ),
        )

    def run(noise: Any, content: Any) -> Any:
        with patch.object(joined, "check_pairs", check):
            return PUBLIC.call(noise, content)

    return run


def where_the_rows_are(job: Job, pair: PublicPair) -> PublicPair:
    """As if the cells that private rows crowd in were public."""
    sides = zip(pair.columns, pair.groups, strict=True)
    coded = [job.rows.grouped(column, group_of) for column, group_of in sides]
    counts = job.rows.count_together(coded, pair.counts.shape[:2]).reshape(pair.counts.shape)
    return replace(pair, counts=counts)


DECISIONS = (
    bug(
        "joined histograms: the region of a check is found in the rows",
        "replay",
        "sensitivity,distance",
        broken=checks_by(where_the_rows_are),
        correct=checks_by(lambda _, pair: pair),
        run=replayed(list(PUBLIC.pairs)[:40], runs=1),
    ),
    bug(
        "online: the support of a joined synopsis is the rows",
        "replay",
        "output",
        broken=WideConversation(ON_ROWS, SESSION_PLAN),
        correct=WideConversation(WIDE, SESSION_PLAN),
        run=replayed(list(SESSION.pairs)[:6], runs=6),
    ),
    bug(
        "public projects: two values with the noise of one",
        "exact",
        "privacy",
        broken=worths_as_if_an_agent_liked_one_thing,
        correct=worths,
        run=exactly([(((0,),), ((0,), (0, 1))), (((0, 1),), ((0, 1), (0, 1)))], window=(0, 4)),
    ),
    bug(
        "min-cut: the smallest cut of the rows is one of the candidates",
        "exact",
        "privacy",
        broken=the_truly_smallest_cut_is_among_the_candidates,
        correct=parted_vertex,
        run=exactly([(((0, 1), (0, 2)), ((0, 1), (0, 2), (1, 2))), ((), ((0, 1),))], Fraction(1)),
    ),
    bug(
        "min-cut: the size of the smallest cut with half of the noise",
        "exact",
        "privacy",
        broken=cut_size_as_if_two_edges_were_protected_by_half,
        correct=cut_size,
        run=exactly(TRIANGLES, Fraction(1), window=(-2, 4)),
    ),
    bug(
        "vertex cover: the weight of the lightest cover with noise for the lightest vertex",
        "replay",
        "sensitivity,distance",
        broken=cover_weight_by_the_lightest_vertex,
        correct=cover_weight,
        run=replayed(GRAPHS_OF_HEAVY_ENDS),
    ),
    bug(
        "set cover: the price of the cheapest cover with noise for the cheapest set",
        "replay",
        "sensitivity,distance",
        broken=cover_price_by_the_cheapest_set,
        correct=cover_price,
        run=replayed([((0, 0, 0), (1, 0, 0)), ((0, 1, 1), (1, 1, 1))]),
    ),
    bug(
        "k-median: noise of the costs by the true demand",
        "replay",
        "sensitivity,distance",
        broken=costs_by_the_nearest_site_alone,
        correct=sites,
        run=replayed(DEMAND),
    ),
    bug(
        "k-median: sites compared on the rows",
        "replay",
        "output",
        broken=search_on_the_true_demand,
        correct=sites,
        run=replayed([((0, 0, 3), (0, 0, 4)), ((0, 0, 2), (0, 0, 3))], runs=30),
    ),
    bug(
        "vertex cover: an edge counted at one of its ends",
        "exact",
        "privacy",
        broken=degrees_as_if_an_edge_had_one_end,
        correct=order,
        run=exactly(GRAPHS, Fraction(1), window=(-1, 2)),
    ),
    bug(
        "set cover: only present elements are flagged",
        "replay",
        "output",
        broken=only_present_elements_are_flagged,
        correct=sets,
        run=replayed(PRESENT, runs=30),
    ),
)
