"""The three ways to cut a grid: exact privacy of all tiny cases, planted mistakes, and that boxes
always partition the grid."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit import neighbours
from dpublish.declare.grid import Boxes, Grid, TreeShape
from dpublish.methods.base import SparseCounts
from dpublish.methods.interval_tree.pilot import (
    BoxCounts,
    Calibration,
    binary_search,
    equal_cells,
    priv_tree,
)
from dpublish.noise.source import SeededNoise

ONE = Fraction(1)
# The decay is calibrated with e, so the base that stands for e in an exact audit must be at least
# e.
ROOT = 3


def grid(positions: int, name: str = "x") -> Grid:
    return Grid(name, "integer", Fraction(0), Fraction(1), positions)


LINE = TreeShape.over([grid(8)])
# A tree of one box a level: the longest path without the width that would make enumeration
# hopeless.
PATH = TreeShape((grid(1),), (7,))
SQUARE = TreeShape.over([grid(4, "x"), grid(2, "y")])


def points(rows: Any) -> SparseCounts:
    cells, counts = np.unique(np.array(rows, dtype=np.uint64), return_counts=True)
    return SparseCounts(cells, counts.astype(np.int64))


def tree_of(shape: TreeShape, calibration: Calibration) -> Any:
    def cut(noise: Any, rows: Any) -> Any:
        boxes = priv_tree(noise, BoxCounts(shape, points(rows)), shape, calibration)
        return boxes.depth.tolist(), boxes.prefix.tolist()

    return cut


def calibrated(shape: TreeShape, *, replace: bool, rows: int = 1) -> Calibration:
    return Calibration.of(ONE, fanout=shape.fanout, rows=rows, replace=replace)


ADD = list(neighbours.add_remove(range(8), max_rows=2))
ADD_PATH = [((0,) * size, (0,) * (size + 1)) for size in (0, 1, 3, 6, 12, 20)]
SWAP = list(neighbours.replace_one((0, 3, 4, 7), rows=2))


class TestPrivTree:
    @pytest.mark.parametrize(
        ("shape", "pairs", "replace"),
        [
            (LINE, ADD, False),
            (LINE, SWAP, True),
            (PATH, ADD_PATH, False),
            (SQUARE, list(neighbours.add_remove(range(8), max_rows=2)), False),
        ],
        ids=["line", "line, replaced", "path", "square"],
    )
    def test_exact_privacy(self, shape: TreeShape, pairs: list[Any], replace: bool) -> None:
        """Every tree of every pair: only the sign of a noisy score matters, so the window (0, 1)
        loses nothing."""
        cut = tree_of(shape, calibrated(shape, replace=replace))
        report = audit.exact(cut, pairs, epsilon=1, window=(0, 1), root=ROOT)
        assert report.passed, report.summary()
        assert report.loss > 0.2, "a loss far below the claim would mean wasted noise"

    def test_the_path_comes_close_to_the_claim(self) -> None:
        """Counts that put a path's discounted counts at -decay, 0, decay, ...: the worst case of
        the proof."""
        calibration = Calibration.of(
            Fraction(3), fanout=2, rows=1, replace=False
        )  # scale 1, so that the base can be 3
        worst = calibration.decay * 5
        pairs = [((0,) * count, (0,) * (count + 1)) for count in (worst, worst - 1, worst + 1)]
        report = audit.exact(tree_of(PATH, calibration), pairs, epsilon=3, window=(0, 1), root=ROOT)
        assert report.passed, report.summary()
        assert report.base == 3
        assert report.loss > 0.7 * 3

    def test_several_rows_a_unit(self) -> None:
        cut = tree_of(LINE, calibrated(LINE, replace=False, rows=2))
        pairs = [((), (0, 0)), ((3,), (3, 0, 7)), ((0, 1), (0, 1, 1, 1))]
        report = audit.exact(cut, pairs, epsilon=1, window=(0, 1), root=ROOT)
        assert report.passed, report.summary()

    def test_replay_finds_nothing_beside_the_taps(self) -> None:
        report = audit.replay(tree_of(LINE, calibrated(LINE, replace=False)), ADD[:40])
        assert report.passed, report.summary()

    def test_scores_of_single_decisions_follow_the_exact_law(self) -> None:
        """Split rates of the root over 4,000 runs: false alarm 1e-6 (4.9 sigma), an error of 4
        points of 100 is caught."""
        calibration = calibrated(LINE, replace=False)
        runs, hits = 4000, 0
        noise = SeededNoise(5)
        counts = BoxCounts(LINE, points([1, 1]))
        for _ in range(runs):
            hits += len(priv_tree(noise, counts, LINE, calibration)) > 1
        r = float(np.exp(-1 / float(calibration.scale)))
        expected = 1 - r ** (1 - (1 - 2)) / (1 + r)  # P(2 + X >= 1)
        assert abs(hits / runs - expected) < 4.9 * np.sqrt(expected * (1 - expected) / runs)


def without_decay(calibration: Calibration) -> Calibration:
    return dataclasses.replace(calibration, decay=0)


class TestPlantedMistakes:
    """Each is caught by the exact audit that the correct version survives."""

    def test_noise_of_one_decision_only(self) -> None:
        wrong = dataclasses.replace(calibrated(LINE, replace=False), scale=ONE)
        report = audit.exact(tree_of(LINE, wrong), ADD[:60], epsilon=1, window=(0, 1), root=ROOT)
        assert not report.passed

    def test_no_decay(self) -> None:
        wrong = without_decay(calibrated(PATH, replace=False))
        report = audit.exact(tree_of(PATH, wrong), ADD_PATH, epsilon=1, window=(0, 1), root=ROOT)
        assert not report.passed

    def test_no_floor(self) -> None:
        """Discounted counts that may fall below -decay: every level of the path then costs 1 /
        scale."""
        calibration = calibrated(PATH, replace=False)

        def cut(noise: Any, rows: Any) -> int:
            for level in range(PATH.depth):
                score = np.array([len(rows) - level * calibration.decay])
                noisy = noise.laplace(score, sensitivity=ONE, epsilon=ONE / calibration.scale)
                if int(noisy[0]) <= 0:
                    return level
            return PATH.depth

        assert not audit.exact(cut, ADD_PATH, epsilon=1, window=(0, 1), root=ROOT).passed

    def test_calibrated_for_the_other_relation(self) -> None:
        wrong = calibrated(PATH, replace=False)
        two = TreeShape.over([grid(2)])
        wide = Calibration.of(ONE, fanout=2, rows=1, replace=False)
        # eight rows a unit under a calibration for one
        report = audit.exact(
            tree_of(two, wide), [((), (0,) * 8)], epsilon=1, window=(0, 1), root=ROOT
        )
        assert not report.passed
        assert wrong.scale < calibrated(PATH, replace=True).scale

    def test_split_by_true_counts(self) -> None:
        def cut(noise: Any, rows: Any) -> Any:
            counts = BoxCounts(LINE, points(rows))
            boxes = LINE.root()
            while int(boxes.depth[0]) < LINE.depth and counts.of(boxes).max() > 1:
                boxes = LINE.children(boxes)
            return noise.laplace(counts.of(boxes), sensitivity=ONE, epsilon=ONE).tolist()

        assert not audit.replay(cut, ADD).passed


class TestBinarySearch:
    @staticmethod
    def search(noise: Any, rows: Any, *, queries: int = 6, share: Fraction = ONE) -> Any:
        boxes = binary_search(
            noise,
            BoxCounts(LINE, points(rows)),
            LINE,
            queries=queries,
            split_above=0,
            scale=Fraction(queries) / share,
            sensitivity=ONE,
        )
        return boxes.depth.tolist(), boxes.prefix.tolist()

    def test_exact_privacy(self) -> None:
        report = audit.exact(self.search, ADD[:80], epsilon=1, window=(0, 1))
        assert report.passed, report.summary()

    def test_the_sum_of_the_taps_is_within_the_claim(self) -> None:
        assert audit.replay(self.search, ADD[:40], epsilon=1).passed

    def test_forgetting_that_queries_add_up_is_caught(self) -> None:
        def wrong(noise: Any, rows: Any) -> Any:
            return self.search(noise, rows, share=Fraction(6))

        assert not audit.exact(wrong, ADD[:80], epsilon=1, window=(0, 1)).passed


def volume(shape: TreeShape, boxes: Boxes) -> int:
    starts, ends = shape.corners(boxes)
    return int(np.prod([e - s for s, e in zip(starts, ends, strict=True)], axis=0).sum())


class TestBoxes:
    @pytest.mark.parametrize("sizes", [(5,), (8,), (1000,), (7, 3), (16, 2), (9, 9, 5)])
    def test_every_tree_partitions_the_grid(self, sizes: tuple[int, ...]) -> None:
        shape = TreeShape.over([grid(size, f"c{i}") for i, size in enumerate(sizes)])
        rng = np.random.default_rng(1)
        codes = shape.codes([rng.integers(0, size, 400) for size in sizes])
        counts = BoxCounts(shape, points(codes))
        calibration = Calibration.of(Fraction(4), fanout=shape.fanout, rows=1, replace=False)
        for seed in range(5):
            boxes = priv_tree(SeededNoise(seed), counts, shape, calibration)
            assert volume(shape, boxes) == np.prod(sizes)
            assert int(counts.of(boxes).sum()) == 400
            first, after = shape.spans(boxes)
            assert (first[1:] >= after[:-1]).all()
        cells = equal_cells(shape, shape.depth)
        assert len(cells) == np.prod(sizes)

    def test_codes_and_corners_agree(self) -> None:
        shape = TreeShape.over([grid(13, "x"), grid(5, "y")])
        rng = np.random.default_rng(2)
        where = [rng.integers(0, 13, 200), rng.integers(0, 5, 200)]
        codes = shape.codes(where)
        deepest = Boxes(np.full(200, shape.depth), codes)
        starts, _ = shape.corners(deepest)
        assert all((a == b).all() for a, b in zip(starts, where, strict=True))

    def test_a_growing_tree_stays_small_without_points(self) -> None:
        """A box without points has on average less than half a child: 2^30 positions cost a handful
        of draws."""
        shape = TreeShape.over([grid(1 << 30)])
        counts = BoxCounts(shape, points([]))
        for seed in range(20):
            boxes = priv_tree(SeededNoise(seed), counts, shape, calibrated(shape, replace=True))
            assert len(boxes) < 60
