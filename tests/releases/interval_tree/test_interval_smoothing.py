"""Smoothing: the two passes are Bayes' rule on dense matrices, even data gain, and rough data lose
nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish.declare.grid import Boxes, Grid, TreeShape
from dpublish.methods.interval_tree.pilot import in_order
from dpublish.noise.source import SeededNoise
from dpublish.releases.interval_tree.smoothing import SETTINGS, smoothed


def shape_of(*sizes: int) -> TreeShape:
    return TreeShape.over(
        [Grid(f"x{i}", "integer", Fraction(0), Fraction(1), size) for i, size in enumerate(sizes)]
    )


def random_tree(shape: TreeShape, seed: int) -> Boxes:
    rng = np.random.default_rng(seed)
    boxes, done = shape.root(), []
    for level in range(shape.depth):
        split = (rng.random(len(boxes)) < 0.7) | (level == 0)
        done.append(Boxes(boxes.depth[~split], boxes.prefix[~split]))
        boxes = shape.children(Boxes(boxes.depth[split], boxes.prefix[split]))
        if not len(boxes):
            break
    return in_order(shape, [*done, boxes])


def dense(
    shape: TreeShape, boxes: Boxes, noisy: np.ndarray, variance: float, total: int | None
) -> np.ndarray:
    """The same posterior from covariance matrices, one setting after the other."""
    first, _ = shape.spans(boxes)
    starts, ends = shape.corners(boxes)
    volume = np.prod([(e - s).astype(float) for s, e in zip(starts, ends, strict=True)], axis=0)
    volume /= volume.sum()
    count = len(boxes)
    rows, chance, rough, depth = [], [], [], []
    waiting = [(0, count, 0, 0)]
    while waiting:
        low, high, level, code = waiting.pop()
        if high - low < 2:
            continue
        half = 1 << (shape.total_bits - level - 1)
        middle = low + int(np.searchsorted(first[low:high], np.uint64(code + half)))
        waiting += [(low, middle, level + 1, code), (middle, high, level + 1, code + half)]
        if middle in (low, high):
            continue
        left, right = volume[low:middle].sum(), volume[middle:high].sum()
        row = np.zeros(count)
        row[low:middle], row[middle:high] = volume[low:middle] / left, -volume[middle:high] / right
        even, inside = left * right / (left + right) ** 2, max(noisy[low:high].sum(), 1.0)
        rows.append(row)
        chance.append(inside * even)
        rough.append(inside**2 * even)
        depth.append(level // len(shape.grids))
    moves = np.array(rows)
    scores, answers = [], []
    for roughness, fading in SETTINGS:
        width = (
            np.array(chance)
            + np.array(rough) * (roughness * 2.0 ** (-fading * np.array(depth))) ** 2
        )
        for free in (1e10,) if total is None else (0.0, 1e12):
            mean, sums = np.zeros(noisy.size), np.zeros(noisy.size)
            mean[:count] = volume * (noisy.sum() if total is None else total)
            sums[:count] = volume
            if total is not None:
                sums[count] = -1
            prior = free * np.outer(sums, sums)
            prior[:count, :count] += (moves.T * width) @ moves
            spread = prior + variance * np.eye(noisy.size)
            weighed = np.linalg.solve(spread, noisy - mean)
            flat = (
                0.5 * np.log(2 * np.pi * free) - np.log(total)
                if total is not None and free
                else 0.0
            )
            scores.append(
                -0.5 * (noisy - mean) @ weighed
                - 0.5 * np.linalg.slogdet(2 * np.pi * spread)[1]
                + flat
            )
            answers.append((mean + prior @ weighed)[:count])
    weights = np.exp(np.array(scores) - max(scores))
    return np.asarray(weights / weights.sum() @ np.array(answers))


@pytest.mark.parametrize("sizes", [(100,), (64,), (7,), (16, 16), (16, 5), (4, 4, 3)])
@pytest.mark.parametrize("total", [None, 5000])
def test_two_passes_are_bayes_rule(sizes: tuple[int, ...], total: int | None) -> None:
    shape = shape_of(*sizes)
    boxes = random_tree(shape, sum(sizes))
    rng = np.random.default_rng(3)
    noisy = rng.dirichlet(np.full(len(boxes), 2.0)) * 4700 + rng.normal(0, 30, len(boxes))
    if total is not None:
        noisy = np.append(noisy, 260.0)
    found = smoothed(shape, boxes, noisy, 900.0, total)
    assert found == pytest.approx(dense(shape, boxes, noisy, 900.0, total), rel=1e-4, abs=0.01)


def test_one_box_and_no_rows() -> None:
    shape = shape_of(8)
    assert smoothed(shape, shape.root(), np.array([40.0, 3.0]), 25.0, 50)[0] == pytest.approx(
        50, abs=5
    )
    assert smoothed(shape, shape.root(), np.array([40.0]), 25.0, None)[0] == pytest.approx(40)
    boxes = random_tree(shape, 1)
    assert np.isfinite(smoothed(shape, boxes, np.zeros(len(boxes)), 25.0, None)).all()


def errors(law: np.ndarray, rows: int, scale: Fraction) -> tuple[float, float]:
    """Mean errors of 200 ranges of 32 equal boxes, plain and smoothed, over 40 releases."""
    shape = shape_of(law.size)
    boxes = Boxes(np.full(32, 5, dtype=np.int64), np.arange(32, dtype=np.uint64))
    rng = np.random.default_rng(5)
    truth = rng.multinomial(rows, law / law.sum()).reshape(32, -1).sum(axis=1)
    ends = np.sort(rng.integers(0, 33, (200, 2)), axis=1)

    def ranges(counts: Any) -> np.ndarray:
        sums = np.concatenate([[0.0], np.cumsum(counts)])
        return np.asarray(sums[ends[:, 1]] - sums[ends[:, 0]])

    plain, smooth = [], []
    for seed in range(40):
        noisy = (
            SeededNoise(seed)
            .laplace(np.append(truth, 0), sensitivity=Fraction(1), epsilon=1 / scale)
            .astype(float)
        )
        plain.append(np.abs(ranges(noisy[:32]) - ranges(truth)).mean())
        smooth.append(
            np.abs(
                ranges(smoothed(shape, boxes, noisy, 2 * float(scale) ** 2, rows)) - ranges(truth)
            ).mean()
        )
    return float(np.mean(plain)), float(np.mean(smooth))


def test_even_data_gain_and_rough_data_lose_nothing() -> None:
    """Noise of standard deviation 28 on boxes of about 312 rows. The runs are fixed; a prior that
    is too strong would cost spikes many times their plain error, one that is too weak would not
    halve that of even data.
    """
    rng = np.random.default_rng(1)
    scale = Fraction(20)
    plain, smooth = errors(np.ones(1024), 10_000, scale)
    assert smooth < 0.5 * plain
    for law in (
        np.repeat(rng.gamma(0.3, 1, 32), 32),
        np.where(np.arange(1024) % 256 == 0, 1.0, 0.0),
    ):
        plain, smooth = errors(law, 10_000, scale)
        assert smooth < 1.05 * plain


def test_a_known_total_narrows_what_is_known() -> None:
    """Rows outside every box are an entry of their own: 400 of them are seen, none are taken for
    none."""
    shape = shape_of(64)
    boxes = Boxes(np.full(8, 3, dtype=np.int64), np.arange(8, dtype=np.uint64))
    counts = np.full(8, 200.0)
    assert smoothed(shape, boxes, np.append(counts + 12, -3.0), 400.0, 1600).sum() == pytest.approx(
        1600, abs=3
    )
    assert smoothed(shape, boxes, np.append(counts, 400.0), 400.0, 2000).sum() == pytest.approx(
        1600, abs=3
    )
