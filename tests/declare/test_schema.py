"""Schemas: what is accepted, what is refused, and in which words."""

from __future__ import annotations

import contextlib
import datetime as dt
import random
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from dpublish.declare.schema import Schema
from dpublish.errors import SchemaError

GOOD = """
[dataset]
name = "clinic"
neighbours = "replace-one"
size = 1000
target = "ill"

[columns.age]
kind = "integer"
lower = 0
upper = 120
bins = 12
missing = true

[columns.weight]
kind = "real"
lower = 0.0
upper = 200.0
precision = 0.5

[columns.seen]
kind = "date"
lower = 2020-01-01
upper = 2020-12-31
bins = 12

[columns.ward]
kind = "categorical"
levels = ["a", "b", 3]

[columns.stage]
kind = "ordinal"
levels = ["I", "II", "III"]
outside = "drop"

[columns.ill]
kind = "boolean"
"""


def broken(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def test_reads_every_kind() -> None:
    schema = Schema.from_toml(GOOD)
    assert schema.size == 1000
    assert schema.target == "ill"
    assert schema.columns["ward"].levels == ("a", "b", "3")
    assert schema.columns["ward"].outside == "other"
    assert schema.columns["weight"].precision == Fraction(1, 2)
    assert schema.columns["seen"].lower == dt.date(2020, 1, 1)
    assert schema.unit.describe() == "one row"


@pytest.mark.parametrize(
    "text", [GOOD, GOOD.replace("lower = 0\nupper = 120\nbins = 12", "edges = [0, 18, 65, 120]")]
)
def test_round_trip_keeps_the_digest(text: str) -> None:
    schema = Schema.from_toml(text)
    again = Schema.from_toml(schema.to_toml())
    assert again == schema
    assert again.digest == schema.digest


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove-one"])
def test_a_size_that_was_not_declared_is_not_in_the_digest(neighbours: str) -> None:
    plain = Schema.from_toml(GOOD.replace('"replace-one"\nsize = 1000', f'"{neighbours}"'))
    sized = plain.with_size(1000)
    assert sized.size_or_nominal == 1000
    assert sized.digest == sized.with_size(1000).digest == plain.digest
    # the ledger still tells sizes apart, and one that is declared from the start counts as the same
    # request
    assert sized.sized_digest != plain.sized_digest
    declared = Schema.from_toml(sized.to_toml())
    assert (
        declared.sized_digest
        == sized.sized_digest
        == declared.digest
        == declared.with_size(1000).digest
    )
    assert declared.digest != plain.digest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no [dataset]"]),
        ("[dataset]\n", ["no name"]),
        ("x = [", ["not valid TOML"]),
        (broken("[columns.age]", "[colums.age]"), ["[colums]", "Did you mean 'columns'?"]),
        (broken("neighbours =", "neigbours ="), ["'neigbours'", "Did you mean 'neighbours'?"]),
        (
            broken('"replace-one"', '"replace_one"'),
            ["'replace_one'", "Did you mean 'replace-one'?"],
        ),
        (
            broken('kind = "integer"', 'kind = "interger"'),
            ["'interger'", "Did you mean 'integer'?"],
        ),
        (broken('kind = "integer"', ""), ["'age' has no kind"]),
        (broken("upper = 120", "uper = 120"), ["'uper'", "Did you mean 'upper'?"]),
        (broken("upper = 120", "upper = -1"), ["'age'", "lower = 0 must be below upper = -1"]),
        (broken("upper = 120", 'upper = "120"'), ["must be a number", "'120'"]),
        (broken("upper = 200.0", "upper = inf"), ["must be finite"]),
        (broken("upper = 200.0", "upper = nan"), ["must be finite"]),
        (broken("bins = 12\nmissing", "bins = 0\nmissing"), ["bins must be a whole number"]),
        (broken("bins = 12\nmissing", "edges = []\nmissing"), ["edges must list at least two"]),
        (broken("precision = 0.5", "precision = 0.5\nbins = 3"), ["bins or precision, not both"]),
        (broken("lower = 2020-01-01", "lower = 2020"), ["must be a date"]),
        (broken('levels = ["a", "b", 3]', ""), ["no levels", "cannot be taken from the data"]),
        (broken('levels = ["a", "b", 3]', 'levels = ["a", "a"]'), ["'a' is listed twice"]),
        (
            broken('levels = ["a", "b", 3]', 'levels = ["a", "a "]'),
            ["'a' is listed twice", "blanks"],
        ),
        (
            broken('levels = ["a", "b", 3]', 'levels = ["a", " "]'),
            ["a level is blank", "missing = true"],
        ),
        (
            broken('levels = ["a", "b", 3]', 'levels = ["a", "(other)"]'),
            ["'(other)'", "not listed"],
        ),
        (
            broken('levels = ["a", "b", 3]', 'missing = true\nlevels = ["a", "(missing)"]'),
            ["'(missing)'", "missing values"],
        ),
        (broken('levels = ["a", "b", 3]', "levels = []"), ["at least one"]),
        (broken('outside = "drop"', 'outside = "clip"'), ["needs a numeric column"]),
        (broken('outside = "drop"', 'outside = "dropp"'), ["Did you mean 'drop'?"]),
        (broken('target = "ill"', 'target = "il"'), ["target = 'il'", "Did you mean 'ill'?"]),
        (broken("size = 1000", "nominal_size = 1000"), ["use size"]),
        (broken("size = 1000", "size = -3"), ["at least 1", "-3"]),
        (broken('neighbours = "replace-one"', 'neighbours = "add-remove-one"'), ["nominal_size"]),
        (broken("size = 1000", 'unit = "person"'), ["max_rows_per_unit"]),
        (broken("size = 1000", "max_rows_per_unit = 2"), ["unit ="]),
        (GOOD + '\n[items]\nuniverse = ["a"]\n', ["not both"]),
        ('[dataset]\nname = "x"\n', ["declares no column"]),
        ('[dataset]\nname = "x"\n[items]\nuniverse = []\n', ["empty"]),
        ('[dataset]\nname = "x"\n[items]\nuniverse = ["a", "a"]\n', ["twice"]),
        ('[dataset]\nname = "x"\n[items]\n', ["exactly one of"]),
    ],
)
def test_says_what_is_wrong(text: str, words: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(text)
    for word in words:
        assert word in str(caught.value)


def test_missing_bounds_are_named_when_they_are_needed() -> None:
    schema = Schema.from_toml(broken("upper = 120\n", ""))
    with pytest.raises(
        SchemaError,
        match=r"'age' has no upper bound in schema 'clinic'\. Add upper = \.\.\.; it cannot be "
        r"taken",
    ):
        schema.domain(["age"])


def test_unknown_column_gets_a_hint() -> None:
    with pytest.raises(SchemaError, match="Did you mean 'age'"):
        Schema.from_toml(GOOD).column("aeg")


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="no schema file"):
        Schema.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.read(tmp_path / "bad.toml")


