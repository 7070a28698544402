"""Joined histograms: exact and replayed audits, planted bugs, and laws."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.audit.subject import Subject, subject
from dpublish.declare.relation import Relation
from dpublish.declare.schema import Schema
from dpublish.methods.base import Output
from dpublish.methods.joined_histograms import mechanism as module
from dpublish.methods.joined_histograms.kernels import largest_box
from dpublish.methods.joined_histograms.model_error import largest_model_error
from dpublish.methods.joined_histograms.rounds import choose_tables
from dpublish.methods.joined_histograms.structure import (
    LabelledRows,
    LabelledTables,
    choose_forest,
)
from dpublish.methods.joined_histograms.workload import table_weights
from dpublish.models.junction_tree.cliques import group_levels
from dpublish.models.junction_tree.consistency import onto_simplex
from dpublish.models.junction_tree.fit import join_tables
from dpublish.models.junction_tree.model_error import UNIT
from dpublish.noise.source import SeededNoise
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost


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
