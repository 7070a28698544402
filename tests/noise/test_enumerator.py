"""The enumerator's laws: exact, summing to one, and equal to what the definitions and the
production samplers give."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpublish.errors import InputError
from dpublish.noise.base import Noise
from dpublish.noise.enumerator import (
    OUTSIDE,
    EnumerationError,
    Enumerator,
    Raised,
    choice_options,
    freeze,
    laplace_options,
    point_mass,
    rational_power,
    readable,
    tail_mass,
)
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import TapMisuse

ONE, HALF = Fraction(1), Fraction(1, 2)


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def count(noise: Noise, value: int) -> int:
    return int(noise.laplace(whole(value), sensitivity=ONE, epsilon=HALF)[0])


def test_powers() -> None:
    assert rational_power(Fraction(4), HALF) == 2
    assert rational_power(Fraction(8, 27), Fraction(-2, 3)) == Fraction(9, 4)
    assert rational_power(Fraction(2), HALF) is None
    assert rational_power(Fraction(10**40), Fraction(1, 40)) == 10


def test_tail_is_the_sum_of_its_points() -> None:
    ratio = Fraction(1, 3)
    for start in range(-4, 5):
        near = sum(point_mass(ratio, k) for k in range(start, start + 60))
        assert 0 <= tail_mass(ratio, start) - near < Fraction(1, 10**20)


@pytest.mark.parametrize("tails", ["clip", "apart"])
@pytest.mark.parametrize("value", [-20, -3, 0, 2, 6, 30])
def test_laplace_options_sum_to_one(tails: str, value: int) -> None:
    options = laplace_options(HALF, value, -3, 6, tails)  # type: ignore[arg-type]
    assert sum(mass for _, mass in options) == 1
    assert all(mass > 0 for _, mass in options)


def test_laplace_law_and_the_base_found_for_it() -> None:
    enumerator = Enumerator(window=(-2, 2))
    law = enumerator.law(count, 0)
    assert enumerator.base == 4
    third = Fraction(1, 3)
    expected = {
        -2: third / 2,
        -1: third / 2,
        0: third,
        1: third / 2,
        2: third / 2,
    }  # 1/3 * 2^-|k|, and the tails 1/6
    assert law == {freeze(k): mass for k, mass in expected.items()}
    apart = Enumerator(window=(-2, 2), tails="apart").law(count, 0)
    assert apart[OUTSIDE] == Fraction(1, 6)
    assert apart[freeze(2)] == Fraction(1, 12)
    assert sum(apart.values()) == 1


def test_law_matches_the_production_sampler_when_base_is_near_e() -> None:
    """Base 19/7 = e within 0.2 %. 20,000 fixed draws; 5-sigma bound a cell: false alarm 6e-7 each;
    finds errors of 0.02."""

    def answer(noise: Noise, value: int) -> int:
        return max(-3, min(4, int(noise.laplace(whole(value), sensitivity=ONE, epsilon=ONE)[0])))

    law = Enumerator(base=Fraction(19, 7), window=(-3, 4)).law(answer, 1)
    noise, runs = SeededNoise(11), 20_000
    noisy = np.clip(
        noise.laplace(np.full(runs, 1, dtype=np.int64), sensitivity=ONE, epsilon=ONE), -3, 4
    )
    seen = Counter(noisy.tolist())
    for value in range(-3, 5):
        p = float(law[freeze(value)])
        assert abs(seen[value] / runs - p) < 5 * math.sqrt(p * (1 - p) / runs) + 0.001


def sparse(noise: Noise, counts: dict[int, int]) -> tuple[tuple[int, int], ...]:
    cells, kept = noise.sparse_laplace(
        np.array(sorted(counts), dtype=np.uint64),
        whole(*(counts[cell] for cell in sorted(counts))),
        domain_size=3,
        threshold=1,
        sensitivity=ONE,
        epsilon=ONE,
    )
    return tuple(zip(cells.tolist(), kept.tolist(), strict=True))


def dense(noise: Noise, counts: dict[int, int]) -> tuple[tuple[int, int], ...]:
    noisy = noise.laplace(
        whole(*(counts.get(cell, 0) for cell in range(3))), sensitivity=ONE, epsilon=ONE
    ).tolist()
    return tuple((cell, count) for cell, count in enumerate(noisy) if count > 1)


def test_sparse_histogram_has_the_law_of_the_dense_one() -> None:
    for counts in ({}, {1: 2}, {0: 1, 2: 4}):
        assert Enumerator(window=(0, 4)).law(sparse, counts) == Enumerator(window=(0, 4)).law(
            dense, counts
        )
    assert sum(Enumerator(window=(0, 4), tails="apart").law(sparse, {1: 2}).values()) == 1


def permute_and_flip_by_definition(weights: tuple[Fraction, ...]) -> dict[int, Fraction]:
    law = dict.fromkeys(range(len(weights)), Fraction(0))
    for order in itertools.permutations(range(len(weights))):
        mass = Fraction(1, math.factorial(len(weights)))
        for index in order:
            law[index] += mass * weights[index]
            mass *= 1 - weights[index]
    return law


@pytest.mark.parametrize(
    "weights",
    [
        (ONE,),
        (ONE, ONE),
        (ONE, HALF, Fraction(1, 4)),
        (Fraction(1, 8), ONE, ONE, HALF),
        (HALF, HALF, ONE, Fraction(1, 9), HALF),
    ],
)
def test_choice_laws(weights: tuple[Fraction, ...]) -> None:
    assert dict(choice_options(weights, "permute-and-flip")) == permute_and_flip_by_definition(
        weights
    )
    assert dict(choice_options(weights, "exponential")) == {
        i: w / sum(weights) for i, w in enumerate(weights)
    }


def test_choice_uses_half_the_exponent_unless_monotone() -> None:
    def pick(noise: Noise, monotone: bool) -> int:
        return noise.choose(
            [0, 2], sensitivity=ONE, epsilon=ONE, monotone=monotone, rule="exponential"
        )

    assert Enumerator(base=4).law(pick, False)[freeze(0)] == Fraction(1, 5)
    assert Enumerator(base=4).law(pick, True)[freeze(0)] == Fraction(1, 17)


def test_adaptive_branches_uniform_draws_and_keys() -> None:
    def mechanism(noise: Noise, data: None) -> tuple[int, ...]:
        first = noise.integers(3, size=1).tolist()
        return (*first, *noise.integers(first[0] + 1, size=2).tolist())

    law = Enumerator().law(mechanism, None)
    assert len(law) == 1 + 4 + 9
    assert law[freeze((2, 1, 1))] == Fraction(1, 27)
    assert sum(law.values()) == 1
    keys = Enumerator(keys=(b"a" * 16, b"b" * 16)).law(lambda noise, data: noise.key(), None)
    assert keys == {b"a" * 16: HALF, b"b" * 16: HALF}


def test_an_exception_is_an_outcome() -> None:
    def fails(noise: Noise, data: int) -> int:
        answer = int(noise.integers(2, size=1)[0])
        if answer:
            raise ValueError(f"saw {data}")
        return answer

    assert Enumerator().law(fails, 7) == {freeze(0): HALF, Raised("ValueError", "saw 7"): HALF}


def test_control_flow_cannot_be_swallowed() -> None:
    def swallows(noise: Noise, data: int) -> int:
        try:
            return count(noise, data)
        except Exception:
            return 99

    assert freeze(99) not in Enumerator(tails="apart").law(swallows, 0)


def test_a_refusal_cannot_be_swallowed_either() -> None:
    def swallows(noise: Noise, data: None) -> int:
        try:
            return int(noise.gaussian(whole(0), sensitivity=ONE, rho=ONE)[0])
        except Exception:
            return 99

    with pytest.raises(EnumerationError, match="no rational law"):
        Enumerator().law(swallows, None)


def test_hidden_state_is_found() -> None:
    calls: list[int] = []

    def remembers(noise: Noise, data: int) -> int:
        calls.append(data)
        return count(noise, len(calls))

    with pytest.raises(EnumerationError, match="outside the tap"):
        Enumerator().law(remembers, 0)

    def stops_drawing(noise: Noise, data: int) -> int:
        calls.append(data)
        return count(noise, 0) + (count(noise, 0) if len(calls) % 2 else 0)

    with pytest.raises(EnumerationError, match="outside the tap"):
        Enumerator().law(stops_drawing, 0)


def test_refusals() -> None:
    with pytest.raises(EnumerationError, match="More than 10 branches"):
        Enumerator(max_branches=10).law(
            lambda n, d: n.laplace(whole(0, 0), sensitivity=ONE, epsilon=ONE), None
        )
    with pytest.raises(EnumerationError, match="is not rational"):
        Enumerator(base=3).law(count, 0)
    with pytest.raises(InputError, match="above 1"):
        Enumerator(base=1)
    with pytest.raises(InputError, match="window"):
        Enumerator(window=(2, 2))
    with pytest.raises(EnumerationError, match="no rational law"):
        Enumerator().law(lambda n, d: n.gaussian(whole(0), sensitivity=ONE, rho=ONE), None)
    with pytest.raises(EnumerationError, match="no rational law"):
        Enumerator().law(
            lambda n, d: n.gamma_norm([ONE], grid=ONE, sensitivity=ONE, epsilon=ONE), None
        )
    with pytest.raises(EnumerationError, match="no rational law"):
        Enumerator().law(
            lambda n, d: n.lattice_gaussian([ONE], grid=ONE, sensitivity=ONE, rho=ONE), None
        )
    with pytest.raises(EnumerationError, match="too large"):
        Enumerator().law(lambda n, d: n.integers(2**40, size=1), None)
    with pytest.raises(EnumerationError, match="too large"):
        Enumerator().law(
            lambda n, d: n.sparse_laplace(
                np.array([], dtype=np.uint64),
                whole(),
                domain_size=99,
                threshold=1,
                sensitivity=ONE,
                epsilon=ONE,
            ),
            None,
        )
    with pytest.raises(TapMisuse):
        Enumerator().law(
            lambda n, d: n.laplace(np.array([0.5]), sensitivity=ONE, epsilon=ONE), None
        )
    with pytest.raises(EnumerationError, match="cannot be compared"):
        Enumerator().law(lambda n, d: object(), None)
    assert not Enumerator().publishable


def test_frozen_outputs_differ_when_a_reader_could_tell() -> None:
    numbers = [1, 1.0, True, "1", 0.0, -0.0, None, np.int8(1)]
    different = [*numbers, (1,), [1], whole(1), whole(1).astype(np.int8), {1: 2}, {"1": 2}]
    assert len({freeze(value) for value in different}) == len(different)
    assert freeze({1: 2, 3: 4}) != freeze({3: 4, 1: 2})
    assert freeze(float("nan")) == freeze(float("nan"))
    assert freeze({1, 2}) == freeze({2, 1})


def test_outcomes_are_readable() -> None:
    assert (
        readable(freeze({"a": [1, whole(2, 3)], "b": np.int64(4)})) == "{'a': [1, [2, 3]], 'b': 4}"
    )
