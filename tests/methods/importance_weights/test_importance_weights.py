"""Importance weights: plans, refusals before any budget is spent, and what they achieve."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.declare.schema import Schema
from dpublish.errors import InputError, PlanError
from dpublish.methods.base import CodedRows, Output
from dpublish.methods.importance_weights.mechanism import (
    ImportanceWeights,
    fitting_domain,
    truncated,
)
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost, largest_rho
from dpublish.privacy.plan import Plan

ONE = Cost.pure(1)
COLUMNS = """
[columns.sick]
kind = "boolean"
outside = "other"
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 5
outside = "other"
[columns.town]
kind = "categorical"
levels = ["north", "south", "west"]
outside = "other"
"""


def schema_of(dataset: str = "size = 2000", columns: str = COLUMNS) -> Schema:
    return Schema.from_toml(f'[dataset]\nname = "t"\n{dataset}\n{columns}')


def people(rows: int, seed: int, tilt: float) -> pl.DataFrame:
    """Older people are sicker and live more in the north; `tilt` moves the ages."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50 + tilt, 18, rows), 0, 99).astype(int)
    sick = rng.random(rows) < 1 / (1 + np.exp(-(age - 55) / 12))
    town = np.where(rng.random(rows) < age / 120, "north", rng.choice(["south", "west"], rows))
    return pl.DataFrame(
        {"sick": sick, "age": age, "town": town, "height": rng.normal(170 + age / 10, 5, rows)}
    )


VOLUNTEERS = people(1500, 1, -12.0)
PATIENTS = people(2000, 2, 12.0)


def codes_of(plan: Plan, frame: pl.DataFrame) -> list[np.ndarray]:
    from dpublish.declare.encode import encode_frame

    assert plan.domain is not None
    return [
        np.asarray(codes)
        for codes in encode_frame(frame.select(plan.domain.names), plan.domain).kept()
    ]


def run(
    method: ImportanceWeights, cost: Cost, seed: int = 1, schema: Schema | None = None
) -> Output:
    plan = method.plan(schema or schema_of(), cost)
    return method.run(SeededNoise(seed), codes_of(plan, PATIENTS), plan)


def weighted_mean(content: Output, column: str, frame: pl.DataFrame = VOLUNTEERS) -> float:
    weights = np.asarray(content.tables["weights"]["weight"])
    return float(weights @ frame.get_column(column).cast(pl.Float64).to_numpy()) / float(
        weights.sum()
    )


