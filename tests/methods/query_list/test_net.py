"""The net mechanism and multiplicative weights: exact laws on tiny universes, audits, refusals, and
answers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from built_in import exact_on_every_pair, trial
from dpublish import audit
from dpublish.audit import neighbours
from dpublish.audit.trials.tables import table_trial
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import SparseCounts
from dpublish.methods.multiplicative_weights.mechanism import MultiplicativeWeights
from dpublish.methods.net.mechanism import Net, multiset_at
from dpublish.methods.query_list import multiset_scores
from dpublish.noise.enumerator import Enumerator
from dpublish.privacy.cost import Cost
from dpublish.workloads.query_classes import QueryClass, query_class

ONE = Cost.pure(1)
BITS = "".join(f'[columns.{name}]\nkind = "boolean"\noutside = "drop"\n' for name in "ab")
LINE = '[columns.x]\nkind = "integer"\nlower = 0\nupper = 5\n'


def schema_of(columns: str = BITS, relation: str = "replace-one", size: int = 3) -> Schema:
    key = "size" if relation == "replace-one" else "nominal_size"
    return Schema.from_toml(
        f'[dataset]\nname = "t"\nneighbours = "{relation}"\n{key} = {size}\n{columns}'
    )


def points(rows: Any) -> SparseCounts:
    cells, counts = np.unique(np.array(rows, dtype=np.uint64), return_counts=True)
    return SparseCounts(cells, counts.astype(np.int64))


def runner(mechanism: Any, schema: Schema, cost: Cost = ONE) -> Any:
    plan = mechanism.plan(schema, cost)

    def call(noise: Any, rows: Any) -> Any:
        return mechanism.run(noise, points(rows), plan)

    return call


class TestNet:
    def test_scores_and_ranks_follow_the_definition(self) -> None:
        rng = np.random.default_rng(1)
        table = rng.integers(0, 3, (4, 5))
        target = rng.integers(0, 9, 4)
        every = list(itertools.combinations_with_replacement(range(5), 3))
        scores = np.empty(len(every), dtype=np.int64)
        multiset_scores(target, table, 3, scores)
        for place, chosen in enumerate(every):
            assert scores[place] == -np.abs(target - table[:, chosen].sum(axis=1)).max()
            assert multiset_at(place, 5, 3).tolist() == list(chosen)

    def test_exact_law_over_six_cells(self) -> None:
        """P(S) is proportional to base^(score epsilon / (2 sensitivity)), in rational arithmetic,
        for all 21 multisets."""
        mechanism = Net(queries="intervals", points=2, rule="exponential", bins=6)
        schema = schema_of(LINE, size=3)
        call = runner(mechanism, schema)
        enumerator = Enumerator()
        law = enumerator.law(
            lambda noise, rows: call(noise, rows).tables["cells"]["cell"].tolist(), (0, 0, 4)
        )
        table = query_class("intervals").table(schema.domain(["x"], bins=6))
        counts = np.array([2, 0, 0, 0, 1, 0])
        weights: dict[tuple[int, ...], Fraction] = {}
        for chosen in itertools.combinations_with_replacement(range(6), 2):
            score = -int(np.abs(2 * table @ counts - 3 * table[:, chosen].sum(axis=1)).max())
            key = tuple(sorted(set(chosen)))
            weights[key] = weights.get(key, Fraction(0)) + enumerator.power(Fraction(score, 4))
        total = sum(weights.values())
        assert sorted(law.values()) == sorted(weight / total for weight in weights.values())

    @pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
    @pytest.mark.parametrize("rule", ["exponential", "permute-and-flip"])
    def test_exact_privacy(self, relation: str, rule: Any) -> None:
        settings = {"queries": "marginals:2", "points": "2", "rule": rule}
        report = exact_on_every_pair(table_trial("net", relation, ("a", "b"), settings=settings))
        assert report.loss > 0.3

    def test_half_the_sensitivity_is_caught(self) -> None:
        mechanism = Net(queries="marginals:2", points=1)
        plan = mechanism.plan(schema_of(size=2), ONE)
        wrong = replace(plan.settings, sensitivity=plan.settings.sensitivity / 4)
        plan = replace(plan, settings=wrong)
        pairs = list(neighbours.replace_one(range(4), rows=2))
        assert not audit.exact(
            lambda noise, rows: mechanism.run(noise, points(rows), plan), pairs, epsilon=1
        ).passed
        assert not audit.replay(
            lambda noise, rows: mechanism.run(noise, points(rows), plan), pairs
        ).passed

    def test_refusals(self) -> None:
        wide = "".join(
            f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 9\nbins = 10\n' for i in range(3)
        )
        with pytest.raises(PlanError, match="method 'multiplicative-weights'"):
            Net(points=8).plan(schema_of(wide, size=100), ONE)
        for settings, words in (
            ({"points": 0}, "points must"),
            ({"queries": "marginal:2"}, "Did you mean 'marginals'"),
            ({"queries": "predicates:a = "}, "Predicate"),
            ({"queries": "predicates:zz = 1"}, "Predicate"),
            ({"queries": "linear:0,2"}, "0 to 1"),
            ({"columns": ["a", "a"]}, "none twice"),
            ({"rule": "argmax"}, "not known"),
            ({"max_multisets": 1}, "max_multisets"),
        ):
            with pytest.raises(PlanError, match=words):
                Net(**settings).plan(schema_of(), ONE)
        with pytest.raises(PlanError, match="pure epsilon"):
            Net().plan(schema_of(), Cost.zcdp(1))


class TestMultiplicativeWeights:
    @pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
    def test_exact_privacy(self, relation: str) -> None:
        exact_on_every_pair(trial("multiplicative-weights", relation))

    def test_replay_of_several_rounds(self) -> None:
        call = runner(MultiplicativeWeights(queries="parities:2", rounds=4), schema_of())
        assert audit.replay(call, list(neighbours.replace_one(range(4), rows=3)), epsilon=1).passed

    def test_paying_for_answers_but_not_for_choices_is_caught(self) -> None:
        call = runner(
            MultiplicativeWeights(queries="marginals:1", rounds=1), schema_of(), Cost.pure(2)
        )
        pairs = list(neighbours.replace_one(range(4), rows=3))
        assert not audit.replay(call, pairs, epsilon=1).passed

    def test_rounds_are_checked(self) -> None:
        for rounds in (0, 5000):
            with pytest.raises(PlanError, match="rounds"):
                MultiplicativeWeights(rounds=rounds).plan(schema_of(), ONE)


ROWS = 3000


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 8, ROWS)
    return pl.DataFrame({"age": age, "ill": rng.random(ROWS) < age / 10, "old": age > 5})


SCHEMA = """
[dataset]
name = "t"
[columns.age]
kind = "integer"
lower = 0
upper = 7
bins = 8
[columns.ill]
kind = "boolean"
outside = "drop"
[columns.old]
kind = "boolean"
outside = "drop"
"""


@pytest.mark.parametrize(
    ("mechanism", "most"),
    [
        (MultiplicativeWeights(queries="marginals:2"), 200),
        (Net(queries="marginals:1", columns=["ill", "old"], points=40), 120),
    ],
    ids=["mwem", "net"],
)
def test_release_end_to_end(
    mechanism: Any, most: float, frame: pl.DataFrame, tmp_path: Path
) -> None:
    curator = dp.Curator(
        frame, Schema.from_toml(SCHEMA), ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=50)
    )
    assert (
        "expect" in curator.plan(mechanism, epsilon=2).text()
        or "Theory" in curator.plan(mechanism, epsilon=2).text()
    )
    release: Any = curator.publish(mechanism, epsilon=2, seed=1)
    assert release.verify().ok
    assert release.weights.sum() == pytest.approx(ROWS)
    truth = frame.filter(pl.col("ill")).height
    assert abs(release.estimate("ill = true").value - truth) < most
    assert release.answers().size == release.queries.size(release.domain)
    assert release.sample(50, seed=1).height == 50
    assert release.to_frame().height == release.cells.size


def test_answers_of_mwem_beat_independent_noise_for_many_queries(
    frame: pl.DataFrame, tmp_path: Path
) -> None:
    """All marginals up to width 3 at epsilon 0.2: independent Laplace noise has scale k / epsilon >
    300 rows a query."""
    curator = dp.Curator(
        frame, Schema.from_toml(SCHEMA), ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=50)
    )
    release: Any = curator.publish(
        MultiplicativeWeights(queries="marginals:3"), epsilon=0.2, seed=2
    )
    domain: Domain = release.domain
    codes = np.ravel_multi_index(
        (
            frame["age"].to_numpy(),
            frame["ill"].to_numpy().astype(int),
            frame["old"].to_numpy().astype(int),
        ),
        domain.shape,
    )
    table = query_class("marginals:3").table(domain)
    truth = table @ np.bincount(codes, minlength=domain.size)
    assert np.abs(release.answers() - truth).max() < len(table) / 0.2


CLASSES = [
    "marginals:2",
    "parities:2",
    "intervals:age",
    "intervals",
    "halfspaces:7",
    "predicates:age > 3;ill = true",
]


@pytest.mark.parametrize("text", CLASSES)
def test_classes_read_back_from_their_text(text: str) -> None:
    domain = Schema.from_toml(SCHEMA).domain(["age", "ill", "old"])
    chosen: QueryClass = query_class(text)
    assert query_class(chosen.text()) == chosen
    table = chosen.table(domain)
    assert table.shape == (chosen.size(domain), domain.size)
    assert table.min() >= 0
    assert table.max() <= chosen.unit


def test_sizes_of_classes() -> None:
    domain = Schema.from_toml(SCHEMA).domain(["age", "ill", "old"])
    assert query_class("marginals:2").size(domain) == 8 + 2 + 2 + 16 + 16 + 4
    assert query_class("parities:2").size(domain) == 3
    assert query_class("intervals:age").size(domain) == math.comb(9, 2)
    with pytest.raises(PlanError, match="ordered column"):
        query_class("intervals:ill").size(domain)
    with pytest.raises(PlanError, match="cells"):
        query_class("linear:0,1").size(domain)


def test_settings_from_the_command_line() -> None:
    from dpublish.methods.registry import method_from_settings

    net = method_from_settings("net", {"queries": "marginals:1", "points": "3", "columns": "a,b"})
    assert net.plan(schema_of(), ONE).facts["points"] == 3
    weights = method_from_settings(
        "multiplicative-weights", {"queries": "predicates:a = true;b = false", "rounds": "2"}
    )
    assert weights.plan(schema_of(), ONE).facts["queries"] == 2
    spaces = method_from_settings("halfspaces", {"columns": "x", "k": "2", "cells": "16"})
    assert spaces.plan(schema_of(LINE), ONE).parameters["cells"] == 16


def test_a_class_of_many_queries_takes_a_byte_a_value() -> None:
    domain = Schema.from_toml(SCHEMA).domain(["age", "ill", "old"])
    assert query_class("marginals:2").table(domain).dtype == np.uint8
    assert query_class("predicates:age > 3").table(domain).dtype == np.uint16
    drawn = query_class("random:5000:7").table(domain)
    assert drawn.shape == (5000, domain.size)
    assert abs(drawn.mean() - 0.5) < 0.01
    assert np.array_equal(drawn, query_class("random:5000:7").table(domain))
    assert not np.array_equal(drawn, query_class("random:5000:8").table(domain))
    with pytest.raises(PlanError, match="do not fit into memory"):
        query_class("random:100000000").table(domain)


@pytest.mark.parametrize("text", ["random:x", "random:0", "random:5:x", "random:-1"])
def test_random_classes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(PlanError, match="random"):
        query_class(text)


def test_sums_over_a_class_are_those_of_the_table() -> None:
    from dpublish.methods.query_list import true_answers, weighted_answers

    domain = Schema.from_toml(SCHEMA).domain(["age", "ill", "old"])
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 1 << 30, domain.size)
    numbers = SparseCounts(np.arange(domain.size, dtype=np.uint64), counts)
    for text in ("random:50", "predicates:age > 3;ill = true"):
        table = query_class(text).table(domain)
        assert np.array_equal(true_answers(table, numbers, domain), table.astype(np.int64) @ counts)
        assert weighted_answers(table, counts / 7) == pytest.approx(table @ (counts / 7))


def test_the_bound_that_mwem_states_about_itself_holds() -> None:
    """A true bound fails with probability 5% at most in each of 20 runs, so more than two misses
    have a probability below 8%; seeds are fixed. The planted mistake, the last gap alone without
    noise and choices, is below the error in most runs.
    """
    from dpublish.methods.multiplicative_weights.mechanism import learned_weights
    from dpublish.noise.source import SeededNoise

    schema = Schema.from_toml(SCHEMA.replace("[dataset]", f"[dataset]\nsize = {ROWS}"))
    plan = MultiplicativeWeights(queries="random:300", rounds=8).plan(schema, ONE)
    domain = plan.domain
    assert domain is not None
    counts = np.random.default_rng(2).multinomial(
        ROWS, np.random.default_rng(3).dirichlet(np.full(domain.size, 0.3))
    )
    numbers = SparseCounts(np.arange(domain.size, dtype=np.uint64), counts.astype(np.int64))
    table = query_class("random:300").table(domain).astype(np.int64)
    missed = seen = 0
    for seed in range(20):
        content = learned_weights(SeededNoise(seed), numbers, plan)
        worst = np.abs(table @ np.asarray(content.tables["cells"]["weight"]) - table @ counts).max()
        missed += worst > content.facts["error_bound"]
        answers = np.asarray(content.tables["asked"]["answer"])
        naive = abs(
            int(answers[-1])
            - float(
                (table @ np.asarray(content.tables["cells"]["weight"]))[
                    content.tables["asked"]["query"][-1]
                ]
            )
        )
        seen += worst > naive
    assert missed <= 2
    assert seen >= 10


GUESSED = "[dataset]\nneighbours = 'add-remove-one'\nnominal_size = 200"


@pytest.mark.parametrize("rows", [20, 200, 2000])
def test_a_bound_does_not_trust_a_guessed_number_of_rows(rows: int) -> None:
    """A true bound fails in at most 5% of runs, so more than three of 20 have a probability of 2%;
    seeds are fixed. Planted: cut at the guess, the bound was missed by every run of 2,000 rows."""
    from dpublish.methods.multiplicative_weights.mechanism import learned_weights
    from dpublish.noise.source import SeededNoise

    schema = Schema.from_toml(SCHEMA.replace("[dataset]", GUESSED))
    plan = MultiplicativeWeights(queries="marginals:2", rounds=6).plan(schema, Cost.pure(20))
    domain = plan.settings.domain
    table = plan.settings.query_class.table(domain).astype(np.int64)
    law = np.random.default_rng(3).dirichlet(np.full(domain.size, 0.3))
    counts = np.random.default_rng(2).multinomial(rows, law).astype(np.int64)
    numbers = SparseCounts(np.arange(domain.size, dtype=np.uint64), counts)
    missed = cut = 0
    for seed in range(20):
        content = learned_weights(SeededNoise(seed), numbers, plan)
        worst = np.abs(table @ np.asarray(content.tables["cells"]["weight"]) - table @ counts).max()
        missed += worst > content.facts["error_bound"]
        cut += worst > min(200, content.facts["error_bound"])
    assert missed <= 3
    assert cut == (20 if rows == 2000 else missed)


TOTAL = "[[totals]]\nrows = 200\nsource = 'a register'\n"


@pytest.mark.parametrize(
    ("head", "tail", "stated"),
    [
        ("[dataset]\nsize = 200", "", True),
        (GUESSED, "", False),
        ("[dataset]\nsize = 20\nunit = 'who'\nmax_rows_per_unit = 10", "", False),
        (GUESSED, TOTAL, False),
        (GUESSED, "missing = true\n" + TOTAL, True),
    ],
    ids=["rows", "guess", "units", "a row may be dropped", "a public total"],
)
def test_a_net_states_a_bound_where_the_number_of_rows_is_public(
    head: str, tail: str, stated: bool
) -> None:
    text = SCHEMA if "missing" not in tail else SCHEMA.replace('outside = "drop"\n', "")
    text = text.replace("[dataset]", head).replace("[columns.old]", "missing = true\n[columns.old]")
    plan = Net(queries="marginals:1", columns=["ill", "old"], points=4).plan(
        Schema.from_toml(text + tail), Cost.pure(20)
    )
    assert (plan.settings.error_bound < 200) == stated
    assert plan.settings.error_bound == (plan.forecast["error_bound"] if stated else 200)
    assert any("states no bound" in line for line in plan.sentences) != stated


def test_a_release_without_a_bound_says_so(frame: pl.DataFrame, tmp_path: Path) -> None:
    schema = Schema.from_toml(SCHEMA.replace("[dataset]", GUESSED))
    curator = dp.Curator(frame, schema, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=50))
    mechanism = Net(queries="marginals:1", columns=["ill", "old"], points=20)
    release: Any = curator.publish(mechanism, epsilon=20, seed=1)
    assert not release.bounded
    assert release.summary()["error"] == "no bound: the number of rows is private"
    assert np.isinf(release.estimate("ill = true").high)
    assert "no bound" in release.report(tmp_path / "page.html").read_text(encoding="utf-8")
