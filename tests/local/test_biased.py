"""Bits eight at a time: the exact law at every stage of settling, compiled and plain versions
alike, counting."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dpublish.local import UnaryEncoding, unary
from dpublish.local.coins import DeviceCoins
from dpublish.local.unary import BiasedBits, count_set_bits, put_bits
from dpublish.noise.enumerator import Enumerator
from dpublish.noise.source import SeededNoise
from local.subjects import FixedCoins


@pytest.mark.parametrize(
    ("ones", "bits", "width", "stages"),
    [
        (5, 4, 3, (12, 48)),
        (7, 5, 3, (6, 48)),
        (3, 4, 4, (4, 5)),
        (1, 6, 2, (3, 4)),
        (31, 6, 2, (2, 2)),
        (9, 5, 2, (16, 48)),
    ],
)
def test_every_bit_is_independent_and_has_its_exact_probability(
    ones: int, bits: int, width: int, stages: tuple[int, int]
) -> None:
    """Enumerated, with so few first and second bits that draws are settled at the first, second and
    last stage."""
    drawn = BiasedBits(ones, bits, width=width, first_bits=stages[0], second_bits=stages[1])
    found = Enumerator(max_branches=200_000).law(
        lambda noise, _: int(drawn.draw(noise, 1)[0]), None
    )
    one = Fraction(ones, 1 << bits)
    stated = {
        b: one ** b.bit_count() * (1 - one) ** (width - b.bit_count()) for b in range(1 << width)
    }
    assert {int(outcome[1]): mass for outcome, mass in found.items()} == stated


@pytest.mark.parametrize("ones", [1, 1155120417, (1 << 31) - 1])
def test_the_edges_of_full_sized_draws(ones: int) -> None:
    """Just below and at the beginning of every pattern, with all 256 bits given: the pattern
    changes exactly there."""
    bits = BiasedBits(ones, 32)
    for pattern, start in list(enumerate(bits._starts))[1::23]:
        for value, wanted in ((start - 1, pattern - 1), (start, pattern)):
            first, second = value >> 240, (value >> 192) & ((1 << 48) - 1)
            last = [(value >> shift) & ((1 << 64) - 1) for shift in (128, 64, 0)]
            assert bits.draw(FixedCoins([first, second, *last]), 1).tolist() == [wanted]


def test_compiled_and_plain_versions_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = BiasedBits(1155120417, 32)
    size = 300_000
    fast = bits.draw(SeededNoise(5), size)
    rows = fast.reshape(-1, 12)
    places = np.arange(len(rows), dtype=np.uint64) % np.uint64(90)
    values = (np.arange(len(rows)) % 3 == 0).astype(np.uint8)
    changed = rows.copy()
    put_bits(changed, places, values)
    counts = count_set_bits(changed, 91)
    monkeypatch.setattr(unary, "_kernels", lambda: None)
    assert (bits.draw(SeededNoise(5), size) == fast).all()
    again = rows.copy()
    put_bits(again, places, values)
    assert (again == changed).all()
    assert (count_set_bits(changed, 91) == counts).all()
    assert (
        ((changed[np.arange(len(rows)), places // np.uint64(8)] >> (places % np.uint64(8))) & 1)
        == values
    ).all()


def test_bytes_of_a_long_draw_follow_the_law() -> None:
    """Chi-square over the 256 patterns of 500,000 bytes, false alarm 1e-6, fixed seed; a bit 1 %
    too likely is caught."""
    people, ones = 500_000, 1155120417
    counts = np.bincount(BiasedBits(ones, 32).draw(SeededNoise(9), people), minlength=256)

    def tail(one: float) -> float:
        set_bits = np.array([pattern.bit_count() for pattern in range(256)])
        expected = people * one**set_bits * (1 - one) ** (8 - set_bits)
        return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 255))

    assert tail(ones / 2**32) > 1e-6
    assert tail(1.01 * ones / 2**32) < 1e-6


@pytest.mark.parametrize("levels", [3, 8, 9, 64, 1000])
def test_reports_of_many_people(levels: int) -> None:
    """Spare bits are never set; the shares of set bits are those stated (5 standard errors: false
    alarm below 1e-6 each)."""
    randomizer = UnaryEncoding(levels, 1)
    people = 20_000
    reports = randomizer.randomize(np.full(people, levels - 1), coins=SeededNoise(levels))
    counts = randomizer.count(randomizer.check_reports(reports))
    for seen, chance in ((counts[-1], randomizer.hit), (counts[0], randomizer.miss)):
        p = float(chance)
        assert abs(seen - people * p) < 5 * (people * p * (1 - p)) ** 0.5


def test_large_draws_of_a_device_are_fresh_and_uniform() -> None:
    """A cipher fills in: two draws differ, and bytes are uniform (chi-square, false alarm 1e-9, not
    seeded)."""
    one, other = (DeviceCoins().integers(1 << 64, size=1 << 17) for _ in range(2))
    assert not (one == other).any()
    counts = np.bincount(one.view(np.uint8), minlength=256)
    assert chi2.sf(((counts - 4096) ** 2 / 4096).sum(), 255) > 1e-9


def test_a_device_needs_numpy_alone() -> None:
    """Reports of all kinds without numba, cryptography or polars, however many people."""
    program = """
import sys
for name in ("numba", "cryptography", "polars", "scipy", "flint", "sqlalchemy"):
    sys.modules[name] = None
from dpublish.local import UnaryEncoding, HadamardResponse
one = UnaryEncoding(1024, 1)
assert len(one.randomize_one(7)) == 256
many = one.randomize([7] * 3000)
assert abs(one.aggregate(many).of("7").value - 3000) < 1000
HadamardResponse(16, 1).randomize([3] * 20000)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