class TestPlan:
    def test_moments_state_the_noise_of_every_table(self) -> None:
        plan = ImportanceWeights(public=VOLUNTEERS, choose_pairs=0).plan(schema_of(), ONE)
        assert plan.facts["dimension"] == 3 + 6 + 4
        amounts = [Fraction(amount) for amount in plan.facts["purse"]["tables"]]
        assert sum(amounts) == 1
        # shares in proportion to the cube root of the number of cells
        assert float(amounts[1] / amounts[0]) == pytest.approx((6 / 3) ** (1 / 3), rel=1e-5)
        assert plan.facts["count_deviations"][0] == pytest.approx(
            math.sqrt(2) * 2 / float(amounts[0]), rel=0.02
        )
        assert "by noise" in plan.text()
        assert ImportanceWeights(public=VOLUNTEERS).statistic(plan) == CodedRows(plan.domain)  # type: ignore[arg-type]

    def test_plans_say_what_pairs_cost_single_columns(self) -> None:
        both, alone = (
            ImportanceWeights(public=VOLUNTEERS, choose_pairs=pairs).plan(schema_of(), ONE)
            for pairs in (2, 0)
        )
        assert f"to {min(alone.facts['share_errors']):.2g} of noise" in both.text()
        assert "choose_pairs = 0" not in alone.text()
        usual = ImportanceWeights(public=VOLUNTEERS).plan(schema_of(), ONE)
        assert ("choose_pairs = 0" in usual.text()) == bool(usual.settings.rounds)

    def test_the_money_is_never_more_than_the_cost(self) -> None:
        for rounds, others in ((0, ()), (2, ()), (0, (PATIENTS,)), (3, (PATIENTS,))):
            method = ImportanceWeights(public=VOLUNTEERS, alternatives=others, choose_pairs=rounds)
            for cost in (ONE, Cost.zcdp("1/8"), Cost.approximate(1, "1e-6")):
                purse = method.plan(schema_of(), cost).facts["purse"]
                tables = sum(Fraction(amount) for amount in purse["tables"])
                spent = tables + rounds * Fraction(purse["pair_table"])
                for epsilon, times in (
                    (Fraction(purse["set_choice"]), 1),
                    (Fraction(purse["pair_choice"]), rounds),
                ):
                    spent += times * (epsilon if cost.kind == "pure" else epsilon**2 / 8)
                if cost.kind == "approximate":
                    # more than the way over zCDP allows
                    assert 1.05 < spent / largest_rho(cost.epsilon, cost.delta) < 1.16
                    continue
                allowed = cost.epsilon if cost.kind == "pure" else cost.rho
                assert Fraction(99, 100) * allowed < spent <= allowed

    @pytest.mark.parametrize("variant", ["output", "objective", "gaussian"])
    def test_logistic_variants_state_length_and_advice(self, variant: Any) -> None:
        cost = ONE if variant != "gaussian" else Cost.zcdp("1/8")
        plan = ImportanceWeights(public=VOLUNTEERS, variant=variant, regularization="1/10").plan(
            schema_of(), cost
        )
        facts = plan.facts
        calibration = facts["calibration"]
        assert facts["norm_bound"] == pytest.approx(math.sqrt(3), rel=1e-6)
        assert float(Fraction(calibration["ridge"])) >= 0.1 / facts["norm_bound"] ** 2 - 1e-12
        if variant != "objective":
            ideal = Fraction(2, 2000) / Fraction(calibration["ridge"])
            assert ideal < Fraction(calibration["sensitivity"]) < ideal * Fraction(101, 100)
        assert 1e-4 <= facts["recommended_regularization"] <= 10
        assert {entry["amount"] for entry in facts["expected"]}
        assert "recommended from public facts" in plan.text()

    def test_noise_forecasts_fall_with_regularization_and_shrinkage_grows(self) -> None:
        plan = ImportanceWeights(public=VOLUNTEERS, variant="output").plan(schema_of(), ONE)
        table = [entry for entry in plan.facts["expected"] if entry["amount"] == 1.0]
        assert len(table) >= 3
        for one, two in itertools.pairwise(table):
            assert one["regularization"] < two["regularization"]
            assert one["share_error"] > two["share_error"]
            assert one["shrinkage"] < two["shrinkage"]

    def test_nominal_size_stands_for_n_when_n_is_private(self) -> None:
        private = schema_of(
            'neighbours = "add-remove-one"\nnominal_size = 500\nunit = "id"\nmax_rows_per_unit = 3'
        )
        plan = ImportanceWeights(public=VOLUNTEERS, variant="output").plan(private, ONE)
        assert plan.facts["nominal_rows"] == 1500
        ridge = Fraction(plan.facts["calibration"]["ridge"])
        tolerance = Fraction(plan.facts["calibration"]["tolerance"])
        assert (
            Fraction(plan.facts["calibration"]["sensitivity"])
            == (Fraction(3, 1500) + 2 * tolerance) / ridge
        )
        # moments need no size at all
        nameless = schema_of('neighbours = "add-remove-one"')
        assert (
            ImportanceWeights(public=VOLUNTEERS).plan(nameless, ONE).facts["public_total"] is None
        )

    def test_pairs_enter_the_norm_bound(self) -> None:
        plan = ImportanceWeights(public=VOLUNTEERS, variant="output", pairs=["*sick"]).plan(
            schema_of(), ONE
        )
        assert plan.parameters["pairs"] == ["sick*age", "sick*town"]
        assert plan.facts["norm_bound"] == pytest.approx(math.sqrt(5), rel=1e-6)

    def test_many_pairs_only_where_the_noise_leaves_room(self) -> None:
        method = ImportanceWeights(public=VOLUNTEERS)
        assert method.plan(schema_of(), Cost.pure("1/10")).facts["rounds"] == 0
        assert method.plan(schema_of("size = 1000000"), ONE).facts["rounds"] == 3

    def test_warnings_come_from_the_schema_and_the_public_rows(self) -> None:
        lacking = VOLUNTEERS.filter(pl.col("town") != "west").drop("age")
        plan = ImportanceWeights(public=lacking).plan(schema_of(), ONE)
        text = " ".join(plan.warnings)
        assert "No public row" in text
        assert "town in: west" in text
        assert "not used: age" in text
        constant = ImportanceWeights(
            public=VOLUNTEERS.with_columns(pl.lit("north").alias("town"))
        ).plan(schema_of(), ONE)
        assert plan.parameters["columns"] == ["sick", "town"]
        assert constant.parameters["columns"] == ["sick", "age"]
        assert any("one value only" in line for line in constant.warnings)