def test_items_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("bread\nmilk\n\n")
    (tmp_path / "s.toml").write_text(
        '[dataset]\nname = "shop"\n[items]\nuniverse_file = "items.txt"\n'
    )
    schema = Schema.read(tmp_path / "s.toml")
    assert schema.items is not None
    assert schema.items.items == ("bread", "milk")
    assert schema.neighbours == "add-remove-one"


def test_units_with_several_rows() -> None:
    schema = Schema.from_toml(
        broken("size = 1000", 'size = 10\nunit = "person"\nmax_rows_per_unit = 3')
    )
    assert schema.unit.max_rows == 3
    assert "at most 3" in schema.unit.describe()


def test_the_draft_stamp_survives_a_round_trip() -> None:
    schema = Schema.from_toml(GOOD + "\n[draft]\nderived_from_rows = true\n")
    assert schema.draft
    assert "DERIVED FROM ROWS" in schema.to_toml()
    assert Schema.from_toml(schema.to_toml()).draft


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_a_schema_or_a_schema_error(text: str) -> None:
    with contextlib.suppress(SchemaError):
        Schema.from_toml(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=8)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
COLUMN_KEYS = [
    "kind",
    "levels",
    "lower",
    "upper",
    "bins",
    "edges",
    "precision",
    "missing",
    "outside",
    "name",
]
DATASET_KEYS = ["name", "neighbours", "unit", "max_rows_per_unit", "target", "size"]
KINDS = ["integer", "real", "categorical", "date", "boolean"]


