"""Noisy counts of a list of boxes and of groups of neighbours, and the best estimates that agree
with each other.

The list is padded to b^h entries. Level 0 counts every entry, level 1 every b of them, ... level h
- 1 the b largest groups; all counts have independent noise of the same variance. Least squares (Hay
  et al. 2010) then takes two passes. The estimates are
jointly Gaussian in effect, and the tree makes the variance of any weighted sum cheap: given a
group's count, its b parts of variance v each have covariance v (I - 1/b), whatever lies outside the
group. A total that is public enters as a last group without noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpublish.arrays import Floats, Ints


@dataclass(frozen=True)
class Hierarchy:
    """`leaves` boxes under `height` measured levels of groups of `fanout`. Height 1 measures the
    boxes alone.

    `fixed`: the sum of all entries is known.
    """

    leaves: int
    fanout: int
    height: int
    fixed: bool = False

    @property
    def padded(self) -> int:
        return int(self.fanout**self.height)

    @property
    def sizes(self) -> list[int]:
        """How many counts each level has, from boxes upwards."""
        return [int(self.fanout ** (self.height - level)) for level in range(self.height)]

    @property
    def measures(self) -> int:
        return sum(self.sizes)

    def sums(self, counts: Ints) -> Ints:
        """All measured counts, level by level; entries beyond the list count nothing."""
        level = np.zeros(self.padded, dtype=np.int64)
        level[: self.leaves] = counts
        out = [level]
        for _ in range(self.height - 1):
            level = level.reshape(-1, self.fanout).sum(axis=1)
            out.append(level)
        return np.concatenate(out)

    @cached_property
    def variances(self) -> list[float]:
        """Variance of a count at each level given only what is measured inside it, for noise of
        variance 1."""
        out = [1.0]
        for _ in range(self.height - 1):
            out.append(1.0 / (1.0 + 1.0 / (self.fanout * out[-1])))
        return out

    @property
    def root_variance(self) -> float:
        return 0.0 if self.fixed else self.fanout * self.variances[-1]

    def estimates(self, measured: Ints, total: int | None = None) -> Floats:
        """Least squares estimates of the boxes, from all measured counts; they add up to `total`
        where it is given."""
        cuts = np.cumsum(self.sizes)[:-1]
        below = [part.astype(np.float64) for part in np.split(measured, cuts)]
        for level in range(1, self.height):
            own, inner = 1.0, 1.0 / (self.fanout * self.variances[level - 1])
            parts = below[level - 1].reshape(-1, self.fanout).sum(axis=1)
            below[level] = (own * below[level] + inner * parts) / (own + inner)
        known = below[-1] if total is None else below[-1] + (total - below[-1].sum()) / self.fanout
        for level in range(self.height - 2, -1, -1):
            parts = below[level].reshape(-1, self.fanout)
            spare = (known - parts.sum(axis=1)) / self.fanout
            known = (parts + spare[:, None]).reshape(-1)
        return known[: self.leaves]

    def variance(self, weights: Floats) -> Floats:
        """Variance of weighted sums of the estimates (one row of `weights` a sum), for noise of
        variance 1.

        Entries for which there is no weight, at the end of the list, have weight 0.
        """
        part = np.zeros((weights.shape[0], self.padded))
        part[:, : weights.shape[1]] = weights
        found = np.zeros(weights.shape[0])
        for level in range(self.height):
            groups = part.reshape(weights.shape[0], -1, self.fanout)
            total = groups.sum(axis=2)
            found += self.variances[level] * (
                (groups**2).sum(axis=(1, 2)) - (total**2).sum(axis=1) / self.fanout
            )
            part = total / self.fanout
        return np.asarray(np.maximum(found + part[:, 0] ** 2 * self.root_variance, 0.0))

    def range_variance(self, start: Floats, stop: Floats) -> Floats:
        """The same for ranges [start, stop) of the list, where 2.5 means half of the box after the
        first two."""
        left = np.minimum(np.floor(start), self.leaves - 1).astype(np.int64)
        right = np.maximum(np.minimum(np.ceil(stop) - 1, self.leaves - 1).astype(np.int64), left)
        same = left == right
        first = np.where(same, stop - start, left + 1 - start)
        last = np.where(same, 0.0, stop - right)
        found = np.zeros(start.shape)
        b = self.fanout
        for level in range(self.height):
            up_left, up_right = left // b, right // b
            joined = (up_left == up_right) & ~same
            apart = ~same & ~joined
            # whole parts beside the cut one: up to the group's end, up to the other cut, or none
            beside = np.where(same, 0, np.where(joined, right - left - 1, b - 1 - left % b))
            total = first + beside + np.where(joined, last, 0.0)
            squares = first**2 + beside + np.where(joined, last**2, 0.0)
            found += self.variances[level] * (squares - total**2 / b)
            before = right % b
            other = last + before
            found += np.where(apart, self.variances[level] * (last**2 + before - other**2 / b), 0.0)
            first, last = total / b, np.where(apart, other / b, 0.0)
            left, right, same = up_left, up_right, same | joined
        return np.asarray(np.maximum(found + (first + last) ** 2 * self.root_variance, 0.0))


def candidates(leaves: int, *, fixed: bool = False) -> list[Hierarchy]:
    """For each useful height the smallest fan-out that holds the list."""
    out = []
    for height in range(1, 13):
        fanout = max(2, round(leaves ** (1 / height)))
        while fanout**height < leaves:
            fanout += 1
        while fanout > 2 and (fanout - 1) ** height >= leaves:
            fanout -= 1
        if height > 1 and (fanout < 2 or fanout ** (height - 1) >= leaves):
            break
        out.append(Hierarchy(leaves, fanout, height, fixed))
    return out


def spread_points(count: int, dimensions: int) -> Floats:
    """Evenly spread points of the unit cube, the same every time (multiples of powers of a root,
    modulo 1)."""
    root = 2.0
    for _ in range(40):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1, dimensions + 1)
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * steps[None, :]) % 1.0)


def best_for_ranges(
    cuts: Ints, *, fixed: bool = False, samples: int = 256
) -> tuple[Hierarchy, float]:
    """The hierarchy with the smallest mean error over ranges of positions, for boxes that end at
    `cuts`; and that error.

    The error is a standard deviation for noise of variance 1 at height 1; height h pays h times the
    noise. Where the total is `fixed` the list has one more entry, for what lies in no box.
    """
    points = np.sort(spread_points(samples, 2), axis=1) * float(cuts[-1])
    edges = cuts.astype(np.float64)
    places = np.arange(cuts.size, dtype=np.float64)
    start, stop = (np.interp(points[:, side], edges, places) for side in (0, 1))
    return _best(
        candidates(cuts.size - 1 + fixed, fixed=fixed), lambda h: h.range_variance(start, stop)
    )


def best_for_weights(weights: Floats, *, fixed: bool = False) -> tuple[Hierarchy, float]:
    """The same for weighted sums."""
    return _best(candidates(weights.shape[1] + fixed, fixed=fixed), lambda h: h.variance(weights))


def _best(
    choices: list[Hierarchy], variance: Callable[[Hierarchy], Floats]
) -> tuple[Hierarchy, float]:
    errors = [float(np.mean(np.sqrt(variance(one)))) * one.height for one in choices]
    least, _, place = min((error, choices[i].height, i) for i, error in enumerate(errors))
    return choices[place], least
