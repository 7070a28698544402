"""The coin has its exact law, word by word, and the device's integers are uniform."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpublish.errors import InputError
from dpublish.local.coins import Coin, Coins, DeviceCoins
from dpublish.noise.source import SeededNoise, SystemNoise
from local.subjects import FixedCoins


@pytest.mark.parametrize("categories", [2, 3, 7])
@pytest.mark.parametrize("bits", [5, 8, 12])
def test_every_word_lands_where_the_law_says(categories: int, bits: int) -> None:
    coin = Coin(categories, Fraction(1), bits)
    steps = coin.draw(FixedCoins(list(range(1 << bits))), 1 << bits)
    counts = np.bincount(steps.astype(np.int64), minlength=categories)
    assert [Fraction(int(count), 1 << bits) for count in counts] == [coin.truth] + [coin.other] * (
        categories - 1
    )


@pytest.mark.parametrize("categories", [2, 3, 1024])
def test_the_edges_of_a_64_bit_coin(categories: int) -> None:
    coin = Coin(categories, Fraction(1), 64)
    start, other = int(coin.truth * (1 << 64)), int(coin.other * (1 << 64))
    words = [0, start - 1, start, start + other - 1, (1 << 64) - 1]
    second = 2 if categories > 2 else 1
    assert coin.draw(FixedCoins(words), 5).tolist() == [0, 0, 1, 1, categories - 1]
    if categories > 2:
        assert coin.draw(FixedCoins([start + other]), 1).tolist() == [second]


@pytest.mark.parametrize(
    "source", [DeviceCoins(), SystemNoise(), SeededNoise(3)], ids=lambda s: type(s).__name__
)
def test_any_noise_and_the_device_are_coins(source: Coins) -> None:
    for bound in (1, 2, 3, 10, 256, 1031**2, 1 << 32, (1 << 63) + 5, 1 << 64):
        drawn = source.integers(bound, size=200, label="test")
        assert drawn.dtype == np.uint64
        assert drawn.shape == (200,)
        assert int(drawn.max()) < bound
        if bound >= 256:
            assert np.unique(drawn).size > 50


@pytest.mark.parametrize("bound", [3, 7, 16, 100])
def test_device_integers_are_uniform(bound: int) -> None:
    """Chi-square, false alarm 1e-9 a run (not seeded); a value 10 % too likely among 16 would be
    caught."""
    drawn = DeviceCoins().integers(bound, size=200_000)
    counts = np.bincount(drawn.astype(np.int64), minlength=bound)
    expected = 200_000 / bound
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), bound - 1) > 1e-9


@pytest.mark.parametrize("bound", [0, -1, (1 << 64) + 1])
def test_bounds_are_checked(bound: int) -> None:
    with pytest.raises(InputError):
        DeviceCoins().integers(bound, size=1)
