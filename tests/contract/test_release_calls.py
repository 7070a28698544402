"""What each kind of release can be asked: the table in the docs is the truth, and the rest is
refused in words."""

from __future__ import annotations

import copy
import json
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpublish.catalogue import RELEASES
from dpublish.errors import QueryError
from dpublish.releases.base import CALLS, release_class
from every_kind import NAMES, every_kind, rows

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"
HEADING = ["Kind", *CALLS, "its own"]

CONDITIONS = {
    "itemsets": "bread and not beer",
    "halfspaces": "income + 100 * height >= 500",
    "interval-tree": "income between 100 and 300",
}
COLUMNS = {"itemsets": "bread", "interval-tree": "income"}


def table() -> dict[str, list[str]]:
    lines = [
        re.split(r"\s*\|\s*", line.strip("| \n"))
        for line in PAGE.read_text().splitlines()
        if line.startswith("|")
    ]
    start = lines.index(HEADING)
    body = lines[start + 2 : start + 2 + len(RELEASES)]
    return {line[0].strip("`"): [*line[1:], *[""] * (len(HEADING) - len(line))] for line in body}


@pytest.mark.parametrize("kind", RELEASES)
def test_the_table_in_the_docs_is_exact(kind: str) -> None:
    cls = release_class(kind)
    written = table()[kind]
    assert [name for name, mark in zip(CALLS, written, strict=False) if mark] == list(cls.offers())
    assert re.findall(r"`(\w+)`", written[-1]) == list(cls.own)
    assert all(hasattr(cls, name) for name in cls.own)


def test_every_kind_is_tried() -> None:
    assert set(every_kind()) == set(NAMES)
    assert {release.kind for release in every_kind().values()} == set(RELEASES) == set(table())


