"""Public work of k-median by noisy demand: which places are counted together, and the search for
sites once every number is public.

Nothing here sees a private number. Places are put into groups that lie close together, so that
noise is not added to thousands of empty places; a group is served from its middle. The search is
greedy, then swaps while one helps (the classical local search), then every site moves to the best
place near it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.methods.solvers.k_median.kernels import Singles, greedy_start, improve_by_swaps
from dpublish.methods.solvers.k_median.metric import Metric, PointMetric
from dpublish.methods.solvers.k_median.swaps import group_middles, near_groups

GROUPS = 1024
"""About how many groups places are put into, when there are more places (benchmarks/baselines)."""
GROUPS_PER_SITE = 8
LEAST_MARGIN = 1.0
"""Standard deviations by which other sites must at least seem cheaper than the public ones."""
TRIALS = 16
"""How often the search is tried on noise alone, to see how much cheaper that makes sites seem
(benchmarks/defaults/k_median_warning.py)."""
MAX_SWAPS = 1000
NEAR_PLACES = 256
"""How many places around a site are tried when it is moved at the end."""
ROUNDS = 6


@dataclass(frozen=True)
class Groups:
    """Groups of places: the group of each place, and for each group its middle and its size."""

    of_place: Ints
    middles: Ints
    sizes: Ints
    width: int
    """How far a place can be from the middle of its group, in units."""

    @property
    def count(self) -> int:
        return len(self.middles)


def group_places(metric: Metric, k: int, most: int = GROUPS) -> Groups:
    """Places that lie close together, in about `most` groups; each by itself if there are fewer."""
    wanted = max(most, GROUPS_PER_SITE * k)
    places = np.arange(metric.size, dtype=np.int64)
    if metric.size <= wanted:
        return Groups(places, places, np.ones(metric.size, dtype=np.int64), 0)
    if isinstance(metric, PointMetric):
        order, starts = near_groups(metric.points, wanted)
        of_place = np.empty(metric.size, dtype=np.int64)
        of_place[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        middles, widths = group_middles(metric, order, starts)
        return Groups(of_place, middles, np.diff(starts).astype(np.int64), math.ceil(widths.max()))
    middles = far_places(metric, wanted)
    of_place, nearest = np.zeros(metric.size, dtype=np.int64), metric.row(int(middles[0]))
    for number, place in enumerate(middles.tolist()):
        row = metric.row(place)
        of_place[row < nearest] = number
        nearest = np.minimum(nearest, row)
    of_place[middles] = np.arange(len(middles))
    sizes = np.bincount(of_place, minlength=len(middles)).astype(np.int64)
    return Groups(of_place, middles, sizes, int(nearest.max()))


def far_places(metric: Metric, count: int) -> Ints:
    """Places that are spread out: each next one is the farthest from those before."""
    sites = [0]
    nearest = metric.row(0)
    while len(sites) < count:
        nearest[sites] = -1
        sites.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, metric.row(sites[-1]))
    return np.array(sites, dtype=np.int64)


def group_distances(metric: Metric, groups: Groups) -> Singles:
    """Distances between the middles of all groups."""
    middles = groups.middles
    return np.array([metric.columns(middles, one) for one in middles.tolist()], dtype=np.float32)


def searched_sites(
    metric: Metric, groups: Groups, between: Singles, weights: Floats, k: int
) -> Ints:
    """k sites that are cheap for `weights`, one per group; what the search finds is a function of
    its arguments."""
    if k >= groups.count:
        return far_places(metric, k)
    weights = np.maximum(weights, 0.0)
    if not weights.any():
        weights = np.ones(groups.count)
    start = greedy_start(between, weights, k)
    if k > 1:
        improve_by_swaps(between, weights, start, MAX_SWAPS)
    sites = groups.middles[start]
    if groups.count < metric.size:
        sites = moved_sites(metric, groups, weights, sites)
    return np.sort(sites)


def moved_sites(metric: Metric, groups: Groups, weights: Floats, sites: Ints) -> Ints:
    """Every site at the best place near it for the groups that it serves, again and again."""
    sites = sites.copy()
    for _ in range(ROUNDS):
        reach = np.array([metric.columns(groups.middles, int(site)) for site in sites])
        nearest = reach.argmin(axis=0)
        before = sites.copy()
        for row, site in enumerate(before.tolist()):
            served = np.flatnonzero((nearest == row) & (weights > 0))
            around = metric.row(site)
            close = min(NEAR_PLACES, metric.size - 1)
            tried = np.setdiff1d(np.argpartition(around, close)[: close + 1], before)
            tried = np.append(tried, site).astype(np.int64)
            held, total = groups.middles[served], np.zeros(len(tried))
            for place, weight in zip(held.tolist(), weights[served].tolist(), strict=True):
                total += weight * metric.columns(tried, place)
            sites[row] = tried[int(np.argmin(total))]
        if len(np.unique(sites)) < len(sites):
            return before
        if (sites == before).all():
            break
    return sites


def reach_of(metric: Metric, sites: Ints) -> Ints:
    """How far every place is from the nearest of these sites, in units."""
    nearest = metric.row(int(sites[0]))
    for site in sites[1:].tolist():
        nearest = np.minimum(nearest, metric.row(site))
    return nearest


def likely_demand(noisy: Ints, sizes: Ints, deviation: float) -> Floats:
    """Noisy counts drawn towards what an even spread would give, the more the noisier they are, and
    none below 0 (empirical Bayes: the spread of the counts less that of the noise is real)."""
    even = sizes * (max(1.0, float(noisy.sum())) / float(sizes.sum()))
    off = noisy - even
    spread = max(0.0, float((off**2).mean()) - deviation**2)
    return np.maximum(even + spread / (spread + deviation**2) * off, 0.0)


def seeming_gain(
    metric: Metric,
    places: Groups,
    noisy: Ints | Floats,
    found: Ints,
    public: Ints,
    deviation: float,
) -> float:
    """By how many standard deviations of the noise the sites that were found seem cheaper than the
    public ones; 0 where they are the same."""
    near = [reach_of(metric, sites)[places.middles].astype(np.float64) for sites in (public, found)]
    gain = near[0] - near[1]
    spread = deviation * float(np.sqrt((gain**2).sum()))
    return float(noisy @ gain) / spread if spread else 0.0


def noise_margin(
    metric: Metric,
    places: Groups,
    between: Singles,
    public: Ints,
    k: int,
    scale: float,
) -> float:
    """What must be exceeded before sites that were found are taken for better than the public ones.

    A search finds sites where noise is large, which then seem cheap: the more so the more of the
    places become sites. How much is tried out on noise alone. Public numbers, the same every time.
    """
    found, deviation = [], scale * math.sqrt(2)
    for trial in range(TRIALS):
        words = hashlib.shake_128(f"k-median:{trial}".encode()).digest(8 * places.count)
        even = (np.frombuffer(words, dtype="<u4").reshape(2, -1) + 0.5) / 2**32
        noise = np.rint(scale * np.log(even[0] / even[1]))
        likely = likely_demand(noise.astype(np.int64), places.sizes, deviation)
        sites = searched_sites(metric, places, between, likely, k)
        found.append(seeming_gain(metric, places, noise, sites, public, deviation))
    return max(LEAST_MARGIN, *found)