@settings(max_examples=2_000, deadline=None)
@given(
    st.dictionaries(st.sampled_from(DATASET_KEYS), VALUES, max_size=4),
    st.dictionaries(st.sampled_from(COLUMN_KEYS), VALUES | st.sampled_from(KINDS), max_size=5),
)
def test_any_tables_are_a_schema_or_a_schema_error(
    dataset: dict[str, object], column: dict[str, object]
) -> None:
    """Schemas come from people; 2,000 mangled ones must each be read or refused in words."""
    read_or_refuse(dataset, column)


WORDS = [
    "",
    "a",
    "x" * 300,
    "\x00",
    "\ud800",
    "é",
    "1/3",
    "nan",
    "2020-02-30",
    "other",
    "drop",
    "add-remove-one",
    "replace-one",
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    1 << 31,
    -(1 << 63),
    1 << 63,
    10**20,
    0.0,
    -0.0,
    0.5,
    1e-320,
    1e308,
    float("inf"),
    float("nan"),
]
OTHERS = [
    None,
    True,
    False,
    dt.date(1, 1, 1),
    dt.date(9999, 12, 31),
    dt.datetime(2020, 1, 1),
    dt.time(1),
    b"\xff",
]
PLAIN = [*WORDS, *NUMBERS, *OTHERS]


def odd_value(dice: random.Random, depth: int = 0) -> object:
    style = dice.random()
    if style < 0.75 or depth == 2:
        return dice.choice(PLAIN) if style < 0.5 else dice.randint(-40, 40)
    inner = [odd_value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return inner if style < 0.92 else dict(zip(dice.sample(WORDS, len(inner)), inner, strict=True))


RIGHT: list[dict[str, object]] = [
    {"kind": "integer", "lower": 0, "upper": 9, "bins": 5, "missing": True},
    {"kind": "real", "edges": [0, 0.25, 0.5], "outside": "drop"},
    {"kind": "categorical", "levels": ["a", "b"], "outside": "other"},
    {"kind": "date", "lower": dt.date(2020, 1, 1), "upper": dt.date(2021, 1, 1), "bins": 4},
    {"kind": "boolean", "missing": True},
]


def odd_tables(dice: random.Random) -> tuple[dict[str, object], dict[str, object]]:
    """Settings that there are, some with values that do not belong there; half of the columns were
    right once."""
    dataset = {
        key: odd_value(dice) for key in dice.sample(DATASET_KEYS, dice.choice([0, 0, 0, 1, 2, 4]))
    }
    if dice.random() < 0.5:
        column = dict(dice.choice(RIGHT))
        altered = dice.sample([*column, dice.choice(COLUMN_KEYS)], dice.randrange(3))
    else:
        column = {"kind": dice.choice(KINDS)}
        altered = dice.sample(COLUMN_KEYS, dice.randrange(6))
    return dataset, {**column, **{key: odd_value(dice) for key in altered}}


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(10))
def test_any_tables_are_a_schema_or_a_schema_error_at_length(part: int) -> None:
    """200,000 altogether."""
    dice = random.Random(60 + part)
    read = sum(read_or_refuse(*odd_tables(dice)) for _ in range(20_000))
    assert 200 < read < 10_000, "some must be read, or the test looks at the first check only"


def read_or_refuse(dataset: dict[str, object], column: dict[str, object]) -> bool:
    """True when it is a schema."""
    from dpublish.declare.schema import _read

    with contextlib.suppress(SchemaError):
        schema = _read({"dataset": {"name": "x", **dataset}, "columns": {"a": column}}, Path())
        schema.domain(["a"], rows=100)
        return True
    return False


def test_items_of_a_universe_are_stripped_as_those_of_rows_are() -> None:
    text = '[dataset]\nname = "t"\n[items]\nuniverse = [%s]\n'
    read = Schema.from_toml(text % '" whole milk ", "tea", 5')
    assert read.items is not None
    assert read.items.items == ("whole milk", "tea", "5")
    for listed, message in (
        ('"tea", "tea "', "lists an item twice"),
        ('"tea", " "', "lists a blank item"),
    ):
        with pytest.raises(SchemaError, match=message):
            Schema.from_toml(text % listed)


def test_a_mark_that_an_editor_put_before_the_text_is_not_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_bytes(b"\xef\xbb\xbfbread\r\nmilk\r\n")
    file = tmp_path / "shop.toml"
    file.write_bytes(
        b"\xef\xbb\xbf[dataset]\nname = 'shop'\n[items]\nuniverse_file = 'items.txt'\n"
    )
    items = Schema.read(file).items
    assert items is not None
    assert items.items == ("bread", "milk")
