"""The library's own methods as subjects: planned as the gate plans them, on tiny inputs of both
relations."""

from __future__ import annotations

import pytest

from dpublish import audit
from dpublish.declare.schema import Schema
from dpublish.errors import InputError
from dpublish.methods.histogram.mechanism import Histogram
from dpublish.privacy.cost import Cost

TINY = """
[dataset]
name = "tiny"
neighbours = "{neighbours}"
{extra}

[columns.colour]
kind = "categorical"
levels = ["red", "blue"]
outside = "drop"
"""


def tiny(neighbours: str, extra: str) -> Schema:
    return Schema.from_toml(TINY.format(neighbours=neighbours, extra=extra))


@pytest.mark.parametrize(
    ("neighbours", "extra"), [("replace-one", "size = 2"), ("add-remove-one", "nominal_size = 2")]
)
def test_histogram_survives_exact_and_replay(neighbours: str, extra: str) -> None:
    subject = audit.subject(
        Histogram(threshold=1, count_share=0), tiny(neighbours, extra), Cost.pure(1)
    )
    pairs = list(subject.pairs(rows=2))
    exact = audit.exact(subject, pairs, epsilon=subject.epsilon, window=(-2, 4))
    assert exact.passed, exact.summary()
    assert exact.mechanism == "histogram"
    assert exact.loss > 0.5
    replay = audit.replay(subject, pairs, epsilon=subject.epsilon, runs=5)
    assert replay.passed, replay.summary()
    assert replay.loss == 1


def test_a_claim_below_the_cost_is_refuted() -> None:
    subject = audit.subject(Histogram(threshold=1), tiny("replace-one", "size = 2"), Cost.pure(1))
    pairs = list(subject.pairs(rows=2))
    assert not audit.exact(subject, pairs, epsilon="1/2", window=(-2, 4)).passed
    assert not audit.replay(subject, pairs, epsilon="1/2").passed


def test_units_with_several_rows() -> None:
    unit = 'unit = "person"\nmax_rows_per_unit = 2\nsize = 1'
    person = '\n[columns.person]\nkind = "categorical"\nlevels = ["a", "b"]\noutside = "drop"\n'
    schema = Schema.from_toml(TINY.format(neighbours="replace-one", extra=unit) + person)
    subject = audit.subject(
        Histogram(columns=["colour"], threshold=1, count_share=0), schema, Cost.pure(1)
    )
    pairs = list(subject.pairs(rows=2))
    assert max(len(rows) for pair in pairs for rows in pair) == 2
    report = audit.replay(subject, pairs, epsilon=1)
    assert report.passed, report.summary()
    assert report.loss == 1


def test_numbers_are_what_the_private_side_counts() -> None:
    subject = audit.subject(Histogram(threshold=1), tiny("replace-one", "size = 3"), Cost.pure(1))
    numbers = subject.numbers((1, 0, 1))
    assert numbers.cells.tolist() == [0, 1]
    assert numbers.counts.tolist() == [1, 2]


def test_large_domains_are_refused() -> None:
    schema = Schema.from_toml(
        '[dataset]\nname = "wide"\nsize = 9\n[columns.x]\nkind = "integer"\nlower = 0\nupper = '
        "99999\nbins = 100000\n"
    )
    with pytest.raises(InputError, match="smaller schema"):
        audit.subject(Histogram(), schema, Cost.pure(1))
