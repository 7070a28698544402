"""Joined histograms: which tables are chosen, by which scores, and what is counted of the rows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dpublish as dp
from dpublish.audit.subject import _tables_of
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import (
    CodedRows,
    ContingencyTables,
    TableCounts,
    Tabulation,
    Tabulator,
)
from dpublish.methods.joined_histograms import mechanism as module
from dpublish.methods.joined_histograms.structure import (
    LabelledRows,
    LabelledTables,
)
from dpublish.methods.joined_histograms.workload import MAX_TRIPLES, declared_triples
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

from .test_joined_histograms import tiny, tiny_method

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


def test_scores_stay_in_64_bits_whatever_was_published() -> None:
    """Noisy counts have no end: a model of huge ones must not make a score wrap around."""
    from dpublish.methods.joined_histograms.structure import (
        LARGEST_CELL,
        rows_apart,
        rows_apart_each,
    )

    cells = 255 * 255 * 16
    model = np.full(cells, 2.0**63)
    for rows in (0, 1, 10**9):
        counts = np.zeros(cells, dtype=np.int64)
        counts[0] = rows
        assert rows_apart(counts, model) == cells * LARGEST_CELL - rows
        assert rows_apart_each(counts[None].astype(float), model[None]) == [
            cells * LARGEST_CELL - rows
        ]


def test_scores_compare_with_whole_models() -> None:
    from dpublish.methods.joined_histograms.structure import (
        LARGEST_CELL,
        rows_apart,
        rows_apart_each,
    )

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
        both = np.zeros((3, 1)), np.array([[7.0], [expected], [0.0]])
        assert rows_apart_each(*both) == [7, whole, 0]
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
        assert rows_apart_each(counts[None].astype(float), model[None]) == [plain]


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
