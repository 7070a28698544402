"""Alias tables and exact decisions. Statistical tests: false-alarm rate 1e-6, fixed seeds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from sampler_laws import ALPHA, ConstantBits, RiggedStream, chi_square

from dpublish.noise.alias import AliasTable
from dpublish.noise.balls import floor_below, fraction_ball, uniform_is_below
from dpublish.noise.words import SeededStream

LAW = [Fraction(1, 3), Fraction(1, 7), Fraction(1, 1000), Fraction(11, 21) - Fraction(1, 1000)]


def table_of(law: list[Fraction], bits: int) -> AliasTable:
    return AliasTable(lambda: [fraction_ball(p) for p in law], bits=bits)


def mass_in_words(table: AliasTable, symbol: int) -> int:
    """How many of the 2^64 words choose the symbol, counted from the columns."""
    capacity = 1 << (64 - table.columns_log2)
    total = 0
    for column, (threshold, alias) in enumerate(zip(table.thresholds, table.aliases, strict=True)):
        total += int(threshold) * (column == symbol) + (capacity - int(threshold)) * (
            int(alias) == symbol
        )
    return total


@pytest.mark.parametrize("bits", [3, 10, 40, 64])
def test_the_table_holds_the_floors_and_the_residual_the_rest(bits: int) -> None:
    table = table_of(LAW, bits)
    unit = 1 << (64 - bits)
    for symbol, p in enumerate(LAW):
        assert mass_in_words(table, symbol) == unit * int(p * 2**bits)
    rest = 2**bits - sum(int(p * 2**bits) for p in LAW)
    assert mass_in_words(table, table.residual) == unit * rest
    assert 0 < rest <= len(LAW)


@pytest.mark.parametrize("bits", [3, 5, 8, 64])
def test_the_law_is_exact_however_coarse_the_table(bits: int) -> None:
    # At 3 bits the residual takes a quarter of all words. 40,000 draws catch a probability of 1/3
    # that is off by 4 percent.
    draws = table_of(LAW, bits).symbols(SeededStream(bits), 40_000)
    expected = np.array([float(p) for p in LAW]) * draws.size
    counts = np.bincount(draws, minlength=len(LAW))
    assert chi_square(counts, expected) > ALPHA
    wrong = expected * np.array([1.1, 1, 1, 1])
    assert chi_square(counts, wrong / wrong.sum() * draws.size) < ALPHA


def test_kernel_and_single_look_up_agree() -> None:
    table = table_of(LAW, 64)
    words = SeededStream(3).words(2000)
    bulk = table.symbols(RiggedStream(int(w) for w in words), 2000)
    assert [table.symbol(SeededStream(0), int(w)) for w in words] == bulk.tolist()


def test_a_residual_word_follows_the_exact_remainders() -> None:
    # Masses of 64 bits: only a rigged word gets here. Remainders are those of 2^64 p.
    table = table_of(LAW, 64)
    word = next(
        w
        for c in range(1 << table.columns_log2)
        for w in ((c << (64 - table.columns_log2)), ((c + 1) << (64 - table.columns_log2)) - 1)
        if _chosen(table, w) == table.residual
    )
    stream = RiggedStream([word] * 8000, seed=8)
    counts = np.bincount(table.symbols(stream, 8000), minlength=len(LAW))
    remainders = [p * 2**64 - int(p * 2**64) for p in LAW]
    expected = np.array([float(f / sum(remainders)) for f in remainders]) * 8000
    assert chi_square(counts, expected) > ALPHA
    assert chi_square(counts, np.full(4, 2000)) < ALPHA


def _chosen(table: AliasTable, word: int) -> int:
    shift = 64 - table.columns_log2
    column = word >> shift
    return (
        column
        if word & ((1 << shift) - 1) < int(table.thresholds[column])
        else int(table.aliases[column])
    )


class Scripted(SeededStream):
    """Bits as planned."""

    def __init__(self, plan: list[int]) -> None:
        super().__init__(0)
        self.plan = plan

    def bits(self, n: int) -> int:
        return self.plan.pop(0) if n else 0


@pytest.mark.parametrize(("last", "symbol"), [(0, 0), ((1 << 64) - 1, 1)])
def test_a_place_on_an_edge_asks_for_more_bits_of_the_same_number(last: int, symbol: int) -> None:
    # Two bits of 1/3 and 2/3: masses 1 and 2, remainders 1/3 and 2/3. The first 64 bits are those
    # of 1/3 itself.
    table = table_of([Fraction(1, 3), Fraction(2, 3)], 2)
    assert table.masses == [1, 2]
    third = (1 << 64) // 3
    stream = Scripted([third, last])
    assert table.resolve(stream) == symbol
    assert stream.plan == []


def test_probabilities_far_below_the_table_keep_their_place() -> None:
    table = AliasTable(lambda: [1 - 2 * _tiny(), _tiny(), _tiny()])
    assert table.masses == [(1 << 64) - 1, 0, 0]
    assert table.resolve(SeededStream(1)) == 0
    assert table.resolve(ConstantBits(1)) == 2


def _tiny() -> arb:
    return (-arb(1000)).exp()


def test_a_law_above_one_is_refused() -> None:
    with pytest.raises(ArithmeticError):
        table_of([Fraction(2, 3), Fraction(2, 3)], 64)
    with pytest.raises(ArithmeticError):
        table_of([Fraction(1, 8)] * 8, 2)


def test_floor_below_is_never_above() -> None:
    with ctx.workprec(128):
        assert floor_below(arb(7)) == 7
        assert floor_below(arb(22) / 7) == 3
        assert floor_below(arb(1) / 3 * 3) in (0, 1)
        with pytest.raises(ArithmeticError):
            floor_below(arb("nan"))


def test_a_uniform_is_compared_exactly() -> None:
    def third() -> arb:
        return arb(1) / 3

    bits = (1 << 53) // 3
    assert uniform_is_below(SeededStream(1), bits - 1, 53, third)
    assert not uniform_is_below(SeededStream(1), bits + 1, 53, third)
    assert uniform_is_below(ConstantBits(0), bits, 53, third)
    assert not uniform_is_below(ConstantBits(1), bits, 53, third)
    # The level 1 is never reached, the level 0 always.
    assert uniform_is_below(ConstantBits(1), (1 << 53) - 1, 53, lambda: arb(1))
    assert not uniform_is_below(ConstantBits(0), 0, 53, lambda: arb(0))


def test_an_undecided_prefix_has_the_remaining_probability() -> None:
    # One bit of 1/3 leaves 2/3 of [0, 1/2). 20,000 decisions catch an error of 2.5 percentage
    # points.
    stream = SeededStream(5)
    below = sum(uniform_is_below(stream, 0, 1, lambda: arb(1) / 3) for _ in range(20_000))
    assert chi_square(np.array([below, 20_000 - below]), np.array([40_000 / 3, 20_000 / 3])) > ALPHA
