"""Joined histograms: plans and refusals, exact and replayed audits, planted bugs, and the structure
that is chosen."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.audit.subject import Subject, _tables_of, subject
from dpublish.declare.relation import ROOT_TWO, Relation
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import (
    CodedRows,
    ContingencyTables,
    TableCounts,
    Tabulation,
    Tabulator,
)
from dpublish.errors import PlanError, SchemaError
from dpublish.methods.base import Output
from dpublish.methods.joined_histograms import mechanism as module
from dpublish.methods.joined_histograms.kernels import largest_box
from dpublish.methods.joined_histograms.model_error import largest_model_error
from dpublish.methods.joined_histograms.rounds import choose_tables
from dpublish.methods.joined_histograms.structure import (
    LabelledRows,
    LabelledTables,
    choose_forest,
    table_parts,
)
from dpublish.methods.joined_histograms.workload import MAX_TRIPLES, declared_triples, table_weights
from dpublish.models.junction_tree.consistency import onto_simplex
from dpublish.models.junction_tree.fit import join_tables
from dpublish.models.junction_tree.grouping import group_levels
from dpublish.models.junction_tree.model_error import UNIT
from dpublish.noise.source import SeededNoise
from dpublish.privacy.budget_split import BudgetSplit, root_below
from dpublish.privacy.cost import Cost, largest_rho


@pytest.fixture(scope="module", autouse=True)
def compiled_kernels() -> None:
    """Compile before an audit looks: the compiler writes debug log lines, which a replay would take
    for the mechanism's."""
    rows = LabelledRows([np.array([0, 1]), np.array([1, 0])], [2, 2], None)
    rows.count_column(0)
    coded = [rows.grouped(column, np.arange(2)) for column in (0, 1)]
    rows.count_together(coded, (2, 2))
    rows.count_together([*coded, coded[0]], (2, 2, 2))
    largest_box(np.zeros((2, 2), dtype=np.int64))


def tiny(
    neighbours: str = "add-remove-one",
    *,
    columns: str = "ab",
    extra: str = "",
    levels: str = '["x", "y"]',
) -> Schema:
    declared = "".join(
        f'[columns.{name}]\nkind = "categorical"\nlevels = {levels}\noutside = "drop"\n'
        for name in columns
    )
    return Schema.from_toml(
        f'[dataset]\nname = "tiny"\nneighbours = "{neighbours}"\n{extra}\n{declared}'
    )


def tiny_method(**settings: Any) -> dp.JoinedHistograms:
    """Half for columns, a quarter each for choices and pairs; groups as fine as can be; no rounds,
    and no model error."""
    usual = {
        "column_share": "1/2",
        "choice_share": "1/4",
        "misfit_share": 0,
        "cell_deviations": "1/100",
        "rounds": 0,
    }
    return dp.JoinedHistograms(**{**usual, **settings})


# ---- plans


def test_plan_says_what_it_costs_and_shares_add_up() -> None:
    plan = dp.JoinedHistograms().plan(tiny(columns="abc"), Cost.pure(1))
    assert plan.cost == Cost.pure(1)
    assert (
        sum(
            Fraction(plan.facts[key])
            for key in ("column_share", "choice_share", "pair_share", "misfit_share")
        )
        == 1
    )
    assert plan.facts["noise"] == "laplace"
    assert "Up to 2 pairs" in plan.text()


def test_plan_says_what_rounds_cost_the_first_pairs() -> None:
    """Without rounds the pairs share everything; with two rounds of two tables each, a table of a
    round has the least."""
    text = '[dataset]\nname = "t"\nneighbours = "add-remove-one"\n' + "".join(
        f'[columns.{name}]\nkind = "categorical"\nlevels = ["x", "y"]\n' for name in "abcd"
    )
    plans = [
        dp.JoinedHistograms(rounds=rounds).plan(dp.Schema.from_toml(text), Cost.pure(1))
        for rounds in (0, 2)
    ]
    pairs = Fraction(plans[0].facts["pair_share"])
    assert not any("rounds" in sentence for sentence in plans[0].sentences)
    least = math.sqrt(2) / float(pairs * module.ROUND_PART / 2 / 2)
    assert any(f"or {least:.3g} with rounds" in sentence for sentence in plans[1].sentences), plans[
        1
    ].sentences


