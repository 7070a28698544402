"""Lattice noise. Statistical tests: false-alarm rate 1e-6 each, fixed seeds, so no run-to-run
change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from counted_words import ALPHA, TOP, RiggedStream, p_value
from flint import arb, ctx
from scipy.stats import gamma, kstest, norm

from dpublish.errors import InputError
from dpublish.noise import lattice
from dpublish.noise.base import saturated
from dpublish.noise.lattice import gamma_norm_multiples, gaussian_multiples
from dpublish.noise.words import SeededStream, WordStream


def line_p_value(
    sample: Sequence[int],
    cdf: Callable[[float], float],
    *,
    value: Fraction,
    grid: Fraction,
    reach: int,
) -> float:
    """Against P(k) = F((k + 1/2) grid - value) - F((k - 1/2) grid - value), cells beyond `reach`
    joined to the last ones."""
    edges = [float((k + Fraction(1, 2)) * grid - value) for k in range(-reach, reach)]
    heights = [0.0, *(cdf(x) for x in edges), 1.0]
    counts = Counter(min(max(int(k), -reach), reach) for k in sample)
    return p_value([counts[k] for k in range(-reach, reach + 1)], list(np.diff(heights)))


def laplace_cdf(scale: float) -> Callable[[float], float]:
    return lambda x: 0.5 * math.exp(x / scale) if x < 0 else 1 - 0.5 * math.exp(-x / scale)


def test_one_dimensional_gamma_norm_is_rounded_laplace() -> None:
    # The same sample must reject the law with the scale ten per cent larger (power 0.9996 at 12,000
    # draws).
    stream, value, grid, scale = SeededStream(41), Fraction(1, 3), Fraction(2), Fraction(7, 3)
    sample = [
        int(gamma_norm_multiples(stream, [value], grid=grid, scale=scale)[0]) for _ in range(12_000)
    ]
    assert line_p_value(sample, laplace_cdf(float(scale)), value=value, grid=grid, reach=4) > ALPHA
    assert (
        line_p_value(sample, laplace_cdf(1.1 * float(scale)), value=value, grid=grid, reach=4)
        < ALPHA
    )


def plane_law(scale: float, reach: int) -> list[list[float]]:
    """P(k < z < k + 1 in both coordinates) for density exp(-|z| / scale) / (2 pi scale^2), by
    Gauss-Legendre in each cell.

    The kink of |z| sits at a corner of four cells. Splitting those cells towards it leaves an error
    below 1e-7.
    """
    nodes, weights = np.polynomial.legendre.leggauss(24)

    def square(x: float, y: float, side: float) -> float:
        u, v = np.meshgrid(x + side * (nodes + 1) / 2, y + side * (nodes + 1) / 2)
        return float(
            np.sum(np.outer(weights, weights) * np.exp(-np.hypot(u, v) / scale))
            * side**2
            / (8 * math.pi * scale**2)
        )

    def at_origin(side: float) -> float:
        if side < 1e-4:
            return square(0, 0, side)
        half = side / 2
        return (
            square(half, 0, half)
            + square(0, half, half)
            + square(half, half, half)
            + at_origin(half)
        )

    fold = [
        [at_origin(1.0) if i == j == 0 else square(i, j, 1.0) for j in range(reach)]
        for i in range(reach)
    ]
    return [
        [fold[i if i >= 0 else -1 - i][j if j >= 0 else -1 - j] for j in range(-reach, reach)]
        for i in range(-reach, reach)
    ]


def test_two_dimensional_gamma_norm_has_its_cell_probabilities() -> None:
    # Values at half a grid step put cell boundaries at the integers. The scale wrong by ten per
    # cent must be rejected (power 0.999), and so must independent Laplace coordinates, which have
    # the same privacy idea but another law.
    stream, scale, grid, reach = SeededStream(42), Fraction(4, 5), Fraction(1, 7), 3
    values = [grid / 2, -grid / 2]
    counts: Counter[tuple[int, int]] = Counter()
    n = 9_000
    for _ in range(n):
        x, y = gamma_norm_multiples(stream, values, grid=grid, scale=scale * grid)
        counts[int(x) - 1, int(y)] += 1

    def against(law: list[list[float]]) -> float:
        cells = [(i, j) for i in range(-reach, reach) for j in range(-reach, reach)]
        inside = [counts[cell] for cell in cells]
        probabilities = [law[i + reach][j + reach] for i, j in cells]
        return p_value([*inside, n - sum(inside)], [*probabilities, 1 - sum(probabilities)])

    assert against(plane_law(0.8, reach)) > ALPHA
    assert against(plane_law(0.88, reach)) < ALPHA
    side = np.diff([laplace_cdf(0.8)(x) for x in range(-reach, reach + 1)])
    assert against(np.outer(side, side).tolist()) < ALPHA


@pytest.mark.parametrize("d", [3, 4, 7])
def test_gamma_norm_has_the_right_radius_and_a_uniform_direction(d: int) -> None:
    # Kolmogorov-Smirnov at 2,000 draws; catches a wrong dimension and a scale wrong by twenty per
    # cent.
    stream, grid = SeededStream(43), Fraction(1, 10**6)
    draws = (
        np.array(
            [
                gamma_norm_multiples(stream, [Fraction(0)] * d, grid=grid, scale=Fraction(2))
                for _ in range(2000)
            ]
        )
        / 1e6
    )
    radius = np.linalg.norm(draws, axis=1)
    assert kstest(radius, gamma(d, scale=2).cdf).pvalue > ALPHA
    assert kstest(radius, gamma(d, scale=2.4).cdf).pvalue < ALPHA
    assert kstest(radius, gamma(d + 1, scale=2).cdf).pvalue < ALPHA
    # The square of one coordinate of a uniform direction is Beta(1/2, (d - 1)/2); each coordinate
    # and each sign alike.
    for k in range(d):
        assert kstest((draws[:, k] / radius) ** 2, "beta", args=(0.5, (d - 1) / 2)).pvalue > ALPHA
        assert (
            p_value([int(np.sum(draws[:, k] > 0)), int(np.sum(draws[:, k] < 0))], [0.5, 0.5])
            > ALPHA
        )


@pytest.mark.parametrize("grid", [Fraction(1, 2), Fraction(5)])
def test_gaussian_has_the_law_of_a_rounded_normal(grid: Fraction) -> None:
    # Must reject the variance ten per cent larger. A grid coarser than the noise is as exact as a
    # fine one.
    value, variance, n = Fraction(17, 11), Fraction(9, 2), 60_001
    sample = gaussian_multiples(
        SeededStream(44), [value] * n, grid=grid, variance=variance
    ).tolist()
    right, wrong = norm(scale=math.sqrt(variance)).cdf, norm(scale=math.sqrt(1.1 * variance)).cdf
    assert line_p_value(sample, right, value=value, grid=grid, reach=25) > ALPHA
    assert line_p_value(sample, wrong, value=value, grid=grid, reach=25) < ALPHA


def test_gaussian_coordinates_of_one_pair_are_independent() -> None:
    # Catches a correlation of 0.05 between the two signs or the two sizes of a pair.
    draws = gaussian_multiples(
        SeededStream(45), [Fraction(0)] * 80_000, grid=Fraction(1), variance=Fraction(1)
    ).reshape(-1, 2)
    cells = np.clip(draws, -2, 2) + 2
    table = np.zeros((5, 5), dtype=int)
    np.add.at(table, (cells[:, 0], cells[:, 1]), 1)
    side = np.diff(norm.cdf([-np.inf, -1.5, -0.5, 0.5, 1.5, np.inf]))
    assert p_value(table.ravel().tolist(), np.outer(side, side).ravel().tolist()) > ALPHA


def both(stream: WordStream, values: list[Fraction], grid: Fraction) -> list[list[int]]:
    return [
        gamma_norm_multiples(stream, values, grid=grid, scale=Fraction(5, 3)),
        gaussian_multiples(stream, values, grid=grid, variance=Fraction(5, 3)).tolist(),
    ]


def test_float_bounds_and_ball_arithmetic_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        (seed, [Fraction(k * k - 50, 7) for k in range(d)], grid)
        for seed, (d, grid) in enumerate(
            (d, grid)
            for d in (1, 2, 3, 20, 61)
            for grid in (Fraction(1, 3), Fraction(100), Fraction(1, 2**30))
            for _ in range(6)
        )
    ]
    fast = [both(SeededStream(seed), values, grid) for seed, values, grid in cases]
    monkeypatch.setattr(
        lattice, "_float_floors", lambda rests, draw: ([0] * len(rests), list(range(len(rests))))
    )
    assert [both(SeededStream(seed), values, grid) for seed, values, grid in cases] == fast


def test_float_bounds_settle_nearly_everything() -> None:
    draw = lattice._GammaNorm(SeededStream(46), 2001, Fraction(2**20))
    floors, doubtful = lattice._float_floors([Fraction(k, 2001) for k in range(2001)], draw)
    assert len(floors) == 2001
    assert len(doubtful) <= 2


def exact_normal(length: int, turn: int, bits: int) -> arb:
    """The first normal of a pair, at the left ends of its two uniforms."""
    return (-2 * arb((length, -bits)).log()).sqrt() * (2 * arb((turn, -bits))).cos_pi()


def as_fraction(exact: arb) -> Fraction:
    mantissa, exponent = exact.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def test_a_straddled_boundary_is_settled_by_more_bits_of_the_same_uniforms() -> None:
    # The value is chosen so that value + noise sits on a rounding boundary as far as 64 bits can
    # tell.
    answers = Counter()
    for seed in range(60):
        length, turn = (int(w) for w in SeededStream(seed).words(2))
        with ctx.workprec(300):
            middle = exact_normal(2 * length + 1, 2 * turn + 1, 65)
            value = Fraction(1, 2) - as_fraction(middle)
        stream = RiggedStream([length, turn], seed=1000 + seed)
        answer = int(gaussian_multiples(stream, [value], grid=Fraction(1), variance=Fraction(1))[0])
        again = RiggedStream([length, turn], seed=1000 + seed)
        again.words(1)
        again.words(1)
        longer = [(word << 64) | again.bits(64) for word in (length, turn)]
        assert stream.drawn == 4
        with ctx.workprec(300):
            real = (
                exact_normal(longer[0], longer[1], 128)
                + arb(value.numerator) / arb(value.denominator)
                - 0.5
            )
            assert (real > 0) == (answer == 1)
            assert (real < 0) == (answer == 0)
        answers[answer] += 1
    assert min(answers[0], answers[1]) > 10


def test_a_straddled_gamma_norm_refines_all_its_uniforms() -> None:
    # With the first normal positive, Z = -scale * log W in one dimension, where W is the third
    # uniform.
    positive = 1 << 60
    for seed in range(20):
        wait = int(SeededStream(seed).words(1)[0])
        with ctx.workprec(300):
            value = Fraction(1, 2) + as_fraction(arb((2 * wait + 1, -65)).log())
        stream = RiggedStream([1 << 63, positive, wait], seed=2000 + seed)
        answer = int(gamma_norm_multiples(stream, [value], grid=Fraction(1), scale=Fraction(1))[0])
        assert stream.drawn == 6
        again = RiggedStream([1 << 63, positive, wait], seed=2000 + seed)
        for _ in range(3):
            again.words(1)
        again.words(2)
        longer = (wait << 64) | again.bits(64)
        with ctx.workprec(300):
            real = -arb((longer, -128)).log() + arb(value.numerator) / arb(value.denominator) - 0.5
            assert (real > 0) == (answer == 1)
            assert (real < 0) == (answer == 0)


@pytest.mark.parametrize("word", [0, 1, TOP])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_extreme_words_end_in_an_answer(word: int, d: int) -> None:
    # U = 0... or U = 1...: log U or its square root is not yet bounded, so more bits must be drawn
    # and nothing may fail.
    for function, extra in (
        (gamma_norm_multiples, {"scale": Fraction(1)}),
        (gaussian_multiples, {"variance": Fraction(1)}),
    ):
        answer = function(
            RiggedStream([word] * (3 * d + 2)), [Fraction(0)] * d, grid=Fraction(1, 10**6), **extra
        )
        assert len(answer) == d
        assert np.all(np.abs(answer) < 10**9)


def test_a_grid_far_below_float_precision_is_exact_too() -> None:
    # Same stream, same first bits. The fine grid draws more bits, and the coarse answer must hold
    # for all continuations.
    values = [Fraction(k, 3) for k in range(5)]
    coarse, fine = Fraction(1, 2**10), Fraction(1, 2**57)
    for seed in range(10):
        for function, size in ((gamma_norm_multiples, "scale"), (gaussian_multiples, "variance")):
            extra = {size: Fraction(5, 3)}
            rough = list(map(int, function(SeededStream(seed), values, grid=coarse, **extra)))
            sharp = list(map(int, function(SeededStream(seed), values, grid=fine, **extra)))
            for a, b in zip(rough, sharp, strict=True):
                assert abs(a * coarse - b * fine) <= (coarse + fine) / 2


def test_answers_beyond_int64_stop_at_its_ends_when_they_are_published() -> None:
    values = [Fraction(10) ** 40, Fraction(-10) ** 41, Fraction(0)]
    gamma, gauss = both(SeededStream(47), values, Fraction(1, 3))
    assert abs(gamma[0] - 3 * 10**40) + abs(gamma[1] + 3 * 10**41) < 10**6
    for multiples in (saturated(gamma).tolist(), gauss):
        assert multiples[:2] == [2**63 - 1, -(2**63)]
        assert abs(multiples[2]) < 1000
    huge = gaussian_multiples(
        SeededStream(48), [Fraction(0)] * 4, grid=Fraction(1, 10**400), variance=Fraction(10) ** 400
    )
    assert set(huge.tolist()) <= {2**63 - 1, -(2**63)}
    nothing = gamma_norm_multiples(
        SeededStream(49), [Fraction(7)] * 4, grid=Fraction(1), scale=Fraction(1, 10**400)
    )
    assert nothing == [7] * 4


def test_gamma_norm_noise_beyond_int64_is_rounded_as_finely_as_any_other() -> None:
    # Objective perturbation computes with the draw: its proof needs |b - rounded b| <= grid / 2 in
    # every coordinate, always.
    coarse, fine = Fraction(1, 2**10), Fraction(1, 2**90)
    for seed in range(5):
        rough, sharp = (
            gamma_norm_multiples(
                SeededStream(seed), [Fraction(0)] * 3, grid=grid, scale=Fraction(5)
            )
            for grid in (coarse, fine)
        )
        assert max(map(abs, sharp)) > 2**64
        for a, b in zip(rough, sharp, strict=True):
            assert abs(a * coarse - b * fine) <= (coarse + fine) / 2


def test_integers_are_values_too_and_no_values_give_no_answers() -> None:
    whole, ratio = (
        both(SeededStream(50), [3, -4], Fraction(1, 9)),
        both(SeededStream(50), [Fraction(3), Fraction(-4)], Fraction(1, 9)),
    )
    assert whole == ratio
    for answers in both(SeededStream(51), [], Fraction(1)):
        assert answers == []


def test_a_seed_repeats_its_answers() -> None:
    values = [Fraction(1, 3)] * 9
    assert both(SeededStream(52), values, Fraction(1, 64)) == both(
        SeededStream(52), values, Fraction(1, 64)
    )
    assert both(SeededStream(52), values, Fraction(1, 64)) != both(
        SeededStream(53), values, Fraction(1, 64)
    )


def test_wrong_arguments_are_refused() -> None:
    one = [Fraction(1)]
    for grid, size in (
        (Fraction(0), Fraction(1)),
        (Fraction(1), Fraction(0)),
        (Fraction(-1), Fraction(1)),
    ):
        with pytest.raises(InputError):
            gamma_norm_multiples(SeededStream(0), one, grid=grid, scale=size)
        with pytest.raises(InputError):
            gaussian_multiples(SeededStream(0), one, grid=grid, variance=size)
    with pytest.raises(InputError):
        gaussian_multiples(SeededStream(0), [0.5], grid=Fraction(1), variance=Fraction(1))
