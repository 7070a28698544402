"""The production tap. Statistical tests: false-alarm rate 1e-6, fixed seeds; each also rejects a
wrong epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from sampler_laws import (
    ALPHA,
    RiggedStream,
    chi_square,
    fit,
    fit_outcomes,
    gaussian_cdf,
    laplace_cdf,
)

from dpublish.errors import PlanError, PrivateSideError
from dpublish.noise import lattice, select, source
from dpublish.noise.source import LIMIT, SeededNoise, StreamNoise, SystemNoise, add_clamped
from dpublish.noise.words import SeededStream

ONE = Fraction(1)
HALF = Fraction(1, 2)


def cells_of(*cells: int) -> np.ndarray:
    return np.array(cells, dtype=np.uint64)


def counts_of(*counts: int) -> np.ndarray:
    return np.array(counts, dtype=np.int64)


def test_only_system_noise_is_publishable() -> None:
    assert SystemNoise().publishable
    assert not SeededNoise(1).publishable
    assert not StreamNoise(SeededStream(1)).publishable


def test_laplace_adds_noise_of_scale_sensitivity_over_epsilon() -> None:
    values = np.arange(200_000, dtype=np.int64)
    noise = SeededNoise(1).laplace(values, sensitivity=Fraction(2), epsilon=Fraction(2, 3)) - values
    assert fit(noise, laplace_cdf(3)) > ALPHA
    assert fit(noise, laplace_cdf(3.3)) < ALPHA


def test_gaussian_adds_noise_of_the_stated_variance() -> None:
    values = np.arange(200_000, dtype=np.int64)
    noise = SeededNoise(1).gaussian(values, sensitivity=Fraction(3), rho=Fraction(1, 8)) - values
    assert fit(noise, gaussian_cdf(36)) > ALPHA
    assert fit(noise, gaussian_cdf(36 * 1.21)) < ALPHA


def test_shapes_are_kept_and_inputs_left_alone() -> None:
    values = np.zeros((3, 4), dtype=np.int64)
    values.flags.writeable = False
    noise = SeededNoise(2)
    assert noise.laplace(values, sensitivity=ONE, epsilon=ONE).shape == (3, 4)
    assert noise.gaussian(values, sensitivity=ONE, rho=ONE).shape == (3, 4)
    assert noise.laplace(values[:, ::2], sensitivity=ONE, epsilon=ONE).shape == (3, 2)
    assert noise.laplace(counts_of(), sensitivity=ONE, epsilon=ONE).shape == (0,)


def test_the_same_seed_gives_the_same_answers() -> None:
    def answers() -> list[object]:
        noise = SeededNoise(77)
        cells, values = noise.sparse_laplace(
            cells_of(1, 5),
            counts_of(4, 9),
            domain_size=1000,
            threshold=3,
            sensitivity=ONE,
            epsilon=HALF,
        )
        return [cells.tolist(), values.tolist(), noise.integers(10, size=5).tolist(), noise.key()]

    assert answers() == answers()


# --- sparse = dense


def kept_law(count: int, scale: float, threshold: int, top: int) -> dict[int | None, float]:
    """Law of one cell of the dense mechanism: its noisy count if above the threshold, at most
    `top`, or nothing."""
    cdf = laplace_cdf(scale)
    law: dict[int | None, float] = {None: cdf(threshold - count)}
    for value in range(threshold + 1, top):
        law[value] = cdf(value - count) - cdf(value - count - 1)
    law[top] = 1 - cdf(top - 1 - count)
    return law


def dense_law(
    counts: list[int], scale: float, threshold: int, top: int
) -> dict[tuple[int | None, ...], float]:
    laws = [kept_law(count, scale, threshold, top) for count in counts]
    return {
        tuple(v for v, _ in cell): math.prod(p for _, p in cell)
        for cell in product(*(law.items() for law in laws))
    }


@pytest.mark.parametrize(
    ("counts", "threshold"),
    [([0, 2, 0], 0), ([0, 0, 0], 1), ([3, 0, 1], 1), ([1, 2, 1], 2)],
    ids=str,
)
def test_the_sparse_law_is_the_dense_law(counts: list[int], threshold: int) -> None:
    """Joint law of all cells, 64 outcomes; 6,000 runs catch an outcome of probability 1/50 that is
    off by 70 percent."""
    noise, top = SeededNoise(3), threshold + 3
    occupied = [k for k, count in enumerate(counts) if count]
    seen = []
    for _ in range(6000):
        cells, values = noise.sparse_laplace(
            cells_of(*occupied),
            counts_of(*(counts[k] for k in occupied)),
            domain_size=len(counts),
            threshold=threshold,
            sensitivity=ONE,
            epsilon=HALF,
        )
        assert np.all(cells[1:] > cells[:-1])
        found = dict(zip(cells.tolist(), values.tolist(), strict=True))
        seen.append(tuple(min(found[k], top) if k in found else None for k in range(len(counts))))
    assert fit_outcomes(seen, dense_law(counts, 2.0, threshold, top)) > ALPHA
    assert fit_outcomes(seen, dense_law(counts, 2.6, threshold, top)) < ALPHA


@pytest.mark.parametrize(
    "wrong", ["occupied cells only", "empty cells keep zero", "empties start one late"]
)
def test_planted_sparse_bugs_are_caught(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    if wrong == "occupied cells only":
        monkeypatch.setattr(source, "survivors", lambda *_: cells_of())
    elif wrong == "empty cells keep zero":
        monkeypatch.setattr(source, "tail", lambda stream, scale, start, size: np.full(size, start))
    else:
        honest = source.tail
        monkeypatch.setattr(
            source,
            "tail",
            lambda stream, scale, start, size: honest(stream, scale, start + 1, size),
        )
    noise, seen = SeededNoise(4), []
    for _ in range(2000):
        cells, values = noise.sparse_laplace(
            cells_of(1), counts_of(2), domain_size=3, threshold=0, sensitivity=ONE, epsilon=HALF
        )
        found = dict(zip(cells.tolist(), values.tolist(), strict=True))
        seen.append(tuple(min(found[k], 3) if k in found else None for k in range(3)))
    assert fit_outcomes(seen, dense_law([0, 2, 0], 2.0, 0, 3)) < ALPHA


def test_a_domain_of_2_to_the_63() -> None:
    occupied = cells_of(0, 1 << 40, (1 << 63) - 1)
    cells, values = SeededNoise(5).sparse_laplace(
        occupied,
        counts_of(10**6, 10**6, 10**6),
        domain_size=1 << 63,
        threshold=330,
        sensitivity=ONE,
        epsilon=Fraction(1, 10),
    )
    assert set(occupied.tolist()) <= set(cells.tolist())
    assert np.all(cells[1:] > cells[:-1])
    assert int(values.min()) > 330
    expected = 2.0**63 * math.exp(-33.1) / (1 + math.exp(-0.1))
    assert abs(cells.size - 3 - expected) < 5 * math.sqrt(expected)
    beyond = np.sort(values)[:-3] - 331
    assert fit(beyond, lambda x: -math.expm1(-(x + 1) / 10)) > ALPHA


def test_a_full_domain_and_an_empty_one() -> None:
    full = np.arange(5, dtype=np.uint64)
    cells, _ = SeededNoise(6).sparse_laplace(
        full, counts_of(*[10**6] * 5), domain_size=5, threshold=1, sensitivity=ONE, epsilon=ONE
    )
    assert np.array_equal(cells, full)
    cells, values = SeededNoise(6).sparse_laplace(
        cells_of(), counts_of(), domain_size=10**6, threshold=10**6, sensitivity=ONE, epsilon=ONE
    )
    assert cells.size == values.size == 0
    assert (cells.dtype, values.dtype) == (np.uint64, np.int64)


# --- the ends of the integers


def test_adding_saturated_noise_is_clamping_the_true_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """In small: limit 4 and saturation 8 stand for 2^61 and 2^62; every value and every true
    noise."""
    monkeypatch.setattr(source, "LIMIT", 4)
    for value, true in product(range(-12, 13), range(-25, 26)):
        clamped = max(-4, min(value, 4))
        expected = max(-4, min(clamped + true, 4))
        assert add_clamped(counts_of(value), counts_of(max(-8, min(true, 8))))[0] == expected


@pytest.mark.parametrize("epsilon", [ONE, Fraction(1, 10**30)])
def test_extreme_counts_neither_wrap_nor_fail(epsilon: Fraction) -> None:
    extremes = counts_of(-(1 << 63), (1 << 63) - 1, LIMIT, -LIMIT, 0)
    noisy = SeededNoise(7).laplace(extremes, sensitivity=ONE, epsilon=epsilon)
    assert np.all(np.abs(noisy) <= LIMIT)
    if epsilon == 1:
        assert noisy[0] <= -LIMIT + 100
        assert noisy[1] >= LIMIT - 100
    else:
        assert np.all(np.abs(noisy) == LIMIT)
    assert np.all(np.abs(SeededNoise(7).gaussian(extremes, sensitivity=ONE, rho=epsilon)) <= LIMIT)


def test_a_sparse_release_with_a_huge_scale_stays_within_the_limit() -> None:
    _, values = SeededNoise(8).sparse_laplace(
        cells_of(3),
        counts_of((1 << 63) - 1),
        domain_size=100,
        threshold=5,
        sensitivity=ONE,
        epsilon=Fraction(1, 10**30),
    )
    assert set(values.tolist()) == {LIMIT}


# --- the other taps


def test_choose_sets_the_exponent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def choose_index(stream, scores, *, exponent, rule):
        asked.append((exponent, rule))
        return 0

    monkeypatch.setattr(select, "choose_index", choose_index)
    noise = SeededNoise(1)
    noise.choose([1, 2], sensitivity=Fraction(3), epsilon=ONE)
    noise.choose([1, 2], sensitivity=Fraction(3), epsilon=ONE, monotone=True, rule="exponential")
    assert asked == [(Fraction(1, 6), "permute-and-flip"), (Fraction(1, 3), "exponential")]


def test_lattice_noise_gets_its_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for name in ("gamma_norm_multiples", "gaussian_multiples"):
        monkeypatch.setattr(
            lattice, name, lambda stream, values, **settings: asked.append(settings)
        )
    noise = SeededNoise(1)
    noise.gamma_norm([ONE], grid=HALF, sensitivity=Fraction(3), epsilon=Fraction(2))
    noise.lattice_gaussian([ONE], grid=HALF, sensitivity=Fraction(3), rho=Fraction(2))
    assert asked == [
        {"grid": HALF, "scale": Fraction(3, 2)},
        {"grid": HALF, "variance": Fraction(9, 4)},
    ]


def test_choices_and_lattice_noise_run() -> None:
    noise = SeededNoise(1)
    assert noise.choose([0, 1000], sensitivity=ONE, epsilon=ONE) == 1
    assert len(noise.gamma_norm([ONE, ONE], grid=HALF, sensitivity=ONE, epsilon=ONE)) == 2
    assert noise.lattice_gaussian([ONE, ONE], grid=HALF, sensitivity=ONE, rho=ONE).shape == (2,)


def test_integers_and_keys() -> None:
    draws = SeededNoise(1).integers(6, size=60_000)
    assert draws.dtype == np.uint64
    assert chi_square(np.bincount(draws.astype(np.int64), minlength=6), np.full(6, 10_000)) > ALPHA
    noise = StreamNoise(RiggedStream([], seed=3))
    keys = {noise.key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {16}


# --- refusals


SPARSE = {"domain_size": 100, "threshold": 3, "sensitivity": ONE, "epsilon": ONE}


@pytest.mark.parametrize("wrong", [Fraction(0), Fraction(-1), 0.5, True, "1", None])
def test_parameters_must_be_positive_and_exact(wrong) -> None:
    noise = SeededNoise(1)
    one = counts_of(1)
    for name in ("sensitivity", "epsilon"):
        settings = {"sensitivity": ONE, "epsilon": ONE, name: wrong}
        with pytest.raises(PlanError, match=name):
            noise.laplace(one, **settings)
        with pytest.raises(PlanError, match=name):
            noise.choose([1], **settings)
        with pytest.raises(PlanError, match=name):
            noise.gamma_norm([ONE], grid=ONE, **settings)
        with pytest.raises(PlanError, match=name):
            noise.sparse_laplace(cells_of(1), one, **{**SPARSE, name: wrong})
    for name in ("sensitivity", "rho"):
        settings = {"sensitivity": ONE, "rho": ONE, name: wrong}
        with pytest.raises(PlanError, match=name):
            noise.gaussian(one, **settings)
        with pytest.raises(PlanError, match=name):
            noise.lattice_gaussian([ONE], grid=ONE, **settings)
    with pytest.raises(PlanError, match="grid"):
        noise.gamma_norm([ONE], grid=wrong, sensitivity=ONE, epsilon=ONE)


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain_size": 0},
        {"domain_size": (1 << 63) + 1},
        {"threshold": -1},
        {"threshold": LIMIT},
        {"threshold": 1.5},
    ],
    ids=str,
)
def test_sparse_settings_out_of_range(wrong: dict[str, object]) -> None:
    with pytest.raises(PlanError, match=next(iter(wrong))):
        SeededNoise(1).sparse_laplace(cells_of(1), counts_of(1), **{**SPARSE, **wrong})


def test_too_many_survivors_are_refused_from_public_facts() -> None:
    with pytest.raises(PlanError, match="Raise the threshold"):
        SeededNoise(1).sparse_laplace(
            cells_of(1), counts_of(1), **{**SPARSE, "domain_size": 1 << 63}
        )


@pytest.mark.parametrize(
    ("cells", "counts"),
    [
        (cells_of(5, 5), counts_of(1, 1)),
        (cells_of(6, 5), counts_of(1, 1)),
        (cells_of(100), counts_of(1)),
        (cells_of(5, 6), counts_of(1)),
        (cells_of(5).astype(np.int64), counts_of(1)),
        (cells_of(5), counts_of(1).astype(float)),
        (cells_of(5).reshape(1, 1), counts_of(1)),
    ],
)
def test_malformed_private_input_is_refused_without_a_word_about_it(
    cells: np.ndarray, counts: np.ndarray
) -> None:
    with pytest.raises(PrivateSideError):
        SeededNoise(1).sparse_laplace(cells, counts, **SPARSE)


def test_wrong_bounds() -> None:
    for bound in (0, (1 << 64) + 1, 2.0):
        with pytest.raises(PlanError, match="bound"):
            SeededNoise(1).integers(bound, size=1)
    with pytest.raises(PlanError, match="size"):
        SeededNoise(1).integers(1, size=-1)
    with pytest.raises(PrivateSideError):
        SeededNoise(1).laplace(np.array([1.5]), sensitivity=ONE, epsilon=ONE)
