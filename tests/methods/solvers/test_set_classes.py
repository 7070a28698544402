"""Section 7.7.5: the pure order of few sets with costs is private on all element sets, and close to
the best."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import lists_of
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.set_cover.orders import ForcedCover, class_order, extensions
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="tiny", neighbours="add-remove-one")
SETS = [[0, 1, 2], [2, 3], [3, 4], [0, 4]]
COSTS = [Fraction(4), Fraction(2), Fraction(1), Fraction(1)]
ELEMENTS = list(itertools.product((0, 1), repeat=5))
PAIRS = [(p, (*p[:e], 1, *p[e + 1 :])) for p in ELEMENTS for e in range(5) if not p[e]]


def test_private_on_all_sets_of_five_elements() -> None:
    mechanism = SetCover(sets=lists_of(SETS), elements=5, costs=COSTS, rule="classes")
    plan = mechanism.plan(SCHEMA, Cost.pure(2))
    report = audit.exact(
        lambda noise, p: mechanism.run(noise, np.array(p), plan).tables["order"], PAIRS, epsilon=2
    )
    assert report.passed, report.summary()
    assert report.loss > 0.3


def test_planted_classes_from_cheap_to_dear() -> None:
    """With the classes taken the other way round the loss of a step is 2^(j - i) for j > i as well:
    the claim breaks."""

    def wrong(noise: Any, present: Any) -> Any:
        cover = ForcedCover(lists_of(SETS), COSTS, np.flatnonzero(present).tolist())
        cover.classes.reverse()
        bucket: tuple[int, ...] = ()
        rest: tuple[int, ...] = ()
        for place, (power, members) in enumerate(cover.classes):
            found = extensions(members)
            scores = [
                -(2**power) * 4 * cover.least(bucket + b[:held], b[held:] + rest, place + 1)
                - 3 * held
                for b, held in found
            ]
            block, held = found[
                noise.choose(scores, sensitivity=Fraction(1), epsilon=Fraction(1), monotone=True)
            ]
            bucket, rest = bucket + block[:held], block[held:] + rest
        return bucket + rest

    assert not audit.exact(wrong, PAIRS[:20], epsilon=2).passed


def test_what_an_element_adds_is_nothing_or_its_cheapest_class() -> None:
    """The two facts that the proof rests on, for every good order of these sets and every element
    set."""
    lists = lists_of(SETS)
    for present, more in PAIRS[::3]:
        (element,) = (e for e in range(5) if present[e] != more[e])
        before, after = (
            ForcedCover(lists, COSTS, np.flatnonzero(p).tolist()) for p in (present, more)
        )
        cheapest = max(
            j for j, members in before.classes if any(element in SETS[i] for i in members)
        )
        states: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
        for place, (power, members) in enumerate(before.classes):
            following = []
            for bucket, rest in states:
                ways = [(bucket + b[:held], b[held:] + rest) for b, held in extensions(members)]
                moves = [
                    after.least(*way, place + 1) - before.least(*way, place + 1) for way in ways
                ]
                assert all(0 <= move <= Fraction(1, 2**cheapest) for move in moves)
                assert power <= cheapest or len(set(moves)) == 1
                following += ways
            states = following


def test_costs_are_rounded_up_to_powers_of_two_of_the_largest() -> None:
    cover = ForcedCover(
        lists_of(SETS), [Fraction(9), Fraction(4), Fraction(9, 2), Fraction(1, 100)], [0]
    )
    assert cover.classes == [(0, (0,)), (1, (1, 2)), (9, (3,))]
    assert cover.cost((), (1, 2, 0, 3)) == 1
    assert cover.cost((1,), (3, 2, 0)) == Fraction(1, 2) + Fraction(1, 512)


def test_with_much_epsilon_the_order_is_the_best() -> None:
    """Costs that are powers of two, epsilon 400: the order must serve each of these element sets at
    the least cost."""
    lists = lists_of(SETS)
    for present in ELEMENTS[1::5]:
        order = class_order(SeededNoise(1), lists, COSTS, np.array(present), Fraction(400)).tolist()

        def cost(sets: Any, present: Any = present) -> Fraction:
            left, total = {e for e in range(5) if present[e]}, Fraction(0)
            for i in sets:
                if left & set(SETS[i]):
                    total += COSTS[i]
                    left -= set(SETS[i])
            return total

        assert cost(order) == min(cost(p) for p in itertools.permutations(range(4)))


def test_too_many_sets() -> None:
    with pytest.raises(PlanError, match="at most 7"):
        SetCover(sets=lists_of([[0]] * 8), elements=1, rule="classes").plan(SCHEMA, Cost.pure(1))
