"""Encoding against a slow reference that reads one cell at a time."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import Encoder, encode_frame
from dpublish.declare.spelling import BLANKS
from dpublish.errors import SchemaError

NUMBER = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity|nan)",
    re.IGNORECASE,
)
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ].*)?", re.DOTALL)


class Missing(Exception):
    """The cell holds no value."""


def reference(axis: Axis, cell: Any, dtype: pl.DataType) -> int | None:
    """The code of one cell, None for a dropped row."""
    try:
        place = _bin(axis, _number(axis, cell)) if axis.numeric else _level(axis, cell, dtype)
    except Missing:
        return axis.missing_code if axis.missing else axis.other_code
    if place == "below" or place == "above":
        if axis.outside == "clip":
            return 0 if place == "below" else axis.base - 1
        return axis.other_code
    assert isinstance(place, int)
    return place


def _bin(axis: Axis, value: float | int) -> int | str:
    if value < axis.edges[0]:
        return "below"
    for code in range(axis.base):
        if value < axis.edges[code + 1]:
            return code
    return axis.base - 1 if axis.kind == "real" and value == axis.edges[-1] else "above"


def _number(axis: Axis, cell: Any) -> float | int:
    if isinstance(cell, decimal.Decimal):
        cell = format(cell, "f")
    if axis.kind == "date":
        if isinstance(cell, dt.date):
            return cell.toordinal()
        if isinstance(cell, str) and (found := DATE.fullmatch(cell.strip(BLANKS))):
            try:
                return dt.date(*(int(part) for part in found.groups())).toordinal()
            except ValueError:
                raise Missing from None
        raise Missing
    if isinstance(cell, str):
        text = cell.strip(BLANKS)
        text = {"true": "1", "false": "0"}.get(text.lower(), text)
        if not NUMBER.fullmatch(text):
            raise Missing
        cell = int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)
    if not isinstance(cell, int | float) or cell != cell:
        raise Missing
    if axis.kind == "real":
        return float(cell)
    return cell if isinstance(cell, float) and math.isinf(cell) else math.floor(cell)


def _level(axis: Axis, cell: Any, dtype: pl.DataType) -> int | str:
    words = (
        ["false", "true"]
        if axis.kind == "boolean"
        else [level.strip(BLANKS) for level in axis.levels]
    )
    if isinstance(cell, bool):
        tries = [str(cell).lower(), str(cell)]
    elif isinstance(cell, int):
        tries = [str(cell)]
    elif isinstance(cell, float):
        if math.isnan(cell):
            raise Missing
        number = np.float32(cell) if dtype == pl.Float32 else cell
        tries = [
            str(int(cell)) if math.isfinite(cell) and cell == math.floor(cell) else str(number)
        ]
    elif isinstance(cell, str | decimal.Decimal):
        text = (format(cell, "f") if isinstance(cell, decimal.Decimal) else cell).strip(BLANKS)
        if not text:
            raise Missing
        tries = [text, re.sub(r"^([+-]?[0-9]+)\.0+$", r"\1", text)]
    elif type(cell) in (dt.date, dt.time):
        tries = [cell.isoformat()]
    else:
        raise Missing
    for text in tries:
        if axis.kind == "boolean":
            text = {
                **dict.fromkeys("yty1", "true"),
                "yes": "true",
                "no": "false",
                **dict.fromkeys("fn0", "false"),
            }.get(text.lower(), text.lower())
        if text in words:
            return words.index(text)
    return "above"


RULES = [
    {"outside": outside, "other": outside == "other", "missing": missing}
    for outside in ("clip", "other", "drop")
    for missing in (False, True)
]
LABEL_RULES = [rule for rule in RULES if rule["outside"] != "clip"]


def label_axes() -> st.SearchStrategy[Axis]:
    word = st.sampled_from(
        [
            "a",
            "b",
            " c ",
            "1",
            "2",
            "-3",
            "0.5",
            "0.1",
            "1.5",
            "?",
            "true",
            "False",
            "2020-01-31",
            "é",
            "01",
            "9" * 25,
        ]
    )
    categorical = st.builds(
        lambda kind, levels, rule: Axis("x", kind, levels=tuple(levels), **rule),
        st.sampled_from(["categorical", "ordinal"]),
        st.lists(word, min_size=1, max_size=12, unique_by=str.strip),
        st.sampled_from(LABEL_RULES),
    )
    boolean = st.builds(
        lambda rule: Axis("x", "boolean", levels=("false", "true"), **rule),
        st.sampled_from(LABEL_RULES),
    )
    return st.one_of(categorical, boolean)


def number_axes() -> st.SearchStrategy[Axis]:
    def axis(kind: Any, edges: list[Any], rule: dict[str, Any]) -> Axis:
        return Axis("x", kind, edges=tuple(sorted(edges)), **rule)

    rule = st.sampled_from(RULES)
    far = st.one_of(
        st.integers(-20, 60), st.integers(-(2**62) + 1, 2**62 - 1), st.integers(-(2**21), 2**21)
    )
    days = st.one_of(st.integers(737_000, 738_000), st.integers(1, 3_652_060))
    reals = st.one_of(
        st.floats(-5, 60),
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from([0.0, 5e-324, 0.1, 42.0]),
    )
    several = {"min_size": 2, "max_size": 8, "unique": True}
    return st.one_of(
        st.builds(axis, st.just("integer"), st.lists(far, **several), rule),
        st.builds(axis, st.just("date"), st.lists(days, **several), rule),
        st.builds(axis, st.just("real"), st.lists(reals, **several), rule),
    )


ODD_TEXTS = [
    "a",
    " b",
    "c",
    "1",
    "1.0",
    " 2 ",
    "-3",
    "-3.00",
    "0.5",
    "1e3",
    "42",
    "+5",
    "-0.0",
    "?",
    "NA",
    "",
    "  ",
    "nan",
    "-INF",
    "True",
    "YES",
    "n",
    "2020-01-31",
    "2020-01-31T10:00:00",
    " 2020-01-31 ",
    "\n2020-02-30",
    "0000-01-01",
    "1969-12-31 23:59",
    "2020-1-5",
    "12020-01-01",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e400",
    "\n4.9e-324",
    "1_000",
    "0x10",
    "١",
    "9999999999999999999999999",
]
TEXTS = st.one_of(
    st.sampled_from(ODD_TEXTS),
    st.text(max_size=6),
    st.floats().map(str),
    st.integers().map(str),
    st.dates().map(str),
)


def series() -> st.SearchStrategy[pl.Series]:
    def column(cells: st.SearchStrategy[Any], dtype: Any) -> st.SearchStrategy[pl.Series]:
        return st.lists(st.one_of(st.none(), cells), max_size=20).map(
            lambda values: pl.Series("x", values, dtype=dtype)
        )

    whole = []
    for bits, signed, unsigned in (
        (8, pl.Int8, pl.UInt8),
        (16, pl.Int16, pl.UInt16),
        (32, pl.Int32, pl.UInt32),
        (64, pl.Int64, pl.UInt64),
    ):
        whole += [
            column(
                st.one_of(
                    st.integers(-5, 60), st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
                ),
                signed,
            ),
            column(st.one_of(st.integers(0, 60), st.integers(0, 2**bits - 1)), unsigned),
        ]
    whole.append(
        column(st.one_of(st.integers(-5, 60), st.integers(-(2**127), 2**127 - 1)), pl.Int128)
    )
    decimals = st.decimals(-(10**6), 10**6, places=2)
    few = st.sampled_from([0.0, -0.0, 1.0, 0.5, 0.1, 42.0, 5e-324, math.inf, -math.inf, math.nan])
    return st.one_of(
        column(TEXTS, pl.String),
        column(TEXTS, pl.Categorical),
        column(
            st.sampled_from(["a", "c", "1.0", "42", "2020-01-31"]),
            pl.Enum(["a", "c", "1.0", "42", "2020-01-31"]),
        ),
        *whole,
        column(st.one_of(few, st.floats()), pl.Float64),
        column(st.one_of(few, st.floats(width=32)), pl.Float64).map(lambda s: s.cast(pl.Float32)),
        column(st.booleans(), pl.Boolean),
        column(st.dates(), pl.Date),
        column(st.datetimes(dt.datetime(1, 1, 3), dt.datetime(9999, 12, 29)), pl.Datetime("us")),
        column(decimals, pl.Decimal(20, 2)),
        column(st.binary(max_size=4), pl.Binary),
        column(st.lists(st.integers(0, 3), max_size=2), pl.List(pl.Int64)),
        column(st.times(), pl.Time),
        column(st.timedeltas(dt.timedelta(-9), dt.timedelta(9)), pl.Duration("us")),
        column(st.none(), pl.Null),
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(axis=st.one_of(label_axes(), number_axes()), cells=series())
def test_every_cell_gets_the_code_of_the_reference(axis: Axis, cells: pl.Series) -> None:
    check_codes(axis, cells)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(5))
@settings(max_examples=2_000, deadline=None)
@given(axis=st.one_of(label_axes(), number_axes()), cells=series())
def test_every_cell_gets_the_code_of_the_reference_at_length(
    part: int, axis: Axis, cells: pl.Series
) -> None:
    check_codes(axis, cells)


def check_codes(axis: Axis, cells: pl.Series) -> None:
    batch = encode_frame(cells.to_frame(), Domain((axis,)))
    readable = (
        cells
        if cells.dtype != pl.Datetime or axis.kind == "date"
        else pl.Series("x", [""] * len(cells))
    )
    if cells.dtype == pl.Datetime and not axis.numeric:
        return  # the spelling of a date-time as a label is not promised
    expected = [reference(axis, cell, cells.dtype) for cell in readable.to_list()]
    keep = np.ones(len(cells), dtype=bool) if batch.keep is None else batch.keep
    assert batch.codes[0].itemsize == (1 if axis.cardinality <= 256 else 2)
    assert [
        int(code) if kept else None for code, kept in zip(batch.codes[0], keep, strict=True)
    ] == expected


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    axes=st.lists(st.one_of(label_axes(), number_axes()), min_size=1, max_size=4), cells=series()
)
def test_a_row_is_kept_only_if_every_column_keeps_it(axes: list[Axis], cells: pl.Series) -> None:
    named = [Axis(**{**vars(axis), "name": f"c{i}"}) for i, axis in enumerate(axes)]
    frame = pl.DataFrame([cells.alias(axis.name) for axis in named])
    batch = Encoder(Domain(tuple(named))).encode(frame)
    single = [encode_frame(frame, Domain((axis,))).keep for axis in named]
    expected = np.logical_and.reduce(
        [np.ones(len(cells), bool) if keep is None else keep for keep in single]
    )
    assert np.array_equal(np.ones(len(cells), bool) if batch.keep is None else batch.keep, expected)
    assert all(len(codes) == int(expected.sum()) for codes in batch.kept())


def codes_of(axis: Axis, cells: pl.Series) -> list[int | None]:
    batch = encode_frame(cells.alias(axis.name).to_frame(), Domain((axis,)))
    keep = np.ones(len(cells), bool) if batch.keep is None else batch.keep
    return [int(code) if kept else None for code, kept in zip(batch.codes[0], keep, strict=True)]


def test_nan_is_missing_and_never_zero() -> None:
    axis = Axis("x", "integer", edges=tuple(range(-1, 3)), missing=True)
    assert codes_of(axis, pl.Series([math.nan, 0.0, -0.0, None])) == [3, 1, 1, 3]
    assert codes_of(axis, pl.Series(["nan", "0", "-0", "zero"])) == [3, 1, 1, 3]
    dropping = Axis("x", "real", edges=(-1.0, 0.0, 1.0))
    assert codes_of(dropping, pl.Series([math.nan, 0.0, math.inf, -math.inf])) == [None, 1, 1, 0]


def test_wide_integers_do_not_wrap_around() -> None:
    axis = Axis("x", "integer", edges=(0, 10, 2**31, 2**40), outside="other", other=True)
    values = [2**31 - 1, 2**31, 2**32 + 5, 2**63 - 1, -(2**63), 2**40 - 1]
    assert codes_of(axis, pl.Series(values, dtype=pl.Int64)) == [1, 2, 2, 3, 3, 2]
    assert codes_of(axis, pl.Series([2**64 - 1, 2**63, 5], dtype=pl.UInt64)) == [3, 3, 0]
    assert codes_of(axis, pl.Series([2**64 + 5, -(2**64), 5], dtype=pl.Int128)) == [3, 3, 0]
    assert codes_of(axis, pl.Series([str(value) for value in [*values, 2**64 + 5]])) == [
        1,
        2,
        2,
        3,
        3,
        2,
        3,
    ]


def test_beyond_64_bits_is_outside_and_not_missing() -> None:
    axis = Axis("x", "integer", edges=(0, 10), missing=True)
    assert codes_of(axis, pl.Series([2**64 - 1, 2**63, None], dtype=pl.UInt64)) == [0, 0, 1]
    assert codes_of(axis, pl.Series([2**100, -(2**100), None], dtype=pl.Int128)) == [0, 0, 1]
    assert codes_of(axis, pl.Series(["9" * 30, "-1e400", None])) == [0, 0, 1]


def test_the_last_bin_of_a_real_column_includes_its_upper_edge() -> None:
    axis = Axis("x", "real", edges=(0.0, 0.5, 1.0), outside="other", other=True)
    above, below = math.nextafter(1.0, 2), math.nextafter(0.0, -1)
    assert codes_of(axis, pl.Series([0.0, -0.0, 0.5, 1.0, above, below])) == [0, 0, 1, 1, 2, 2]
    assert codes_of(axis, pl.Series(["1", "1.0", "0.5", "1.0000000000000002"])) == [1, 1, 1, 2]
    assert codes_of(axis, pl.Series([0, 1, 2], dtype=pl.UInt8)) == [0, 1, 2]


def test_labels_match_as_people_write_them() -> None:
    axis = Axis(
        "x", "categorical", levels=("1", "2", "0.5"), missing=True, other=True, outside="other"
    )
    assert codes_of(axis, pl.Series(["1", " 1", "1.0", "01", "0.5", "?", "", None])) == [
        0,
        0,
        0,
        3,
        2,
        3,
        4,
        4,
    ]
    assert codes_of(axis, pl.Series([1.0, 2.0, 0.5, math.nan, 1.5])) == [0, 1, 2, 4, 3]
    assert codes_of(axis, pl.Series([1, 2, 3, None], dtype=pl.Int64)) == [0, 1, 3, 4]
    truth = Axis("x", "boolean", levels=("false", "true"), outside="drop")
    assert codes_of(truth, pl.Series(["TRUE", "f", "Yes", "no", "1", "0", "2", " t "])) == [
        1,
        0,
        1,
        0,
        1,
        0,
        None,
        1,
    ]
    assert codes_of(truth, pl.Series([1, 0, 7], dtype=pl.UInt8)) == [1, 0, None]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_extreme_date_times_go_to_the_nearest_bound(unit: Any, zone: str | None) -> None:
    axis = Axis("x", "date", edges=tuple(range(719_162, 719_166)), missing=True)
    ticks = pl.Series([-(2**63) + 1, -1, 0, 2**63 - 1, None], dtype=pl.Int64).cast(
        pl.Datetime(unit, zone)
    )
    assert codes_of(axis, ticks) == [0, 0, 1 if zone is None else 0, 2, 3]


def test_codes_that_are_already_right_are_not_copied() -> None:
    column = pl.Series("x", np.arange(200, dtype=np.uint8))
    batch = encode_frame(
        column.to_frame(), Domain((Axis("x", "integer", edges=tuple(range(201))),))
    )
    assert np.shares_memory(batch.codes[0], column.to_numpy())


def test_absent_column_is_named_with_a_hint() -> None:
    with pytest.raises(SchemaError, match=r"no column 'age'\. Did you mean 'Age'"):
        encode_frame(pl.DataFrame({"Age": [1]}), Domain((Axis("age", "integer", edges=(0, 1)),)))


def test_many_levels_use_wider_codes_and_empty_frames_work() -> None:
    axis = Axis(
        "x",
        "categorical",
        levels=tuple(f"v{i}" for i in range(70_000)),
        other=True,
        outside="other",
    )
    assert encode_frame(pl.DataFrame({"x": ["v69999", "w"]}), Domain((axis,))).codes[
        0
    ].tolist() == [69_999, 70_000]
    for dtype in (pl.String, pl.UInt8, pl.Int64, pl.Float64, pl.Date, pl.Null, pl.Boolean):
        assert (
            encode_frame(pl.DataFrame({"x": pl.Series([], dtype=dtype)}), Domain((axis,)))
            .codes[0]
            .size
            == 0
        )


def test_nothing_private_in_a_repr() -> None:
    batch = encode_frame(
        pl.DataFrame({"x": ["CANARY"]}), Domain((Axis("x", "categorical", levels=("CANARY",)),))
    )
    assert repr(batch) == "EncodedBatch(private)"