def ask(release: Any, call: str, folder: Path) -> object:
    """A call that this kind has, with arguments that suit it."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    column = COLUMNS.get(release.kind, "b")
    match call:
        case "estimate":
            return release.estimate(CONDITIONS.get(release.kind, "b = 'yes'")).to_json()
        case "marginal":
            return release.marginal(column).height
        case "sql":
            return release.sql("select count(*) as n from release")["n"].item()
        case "to_frame":
            return release.to_frame().height
        case "sample":
            return release.sample(5, seed=1).height
        case "fit" if release.kind == "interval-tree":
            if len(release.columns) == 1:
                with pytest.raises(QueryError, match="at least one feature"):
                    release.fit(LinearRegression(), target="income")
                return True
            return release.fit(LinearRegression(), target="income").predict(rows(5)).shape
        case "fit":
            return set(release.fit(LogisticRegression(), target="b").predict(rows(50))) <= {
                "no",
                "yes",
                "(other)",
            }
        case "predict":
            return set(release.predict(rows(50))) <= {"no", "yes"}
        case "plot":
            return release.plot(*(() if release.kind in ("itemsets", "solution") else (column,)))
        case _:
            return release.report(folder / "page.html").stat().st_size


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_offered_works_and_the_rest_says_what_does(
    name: str, call: str, tmp_path: Path
) -> None:
    release = every_kind()[name]
    if call in release.offers():
        assert ask(release, call, tmp_path)
        return
    assert not hasattr(release, call)
    with pytest.raises(
        QueryError, match=f"'{release.kind}' does not offer {call}. It offers .*report"
    ) as refused:
        getattr(release, call)
    assert isinstance(refused.value, AttributeError)


def test_misspelt_names_stay_attribute_errors() -> None:
    release = every_kind()["histogram"]
    with pytest.raises(AttributeError, match="no attribute 'estimat'") as refused:
        release.estimat  # noqa: B018
    assert not isinstance(refused.value, QueryError)
    assert copy.copy(release).summary() == release.summary()


EXAMPLES = {"itemsets": "bread and not milk", "halfspaces": "2 * age"}


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_question_is_met_with_an_example_of_the_kind(name: str) -> None:
    release = every_kind()[name]
    if "estimate" in release.offers():
        with pytest.raises(
            QueryError, match=re.escape(f"for example: {EXAMPLES.get(release.kind, 'age >= 40')}")
        ):
            release.estimate("  ")
    if "sql" in release.offers():
        with pytest.raises(QueryError, match="for example: select income"):
            release.sql("")


def test_sql_limits_are_a_sentence_where_there_are_none() -> None:
    found = every_kind()["weighted"].sql("select max(income) as n from release")
    assert found["n_low"][0] is None
    assert found["n_note"][0].startswith("no limits")


@pytest.mark.parametrize("name", NAMES)
def test_copies_and_pickles_answer_alike(name: str) -> None:
    """After use, too: what was worked out on the way is not part of them, and some of it cannot be
    pickled."""
    release = every_kind()[name]
    copies = [copy.copy(release), copy.deepcopy(release), pickle.loads(pickle.dumps(release))]
    if "estimate" in release.offers():
        condition = CONDITIONS.get(release.kind, "b = 'yes'")
        before = release.estimate(condition)
        copies.append(pickle.loads(pickle.dumps(release)))
        assert all(one.estimate(condition) == before for one in copies)
    assert all(one.summary() == release.summary() for one in copies)
    assert all(one.offers() == release.offers() for one in copies)


@pytest.mark.parametrize("name", NAMES)
def test_an_estimate_says_as_json_what_it_says_in_python(name: str) -> None:
    release = every_kind()[name]
    if "estimate" in release.offers():
        estimate = release.estimate(CONDITIONS.get(release.kind, "b = 'yes'"))
        written = json.loads(json.dumps(estimate.to_json()))
        assert written == estimate.to_json()
        said = {**estimate.numbers(), **estimate.details, **estimate.words()}
        assert set(written) == set(said)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_numpy_are_numbers_and_wrong_ones_are_sentences(name: str) -> None:
    release = every_kind()[name]
    if "sample" not in release.offers():
        return
    assert release.sample(np.int64(3), seed=np.uint8(4)).equals(release.sample(3, seed=4))
    for seed in ("x", 1.5, -1, True):
        with pytest.raises(QueryError, match="seed must be a whole number"):
            release.sample(3, seed=seed)
    for number in ("x", 1.5, -1, True):
        with pytest.raises(QueryError, match="n must be a whole number"):
            release.sample(number)
    condition = CONDITIONS.get(release.kind, "b = 'yes'")
    assert release.estimate(condition, level=np.float32(0.5)) == release.estimate(
        condition, level=0.5
    )


def test_numpy_says_how_many_itemsets() -> None:
    release = every_kind()["basic"]
    assert (
        release.top_itemsets(np.int32(2)).height == release.item_counts(top=np.int16(2)).height == 2
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_feature_is_a_name(name: str) -> None:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    release = every_kind()[name]
    if "fit" not in release.offers() or name == "tree":
        return
    target, feature = ("income", "height") if name == "plane" else ("b", "a")
    if name == "projected":
        (feature,) = release.manifest["facts"]["chosen"]
    model = DecisionTreeRegressor() if name == "plane" else DecisionTreeClassifier()
    one, many = (
        release.fit(model, target=target, features=given) for given in (feature, [feature])
    )
    assert one.predict(rows(20)).tolist() == many.predict(rows(20)).tolist()
    for wrong, message in (
        ([], "at least one"),
        (target, "cannot be a feature"),
        ("nothing", "'nothing'"),
    ):
        with pytest.raises(QueryError, match=message):
            release.fit(model, target=target, features=wrong)


@pytest.mark.parametrize("name", ["joined", "weighted", "plane"])
def test_every_kind_says_how_to_get_scikit_learn(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "dpublish.analyse.learn", raising=False)
    for module in [one for one in sys.modules if one.split(".")[0] == "sklearn"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(QueryError, match="pip install"):
        every_kind()[name].fit(None, target="income")


@pytest.mark.parametrize("name", NAMES)
def test_limits_of_counts_are_whole_numbers(name: str) -> None:
    release = every_kind()[name]
    if "estimate" not in release.offers() or release.kind == "weighted-rows":  # shares
        return
    estimate = release.estimate(CONDITIONS.get(release.kind, "b = 'yes'"))
    assert (estimate.low, estimate.high) == (round(estimate.low), round(estimate.high))
    if "marginal" in release.offers():
        table = release.marginal(COLUMNS.get(release.kind, "b"))
        assert (table["low"] == table["low"].round()).all()
        assert (table["high"] == table["high"].round()).all()
