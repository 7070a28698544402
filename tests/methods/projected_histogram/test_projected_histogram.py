"""The projected histogram: its law on tiny tables, audits, planted bugs, and a release."""

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
from dpublish.errors import PlanError
from dpublish.methods.base import Output
from dpublish.methods.draws import log_threshold
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
from dpublish.methods.projected_histogram.scores import Purity
from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from methods.projected_histogram.schemas import BITS, bits, schema_of

pytestmark = pytest.mark.usefixtures("compiled_kernels")


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
        free = settings.score.of(settings.score.start(table), [0, 1])[0] > 0
        spent = Fraction(0) if free else settings.selection_epsilon
        return count_projection(noise, table, (0,), settings.after(spent, (0,)), plan.schema)


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
