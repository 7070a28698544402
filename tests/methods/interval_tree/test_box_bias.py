"""The look after cutting: exact sums, their sensitivity, what is paid for, and what it decides."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit import neighbours
from dpublish.declare.grid import Boxes, Grid, TreeShape
from dpublish.declare.schema import Schema
from dpublish.methods.base import SparseCounts
from dpublish.methods.interval_tree.mechanism import IntervalTree
from dpublish.methods.interval_tree.pilot import (
    MAX_CUTS,
    QUESTIONS,
    UNIT,
    BoxBias,
    equal_cells,
    in_order,
)
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

ONE = Cost.pure(1)
TWO = Fraction(2)


def shape_of(*sizes: int) -> TreeShape:
    return TreeShape.over(
        [Grid(f"x{i}", "integer", Fraction(0), Fraction(1), size) for i, size in enumerate(sizes)]
    )


def points_of(shape: TreeShape, table: np.ndarray) -> SparseCounts:
    where = np.nonzero(table)
    codes = shape.codes([axis.astype(np.int64) for axis in where])
    order = np.argsort(codes)
    return SparseCounts(codes[order], table[where][order].astype(np.int64))


def schema_of(relation: str, sizes: tuple[int, ...], size: int) -> Schema:
    key = "size" if relation == "replace-one" else "nominal_size"
    columns = "".join(
        f'[columns.x{i}]\nkind = "integer"\nlower = 0\nupper = {s - 1}\n'
        for i, s in enumerate(sizes)
    )
    return Schema.from_toml(
        f'[dataset]\nname = "t"\nneighbours = "{relation}"\n{key} = {size}\n{columns}'
    )


def quarters(shape: TreeShape, depth: int) -> Boxes:
    """The first quarter is cut on, the rest is left as it is."""
    boxes, done = shape.root(), []
    for level in range(depth):
        split = np.arange(len(boxes)) < max(1, len(boxes) // (1 if level == 0 else 2))
        done.append(Boxes(boxes.depth[~split], boxes.prefix[~split]))
        boxes = shape.children(Boxes(boxes.depth[split], boxes.prefix[split]))
    return in_order(shape, [*done, boxes])


@pytest.mark.parametrize("sizes", [(16, 16), (16, 11), (8, 4, 4)])
def test_totals_are_those_of_the_definition(sizes: tuple[int, ...]) -> None:
    shape = shape_of(*sizes)
    table = np.random.default_rng(1).poisson(2.0, sizes)
    bias = BoxBias.of(shape, quarters(shape, shape.depth - 1), TWO)
    starts, ends = shape.corners(bias.boxes)
    total = 0
    for low, high in zip(bias.low, bias.high, strict=True):
        share = np.ones(len(bias.boxes))
        for axis in range(len(sizes)):
            cover = np.minimum(ends[axis], high[axis]) - np.maximum(starts[axis], low[axis])
            share *= np.clip(cover, 0, None) / (ends[axis] - starts[axis])
        found = 0
        for box in np.flatnonzero(bias.counted):
            inside = tuple(slice(s[box], e[box]) for s, e in zip(starts, ends, strict=True))
            asked = tuple(
                slice(max(s[box], a), max(min(e[box], b), max(s[box], a)))
                for s, e, a, b in zip(starts, ends, low, high, strict=True)
            )
            parts = share[box] * UNIT
            whole = parts if parts in (0, UNIT) else min(max(round(parts), 1), UNIT - 1)
            found += int(whole) * int(table[inside].sum()) - UNIT * int(table[asked].sum())
        total += abs(found)
    assert bias.total(points_of(shape, table)) == total
    assert 0 < bias.cuts <= MAX_CUTS


@pytest.mark.parametrize("replaced", [True, False])
def test_one_row_moves_the_total_by_at_most_the_declared_amount(replaced: bool) -> None:
    """Cells at random, alone and among others. A bound of an eighth of the size would not cover
    what is seen."""
    shape = shape_of(16, 16)
    bias = BoxBias.of(shape, quarters(shape, 3), TWO if replaced else Fraction(1))
    rng = np.random.default_rng(2)
    most = 0
    for turn in range(200):
        table = rng.poisson(0.5, (16, 16)) if turn % 2 else np.zeros((16, 16), dtype=np.int64)
        other = table.copy()
        table[tuple(rng.integers(0, 16, 2))] += 1
        if replaced:
            other[tuple(rng.integers(0, 16, 2))] += 1
        most = max(
            most, abs(bias.total(points_of(shape, table)) - bias.total(points_of(shape, other)))
        )
    assert bias.sensitivity / 8 < most <= bias.sensitivity


def test_every_cell_is_a_box_of_its_own() -> None:
    """Nothing is cut, so nothing is measured and nothing can be wrong."""
    shape = shape_of(8, 8)
    bias = BoxBias.of(shape, equal_cells(shape, shape.depth), TWO)
    assert bias.cuts == 0
    assert bias.total(points_of(shape, np.arange(64).reshape(8, 8))) == 0


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_exact_privacy_of_a_look(relation: str) -> None:
    """The noisy bias is shown, in coarser parts than it has, which is more than a release shows
    of it."""
    shape = shape_of(4, 4)
    replaced = relation == "replace-one"
    bias = BoxBias.of(shape, equal_cells(shape, 1), TWO if replaced else Fraction(1))
    bias = replace(bias, counted=np.ones(4, dtype=np.int64), cuts=QUESTIONS)
    step = UNIT * QUESTIONS // 8

    def seen(noise: Any, rows: Any) -> Any:
        cells, counts = np.unique(np.array(rows, dtype=np.uint64), return_counts=True)
        total = bias.total(SparseCounts(cells, counts.astype(np.int64))) // step
        # dividing and rounding down adds at most 1 to how far the number moves
        moved = bias.sensitivity / step + 1
        return int(
            noise.laplace(
                np.array([total], dtype=np.int64), sensitivity=moved, epsilon=Fraction(1)
            )[0]
        )

    universe = (0, 3, 9)
    pairs = list(
        neighbours.replace_one(universe, rows=2)
        if replaced
        else neighbours.add_remove(universe, max_rows=2)
    )
    assert audit.exact(seen, pairs, epsilon=1, window=(-8, 24)).passed


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_replay_of_a_run_with_a_look(relation: str) -> None:
    mechanism = IntervalTree()
    plan = mechanism.plan(schema_of(relation, (8, 8), 400), Cost.pure(4))
    assert Fraction(plan.facts["look_epsilon"]) == Fraction(4, 24)

    universe = (0, 21, 63)
    pairs = list(
        neighbours.replace_one(universe, rows=1)
        if relation == "replace-one"
        else neighbours.add_remove(universe, max_rows=1)
    )
    assert audit.replay(among_many(mechanism, plan), pairs, runs=5).passed


def test_a_look_with_too_little_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a hundredth of the sensitivity is declared. Replay measures what the total
    moves by."""
    mechanism = IntervalTree()
    plan = mechanism.plan(schema_of("replace-one", (8, 8), 400), Cost.pure(4))

    pairs = list(neighbours.replace_one((0, 21, 63), rows=1))
    monkeypatch.setattr(
        BoxBias, "sensitivity", property(lambda self: Fraction(UNIT * self.cuts, 50))
    )
    assert not audit.replay(among_many(mechanism, plan), pairs, runs=5).passed


