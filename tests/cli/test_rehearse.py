"""Rehearsals: whole releases on stand-in rows, free and not about the data."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from threading import Thread

import polars as pl
import pytest

import dpublish as dp
from cli.conftest import Command
from dpublish.curator.predicting import recommend
from dpublish.curator.rehearse import (
    default_questions,
    epsilon_for,
    payable,
    rehearse,
    stand_in,
    truth_of,
)
from dpublish.declare.schema import Schema
from dpublish.errors import InputError, PlanError
from dpublish.ledger import state
from dpublish.ledger.state import is_remembered, remember
from dpublish.methods.base import Mechanism
from dpublish.privacy.cost import Cost
from dpublish.query.predicate import columns_of, parse_predicate
from dpublish.requests.base import plain
from dpublish.requests.plans import (
    CHOSEN_ELSEWHERE,
    IF_EVEN,
    Compare,
    Plan,
    Plans,
    Rehearse,
    recommend_for,
)
from dpublish.sources.sources import open_source

SCHEMA = """
[dataset]
name = "visits"
neighbours = "add-remove-one"
nominal_size = 2000
unit = "patient"
max_rows_per_unit = 2
target = "ill"
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
[columns.seen]
kind = "date"
lower = 2020-01-01
upper = 2020-12-31
bins = 12
[columns.weight]
kind = "real"
lower = 0
upper = 200
bins = 8
[columns.ill]
kind = "boolean"
"""
QUESTION = "age >= 50 and ill = true"
HISTOGRAM = dp.Histogram(columns=["age", "ill"])


@pytest.fixture
def schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "state"))
    path = tmp_path / "a.toml"
    path.write_text(SCHEMA)
    return path


def test_stand_in_rows_are_those_of_the_schema_and_of_no_data() -> None:
    schema = Schema.from_toml(SCHEMA)
    rows = stand_in(schema)
    assert rows.equals(stand_in(schema))
    assert set(rows.columns) == {*schema.columns, "patient"}
    assert rows["patient"].n_unique() == 2000
    assert rows.group_by("patient").len()["len"].max() == 2
    age = rows["age"]
    assert age.is_between(0, 99).all()
    truth = rows.filter((pl.col("age") >= 50) & (pl.col("ill") == "true")).height
    assert truth_of(open_source(rows), schema, QUESTION) == truth


def test_answers_stand_beside_the_truth_of_the_stand_in() -> None:
    schema = Schema.from_toml(SCHEMA)
    found = rehearse(HISTOGRAM, schema, [Cost.pure(1), Cost.pure(4)], questions=[QUESTION])
    cheap, dear = found.answers
    assert cheap.truth == dear.truth > 0
    assert dear.margin < cheap.margin
    # noise is seeded, so this holds for ever or never
    assert abs(cheap.value - cheap.truth) <= 3 * cheap.margin
    release = found.releases[0]
    assert not release.manifest["publishable"]
    assert release.manifest["dataset"] == "stand-in for visits"
    assert "none is about the private data" in json.dumps(plain(found.to_json()))


def test_questions_of_ours_name_columns_that_are_words_of_sql() -> None:
    schema = Schema.from_toml(
        """
        [dataset]
        name = "stays"
        neighbours = "replace-one"
        size = 50
        [columns.alter]
        kind = "integer"
        lower = 0
        upper = 99
        [columns.end]
        kind = "date"
        lower = 2020-01-01
        upper = 2020-12-31
        [columns.case]
        kind = "categorical"
        levels = ["a", "b"]
        """
    )
    domain = schema.domain(list(schema.columns), rows=50)
    asked = default_questions(schema)
    assert asked[0] == '"alter" >= 49'
    assert [columns_of(parse_predicate(one, domain)) for one in asked] == [{0}, {1}, {2}]


def test_an_error_is_solved_for_epsilon() -> None:
    schema = Schema.from_toml(SCHEMA)
    found, tried = epsilon_for(HISTOGRAM, schema, QUESTION, 60.0)
    assert tried.answers[0].margin <= 60
    less = rehearse(HISTOGRAM, schema, [Cost.pure(found * Fraction(8, 10))], questions=[QUESTION])
    assert less.answers[0].margin > 60
    with pytest.raises(PlanError, match="No epsilon"):
        epsilon_for(HISTOGRAM, schema, "age >= 55", 1e-9)


def test_a_table_that_was_paid_for_is_refused_as_a_stand_in(schema: Path) -> None:
    stand_in(Schema.read(schema)).write_csv("public.csv")
    asked = Rehearse(
        schema=schema, epsilon="1", settings={"columns": "age,ill"}, public="public.csv"
    )
    assert asked.run().stand_in == "a public table"
    remember("public.csv")
    with pytest.raises(InputError, match="is private"):
        asked.run()


def test_files_are_private_by_their_folder_and_by_a_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("folder/year=2020/a.csv", "parts/a.csv", "parts/b.csv", "public/a.csv"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    remember("folder")
    assert is_remembered("folder/year=2020/a.csv")
    assert is_remembered("folder/*/*.csv")
    remember("parts/a*.csv")
    assert is_remembered("parts/b.csv")
    assert is_remembered("parts")
    assert is_remembered("part?/*.csv")
    assert is_remembered(".")
    assert not is_remembered("public/a.csv")
    assert not is_remembered("public")


def test_two_who_remember_at_once_both_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [tmp_path / name for name in ("a.csv", "b.csv")]
    for name in names:
        name.touch()
    replace, waiting = state.replace_owned, []

    def slow(path: Path, content: bytes) -> None:
        if not waiting:  # the second one starts when the first has read, and has not written
            waiting.append(Thread(target=remember, args=(names[1],)))
            waiting[0].start()
            waiting[0].join(0.2)
        replace(path, content)

    monkeypatch.setattr(state, "replace_owned", slow)
    remember(names[0])
    waiting[0].join()
    assert all(is_remembered(name) for name in names)


def test_a_release_makes_its_file_known_as_private(schema: Path, dpublish: Command) -> None:
    stand_in(Schema.read(schema)).write_csv("rows.csv")
    made = dpublish(
        "release", "rows.csv", "--schema", "a.toml", "--set", "columns=age", "--epsilon", "1",
        "--ledger", "a.ledger", "--budget", "1", "--out", "a.dpr",
    )  # fmt: skip
    assert made.code == 0
    refused = dpublish(
        "rehearse", "--schema", "a.toml", "--set", "columns=age", "--epsilon", "1",
        "--public", "rows.csv",
    )  # fmt: skip
    assert refused.code == 2
    assert "is private" in refused.err


def test_nothing_is_written_but_the_page_asked_for(schema: Path, dpublish: Command) -> None:
    before = {path.name for path in Path().iterdir()}
    shown = dpublish(
        "rehearse", "--schema", "a.toml", "--set", "columns=age,ill", "--epsilon", "1,2",
        "--question", QUESTION, "--out", "page.html",
    )  # fmt: skip
    assert shown.code == 0
    assert "none is about the private data" in shown.out
    assert {path.name for path in Path().iterdir()} - before == {"page.html"}
    assert "NOT PUBLISHABLE" in Path("page.html").read_text(encoding="utf-8")


def test_plans_of_every_door_and_several_costs(schema: Path) -> None:
    release = Plan(schema=schema, epsilon="0.5,1", settings={"columns": "age"}).run()
    settings = {"columns": "ill", "max_hard": "2"}
    online = Plan(schema=schema, epsilon="20", method="median-mechanism", settings=settings).run()
    solve = Plan(method="min-cut", public="10", epsilon="1").run()
    assert [str(plan.cost.epsilon) for plan in release.plans] == ["1/2", "1"]
    assert isinstance(online, Plans)
    assert online.plans[0].kind == "online"
    assert solve.plans[0].method == "min-cut"
    with pytest.raises(PlanError, match="--public"):
        Plan(method="min-cut", epsilon="1").run()
    with pytest.raises(PlanError, match="promises one error"):
        Plan(schema=schema, epsilon="1", method="median-mechanism", questions=(QUESTION,)).run()


def test_a_plan_answers_the_question_asked(schema: Path, dpublish: Command) -> None:
    words = ("plan", "--schema", "a.toml", "--set", "columns=age,ill", "--question", QUESTION)
    asked = dpublish(*words, "--epsilon", "1", "--figure", "f.png", "--json")
    solved = dpublish(*words, "--error", "60", "--json")
    assert json.loads(asked.out)["expected"][0]["margin"] > 0
    assert json.loads(asked.out)["cost"]["epsilon"] == "1"
    assert Path("f.png").stat().st_size > 1000
    assert 0 < float(Fraction(json.loads(solved.out)["epsilon"])) < 10


def test_methods_are_compared_without_data(schema: Path) -> None:
    found = Compare(
        schema=schema, epsilon="1", questions=(QUESTION,), methods=("histogram", "interval-tree")
    ).run()
    assert found.recommended == "histogram"
    assert "interval-tree" in found.reasons
    assert json.dumps(plain(found.to_json()))
    assert found.to_json()["settings"].keys() == {"histogram"}
    with pytest.raises(PlanError, match="no method 'histgram'"):
        Compare(schema=schema, questions=(QUESTION,), methods=("histgram",)).run()


def test_a_method_whose_plan_names_another_is_not_recommended(tmp_path: Path) -> None:
    """Regions spread rows evenly, and stand-in rows lie evenly: real incomes do not."""
    file = tmp_path / "incomes.toml"
    file.write_text(INCOMES)
    asked = ("age >= 65 and ill", "income > 100000")
    found = Compare(schema=file, epsilon="1,2", questions=asked).run()
    assert sum(map(float, found.errors["generalized-table"])) < sum(  # type: ignore[arg-type]
        map(float, found.errors["joined-histograms"])  # type: ignore[arg-type]
    )
    assert found.recommended == "joined-histograms"
    assert found.alternatives == {"generalized-table": IF_EVEN}
    assert found.reasons["projected-histogram"] == CHOSEN_ELSEWHERE
    errors = {"histogram": (3.0,), "joined-histograms": (5.0,)}
    assert recommend_for(errors, {"joined-histograms": ["joined-histograms"]})[0] == "histogram"
    assert recommend_for(errors, {"histogram": ["take joined-histograms"]}) == (
        "joined-histograms",
        {"histogram": IF_EVEN},
    )
    both = {"histogram": ["joined-histograms"], "joined-histograms": ["a histogram"]}
    assert recommend_for(errors, both) == ("histogram", {})
    assert recommend_for({}, {}) == (None, {})


INCOMES = """
[dataset]
name = "incomes"
size = 5000
target = "ill"
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.income]
kind = "real"
lower = 1
upper = 1000000
[columns.region]
kind = "categorical"
levels = ["a", "b", "c", "d", "e", "f", "g", "h"]
[columns.ill]
kind = "boolean"
"""


def test_stand_in_numbers_fill_bins_that_widen() -> None:
    declared = INCOMES.replace("upper = 1000000", "upper = 1000000\nbins = 6\nspacing = 'log'")
    found = stand_in(Schema.from_toml(declared)).get_column("income")
    assert 500 < sorted(found.to_list())[len(found) // 2] < 2000
    assert min(found.to_list()) >= 1
    assert max(found.to_list()) <= 1_000_000


def test_a_delta_leaves_methods_in_the_comparison_that_take_none(tmp_path: Path) -> None:
    """They cost no more with their epsilon alone; what is refused for another reason stays so."""
    file = tmp_path / "clinic.toml"
    file.write_text(LABEL)
    declared, cost = Schema.read(file), Cost.approximate(1, "1e-9")
    assert payable(dp.PrivateClassifier(target="ill"), declared, cost) == Cost.pure(1)
    assert payable(dp.JoinedHistograms(), declared, cost) == cost
    with pytest.raises(PlanError, match="smoker"):
        payable(dp.IntervalTree(columns=["smoker"]), declared, cost)
    found = Compare(schema=file, delta="1e-9", target="ill", methods=("private-classifier",)).run()
    assert found.recommended == "private-classifier"


LABEL = """
[dataset]
name = "clinic"
size = 1500
[columns.age]
kind = "integer"
lower = 18
upper = 100
[columns.smoker]
kind = "categorical"
levels = ["no", "yes"]
[columns.ill]
kind = "boolean"
"""


def test_methods_are_compared_by_what_can_be_learnt_of_a_target(tmp_path: Path) -> None:
    file = tmp_path / "clinic.toml"
    file.write_text(LABEL)
    asked = Compare(
        schema=file,
        epsilon="1/100,20",
        target="ill",
        methods=("private-classifier", "projected-histogram"),
    )
    found = asked.run()
    assert found.recommended in found.areas
    assert found.areas.keys() == {"private-classifier", "projected-histogram"}
    for low, high in found.areas.values():
        assert high > 0.75  # with hardly any noise the label is learnt
        assert low < high
    told = found.to_json()
    assert told["target"] == "ill"
    assert told["areas"]["private-classifier"] == list(found.areas["private-classifier"])
    few, every = (told[f"areas_{one}_columns"]["private-classifier"] for one in ("few", "all"))
    assert found.areas["private-classifier"] == tuple(map(fmean, zip(few, every, strict=True)))
    assert found.recommended not in told["alternatives"]
    with pytest.raises(PlanError, match="no column with two or more levels"):
        Compare(schema=file, target="age").run()
    with pytest.raises(PlanError, match="methods for a label"):
        Compare(schema=file, target="ill", methods=("interval-tree",)).run()


def test_a_comparison_for_a_label_names_what_may_be_taken_as_well() -> None:
    """Nobody knows beforehand how many columns matter: where that decides, both are named."""
    table, near, sums = ([0.8], [0.7]), ([0.78], [0.70]), ([0.70], [0.77])
    assert recommend({}, {}) == (None, {})
    assert recommend({"b": sums, "a": table}, {}) == (
        "a",
        {"b": "if effects of many columns add up"},
    )
    assert recommend({"a": ([0.7], [0.9]), "b": table}, {}) == (
        "a",
        {"b": "if a few columns decide"},
    )
    assert recommend({"a": table, "b": near}, {}) == ("a", {"b": "expected to be about as good"})
    behind = {"a": table, "b": ([0.7], [0.65])}
    assert recommend(behind, {"b": ("rather a",)}) == ("a", {})
    assert recommend(behind, {"a": ("b is better",)}) == ("a", {"b": "which the plan names"})


BASKETS = [dp.FrequentItemsets(keep=4, pairs=2, larger=0), dp.SetPartition(), dp.BasicItemsets()]


def test_the_usual_method_for_baskets_is_theirs(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(
        '[dataset]\nname = "b"\nneighbours = "add-remove-one"\nnominal_size = 500\n'
        '[items]\nuniverse = ["bread", "red wine", "7", "tea"]\n'
    )
    (plan,) = Plan(schema=tmp_path / "b.toml", epsilon="1").run().plans
    assert plan.method == "frequent-itemsets"
    assert "pairs = 0 brings that error" in plan.text()
    assert plan.forecast["item_error_without_pairs"] < plan.forecast["item_error"]
    with pytest.raises(PlanError, match="frequent-itemsets"):
        Compare(schema=tmp_path / "b.toml").run()


@pytest.mark.parametrize("method", BASKETS, ids=lambda one: type(one).__name__)
def test_baskets_are_rehearsed_with_questions_about_items(
    method: Mechanism, tmp_path: Path
) -> None:
    schema = Schema.from_toml(
        '[dataset]\nname = "b"\nneighbours = "add-remove-one"\nnominal_size = 500\n'
        '[items]\nuniverse = ["bread", "red wine", "7", "tea"]\n'
    )
    asked = ["bread", 'bread and not ("red wine" or 7)', *default_questions(schema)]
    found = rehearse(method, schema, [Cost(epsilon=Fraction(20))], questions=asked, runs=1)
    rows = [set(row) for row in stand_in(schema).get_column("items").to_list()]
    truths = [one.truth for one in found.answers]
    assert truths[0] == sum("bread" in row for row in rows)
    assert truths[1] == sum("bread" in row and not row & {"red wine", "7"} for row in rows)
    assert truths[-1] == sum({"red wine", "7"} <= row for row in rows)
    assert all(one.low <= one.truth <= one.high for one in found.answers[:1])
    (tmp_path / "a.txt").write_text("bread tea\n\nbread 7\ntea\n")
    assert truth_of(open_source(tmp_path / "a.txt", schema), schema, "bread and not 7") == 1
