"""At most c rows a unit, by a rule that sees one unit at a time."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

from dpublish.counting.bound import keep_rows
from dpublish.sources.units import join_units

KEY = bytes(range(16))


def shuffled_units(seed: int, rows: int = 3_000, units: int = 400) -> np.ndarray:
    return np.random.default_rng(seed).zipf(1.3, rows) % units


@pytest.mark.parametrize("c", [1, 2, 7, 10**18])
def test_each_unit_keeps_the_smaller_of_c_and_all(c: int) -> None:
    units = shuffled_units(1)
    keep = keep_rows(units, c, KEY)
    sizes, kept = Counter(units.tolist()), Counter(units[keep].tolist())
    assert kept == {unit: min(c, size) for unit, size in sizes.items()}


def test_the_choice_in_one_unit_ignores_every_other_unit() -> None:
    """Stability for a fixed key: remove, add or change other units, and a unit keeps the same of
    its own rows."""
    units = shuffled_units(2)
    for target in [u for u, size in Counter(units.tolist()).items() if size > 3][:20]:
        own = keep_rows(units, 3, KEY)[units == target]
        alone = keep_rows(units[units == target], 3, KEY)
        others_changed = np.where(units == target, units, (units * 7 + 1) % 1_000 + 10_000)
        interleaved = np.ravel(np.column_stack([units, np.full(units.size, -5)]))
        assert np.array_equal(own, alone)
        assert np.array_equal(own, keep_rows(others_changed, 3, KEY)[units == target])
        assert np.array_equal(own, keep_rows(interleaved, 3, KEY)[interleaved == target])


def test_category_numbers_do_not_leak_between_units() -> None:
    texts = [f"u{unit}" for unit in shuffled_units(3)]
    plain = keep_rows(pl.Series(texts), 2, KEY)
    pl.Series([f"u{i}" for i in reversed(range(400))], dtype=pl.Categorical)
    assert np.array_equal(plain, keep_rows(pl.Series(texts, dtype=pl.Categorical), 2, KEY))
    assert np.array_equal(
        plain, keep_rows(pl.Series(texts, dtype=pl.Enum(sorted(set(texts)))), 2, KEY)
    )


def test_one_units_type_does_not_move_the_others() -> None:
    """A single id that is text makes a column of numbers text; nobody else's kept rows may change
    by that."""
    units = pl.Series(shuffled_units(6))
    plain = keep_rows(units, 2, KEY)
    for same in (
        units.cast(pl.String),
        units.cast(pl.Float64),
        units.cast(pl.Int128),
        units.cast(pl.Decimal(20, 2)),
    ):
        assert np.array_equal(plain, keep_rows(same, 2, KEY))
    mixed = join_units([units, pl.Series(["somebody"]), units.cast(pl.Float64)])
    halves = join_units([units, pl.Series([None]), units])
    assert np.array_equal(
        keep_rows(mixed, 2, KEY)[: len(units)], keep_rows(halves, 2, KEY)[: len(units)]
    )
    assert mixed.dtype != halves.dtype


def test_the_key_decides_and_can_be_replayed() -> None:
    units = shuffled_units(4)
    assert np.array_equal(keep_rows(units, 2, KEY), keep_rows(units, 2, KEY))
    assert not np.array_equal(keep_rows(units, 2, KEY), keep_rows(units, 2, bytes(16)))


def test_every_row_of_a_unit_is_equally_likely_to_be_kept() -> None:
    """Chi-square over 10 positions, 20,000 units: false alarm 1e-6; a position favoured by 4% would
    be caught."""
    from scipy.stats import chi2

    units = np.repeat(np.arange(20_000), 10)
    kept = keep_rows(units, 3, KEY).reshape(-1, 10)
    # positions of one unit are drawn without replacement: divide by the variance of that, with 9
    # degrees of freedom
    expected, variance = 20_000 * 0.3, 20_000 * 0.3 * 0.7 * 10 / 9
    statistic = float((((kept.sum(axis=0) - expected) ** 2) / variance).sum())
    assert statistic < chi2.isf(1e-6, 9)
    assert (
        len({row.tobytes() for row in kept}) == 120
    )  # all choices of 3 of 10 occur, so units choose independently


def test_rows_without_a_unit_are_dropped() -> None:
    assert keep_rows(pl.Series(["a", None, "", "  ", "a", " a "]), 3, KEY).tolist() == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]
    assert keep_rows(pl.Series([1.5, float("nan"), None]), 1, KEY).tolist() == [True, False, False]
    assert not keep_rows(pl.Series([[1], [2]]), 1, KEY).any()
    assert not keep_rows(pl.Series([None, None]), 1, KEY).any()
    assert keep_rows(pl.Series([], dtype=pl.String), 1, KEY).size == 0


def test_spellings_of_one_id_are_one_unit() -> None:
    assert keep_rows(pl.Series(["7", " 7", "7.0", "7.00 "]), 1, KEY).sum() == 1
    assert keep_rows(pl.Series([0.0, -0.0]), 1, KEY).sum() == 1


@pytest.mark.parametrize(
    "dtype",
    [
        pl.Int8,
        pl.UInt64,
        pl.Int128,
        pl.Float32,
        pl.String,
        pl.Boolean,
        pl.Date,
        pl.Datetime,
        pl.Binary,
    ],
)
def test_units_of_any_type(dtype: pl.DataType) -> None:
    values = (
        [b"a", b"b", b"a", b"a"]
        if dtype == pl.Binary
        else pl.Series([0, 1, 0, 0]).cast(dtype).to_list()
    )
    keep = keep_rows(pl.Series(values, dtype=dtype), 2, KEY)
    assert keep[1]
    assert keep.sum() == 3


def test_batches_of_different_types_join_without_splitting_a_unit() -> None:
    joined = join_units(
        [
            pl.Series([1, 2]),
            pl.Series(["2", None, "x"]),
            pl.Series([2.0]),
            pl.Series([None]),
            pl.Series([], dtype=pl.Date),
        ]
    )
    assert joined.to_list() == ["1", "2", "2", None, "x", "2", None]
    assert join_units([pl.Series([None]), pl.Series([3])]).to_list() == [None, 3]
    assert join_units([pl.Series([2**64 - 1], dtype=pl.UInt64), pl.Series([-1])]).to_list() == [
        str(2**64 - 1),
        "-1",
    ]
    assert len(join_units([])) == 0


def test_a_bad_key_or_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        keep_rows([1], 1, b"short")
    with pytest.raises(ValueError, match="at least 1"):
        keep_rows([1], 0, KEY)
