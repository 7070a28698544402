"""Words for people: shown, understood in conditions, and no part of what a release rests on."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.schema import Schema
from dpublish.errors import QueryError, SchemaError

PLAIN = """
[dataset]
name = "visits"
[columns.sex]
kind = "categorical"
levels = ["1", "2"]
[columns.age]
kind = "integer"
lower = 0
upper = 120
bins = 4
"""
WORDED = """
[dataset]
name = "visits"
title = "Visits to the clinic"
publisher = "The clinic"
licence = "CC BY 4.0"
[columns.sex]
kind = "categorical"
levels = ["1", "2"]
title = "Sex"
labels = { "1" = "Female", "2" = "Male" }
source = "form A7"
[columns.age]
kind = "integer"
lower = 0
upper = 120
bins = 4
units = "years"
description = "Age at admission"
"""


def test_wording_may_be_mended_without_another_digest() -> None:
    plain, worded = Schema.from_toml(PLAIN), Schema.from_toml(WORDED)
    assert plain.digest == worded.digest
    assert plain.sized_digest == worded.sized_digest


def test_wording_is_written_back() -> None:
    worded = Schema.from_toml(WORDED)
    assert Schema.from_toml(worded.to_toml()) == worded
    assert worded.columns["sex"].wording.labels == {"1": "Female", "2": "Male"}
    assert worded.about["title"] == "Visits to the clinic"


def test_conditions_take_labels_and_codes(tmp_path: Path) -> None:
    rows = pl.DataFrame({"sex": [1, 2] * 50, "age": list(range(100))})
    curator = dp.Curator(
        rows,
        Schema.from_toml(WORDED),
        ledger=tmp_path / "a.ledger",
        budget=dp.Budget(epsilon=1),
    )
    release = curator.publish(dp.Histogram(columns=["sex", "age"]), epsilon=1, seed=1)
    assert release.estimate("sex = 'Female'") == release.estimate("sex = '1'")
    assert release.estimate("sex in ('Male')") == release.estimate("sex = 2")
    with pytest.raises(QueryError, match="no level 'Neither'"):
        release.estimate("sex = 'Neither'")
    assert release.manifest["about"]["publisher"] == "The clinic"
    assert release.manifest["domain"][1]["units"] == "years"
    release.report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "1 = Female; 2 = Male" in page
    assert "form A7" in page
    assert "The guarantee assumes that they were not" not in page
    release.save(tmp_path / "a.dpr")
    again = dp.open_release(tmp_path / "a.dpr")
    assert again.estimate("sex = 'Female'") == release.estimate("sex = '1'")


def test_a_report_says_for_ever_that_levels_were_taken_from_the_rows(tmp_path: Path) -> None:
    rows = pl.DataFrame({"sex": [1, 2] * 50, "age": list(range(100))})
    schema = Schema.from_toml(WORDED.replace("form A7", "taken from the rows"))
    curator = dp.Curator(rows, schema, ledger=tmp_path / "a.ledger", budget=dp.Budget(epsilon=1))
    curator.publish(dp.Histogram(columns=["sex"]), epsilon=1, seed=1).report(tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "were taken from the rows. The guarantee assumes that they were not" in page


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"2" = "Male"', '"3" = "Male"', "which is no level"),
        ('"2" = "Male"', '"2" = "Female"', "two levels"),
        ('"2" = "Male"', '"2" = "1"', "two levels"),
        ('"2" = "Male"', '"2" = 4', "must be text"),
        ('units = "years"', 'units = "\\u001b[2J"', "must be text"),
        ('licence = "CC BY 4.0"', "licence = 4", "must be text"),
        ('units = "years"', 'labels = { "1" = "one" }', "unknown key 'labels'"),
    ],
)
def test_wording_that_cannot_be_meant_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        Schema.from_toml(WORDED.replace(old, new))