def test_the_better_noise_is_recommended() -> None:
    few, many = tiny(columns="ab"), tiny(columns="abcdefghijklmnopqrstuvwxyz")
    cost = Cost.approximate(1, "1e-9")
    chosen = dp.JoinedHistograms().plan(few, cost)
    assert chosen.facts["noise"] == "laplace"
    assert chosen.cost == Cost.pure(1)  # no delta is spent that is not needed
    wide = dp.JoinedHistograms().plan(many, cost)
    assert wide.facts["noise"] == "gaussian"
    assert wide.cost == cost
    assert Fraction(wide.facts["amount"]) > Fraction(110, 100) * largest_rho(1, "1e-9")
    crowded = dp.JoinedHistograms(choice_share="0.5", column_share="0.4", bins=4)
    few_gauss = dp.JoinedHistograms(noise="gaussian", choice_share="0.5", column_share="0.4")
    assert few_gauss.plan(few, cost).facts["amount"] == str(largest_rho(1, "1e-9"))
    assert Fraction(crowded.plan(many, cost).facts["extra_variance"]) in (0, 2)
    assert dp.JoinedHistograms(noise="gaussian").plan(few, cost).facts["noise"] == "gaussian"


@pytest.mark.parametrize(
    ("settings", "cost", "text"),
    [
        ({"columns": ["a", "a"]}, Cost.pure(1), "named twice"),
        ({"columns": []}, Cost.pure(1), "at least one column"),
        ({"noise": "gaussian"}, Cost.pure(1), "needs delta"),
        ({"noise": "laplace"}, Cost.zcdp(1), "paid in epsilon"),
        ({"noise": "loud"}, Cost.pure(1), "auto, laplace or gaussian"),
        ({"column_share": 1}, Cost.pure(1), "below 1"),
        ({"column_share": "1/2", "choice_share": "1/2"}, Cost.pure(1), "leave something"),
        ({"cell_deviations": 0}, Cost.pure(1), "above 0"),
        ({"bins": 0}, Cost.pure(1), "bins"),
        ({"target": "z"}, Cost.pure(1), "not among the columns"),
        ({"workload": ["a*q"]}, Cost.pure(1), "workload names 'q'"),
        ({"workload": ["a*b:0"]}, Cost.pure(1), "between 1/100 and 100"),
        ({"workload": {"a": "much"}}, Cost.pure(1), "the weight of 'a'"),
        ({"misfit_share": 1}, Cost.pure(1), "misfit_share"),
        ({"misfit_share": "1/2"}, Cost.pure(1), "leave something"),
        ({"misfit_share": "1e-15"}, Cost.pure(1), "0, or at least 1/1000"),
        ({"column_share": "1e-15"}, Cost.pure(1), "at least 0.001"),
        ({"rounds": 9}, Cost.pure(1), "rounds must"),
        ({"rounds": True}, Cost.pure(1), "rounds must be"),
        ({}, Cost.zcdp("1e-30"), "so small"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_spent(
    settings: dict[str, Any], cost: Cost, text: str
) -> None:
    with pytest.raises(PlanError, match=text):
        dp.JoinedHistograms(**settings).plan(tiny(), cost)


def test_unknown_columns_and_items_are_refused() -> None:
    with pytest.raises(SchemaError, match="no column 'q'"):
        dp.JoinedHistograms(columns=["a", "q"]).plan(tiny(), Cost.pure(1))
    baskets = Schema.from_toml('[dataset]\nname = "b"\n[items]\nuniverse = ["x"]\n')
    with pytest.raises(PlanError, match="columns"):
        dp.JoinedHistograms().plan(baskets, Cost.pure(1))


def test_a_target_with_many_levels_becomes_a_column() -> None:
    schema = Schema.from_toml(
        '[dataset]\nname = "t"\ntarget = "n"\nsize = 9\n[columns.n]\nkind = "integer"\nlower = '
        "0\nupper = 99\n"
        '[columns.b]\nkind = "boolean"\n'
    )
    plan = dp.JoinedHistograms().plan(schema, Cost.pure(1))
    assert plan.facts["target"] is None
    assert "ordinary column" in plan.warnings[0]
    assert dp.JoinedHistograms(bins=8).plan(schema, Cost.pure(1)).facts["target"] == "n"
    assert (
        dp.JoinedHistograms(bins=8, target="none").plan(schema, Cost.pure(1)).facts["target"]
        is None
    )


def test_a_pure_plan_names_a_delta_where_it_would_make_the_noise_much_smaller() -> None:
    def said(columns: int) -> str:
        text = '[dataset]\nname = "t"\nsize = 9\n'
        text += "".join(f'[columns.c{i}]\nkind = "boolean"\n' for i in range(columns))
        return dp.JoinedHistograms().plan(Schema.from_toml(text), Cost.pure(1)).sentences[2]

    assert "with delta = 1e-9" in said(20)
    assert "delta = " not in said(5)


# ---- the budget


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [[1], [4, 4], [2, 64, 5000, 31]])
def test_parts_add_up_to_one(noise: Any, cells: list[int]) -> None:
    assert sum(table_parts(noise, cells)) == 1


def test_roots_are_rounded_the_safe_way() -> None:
    assert ROOT_TWO**2 > 2
    for value in (Fraction(1, 3), Fraction(2), Fraction(1, 10**9), Fraction(0)):
        root = root_below(value)
        assert root**2 <= value < (root + Fraction(1, 10**11)) ** 2


def test_sensitivities_of_both_relations() -> None:
    add, replace = Relation("add-remove-one", 3), Relation("replace-one", 3)
    assert [
        BudgetSplit("laplace", Fraction(1), relation).sensitivity for relation in (add, replace)
    ] == [3, 6]
    assert [
        BudgetSplit("gaussian", Fraction(1), relation).sensitivity for relation in (add, replace)
    ] == [3, 3 * ROOT_TWO]
    assert (add.linf, replace.linf) == (3, 3)


# ---- audits


@pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 1")]
)
def test_exact_privacy_on_two_columns(neighbours: str, extra: str) -> None:
    """All neighbouring tables of one row, every outcome, in rational arithmetic."""
    tested = subject(tiny_method(), tiny(neighbours, extra=extra), Cost.pure(4))
    report = audit.exact(tested, list(tested.pairs(rows=1)), epsilon=4, window=(0, 1))
    assert report.passed, report.summary()
    # the whole budget bar the choice between one pair and stopping, which moves by half of what it
    # may
    assert report.loss > 1.9


@pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 2")]
)
@pytest.mark.parametrize("target", ["none", "c"])
def test_replayed_taps_add_up_to_the_claim(neighbours: str, extra: str, target: str) -> None:
    schema = tiny(neighbours, columns="abc", extra=extra)
    for cost, claim in ((Cost.pure(2), {"epsilon": 2}), (Cost.zcdp(1), {"rho": 1})):
        tested = subject(tiny_method(target=target), schema, cost)
        report = audit.replay(tested, list(tested.pairs(rows=2, cells=5)), runs=1, **claim)
        assert report.passed, report.summary()