class TestRefusals:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"public": None}, "need public rows"),
            ({"public": VOLUNTEERS.clear()}, "are empty"),
            (
                {"public": VOLUNTEERS.rename({"sick": "a", "age": "b", "town": "c"})},
                "no column in common",
            ),
            ({"columns": []}, "at least one column"),
            ({"columns": ["age", "age"]}, "listed twice"),
            ({"columns": ["height"]}, "no column 'height'"),
            ({"public": VOLUNTEERS.drop("age"), "columns": ["age"]}, "have no column 'age'"),
            (
                {"public": VOLUNTEERS.with_columns(pl.lit(40).alias("age")), "columns": ["age"]},
                "one value only",
            ),
            (
                {"public": VOLUNTEERS.with_columns(pl.lit(math.nan).alias("height"))},
                "NaN or infinite",
            ),
            ({"public": VOLUNTEERS.with_columns(pl.lit(math.inf).alias("age"))}, "NaN or infinite"),
            ({"variant": "output", "regularization": 0}, "regularization"),
            ({"variant": "output", "regularization": -1}, "regularization"),
            ({"variant": "outputs"}, "is not known"),
            ({"publish": "nothing"}, "is not known"),
            ({"variant": "gaussian"}, "costs rho"),
            ({"pairs": ["age"]}, "is not a pair"),
            ({"pairs": ["age*age"]}, "one column twice"),
            ({"pairs": ["age*size"]}, "no column 'size'"),
            ({"variant": "output", "choose_pairs": 2}, "belongs to variant"),
            ({"choice_share": "1/2"}, "choice_share must be above 0"),
            ({"max_weight": "1/2"}, "at least 1"),
            ({"bins": 0}, "bins must"),
            (
                {"variant": "output", "pairs": ["*age", "sick*town"], "resolution": 1},
                "resolution must",
            ),
        ],
    )
    def test_before_anything_is_spent(self, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(InputError, match=words):
            ImportanceWeights(**{"public": VOLUNTEERS, **settings}).plan(schema_of(), ONE)

    def test_costs_that_a_variant_cannot_have(self) -> None:
        for variant in ("output", "objective"):
            with pytest.raises(PlanError, match="pure epsilon"):
                ImportanceWeights(public=VOLUNTEERS, variant=variant).plan(
                    schema_of(), Cost.zcdp(1)
                )  # type: ignore[arg-type]

    def test_sizes_that_are_needed(self) -> None:
        nameless = schema_of('neighbours = "add-remove-one"')
        with pytest.raises(PlanError, match="nominal_size"):
            ImportanceWeights(public=VOLUNTEERS, variant="output").plan(nameless, ONE)
        with pytest.raises(PlanError, match="nominal_size"):
            ImportanceWeights(public=VOLUNTEERS, alternatives=[PATIENTS]).plan(nameless, ONE)

    def test_too_many_features(self) -> None:
        wide = "".join(
            f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 999\nbins = 500\n'
            for i in range(2)
        )
        rows = pl.DataFrame({f"c{i}": [1, 2, 900] for i in range(2)})
        with pytest.raises(PlanError, match="at most 65536"):
            ImportanceWeights(public=rows, pairs=["c0*c1"]).plan(schema_of(columns=wide), ONE)
        names = [f"v{i}" for i in range(70)]
        labels = "".join(
            f'[columns.c{i}]\nkind = "categorical"\nlevels = {names}\noutside = "other"\n'
            for i in range(2)
        )
        rows = pl.DataFrame({f"c{i}": names[:3] for i in range(2)})
        with pytest.raises(PlanError, match="at most 4096"):
            ImportanceWeights(public=rows, pairs=["c0*c1"], variant="output").plan(
                schema_of(columns=labels), ONE
            )
        assert (
            ImportanceWeights(public=rows, pairs=["c0*c1"])
            .plan(schema_of(columns=labels), ONE)
            .facts["dimension"]
            == 5183
        )

    def test_too_many_features_of_pairs_that_are_yet_to_be_chosen(self) -> None:
        many = "".join(
            f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 999\nbins = 44\n'
            for i in range(9)
        )
        rows = pl.DataFrame({f"c{i}": [1, 2, 900] for i in range(9)})
        with pytest.raises(PlanError, match="35 more pairs may have 68156 features"):
            ImportanceWeights(public=rows, choose_pairs=35).plan(
                schema_of("size = 1000000", many), ONE
            )

    def test_files_that_are_not_there(self, tmp_path: Any) -> None:
        with pytest.raises(InputError, match="There is no file"):
            ImportanceWeights(public=str(tmp_path / "none.csv")).plan(schema_of(), ONE)
        (tmp_path / "rows.xml").write_text("x")
        with pytest.raises(InputError, match="not known"):
            ImportanceWeights(public=str(tmp_path / "rows.xml")).plan(schema_of(), ONE)


class TestRun:
    def test_moments_reproduce_the_private_means(self) -> None:
        truth, before = PATIENTS["sick"].mean(), VOLUNTEERS["sick"].mean()
        assert isinstance(truth, float) and isinstance(before, float)  # noqa: PT018
        content = run(ImportanceWeights(public=VOLUNTEERS), ONE)
        assert abs(weighted_mean(content, "sick") - truth) < 0.02 < abs(before - truth) / 5
        assert abs(weighted_mean(content, "age") - float(PATIENTS["age"].mean())) < 2.0  # type: ignore[arg-type]

    @pytest.mark.parametrize("variant", ["output", "objective", "gaussian"])
    def test_logistic_variants_move_towards_the_truth(self, variant: Any) -> None:
        cost = Cost.pure(3) if variant != "gaussian" else Cost.zcdp(2)
        content = run(
            ImportanceWeights(public=VOLUNTEERS, variant=variant, regularization="1/20"), cost
        )
        truth, before = float(PATIENTS["sick"].mean()), float(VOLUNTEERS["sick"].mean())  # type: ignore[arg-type]
        assert abs(weighted_mean(content, "sick") - truth) < 0.5 * abs(before - truth)
        assert float(np.mean(content.tables["weights"]["weight"])) == pytest.approx(1.0)

    def test_chosen_pairs_are_reported_and_fitted(self) -> None:
        content = run(ImportanceWeights(public=VOLUNTEERS, choose_pairs=2), Cost.pure(5))
        assert len(content.facts["pairs"]) == 2
        assert len(content.tables["coefficients"]["group"]) > 13

    def test_a_paid_choice_finds_the_nearer_public_set(self) -> None:
        near = people(1000, 5, 11.0)
        content = run(ImportanceWeights(public=VOLUNTEERS, alternatives=[near]), ONE)
        assert content.facts["public"]["rows"] == 1000

    def test_uniform_rows_serve_too(self) -> None:
        method = ImportanceWeights(public="uniform", public_size=3000)
        content = run(method, Cost.pure(2))
        assert content.facts["public"]["name"] == "uniform"
        rows = pl.DataFrame({name: content.tables["rows"][name] for name in ("sick", "age")})
        sick = (rows["sick"].cast(pl.String) == "true").fill_null(False).cast(pl.Float64)
        weights = np.asarray(content.tables["weights"]["weight"])
        assert (
            abs(float(weights @ sick.to_numpy()) / len(weights) - float(PATIENTS["sick"].mean()))
            < 0.03
        )  # type: ignore[arg-type]

    def test_base_weights_are_respected(self) -> None:
        """Rows of another release carry weights; without private information the result falls back
        to them."""
        doubled = pl.concat([VOLUNTEERS, VOLUNTEERS])
        one = run(ImportanceWeights(public=doubled, choose_pairs=0), ONE, seed=4)
        two = run(ImportanceWeights(public=VOLUNTEERS, choose_pairs=0), ONE, seed=4)
        assert weighted_mean(one, "age", doubled) == pytest.approx(
            weighted_mean(two, "age"), abs=0.05
        )

    def test_truncation_and_hash(self) -> None:
        content = run(ImportanceWeights(public=VOLUNTEERS, max_weight=2, publish="hash"), ONE)
        weights = np.asarray(content.tables["weights"]["weight"])
        assert "rows" not in content.tables
        assert weights.mean() == pytest.approx(1.0)
        free = np.asarray(
            run(ImportanceWeights(public=VOLUNTEERS), ONE).tables["weights"]["weight"]
        )
        assert weights.max() < free.max() / 2
        assert truncated(np.array([0.0, 0.1, 0.9]), 1.0) == pytest.approx([0.0, 3 / 13, 10 / 13])

    def test_more_columns_than_a_domain_may_have_cells(self) -> None:
        wide = "".join(
            f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 255\n' for i in range(9)
        )
        rng = np.random.default_rng(1)
        rows = pl.DataFrame({f"c{i}": rng.integers(0, 255, 400) for i in range(9)})
        schema = schema_of("size = 400", wide)
        method = ImportanceWeights(public=rows, variant="output")
        plan = method.plan(schema, ONE)
        assert plan.domain is not None
        content = method.run(
            SeededNoise(1), [np.asarray(rng.integers(0, 255, 400)) for _ in range(9)], plan
        )
        assert content.domain == fitting_domain(plan.domain.axes)
        assert len(content.facts["encoding"]) == 9 > len(content.domain.axes)
