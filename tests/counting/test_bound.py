"""At most c rows per unit, by a rule that sees one unit at a time and no order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.counting import bound
from dpublish.counting.bound import (
    bounded_rows,
    codes_said,
    lists_said,
    numbers_said,
    pack_codes,
    unit_hashes,
    unpack_codes,
)
from dpublish.sources.units import join_units, unit_values

KEY = bytes(range(16))


def keep_rows(units: Any, c: int, key: bytes, said: Any = None) -> np.ndarray:
    """Rows of a unit that all say something else, unless told what they say."""
    series = units if isinstance(units, pl.Series) else pl.Series(units)
    if said is None:
        seen: Counter[str] = Counter()
        said = []
        for unit in (
            series.cast(pl.String, strict=False) if not series.dtype.is_nested() else series
        ):
            seen[str(unit)] += 1
            said.append(seen[str(unit)])
    numbers = numbers_said(np.array(said, dtype=np.uint64))
    return bound.keep_rows(series, numbers, c, key)


def sip(data: bytes, key: bytes) -> int:
    """SipHash-2-4 by the book."""
    mask = (1 << 64) - 1
    low, high = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]

    def turned(x: int, b: int) -> int:
        return ((x << b) | (x >> (64 - b))) & mask

    def rounds(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & mask
            v[2] = (v[2] + v[3]) & mask
            v[1], v[3] = turned(v[1], 13) ^ v[0], turned(v[3], 16) ^ v[2]
            v[0] = turned(v[0], 32)
            v[2] = (v[2] + v[1]) & mask
            v[0] = (v[0] + v[3]) & mask
            v[1], v[3] = turned(v[1], 17) ^ v[2], turned(v[3], 21) ^ v[0]
            v[2] = turned(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_hash_is_siphash() -> None:
    assert sip(bytes(range(15)), KEY) == 0xA129CA6149BE45E5  # the test vector of its authors
    texts = ["", "a", "12345678", "unit 123456789", "\u00e9" * 40]
    assert unit_hashes(pl.Series(texts), KEY).tolist() == [sip(x.encode(), KEY) for x in texts]


def test_the_rule_is_the_one_of_the_proof() -> None:
    """Held against the definition, word by word: rows that say the same are numbered."""
    rng = np.random.default_rng(8)
    units, said = rng.integers(0, 12, 400), rng.integers(0, 9, (400, 2)) * (1 << 40)
    flat = said.astype(np.uint64)
    keep = bound.keep_rows(
        pl.Series(units),
        lambda rows: (flat[rows].ravel(), np.arange(rows.size + 1, dtype=np.int64) * 2),
        5,
        KEY,
    )
    for unit in range(12):
        rows = np.flatnonzero(units == unit)
        copies: Counter[bytes] = Counter()
        drawn = []
        for row in rows:
            content = flat[row].astype("<u8").tobytes()
            name = sip(str(unit).encode(), KEY).to_bytes(8, "little")
            mixed = sip(name + content, KEY).to_bytes(8, "little")
            drawn.append((sip(mixed + copies[content].to_bytes(8, "little"), KEY), content))
            copies[content] += 1
        expected = sorted(content for _, content in sorted(drawn)[:5])
        assert sorted(flat[row].astype("<u8").tobytes() for row in rows[keep[rows]]) == expected


def test_the_order_of_rows_does_not_matter() -> None:
    units, said = shuffled_units(7), np.random.default_rng(9).integers(0, 5, 3_000)
    order = np.random.default_rng(10).permutation(3_000)
    kept, again = (
        sorted(zip(u[k].tolist(), s[k].tolist(), strict=True))
        for u, s, k in (
            (units, said, keep_rows(units, 3, KEY, said)),
            (units[order], said[order], keep_rows(units[order], 3, KEY, said[order])),
        )
    )
    assert kept == again


def test_rows_that_say_the_same_keep_their_weight() -> None:
    """Of 99 equal rows and one other, the other is among 10 kept in a tenth of 2,000 units: false
    alarm 1e-6 at 5 standard deviations; rows taken once per content would keep it always."""
    units, said = np.repeat(np.arange(2_000), 100), np.tile(np.arange(100) == 0, 2_000)
    kept = said[keep_rows(units, 10, KEY, said)].sum()
    assert abs(kept - 200) < 5 * np.sqrt(180)


def test_lists_are_chosen_by_their_items() -> None:
    items, offsets = np.array([1, 2, 1, 2, 3, 7]), np.array([0, 2, 4, 5, 6])
    units = pl.Series(["u"] * 4)
    first = bound.keep_rows(units, lists_said(items, offsets), 2, KEY)
    swapped = bound.keep_rows(
        units, lists_said(np.array([7, 3, 1, 2, 1, 2]), np.array([0, 1, 2, 4, 6])), 2, KEY
    )
    lists = [(1, 2), (1, 2), (3,), (7,)]
    assert sorted(lists[i] for i in np.flatnonzero(first)) == sorted(
        lists[::-1][i] for i in np.flatnonzero(swapped)
    )


def test_codes_are_packed_into_words_and_back() -> None:
    shape = (300, 1 << 31, 1 << 31, 2, 70_000, 5)
    rng = np.random.default_rng(3)
    codes = [rng.integers(0, size, 50).astype(np.uint32) for size in shape]
    words = pack_codes(codes, shape)
    assert words.shape == (50, 2)
    assert all(np.array_equal(a, b) for a, b in zip(codes, unpack_codes(words, shape), strict=True))
    small = codes_said(codes[:2], shape[:2])(np.arange(50))
    assert small[0].tolist() == [
        int(a) * (1 << 31) + int(b) for a, b in zip(*codes[:2], strict=True)
    ]


@pytest.mark.parametrize("held", [1, 50, 1 << 24])
def test_units_that_do_not_fit_are_read_in_several_passes(
    held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = pl.Series([f"u{unit}" for unit in shuffled_units(5)])
    said = np.arange(3_000, dtype=np.uint64)
    passes = []

    def read() -> Any:
        passes.append(1)
        for start in range(0, 3_000, 700):
            yield [said[start : start + 700]], units[start : start + 700]

    def kept() -> list[int]:
        pieces = bounded_rows(read, lambda columns: numbers_said(columns[0]), 2, KEY)
        return sorted(int(x) for (piece,) in pieces for x in piece)

    expected = kept()
    passes.clear()
    monkeypatch.setattr(bound, "HELD_ROWS", held)
    monkeypatch.setattr(bound, "_MAX_PARTS", 64)
    assert kept() == expected
    assert (len(passes) > 1) == (held < 3_000)


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
    said = np.arange(len(mixed))
    assert np.array_equal(
        keep_rows(mixed, 2, KEY, said)[: len(units)], keep_rows(halves, 2, KEY, said)[: len(units)]
    )
    assert mixed.dtype != halves.dtype


@pytest.mark.parametrize(("kind", "bits"), [(pl.Float16, 11), (pl.Float32, 24), (pl.Float64, 53)])
def test_a_number_that_may_be_several_ids_rounded_to_one_names_nobody(
    kind: pl.DataType, bits: int
) -> None:
    ids = pl.Series([2**bits - 1, 2**bits, 2**bits + 1, -(2**bits), 1], dtype=pl.Int64)
    named = unit_values(ids.cast(kind))
    assert named.cast(pl.Int64).to_list() == [2**bits - 1, None, None, None, 1]
    assert unit_values(named).equals(named)


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
