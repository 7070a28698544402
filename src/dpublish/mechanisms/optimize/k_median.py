"""Private k-median: k of the public sites, close to private demand.

In: how many demand points there are at each public place (private). Out: k sites. Local search by private swaps, then a private
pick among the visited solutions; for tiny instances the exponential mechanism over all sets of k sites.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.cost import Cost
from dpublish.errors import PlanError
from dpublish.mechanisms.base import Content, Mechanism
from dpublish.mechanisms.kernels.optimize_swaps import two_nearest
from dpublish.mechanisms.optimize.inputs import PresentItems
from dpublish.mechanisms.optimize.metric import Metric
from dpublish.mechanisms.optimize.planning import check_schema, label_column, numbered, pure, solution_plan
from dpublish.noise.base import IntArray, Noise
from dpublish.plan import Plan
from dpublish.schema import Schema

Rule = Literal["search", "exact"]
MAX_EXACT_SETS = 200_000
_THREADS = 2


@dataclass(frozen=True, kw_only=True)
class KMedian(Mechanism):
    """k sites with a small sum of distances from demand points to the nearest of them.

    Input: counts of demand points at public places. Neighbours: add-remove-one, of a demand point.
    Output: k distinct sites.
    Privacy: epsilon-DP (theorem 1 of k_median.proof.md; theorem 2 for "exact").
    Relies on: `Noise.choose`; distances that are public whole numbers of at most the diameter.
    Shows / hides: where demand is dense; hides whether any one demand point is there.
    Accuracy: at most 6 times the best cost plus a number of order diameter * k^2 ln^2 n / epsilon (search).

    Parameters
    ----------
    k : how many sites to open.
    metric : public distances between places; every place is a possible site and a possible demand point.
    labels : public names of the places.
    positions : public coordinates of the places, carried along for maps; they play no part in the method.
    rule : "search" or "exact" (all sets of k sites, for tiny instances).
    steps : number of swaps; 6 k ln n by default, as in the theorem. Fewer steps mean less noise in each.
    """

    method: ClassVar[str] = "k-median"
    kind: ClassVar[str] = "solution"

    k: int
    metric: Metric
    labels: Sequence[object] | None = None
    positions: Any = None
    rule: Rule = "search"
    steps: int | None = None

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        check_schema(schema, "A k-median")
        pure(cost, "A k-median")
        size = self.metric.size
        if self.labels is not None and numbered(self.labels, "labels")[0] != size:
            raise PlanError(f"The metric has {size} places, but there are {len(self.labels)} labels.")
        if self.positions is not None and np.asarray(self.positions, dtype=np.float64).shape != (size, 2):
            raise PlanError(f"positions must be {size} rows of two coordinates.")
        if isinstance(self.k, bool) or not isinstance(self.k, int) or not 1 <= self.k <= size:
            raise PlanError(f"k must be a whole number from 1 to the number of sites, {size}, not {self.k!r}.")
        diameter, epsilon, log = self.metric.diameter * self.metric.unit, float(cost.epsilon), math.log(max(2, size))
        lower = diameter * self.k * math.log(max(1.0, size / self.k)) / (20 * epsilon)
        facts: dict[str, Any] = {
            "problem": "k-median",
            "k": self.k,
            "sites": size,
            "unit": self.metric.unit,
            "diameter": diameter,
            "sensitivity": str(self.metric.diameter),
            "lower_bound": {
                "factor": 1.0,
                "additive": lower,
                "text": f"some demand costs every private method {lower:.4g} more than the best (theorem 47).",
            },
        }
        if self.rule == "exact":
            sets = math.comb(size, self.k)
            if sets > MAX_EXACT_SETS:
                raise PlanError(f"rule = 'exact' compares {sets:,} sets of sites; at most {MAX_EXACT_SETS:,}. Use 'search'.")
            additive = diameter * 2 * math.log(max(2, sets)) / epsilon
            facts |= {"steps": 0, "step_epsilon": str(cost.epsilon)}
            facts["bound"] = {
                "factor": 1.0,
                "additive": additive,
                "text": f"the cost is at most the best plus {additive:.4g}, except with probability {1 / sets:.2g}.",
            }
            sentence = f"One of {sets:,} sets of sites by the exponential mechanism."
        elif self.rule == "search":
            steps = self.steps if self.steps is not None else math.ceil(6 * self.k * log)
            if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
                raise PlanError(f"steps must be a whole number of at least 0, not {self.steps!r}.")
            steps = 0 if self.k == size else steps
            step = cost.epsilon / (steps + 1)
            additive = (24 * self.k + 4) * log * diameter / float(step)
            facts |= {"steps": steps, "step_epsilon": str(step)}
            short = "" if steps >= 6 * self.k * log else " (for 6 k ln n steps; fewer were asked for)"
            facts["bound"] = {
                "factor": 6.0,
                "additive": additive,
                "text": f"the cost is at most 6 times the best plus {additive:.4g}, with high probability{short}.",
            }
            sentence = f"{steps:,} swaps and a final pick, each with epsilon = {float(step):.4g}."
        else:
            raise PlanError(f"rule = '{self.rule}' is not known. Use search or exact.")
        return solution_plan(
            method=self.method,
            schema=schema,
            cost=cost,
            parameters={
                "k": self.k,
                "sites": size,
                "structure": self.metric.digest,
                "rule": self.rule,
                "steps": facts["steps"],
            },
            facts=facts,
            sentences=[
                f"{self.k} of {size:,} sites; distances up to {diameter:.5g} in units of {self.metric.unit:.4g}.",
                sentence,
            ],
        )

    def needs(self, plan: Plan) -> PresentItems:
        return PresentItems(self.metric.size, None if self.labels is None else tuple(str(label) for label in self.labels))

    def run(self, noise: Noise, numbers: IntArray, plan: Plan) -> Content:
        step = Fraction(plan.facts["step_epsilon"])
        if self.rule == "exact":
            chosen = exact_sites(noise, self.metric, self.k, numbers, step)
        else:
            chosen = search_sites(noise, self.metric, self.k, numbers, steps=int(plan.facts["steps"]), step=step)
        labels = None if self.labels is None else tuple(str(label) for label in self.labels)
        table: dict[str, Any] = {"site": chosen, **label_column(labels, chosen)}
        if self.positions is not None:
            at = np.asarray(self.positions, dtype=np.float64)[chosen]
            table |= {"x": np.ascontiguousarray(at[:, 0]), "y": np.ascontiguousarray(at[:, 1])}
        facts = {key: plan.facts[key] for key in ("problem", "k", "sites", "unit", "diameter", "bound", "lower_bound")}
        return Content(facts=facts, tables={"chosen": table})


def exact_sites(noise: Noise, metric: Metric, k: int, demand: IntArray, epsilon: Fraction) -> IntArray:
    """Theorem 43: one of all sets of k sites; every cost moves the same way by at most the diameter."""
    rows = np.array([metric.row(place) for place in range(metric.size)])
    sets = list(itertools.combinations(range(metric.size), k))
    costs = np.array([int(demand @ rows[list(sites)].min(axis=0)) for sites in sets], dtype=np.int64)
    place = noise.choose(-costs, sensitivity=Fraction(metric.diameter), epsilon=epsilon, monotone=True, label="sites")
    return np.array(sets[place], dtype=np.int64)


def search_sites(noise: Noise, metric: Metric, k: int, demand: IntArray, *, steps: int, step: Fraction) -> IntArray:
    """Algorithm 2: `steps` private swaps from a public start, then a private pick among all solutions seen."""
    sensitivity = Fraction(metric.diameter)
    search = SwapSearch(metric, first_sites(metric, k), demand)
    seen, costs = [search.sites.copy()], [search.cost]
    for _ in range(steps):
        swaps, outside = search.swap_costs()
        place = noise.choose(-swaps.ravel(), sensitivity=sensitivity, epsilon=step, monotone=True, label="swap")
        search.swap(place // len(outside), int(outside[place % len(outside)]))
        seen.append(search.sites.copy())
        costs.append(search.cost)
    best = noise.choose(-np.array(costs, dtype=np.int64), sensitivity=sensitivity, epsilon=step, monotone=True, label="visited")
    return np.sort(seen[best])


def first_sites(metric: Metric, k: int) -> IntArray:
    """A public start that is spread out: each next site is the one farthest from those before."""
    sites = [0]
    nearest = metric.row(0)
    while len(sites) < k:
        nearest[sites] = -1
        sites.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, metric.row(sites[-1]))
    return np.array(sites, dtype=np.int64)


class SwapSearch:
    """The cost of every swap, kept up to date from one swap to the next.

    With near and second the distances of a demand point to its nearest and next centre, opening y and closing x costs
        sum near  +  sum over points of x (second - near)  -  added[y]  -  kept[x, y]
    where added[y] sums (near - d(p, y))+ over all points, and kept[x, y] sums (second - max(d(p, y), near))+ over points of x.
    A swap changes near, second or the nearest centre of few points; only their shares are replaced.
    """

    def __init__(self, metric: Metric, sites: IntArray, demand: IntArray) -> None:
        self._metric = metric
        self.sites = sites.copy()
        self._places = np.flatnonzero(demand).astype(np.int64)
        self._weights = demand[self._places].astype(np.float64)
        count = len(self._places)
        self._reach = np.array([metric.columns(self._places, int(site)) for site in sites], dtype=np.float32).reshape(
            len(sites), count
        )
        zero = np.zeros(count, dtype=np.float32)
        self._state: tuple[IntArray, NDArray[np.float32], NDArray[np.float32]] = (np.zeros(count, np.int64), zero, zero.copy())
        self._added = np.zeros(metric.size)
        self._kept = np.zeros((len(sites), metric.size))
        self._refresh()

    @property
    def cost(self) -> int:
        return int(self._weights @ self._state[1].astype(np.float64))

    def swap_costs(self) -> tuple[IntArray, IntArray]:
        """Costs of closing sites[c] and opening y, as rows c and columns y; and the places that the columns stand for."""
        first, near, second = self._state
        closing = np.bincount(
            first, weights=self._weights * (second.astype(np.float64) - near.astype(np.float64)), minlength=len(self.sites)
        )
        costs = (self.cost + closing)[:, None] - self._in_places(self._added)[None, :] - self._in_places(self._kept)
        outside = np.setdiff1d(np.arange(self._metric.size), self.sites)
        return np.ascontiguousarray(costs[:, outside]).astype(np.int64), outside

    def swap(self, row: int, site: int) -> None:
        self.sites[row] = site
        self._reach[row] = self._metric.columns(self._places, site)
        self._refresh()

    def _in_places(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        to_places = getattr(self._metric, "to_places", None)
        return columns if to_places is None else to_places(columns)

    def _refresh(self) -> None:
        count = len(self._places)
        new = (np.empty(count, np.int64), np.empty(count, np.float32), np.empty(count, np.float32))
        two_nearest(self._reach, *new)
        # with one centre there is no second: closing it leaves a point to the opened site alone, at most the diameter away
        new[2][np.isinf(new[2])] = self._metric.diameter
        old = self._state
        changed = np.flatnonzero((old[0] != new[0]) | (old[1] != new[1]) | (old[2] != new[2])).astype(np.int64)
        self._state = new
        pieces = self._metric.pieces(_THREADS if len(changed) * self._metric.size > 1 << 20 else 1)
        work = (self._places, self._weights, changed, old, new, self._added, self._kept)
        if len(pieces) == 1:
            self._metric.account(pieces[0], *work)
            return
        with ThreadPoolExecutor(len(pieces)) as threads:
            list(threads.map(lambda piece: self._metric.account(piece, *work), pieces))
