"""Tables of all labels together: how they are counted, fitted and read, and which shares go with
how much room."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.errors import BundleError
from dpublish.methods.joined_histograms import job, mechanism, structure
from dpublish.models.junction_tree.consistency import GroupSums, sum_groups
from dpublish.models.junction_tree.fit import (
    MeasuredColumn,
    MeasuredTable,
    fit_model,
    with_sums,
)
from dpublish.models.junction_tree.measured import read_measured
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from models.junction_tree.joined_cases import codes_of, planned, released, schema

from .test_joined_histograms import subject, tiny, tiny_method


def test_the_first_pairs_are_counted_without_labels_and_later_ones_as_it_pays() -> None:
    codes = codes_of(40_000)
    method, plan = planned(Cost.approximate(1, "1e-9"), rounds=1)
    output = method.run(SeededNoise(2), codes, plan)
    first = output.facts["rounds"][0]
    assert first > 1
    assert not any(output.facts["by_label"][:first])
    assert any(output.facts["by_label"][first:])  # illness follows age and dose together
    measured = read_measured(plan.settings.domain, output.facts, output.tables)
    table = measured.tables[0]
    truth = np.zeros(table.counts.shape)
    cells = [group[codes[c]] for c, group in zip(table.columns, table.groups, strict=True)]
    np.add.at(truth[..., 0], tuple(cells), 1)
    assert np.abs(table.counts - truth).max() < 7 * np.sqrt(table.variance)
    without, _ = planned(Cost.approximate(1, "1e-9"), rounds=1, target="none")
    assert "by_label" not in without.run(SeededNoise(2), codes, _).facts


@pytest.mark.parametrize("place", [job, structure])
def test_labels_that_count_twice_are_caught_by_replay(
    monkeypatch: pytest.MonkeyPatch, place: Any
) -> None:
    """In the counts that are published, and in the scores of choices."""

    def twice(counts: Any, labels: int) -> Any:
        return counts.reshape(-1, labels) @ np.arange(1, labels + 1)

    shares = {} if place is job else {"choice_share": "1/2", "column_share": "1/4"}
    tested = subject(tiny_method(target="c", **shares), tiny(columns="abc"), Cost.pure(2))
    pairs = list(tested.pairs(rows=2, cells=5))
    if place is job:  # with so few rows no pair would be worth its noise
        monkeypatch.setattr(mechanism, "choose_forest", lambda *_, **__: [(0, 1)])
    assert audit.replay(tested, pairs, runs=1, epsilon=2).passed
    monkeypatch.setattr(place, "without_labels", twice)
    assert not audit.replay(tested, pairs, runs=1, epsilon=2).passed


def test_sums_without_labels_are_combined_as_least_squares_does() -> None:
    rng = np.random.default_rng(3)
    groups = [np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 0, 0])]
    column = MeasuredColumn(rng.normal(50, 9, (5, 3)), 4.0)
    more = [
        GroupSums(groups[0], rng.normal(90, 9, (3, 3)), 2.0),
        GroupSums(groups[1], rng.normal(300, 9, (2, 1)), 5.0),
    ]
    rows, values, weights = [np.eye(15)], [column.counts.ravel()], [np.full(15, 1 / 4.0)]
    for one in more:
        labels = one.sums.shape[1]
        over = (one.group_of == np.arange(one.sums.shape[0])[:, None]).astype(float)
        rows.append(np.kron(over, np.eye(3) if labels == 3 else np.ones((1, 3))))
        values.append(one.sums.ravel())
        weights.append(np.full(one.sums.size, 1 / one.variance))
    design, weight = np.concatenate(rows), np.concatenate(weights)
    precision = design.T @ (weight[:, None] * design)
    best = np.linalg.solve(precision, design.T @ (weight * np.concatenate(values)))
    np.testing.assert_allclose(with_sums(column, more), best.reshape(5, 3), rtol=1e-6)


def test_rows_of_a_table_without_labels_are_split_as_its_columns_demand() -> None:
    """Given the label, the columns are independent: what the counts of all labels together say is
    then all there is to know, and the fit finds it."""
    rng = np.random.default_rng(4)
    split = rng.dirichlet(np.ones(4), 2), rng.dirichlet(np.ones(3), 2)
    labels = np.array([600.0, 400.0])
    truth = np.einsum("ta,tb,t->abt", *split, labels)
    columns = [
        MeasuredColumn(truth.sum(axis=1), 1e-4),
        MeasuredColumn(truth.sum(axis=0), 1e-4),
        None,
    ]
    groups = (np.arange(4), np.arange(3))
    table = MeasuredTable((0, 1), groups, truth.sum(axis=2, keepdims=True), 1e-4)
    model = fit_model(columns, [table], target=2, total=None)
    np.testing.assert_allclose(model.joint([0, 1, 2]), truth, atol=0.1)
    # and where all labels together say something else, that is what comes back
    moved = truth.sum(axis=2, keepdims=True)
    some = moved[:2, :2].min() / 2
    moved[:2, :2, 0] += np.array([[some, -some], [-some, some]])
    model = fit_model(columns, [MeasuredTable((0, 1), groups, moved, 1e-4)], target=2, total=None)
    found = model.joint([0, 1, 2])
    np.testing.assert_allclose(found.sum(axis=2), moved[..., 0], atol=0.5)
    np.testing.assert_allclose(found.sum(axis=1), columns[0].counts, atol=0.5)
    np.testing.assert_allclose(found.sum(axis=0), columns[1].counts, atol=0.5)
    sums = sum_groups(found.reshape(12, 2), np.zeros(12, dtype=np.int64), 1)[0]
    np.testing.assert_allclose(sums, labels, atol=0.5)


def _limits(estimate: Any) -> tuple[float, float]:
    return estimate.low, estimate.high


def test_intervals_of_pairs_without_labels_hold() -> None:
    """30 releases, six questions each at 90%: one about all labels, one about a label, both in a
    table of marginals, and one column in both ways. Of 30, fewer than 22 hold with probability
    below 1e-3 if each does with probability 0.9, and with 0.5 more do with probability below
    1e-2."""
    codes = codes_of(6_000)
    method, plan = planned(Cost.pure(2), rounds=0)
    pair, ill = (codes[1] == 0) & (codes[2] == 1), codes[5] == 1
    wanted = np.array([pair.sum(), (pair & ill).sum()])
    held, counted = np.zeros(6), 0
    for seed in range(30):
        release = released(method.run(SeededNoise(seed), codes, plan), plan)
        if ("region", "city") not in release.pairs:
            continue
        counted += 1
        one = release.estimate("region = 'n' and city = 'n2'", level=0.9)
        other = release.estimate("region = 'n' and city = 'n2' and ill = true", level=0.9)
        assert other.high >= 0
        frames = [
            release.marginal("region", "city", level=0.9),
            release.marginal("region", "city", "ill", level=0.9),
        ]
        found = [_limits(one), _limits(other)]
        for frame, more in zip(frames, ({}, {"ill": "true"}), strict=True):
            asked = {"region": "n", "city": "n2", **more}
            row = frame.filter(*(frame[name].cast(str) == value for name, value in asked.items()))
            found.append((row["low"][0], row["high"][0]))
        north = release.marginal("region", level=0.9)["low", "high"].row(0)
        found += [north, _limits(release.estimate("region = 'n'", level=0.9))]
        truth = [*wanted, *wanted, (codes[1] == 0).sum(), (codes[1] == 0).sum()]
        held += [low <= value <= high for (low, high), value in zip(found, truth, strict=True)]
        assert one.high - one.low < 400  # counted, not bounded
    assert counted >= 25
    assert min(held) >= 0.73 * counted


@pytest.mark.parametrize("said", ["no", [True], [1, 0, 1, 0, 0], 3])
def test_what_does_not_say_which_tables_are_by_label_is_refused(said: Any) -> None:
    method, plan = planned(Cost.pure(2), rounds=0)
    output = method.run(SeededNoise(1), codes_of(5_000), plan)
    with pytest.raises(BundleError, match="by_label"):
        read_measured(plan.settings.domain, {**output.facts, "by_label": said}, output.tables)


def test_columns_have_more_where_pairs_have_little_room() -> None:
    def shares(cost: Cost, rows: int | None) -> tuple[Fraction, Fraction]:
        one = schema()
        if rows is not None:
            one = dp.Schema.from_toml(
                one.to_toml().replace("[dataset]", f"[dataset]\nnominal_size = {rows}")
            )
        found = dp.JoinedHistograms().plan(one, cost).settings
        return found.column_share, found.bin_share

    assert shares(Cost.pure("0.1"), None)[0] == Fraction(3, 5)
    assert shares(Cost.pure(5), None)[0] == Fraction(2, 5)
    assert shares(Cost.pure("0.1"), 10_000_000)[0] == Fraction(2, 5)
    assert shares(Cost.approximate(1, "1e-9"), 300)[0] == Fraction(3, 5)
    fixed = dp.JoinedHistograms(column_share="1/4").plan(schema(), Cost.pure("0.1"))
    assert fixed.settings.column_share == Fraction(1, 4)
    crowded = dp.JoinedHistograms(choice_share="1/2").plan(schema(), Cost.pure("0.1"))
    assert crowded.settings.column_share == Fraction(2, 5)
