"""Public totals of a schema: how they are read, which are refused, and what `check` says."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

from dpublish.curator.check import check_data
from dpublish.declare.schema import Schema
from dpublish.errors import SchemaError

SCHEMA = """
[dataset]
name = "people"
neighbours = "{neighbours}"
{dataset}

[columns.age]
kind = "integer"
lower = 0
upper = 99
missing = true

[columns.sex]
kind = "categorical"
levels = ["female", "male"]
outside = "other"

[columns.home]
kind = "categorical"
levels = ["town", "land"]
outside = "other"

"""


def schema(facts: str, dataset: str = "", neighbours: str = "add-remove-one") -> Schema:
    return Schema.from_toml(SCHEMA.format(dataset=dataset, neighbours=neighbours) + facts)


def total(rows: int, where: str = "", source: str = "a census") -> str:
    return f'[[totals]]\nrows = {rows}\nsource = "{source}"\n' + f'where = "{where}"\n' * bool(
        where
    )


def test_totals_are_part_of_the_schema_and_its_digest() -> None:
    one = schema(total(60, "sex = 'female'") + total(100))
    assert [each.columns for each in one.totals] == [("sex",), ()]
    assert one.declared_rows == 100
    assert Schema.from_toml(one.to_toml()) == one
    assert one.totals[0].describe() == "60 rows with sex = 'female' (a census)"
    digests = {
        one.digest,
        schema("").digest,
        schema(total(61, "sex = 'female'") + total(100)).digest,
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ("[[totals]]\nrows = 3", "needs source"),
        ('[[totals]]\nrows = 3\nsource = ""', "needs source"),
        ('[[totals]]\nsource = "a"', "whole number"),
        ('[[totals]]\nrows = -1\nsource = "a"', "whole number"),
        ('[[totals]]\nrows = 3.5\nsource = "a"', "whole number"),
        (total(3, "sexx = 'female'"), "sex"),
        (total(3, "1 = 1"), "number 1"),
        ('[[totals]]\nrows = 3\nsource = "a"\nwher = "x"', "unknown key 'wher'"),
        ('[[totals]]\nrows = [1, 2]\nsource = "a"', "who is in the data"),
        ('[[totals]]\nvalues_file = "public.csv"\nsource = "a"', "who is in the data"),
        ('[[totals]]\ncolumn = "age"\nsource = "a"', "who is in the data"),
    ],
)
def test_wrong_totals_are_named(facts: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema(facts)


def test_totals_of_single_units_are_refused() -> None:
    with pytest.raises(SchemaError, match="single units"):
        schema(total(3, "age = 30"), 'unit = "age"\nmax_rows_per_unit = 2')


CONTRADICTIONS = [
    total(100) + total(101),
    total(100) + total(101, "sex = 'female'"),
    total(60, "sex = 'female'") + total(61, "sex = 'female'"),
    total(60, "age < 30") + total(59, "age < 40"),
    # all levels of a column together are all rows
    total(100)
    + total(60, "sex = 'female'")
    + total(30, "sex = 'male'")
    + total(9, "sex not in ('female', 'male')"),
    # more rows of both kinds than of one of them
    total(10, "sex = 'male'") + total(11, "sex = 'male' and home = 'town'"),
    # two columns, tied by a third total
    total(100)
    + total(60, "sex = 'female'")
    + total(60, "home = 'town'")
    + total(19, "sex = 'female' and home = 'town'"),
    # a rule says that there are none
    total(1, "age < 15 and sex = 'male'")
    + '[[rules]]\nif = "age < 15"\nthen = "sex != \'male\'"\n',
]


@pytest.mark.parametrize("facts", CONTRADICTIONS)
def test_contradictions_are_refused_with_the_schema(facts: str) -> None:
    with pytest.raises(SchemaError, match=r"contradict|declared as"):
        schema(facts)


def test_the_declared_size_is_a_total_too() -> None:
    schema(total(100), "size = 100", "replace-one")
    for facts in (total(99), total(101, "sex = 'male'")):
        with pytest.raises(SchemaError, match=r"declared as 99 and as 100|There are 100 rows"):
            schema(facts, "size = 100", "replace-one")
    # units of several rows: their number is not that of the rows
    schema(total(250), 'unit = "id"\nmax_rows_per_unit = 3\nsize = 100', "replace-one")


def test_what_some_table_has_is_never_refused() -> None:
    """Totals counted from made-up rows: no false alarm, and one row more is always seen where the
    totals fix each other."""
    generator = np.random.default_rng(3)
    wheres = [
        "sex = 'female'",
        "home = 'town'",
        "age < 30",
        "age >= 30 and sex = 'male'",
        "sex = 'female' or home = 'land'",
        "age is null",
    ]
    for _ in range(12):
        rows = int(generator.integers(1, 10_000_000))
        shares = generator.dirichlet(np.full(27, 0.3))
        table = generator.multinomial(rows, shares).reshape(3, 3, 3)
        young, old, unknown = np.eye(3, dtype=bool)
        masks = {
            "sex = 'female'": table[:, 0].sum(),
            "home = 'town'": table[:, :, 0].sum(),
            "age < 30": table[young].sum(),
            "age >= 30 and sex = 'male'": table[old][:, 1].sum(),
            "sex = 'female' or home = 'land'": table[:, 0].sum() + table[:, 1:, 1].sum(),
            "age is null": table[unknown].sum(),
        }
        facts = total(rows) + "".join(total(int(masks[where]), where) for where in wheres)
        schema(facts)
        more = total(int(table[old].sum()) + 1, "age >= 30")
        with pytest.raises(SchemaError, match="contradict"):
            schema(facts + more)


def test_check_compares_totals_with_the_rows() -> None:
    rows = pl.DataFrame(
        {
            "age": ["14", "30", "x", "99"],
            "sex": ["female", "male", "male", "?"],
            "home": ["town"] * 4,
        }
    )
    right = total(4) + total(2, "sex = 'male'") + total(1, "age < 30") + total(1, "age is null")
    assert not [said for said in check_data(rows, schema(right)).problems if "total" in said]
    for wrong in (total(5), total(3, "sex = 'male'"), total(0, "age < 30")):
        said = [one for one in check_data(rows, schema(wrong)).problems if "public total" in one]
        assert len(said) == 1
        assert "a census" in said[0]


def test_many_totals_of_one_column_are_read_quickly() -> None:
    cells = list(itertools.product(("town", "land"), ("female", "male"), range(0, 100, 5)))
    facts = "".join(
        total(7, f"home = '{home}' and sex = '{sex}' and age >= {low} and age < {low + 5}")
        for home, sex, low in cells
    )
    assert len(schema(facts + total(1000)).totals) == 81
    with pytest.raises(SchemaError, match="contradict"):
        schema(facts + total(7 * 80 - 1))