def test_replayed_taps_of_units_with_several_rows() -> None:
    tested = subject(
        tiny_method(), tiny(extra='unit = "person"\nmax_rows_per_unit = 2'), Cost.pure(2)
    )
    report = audit.replay(tested, list(tested.pairs(rows=4, cells=3)), runs=1, epsilon=2)
    assert report.passed, report.summary()
    assert report.loss > 1  # the bound is used, not only kept


# ---- planted bugs: each is caught by the tier named, and the true mechanism survives the same
# audit (above)


class Broken(Subject):
    """The mechanism with one function of its module put in the place of another."""

    def run_with(self, monkeypatch: pytest.MonkeyPatch, name: str, function: Any) -> Any:
        assert hasattr(module, name)  # a run that fails would pass for a bug that was found

        def mechanism(noise: Any, rows: Any) -> Output:
            with monkeypatch.context() as patch:
                patch.setattr(module, name, function)
                return self(noise, rows)

        return mechanism


ROUNDS = {"rounds": 1, "misfit_share": "1/50", "choice_share": "1/100"}


def three_pairs(tested: Subject) -> list[Any]:
    """Neighbours over all eight cells of three columns of two levels."""
    return list(tested.pairs(rows=2, cells=8))[:24]


@pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 2")]
)
@pytest.mark.parametrize("target", ["none", "d"])
def test_replayed_rounds_and_misfit_add_up_to_the_claim(
    neighbours: str, extra: str, target: str
) -> None:
    """With rho, the audit charges a choice of range e with e^2 / 2, four times what it costs: hence
    the larger claim."""
    schema = tiny(neighbours, columns="abcd" if target == "d" else "abc", extra=extra)
    for cost, claim in (
        (Cost.pure(2), {"epsilon": 2}),
        (Cost.zcdp(1), {"rho": Fraction(103, 100)}),
    ):
        tested = subject(tiny_method(target=target, **ROUNDS), schema, cost)
        report = audit.replay(tested, list(tested.pairs(rows=2, cells=4))[:16], runs=1, **claim)
        assert report.passed, report.summary()
        assert report.loss + report.rho_loss > Fraction(1, 2)  # the bound is used, not only kept


@pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 2")]
)
@pytest.mark.parametrize(
    "workload", [["a*b*c"], ["a*b*c", "a:2", "b:2", "c:2"]], ids=["plain", "weighted columns"]
)
def test_replayed_triples_add_up_to_the_claim(
    neighbours: str, extra: str, workload: list[str]
) -> None:
    tested = subject(
        tiny_method(workload=workload, **ROUNDS),
        tiny(neighbours, columns="abc", extra=extra),
        Cost.pure(2),
    )
    report = audit.replay(tested, three_pairs(tested), runs=1, epsilon=2)
    assert report.passed, report.summary()


def test_a_triple_that_outweighs_what_was_declared_is_caught_by_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Columns that weigh 2 each: a three weighs 8, a pair 4. The largest of the pairs is not enough
    for a choice among all."""

    def of_pairs(settings: Any) -> Any:
        weights, _ = table_weights(settings)
        return weights, max(weight for table, weight in weights.items() if len(table) == 2)

    tested = broken(
        tiny_method(workload=["a*b*c", "a:2", "b:2", "c:2"], **ROUNDS),
        tiny(columns="abc"),
        Cost.pure(2),
    )
    report = audit.replay(
        tested.run_with(monkeypatch, "table_weights", of_pairs),
        three_pairs(tested),
        runs=1,
        epsilon=2,
    )
    assert not report.passed, report.summary()


def test_the_misfit_moves_by_at_most_one_row() -> None:
    """Every table of two rows over 3 x 2 cells and two labels, a row taken away, and every row in
    the place of another."""
    rng = np.random.default_rng(5)
    labels = np.array([1.5, 2.0])
    singles = [onto_simplex(rng.random((levels, 2)), labels) for levels in (3, 2)]
    states = {column: np.zeros(levels, dtype=np.int64) for column, levels in ((0, 3), (1, 2))}
    model = join_tables(labels, [*singles, np.diag(labels)], states, [], target=2)
    cells = list(itertools.product(range(3), range(2), range(2)))

    def model_error(*rows: tuple[int, ...]) -> int:
        codes = [np.array([row[column] for row in rows], dtype=np.int64) for column in range(3)]
        return largest_model_error(LabelledRows(codes, [3, 2, 2], 2), model, [0, 1], set(), 64)

    widest = 0
    for first, second in itertools.combinations_with_replacement(cells, 2):
        whole = model_error(first, second)
        moves = [abs(whole - model_error(first))]
        moves += [abs(whole - model_error(first, other)) for other in cells]
        widest = max(widest, *moves)
    assert UNIT / 2 < widest <= UNIT


def test_the_misfit_of_a_model_of_any_size_stays_in_64_bits() -> None:
    """Noise has no end, so that a published model may have any number of rows: 2^64 here, in the
    largest table there is."""
    labels = np.full(16, 2.0**60)
    states = {column: np.zeros(64, dtype=np.int64) for column in (0, 1)}
    model = join_tables(
        labels, [np.full((64, 16), 2.0**54)] * 2 + [np.diag(labels)], states, [], target=2
    )

    def model_error(rows: list[tuple[int, ...]]) -> int:
        codes = [np.array([row[column] for row in rows], dtype=np.int64) for column in range(3)]
        return largest_model_error(LabelledRows(codes, [64, 64, 16], 2), model, [0, 1], set(), 64)

    assert abs(model_error([]) - model_error([(0, 0, 0)])) <= UNIT
    assert model_error([]) > 2**61


def broken(method: dp.JoinedHistograms, schema: Schema, cost: Cost) -> Broken:
    tested = subject(method, schema, cost)
    return Broken(tested.mechanism, tested.plan, tested.domain)


def test_selection_that_is_not_charged_is_caught_by_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choices made with the whole budget, beside counts that are charged in full."""

    def greedy(
        noise: Any, scores: Any, columns: Any, budget: Any, *, weight: int, share: Fraction
    ) -> Any:
        return choose_forest(noise, scores, columns, budget, weight=weight, share=Fraction(4))

    tested = broken(tiny_method(), tiny(columns="abc"), Cost.pure(2))
    report = audit.replay(
        tested.run_with(monkeypatch, "choose_forest", greedy),
        list(tested.pairs(rows=2, cells=5)),
        runs=1,
        epsilon=2,
    )
    assert not report.passed
    assert {finding.check for finding in report.findings} & {"budget", "sum", "claim", "loss"}, (
        report.summary()
    )


