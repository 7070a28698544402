"""Survey files: what they may say, and that every answer has a report."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpublish.errors import BudgetExceeded, InputError, PublishError, SchemaError
from dpublish.local import HeavyHitters, Survey
from dpublish.local.survey import OTHER, best_method
from dpublish.noise.source import SeededNoise

TEXT = """
[survey]
name = "commute"
epsilon = 6

[questions.transport]
levels = ["bus", "car", "bike"]
epsilon = 1

[questions.home]
method = "hadamard"
column = "town"
levels_file = "towns.txt"
epsilon = 1

[questions.word]
method = "heavy-hitters"
levels = ["a", "b", "c"]
epsilon = 1

[questions.hours]
method = "mean"
lower = 0
upper = 20
epsilon = 1

[questions.happy]
method = "binary"
epsilon = "1/2"

[questions.sizes]
method = "unary"
levels = [1, 2, 3]
epsilon = "1/2"

[questions.habits]
method = "conjunctions"
attributes = ["smokes", "runs"]
epsilon = 1
"""


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    (tmp_path / "towns.txt").write_text("Bern\nGraz\n\nLyon\n")
    (tmp_path / "s.toml").write_text(TEXT)
    return Survey.read(tmp_path / "s.toml")


def test_a_survey_is_read(survey: Survey) -> None:
    assert survey.cost == survey.epsilon == 6
    assert survey.questions["transport"].randomizer.method == "kary"
    assert survey.questions["home"].randomizer.levels == ("Bern", "Graz", "Lyon", OTHER)  # type: ignore[attr-defined]
    assert isinstance(survey.questions["word"].randomizer, HeavyHitters)
    assert survey.columns == (
        "transport",
        "town",
        "word",
        "hours",
        "happy",
        "sizes",
        "smokes",
        "runs",
    )
    assert len(survey.digest) == 16


def test_answers_are_encoded_totally(survey: Survey) -> None:
    encode = {name: question.encode for name, question in survey.questions.items()}
    assert encode["transport"]([["bus"], [" bike "], ["train"], [""]]) == [0, 2, 3, 3]
    assert encode["happy"]([["yes"], ["TRUE"], ["1"], ["no"], ["perhaps"]]) == [1, 1, 1, 0, 0]
    hours = encode["hours"]([["3.5"], ["x"]])
    assert hours[0] == 3.5
    assert np.isnan(hours[1])
    assert encode["habits"]([["yes", "no"], ["", "y"]]).tolist() == [[1, 0], [0, 1]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=8), min_size=8, max_size=8))
def test_any_text_leads_to_a_report(texts: list[str]) -> None:
    survey = Survey.from_toml(TEXT.replace('levels_file = "towns.txt"', 'levels = ["Bern"]'))
    (row,) = survey.randomize([dict(zip(survey.columns, texts, strict=True))], coins=SeededNoise(1))
    for text, question in zip(row, survey.questions.values(), strict=True):
        question.randomizer.read([text])


def test_a_missing_column_is_named(survey: Survey) -> None:
    with pytest.raises(InputError, match="'town'"):
        survey.randomize([{"transport": "bus"}])


def test_nobody_answers_nothing(survey: Survey) -> None:
    assert survey.randomize([]) == []


def test_the_better_method_is_chosen() -> None:
    assert best_method(3, Fraction(1)) == "kary"
    assert best_method(1000, Fraction(1)) == "hashing"
    assert best_method(100_000, Fraction(1)) == "hadamard"


def test_questions_above_the_promise_are_refused() -> None:
    with pytest.raises(BudgetExceeded, match="cost 6 together"):
        Survey.from_toml(
            TEXT.replace("epsilon = 6", "epsilon = 5").replace(
                'levels_file = "towns.txt"', 'levels = ["x"]'
            )
        )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[survey]", "[surveys]", "survey"),
        ('name = "commute"', "", "no name"),
        ("epsilon = 6", "", "no epsilon"),
        ("epsilon = 6", "epsilon = 6\nsize = 3", "unknown key 'size'"),
        ("upper = 20", "", "no upper bound"),
        ("lower = 0", "lower = 50", "must be below"),
        ('method = "mean"', 'method = "meen"', "Did you mean 'mean'"),
        ('levels = ["bus", "car", "bike"]', "", "neither a method nor levels"),
        ('levels = ["bus", "car", "bike"]', 'levels = ["bus", "bus"]', "twice"),
        ('levels = ["bus", "car", "bike"]', 'levels = "bus"', "list"),
        ('levels = ["bus", "car", "bike"]', 'levels = ["bus"]\nlevel = 3', "unknown key 'level'"),
        ('levels = ["bus", "car", "bike"]', 'levels = ["bus"]\nlevels_file = "x"', "not both"),
        ('levels_file = "towns.txt"', "", "has no levels"),
        ('attributes = ["smokes", "runs"]', "", "attributes"),
        ('attributes = ["smokes", "runs"]', 'attributes = ["smokes", "runs"]\nwidth = 5', "width"),
        ('epsilon = "1/2"', 'epsilon = "0"', "above 0"),
        ('column = "town"', 'column = ""', "column"),
        ("[questions.transport]", '[questions."a,b"]', "cannot have this name"),
        ("[questions.transport]", "[questions.survey]", "cannot have this name"),
        ("[survey]", "[survey", "TOML"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "towns.txt").write_text("Bern\n")
    assert old in TEXT
    with pytest.raises(PublishError, match=message):
        Survey.from_toml(TEXT.replace(old, new, 1), folder=tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[survey]\nname='x'\nepsilon=1\n", "[survey]\nname='x'\nepsilon=1\n[questions]\na=3\n"],
)
def test_half_a_survey_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        Survey.from_toml(text)


def test_a_mark_that_an_editor_put_before_the_text_is_not_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "towns.txt").write_bytes(b"\xef\xbb\xbfOslo\nRome\n")
    file = tmp_path / "survey.toml"
    text = (
        "[survey]\nname = 'towns'\nepsilon = 1\n[questions.town]\nmethod = 'kary'\nepsilon = "
        "1\nlevels_file = 'towns.txt'\n"
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert list(Survey.read(file).questions["town"].randomizer.levels)[:2] == ["Oslo", "Rome"]
