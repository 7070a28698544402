"""The histogram mechanism: plans, refusals, calibration, and its law on tiny tables."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, SchemaError
from dpublish.methods.base import Output, SparseCounts
from dpublish.methods.draws import laplace_deviation, smallest_threshold, survival_probability
from dpublish.methods.histogram.mechanism import Histogram, total_is_public
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

ONE = Cost.pure(1)


def schema_of(dataset: str = "size = 1000", columns: str = "") -> Schema:
    return Schema.from_toml(
        f'[dataset]\nname = "t"\n{dataset}\n'
        '[columns.a]\nkind = "categorical"\nlevels = ["x", "y", "z"]\n'
        '[columns.b]\nkind = "boolean"\noutside = "drop"\n' + columns
    )


def counts_of(cells: dict[int, int]) -> SparseCounts:
    items = sorted(cells.items())
    return SparseCounts(
        np.array([c for c, _ in items], dtype=np.uint64),
        np.array([n for _, n in items], dtype=np.int64),
    )


def published(content: Output) -> dict[int, int]:
    table = content.tables["cells"]
    return dict(zip(table["cell"].tolist(), table["count"].tolist(), strict=True))


class TestPlan:
    def test_replace_one_doubles_the_scale(self) -> None:
        plan = Histogram(columns=["a"]).plan(schema_of(), Cost.pure("1/2"))
        assert plan.facts["scale"] == "4"
        assert plan.facts["sensitivity"] == "2"
        assert plan.facts["count_epsilon"] == "0"

    def test_add_remove_pays_for_a_total(self) -> None:
        plan = Histogram().plan(schema_of('neighbours = "add-remove-one"\nnominal_size = 900'), ONE)
        assert Fraction(plan.facts["count_epsilon"]) + Fraction(plan.facts["cell_epsilon"]) == 1
        assert plan.facts["count_epsilon"] == "1/20"
        assert Fraction(plan.facts["scale"]) == Fraction(20, 19)

    def test_rows_of_a_unit_multiply_the_sensitivity(self) -> None:
        many = 'unit = "person"\nmax_rows_per_unit = 3\n'
        assert schema_of(many + "size = 10").relation.l1 == 6
        assert schema_of(many + 'neighbours = "add-remove-one"').relation.l1 == 3

    def test_threshold_is_the_papers(self) -> None:
        plan = Histogram(columns=["a"]).plan(schema_of("size = 48842"), Cost.pure("1/10"))
        assert plan.facts["threshold"] == math.floor(0.5 * math.log(48842) / 0.1)

    def test_expected_support_follows_equations_6_and_7(self) -> None:
        plan = Histogram(threshold=5, count_share=0).plan(schema_of(), ONE)
        rate = math.exp(-0.5)
        survive = rate**6 / (1 + rate)
        assert plan.facts["expected_false_cells"] == pytest.approx(8 * survive)
        assert plan.facts["expected_support_high"] == pytest.approx(8)

    def test_plan_speaks(self) -> None:
        text = Histogram(columns=["a"]).plan(schema_of(), ONE).text()
        assert "4 cells" in text
        assert "one row" in text
        assert "replace-one" in text

    def test_columns_default_to_all_and_keep_their_order(self) -> None:
        assert Histogram().plan(schema_of(), ONE).parameters["columns"] == ["a", "b"]
        domain = Histogram(columns=["b", "a"]).plan(schema_of(), ONE).domain
        assert domain is not None
        assert domain.names == ("b", "a")


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"columns": []}, "at least one column"),
            ({"columns": ["a", "a"]}, "'a' is listed twice"),
            ({"threshold_factor": -1}, "threshold_factor must be at least 0"),
            ({"threshold_factor": "nan"}, "threshold_factor"),
            ({"threshold": -1}, "threshold must be"),
            ({"bins": 0}, "bins must be"),
            ({"count_share": 1}, "count_share must be"),
        ],
    )
    def test_bad_settings(self, settings: dict[str, object], words: str) -> None:
        with pytest.raises(PlanError, match=words):
            Histogram(**settings).plan(schema_of(), ONE)  # type: ignore[arg-type]

    def test_unknown_column(self) -> None:
        with pytest.raises(SchemaError, match="Did you mean 'age'"):
            Histogram(columns=["agee"]).plan(
                schema_of(columns='[columns.age]\nkind = "boolean"\n'), ONE
            )

    def test_costs_that_are_not_pure(self) -> None:
        for cost in (Cost.zcdp("1/2"), Cost.approximate(1, "1e-6")):
            with pytest.raises(PlanError, match="pure epsilon"):
                Histogram().plan(schema_of(), cost)

    def test_a_domain_too_large_to_number(self) -> None:
        wide = "".join(
            f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 999\nbins = 1000\n'
            for i in range(7)
        )
        with pytest.raises(PlanError, match=r"at most 2\^63"):
            Histogram().plan(schema_of(columns=wide), ONE)

    def test_a_support_that_would_not_fit_names_the_remedies(self) -> None:
        wide = "".join(
            f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 999\nbins = 1000\n'
            for i in range(5)
        )
        with pytest.raises(
            PlanError, match="fewer columns, fewer bins, or a higher threshold"
        ) as caught:
            Histogram().plan(schema_of(columns=wide), ONE)
        factor = str(caught.value).split("threshold_factor = ")[1].split(" ")[0]
        Histogram(threshold_factor=factor).plan(schema_of(columns=wide), ONE)  # the remedy works

    def test_no_public_size(self) -> None:
        with pytest.raises(PlanError, match="declares no size"):
            Histogram().plan(schema_of(""), ONE)
        private = schema_of('neighbours = "add-remove-one"')
        with pytest.raises(PlanError, match="nominal_size"):
            Histogram(count_share=0).plan(private, ONE)
        assert Histogram().plan(private, ONE).facts["threshold"] is None
        assert Histogram(count_share=0, threshold=3).plan(private, ONE).facts["threshold"] == 3

    def test_real_columns_need_bins_or_a_size(self) -> None:
        private = schema_of(
            'neighbours = "add-remove-one"', '[columns.w]\nkind = "real"\nlower = 0\nupper = 1\n'
        )
        with pytest.raises(PlanError, match="'w' declares no bins"):
            Histogram().plan(private, ONE)
        assert Histogram(bins=5).plan(private, ONE).domain is not None

    def test_item_sets(self) -> None:
        with pytest.raises(PlanError, match="set-valued"):
            Histogram().plan(
                Schema.from_toml('[dataset]\nname = "s"\n[items]\nuniverse = ["a"]\n'), ONE
            )


class TestRun:
    def test_large_counts_survive_and_the_order_is_by_cell(self) -> None:
        mechanism = Histogram()
        plan = mechanism.plan(schema_of(), ONE)
        content = mechanism.run(SeededNoise(1), counts_of({7: 500, 0: 400}), plan)
        cells = content.tables["cells"]["cell"]
        assert {0, 7} <= set(cells.tolist())
        assert np.all(np.diff(cells.astype(np.int64)) > 0)
        assert abs(published(content)[7] - 500) < 60

    def test_total_is_public_only_when_no_row_can_drop_out(self) -> None:
        whole = Histogram(columns=["a"])
        content = whole.run(SeededNoise(1), counts_of({0: 1000}), whole.plan(schema_of(), ONE))
        assert content.facts["total"] == {"kind": "public", "value": 1000, "scale": None}
        some = Histogram(columns=["b"], count_share=0)
        plan = some.plan(schema_of(), ONE)
        assert plan.domain is not None
        assert not total_is_public(plan.schema, plan.domain)
        content = some.run(SeededNoise(1), counts_of({0: 1000}), plan)
        assert content.facts["total"]["kind"] == "unknown"
        assert content.facts["max_total"] == 1000
        assert "cannot tell what the threshold hides" in plan.text()
        paid = Histogram(columns=["b"])
        content = paid.run(SeededNoise(1), counts_of({0: 1000}), paid.plan(schema_of(), ONE))
        assert content.facts["total"]["kind"] == "noisy"

    def test_private_size_sets_the_threshold_through_the_noisy_total(self) -> None:
        mechanism = Histogram(max_support=1)
        plan = mechanism.plan(schema_of('neighbours = "add-remove-one"'), ONE)
        content = mechanism.run(SeededNoise(3), counts_of({1: 20_000}), plan)
        total = content.facts["total"]
        assert total["kind"] == "noisy"
        assert abs(total["value"] - 20_000) < 20 * 40
        floor = smallest_threshold(Fraction(plan.facts["scale"]), 8, 1)
        expected = math.floor(0.5 * math.log(total["value"]) / float(Fraction(19, 20)))
        assert content.facts["threshold"] == max(floor, expected)

    def test_an_empty_table_publishes_noise_alone(self) -> None:
        mechanism = Histogram(threshold=0)
        plan = mechanism.plan(schema_of('neighbours = "add-remove-one"\nnominal_size = 10'), ONE)
        content = mechanism.run(SeededNoise(5), counts_of({}), plan)
        assert all(count > 0 for count in published(content).values())

    def test_law_of_two_cells(self) -> None:
        """Chi-square of (cell 0, cell 1) outcomes against the dense law, 4 cells, 20,000 runs.

        False-alarm rate 1e-6. A scale wrong by a factor 1.1 is rejected (checked below), as is a
        cell left without noise.
        """
        schema = Schema.from_toml(
            '[dataset]\nname = "t"\nsize = 9\n[columns.a]\nkind = "boolean"\nmissing = true\n'
        )
        mechanism = Histogram(threshold=1)
        plan = mechanism.plan(schema, Cost.pure(1))
        noise, numbers = SeededNoise(11), counts_of({0: 2})
        runs = 20_000
        seen: Counter[tuple[int, int]] = Counter()
        for _ in range(runs):
            cells = published(mechanism.run(noise, numbers, plan))
            seen[min(cells.get(0, 1), 6), min(cells.get(1, 1), 6)] += 1

        def law(count: int, scale: float) -> dict[int, float]:
            rate = math.exp(-1 / scale)
            pmf = lambda k: (1 - rate) / (1 + rate) * rate ** abs(k)  # noqa: E731
            out = {value: pmf(value - count) for value in range(2, 6)}
            out[6] = rate ** (6 - count) / (1 + rate)
            out[1] = 1 - sum(out.values())
            return out

        def p_value(scale: float) -> float:
            first, second = law(2, scale), law(0, scale)
            keys = [(x, y) for x in first for y in second]
            expected = np.array([runs * first[x] * second[y] for x, y in keys])
            return float(stats.chisquare([seen[key] for key in keys], expected).pvalue)

        assert p_value(2.0) > 1e-6
        assert p_value(2.2) < 1e-6


def test_deviation_and_survival_match_sums() -> None:
    scale = Fraction(7, 3)
    rate = math.exp(-3 / 7)
    ks = np.arange(-400, 401)
    pmf = (1 - rate) / (1 + rate) * rate ** np.abs(ks)
    assert laplace_deviation(scale) == pytest.approx(math.sqrt(float((pmf * ks**2).sum())))
    assert survival_probability(scale, 4) == pytest.approx(float(pmf[ks > 4].sum()))


def test_smallest_threshold_is_smallest() -> None:
    for cells in (10, 10**6, 1 << 63):
        for scale in (Fraction(1, 3), Fraction(2), Fraction(400)):
            tau = smallest_threshold(scale, cells, 1000)
            assert cells * survival_probability(scale, tau) <= 1000
            assert tau == 0 or cells * survival_probability(scale, tau - 1) > 1000


def test_a_histogram_does_not_collapse_to_one_cell_unasked() -> None:
    many = "".join(f'[columns.x{i}]\nkind = "real"\nlower = 0\nupper = 1\n' for i in range(200))
    schema = Schema.from_toml(f'[dataset]\nname = "t"\nsize = 5000\n{many}')
    with pytest.raises(PlanError, match="a single cell"):
        Histogram().plan(schema, ONE)
    # asked for, it is one cell
    assert Histogram(bins=1).plan(schema, ONE).settings.domain.size == 1
    assert Histogram(columns=["x0", "x1"]).plan(schema, ONE).settings.domain.size > 1
    # a single bin by its edges was asked for too, whether the number of rows is known or not
    edged = '[columns.x]\nkind = "real"\nedges = [0, 10]\n'
    for rows in ("size = 5000", 'neighbours = "add-remove-one"'):
        plan = Histogram(columns=["x"]).plan(schema_of(rows, edged), ONE)
        assert plan.settings.domain.size == 1
        assert not plan.warnings


def test_plans_say_what_the_number_of_rows_costs() -> None:
    ward = '[columns.ward]\nkind = "categorical"\nlevels = ["a", "b"]\n'
    private = Histogram(columns=["ward"]).plan(
        schema_of('neighbours = "add-remove-one"', ward), ONE
    )
    assert "A noisy number of all rows takes epsilon = 0.05 of the cost." in private.text()
    public = Histogram(columns=["ward"]).plan(schema_of("size = 5000", ward), ONE)
    assert "noisy number" not in public.text()


def test_plans_say_where_even_bins_may_serve_better() -> None:
    wide = "".join(
        f'[columns.{name}]\nkind = "real"\nlower = 0\nupper = 1000000\n' for name in "cd"
    )
    for size, columns, epsilon, told in (
        (2000, ["c", "d"], "3/10", True),
        (2000, ["c"], "3/10", False),
        (20_000, ["c", "d"], "1", False),
    ):
        schema = schema_of(f"size = {size}", wide)
        plan = Histogram(columns=columns).plan(schema, Cost.pure(epsilon))
        assert plan.settings.search is not None
        assert ("(bin_share = 0)" in plan.text()) is told


def test_columns_that_get_one_bin_are_warned_of() -> None:
    many = "".join(f'[columns.x{i}]\nkind = "real"\nlower = 0\nupper = 1\n' for i in range(30))
    (warning,) = Histogram(threshold=50).plan(schema_of("size = 500", many), ONE).warnings
    assert "one bin for x0, x1, x2, x3, x4 and 25 more" in warning


def test_plans_say_where_counts_drown_in_noise() -> None:
    many = "".join(
        f'[columns.x{i}]\nkind = "categorical"\nlevels = ["1", "2", "3", "4"]\n' for i in range(3)
    )
    names = ["x0", "x1", "x2"]
    for size, epsilon, told in ((300, "1/10", True), (300, "2", False), (20_000, "1/10", False)):
        plan = Histogram(columns=names).plan(schema_of(f"size = {size}", many), Cost.pure(epsilon))
        assert any("drown in noise" in one for one in plan.warnings) is told
    drowned = Histogram(columns=names).plan(schema_of("size = 300", many), Cost.pure("1/10"))
    assert drowned.warnings == (
        "The counts drown in noise: about 15 empty cells would appear, and at most 3 can hold the "
        "76 rows that it takes to be seen. Choose fewer columns or bins, or a larger epsilon; "
        "joined-histograms publish many columns.",
    )
    assert (
        Histogram(columns=["a"])
        .plan(schema_of("size = 3"), ONE)
        .warnings[-1]
        .endswith("Choose fewer bins or levels, or a larger epsilon.")
    )
