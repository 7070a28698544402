"""The projected histogram: plans and refusals, its law on tiny tables, audits, planted bugs, and a
release end to end."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dpublish as dp
from dpublish import audit
from dpublish.audit.subject import Subject
from dpublish.declare.domain import lei_bins
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, SchemaError
from dpublish.methods.base import Output
from dpublish.methods.draws import log_threshold, survival_probability
from dpublish.methods.projected_histogram.choose_k import k_from_simulation
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import (
    free_choice,
    mda,
    stopping_kd,
    undiscerned,
)
from dpublish.methods.projected_histogram.mechanism import (
    ProjectedHistogram,
    ProjectedSettings,
    count_projection,
)
from dpublish.methods.projected_histogram.scores import PairCount, PairsPerRow, Purity
from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

pytestmark = pytest.mark.usefixtures("compiled_kernels")

ONE = Cost.pure(1)
COLUMNS = """
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.wage]
kind = "real"
lower = 0
upper = 1000
[columns.town]
kind = "categorical"
levels = ["A", "B", "C"]
[columns.member]
kind = "boolean"
[columns.ill]
kind = "categorical"
levels = ["no", "yes"]
"""


def schema_of(dataset: str = 'size = 5000\ntarget = "ill"', columns: str = COLUMNS) -> Schema:
    return Schema.from_toml(f'[dataset]\nname = "people"\n{dataset}\n{columns}')


BITS = "".join(
    f'[columns.{name}]\nkind = "categorical"\nlevels = ["0", "1"]\noutside = "drop"\n'
    for name in ("a", "b", "t")
)


def bits(dataset: str) -> Schema:
    return schema_of(f'target = "t"\n{dataset}', BITS)


# Plans.


def test_a_plan_says_what_it_chose_and_why() -> None:
    plan = ProjectedHistogram(choose_k="simulate").plan(schema_of(), ONE)
    text = plan.text()
    k = plan.facts["k"]
    assert f"k = {k}: in simulated data" in text
    assert "gamma = " in text
    assert plan.domain is not None
    assert plan.domain.names == ("age", "wage", "town", "member", "ill")
    # declared town has four codes ('(other)' included), more than the two bins of Lei's rule for
    # five columns
    bins = max(2, lei_bins(5000, 5))
    expected = k_from_simulation(
        5000, [min(bins, n) for n in (bins, bins, 4, 3)], 3, Fraction(1, 10)
    )
    assert k == expected
    published = lei_bins(5000, k + 1)
    assert plan.domain.shape[:2] == (published, published)


@pytest.mark.parametrize(
    ("dataset", "settings", "share", "sensitivity"),
    [
        (
            "size = 5000",
            {},
            Fraction(1, 20),
            2,
        ),  # rows without an age are dropped, so their number is private
        ("size = 5000", {"count_share": 0}, 0, 2),
        (
            "size = 5000",
            {"candidates": ["town", "member"], "k": 1},
            0,
            2,
        ),  # these columns drop no row
        ("neighbours = 'add-remove-one'\nnominal_size = 5000", {}, Fraction(1, 20), 1),
        (
            "neighbours = 'add-remove-one'\nnominal_size = 5000",
            {"count_share": "1/4"},
            Fraction(1, 4),
            1,
        ),
    ],
)
def test_the_budget_is_divided_exactly(
    dataset: str, settings: dict[str, Any], share: Fraction, sensitivity: int
) -> None:
    method = ProjectedHistogram(**({"k": 2} | settings), gamma="0.3", bin_share=0)
    plan = method.plan(schema_of(dataset + '\ntarget = "ill"'), Cost.pure("0.7"))
    parts = [
        Fraction(plan.facts[key]) for key in ("selection_epsilon", "cell_epsilon", "count_epsilon")
    ]
    rest = Fraction(7, 10) * (1 - share)
    assert parts == [rest * Fraction(7, 10), rest * Fraction(3, 10), Fraction(7, 10) * share]
    assert sum(parts) == Fraction(7, 10)
    assert Fraction(plan.facts["scale"]) == sensitivity / parts[1]
    assert plan.facts["threshold"] == log_threshold(Fraction(1, 4), 5000, parts[1])


def test_expected_support_covers_all_that_may_be_chosen() -> None:
    plan = ProjectedHistogram(k=2, gamma="1/2", bins=10).plan(schema_of(), ONE)
    facts = plan.facts
    assert plan.domain is not None
    assert plan.domain.shape == (10, 10, 4, 3, 3)
    assert (facts["domain_size_low"], facts["domain_size_high"]) == (3 * 4 * 3, 10 * 10 * 3)
    survive = survival_probability(Fraction(facts["scale"]), facts["threshold"])
    assert facts["expected_false_cells_high"] == pytest.approx(300 * survive)
    assert facts["expected_support_high"] == pytest.approx(
        300 + 0 * survive
    )  # more rows than cells: all may be occupied
    assert facts["expected_support_low"] == pytest.approx(36 * survive)


def test_all_columns_need_no_choice() -> None:
    plan = ProjectedHistogram(k=4).plan(schema_of(), ONE)
    assert plan.facts["gamma"] == "1"
    assert plan.facts["selection_epsilon"] == "0"
    assert "nothing is spent on choosing" in plan.text()


def test_the_papers_reading_of_leis_rule() -> None:
    columns = "".join(f'[columns.x{i}]\nkind = "real"\nlower = 0\nupper = 1\n' for i in range(14))
    schema = schema_of(
        'size = 45083\ntarget = "y"', columns + '[columns.y]\nkind = "boolean"\noutside = "drop"\n'
    )
    for rule, bins in (("all-columns", 2), ("published", lei_bins(45083, 5))):
        method = ProjectedHistogram(choose_k="simulate", bin_rule=rule)  # type: ignore[arg-type]
        plan = method.plan(schema, ONE)
        assert plan.facts["k"] == 4
        assert plan.domain is not None
        assert plan.domain.shape[:14] == (bins,) * 14


def test_warnings() -> None:
    wide = (
        '[columns.zip]\nkind = "categorical"\nlevels = ['
        + ",".join(f'"{i}"' for i in range(80))
        + "]\n"
    )
    plan = ProjectedHistogram(k=2, gamma=1, score="discernibility").plan(
        schema_of(columns=COLUMNS + wide), ONE
    )
    assert any("drawn at random" in text for text in plan.warnings)
    assert any("favours columns with many levels, such as 'zip'" in text for text in plan.warnings)
    assert (
        not ProjectedHistogram(k=2, score="prediction")
        .plan(schema_of(columns=COLUMNS + wide), ONE)
        .warnings
    )
    bare = schema_of("neighbours = 'add-remove-one'\nnominal_size = 500\ntarget = 'ill'")
    assert any(
        "No total" in text
        for text in ProjectedHistogram(k=2, count_share=0).plan(bare, ONE).warnings
    )


def test_scores_follow_the_relation() -> None:
    def score(dataset: str, **settings: Any) -> object:
        plan = ProjectedHistogram(k=1, **settings).plan(bits(dataset), ONE)
        found = plan.settings.score
        assert plan.facts["selection_sensitivity"] == str(found.sensitivity)
        return found

    unit = 'unit = "person"\nmax_rows_per_unit = 3\n'
    add = "neighbours = 'add-remove-one'\nnominal_size = 100"
    pairs = {"score": "discernibility"}
    assert score("size = 100") == Purity(1, 2)
    assert score("size = 100", rule="paper") == PairCount(100, 1)
    assert score("size = 100", **pairs) == PairCount(100, 1)
    assert score(unit + "size = 100", **pairs) == PairCount(100, 3)
    assert score(add, **pairs) == PairsPerRow(2, 1)
    assert score(unit + add, **pairs) == PairsPerRow(2, 3)
    assert score("size = 100", score="prediction", cell_charge=7) == Purity(7, 2)
    assert score(unit + add, score="prediction", cell_charge=7) == Purity(7, 3)
    assert bits(unit + "size = 5").relation.rows == 6


def test_several_rows_a_unit_and_private_sizes_are_planned() -> None:
    dataset = 'neighbours = "add-remove-one"\nunit = "person"\nmax_rows_per_unit = 2\ntarget = "t"'
    plan = ProjectedHistogram(k=1).plan(schema_of(dataset, BITS), ONE)
    assert plan.facts["threshold"] is None
    assert plan.facts["gamma"] == "4/5"
    paper = ProjectedHistogram(k=1, choose_k="simulate").plan(schema_of(dataset, BITS), ONE)
    assert paper.facts["gamma"] == "1/2"
    assert "follows from the noisy total" in plan.text()
    assert Fraction(plan.facts["scale"]) == 2 / Fraction(plan.facts["cell_epsilon"])


NO_SIZE = 'neighbours = "add-remove-one"\ntarget = "ill"'


@pytest.mark.parametrize(
    ("settings", "dataset", "message"),
    [
        ({}, "size = 100", "needs a target"),
        ({"target": "height"}, "size = 100", "has no column 'height'"),
        ({"target": "one"}, "size = 100", "one level only"),
        ({"k": 7}, 'size = 100\ntarget = "ill"', "only 5 columns to choose from"),
        ({"k": 0}, 'size = 100\ntarget = "ill"', "k must be at least 1"),
        ({"k": True}, 'size = 100\ntarget = "ill"', "k must be a whole number"),
        ({"gamma": 0}, 'size = 100\ntarget = "ill"', "gamma must be above 0"),
        ({"gamma": 1.5}, 'size = 100\ntarget = "ill"', "gamma must be above 0 and at most 1"),
        ({"gamma": float("nan")}, 'size = 100\ntarget = "ill"', "not a finite number"),
        ({"candidates": ["age", "ill"]}, 'size = 100\ntarget = "ill"', "cannot be a candidate"),
        ({"candidates": ["age", "age"]}, 'size = 100\ntarget = "ill"', "listed twice"),
        ({"candidates": ["agee"]}, 'size = 100\ntarget = "ill"', "Did you mean 'age'"),
        ({"candidates": []}, 'size = 100\ntarget = "ill"', "no column to choose"),
        ({"choose_k": "guess"}, 'size = 100\ntarget = "ill"', "choose_k = 'guess' is not known"),
        ({"score": "predict"}, 'size = 100\ntarget = "ill"', "Did you mean 'prediction'"),
        ({"rule": "best"}, 'size = 100\ntarget = "ill"', "rule = 'best' is not known"),
        ({"choose_k": "public"}, 'size = 100\ntarget = "ill"', "needs public_data"),
        ({"public_data": "x.csv"}, 'size = 100\ntarget = "ill"', "public_data is read for"),
        ({"choose_k": "split", "k_options": [1]}, 'size = 100\ntarget = "ill"', "at least two"),
        ({"choose_k": "split", "k_options": [1, 9]}, 'size = 100\ntarget = "ill"', "from 1 to 5"),
        (
            {"choose_k": "split", "gamma": 1},
            'size = 100\ntarget = "ill"',
            "leaves nothing for choosing k",
        ),
        ({"bins": 1}, 'size = 100\ntarget = "ill"', "bins must be at least 2"),
        ({"sigma": 1}, 'size = 100\ntarget = "ill"', "sigma must be"),
        ({"threshold": -1}, 'size = 100\ntarget = "ill"', "threshold must be"),
        (
            {"threshold": 1 << 61},
            'size = 100\ntarget = "ill"',
            "threshold must be at least 0 and below",
        ),
        ({"threshold_factor": -1}, 'size = 100\ntarget = "ill"', "threshold_factor must be"),
        ({"cell_charge": 0}, 'size = 100\ntarget = "ill"', "cell_charge must be"),
        ({"count_share": 1}, 'size = 100\ntarget = "ill"', "count_share must be"),
        ({"max_support": 1, "k": 4}, 'size = 100\ntarget = "ill"', "Choose a smaller k"),
        (
            {"k": 3, "bins": 2000, "candidates": ["wage", "loan", "debt"]},
            'size = 100\ntarget = "ill"',
            None,
        ),
        ({}, 'target = "ill"', "declares no size"),
        ({}, NO_SIZE, "declares no nominal_size, and choosing k"),
        ({"k": 2}, NO_SIZE, "declares no bins"),
        ({"k": 2, "count_share": 0}, NO_SIZE, "buys no noisy total"),
        ({"target": "age", "bins": 4}, f"size = {1 << 40}", "at most 2,147,483,647 rows"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_spent(
    settings: dict[str, Any], dataset: str, message: str | None
) -> None:
    columns = COLUMNS + '[columns.one]\nkind = "categorical"\nlevels = ["x"]\n'
    if message is None:
        columns += "".join(
            f'[columns.{name}]\nkind = "real"\nlower = 0\nupper = 1\n' for name in ("loan", "debt")
        )
        message = "pass the threshold"
    with pytest.raises((PlanError, SchemaError), match=message):
        ProjectedHistogram(**settings).plan(schema_of(dataset, columns), ONE)


def test_numeric_columns_need_bounds_and_domains_must_fit() -> None:
    loose = COLUMNS + '[columns.height]\nkind = "real"\nlower = 0\n'
    with pytest.raises(SchemaError, match="'height' has no upper bound"):
        ProjectedHistogram().plan(schema_of(columns=loose), ONE)
    wide = "".join(
        f'[columns.x{i}]\nkind = "real"\nlower = 0\nupper = 1\nbins = 2000\n' for i in range(6)
    )
    with pytest.raises(PlanError, match="at most 2\\^63"):
        ProjectedHistogram(k=6).plan(schema_of(columns=COLUMNS + wide), ONE)
    with pytest.raises(PlanError, match="set-valued"):
        ProjectedHistogram().plan(
            Schema.from_toml('[dataset]\nname = "i"\n[items]\nuniverse = ["a"]\n'), ONE
        )
    with pytest.raises(PlanError, match="pure epsilon"):
        ProjectedHistogram().plan(schema_of(), Cost.zcdp(1))


def test_public_data_with_other_columns_is_refused() -> None:
    frame = pl.DataFrame(
        {"age": [1], "wage": [2.0], "city": ["A"], "member": [True], "ill": ["no"]}
    )
    with pytest.raises(PlanError, match="public data has no column 'town'"):
        ProjectedHistogram(choose_k="public", public_data=frame).plan(schema_of(), ONE)
    plan = ProjectedHistogram(choose_k="public", public_data=frame.rename({"city": "town"})).plan(
        schema_of(), ONE
    )
    assert "in the public data" in plan.text()


# Defaults from public facts.


def test_choices_stop_where_cells_would_hold_too_few_rows_for_their_noise() -> None:
    plan = ProjectedHistogram(bin_share=0).plan(schema_of(), ONE)
    settings = plan.settings
    assert (settings.k, settings.k_options, settings.selection_score) == (
        None,
        (1, 2, 3),
        "prediction",
    )
    # two fifths of what the noisy total leaves are kept for counting, whatever is chosen
    assert settings.gamma == Fraction(2, 5)
    assert settings.selection_epsilon + settings.cell_epsilon + settings.count_epsilon == 1
    # 5,000 rows / (2 * scale 5)
    assert settings.stop_cells == 500
    assert settings.domain.shape[:2] == (7, 7)
    assert "expected to hold 26 to 1,667 of 5,000 rows" in plan.text()
    assert plan.forecast["domain_size_high"] <= 500 * 3


def test_what_is_not_spent_on_choosing_goes_to_the_counts() -> None:
    settings = ProjectedHistogram(bin_share=0).plan(schema_of(), ONE).settings
    step = settings.selection_epsilon / 3
    for paid in range(4):
        left = settings.after(paid * step)
        assert left.cell_epsilon + paid * step + left.count_epsilon == 1
        assert left.scale == 2 / left.cell_epsilon
        assert left.threshold == log_threshold(Fraction(1, 4), 5000, left.cell_epsilon)
    assert settings.after(3 * step) is settings


def test_bins_that_are_found_have_their_share_of_the_budget() -> None:
    plan = ProjectedHistogram().plan(schema_of(), ONE)
    settings, search = plan.settings, plan.settings.search
    assert search is not None
    assert (search.columns, search.epsilon) == (("age", "wage"), Fraction(1, 5))
    assert "bins of age, wage are found from the rows, with noise, for epsilon 0.2" in plan.text()
    spent = settings.selection_epsilon + settings.cell_epsilon + settings.count_epsilon
    assert spent + search.epsilon == 1
    assert plan.facts["bin_epsilon"] == "1/5"
    assert plan.facts["adaptive"] == ["age", "wage"]
    for few in (ProjectedHistogram(rule="paper"), ProjectedHistogram(bin_share=0)):
        assert few.plan(schema_of(), ONE).settings.search is None
    tiny_budget = ProjectedHistogram().plan(schema_of(), Cost.pure("1/100"))
    assert tiny_budget.settings.search is None  # too few rows for this epsilon


def test_few_enough_cells_need_no_choice() -> None:
    plan = ProjectedHistogram(count_share=0).plan(bits("size = 5000"), ONE)
    assert (plan.settings.k, plan.settings.cell_epsilon) == (2, 1)
    assert "nothing has to be chosen" in plan.text()


def test_columns_of_one_level_are_left_out() -> None:
    one = '[columns.one]\nkind = "categorical"\nlevels = ["x"]\n'
    plan = ProjectedHistogram().plan(schema_of(columns=COLUMNS + one), ONE)
    assert "one" not in plan.settings.domain.names
    asked = ProjectedHistogram(candidates=["age", "one", "town"])
    assert "one" in asked.plan(schema_of(columns=COLUMNS + one), ONE).settings.domain.names


@pytest.mark.parametrize(
    ("size", "most", "share"), [(300, 1, "1/2"), (1000, 2, "3/10"), (3000, 3, "1/5")]
)
def test_few_rows_leave_few_choices(size: int, most: int, share: str) -> None:
    """As many as tell columns apart, and the less of epsilon for each the more there are."""
    schema = schema_of(f'size = {size}\ntarget = "ill"')
    settings = ProjectedHistogram().plan(schema, ONE).settings
    assert settings.k_options == tuple(range(1, most + 1))
    assert settings.gamma == 1 - most * Fraction(share)
    # as noise of a choice grows with what a unit moves and falls with epsilon
    twice = (
        ProjectedHistogram()
        .plan(schema_of(f'size = {2 * size}\ntarget = "ill"'), Cost.pure("1/2"))
        .settings
    )
    assert twice.k_options == settings.k_options
    asked = ProjectedHistogram(max_k=2).plan(schema, ONE).settings
    assert asked.k_options == (1, 2)
    assert asked.gamma >= Fraction(2, 5)


def test_plans_say_where_another_method_serves_better() -> None:
    few = ProjectedHistogram().plan(schema_of('size = 10\ntarget = "ill"'), ONE)
    assert "little better than a random one" in few.text()
    assert not few.warnings
    many = 'size = 9000\ntarget = "ill"'
    more = '[columns.sex]\nkind = "categorical"\nlevels = ["m", "f"]\n'
    (plenty,) = ProjectedHistogram().plan(schema_of(many, columns=COLUMNS + more), ONE).warnings
    assert "private-classifier is likely to be as good or better" in plenty
    # with four columns all may be chosen
    assert not ProjectedHistogram().plan(schema_of(many), ONE).warnings
    between = schema_of('size = 900\ntarget = "ill"')
    assert not ProjectedHistogram().plan(between, ONE).warnings


@pytest.mark.parametrize(
    ("columns", "rows", "levels", "warned"),
    [
        (8, 2000, None, True),  # 222 a feature: numbers, and few columns
        (12, 3000, 2, True),
        (8, 6600, 4, False),  # 264 a feature, most of them levels
        (8, 11000, 4, True),  # 440
        (30, 7500, None, False),  # 242 a feature, but many columns
        (30, 13000, None, True),
        (8, 1200, None, False),  # 133
    ],
)
def test_the_warning_depends_on_what_columns_are(
    columns: int, rows: int, levels: int | None, warned: bool
) -> None:
    kind = (
        'kind = "real"\nlower = 0\nupper = 1'
        if levels is None
        else f'kind = "categorical"\nlevels = {[str(one) for one in range(levels)]}\n'
        'outside = "drop"'
    )
    text = "".join(f"[columns.c{i}]\n{kind}\n" for i in range(columns))
    schema = schema_of(
        f'size = {rows}\ntarget = "ill"', columns=text + '[columns.ill]\nkind = "boolean"\n'
    )
    said = ProjectedHistogram().plan(schema, ONE).warnings
    assert any("private-classifier" in one for one in said) == warned


def test_the_papers_rules_have_a_name() -> None:
    paper = ProjectedHistogram(rule="paper").plan(schema_of(), ONE)
    spelt = ProjectedHistogram(
        rule="exponential",
        score="discernibility",
        choose_k="simulate",
        bin_rule="all-columns",
        threshold_factor="1/2",
    ).plan(schema_of(), ONE)
    assert paper.settings == spelt.settings
    assert paper.settings.rule == "exponential"
    assert "in simulated data" in paper.text()
    # p, B and l of the rule for gamma
    other = ProjectedHistogram(rule="paper", tuning="1/20", lost_pairs="1/10", inclusion="9/10")
    assert other.plan(schema_of(), ONE).settings.gamma > paper.settings.gamma


# The mechanism.


def tiny(settings: dict[str, Any], dataset: str, epsilon: str = "1") -> Subject:
    return audit.subject(ProjectedHistogram(**settings), bits(dataset), Cost.pure(epsilon))


ADD = 'neighbours = "add-remove-one"\nnominal_size = 3'
STOP = {"max_k": 1, "gamma": "1/2", "threshold": 1, "count_share": 0, "rows_per_cell": "1/4"}
CASES = [
    ({"k": 1, "gamma": "1/2", "threshold": 1, "count_share": 0, "rule": "paper"}, "size = 3"),
    (
        {
            "k": 1,
            "gamma": "1/2",
            "threshold": 1,
            "count_share": 0,
            "score": "prediction",
            "cell_charge": 1,
        },
        "size = 3",
    ),
    ({"k": 1, "gamma": "1/2", "threshold": 1, "count_share": 0}, ADD),
    (STOP, "size = 3"),
    (STOP, ADD),
]


@pytest.mark.parametrize(
    ("settings", "dataset"), CASES, ids=["pairs", "purity", "add-remove", "stop", "stop-add-remove"]
)
def test_exact_privacy_on_tiny_tables(settings: dict[str, Any], dataset: str) -> None:
    subject = tiny(settings, dataset)
    pairs = list(subject.pairs(rows=3))
    report = audit.exact(subject, pairs[:: max(1, len(pairs) // 4)], epsilon=1, window=(0, 2))
    assert report.passed, report.summary()
    assert report.loss > 0.3


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("settings", "dataset"), CASES, ids=["pairs", "purity", "add-remove", "stop", "stop-add-remove"]
)
def test_exact_privacy_on_all_tiny_tables(settings: dict[str, Any], dataset: str) -> None:
    subject = tiny(settings, dataset)
    report = audit.exact(subject, subject.pairs(rows=3), epsilon=1, window=(0, 2))
    assert report.passed, report.summary()


@pytest.mark.parametrize(
    ("settings", "dataset"),
    [
        *CASES,
        ({"k": 1, "gamma": "1/2"}, ADD),
        ({"k": 2}, ADD),
        ({"rows_per_cell": "1/4", "max_k": 2}, "size = 3"),
        ({"rows_per_cell": 9}, ADD),
        ({"choose_k": "split", "k_options": (1, 2), "gamma": "1/2"}, "size = 3"),
        ({"choose_k": "split", "k_options": (1, 2), "score": "prediction"}, ADD),
        ({"k": 1, "gamma": 1}, "size = 3"),
        ({"k": 1}, 'unit = "person"\nmax_rows_per_unit = 2\nsize = 2'),
        (
            {"k": 1},
            'unit = "person"\nmax_rows_per_unit = 2\nneighbours = "add-remove-one"\nnominal_size '
            "= 2",
        ),
    ],
)
def test_replay(settings: dict[str, Any], dataset: str) -> None:
    subject = tiny(settings, dataset)
    pairs = list(subject.pairs(rows=4 if "person" in dataset else 3))
    report = audit.replay(subject, pairs[:: max(1, len(pairs) // 25)], epsilon=1, runs=2)
    assert report.passed, report.summary()
    assert 0 < report.loss <= 1


def test_sampled() -> None:
    """False-alarm rate 1e-6; the report states what it would find with power 0.9."""
    subject = tiny({"k": 1, "gamma": "1/2", "threshold": 0, "count_share": 0}, "size = 6", "2")
    rows = (0b001,) * 5
    report = audit.sampled(subject, [((*rows, 0b100), (*rows, 0b010))], epsilon=2, samples=1000)
    assert report.passed, report.summary()
    assert report.detectable < 5


def dense_law(
    subject: Subject, rows: tuple[int, ...], epsilon: float
) -> dict[tuple[str, frozenset[int]], float]:
    """Chosen column and kept cells, from the definition: every cell of the dense table gets its own
    noise."""
    plan = subject.plan
    codes = [((row >> 2) & 1, (row >> 1) & 1, row & 1) for row in rows]
    gains = [
        sum(x[2] != y[2] and x[c] != y[c] for x, y in itertools.combinations(codes, 2))
        for c in range(2)
    ]
    rate = epsilon * float(Fraction(plan.facts["selection_epsilon"])) / (2 * (len(rows) - 1))
    weights = [math.exp(rate * gain) for gain in gains]
    scale = 2 / (epsilon * float(Fraction(plan.facts["cell_epsilon"])))
    law = {}
    for column, name in enumerate("ab"):
        counts = Counter(2 * code[column] + code[2] for code in codes)
        kept = [tail(plan.facts["threshold"] + 1 - counts[cell], scale) for cell in range(4)]
        for cells in itertools.product((False, True), repeat=4):
            mass = math.prod(p if inside else 1 - p for p, inside in zip(kept, cells, strict=True))
            law[name, frozenset(np.flatnonzero(cells).tolist())] = (
                mass * weights[column] / sum(weights)
            )
    return law


def tail(start: int, scale: float) -> float:
    ratio = math.exp(-1 / scale)
    return ratio**start / (1 + ratio) if start >= 1 else 1 - ratio ** (1 - start) / (1 + ratio)


def test_sparse_law_is_the_dense_law() -> None:
    """Chi-square over 32 outcomes at level 1e-6, fixed seed. With 3,000 runs it rejects the law for
    1.5 times the epsilon."""
    subject = tiny(
        {"k": 1, "gamma": "1/2", "threshold": 1, "rule": "exponential", "count_share": 0},
        "size = 6",
        "2",
    )
    rows = (0b000, 0b000, 0b101, 0b101, 0b111, 0b010)
    noise, seen = SeededNoise(3), Counter[tuple[str, frozenset[int]]]()
    for _ in range(3000):
        content = subject(noise, rows)
        seen[content.facts["chosen"][0], frozenset(content.tables["cells"]["cell"].tolist())] += 1
    for epsilon, accepted in ((1.0, True), (1.5, False)):
        law = dense_law(subject, rows, epsilon)
        assert sum(law.values()) == pytest.approx(1)
        test = stats.chisquare([seen[key] for key in law], [3000 * law[key] for key in law])
        assert (test.pvalue > 1e-6) == accepted


def test_stopping_follows_levels_and_earlier_choices_only() -> None:
    rng = np.random.default_rng(4)
    levels = [5, 4, 1, 3, 6]
    columns = [rng.integers(0, n, 500) for n in levels]
    table = CodedTable(columns, levels, (columns[3] > 0).astype(np.int64), 2)
    noise, asked = SeededNoise(1), {"most": 3, "epsilon": Fraction(10**6), "score": Purity(1, 2)}
    # the third column predicts the label; with 15 cells only one more of five levels or fewer fits
    chosen, paid = stopping_kd(noise, table, cells=15, **asked)  # type: ignore[arg-type]
    assert chosen[0] == 3
    assert (len(chosen), paid) == (2, 2)
    # nothing fits: one of those with the fewest levels, and no choice to pay for among one
    assert stopping_kd(noise, table, cells=2, **asked) == ((3,), 0)  # type: ignore[arg-type]
    # a single column that still fits is taken without paying
    chosen, paid = stopping_kd(noise, table, cells=12, **asked)  # type: ignore[arg-type]
    assert (chosen, paid) == ((3, 1), 1)
    assert stopping_kd(noise, table, cells=360, **asked) == ((0, 1, 3, 4), 0)  # type: ignore[arg-type]
    assert free_choice(levels, 359) is None


def test_counts_are_those_of_the_chosen_columns() -> None:
    """With a budget so large that noise is gone, the release is the exact histogram over the best
    columns."""
    rng = np.random.default_rng(2)
    codes = [rng.integers(0, n, 4000) for n in (5, 4, 3)]
    label = (codes[0] > 1).astype(np.int64)
    levels = ", ".join(f'"{i}"' for i in range(5))
    columns = "".join(
        f'[columns.{name}]\nkind = "categorical"\nlevels = [{levels[: 5 * n - 2]}]\noutside = '
        f'"drop"\n'
        for name, n in (("u", 5), ("v", 4), ("w", 3), ("y", 2))
    )
    plan = ProjectedHistogram(k=2, gamma="1/2", score="prediction").plan(
        schema_of('size = 4000\ntarget = "y"', columns), Cost.pure(100_000)
    )
    assert plan.domain is not None
    assert plan.domain.shape == (5, 4, 3, 2)
    content = ProjectedHistogram(k=2, score="prediction").run(SeededNoise(1), [*codes, label], plan)
    assert content.facts["chosen"][0] == "u"
    assert content.domain is not None
    names = content.domain.names
    assert names[-1] == "y"
    assert set(names[:-1]) == set(content.facts["chosen"])
    by_name = dict(zip("uvwy", (*codes, label), strict=True))
    cells = np.zeros(4000, dtype=np.int64)
    for axis in content.domain.axes:
        cells = cells * axis.cardinality + by_name[axis.name]
    distinct, counts = np.unique(cells, return_counts=True)
    assert content.tables["cells"]["cell"].tolist() == distinct.tolist()
    assert content.tables["cells"]["count"].tolist() == counts.tolist()
    assert content.facts["domain_size"] == content.domain.size


def test_a_total_is_public_only_if_no_candidate_drops_rows() -> None:
    for drop, kind in ((False, "public"), (True, "unknown")):
        text = BITS.replace('outside = "drop"', 'outside = "other"')
        text = text.replace('outside = "other"', 'outside = "drop"', 1) if drop else text
        schema = schema_of('size = 3\ntarget = "t"', text)
        plan = ProjectedHistogram(k=1, count_share=0).plan(schema, Cost.pure(10_000))
        best_is_b = [np.array([0, 0, 0]), np.array([0, 1, 1]), np.array([0, 1, 1])]
        content = ProjectedHistogram(k=1).run(SeededNoise(1), best_is_b, plan)
        assert content.facts["chosen"] == ["b"]
        assert content.facts["total"]["kind"] == kind


# Planted bugs.


class Broken:
    """The mechanism with one step replaced."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    def __call__(self, noise: Noise, rows: tuple[int, ...]) -> Output:
        plan = self.subject.plan
        table = CodedTable.from_codes(self.subject.numbers(rows), plan.settings.domain)
        return self.run(noise, table, plan)

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        raise AssertionError


