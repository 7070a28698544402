"""Schemas from code books, of every form, and from templates; none of them reads a row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpublish.declare.codebook import schema_from_codebook
from dpublish.declare.schema import Schema
from dpublish.errors import InputError
from dpublish.requests.schemas import TEMPLATES, FromCodebook, NewSchema

PLAIN = {
    "SEX": {"description": "Sex", "values": {"1": "Male", "2": "Female"}},
    "AGE": {"description": "Age", "values": {"min": 0, "max": 99}},
    "INCOME": {"values": {"N": "not asked", "min": -9000, "max": 1000000.5}},
    "INDP": {"description": "271 codes"},
}
TABLE_SCHEMA = {
    "fields": [
        {"name": "SEX", "type": "string", "constraints": {"enum": ["1", "2"], "required": True}},
        {"name": "AGE", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "DAY", "type": "date",
         "constraints": {"minimum": "2020-01-01", "maximum": "2020-12-31"}},
        {"name": "OK", "type": "boolean"},
    ]
}  # fmt: skip
CROISSANT = {
    "recordSet": [
        {
            "field": [
                {"name": "r/AGE", "dataType": "sc:Integer", "minValue": 0, "maxValue": 99},
                {"name": "r/OK", "dataType": "sc:Boolean"},
            ]
        }
    ]
}
DDI = """<codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="SEX"><labl>Sex</labl>
<catgry><catValu>1</catValu><labl>Male</labl></catgry>
<catgry><catValu>2</catValu><labl>Female</labl></catgry>
<catgry missing="Y"><catValu>9</catValu><labl>No answer</labl></catgry></var>
<var name="AGE" intrvl="contin"><labl>Age</labl><valrng><range min="0" max="99"/></valrng></var>
</dataDscr></codeBook>"""
LINES = "name,label,type,min,max,values\nSEX,Sex,,,,1=Male;2=Female\nAGE,Age,integer,0,99,\n"
LONG = "variable,label,code,meaning\nSEX,Sex,1,Male\n,,2,Female\n"
SPSS = """VARIABLE LABELS SEX 'Sex' AGE 'Age'.
VALUE LABELS SEX 1 'Male' 2 'Female' / A B 0 'No' 1 'Yes'.
"""
STATA = """label variable SEX "Sex"
label define sexl 1 "Male" ///
  2 "Female"
label values SEX sexl
"""


def made(folder: Path, name: str, text: object) -> Schema:
    path = folder / name
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    schema, _ = schema_from_codebook(path, name="d")
    assert not schema.draft
    assert Schema.from_toml(schema.to_toml()) == schema
    return schema


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", PLAIN),
        ("a.csv", LINES),
        ("a.csv", LONG),
        ("a.xml", DDI),
        ("a.sps", SPSS),
        ("a.do", STATA),
    ],
    ids=["json", "csv", "csv by code", "ddi", "spss", "stata"],
)
def test_codes_and_their_labels_are_read(tmp_path: Path, name: str, text: object) -> None:
    sex = made(tmp_path, name, text).columns["SEX"]
    assert (sex.kind, sex.levels) == ("categorical", ("1", "2"))
    assert sex.wording.labels == {"1": "Male", "2": "Female"}
    assert sex.wording.source == f"code book {name}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", PLAIN),
        ("a.json", TABLE_SCHEMA),
        ("a.json", {"resources": [{"schema": TABLE_SCHEMA}]}),
        ("a.json", CROISSANT),
        ("a.csv", LINES),
        ("a.xml", DDI),
    ],
    ids=["json", "table schema", "data package", "croissant", "csv", "ddi"],
)
def test_bounds_are_read(tmp_path: Path, name: str, text: object) -> None:
    age = made(tmp_path, name, text).columns["AGE"]
    assert (age.kind, age.lower, age.upper) == ("integer", 0, 99)


def test_a_code_beside_a_range_says_that_a_number_is_not_there(tmp_path: Path) -> None:
    income = made(tmp_path, "a.json", PLAIN).columns["INCOME"]
    assert (income.kind, income.missing, income.upper) == ("real", True, 1000000.5)


def test_what_the_code_book_does_not_tell_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(PLAIN))
    told = FromCodebook(codebook=tmp_path / "a.json").run()
    assert told.untold == ("INDP",)
    assert "# - INDP" in told.toml


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", "[1"), ("a.json", "[]"), ("a.csv", "x,y\n1,2\n"), ("a.xml", "<a"), ("a.txt", "x"),
     ("a.json", "{}"), ("a.do", "nothing")],
)  # fmt: skip
def test_other_files_are_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError):
        schema_from_codebook(tmp_path / name, name="d")


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_are_schemas(template: str) -> None:
    schema = Schema.from_toml(NewSchema(template=template).run().toml)
    assert schema.about["title"]
    assert not schema.draft
