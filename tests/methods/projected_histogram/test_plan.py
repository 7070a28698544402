"""Plans and refusals of the projected histogram."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import polars as pl
import pytest

from dpublish.declare.domain import lei_bins
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, SchemaError
from dpublish.methods.draws import log_threshold, survival_probability
from dpublish.methods.histogram.mechanism import LARGEST_SUPPORT, Histogram
from dpublish.methods.projected_histogram.choose_k import k_from_simulation
from dpublish.methods.projected_histogram.mechanism import (
    ProjectedHistogram,
)
from dpublish.methods.projected_histogram.scores import Contrast, PairCount, PairsPerRow, Purity
from dpublish.noise.source import MAX_EXPECTED_SURVIVORS
from dpublish.privacy.cost import Cost
from methods.projected_histogram.schemas import BITS, COLUMNS, ONE, bits, schema_of

pytestmark = pytest.mark.usefixtures("compiled_kernels")


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


def test_contrast_is_refused_where_it_cannot_be_charged_or_judged() -> None:
    with pytest.raises(PlanError, match="needs a public number of rows"):
        ProjectedHistogram(k=1, score="contrast", threshold=3).plan(
            bits("neighbours = 'add-remove-one'"), ONE
        )
    with pytest.raises(PlanError, match="judges sets of columns"):
        ProjectedHistogram(choose_k="split", score="contrast").plan(bits("size = 100"), ONE)
    plan = ProjectedHistogram(choose_k="split").plan(bits("size = 100"), ONE)
    assert plan.settings.selection_score == "prediction"


def test_scores_follow_the_relation() -> None:
    def score(dataset: str, **settings: Any) -> object:
        plan = ProjectedHistogram(k=1, **settings).plan(bits(dataset), ONE)
        found = plan.settings.score
        assert plan.facts["selection_sensitivity"] == str(found.sensitivity)
        return found

    unit = 'unit = "person"\nmax_rows_per_unit = 3\n'
    add = "neighbours = 'add-remove-one'\nnominal_size = 100"
    pairs = {"score": "discernibility"}
    assert score("size = 100") == Contrast(100, 2)
    assert score("size = 100", cell_charge=1) == Purity(1, 2)
    assert score(unit + add) == Contrast(300, 3)
    # without a public number of rows, cells cannot be charged by it
    assert score("neighbours = 'add-remove-one'", threshold=3) == Purity(1, 1)
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
        "contrast",
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
        left = settings.after(paid * step, range(paid))
        assert left.cell_epsilon + paid * step + left.count_epsilon == 1
        assert left.scale == 2 / left.cell_epsilon
        assert left.threshold == log_threshold(Fraction(1, 4), 5000, left.cell_epsilon)
    assert settings.after(3 * step, range(3)) is settings


def test_a_lower_threshold_lets_no_more_false_cells_pass_than_a_plan_may_expect() -> None:
    """What is not spent on choosing lowers the threshold, by whole numbers: empty cells may then
    pass more often than at what the plan was checked with."""
    wide = "".join(
        f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 59\nbins = 60\n' for i in range(4)
    )
    told = '[columns.t]\nkind = "boolean"\noutside = "drop"\n'
    dataset = 'neighbours = "add-remove-one"\nnominal_size = 10_000\ntarget = "t"'
    schema, cost, most = schema_of(dataset, wide + told), Cost.pure(2), 300
    settings = ProjectedHistogram(max_support=most).plan(schema, cost).settings
    assert settings.stop_cells is not None
    assert 60**2 <= settings.stop_cells < 60**3, "a third column is never chosen"
    left = settings.after(settings.selection_epsilon / 2, (0, 1))
    plain = log_threshold(Fraction(1, 4), 10_000, left.cell_epsilon)
    cells = 60 * 60 * settings.domain.shape[-1]
    assert left.threshold is not None
    assert cells * survival_probability(left.scale, plain) > most
    assert cells * survival_probability(left.scale, left.threshold) <= most
    assert left.threshold == plain + 1
    given = ProjectedHistogram(threshold=3).plan(schema, cost).settings
    assert given.after(Fraction(0), (0, 1)).threshold == 3


def test_more_false_cells_than_noise_can_hold_are_refused_before_the_debit() -> None:
    assert MAX_EXPECTED_SURVIVORS > 1.07 * LARGEST_SUPPORT
    for method in (ProjectedHistogram, Histogram):
        with pytest.raises(PlanError, match="max_support must lie between 1 and"):
            method(max_support=LARGEST_SUPPORT + 1)


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
    ("columns", "rows", "levels", "warned", "told"),
    [
        (8, 2000, None, True, False),  # 222 a feature: numbers, and few columns
        (12, 3000, 2, True, False),
        (8, 6600, 4, False, True),  # 264 a feature, most of them levels
        (8, 11000, 4, True, False),  # 440
        (30, 7500, None, False, True),  # 242 a feature, but many columns
        (30, 13000, None, True, False),
        (8, 1200, None, False, True),  # 133
        (8, 400, None, False, False),  # 44
    ],
)
def test_what_is_named_instead_depends_on_what_columns_are(
    columns: int, rows: int, levels: int | None, warned: bool, told: bool
) -> None:
    """`told`: a sentence, and no warning, where it depends on how many columns matter."""
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
    plan = ProjectedHistogram().plan(schema, ONE)
    assert any("private-classifier" in one for one in plan.warnings) == warned
    (said,) = [one for one in plan.sentences if "say a little about 'ill'" in one] or [""]
    assert (said != "") == told
    assert ("either may be better" in said) == (told and levels is None)


@pytest.mark.parametrize(
    ("rows", "classes", "told"),
    # 24 numbers and the constant are 25 features
    [(4_900, 2, False), (5_100, 2, True), (9_900, 2, True), (10_100, 2, False), (15_600, 3, False)],
)
def test_a_classifier_is_named_for_those_who_cannot_tell_where_it_leads_on_average(
    rows: int, classes: int, told: bool
) -> None:
    text = "".join(f'[columns.c{i}]\nkind = "real"\nlower = 0\nupper = 1\n' for i in range(24))
    levels = [str(one) for one in range(classes)]
    schema = schema_of(
        f'size = {rows}\ntarget = "ill"',
        columns=f'{text}[columns.ill]\nkind = "categorical"\nlevels = {levels}\noutside = "drop"\n',
    )
    plan = ProjectedHistogram().plan(schema, ONE)
    assert (
        any("If you cannot tell, take private-classifier" in one for one in plan.sentences) == told
    )


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