class SelectionNotCharged(Broken):
    """All of epsilon goes to counting, and the columns are chosen on top."""

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        settings = plan.settings
        index = noise.choose(
            settings.score.of(settings.score.start(table), [0, 1]),
            sensitivity=settings.score.sensitivity,
            epsilon=settings.selection_epsilon,
        )
        uncharged = dataclasses.replace(settings, cell_epsilon=Fraction(1), scale=Fraction(2))
        return count_projection(noise, table, (index,), uncharged, plan.schema)


class SensitivityOne(Broken):
    """Under replace-one a row leaves a cell and enters another; this noise is for one of the
    two."""

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        half = dataclasses.replace(plan.settings, sensitivity=Fraction(1))
        return count_projection(noise, table, (0,), half, plan.schema)


class KFromRows(Broken):
    """k chosen on the private rows, for nothing."""

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        chosen = (0, 1)[: max(1, len(mda(table)))]
        return count_projection(noise, table, chosen, plan.settings, plan.schema)


class UnspentByRows(Broken):
    """Whether a choice is paid for depends on the rows: what it saves is given to the counts."""

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        settings = plan.settings
        free = settings.score.of(settings.score.start(table), [0, 1])[0] > 1
        spent = Fraction(0) if free else settings.selection_epsilon
        return count_projection(noise, table, (0,), settings.after(spent), plan.schema)


