"""Records of a release for catalogues, registries and officers: facts of the manifest alone."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from dpublish.errors import QueryError
from dpublish.present.records import RECORDS, write_record
from dpublish.releases.base import Release, make_release
from every_kind import NAMES, every_kind

ABOUT = {
    "title": "A survey",
    "description": "Who was asked what.",
    "publisher": "The office",
    "contact": "office@example.org",
    "purpose": "To plan schools",
    "licence": "CC-BY-4.0",
}


def stated(name: str = "histogram") -> Release:
    release = every_kind()[name]
    return make_release({**release.manifest, "about": ABOUT}, release.tables)


@pytest.mark.parametrize("to", RECORDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_has_every_record_and_says_what_is_missing(
    name: str, to: str, tmp_path: Path
) -> None:
    path, beside, missing = write_record(every_kind()[name], tmp_path / "record.txt", to=to)
    text = path.read_text(encoding="utf-8")
    assert "publisher" in missing
    assert all(one.exists() for one in beside)
    if to in ("croissant", "dcat", "frictionless", "registry"):
        json.loads(text)
    assert "None" not in text


def test_what_the_schema_states_is_in_the_record(tmp_path: Path) -> None:
    for to in RECORDS:
        path, _, missing = write_record(stated(), tmp_path / "record.txt", to=to)
        text = path.read_text(encoding="utf-8")
        assert "The office" in text
        assert not set(missing) & set(ABOUT)
        assert "not stated" not in text


def test_croissant_is_valid(tmp_path: Path) -> None:
    croissant = pytest.importorskip("mlcroissant")
    path, beside, _ = write_record(stated(), tmp_path / "croissant.json", to="croissant")
    dataset = croissant.Dataset(jsonld=str(path))
    assert not dataset.metadata.issues.errors
    records = list(dataset.records("rows"))
    assert len(records) == stated().to_frame().height  # type: ignore[attr-defined]
    assert beside[0].name == "croissant.table.csv"


def test_the_data_package_is_valid(tmp_path: Path) -> None:
    frictionless = pytest.importorskip("frictionless")
    path, _, _ = write_record(stated(), tmp_path / "datapackage.json", to="frictionless")
    report = frictionless.validate(str(path))
    assert report.valid, report.flatten(["type", "note"])


@pytest.mark.parametrize("name", ["histogram", "tree", "solution"])
def test_the_dcat_record_meets_the_shapes_of_dcat_ap(name: str, tmp_path: Path) -> None:
    """The shapes hold what the tables of DCAT-AP 3 ask of a dataset, a distribution, a checksum, an
    agent and a contact; the planted record lacks or mistypes one thing at a time."""
    path, _, _ = write_record(stated(name), tmp_path / "dcat.json", to="dcat")
    text = path.read_text(encoding="utf-8")
    assert dcat_problems(text) == ""
    record = json.loads(text)
    for broken in (
        {**record, "dct:title": []},
        {**record, "dct:publisher": "The office"},
        {**record, "dct:issued": "yesterday"},
    ):
        assert dcat_problems(json.dumps(broken))
    for key in ("dcat:accessURL", "spdx:checksum"):
        for distribution in record.get("dcat:distribution", ()):
            changed = {**distribution, key: "somewhere"}
            assert dcat_problems(json.dumps({**record, "dcat:distribution": [changed]}))


def dcat_problems(text: str) -> str:
    from pyshacl import validate
    from rdflib import Graph

    graph = Graph().parse(data=text, format="json-ld", publicID="https://example.org/record")
    shapes = Graph().parse(Path(__file__).with_name("dcat_ap_shapes.ttl"))
    fine, _, said = validate(graph, shacl_graph=shapes)
    return "" if fine else str(said)


@pytest.mark.parametrize("name", NAMES)
def test_the_registry_takes_the_record_once_what_is_missing_is_filled_in(
    name: str, tmp_path: Path
) -> None:
    """Against the fields, types and words of the registry's schema; its problems are those that
    the record lists as missing, and nothing else."""
    path, _, missing = write_record(stated(name), tmp_path / "record.yaml", to="registry")
    record = json.loads(path.read_text(encoding="utf-8"))
    found = record["deployment"]
    basic, loss = found["basic"], found["privacy_loss"]
    cost = every_kind()[name].manifest["privacy"]["cost"]
    for key in ("epsilon", "delta", "rho"):
        amount = Fraction(cost.get(key) or 0)
        assert amount <= Fraction(loss["privacy_parameters"].get(key, 0)) <= amount * (1 + 2**-50)
    assert sorted(problems_of(record)) == [
        "deployment.administrative: 'registry_authors' is a required property",
        "deployment.basic.data_curators.0: 'data_curator_type' is a required property",
        "deployment.basic: 'data_product_region' is a required property",
    ]
    assert {"data curator type", "data product region", "registry authors"} <= set(missing)
    basic["data_curators"][0]["data_curator_type"] = "Government"
    basic["data_product_region"] = "Everywhere"
    found["administrative"]["registry_authors"] = ["A clerk"]
    assert problems_of(record) == []
    for part, key, wrong in (
        ("basic", "data_product_type", "histogram"),
        ("dp_variant", "variant_name", "zCDP"),
        ("privacy_loss", "privacy_parameters", {"epsilon": "1"}),
        ("deployment_model", "release_type", "One-shot"),
        ("implementation", "software", {}),
    ):
        planted = {**record, "deployment": {**found, part: {**found[part], key: wrong}}}
        assert problems_of(planted), key


def problems_of(record: dict[str, Any]) -> list[str]:
    from jsonschema import Draft7Validator

    schema = json.loads(Path(__file__).with_name("registry_fields.json").read_text("utf-8"))
    return [
        f"{'.'.join(map(str, error.path))}: {error.message}"
        for error in Draft7Validator(schema).iter_errors(record)
    ]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload"}


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    bad = "<script>alert(1)</script>\"'"
    release = every_kind()["histogram"]
    hostile = make_release(
        {**release.manifest, "dataset": bad, "about": dict.fromkeys(ABOUT, bad)}, release.tables
    )
    path, _, _ = write_record(hostile, tmp_path / "label.html", to="label")
    tags = _Tags()
    tags.feed(path.read_text(encoding="utf-8"))
    assert "script" not in tags.seen
    assert re.search("Privacy label", path.read_text(encoding="utf-8"))
    # the drawing stands by itself, and every word in it is text
    path, _, _ = write_record(hostile, tmp_path / "label.svg", to="label")
    drawn = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    tags = {one.tag.rpartition("}")[2] for one in drawn.iter()}
    assert tags == {"svg", "title", "rect", "text"}
    assert "Privacy label" in "".join(drawn.itertext())


def test_unknown_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="croissant"):
        write_record(stated(), tmp_path / "a.txt", to="poem")