def test_a_look_that_is_not_paid_for_is_caught() -> None:
    mechanism = IntervalTree(look_share="1/2")
    plan = mechanism.plan(schema_of("replace-one", (8, 8), 400), ONE)

    def passed(plan: Plan) -> bool:
        pairs = list(neighbours.replace_one((0, 63), rows=1))
        return audit.replay(among_many(mechanism, plan), pairs, epsilon=1, runs=5).passed

    assert not passed(replace(plan, settings=replace(plan.settings, count_epsilon=Fraction(1))))


def among_many(mechanism: IntervalTree, plan: Plan) -> Any:
    """Runs on the given rows and 140 others, which make PrivTree split."""

    def run(noise: Any, rows: Any) -> Any:
        cells, counts = np.unique(
            np.array([*rows, *[7] * 80, *[40] * 60], dtype=np.uint64), return_counts=True
        )
        return mechanism.run(noise, SparseCounts(cells, counts.astype(np.int64)), plan)

    return run


def tree_taken(law: np.ndarray, rows: int, seed: int) -> str:
    shape = shape_of(*law.shape)
    table = (
        np.random.default_rng(seed)
        .multinomial(rows, law.reshape(-1) / law.sum())
        .reshape(law.shape)
    )
    plan = IntervalTree().plan(schema_of("replace-one", law.shape, rows), ONE)
    return str(IntervalTree().run(SeededNoise(seed), points_of(shape, table), plan).facts["tree"])


def test_what_it_decides() -> None:
    """Single cells where rows heap on round values, boxes where they are smooth. Each case is far
    from the border."""
    place = np.arange(64)
    smooth = np.exp(-(((place[:, None] - 20) / 3) ** 2) - ((place[None, :] - 33) / 3) ** 2)
    heaped = np.ones((64, 64)) * np.where(place % 8 == 0, 20.0, 0.1)[:, None]
    for law, expected in ((smooth, "privtree"), (heaped, "dyadic")):
        assert [tree_taken(law, 60_000, seed) for seed in range(3)] == [expected] * 3


def test_questions_are_public() -> None:
    """The same list whatever the data: it depends on the grid alone."""
    shape = shape_of(16, 16)
    one, other = (BoxBias.of(shape, equal_cells(shape, depth), TWO) for depth in (1, 2))
    assert (one.low == other.low).all()
    assert one.low.shape == (QUESTIONS, 2)