class StopsByRows(Broken):
    """Choosing stops when the private rows have few labels left to tell apart."""

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        chosen = (0,) if undiscerned(table, (0,)) == 0 else (0, 1)
        return count_projection(noise, table, chosen, plan.settings, plan.schema)


class PrivateSizeInThreshold(Broken):
    """n is private under add-remove-one, and the threshold is computed from it."""

    def run(self, noise: Noise, table: CodedTable, plan: Plan[ProjectedSettings]) -> Output:
        settings = plan.settings
        private = log_threshold(Fraction(1, 2), max(1, table.rows), settings.cell_epsilon)
        leaking = dataclasses.replace(settings, threshold=private)
        return count_projection(noise, table, (0,), leaking, plan.schema)


@pytest.mark.parametrize(
    ("bug", "dataset"),
    [
        (SelectionNotCharged, "size = 3"),
        (SensitivityOne, "size = 3"),
        (KFromRows, "size = 3"),
        (UnspentByRows, "size = 3"),
        (StopsByRows, "size = 3"),
        (PrivateSizeInThreshold, ADD),
    ],
)
def test_planted_bugs_are_caught(bug: type[Broken], dataset: str) -> None:
    settings = {"k": 1, "gamma": "1/2", "count_share": 0} | (
        {"threshold": 1} if bug is not PrivateSizeInThreshold else {}
    )
    subject = tiny(settings, dataset)
    pairs = list(subject.pairs(rows=3))
    report = audit.replay(bug(subject), pairs[:: max(1, len(pairs) // 40)], epsilon=1, runs=2)
    assert not report.passed


def test_a_wrong_sensitivity_is_caught_exactly() -> None:
    subject = tiny({"k": 1, "gamma": "1/2", "threshold": 1, "count_share": 0}, "size = 3")
    pair = [((0b000, 0b101, 0b011), (0b000, 0b101, 0b101))]
    assert not audit.exact(
        SensitivityOne(subject), pair, epsilon=Fraction(1, 2), window=(0, 2)
    ).passed
    assert audit.exact(subject, pair, epsilon=1, window=(0, 2)).passed


# End to end.


def people(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(8)
    ill = rng.random(rows) < 0.3
    return pl.DataFrame(
        {
            "age": np.clip(np.where(ill, 70, 40) + rng.normal(0, 8, rows), 0, 99).astype(int),
            "wage": rng.random(rows) * 1000,
            "town": rng.choice(["A", "B", "C"], rows),
            "member": rng.random(rows) < 0.5,
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.mark.parametrize("choose_k", ["simulate", "split", "public"])
def test_a_release_end_to_end(tmp_path: Path, choose_k: str) -> None:
    data = people(3000)
    curator = dp.Curator(
        data,
        schema_of('target = "ill"'),
        ledger=f"sqlite:///{tmp_path}/ledger",
        budget=dp.Budget(epsilon=5),
    )
    method = ProjectedHistogram(
        choose_k=choose_k,  # type: ignore[arg-type]
        public_data=people(500) if choose_k == "public" else None,
        score="prediction",
        k_options=(1, 2) if choose_k == "split" else None,
    )
    release = curator.publish(method, epsilon=4, seed=5, out=tmp_path / "people.dpr")
    manifest = release.manifest
    assert manifest["method"] == "projected-histogram"
    assert "age" in manifest["facts"]["chosen"]
    assert [axis["name"] for axis in manifest["domain"]][-1] == "ill"
    assert len(manifest["domain"]) == manifest["facts"]["k"] + 1
    assert release.verify().ok
    estimate = release.estimate("ill = 'yes'", level=0.9999)  # type: ignore[attr-defined]
    truth = int((data["ill"] == "yes").sum())
    assert estimate.low <= truth <= estimate.high
    assert set(release.to_frame().columns) >= {*manifest["facts"]["chosen"], "ill"}  # type: ignore[attr-defined]


def test_wrong_requests_spend_nothing(tmp_path: Path) -> None:
    curator = dp.Curator(
        people(200),
        schema_of(""),
        ledger=f"sqlite:///{tmp_path}/ledger",
        budget=dp.Budget(epsilon=1),
    )
    for settings in ({}, {"target": "ill", "k": 9}, {"target": "ill", "gamma": 2}):
        with pytest.raises(PlanError):
            curator.publish(ProjectedHistogram(**settings), epsilon=1)  # type: ignore[arg-type]
    # all of the budget is still there
    assert (
        curator.publish(ProjectedHistogram(target="ill", k=1), epsilon=1, seed=1).manifest["facts"][
            "k"
        ]
        == 1
    )
