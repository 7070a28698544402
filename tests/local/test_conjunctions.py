"""Conjunctions, parities and marginals from noisy parities, and the identity that ties them
together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpublish.errors import InputError, PlanError, QueryError
from dpublish.local import Conjunctions, parity_error, parity_from_conjunctions
from dpublish.local.conjunctions import parity_weights
from dpublish.noise.source import SeededNoise


def exact_share(records: np.ndarray, places: tuple[int, ...]) -> float:
    return float(records[:, list(places)].all(axis=1).mean())


def test_identity_6_1_holds_for_every_set() -> None:
    records = np.random.default_rng(6).integers(0, 2, (200, 6))
    for size in range(1, 7):
        for chosen in itertools.combinations(range(6), size):
            parity = float((records[:, list(chosen)].sum(axis=1) % 2).mean())
            assert parity_from_conjunctions(
                chosen, lambda t: exact_share(records, t)
            ) == pytest.approx(parity, abs=1e-9)


def test_the_error_bound_is_reached_by_the_worst_signs() -> None:
    for size in range(1, 6):
        chosen = tuple(range(size))
        off = parity_from_conjunctions(chosen, lambda t: 0.01 * (-1) ** (len(t) - 1))
        assert off == pytest.approx(parity_error(size, 0.01))
    assert parity_weights(3) == [1, -2, 4]
    for call in (lambda: parity_weights(0), lambda: parity_error(0, 1.0)):
        with pytest.raises(QueryError):
            call()


def test_expected_estimates_are_the_truth() -> None:
    """Exactly, for one person and each set that may be asked: the sign mean of the asked set is
    unbiased."""
    randomizer = Conjunctions(3, 2, 1, bits=8)
    for record in range(8):
        law = randomizer.law(record)
        for place, mask in enumerate(randomizer.masks):
            total = sum(law[2 * place + bit] for bit in (0, 1))
            expected = sum(
                float(law[2 * place + bit] / total)
                * randomizer.aggregate([2 * place + bit]).signs[place]
                for bit in (0, 1)
            )
            assert expected == pytest.approx((-1) ** bin(record & int(mask)).count("1"))


def test_everything_of_a_survey_is_within_its_error_bars() -> None:
    """Largest |z| of 40 estimates (14 conjunctions, 14 parities, 12 negated pairs) below 4.5: false
    alarm 3e-4, fixed seed."""
    rng = np.random.default_rng(2)
    records = (rng.random((60_000, 4)) < [0.2, 0.5, 0.7, 0.9]).astype(np.int64)
    randomizer = Conjunctions(["a", "b", "c", "d"], 3, 2)
    found = randomizer.aggregate(randomizer.randomize(records, coins=SeededNoise(3)))
    names = randomizer.attributes
    for size in (1, 2, 3):
        for chosen in itertools.combinations(range(4), size):
            picked = [names[i] for i in chosen]
            estimate = found.conjunction(picked)
            assert (
                abs(estimate.value - exact_share(records, chosen)) < 4.5 * estimate.standard_error
            )
            # what is announced beforehand supposes that every parity is even
            assert 0.5 < estimate.standard_error / randomizer.standard_error(60_000, size) < 1.05
            parity = found.parity(picked)
            assert (
                abs(parity.value - (records[:, list(chosen)].sum(axis=1) % 2).mean())
                < 4.5 * parity.standard_error
            )
            # 6.1 is an identity of the estimates too
            assert parity_from_conjunctions(
                picked, lambda t: found.conjunction(list(t)).value
            ) == pytest.approx(parity.value)
    for one, other in itertools.permutations(range(4), 2):
        estimate = found.conjunction([names[one], f"not {names[other]}"])
        true = float((records[:, one] * (1 - records[:, other])).mean())
        assert abs(estimate.value - true) < 4.5 * estimate.standard_error
    raw = found.marginal(["a", "c"], consistent=False)
    assert raw[1, 1] == pytest.approx(found.conjunction(["a", "c"]).value)
    assert raw[1, 0] == pytest.approx(found.conjunction(["a", "not c"]).value)
    table = found.marginal(["a", "c", "d"])
    assert table.shape == (2, 2, 2)
    assert table.min() >= 0
    assert table.sum() == pytest.approx(1)
    assert len(found.to_json()["conjunctions"]) == 14


def test_words_and_matrices_are_the_same_records() -> None:
    randomizer = Conjunctions(5, 2, 1)
    matrix = np.random.default_rng(1).integers(0, 2, (100, 5))
    words = matrix @ (1 << np.arange(5))
    assert (randomizer.check_values(matrix) == randomizer.check_values(words)).all()


def test_a_set_that_nobody_was_asked_has_a_wide_bar() -> None:
    found = Conjunctions(5, 2, 1).aggregate([0, 1, 1])
    assert found.conjunction(["x4", "x5"]).high - found.conjunction(["x4", "x5"]).low == 1.0


@pytest.mark.parametrize(
    ("attributes", "width"),
    [(0, 1), (3, 0), (3, 4), (3, True), (64, 2), (60, 30), (["a", "a"], 1), ("abc", 1)],
)
def test_bad_protocols_are_refused(attributes: Any, width: Any) -> None:
    with pytest.raises(PlanError):
        Conjunctions(attributes, width, 1)


@pytest.mark.parametrize("values", [[[0, 2, 1]], [[0, 1]], [8], [-1], [0.5], ["a"]])
def test_bad_records_are_refused(values: Any) -> None:
    with pytest.raises(InputError):
        Conjunctions(3, 2, 1).randomize(values)


@pytest.mark.parametrize("names", [[], ["x1", "x1"], ["x9"], ["x1", "x2", "x3"]])
def test_bad_questions_are_refused(names: list[str]) -> None:
    found = Conjunctions(3, 2, 1).aggregate([0, 1, 2])
    with pytest.raises(QueryError):
        found.conjunction(names)
    with pytest.raises(QueryError):
        found.conjunctions(3)


def test_intervals_hold_with_few_reports_a_set() -> None:
    """20 attributes make 210 sets for 2,000 people: ten reports each, which often all agree. 60
    runs of 20 attributes at 95%: fewer than 92% hold with a probability below 1e-5 at a true
    coverage of 95%, runs and attributes being independent."""
    shares = np.repeat([0.02, 0.3, 0.9], [5, 10, 5])
    records = np.random.default_rng(4).random((2000, 20)) < shares
    for epsilon in (1, 6):
        plan, held = Conjunctions(20, 2, epsilon), 0
        for seed in range(60):
            found = plan.aggregate(plan.randomize(records, coins=SeededNoise(seed)))
            estimates = [found.conjunction([name]) for name in plan.attributes]
            held += sum(
                e.low <= truth <= e.high
                for e, truth in zip(estimates, records.mean(axis=0), strict=True)
            )
        assert held >= 0.92 * 60 * 20, epsilon
