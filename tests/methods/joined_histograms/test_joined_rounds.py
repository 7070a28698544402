"""The exact law of one round of joined histograms, given what was published before it.

A whole run with a round has too many outcomes to enumerate. What comes before the round is audited
exactly without it (test_joined_histograms.py), and costs add up whatever was published before
(theorem 1 of the proof). So here the earlier steps give a fixed answer, the same for both
neighbours, and every outcome of the round itself is compared: which tables are chosen, and their
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.arrays import Ints
from dpublish.audit.subject import Subject, subject
from dpublish.declare.schema import Schema
from dpublish.methods.joined_histograms import mechanism as module, plan as planning
from dpublish.methods.joined_histograms.rounds import choose_tables
from dpublish.methods.joined_histograms.workload import table_weights
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost

EPSILON = 12
"""Of the whole run: a quarter for choices and a quarter for pairs, half of each for the round."""
CLAIM = Fraction(EPSILON, 2) * module.ROUND_PART

SCHEMA = '[dataset]\nname = "tiny"\nneighbours = "{neighbours}"\n{extra}\n' + "".join(
    f'[columns.{name}]\nkind = "categorical"\nlevels = ["x", "y"]\noutside = "drop"\n'
    for name in "abc"
)
BOTH_RELATIONS = pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 1")]
)


@dataclass
class Published:
    """Takes the place of the taps before the round: the answers are given, whatever the rows."""

    noise: Noise
    rows_a_level: int
    edges: int

    def laplace(self, values: Ints, *, label: str, **amounts: Fraction) -> Ints:
        if label.startswith("round"):
            return self.noise.laplace(values, label=label, **amounts)
        return np.arange(values.size, dtype=np.int64) + self.rows_a_level

    def choose(self, scores: Sequence[int] | Ints, *, label: str, **amounts: Fraction) -> int:
        if label.startswith("round"):
            return self.noise.choose(scores, label=label, **amounts)
        self.edges -= 1
        return 0 if self.edges >= 0 else len(scores) - 1  # the last one is to stop


def a_round(neighbours: str, extra: str, workload: Sequence[str] = ()) -> Subject:
    """Three columns of two levels; groups as fine as can be; no misfit."""
    shares = {
        "column_share": "1/2",
        "choice_share": "1/4",
        "misfit_share": 0,
        "cell_deviations": "1/100",
    }
    method = dp.JoinedHistograms(**shares, rounds=1, workload=workload)  # type: ignore[arg-type]
    return subject(
        method,
        Schema.from_toml(SCHEMA.format(neighbours=neighbours, extra=extra)),
        Cost.pure(EPSILON),
    )


def after(tested: Subject, *, rows_a_level: int, edges: int) -> Callable[[Noise, Any], Any]:
    def mechanism(noise: Noise, rows: Any) -> Any:
        published: Any = Published(noise, rows_a_level, edges)
        return tested(published, rows)

    return mechanism


def of_one_row(tested: Subject) -> list[Any]:
    """Neighbours of one row at most: all by coming and going, and of the many replacements every
    fifth."""
    pairs = list(tested.pairs(rows=1))
    return pairs if len(pairs) < 10 else pairs[::5]


@pytest.fixture(autouse=True)
def one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of a single table: two tables of eight cells are too many to tell apart."""
    monkeypatch.setattr(planning, "STEPS_PER_COLUMN", {"laplace": 0.3})


@BOTH_RELATIONS
@pytest.mark.parametrize(("rows_a_level", "edges"), [(1, 1), (3, 2)])
def test_exact_privacy_of_a_round(
    neighbours: str, extra: str, rows_a_level: int, edges: int
) -> None:
    tested = a_round(neighbours, extra)
    mechanism = after(tested, rows_a_level=rows_a_level, edges=edges)
    report = audit.exact(mechanism, of_one_row(tested), epsilon=CLAIM, window=(0, 1))
    assert report.passed, report.summary()
    assert report.loss >= 1  # the whole of the counts, of which the choice is not always a help


def test_a_round_whose_choice_takes_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*given: Any, share: Fraction, **more: Any) -> Any:
        return choose_tables(*given, share=8 * share, **more)

    tested = a_round("add-remove-one", "")
    monkeypatch.setattr(module, "choose_tables", greedy)
    report = audit.exact(
        after(tested, rows_a_level=1, edges=1), of_one_row(tested), epsilon=CLAIM, window=(0, 1)
    )
    assert not report.passed, report.summary()


WEIGHTED = ["a*b*c", "a:2", "b:2", "c:2"]
"""Columns that weigh 2 each: a three weighs 8 times as much as a pair of others, a pair of these 4
times."""


def law_of_a_triple(
    workload: Sequence[str], pairs: int | None, neighbours: str = "add-remove-one", extra: str = ""
) -> Any:
    tested = a_round(neighbours, extra, workload)
    mechanism = after(tested, rows_a_level=1, edges=1)
    return audit.exact(mechanism, of_one_row(tested)[:pairs], epsilon=CLAIM, window=(0, 1))


def test_exact_privacy_of_a_round_with_a_three() -> None:
    report = law_of_a_triple(WEIGHTED, 1)
    assert report.passed, report.summary()
    assert report.loss > 1.5


@pytest.mark.nightly
@BOTH_RELATIONS
@pytest.mark.parametrize("workload", [["a*b*c"], WEIGHTED], ids=["plain", "weighted columns"])
def test_exact_privacy_of_a_round_with_a_triple_on_all_pairs(
    neighbours: str, extra: str, workload: list[str]
) -> None:
    report = law_of_a_triple(workload, None, neighbours, extra)
    assert report.passed, report.summary()


def test_a_triple_that_outweighs_what_was_declared_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The weight of the heaviest pair is not enough for a choice among triples too."""

    def of_pairs(settings: Any) -> Any:
        weights, _ = table_weights(settings)
        return weights, max(weight for table, weight in weights.items() if len(table) == 2)

    monkeypatch.setattr(module, "table_weights", of_pairs)
    report = law_of_a_triple(WEIGHTED, 1)
    assert not report.passed, report.summary()