def test_structure_from_the_noiseless_table_is_caught_by_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def true_agreement(
        rows: LabelledTables, known: Any, columns: Any, weights: Any, **settings: Any
    ) -> Any:
        def agreeing(first: int, second: int) -> int:
            shape = (rows.levels[first], rows.levels[second])
            sides = [
                rows.grouped(c, np.arange(n)) for c, n in zip((first, second), shape, strict=True)
            ]
            counts = rows.count_pair(sides[0], sides[1], shape)
            return int(np.trace(counts.reshape(*shape, -1).sum(axis=2)))

        return {edge: agreeing(*edge) for edge in weights}

    def true_best(
        noise: Any, scores: Any, columns: Any, budget: Any, *, weight: int, share: Fraction
    ) -> Any:
        return [max(scores, key=scores.get)]

    monkeypatch.setattr(module, "pair_scores", true_agreement)
    tested = broken(tiny_method(), tiny(columns="abc"), Cost.pure(2))
    report = audit.replay(
        tested.run_with(monkeypatch, "choose_forest", true_best),
        list(tested.pairs(rows=2)),
        runs=1,
        epsilon=2,
    )
    assert not report.passed, report.summary()
    report = audit.replay(
        tested, list(tested.pairs(rows=2, cells=5)), runs=1, epsilon=2
    )  # the same, chosen with noise
    assert report.passed, report.summary()


def test_rare_levels_merged_by_true_counts_are_caught_by_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_counts: dict[int, Any] = {}
    count_column = LabelledTables.count_column

    def remember(self: LabelledTables, column: int) -> Any:
        true_counts[column] = count_column(self, column)
        return true_counts[column]

    def by_true_counts(job: Any, known: Any, chosen: Any, part: Fraction) -> Any:
        def groups(column: int) -> Any:
            mass = true_counts[column].reshape(-1, job.rows.labels).sum(axis=1).astype(np.float64)
            return group_levels(mass, np.arange(len(mass)), 3)

        return [(groups(first), groups(second)) for first, second in chosen]

    def always(
        noise: Any, scores: Any, columns: Any, budget: Any, *, weight: int, share: Fraction
    ) -> Any:
        return [(0, 1)]

    monkeypatch.setattr(LabelledTables, "count_column", remember)
    monkeypatch.setattr(module, "choose_forest", always)
    tested = broken(tiny_method(), tiny(levels='["x", "y", "z"]'), Cost.pure(2))
    report = audit.replay(
        tested.run_with(monkeypatch, "pair_groups", by_true_counts),
        list(tested.pairs(rows=2)),
        runs=1,
    )
    assert not report.passed, report.summary()
    report = audit.replay(
        tested, list(tested.pairs(rows=2, cells=4)), runs=1
    )  # the same without the planted groups
    assert report.passed, report.summary()


def test_a_round_that_is_not_charged_is_caught_by_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*given: Any, share: Fraction, **more: Any) -> Any:
        return choose_tables(*given, share=Fraction(4), **more)

    tested = broken(tiny_method(**ROUNDS), tiny(columns="abc"), Cost.pure(2))
    pairs = list(tested.pairs(rows=2, cells=4))[:16]
    report = audit.replay(
        tested.run_with(monkeypatch, "choose_tables", greedy), pairs, runs=1, epsilon=2
    )
    assert not report.passed, report.summary()


