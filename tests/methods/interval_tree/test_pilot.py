"""The pilot before cutting: exact sums, their sensitivities, the privacy of the whole run, and what
it decides."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit import neighbours
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import SparseCounts
from dpublish.methods.interval_tree.mechanism import LARGEST_SUM, IntervalTree
from dpublish.methods.interval_tree.pilot import (
    FIRST_LEVEL,
    REACH,
    Calibration,
    Pilot,
    cells_serve_better,
    tree_sums,
    widest_sum,
)
from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

ONE = Cost.pure(1)


def points(rows: Any) -> SparseCounts:
    cells, counts = np.unique(np.array(rows, dtype=np.uint64), return_counts=True)
    return SparseCounts(cells, counts.astype(np.int64))


def look_of(levels: int, *, epsilon: Fraction = Fraction(4), replaced: bool = True) -> Pilot:
    calibration = Calibration.of(epsilon, fanout=2, rows=1, replace=replaced)
    return Pilot(levels, 1 << levels, calibration, Fraction(2), Fraction(2))


def schema_of(relation: str, positions: int, size: int | None) -> Schema:
    key = "size" if relation == "replace-one" else "nominal_size"
    declared = "" if size is None else f"{key} = {size}\n"
    return Schema.from_toml(
        f'[dataset]\nname = "t"\nneighbours = "{relation}"\n{declared}'
        f'[columns.x]\nkind = "integer"\nlower = 0\nupper = {positions - 1}\n'
    )


def slow_sums(rows: list[int], pilot: Pilot) -> tuple[int, int]:
    """Box by box, from the definition."""
    splits = uneven = 0
    for level in range(pilot.levels):
        size = 1 << (pilot.levels - level)
        for box in range(1 << level):
            left = sum(box * size <= row < box * size + size // 2 for row in rows)
            right = sum(box * size + size // 2 <= row < (box + 1) * size for row in rows)
            above = left + right - level * pilot.calibration.decay
            splits += min(max(above + pilot.width, 0), 2 * pilot.width)
            if level >= pilot.first:
                uneven += min(abs(left - right), max(REACH * pilot.width - above, 0)) * 2 ** (
                    pilot.levels - 1 - level
                )
    return splits, uneven


@pytest.mark.parametrize("levels", [1, 2, FIRST_LEVEL, 7])
def test_sums_are_those_of_the_definition(levels: int) -> None:
    rng = np.random.default_rng(levels)
    for size in (0, 1, 5, 60):
        rows = rng.integers(0, 1 << levels, size).tolist()
        assert tree_sums(points(rows), look_of(levels)) == slow_sums(rows, look_of(levels))


@pytest.mark.parametrize("replaced", [True, False])
def test_one_row_moves_the_sums_by_at_most_the_declared_amounts(replaced: bool) -> None:
    """Rows pile up on few positions, so that boxes lie on both sides of every threshold; the second
    bound is nearly reached."""
    rng = np.random.default_rng(1)
    most = [0, 0]
    pilot = look_of(6, replaced=replaced)
    for _ in range(400):
        rows = rng.choice(rng.integers(0, 64, 3), rng.integers(1, 40)).tolist()
        other = [*rows[1:], int(rng.integers(0, 64))] if replaced else rows[1:]
        before, after = tree_sums(points(rows), pilot), tree_sums(points(other), pilot)
        most = [max(m, abs(a - b)) for m, a, b in zip(most, before, after, strict=True)]
    assert most[0] <= pilot.splits_sensitivity
    assert most[1] <= pilot.uneven_sensitivity
    assert most[1] >= pilot.uneven_sensitivity / 2


def whole_run(mechanism: IntervalTree, plan: Plan) -> Any:
    return lambda noise, rows: mechanism.run(noise, points(rows), plan)


def tiny_pairs(relation: str) -> list[Any]:
    return list(
        neighbours.replace_one((0, 1), rows=2)
        if relation == "replace-one"
        else neighbours.add_remove((0, 1), max_rows=2)
    )


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_exact_privacy_of_a_look(relation: str) -> None:
    """Both noisy numbers are shown, which is more than a release shows of them."""
    pilot = look_of(1, replaced=relation == "replace-one")

    def seen(noise: Any, rows: Any) -> Any:
        recorded = []

        class Shown:
            @staticmethod
            def laplace(*given: Any, **settings: Any) -> Any:
                recorded.append(noise.laplace(*given, **settings))
                return recorded[-1]

        choice = cells_serve_better(cast(Noise, Shown), points(rows), pilot, Fraction(1))
        return choice, [answer.tolist() for answer in recorded]

    report = audit.exact(seen, tiny_pairs(relation), epsilon=1, window=(-2, 4), root=2)
    assert report.passed, report.summary()
    assert not audit.exact(
        seen, tiny_pairs(relation), epsilon=Fraction(1, 3), window=(-2, 4), root=2
    ).passed


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_exact_privacy_of_a_run_with_a_look(relation: str) -> None:
    mechanism = IntervalTree(structure_share="1/3", look_share="1/2")
    plan = mechanism.plan(schema_of(relation, 2, 8 if relation == "replace-one" else None), ONE)
    assert Fraction(plan.facts["look_epsilon"]) == Fraction(1, 2)
    report = audit.exact(
        whole_run(mechanism, plan), tiny_pairs(relation), epsilon=1, window=(-1, 2), root=2
    )
    assert report.passed, report.summary()


def test_a_look_that_is_not_paid_for_is_caught() -> None:
    """The planted bug: the whole epsilon goes to counts, and the pilot comes on top of it."""
    mechanism = IntervalTree(look_share="1/2")
    plan = mechanism.plan(schema_of("replace-one", 2, 400), ONE)

    def spent(plan: Plan) -> bool:
        return audit.replay(
            whole_run(mechanism, plan), tiny_pairs("replace-one"), epsilon=1, runs=10
        ).passed

    assert spent(plan)
    assert not spent(replace(plan, settings=replace(plan.settings, count_epsilon=Fraction(1))))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_replay_with_a_look(relation: str) -> None:
    mechanism = IntervalTree()
    plan = mechanism.plan(schema_of(relation, 64, 300), ONE)
    assert plan.facts["look_epsilon"] != "0"
    rows = (0, 9, 31, 63)
    pairs = list(
        neighbours.replace_one(rows, rows=2)
        if relation == "replace-one"
        else neighbours.add_remove(rows, max_rows=2)
    )
    assert audit.replay(whole_run(mechanism, plan), pairs, runs=3).passed


def tree_taken(law: np.ndarray, rows: int, seed: int) -> str:
    counts = np.random.default_rng(seed).multinomial(rows, law / law.sum())
    cells = np.flatnonzero(counts)
    plan = IntervalTree().plan(schema_of("replace-one", law.size, rows), ONE)
    numbers = SparseCounts(cells.astype(np.uint64), counts[cells].astype(np.int64))
    return str(IntervalTree().run(SeededNoise(seed), numbers, plan).facts["tree"])


def test_what_it_decides() -> None:
    """Equal cells where all are full or the shape is rough, boxes where most of the line is empty
    or smooth.

    Each case is far from the border: a wrong decision needs noise of several scales, in one of 20
    fixed runs. It would catch a pilot that ignores either number, or has them the wrong way round.
    """
    place = np.arange(1024)
    rough = np.exp(np.random.default_rng(1).normal(0, 2, 1024))
    cases = {
        "full": (np.ones(1024), 1_000_000, "dyadic"),
        "rough": (rough, 100_000, "dyadic"),
        "few spikes": (np.where(place % 100 == 0, 1.0, 0.0), 100_000, "privtree"),
        "bump": (np.exp(-(((place - 300) / 8) ** 2)), 100_000, "privtree"),
    }
    for name, (law, rows, expected) in cases.items():
        assert [tree_taken(law, rows, seed) for seed in range(5)] == [expected] * 5, name


def test_equal_cells_get_what_was_not_spent_on_cutting() -> None:
    plan = IntervalTree().plan(schema_of("replace-one", 64, 100_000), ONE)
    cells = np.arange(64, dtype=np.uint64)
    content = IntervalTree().run(
        SeededNoise(1), SparseCounts(cells, np.full(64, 1500, dtype=np.int64)), plan
    )
    assert content.facts["tree"] == "dyadic"
    assert Fraction(content.facts["scale"]) == 2 * content.facts["height"] / Fraction(47, 48)


def wrapped_at(levels: int, beyond: int) -> Pilot:
    """A look whose largest term passes 2^63 by at least this much, and hardly more."""
    low, high = 1, 1 << 62
    while high - low > 1:
        middle = (low + high) // 2
        level = Calibration.of(Fraction(3, middle), fanout=2, rows=1, replace=False)
        term = (levels - 1) * level.decay + REACH * middle
        low, high = (middle, high) if term < (1 << 63) + beyond else (low, middle)
    calibration = Calibration.of(Fraction(3, high), fanout=2, rows=1, replace=False)
    return Pilot(levels, 1 << levels, calibration, Fraction(2), Fraction(2))


def test_noise_that_leaves_64_bits_is_refused_before_anything_is_paid() -> None:
    """Without a limit a term of the look wrapped around: one row more moved the sum by hundreds,
    with noise for a few dozen."""
    pilot = wrapped_at(10, 100)
    assert widest_sum(pilot.calibration, 10) > LARGEST_SUM
    sums = [tree_sums(points([0] * rows), pilot)[1] for rows in range(100, 130)]
    assert max(abs(b - a) for a, b in pairwise(sums)) > pilot.uneven_sensitivity
    schema = schema_of("add-remove-one", 1024, None)
    with pytest.raises(PlanError, match="too little for cutting"):
        IntervalTree(structure_share="1e-12").plan(schema, Cost.pure("1e-6"))


def test_the_least_share_that_is_planned_has_exact_sums() -> None:
    schema, levels, cost = schema_of("add-remove-one", 128, None), 7, Cost.pure("1e-6")
    shares = [Fraction(1, 1 << power) for power in range(60)]
    planned = []
    for share in shares:
        with suppress(PlanError):
            planned.append(IntervalTree(structure_share=share).plan(schema, cost).settings)
    assert 0 < len(planned) < len(shares)
    structure = cast(Any, planned[-1]).structure_epsilon
    calibration = Calibration.of(structure, fanout=2, rows=1, replace=False)
    assert widest_sum(calibration, levels) > LARGEST_SUM // 4
    pilot = Pilot(levels, 1 << levels, calibration, Fraction(2), Fraction(2))
    for rows in ([0], [0] * 50, [*range(128), 5, 5]):
        assert tree_sums(points(rows), pilot) == slow_sums(rows, pilot)
