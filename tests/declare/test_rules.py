"""Rules of a schema: how they are read, and which rows break them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.curator.check import check_data
from dpublish.declare.encode import encode_frame
from dpublish.declare.rules import MAX_RULE_CELLS, cells_where, exact_domain, rule_of, with_cuts
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, SchemaError
from dpublish.privacy.cost import Cost

SCHEMA = """
[dataset]
name = "people"
neighbours = "add-remove-one"

[columns.age]
kind = "integer"
lower = 0
upper = 99
missing = true
{age}

[columns.married]
kind = "categorical"
levels = ["no", "yes"]
outside = "other"
missing = true

{rules}
"""
RULE = "[[rules]]\nif = \"age < 15\"\nthen = \"married = 'no'\"\nsource = 'a law'\n"


def schema(rules: str = RULE, age: str = "") -> Schema:
    return Schema.from_toml(SCHEMA.format(rules=rules, age=age))


def test_rules_are_part_of_the_schema_and_its_digest() -> None:
    ruled, plain = schema(), schema("")
    assert ruled.rules[0].columns == ("age", "married")
    assert ruled.digest != plain.digest
    again = Schema.from_toml(ruled.to_toml())
    assert again == ruled
    assert again.rules[0].source == "a law"
    assert schema(RULE.replace("a law", "custom")).digest == ruled.digest
    assert "rules" not in plain.to_dict()


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("rules = 3", "[[rules]] tables"),
        ('[[rules]]\nif = "age < 15"', "needs if"),
        ('[[rules]]\nif = "age < 15"\nthen = "maried = 1"', "married"),
        ('[[rules]]\nif = "age <"\nthen = "married = 1"', "number 1"),
        ('[[rules]]\nif = "age < 15"\nthen = "1 = 1"', "number 1"),
        ('[[rules]]\nif = "age < 15"\nthen = 3', "line of text"),
        ('[[rules]]\nif = "age < 15"\nthen = "age < 3"\nwhen = "now"', "unknown key 'when'"),
    ],
)
def test_wrong_rules_are_named(rules: str, words: str) -> None:
    text = SCHEMA.format(rules="", age="")
    text = rules + text if rules.startswith("rules") else text + rules
    with pytest.raises(SchemaError, match=words.replace("[", r"\[").replace("]", r"\]")):
        Schema.from_toml(text)


def rows() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "age": ["14", "14", "15", None, "14", "14", "-3", "200"],
            "married": ["no", "yes", "yes", "yes", None, "divorced", "yes", "yes"],
        }
    )


def test_a_rule_that_every_row_breaks_is_refused() -> None:
    """A release would be paid for and hold nobody."""
    certain = SCHEMA.replace("missing = true\n{age}", "{age}")
    wrong = '[[rules]]\nif = "age < 200"\nthen = "age > 300"\n'
    with pytest.raises(SchemaError, match=r"number 1: every row breaks 'age < 200 implies"):
        Schema.from_toml(certain.format(rules=wrong, age=""))
    for fine in (wrong.replace("200", "99"), wrong.replace("300", "98")):
        assert Schema.from_toml(certain.format(rules=fine, age="")).rules


def test_rows_that_break_a_rule_are_dropped_one_by_one() -> None:
    one = schema()
    domain = exact_domain(one.rules, one.columns, one.name)
    ruled = replace(domain, rules=one.rules)
    # (other) is not 'no', what is missing may be, and -3 is clipped to 0
    expected = [True, False, True, True, True, False, False, True]
    for order in (np.arange(8), np.arange(8)[::-1], np.array([1]), np.array([0, 2])):
        batch = encode_frame(rows()[order], ruled)
        kept = np.ones(len(order), dtype=bool) if batch.keep is None else batch.keep
        assert kept.tolist() == [expected[row] for row in order]
    assert encode_frame(rows(), domain).keep is None


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_every_format_drops_the_same_rows(suffix: str, tmp_path: Path) -> None:
    from dpublish.counting.cells import coded_rows
    from dpublish.sources.sources import open_source

    path = tmp_path / f"rows.{suffix}"
    {"csv": rows().write_csv, "parquet": rows().write_parquet, "arrow": rows().write_ipc}[suffix](
        path
    )
    one = schema()
    ruled = replace(exact_domain(one.rules, one.columns, one.name), rules=one.rules)
    codes = coded_rows(open_source(path, one), one, ruled, key=bytes(16))
    assert codes[0].tolist() == [0, 1, 2, 0, 1]


def test_a_rule_without_its_columns_says_nothing() -> None:
    one = schema()
    assert cells_where(one.rules[0], one.domain(["age"], bins=4)) is None


def test_too_many_combinations_are_refused() -> None:
    text = '[dataset]\nname = "wide"\n' + "".join(
        f'[columns.{name}]\nkind = "integer"\nlower = 0\nupper = 9999\n' for name in "ab"
    )
    one = Schema.from_toml(text)
    domain = one.domain(["a", "b"], bins=10_000)
    rule = rule_of("a < 5", "b < 5", domain, "a rule")
    assert domain.size > MAX_RULE_CELLS
    with pytest.raises(SchemaError, match="fewer bins"):
        cells_where(rule, domain)


def test_bins_end_where_rules_compare() -> None:
    one = schema()
    domain = one.domain(["age", "married"], bins=3)
    assert 15 in with_cuts(domain.axes[0], one.rules, domain).edges
    assert with_cuts(domain.axes[1], one.rules, domain) is domain.axes[1]
    cut = cells_where(one.rules[0], domain)
    assert cut is not None
    assert cut.cut.any()
    cost = Cost.pure(1)
    plan = dp.JoinedHistograms().plan(one, cost)
    assert any("age < 15 implies married = 'no'" in said for said in plan.sentences)
    with pytest.raises(PlanError, match="inside a declared bin"):
        dp.JoinedHistograms().plan(schema(age="bins = 3"), cost)
    dp.JoinedHistograms().plan(schema(age="edges = [0, 15, 40, 99]"), cost)


def test_a_rule_makes_the_number_of_rows_unknown() -> None:
    text = SCHEMA.replace('"add-remove-one"', '"replace-one"\nsize = 10')
    for rules, known in ((RULE, None), ("", 10)):
        one = Schema.from_toml(text.format(rules=rules, age=""))
        assert dp.JoinedHistograms().plan(one, Cost.pure(1)).settings.public_rows == known


def test_check_counts_the_rows_that_break_a_rule() -> None:
    few = pl.concat([rows()[[1]], *[rows()[[0]]] * 99])
    found = check_data(few, schema())
    assert "1 of 100 rows break the rule" in " ".join(found.notes)
    assert "8 rows break the rule" in " ".join(check_data(rows(), schema()).problems)
    assert not [note for note in check_data(few, schema("")).notes if "rule" in note]


def test_a_database_does_not_count_rows_that_break_a_rule() -> None:
    from dpublish.counting.compute import compute
    from dpublish.declare.statistic import CellCounts
    from dpublish.sources.sources import SqlSource, open_source

    listed = "(14, 'no'), (14, 'yes'), (15, 'yes')"
    rows_of = SqlSource("duckdb://", f"select * from (values {listed}) v(age, married)")
    one = schema()
    domain = exact_domain(one.rules, one.columns, one.name)
    for declared, kept in ((schema(""), 3), (one, 2)):
        source = open_source(rows_of, declared)
        counted = compute(CellCounts(domain), source, declared, key=bytes(16))
        assert counted.counts.sum() == kept


def test_values_of_single_rows_are_never_public() -> None:
    with pytest.raises(SchemaError, match="say who is in the data"):
        schema(age="public = true")