def test_a_round_that_stops_by_the_true_error_is_caught_by_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether there is anything left to count is read off the true scores: the taps then differ
    between neighbours."""

    def knowing(noise: Any, scores: Any, *given: Any, **more: Any) -> Any:
        # half a row between the best scores that neighbours may have
        return (
            choose_tables(noise, scores, *given, **more)
            if max(scores.values(), default=0) % 200 >= 100
            else []
        )

    tested = broken(tiny_method(**ROUNDS), tiny(columns="abc"), Cost.pure(2))
    pairs = list(tested.pairs(rows=2, cells=4))[:16]
    report = audit.replay(
        tested.run_with(monkeypatch, "choose_tables", knowing), pairs, runs=1, epsilon=2
    )
    assert not report.passed, report.summary()


@pytest.mark.parametrize("bug", ["no noise", "a unit for a row"])
def test_a_misfit_with_too_little_noise_is_caught_by_replay(
    monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    def bare(noise: Any, budget: Any, model_error: int, share: Fraction) -> Any:
        if bug == "no noise":
            return model_error, Fraction(1)
        value = noise.laplace(
            np.array([model_error]), sensitivity=1, epsilon=budget.amount * share, label="misfit"
        )
        return int(value[0]), 1 / (budget.amount * share)

    tested = broken(tiny_method(**ROUNDS), tiny(columns="abc"), Cost.pure(2))
    pairs = list(tested.pairs(rows=2, cells=4))[:16]
    report = audit.replay(
        tested.run_with(monkeypatch, "publish_model_error", bare), pairs, runs=1, epsilon=2
    )
    assert not report.passed, report.summary()


# ---- what is chosen and counted


def dependent_rows(count: int, seed: int = 0) -> list[Any]:
    """Columns 0 and 1 equal, 2 a noisy copy of 3, 4 alone; two labels at random."""
    rng = np.random.default_rng(seed)
    first, third, fifth = (rng.integers(0, 2, count) for _ in range(3))
    return [first, first, np.where(rng.random(count) < 0.1, 1 - third, third), third, fifth]


@pytest.mark.parametrize("cost", [Cost.pure(1), Cost.zcdp("1/20")], ids=["laplace", "gaussian"])
def test_pairs_that_depend_are_joined_first(cost: Cost) -> None:
    """With 20,000 rows the right pairs win both choices but for a chance far below one in a
    million."""
    plan = dp.JoinedHistograms().plan(tiny(columns="abcde"), cost)
    for seed in range(3):
        content = dp.JoinedHistograms().run(SeededNoise(seed), dependent_rows(20_000), plan)
        assert content.facts["joined"][:2] == [["a", "b"], ["c", "d"]]


def test_a_workload_comes_first() -> None:
    plan = dp.JoinedHistograms(workload=["c*d"]).plan(tiny(columns="abcde"), Cost.pure(1))
    content = dp.JoinedHistograms(workload=["c*d"]).run(
        SeededNoise(1), dependent_rows(20_000), plan
    )
    assert content.facts["joined"][0] == ["c", "d"]
    weights, heaviest = module.pair_weights(plan.settings)
    assert heaviest == 400
    assert sorted(weights.values()) == [100] * 9 + [400]


def test_weights_of_columns_and_marginals_multiply() -> None:
    for workload in (["a*b*c:3", "a:2", "e:1/4"], {"a*b*c": 3, "a": 2, "e": 0.25}):
        plan = dp.JoinedHistograms(workload=workload).plan(tiny(columns="abcde"), Cost.pure(1))
        weights, heaviest = module.pair_weights(plan.settings)
        assert (weights[0, 1], weights[1, 2], weights[0, 3], weights[0, 4], weights[3, 4]) == (
            600,
            300,
            200,
            50,
            25,
        )
        assert heaviest == 600


def test_triples_of_a_workload_are_looked_at() -> None:
    plan = dp.JoinedHistograms(workload=["a*b*c:3", "a:2", "b*c*d*e", "a*b"]).plan(
        tiny(columns="abcde"), Cost.pure(1)
    )
    weights, heaviest = module.table_weights(plan.settings)
    assert [table for table in weights if len(table) == 3] == [
        (0, 1, 2),
        (1, 2, 3),
        (1, 2, 4),
        (1, 3, 4),
        (2, 3, 4),
    ]
    assert (weights[0, 1, 2], weights[1, 2, 3], heaviest) == (
        600,
        400,
        800,
    )  # a weighs 2, and a*b, unweighted, 4
    assert "5 sets of three columns" in plan.text()
    assert (
        "of three columns"
        not in dp.JoinedHistograms(workload=["a*b"]).plan(tiny(columns="abc"), Cost.pure(1)).text()
    )


def test_the_target_is_in_every_table_and_so_in_no_triple() -> None:
    method = dp.JoinedHistograms(workload=["a*b*c*d"], target="d")
    weights, _ = module.table_weights(method.plan(tiny(columns="abcd"), Cost.pure(1)).settings)
    assert [table for table in weights if len(table) == 3] == [(0, 1, 2)]


def test_a_marginal_of_everything_offers_only_so_many_triples() -> None:
    names = [f"c{place}" for place in range(300)]  # 4,455,100 triples
    columns = "".join(f'[columns.{name}]\nkind = "boolean"\n' for name in names)
    schema = Schema.from_toml(f'[dataset]\nname = "wide"\nneighbours = "add-remove-one"\n{columns}')
    plan = dp.JoinedHistograms(workload=["*".join(names)]).plan(schema, Cost.pure(1))
    assert plan.domain is not None
    assert len(declared_triples(plan.settings)) == MAX_TRIPLES


def test_counts_are_those_of_the_rows() -> None:
    rng = np.random.default_rng(3)
    first, second, labels = (
        rng.integers(0, 300, 5000),
        rng.integers(0, 4, 5000),
        rng.integers(0, 3, 5000),
    )
    rows = LabelledRows([first, second, labels], [300, 4, 3], 2)
    table = np.zeros((300, 3), dtype=np.int64)
    np.add.at(table, (first, labels), 1)
    assert np.array_equal(rows.count_column(0), table.ravel())
    groups = np.arange(300) // 100
    joint = np.zeros((3, 4, 3), dtype=np.int64)
    np.add.at(joint, (groups[first], second, labels), 1)
    coded = [rows.grouped(0, groups), rows.grouped(1, np.arange(4)), rows.grouped(2, np.arange(3))]
    assert np.array_equal(rows.count_together(coded[:2], (3, 4)), joint.ravel())
    triple = np.zeros((3, 4, 3, 3), dtype=np.int64)
    np.add.at(triple, (groups[first], second, labels, labels), 1)
    assert np.array_equal(rows.count_together(coded, (3, 4, 3)), triple.ravel())


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_hardly_any_rows_still_give_a_release(rows: int) -> None:
    plan = dp.JoinedHistograms().plan(tiny(columns="abcde"), Cost.pure(1))
    content = dp.JoinedHistograms().run(SeededNoise(2), dependent_rows(rows), plan)
    assert len(content.tables["columns"]["count"]) == 10


# ---- laws


def test_the_law_of_a_choice() -> None:
    """Two options whose scores differ by d: permute-and-flip takes the lower one with probability
    exp(-e d / 2) / 2.

    2,000 seeded draws, two-sided at five standard deviations: a false alarm of below one in a
    million had the seeds been random, and a relative error of a quarter in the exponent would be
    caught.
    """
    budget = BudgetSplit("laplace", Fraction(1), Relation("add-remove-one", 1))
    draws = [
        len(
            choose_forest(
                SeededNoise(seed), {(0, 1): -2}, [0, 1], budget, weight=1, share=Fraction(1)
            )
        )
        for seed in range(2000)
    ]
    chance = np.exp(-1.0) / 2
    assert abs(np.mean(draws) - chance) < 5 * np.sqrt(chance * (1 - chance) / 2000)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 1")]
)
def test_sampled_audit(neighbours: str, extra: str) -> None:
    tested = subject(tiny_method(), tiny(neighbours, extra=extra), Cost.pure(2))
    report = audit.sampled(tested, list(tested.pairs(rows=1)), epsilon=2, samples=4000)
    assert report.passed, report.summary()


def test_scores_stay_in_64_bits_whatever_was_published() -> None:
    """Noisy counts have no end: a model of huge ones must not make a score wrap around."""
    from dpublish.methods.joined_histograms.structure import LARGEST_CELL, rows_apart

    cells = 255 * 255 * 16
    model = np.full(cells, 2.0**63)
    for rows in (0, 1, 10**9):
        counts = np.zeros(cells, dtype=np.int64)
        counts[0] = rows
        assert rows_apart(counts, model) == cells * LARGEST_CELL - rows


def test_scores_compare_with_whole_models() -> None:
    from dpublish.methods.joined_histograms.structure import LARGEST_CELL, rows_apart

    nothing = np.zeros(1, dtype=np.int64)
    for expected, whole in [
        (np.nan, 0),
        (-5.0, 0),
        (np.inf, LARGEST_CELL),
        (2.4, 2),
        (2.5, 2),
        (3.5, 4),
        (2.0**40 - 1, 2**40 - 1),
    ]:
        assert rows_apart(nothing, np.array([expected])) == whole
    rng = np.random.default_rng(3)
    for _ in range(50):
        counts, model = (
            rng.integers(0, 40, (5, 4, 2)),
            rng.normal(15, 12, (2, 5, 4)).transpose(1, 2, 0),
        )
        plain = sum(
            abs(int(count) - max(0, round(cell)))
            for count, cell in zip(counts.ravel(), model.ravel(), strict=True)
        )
        assert rows_apart(counts, model) == plain


@pytest.mark.parametrize("target", [None, 1])
def test_tables_counted_in_one_pass_say_what_rows_say(target: int | None) -> None:
    rng = np.random.default_rng(4)
    schema = tiny(columns="abc", levels='["x", "y", "z"]')
    domain = schema.domain(["a", "b", "c"])
    codes = [rng.integers(0, 3, 500) for _ in domain.axes]
    features = [column for column in range(3) if column != target]
    triples = list(itertools.combinations(features, 3))
    passes: list[ContingencyTables] = []

    def count(asked: ContingencyTables) -> TableCounts:
        passes.append(asked)
        return _tables_of(codes, asked)

    merged = np.array([0, 1, 1])
    rows: Any = LabelledRows(codes, domain.shape, target)
    never: Any = None  # cells of the whole domain are not asked for
    tables: Any = LabelledTables(Tabulator(count, domain, never), target, features, triples)
    assert np.array_equal(tables.count_levels(0), rows.count_levels(0))
    assert [len(asked.tables) for asked in passes] == [len(features)]
    rows, tables = (some.regrouped(0, merged) for some in (rows, tables))
    assert rows.levels == tables.levels
    for column in features:
        assert np.array_equal(tables.count_column(column), rows.count_column(column))
    for size in (2, 3):
        for chosen in itertools.permutations(features, size):
            groups = [rng.integers(0, 4, tables.levels[column]) for column in chosen]
            shape = [5] * size  # a group may have no level
            found, expected = (
                source.count_together(
                    [source.grouped(c, g) for c, g in zip(chosen, groups, strict=True)], shape
                )
                for source in (rows, tables)
            )
            assert np.array_equal(found, expected)
    assert len(passes) == 2


def test_rows_are_held_only_where_tables_have_too_many_cells() -> None:
    plan = tiny_method().plan(tiny(), Cost.pure(2))
    assert isinstance(tiny_method().statistic(plan), Tabulation)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_COUNTED", 1)
        assert isinstance(tiny_method().statistic(plan), CodedRows)


@pytest.mark.parametrize(("columns", "offered"), [(4, False), (36, True)])
def test_the_plan_of_a_pure_cost_names_a_delta_where_it_halves_the_noise(
    columns: int, offered: bool
) -> None:
    """Of a table like a satellite's, with 36 brightnesses, and of a narrow one."""
    text = "[dataset]\nname = 't'\nsize = 5000\n" + "".join(
        f"[columns.x{i}]\nkind = 'integer'\nlower = 0\nupper = 255\n" for i in range(columns)
    )
    declared = dp.Schema.from_toml(text)
    alone = dp.JoinedHistograms().plan(declared, Cost.pure(1))
    assert ("take that where a delta is allowed" in alone.text()) is offered
    both = dp.JoinedHistograms().plan(declared, Cost.approximate(1, "1e-9"))
    ratio = both.forecast["pair_deviation"] / alone.forecast["pair_deviation"]
    assert ratio < 0.6 or not offered
