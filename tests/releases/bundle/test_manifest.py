from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dpublish.errors import BundleError
from dpublish.releases.base import make_release, release_class
from dpublish.releases.bundle.manifest import check_files, check_manifest, fraction, read_domain
from releases.simulated import cells_frame, manifest, people, people_release, varied

Change = Callable[[dict[str, Any]], object]


def test_a_good_manifest_passes() -> None:
    check_manifest(manifest(people()), sealed=False)
    check_manifest(manifest(varied()), sealed=False)


def test_a_manifest_without_domain_passes() -> None:
    data = manifest(people())
    del data["domain"]
    check_manifest(data, sealed=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop("format"), "not a dpublish release"),
        (lambda m: m.update(format_version="1"), "format_version"),
        (lambda m: m.update(format_version=99), "Upgrade"),
        (lambda m: m.update(kind=7), "kind"),
        (lambda m: m.update(publishable="yes"), "publishable"),
        (lambda m: m.update(schema_digest="abc"), "SHA-256"),
        (lambda m: m.update(plan=[]), "plan"),
        (lambda m: m["privacy"].pop("statement"), "statement"),
        (lambda m: m["privacy"].update(cost={"epsilon": "x"}), "cost"),
        (
            lambda m: m["privacy"].update(
                cost={"kind": "pure", "epsilon": "nan", "delta": "0", "rho": "0"}
            ),
            "cost",
        ),
        (lambda m: m.update(domain=[]), "domain"),
        (lambda m: m.update(domain={}), "domain"),
        (lambda m: m["domain"][0].update(kind="blob"), "kind"),
        (lambda m: m["domain"][0].update(edges=[3, 2]), "increase"),
        (lambda m: m["domain"][0].update(edges=[1, 1]), "increase"),
        (lambda m: m["domain"][0].update(edges=[1.5, 2.5]), "whole"),
        (lambda m: m["domain"][0].update(edges=[1, True]), "numbers"),
        (lambda m: m["domain"][0].update(edges=[0, 10**30]), "2\\^62"),
        (lambda m: m["domain"][0].update(levels=["a"]), "not levels"),
        (lambda m: m["domain"][0].update(surprise=1), "unknown key"),
        (lambda m: m["domain"][1].update(levels=["a", "a"]), "twice"),
        (lambda m: m["domain"][1].update(levels=[]), "levels"),
        (lambda m: m["domain"][1].update(levels=[1]), "levels"),
        (lambda m: m["domain"][1].update(edges=[1, 2]), "not edges"),
        (lambda m: m["domain"][1].update(name="age"), "twice"),
        (lambda m: m["domain"][1].update(name=""), "name"),
        (lambda m: m["domain"][1].update(other=1), "other"),
        (lambda m: m["domain"][1].update(outside="burn"), "outside"),
        (lambda m: m["domain"][3].update(levels=["no", "yes"]), "boolean"),
        (lambda m: m["domain"].append("x"), "object"),
    ],
)
def test_bad_manifests_are_explained(change: Change, message: str) -> None:
    data = copy.deepcopy(manifest(people()))
    change(data)
    with pytest.raises(BundleError, match=message):
        check_manifest(data, sealed=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.update(threshold=-1), "threshold"),
        (lambda f: f.update(threshold=1.5), "threshold"),
        (lambda f: f.update(scale=2), "scale"),
        (lambda f: f.update(scale="1/0"), "scale"),
        (lambda f: f.update(scale="0"), "scale"),
        (lambda f: f.update(scale="1e400"), "scale"),
        (lambda f: f.update(domain_size=3), "domain_size"),
        (lambda f: f.update(total={}), "kind"),
        (lambda f: f.update(total={"kind": "guess", "value": 1}), "not known"),
        (lambda f: f.update(total={"kind": "noisy", "value": 1, "scale": None}), "scale"),
        (lambda f: f.update(total={"kind": "public", "value": -1}), "value"),
        (lambda f: f.update(total={"kind": "public", "value": 1, "scale": "\x00"}), "scale"),
        (lambda f: f.update(max_total="many"), "max_total"),
    ],
)
def test_bad_histogram_facts_are_explained(change: Change, message: str) -> None:
    data = copy.deepcopy(manifest(people()))
    change(data["facts"])
    release = people_release()
    with pytest.raises(BundleError, match=message):
        make_release(data, {"cells": release.tables["cells"]})


def test_unknown_kinds_and_tables() -> None:
    data = manifest(people())
    with pytest.raises(BundleError, match="not known to this version"):
        release_class("hologram")
    with pytest.raises(BundleError, match="one table"):
        make_release(data, {})
    import numpy as np

    empty = cells_frame(np.zeros(0), np.zeros(0))
    assert make_release(data, {"cells": empty}).kind == "histogram"


def test_a_domain_beyond_the_limit_is_refused() -> None:
    axis = {
        "name": "x",
        "kind": "integer",
        "edges": list(range(1025)),
        "other": False,
        "missing": False,
        "outside": "clip",
    }
    assert read_domain([{**axis, "name": f"x{i}"} for i in range(6)]).size == 1 << 60
    with pytest.raises(BundleError, match="2\\^63"):
        read_domain([{**axis, "name": f"x{i}"} for i in range(7)])


def test_files_are_checked() -> None:
    good = {"sha256": "0" * 64, "bytes": 1, "rows": 1}
    check_files({"cells.parquet": good})
    for files in (
        {"../a.parquet": good},
        {"Cells.parquet": good},
        {"a.parquet": 1},
        {"a.parquet": {**good, "bytes": -1}},
    ):
        with pytest.raises(BundleError):
            check_files(files)


def test_fractions() -> None:
    assert fraction({"s": "4/3"}, "s", "x") * 3 == 4
    for text in ("-1", "1.5", "", "1/2/3", "9" * 70, None, "٣"):
        with pytest.raises(BundleError):
            fraction({"s": text}, "s", "x")
