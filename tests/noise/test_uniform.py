"""Uniform integers. Statistical tests: false-alarm rate 1e-6, fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest
from sampler_laws import ALPHA, RiggedStream, chi_square

from dpublish.errors import InputError
from dpublish.noise.words import SeededStream, high_product, uniform_below


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 1 << 32, (1 << 63) + 1, (1 << 64) - 1, 1 << 64])
def test_draws_are_uniform(bound: int) -> None:
    # 100,000 draws in at most 50 equal cells: catches a cell that is off by 15 percent.
    draws = uniform_below(SeededStream(1), bound, 100_000)
    assert int(draws.max()) < bound
    cells = min(bound, 50)
    edges = [-(-k * bound // cells) for k in range(cells + 1)]
    below = np.searchsorted(np.sort(draws), np.array(edges[1:-1], dtype=np.uint64))
    observed = np.diff(np.concatenate([[0], below, [draws.size]]))
    expected = np.diff(np.array(edges, dtype=object)) / bound * draws.size
    assert chi_square(observed, expected) > ALPHA


def test_a_biased_law_is_rejected() -> None:
    draws = uniform_below(SeededStream(1), 10, 100_000)
    counts = np.bincount(draws.astype(np.int64), minlength=10)
    assert chi_square(counts, 100_000 * np.array([0.11, *[0.89 / 9] * 9])) < ALPHA


@pytest.mark.parametrize("bound", [3, 10, (1 << 63) + 1])
def test_exactly_the_surplus_words_are_drawn_again(bound: int) -> None:
    # Each value owns the words that map to it; the first of a longer run is the surplus word.
    for value in (0, 1, 2, bound - 1):
        first = -(-(value << 64) // bound)
        run = -(-((value + 1) << 64) // bound) - first
        surplus = run > (1 << 64) // bound
        stream = RiggedStream([first], seed=4)
        draw = int(uniform_below(stream, bound, 1)[0])
        expected = int(uniform_below(RiggedStream([], seed=4), bound, 1)[0]) if surplus else value
        assert draw == expected
        if run > 1:
            assert int(uniform_below(RiggedStream([first + 1]), bound, 1)[0]) == value


def test_high_product_is_exact() -> None:
    words = [
        0,
        1,
        (1 << 32) - 1,
        1 << 32,
        (1 << 64) - 1,
        *(int(w) for w in SeededStream(2).words(50)),
    ]
    for a in words:
        for b in words:
            assert int(high_product(np.uint64(a), np.uint64(b))) == (a * b) >> 64


def test_bounds_of_any_size() -> None:
    bound = 3 << 200
    stream = SeededStream(3)
    draws = [stream.below(bound) for _ in range(6000)]
    assert chi_square(np.bincount([d >> 200 for d in draws], minlength=3), np.full(3, 2000)) > ALPHA


def test_wrong_bounds() -> None:
    for bound in (0, (1 << 64) + 1):
        with pytest.raises(InputError):
            uniform_below(SeededStream(1), bound, 1)
