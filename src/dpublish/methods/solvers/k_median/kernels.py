"""Loops of the k-median search: distances from one place to many, and what every swap would save.

Distances are whole numbers of a public unit, kept in floats that hold them exactly. They are made
with IEEE additions, multiplications, divisions, square roots and floors only, so that the same pair
of places has the same distance in every loop, vectorised or not. Savings are sums of whole numbers
below 2^53 and therefore exact, in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Ints
from dpublish.compiled import njit

Singles = NDArray[np.float32]

BLOCK = 64
"""Consecutive places that share one bound on their distance; places are numbered so that neighbours
are near each other."""

NEAR_SLACK = 4
FAR_SLACK = 128
"""Units by which three rounded distances may miss the triangle inequality, away from the antipodes
and close to them."""

_NEAR, _FAR = np.float32(NEAR_SLACK), np.float32(FAR_SLACK)
_ZERO, _QUARTER, _HALF, _ONE, _TWO = (
    np.float32(0.0),
    np.float32(0.25),
    np.float32(0.5),
    np.float32(1.0),
    np.float32(2.0),
)
_RIGHT_ANGLE = np.float32(1.5707963267948966)
# arcsine of u in [0, sqrt(1/2)] is u + u^3 (C0 + C1 u^2 + ...), good to single precision
_C0, _C1, _C2, _C3 = (
    np.float32(0.16666676),
    np.float32(0.07498197),
    np.float32(0.0451805),
    np.float32(0.02447865),
)
_C4, _C5, _C6 = np.float32(0.05230475), np.float32(-0.0559951), np.float32(0.09021584)


@njit(cache=True, nogil=True)
def point_distances(
    points: Singles,
    x: np.float32,
    y: np.float32,
    z: np.float32,
    first: int,
    last: int,
    sphere: bool,
    scale: float,
    top: float,
    out: Singles,
) -> None:
    """out[i] = distance from (x, y, z) to place first + i, for first <= first + i < last, in units,
    at most `top`.

    On the sphere the half angle is taken from its sine or its cosine, whichever is smaller. Plain
    slices and conditional expressions are what the compiler turns into vector instructions.
    """
    xs, ys, zs = points[0, first:last], points[1, first:last], points[2, first:last]
    unit, limit = np.float32(scale), np.float32(top)
    if sphere:
        for i in range(last - first):
            a, b, c = xs[i] - x, ys[i] - y, zs[i] - z
            square = (a * a + b * b + c * c) * _QUARTER
            sine = np.sqrt(square)
            cosine = np.sqrt(max(_ZERO, _ONE - square))
            small = sine <= cosine
            u = sine if small else cosine
            v = u * u
            arc = u + u * v * (
                _C0 + v * (_C1 + v * (_C2 + v * (_C3 + v * (_C4 + v * (_C5 + v * _C6)))))
            )
            angle = arc if small else _RIGHT_ANGLE - arc
            units = np.floor(_TWO * angle * unit + _HALF)
            out[i] = units if units < limit else limit
    else:
        for i in range(last - first):
            a, b, c = xs[i] - x, ys[i] - y, zs[i] - z
            units = np.floor(np.sqrt(a * a + b * b + c * c) * unit + _HALF)
            out[i] = units if units < limit else limit


@njit(cache=True, nogil=True)
def two_nearest(
    reach: Singles, first: Ints, near: Singles | Floats, second: Singles | Floats
) -> None:
    """For every place the column of its nearest centre and the two smallest distances; reach[c, i]
    is to centre c."""
    centres, places = reach.shape
    for i in range(places):
        best, best_at, next_best = np.float32(np.inf), 0, np.float32(np.inf)
        for c in range(centres):
            d = reach[c, i]
            if d < best:
                next_best = best
                best, best_at = d, c
            elif d < next_best:
                next_best = d
        first[i], near[i], second[i] = best_at, best, next_best


@njit(cache=True, nogil=True)
def _share(d: np.float32, near: np.float32, second: np.float32) -> tuple[np.float32, np.float32]:
    """What opening a place at distance `d` saves of the nearest centre's distance, and how much
    more if that centre is closed."""
    gain = near - d if near > d else _ZERO
    least = d if d > near else near
    return gain, second - least if second > least else _ZERO


@njit(cache=True, nogil=True)
def _account(
    row: Singles,
    weight: float,
    old_first: int,
    old_near: np.float32,
    old_second: np.float32,
    new_first: int,
    new_near: np.float32,
    new_second: np.float32,
    low: int,
    high: int,
    all_added: Floats,
    kept: Floats,
) -> None:
    """Replace one place's share in `all_added` and `kept`, for places low to high, by that under
    its new nearest centres.

    Slices of one row at a time: a slice of the whole table would not be known to be contiguous, and
    be slow.
    """
    added = all_added[low:high]
    after = kept[new_first][low:high]
    # two loops, because arrays that may be the same one cannot be worked on in vectors
    if old_first == new_first:
        for i in range(len(row)):
            new_gain, new_held = _share(row[i], new_near, new_second)
            old_gain, old_held = _share(row[i], old_near, old_second)
            added[i] += weight * np.float64(new_gain - old_gain)
            after[i] += weight * np.float64(new_held - old_held)
    else:
        before = kept[old_first][low:high]
        for i in range(len(row)):
            new_gain, new_held = _share(row[i], new_near, new_second)
            old_gain, old_held = _share(row[i], old_near, old_second)
            added[i] += weight * np.float64(new_gain - old_gain)
            after[i] += weight * np.float64(new_held)
            before[i] -= weight * np.float64(old_held)


@njit(cache=True, nogil=True)
def _beyond(
    middle: Singles,
    radius: Singles,
    block: int,
    x: np.float32,
    y: np.float32,
    z: np.float32,
    reach: np.float32,
    scale: float,
) -> bool:
    """Whether all places of a block are certainly farther than `reach` units from (x, y, z)."""
    a, b, c = (
        np.float64(middle[0, block] - x),
        np.float64(middle[1, block] - y),
        np.float64(middle[2, block] - z),
    )
    # a straight line is never longer than the way on the sphere; two units and a little cover all
    # roundings
    far = np.float64(reach + _TWO) / scale * 1.00001 + 1e-5 + radius[block]
    return bool(a * a + b * b + c * c > far * far)


@njit(cache=True, nogil=True)
def account_groups(
    points: Singles,
    middle: Singles,
    radius: Singles,
    sphere: bool,
    scale: float,
    top: float,
    width: Singles,
    edge: float,
    places: Singles,
    weights: Floats,
    changed: Ints,
    old_first: Ints,
    old_near: Singles,
    old_second: Singles,
    new_first: Ints,
    new_near: Singles,
    new_second: Singles,
    first_block: int,
    last_block: int,
    least_added: Floats,
    least_kept: Floats,
    most_added: Floats,
    most_kept: Floats,
) -> None:
    """`_account` for groups of places, of which `points` are the middle ones: the least and the
    most a member may save.

    All changed places and the blocks first_block to last_block; blocks out of reach are skipped.
    width[g] bounds how far a member of group g is from its middle; `NEAR_SLACK` (`FAR_SLACK` beyond
    `edge`, where the antipodes come close) covers the roundings of three distances.
    """
    size = points.shape[1]
    row = np.empty(BLOCK, dtype=np.float32)
    nearer, farther = np.empty(BLOCK, dtype=np.float32), np.empty(BLOCK, dtype=np.float32)
    limit, rim = np.float32(top), np.float32(edge)
    # blocks outside, places inside: what a block adds up to stays in the fastest memory
    for block in range(first_block, last_block):
        low, high = block * BLOCK, min(size, block * BLOCK + BLOCK)
        widest = _ZERO
        for g in range(low, high):
            widest = max(widest, width[g])
        room = widest + _FAR
        for index in range(len(changed)):
            i = changed[index]
            x, y, z = places[0, i], places[1, i], places[2, i]
            if _beyond(
                middle, radius, block, x, y, z, max(old_second[i], new_second[i]) + room, scale
            ):
                continue
            point_distances(points, x, y, z, low, high, sphere, scale, top, row)
            near, far, wide, part = (
                nearer[: high - low],
                farther[: high - low],
                width[low:high],
                row[: high - low],
            )
            for g in range(high - low):
                spread = wide[g] + (_NEAR if part[g] + wide[g] + _NEAR <= rim else _FAR)
                least, most = part[g] - spread, part[g] + spread
                near[g] = least if least > _ZERO else _ZERO
                far[g] = most if most < limit else limit
            _account(
                far,
                weights[i],
                old_first[i],
                old_near[i],
                old_second[i],
                new_first[i],
                new_near[i],
                new_second[i],
                low,
                high,
                least_added,
                least_kept,
            )
            _account(
                near, weights[i], old_first[i], old_near[i], old_second[i],
                new_first[i], new_near[i], new_second[i], low, high, most_added, most_kept,
            )  # fmt: skip


@njit(cache=True, nogil=True)
def savings_of(
    places: Singles,
    middle: Singles,
    radius: Singles,
    farthest: Singles,
    sphere: bool,
    scale: float,
    top: float,
    weights: Floats,
    first: Ints,
    near: Singles,
    second: Singles,
    x: np.float32,
    y: np.float32,
    z: np.float32,
    saved: Floats,
) -> None:
    """saved[c] = what opening (x, y, z) saves if centre c is closed for it, against every place
    going to its next centre.

    Centre c's places save (second - d)+, all others (near - d)+. Blocks of places are skipped when
    all their second-nearest centres, of which `farthest` holds the largest distance, are closer.
    """
    row = np.empty(BLOCK, dtype=np.float32)
    size, centres = places.shape[1], len(saved)
    saved[:] = 0.0
    common = 0.0
    for block in range(len(farthest)):
        if _beyond(middle, radius, block, x, y, z, farthest[block], scale):
            continue
        low, high = block * BLOCK, min(size, block * BLOCK + BLOCK)
        point_distances(places, x, y, z, low, high, sphere, scale, top, row)
        for i in range(low, high):
            d = row[i - low]
            if d < second[i]:
                gain = near[i] - d if d < near[i] else _ZERO
                common += weights[i] * np.float64(gain)
                saved[first[i]] += weights[i] * np.float64(second[i] - d - gain)
    for c in range(centres):
        saved[c] += common


@njit(cache=True, nogil=True)
def account_matrix(
    matrix: Singles,
    places: Ints,
    weights: Floats,
    changed: Ints,
    old_first: Ints,
    old_near: Singles,
    old_second: Singles,
    new_first: Ints,
    new_near: Singles,
    new_second: Singles,
    low: int,
    high: int,
    added: Floats,
    kept: Floats,
) -> None:
    """`_account` for all changed places and the columns low to high of a distance matrix."""
    for index in range(len(changed)):
        i = changed[index]
        _account(
            matrix[places[i]][low:high],
            weights[i],
            old_first[i],
            old_near[i],
            old_second[i],
            new_first[i],
            new_near[i],
            new_second[i],
            low,
            high,
            added,
            kept,
        )


@njit(cache=True, nogil=True)
def greedy_start(between: Singles, weights: Floats, k: int) -> Ints:
    """k columns, each the one that lowers the weighted sum of distances most. Public numbers."""
    count = between.shape[0]
    near = np.full(count, np.inf)
    chosen = np.empty(k, np.int64)
    for step in range(k):
        least = np.inf
        for column in range(between.shape[1]):
            if column in chosen[:step]:
                continue
            total = 0.0
            for row in range(count):
                total += weights[row] * min(near[row], np.float64(between[column, row]))
            if total < least:
                least = total
                chosen[step] = column
        for row in range(count):
            near[row] = min(near[row], np.float64(between[chosen[step], row]))
    return chosen


@njit(cache=True, nogil=True)
def improve_by_swaps(between: Singles, weights: Floats, chosen: Ints, most: int) -> None:
    """Exchange a chosen column for another while that lowers the weighted sum, the best first."""
    count, k = between.shape[0], len(chosen)
    first = np.empty(count, np.int64)
    near, second = np.empty(count), np.empty(count)
    for _ in range(most):
        two_nearest(between[chosen], first, near, second)
        closing = np.zeros(k)
        total = 0.0
        for row in range(count):
            closing[first[row]] += weights[row] * (second[row] - near[row])
            total += weights[row] * near[row]
        best, opened, closed = 1e-9 * total, -1, -1
        kept = np.empty(k)
        for column in range(between.shape[1]):
            added = 0.0
            kept[:] = 0.0
            for row in range(count):
                far = np.float64(between[column, row])
                if far < near[row]:
                    added += weights[row] * (near[row] - far)
                    kept[first[row]] += weights[row] * (second[row] - near[row])
                elif far < second[row]:
                    kept[first[row]] += weights[row] * (second[row] - far)
            for place in range(k):
                gain = added + kept[place] - closing[place]
                if gain > best:
                    best, opened, closed = gain, column, place
        if opened < 0:
            return
        chosen[closed] = opened
